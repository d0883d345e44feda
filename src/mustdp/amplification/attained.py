"""Values attained by concrete neighbouring data sets: certified lower bounds.

With contributions of size C, shift s per copy and multiplicity law p, three families of pairs:

    aligned    v = +C, everybody else and v' = -C:   sum_j p_j N(j s)    against  N(0)
    reversed   the same pair, swapped:               N(0)                against  sum_j p_j N(j s)
    symmetric  v = +C, v' = -C, all others 0:        sum_j p_j N(j s/2)  against  sum_j p_j N(-j s/2)

N stands for the noise, in one dimension. Likelihood ratios are monotone, so the best set is a
half-line; its end t is found numerically, and *any* t gives a valid lower bound. What rounding, the
error of the law and the mass it left out can take away is subtracted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustdp.mechanisms.noise import Noise
from mustdp.numerics.roots import increasing_root
from mustdp.sampling.law import MultiplicityLaw

FloatArray = NDArray[np.float64]
Rows = NDArray[np.intp]

_PROFILE_ERROR = 1e-11
_ROUNDOFF = 2.0**-53


def aligned(law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray) -> FloatArray:
    """H(sum_j p_j N(j s) || N(0)) at e^epsilon, epsilon >= 0, rounded down."""
    p, distance = law.positive, law.positive_values * shift
    if p.size == 0:
        return np.zeros(epsilon.size)
    goal = epsilon + np.log(-np.expm1(-epsilon) * law.zero + law.eta)  # log(alpha - p_0)
    t = _half_line(p, distance, noise, goal)
    logs = noise.log_ratio(distance, t[:, None])[0]
    false_alarm = noise.tail(t)
    with np.errstate(over="ignore"):
        weight = np.exp(goal)
        surplus = np.exp(logs) @ p - weight
    value = noise.profile(distance, logs) @ p + np.where(false_alarm > 0, surplus, 0) * false_alarm
    # Components the law left out belong to the first side only: they can but add.
    return _down(value, value + weight * false_alarm, law)


def reversed_pair(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> FloatArray:
    """H(N(0) || sum_j p_j N(j s)) at e^epsilon, epsilon >= 0, rounded down."""
    p, distance = law.positive, law.positive_values * shift
    out = np.zeros(epsilon.size)
    with np.errstate(over="ignore"):
        needed = law.eta - law.zero * np.expm1(epsilon)  # 1 - alpha p_0
    live = np.flatnonzero(needed > 0)
    if p.size == 0 or live.size == 0:
        return out
    goal = np.log(needed[live]) - epsilon[live]
    t = _half_line(p, distance, noise, goal)
    logs = noise.log_ratio(distance, t[:, None])[0]
    weights = np.exp(logs + epsilon[live, None]) * p
    below = noise.tail(-t)
    value = (weights * noise.profile(distance, -logs)).sum(axis=1)
    value += (needed[live] - weights.sum(axis=1)) * below
    out[live] = _down(value - np.exp(epsilon[live]) * law.cut, below, law)
    return out


def symmetric(law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray) -> FloatArray:
    """H(sum_j p_j N(j s/2) || sum_j p_j N(-j s/2)) at e^epsilon, epsilon >= 0, rounded down."""
    value, scale = symmetric_pair(law, noise, shift, epsilon)
    return _down(value - np.exp(epsilon) * law.cut, scale, law)


def symmetric_pair(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The symmetric value and the size of the terms it was summed from (for rounding)."""
    p, distance = law.probabilities, law.values.astype(np.float64) * (shift / 2.0)
    if law.positive.size == 0:
        return np.zeros(epsilon.size), np.zeros(epsilon.size)
    log_p = np.log(p)

    def excess(t: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
        up, up_speed = noise.log_ratio(distance, t[:, None])
        down, down_speed = noise.log_ratio(distance, -t[:, None])
        high, high_speed = _log_sum(up + log_p, up_speed)
        low, low_speed = _log_sum(down + log_p, down_speed)
        return high - low - epsilon[rows], high_speed + low_speed

    # For t >= 0 the lower side sums to at most one, so a single term of the upper side suffices.
    moved = distance > 0
    share = epsilon[:, None] - log_p[moved]
    far = noise.threshold(distance[moved], share).min(axis=1)
    far = np.minimum(far, noise.saturation(float(distance[-1])))
    t = increasing_root(excess, np.zeros(epsilon.size), np.maximum(far, 0.0))
    alpha = np.exp(epsilon)
    hit = noise.tail(t[:, None] - distance) @ p
    miss = noise.tail(t[:, None] + distance) @ p
    return np.maximum(hit - alpha * miss, 0.0), hit + alpha * miss


def _half_line(p: FloatArray, distance: FloatArray, noise: Noise, goal: FloatArray) -> FloatArray:
    """The t with log sum_j p_j exp(log_ratio(distance_j, t)) = goal."""
    log_p = np.log(p)

    def excess(t: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
        logs, speed = noise.log_ratio(distance, t[:, None])
        value, derivative = _log_sum(logs + log_p, speed)
        return value - goal[rows], derivative

    share = goal[:, None] - log_p
    high = np.minimum(
        noise.threshold(distance, share).min(axis=1), noise.saturation(float(distance[-1]))
    )
    low = noise.threshold(distance, share - np.log(p.size)).min(axis=1)
    high = np.where(np.isfinite(high), high, 0.0)
    low = np.where(np.isfinite(low), np.minimum(low, high), np.minimum(high, 0.0) - 1.0)
    return increasing_root(excess, low, high)


def _log_sum(logs: FloatArray, speed: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log of the sum of exponentials along each row, and its derivative."""
    top = logs.max(axis=1)
    weights = np.exp(logs - top[:, None])
    total = weights.sum(axis=1)
    return np.log(total) + top, (weights * speed).sum(axis=1) / total


def _down(value: FloatArray, scale: FloatArray, law: MultiplicityLaw) -> FloatArray:
    """Subtract what rounding and the error of the law can have added."""
    error = 4.0 * law.relative_error + 8.0 * (law.probabilities.size + 4) * _ROUNDOFF
    lowered = value * (1.0 - _PROFILE_ERROR) - error * scale
    return np.clip(np.nan_to_num(lowered, nan=0.0), 0.0, 1.0)
