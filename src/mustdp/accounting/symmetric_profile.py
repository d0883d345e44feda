"""The profile of the symmetric pair of the MUST paper (``paper.py``), rounded up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mustdp.amplification.attained import symmetric_threshold
from mustdp.errors import NumericalFailure
from mustdp.loss.pairs import Mixture
from mustdp.mechanisms.noise import Noise
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.sampling.law import MultiplicityLaw

_PROFILE_ERROR = 1e-11
_BLOCK = 1_000_000


@dataclass(frozen=True, eq=False)
class SymmetricProfile:
    """The profile of the symmetric pair as a function of many epsilons, worked off in blocks."""

    law: MultiplicityLaw
    noise: Noise
    shift: float

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        rows = max(1, _BLOCK // self.law.probabilities.size)
        blocks = [epsilon[start : start + rows] for start in range(0, epsilon.size, rows)]
        parts = [symmetric_above(self.law, self.noise, self.shift, block) for block in blocks]
        return np.concatenate(parts)


def symmetric_above(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> FloatArray:
    """H(sum_j p_j N(j s/2) || sum_j p_j N(-j s/2)) at e^epsilon, epsilon >= 0, rounded up.

    With d_j = j s/2 and u_j, v_j the log ratios of N(d_j) and N(-d_j) against N(0) at t, the half-
    line above t is best for alpha(t) = sum p_j e^{u_j} / sum p_j e^{v_j}, and there

        h(alpha) = sum_j p_j delta_{d_j}(u_j) + alpha sum_j p_j e^{v_j} delta_{d_j}(-v_j),

    a sum of positive terms. Profiles decrease, so any t with alpha(t) <= e^epsilon bounds h from
    above. An error e of the law on both sides costs another factor (1 - e)/(1 + e) of alpha.
    """
    occurs = law.probabilities > 0
    p = law.probabilities[occurs]
    distance = law.values[occurs].astype(np.float64) * (shift / 2.0)
    mixture = Mixture(p, distance)
    t = symmetric_threshold(law, noise, shift, epsilon)
    _, found, slope = loss_at(noise, mixture, mixture, t)
    nats = 64.0 + epsilon + distance.max() * (np.abs(t) + distance.max())
    rounding = ROUNDOFF * (8.0 * nats + 4.0 * p.size)
    aim = epsilon - 4.0 * law.relative_error - 4.0 * rounding
    t = t - np.maximum(found - aim, 0.0) / slope
    below = loss_at(noise, mixture, mixture, t)[1] + rounding
    if not np.all(below <= epsilon - 3.0 * law.relative_error):
        worst = int(np.argmax(below - epsilon))
        raise NumericalFailure(
            f"the profile of the symmetric pair could not be rounded up at epsilon = "
            f"{epsilon[worst]!r} (threshold {t[worst]!r}, loss {below[worst]!r})"
        )
    p, d = p[distance > 0], distance[distance > 0]
    up, down = noise.log_ratio(d, t[:, None])[0], noise.log_ratio(d, -t[:, None])[0]
    room = rounding[:, None]
    first = np.maximum(noise.profile(d, up - room), noise.smallest)
    second = np.maximum(noise.profile(d, -down - room), noise.smallest)
    value = first @ p + (np.exp(below[:, None] + down + room) * second) @ p
    value = value * (1.0 + _PROFILE_ERROR + 2.0 * law.relative_error) + law.cut
    return np.asarray(np.minimum(value, 1.0))


def loss_at(
    noise: Noise, p: Mixture, q: Mixture, x: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of ``p`` to the right against ``q`` to the left: log dP/dN(0), log dP/dQ and its slope."""
    high, rise = _log_sum(noise, p, x)
    low, fall = _log_sum(noise, q, -x)
    return high, high - low, rise + fall


def _log_sum(noise: Noise, mixture: Mixture, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    logs, speed = noise.log_ratio(mixture.distances, x[:, None])
    logs = logs + np.log(mixture.weights)
    top = logs.max(axis=1)
    weights = np.exp(logs - top[:, None])
    total = weights.sum(axis=1)
    return top + np.log(total), (weights * speed).sum(axis=1) / total
