"""Sums that one large variable decides: E(sum - y)_+ in closed form, from both sides.

Z = D - E D with calls C(z) = E(Z - z)_+ and tails p(z) = P(Z > z); k copies, a bound 0 < b < y.

Above: cut every variable at b. Either none is cut, or one, or several; (u + v - y)_+ <= (u - y)_+ +
v for v >= 0, so that

    E(sum - y)_+  <=  E(S - y)_+  +  k E C(max(y - S', b))  +  k C(b) k p(b),

S the sum of k variables cut at b, S' of k - 1. The first is Chernoff's bound with Bennett's
inequality. The second is a smooth function of S', which hardly varies on the scale of y: it is at
most its tangent parabola, opened until it lies above, and that has the mean of S' and its variance.

Below: exactly one variable is above b, and the others, given that, are replaced by their mean.
(docs/derivations/epochs.md)
"""

from __future__ import annotations

import math

import numpy as np

from mustdp.loss.linear_laws import Variable
from mustdp.numerics.arrays import FloatArray

#: Where the variables are cut, as shares of y.
_CUTS = (0.3, 0.5, 0.7)
#: Points of meshes; how far around the mean of the others the density itself is used.
_MESH, _NEAR = 64, 0.05
_SHARES = np.append(0.0, np.geomspace(1e-9, 1.0, _MESH))
_UP, _DOWN = 1.0 + 1e-9, 1.0 - 1e-9
#: Nothing is said of y beyond this: squares would overflow.
FARTHEST = 1e150


def one_large(variable: Variable, count: int, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds of E(sum - y)_+; none where the density may still rise."""
    lower, upper = np.zeros(y.size), np.full(y.size, np.inf)
    # The peak is known roughly. Beyond three times as much the density of one variable falls.
    falling = variable.mean + (1.0 - _NEAR) * y > 3.0 * abs(variable.peak)
    falling &= (y > 0.0) & (y <= FARTHEST)
    if count < 2 or not falling.any():
        return lower, upper
    at = y[falling]
    sides = [_Cut(variable, count, at, share * at) for share in _CUTS]
    lower[falling] = np.max([side.lower() for side in sides], axis=0)
    upper[falling] = np.min([side.upper() for side in sides], axis=0)
    return lower, upper


class _Cut:
    """Variables cut at b, for many y at once."""

    def __init__(self, variable: Variable, count: int, y: FloatArray, b: FloatArray) -> None:
        self._variable, self._count, self._y, self._b = variable, count, y, b
        self._more, self._less = 1.0 + variable.error, 1.0 - variable.error
        self._call = self._value(b)
        self._tail = self._beyond(b) * _UP

    def lower(self) -> FloatArray:
        """Exactly one is above b, the others are at their mean given that."""
        count, tail = self._count, np.minimum(self._tail, 0.5)
        others = (count - 1) * (self._call * self._more + self._b * tail) / (1.0 - tail) * _UP
        alone = np.exp((count - 1) * np.log1p(-tail)) * _DOWN
        found = count * alone * self._value(self._y + others) * self._less * _DOWN
        return np.where(self._tail < 0.5, found, 0.0)

    def upper(self) -> FloatArray:
        """None, one or several are above b."""
        count, call = self._count, self._call * self._more
        # What lies below -low is raised to it, which only adds.
        low = self._lowest()
        put = self._variable.value(self._variable.mean - low) * self._more
        mean = put - self._call * self._less + 1e-15 * (put + call)
        square = self._square(low)
        several = count * call * np.minimum(1.0, count * self._tail)
        one = self._one((count - 1) * mean, (count - 1) * square)
        return np.asarray((self._none(mean, square) + several + count * one) * _UP)

    def _none(self, mean: FloatArray, square: FloatArray) -> FloatArray:
        """E(S - y)_+ by Chernoff's bound, at the best of many tilts."""
        turns = np.geomspace(0.1, 200.0, 60)[:, None]  # the tilt times b
        theta = turns / self._b
        moment = theta * mean + (np.expm1(turns) - turns) / np.square(self._b) * square
        log_m = self._count * np.log1p(np.maximum(moment, 0.0))
        return np.asarray(np.exp(np.min(log_m - theta * self._y - np.log(math.e * theta), axis=0)))

    def _one(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """E C(max(y - S', b)) for S' of this mean and at most this variance."""
        at, b = self._y - mean, self._b
        near = np.maximum(at * (1.0 - _NEAR), b)
        points = near + (b - near) * np.linspace(0.0, 1.0, _MESH)[:, None]
        away = at - points
        here, slope = self._value(at), self._beyond(at) * _DOWN
        height = self._value(points) * self._more - here * self._less - slope * away
        with np.errstate(divide="ignore", invalid="ignore"):
            opened = np.max(height[1:] / np.square(away[:-1]), axis=0)
        ends = np.stack([near, near * (1.0 + 1e-6)], axis=1).ravel()
        density = self._variable.densest(self._variable.mean + ends)[::2]  # between those of a pair
        opened = np.maximum(np.maximum(opened, 0.5 * density), 0.0)
        found = here * self._more + opened * variance
        return np.where(at * (1.0 - _NEAR) > b, found, self._call * self._more) * _UP

    def _square(self, low: FloatArray) -> FloatArray:
        """E W^2 for W = Z between -low and b: integrals of convex prices by trapezoids."""
        up, down = _SHARES[:, None] * self._b, _SHARES[:, None] * low
        puts = self._variable.value((self._variable.mean - down).ravel()).reshape(down.shape)
        areas = np.trapezoid(self._value(up), up, axis=0) + np.trapezoid(puts, down, axis=0)
        whole = 2.0 * areas * self._more * _UP - 2.0 * self._b * self._call * self._less
        return np.asarray(np.maximum(whole, 0.0))

    def _lowest(self) -> FloatArray:
        """How far below its mean the variable has next to nothing left."""
        first = float(self._b[0])
        looks = np.geomspace(1e-12, 1e3, 91) * first
        none = np.flatnonzero(self._variable.value(self._variable.mean - looks) <= 1e-30 * first)
        return np.full(self._b.size, looks[none[0]] if none.size else looks[-1])

    def _value(self, z: FloatArray) -> FloatArray:
        return self._variable.value((self._variable.mean + z).ravel()).reshape(z.shape)

    def _beyond(self, z: FloatArray) -> FloatArray:
        return self._variable.tails(self._variable.mean + z)[1]
