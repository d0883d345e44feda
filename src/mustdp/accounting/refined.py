"""A profile between points where it is known from above, found when and where it is asked for.

h is convex in alpha, so that chords lie above it. Under replace_one and for whole epochs more is
known. With delta = eps / (2 s), D of alpha at g is e^{eps/2} times D of 1 at g - delta, hence

    h(e^eps) e^{-eps/2} = E F(g - delta) = e^{-M delta^2 / 2} E [F(g) e^{-delta sum g_i}]

with F the positive part of the mean of D of 1: log h + M eps^2 / (8 s^2) - eps / 2 is convex in
eps, and chords of that lie above it too. Where noise is plenty it is nearly straight.

Cells are halved until a chord in them cannot be far off, at places that do not depend on what was
asked: so neither do the answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray

#: How far off, relatively, chords may be where the profile is above each of these values, and else.
_FAR_OFF, _LAST = ((1e-4, 1e-3), (1e-7, 4e-3), (1e-11, 2e-2)), 0.1
#: Cells at the start, and how often one is halved.
_CELLS, _DEEPEST = 16, 12
#: How small a profile is not followed any more.
_SMALLEST = 1e-17
_UP = 1.0 + 1e-12

#: A point alpha - 1 and the bound there.
Node = tuple[float, float]


class Refined:
    """Upper bounds of a falling profile at any x = alpha - 1 in [0, end], off chords.

    ``bound`` is what is known at one x, ``scale`` about how widely x spreads, and ``bend`` the
    factor of eps^2 above, infinite where nothing is known.
    """

    def __init__(
        self,
        bound: Callable[[float], float],
        scale: float,
        end: float,
        bend: float,
        fine: float = 1.0,
    ) -> None:
        self._bound, self._bend, self._end = bound, bend, end
        # Cells that are halved once more have chords that are four times as close.
        self._closer = fine * fine
        self._scale = scale
        self._last = math.log1p(end / scale)
        self._known: dict[tuple[int, int], Node] = {}

    def __call__(self, x: FloatArray) -> FloatArray:
        """The bounds, rounded up."""
        found = np.empty(x.size)
        place = np.log1p(x / self._scale) * (_CELLS / self._last)
        first = np.clip(np.floor(place), 0, _CELLS - 1).astype(np.int64)
        for number in np.unique(first).tolist():
            here = np.flatnonzero(first == number)
            self._cell(number, 0, x, here, found, math.inf)
        return found

    def _cell(
        self, number: int, depth: int, x: FloatArray, here: IntArray, out: FloatArray, off: float
    ) -> None:
        """Fill in what is asked for in one cell, halved while it is about ``off`` off."""
        ends = self._node(number, depth), self._node(number + 1, depth)
        if depth == _DEEPEST or off * self._closer <= _allowed(*ends):
            out[here] = self._between(*ends, x[here])
            return
        middle, upper = self._node(2 * number + 1, depth + 1)
        # Chords of half a cell are off by a quarter of that.
        seen = float(self._between(*ends, np.array([middle]))[0]) / max(upper, 1e-300) - 1.0
        halves = max(abs(seen) / 4.0, off / 16.0 if math.isfinite(off) else 0.0)
        left = x[here] < middle
        for part, own in ((here[left], 2 * number), (here[~left], 2 * number + 1)):
            if part.size:
                self._cell(own, depth + 1, x, part, out, halves)

    def _between(self, left: Node, right: Node, x: FloatArray) -> FloatArray:
        """The smaller of both chords."""
        (a, upper_a), (b, upper_b) = left, right
        at = np.clip(x, a, b)
        found = np.interp(at, [a, b], [upper_a, upper_b])
        if math.isfinite(self._bend) and upper_b > 0.0:
            eps, start, stop = np.log1p(at), math.log1p(a), math.log1p(b)
            logs = np.interp(eps, [start, stop], [math.log(upper_a), math.log(upper_b)])
            logs = logs + self._bend * (eps - start) * (stop - eps)
            found = np.minimum(found, np.exp(np.minimum(logs, 1.0)))
        # A hair before the cell, where rounding may have put x: h falls by at most one per unit.
        return np.asarray(found * _UP + np.maximum(a - x, 0.0))

    def _node(self, number: int, depth: int) -> Node:
        """A point and the bound there."""
        while depth and number % 2 == 0:
            number, depth = number // 2, depth - 1
        if (number, depth) not in self._known:
            share = number / (_CELLS * 2.0**depth)
            x = self._end if share >= 1.0 else self._scale * math.expm1(self._last * share)
            self._known[number, depth] = x, self._bound(x)
        return self._known[number, depth]


def _allowed(left: Node, right: Node) -> float:
    """How far off a chord may be, by how large the profile is."""
    if not left[1] > _SMALLEST or not right[1] > 0.0:
        return math.inf
    return next((most for least, most in _FAR_OFF if left[1] > least), _LAST)
