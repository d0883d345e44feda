"""The paper's delta' of one release: Theorem 4 at the noise of the classical formula.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389, Tables 2 and 4. No guarantee: the noise is computed for a
statistic of all n records and added to one of m.
"""

from __future__ import annotations

from mustdp.amplification.one_slope import amplified_delta, base_epsilon
from mustdp.mechanisms.gaussian_sigma import classical_sigma
from mustdp.mechanisms.mechanism import gaussian
from mustdp.sampling.scheme import Scheme


def theorem_delta(
    scheme: Scheme, epsilon_prime: float, delta: float, *, noise_for: float, sensitivity: float
) -> float:
    """Delta' at the noise for ``epsilon_prime`` and the base ``delta``.

    The noise is computed for one sensitivity, and the profiles are of another or of the same.
    """
    base = base_epsilon(epsilon_prime, scheme.eta)
    shift = sensitivity / classical_sigma(float(base[0]), delta, noise_for, beyond_proof=True)
    profiles = gaussian(shift=shift).profiles(shift)
    return float(amplified_delta(scheme.law(), profiles, base)[0])
