"""Values attained by concrete neighbouring data sets: certified lower bounds.

With contributions of size C, shift s per copy and multiplicity law p, three families of pairs:

    aligned    v = +C, everybody else and v' = -C:  sum_j p_j N(j s)    against  N(0)
    reversed   the same pair, swapped:              N(0)                against  sum_j p_j N(j s)
    symmetric  v = +C, v' = -C, all others 0:       sum_j p_j N(j s/2)  against  sum_j p_j N(-j s/2)

N stands for the noise, in one dimension. Likelihood ratios are monotone, so the best set is a
half-line; its end t is found numerically, and *any* t gives a valid lower bound. With L_j the log
likelihood ratio of component j against N(0) at t, each value is written as a sum of profiles of the
noise at L_j, which are positive, plus a remainder that vanishes at the best t: nothing cancels, and
products of something huge with something tiny are formed in logarithms. What rounding, the error of
the law and the mass it left out can take away is subtracted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustdp.mechanisms.contract import PROFILE_ERROR
from mustdp.mechanisms.mechanism import Noise
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.convex import increasing_root
from mustdp.sampling.law import MultiplicityLaw

Rows = NDArray[np.intp]


def aligned(law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray) -> FloatArray:
    """H(sum_j p_j N(j s) || N(0)) at e^epsilon, epsilon >= 0, rounded down."""
    p, distance = _moved(law, shift)
    if p.size == 0:
        return np.zeros(epsilon.size)
    goal = epsilon + np.log(-np.expm1(-epsilon) * law.zero + law.eta)  # log(alpha - p_0)
    t = _half_line(p, distance, noise, goal)
    logs = noise.log_ratio(distance, t[:, None])[0]
    false_alarm = noise.log_tail(t)
    gained = np.exp(logs + false_alarm[:, None]) @ p
    # Components the law left out can but add to the first side; the second side is whole.
    lost = np.exp(goal + false_alarm) + law.cut * np.exp(epsilon + false_alarm)
    value = noise.profile(distance, logs) @ p + (gained - lost)
    nats = epsilon + np.maximum(logs.max(axis=1), 0.0) + np.abs(false_alarm)
    return _down(value, gained + lost, nats, law)


def reversed_pair(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> FloatArray:
    """H(N(0) || sum_j p_j N(j s)) at e^epsilon, epsilon >= 0, rounded down."""
    p, distance = _moved(law, shift)
    out = np.zeros(epsilon.size)
    with np.errstate(over="ignore"):
        needed = law.eta - law.zero * np.expm1(epsilon)  # 1 - alpha p_0
    live = np.flatnonzero(needed > 0)
    if p.size == 0 or live.size == 0:
        return out
    goal = np.log(needed[live]) - epsilon[live]
    t = _half_line(p, distance, noise, goal)
    logs = noise.log_ratio(distance, t[:, None])[0]
    with np.errstate(over="ignore"):
        weights = np.exp(logs + epsilon[live, None] + np.log(p))
        below = noise.tail(-t)
        value = (weights * noise.profile(distance, -logs)).sum(axis=1)
        value += (needed[live] - weights.sum(axis=1)) * below
        scale = (law.eta + weights.sum(axis=1)) * below
        nats = 2.0 * epsilon[live] - np.log(p.min())
        out[live] = _down(value - np.exp(epsilon[live]) * law.cut, scale, nats, law)
    return out


def symmetric(law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray) -> FloatArray:
    """H(sum_j p_j N(j s/2) || sum_j p_j N(-j s/2)) at e^epsilon, epsilon >= 0, rounded down."""
    moved, distance = _moved(law, shift / 2.0)
    if moved.size == 0:
        return np.zeros(epsilon.size)
    t = symmetric_threshold(law, noise, shift, epsilon)
    up = noise.log_ratio(distance, t[:, None])[0]
    down = noise.log_ratio(distance, -t[:, None])[0]
    tail, alpha = noise.log_tail(t), np.exp(epsilon)
    value = noise.profile(distance, up) @ moved
    value += alpha * ((np.exp(down) * noise.profile(distance, -down)) @ moved)
    gained = np.exp(up + tail[:, None]) @ moved
    lost = np.exp(down + (epsilon + tail)[:, None]) @ moved
    still = law.zero * np.exp(epsilon + tail)
    value += (gained - lost) + still * np.expm1(-epsilon)
    nats = epsilon + np.maximum(up.max(axis=1), 0.0) + np.abs(tail)
    remainder = gained + lost - 2.0 * still * np.expm1(-epsilon)
    return _down(value - alpha * law.cut, remainder, nats, law)


def symmetric_threshold(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> FloatArray:
    """The t from which on the first side of the symmetric pair is e^epsilon times as dense."""
    p, distance = _moved(law, shift / 2.0)
    if law.zero > 0:
        p, distance = np.append(p, law.zero), np.append(distance, 0.0)
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
    far = np.minimum(far, noise.saturation(float(distance.max())))
    return increasing_root(excess, np.zeros(epsilon.size), np.maximum(far, 0.0))


def _moved(law: MultiplicityLaw, shift: float) -> tuple[FloatArray, FloatArray]:
    """Weights of the components that are moved at all, and how far."""
    return law.positive, law.positive_values * shift


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


def _down(
    value: FloatArray, remainder: FloatArray, nats: FloatArray, law: MultiplicityLaw
) -> FloatArray:
    """Subtract what rounding and the error of the law can have added.

    ``remainder`` is the size of the terms that nearly cancel; they are exponentials of sums of
    numbers of size ``nats``.
    """
    rounding = 8.0 * (law.probabilities.size + 16.0) * ROUNDOFF
    error = (4.0 * law.relative_error + rounding) * (np.abs(value) + remainder)
    lowered = value * (1.0 - PROFILE_ERROR) - error - 8.0 * ROUNDOFF * nats * remainder
    return np.where(np.isfinite(lowered), np.clip(lowered, 0.0, 1.0), 0.0)
