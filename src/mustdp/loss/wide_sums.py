"""Sums of few variables of very different sizes: E(sum - y)_+ from above and from below.

With little noise D = X - alpha X' (``amplification/allocation.py``) is c sinh(s g - eps/2) for a
standard normal g, alpha = e^eps and c = 2 e^{eps/2 - s^2/2}: it spreads over many orders of
magnitude, and no linear grid holds a sum of few of them. So both live on the points c sinh(j h),
even near zero and geometric beyond.

- Above, what falls between two points moves to both, which keeps the mean and is larger in convex
  order (as in ``linear_laws.py``). Where sums of two points fall does not depend on alpha: it is
  worked out once.
- Below, what falls into a cell is merged into its mean, which is smaller in convex order.

Either is done once for D and once per addition; sums keep both orders. Terms below the first point
leave a sum that cannot be positive; those beyond the last one pay their expectation. All terms are
positive, and every rounding is covered by a margin of 1e-9, far more than the number of terms times
the unit roundoff (docs/derivations/epochs.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from mustdp.numerics.arrays import FloatArray

#: About how many points there are, and the least distance h.
_POINTS, _FINEST = 1500, 0.01
#: How far out g is followed, under either law.
_FAR = 9.5
_MARGIN = 1e-9
_UP, _DOWN = 1.0 + _MARGIN, 1.0 - _MARGIN
#: Sums of two points are known to a few roundings of either one.
_HAIR = 4e-15
#: Chances below are nothing, whatever they are of; what all of them may have paid.
_NOTHING, _PAID = 1e-280, 1e-180


class WideSum:
    """The sum of ``count`` variables D with the shift s, for any alpha."""

    def __init__(self, shift: float, count: int, fine: float = 1.0) -> None:
        """The grid is ``fine`` times as fine as usual."""
        self._shift, self._count = shift, count
        reach = shift * (_FAR + shift)
        self._h = max(_FINEST, 2.0 * (reach + math.log(count)) / _POINTS) / fine
        #: D ends at this point; sums of ``count`` of these, each a point too far, are on the grid.
        self._top = math.ceil(reach / self._h)
        more = math.ceil(math.log(count) / self._h) + 2 * count.bit_length() + 2
        self._last = self._top + more

    def upper(self, epsilon: float, y: float) -> float:
        """A bound of E(sum - y)_+ from above, y >= 0."""
        masses, beyond = self._above(epsilon)
        total = _repeated(masses, self._count, _additions(self._h, self._last).above)
        scale = self._scale(epsilon)
        payoff = np.maximum(_points(self._h, self._last) - y * (1.0 - _HAIR) / scale, 0.0)
        grown = max(1.0, float(masses.sum())) ** self._count
        paid = float(total @ payoff) * scale + self._count * beyond * grown
        return (paid + _PAID) * _UP**4

    def lower(self, epsilon: float, y: float) -> float:
        """A bound of E(sum - y)_+ from below, y >= 0."""
        chance, mean = _repeated(self._below(epsilon), self._count, self._merged)
        scale = self._scale(epsilon)
        payoff = np.maximum(mean - y * (1.0 + _HAIR) / scale, 0.0)
        return float(chance @ payoff) * scale * _DOWN**4

    def _scale(self, epsilon: float) -> float:
        return 2.0 * math.exp(0.5 * epsilon - 0.5 * self._shift**2)

    def _cells(self, epsilon: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Points, the chances of the cells around them, and D's means there in units of c."""
        s, ends = self._shift, np.arange(-self._last, self._top + 1) * self._h
        g = np.concatenate([[-np.inf], (ends + 0.5 * epsilon) / s, [np.inf]])
        chance = _between(g)
        moment = _between(g - s) - math.exp(epsilon) * _between(g + s)
        points = np.sinh(ends)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mean = moment / (self._scale(epsilon) * chance)
        return points, chance, np.where(chance > _NOTHING, mean, np.append(points[0], points))

    def _above(self, epsilon: float) -> tuple[FloatArray, float]:
        """Chances of the points, and what D pays beyond the last one."""
        points, chance, mean = self._cells(epsilon)
        right = np.clip((mean[1:-1] - points[:-1]) / np.diff(points) + _MARGIN, 0.0, 1.0)
        found = np.zeros(2 * self._last + 1)
        found[: points.size - 1] = chance[1:-1] * (1.0 - right)
        found[1 : points.size] += chance[1:-1] * right
        found[0] += chance[0]
        found[points.size - 1] += chance[-1]
        s = self._shift
        return found * _UP, float(ndtr(s - (self._top * self._h + 0.5 * epsilon) / s)) * _UP

    def _below(self, epsilon: float) -> FloatArray:
        """Chances and means of the cells, both rounded down."""
        _, chance, mean = self._cells(epsilon)
        return _rounded_down(chance, mean)

    def _merged(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Chances and means of the sums of two variables, by cells around the points."""
        (p, a), (q, b) = one, other
        sums = np.add.outer(a - _HAIR * np.abs(a), b - _HAIR * np.abs(b)).ravel()
        place = np.clip(np.rint(np.arcsinh(sums) / self._h), -self._last, self._last)
        number, size = (place + self._last).astype(np.int64), 2 * self._last + 1
        weights = np.outer(p, q).ravel()
        chance = np.bincount(number, weights, size)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.bincount(number, weights * sums, size) / chance
        return _rounded_down(np.asarray(chance, float), np.where(chance > _NOTHING, mean, 0.0))


class _Additions:
    """Where sums of two points fall, and the share of their right neighbour."""

    def __init__(self, h: float, last: int) -> None:
        points = _points(h, last)
        raised = points + _HAIR * np.abs(points)
        sums = np.add.outer(raised, raised).ravel()
        place = np.clip(np.searchsorted(points, sums, side="right") - 1, 0, points.size - 2)
        self._place, self._size = place, points.size
        share = (sums - points[place]) / (points[place + 1] - points[place])
        self._right = np.clip(share + _MARGIN, 0.0, 1.0)

    def above(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Chances of the sums of two variables, moved to the points."""
        weights = np.outer(one, other).ravel()
        right = weights * self._right
        found = np.bincount(self._place, weights - right, self._size)
        found = found + np.bincount(self._place + 1, right, self._size)
        return np.asarray(found * _UP)


@lru_cache(maxsize=2)
def _additions(h: float, last: int) -> _Additions:
    return _Additions(h, last)


def _points(h: float, last: int) -> FloatArray:
    return np.asarray(np.sinh(np.arange(-last, last + 1) * h))


def _repeated(
    law: FloatArray, count: int, add: Callable[[FloatArray, FloatArray], FloatArray]
) -> FloatArray:
    """The law of the sum of ``count`` variables, by doubling."""
    total: FloatArray | None = None
    while True:
        if count % 2:
            total = law if total is None else add(total, law)
        count //= 2
        if total is not None and not count:
            return total
        law = add(law, law)


def _rounded_down(chance: FloatArray, mean: FloatArray) -> FloatArray:
    room = _MARGIN * np.sqrt(1.0 + np.square(mean))
    return np.stack([np.where(chance > _NOTHING, chance * _DOWN, 0.0), mean - room])


def _between(g: FloatArray) -> FloatArray:
    """Chances of a standard normal variable between neighbouring points, off the nearer tail."""
    left, right = np.asarray(ndtr(g)), np.asarray(ndtr(-g))
    return np.where(g[:-1] < 0.0, np.diff(left), -np.diff(right))
