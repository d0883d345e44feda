"""The paper's delta' of one release: Theorem 4 at the noise of the classical formula.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389, Tables 2 and 4. No guarantee: the noise is computed for a
statistic of all n records and added to one of m.
"""

from __future__ import annotations

from mustdp.amplification.section4 import amplified_delta, base_epsilon
from mustdp.mechanisms.gaussian_sigma import classical_sigma
from mustdp.mechanisms.mechanism import gaussian
from mustdp.sampling.scheme import Scheme


def theorem_delta(
    scheme: Scheme, epsilon_prime: float, delta: float, *, sensitivity: float = 1.0
) -> float:
    """Delta' at the noise for ``epsilon_prime`` and the base ``delta``.

    ``sensitivity`` is taken for the profiles, in units of the one that the noise is computed for.
    """
    base = base_epsilon(epsilon_prime, scheme.eta)
    shift = sensitivity / classical_sigma(float(base[0]), delta, 1.0, beyond_proof=True)
    profiles = gaussian(shift=shift).profiles(shift)
    return float(amplified_delta(scheme.law(), profiles, base)[0])
