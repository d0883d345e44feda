"""Poisson sampling when one record is replaced: exact for noise on a bounded sum.

A record is taken with chance q and then moves the sum by at most half the shift s away from where
it stands without that record; swapping it moves the sum by at most s. (This is so for contributions
in a ball, of which s is the diameter. A shift that was stated says nothing of the kind: a count of
ones and zeros moves by s when a one is left out. It gets the general certificate.) For a set S let
x, x', x_0 be its probabilities with the record taken, with its substitute taken, with neither. For
any shares w + w_0 = 1 and slopes beta, beta_0,

    x <= w (delta_s(beta) + beta x') + w_0 (delta_{s/2}(beta_0) + beta_0 x_0),

so with w beta = alpha and q w_0 beta_0 = (alpha - 1)(1 - q) the terms in x' and x_0 vanish from
P(S) - alpha Q(S) = q x - alpha q x' - (alpha - 1)(1 - q) x_0, and

    h(alpha) <= q (w delta_s(alpha/w) + w_0 delta_{s/2}((alpha - 1)(1 - q)/(q w_0))).

Any shares are a certificate. The best ones are read off the threshold of the pair
(1-q) N(0) + q N(s/2) against (1-q) N(0) + q N(-s/2), which attains the bound: it is the dominating
pair of Lebeda, Regehr, Kamath & Steinke 2024, arXiv 2405.20769v1.
"""

from __future__ import annotations

import numpy as np

from mustdp.amplification.attained import symmetric_threshold
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.noise import Noise
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.sampling.law import MultiplicityLaw

_PROFILE_ERROR = 1e-11


def replace_one_record(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> FloatArray:
    """Upper bound at e^epsilon, epsilon >= 0, for the law of one record under Poisson sampling."""
    if law.positive.size == 0:
        return np.full(epsilon.size, law.cut)
    taken = float(law.positive[0])
    half = np.asarray(shift / 2.0)
    whole = np.asarray(shift)
    t = symmetric_threshold(law, noise, shift, epsilon)
    with np.errstate(divide="ignore"):
        # log of (alpha - 1)(1 - q)/q, which is -inf for alpha = 1 and for q = 1
        idle = epsilon + np.log(-np.expm1(-epsilon)) + np.log(law.zero) - np.log(taken)
    share = epsilon - noise.log_ratio(whole, t + half)[0]
    share_idle = idle - noise.log_ratio(half, t)[0]
    total = np.logaddexp(share, share_idle)
    share, share_idle = share - total, share_idle - total
    # Rounding may have used up to a few units in the last place of every logarithm involved.
    room = 8.0 * ROUNDOFF * (8.0 + epsilon + abs(np.log(taken)) + np.abs(total))
    swapped = np.exp(share) * _value(noise, whole, epsilon - share - room)
    used = np.isfinite(share_idle)
    against_idle = np.where(used, idle - np.where(used, share_idle, 0.0) - room, 0.0)
    removed = np.where(used, np.exp(share_idle) * _value(noise, half, against_idle), 0.0)
    bound = taken * (swapped + removed) * (1.0 + _PROFILE_ERROR + 4.0 * law.relative_error)
    if not np.all(bound >= 0):
        raise NumericalFailure(f"no bound found for epsilon={epsilon[:3]!r} at shift {shift!r}")
    return np.asarray(np.minimum(bound + law.cut, 1.0))


def _value(noise: Noise, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
    return np.maximum(noise.profile(distance, epsilon), noise.smallest)
