"""Poisson sampling when records are replaced: exact for noise on a bounded sum, for groups too.

J of the g records are taken, P(J = j) = rho_j, binomial; each of them moves the sum by at most half
the shift s away from where it stands without them. (This is so for contributions in a ball, of
which s is the diameter. A shift that was stated says nothing of the kind: a count of ones and zeros
moves by s when a one is left out. It gets the general certificate.) For a set S let x_j be its
probability with j of the records taken, w_i with i of their substitutes, x_0 = w_0. Any j of the
ones and any i of the others move the sum apart by at most (i + j) s/2, so for all beta

    x_j <= delta_{(i+j) s/2}(beta) + beta w_i.

With cap_0 = (alpha - 1) rho_0 and cap_i = alpha rho_i, let any shares lambda_i sum to one and any
u_j > 0 be given. With beta_ji = (cap_i / lambda_i) u_j / sum_k rho_k u_k the terms in w_i vanish
from P(S) - alpha Q(S) = sum_j rho_j x_j - sum_i cap_i w_i (over j >= 1, i >= 0), and

    h(alpha) <= sum_i lambda_i sum_{j>=1} rho_j delta_{(i+j) s/2}(beta_ji).

The best choice is read off the threshold t of the pair sum_j rho_j N(j s/2) against
sum_i rho_i N(-i s/2): u_j = f(t - j s/2), lambda_i in proportion to cap_i f(t + i s/2). All beta_ji
are then the likelihood ratios at t, and the bound is attained by that pair. For g = 1 it is the
dominating pair of Lebeda, Regehr, Kamath & Steinke 2024, arXiv 2405.20769v1.
"""

from __future__ import annotations

import numpy as np

from mustdp.amplification.attained import symmetric_threshold
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.noise import Noise
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.sampling.law import MultiplicityLaw

_PROFILE_ERROR = 1e-11
#: Wider laws are coarsened upwards: cells of multiplicities stand for the largest of them.
MOST_TAKEN = 128
_LARGEST_CUBE = 2_000_000


def replaced_records(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> FloatArray:
    """Upper bound at e^epsilon, epsilon >= 0, for the law of the records under Poisson sampling."""
    if law.positive.size == 0:
        return np.full(epsilon.size, law.cut)
    law = law.coarsened(MOST_TAKEN, up=True)
    chunk = max(1, _LARGEST_CUBE // (law.positive.size * (law.positive.size + 1)))
    parts = [
        _replaced(law, noise, shift, epsilon[start : start + chunk])
        for start in range(0, epsilon.size, chunk)
    ]
    return np.concatenate([np.empty(0), *parts])


def _replaced(law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray) -> FloatArray:
    half = shift / 2.0
    rho, taken = law.positive, law.positive_values
    t = symmetric_threshold(law, noise, shift, epsilon)[:, None]
    # Shares of the records taken: log of u_j / sum_k rho_k u_k.
    u = noise.log_ratio(taken * half, t)[0]
    u = u - _log_sum(u + np.log(rho))
    with np.errstate(divide="ignore"):
        # log of (alpha - 1) rho_0, which is -inf for alpha = 1 and for rho_0 = 0
        idle = epsilon + np.log(-np.expm1(-epsilon)) + np.log(law.zero)
    caps = np.column_stack([idle, epsilon[:, None] + np.log(rho)])
    others = np.append(0.0, taken)
    away = np.column_stack([np.zeros(epsilon.size), noise.log_ratio(taken * half, -t)[0]])
    shares = caps + away
    shares = shares - _log_sum(shares)
    used = np.isfinite(shares)
    level = np.where(used, caps - np.where(used, shares, 0.0), 0.0)
    betas = level[:, :, None] + u[:, None, :]
    # Rounding may have used up to a few units in the last place of every logarithm involved.
    size = 16.0 + 2.0 * others.size + epsilon[:, None, None] + np.abs(betas)
    size = size + np.abs(level)[:, :, None] + 2.0 * np.abs(u)[:, None, :]
    size = size + np.abs(np.where(used, shares, 0.0))[:, :, None] - np.log(rho)
    room = 8.0 * ROUNDOFF * size + 2.0 * law.relative_error
    distance = (others[:, None] + taken) * half
    values = np.maximum(noise.profile(distance, betas - room), noise.smallest)
    bound = np.einsum("ei,eij,j->e", np.exp(shares), values, rho)
    rounding = _PROFILE_ERROR + 4.0 * law.relative_error + 8.0 * others.size * ROUNDOFF
    bound = bound * (1.0 + rounding)
    if not np.all(bound >= 0):
        raise NumericalFailure(f"no bound found for epsilon={epsilon[:3]!r} at shift {shift!r}")
    return np.asarray(np.minimum(bound + law.cut, 1.0))


def _log_sum(logs: FloatArray) -> FloatArray:
    """Log of the sum of exponentials along each row, as a column."""
    top = logs.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(logs - top).sum(axis=1, keepdims=True)) + top)
