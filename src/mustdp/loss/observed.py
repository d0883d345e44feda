"""An epoch seen through one sum: what its best tests attain, and the discrete pair of these tests.

Every batch is put into a cell of its outcomes, cells have whole numbers, and an observer sees the
sum of the numbers alone. Whatever the cells are, that is a function of the releases, so its tests
are tests of the epoch: no grid can make them attain too much. The two laws are convolutions of the
chances of cells, found under a tilt with all errors bounded (``compose.py``).

A test with chance p under P, from below, and q under Q, from above, is a point (q, p). Points of
any number of observers are put together: the upper concave hull is the power of randomised tests,
and its edges are the outcomes of a discrete pair that the epoch dominates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import ndtr

from mustdp.errors import NumericalFailure
from mustdp.loss.compose import Part
from mustdp.loss.convex_tables import OutcomePair
from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.sums import OUTSIDE, Summed
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.checks import frozen

#: How far around the aim thresholds lie, and how far apart, in units of one over the tilt.
_AROUND, _APART = 3.0, 0.025
#: Ends of cells further out are left out; cells must be known at least to so many digits.
_FURTHEST, _FEW_DIGITS = 30.0, 1e-7
#: Exponents beyond this would only be of use to tests that nobody makes.
_STEEPEST, _LARGEST_UNIT = 50.0, 600.0
#: Chances of tests are taken down and up by this much more, for the rounding of the hull.
_MARGIN = 1e-12

#: Laws of a sum and their weights: the law of a batch and how often it occurs, for each.
Mixed = Sequence[tuple[float, Sequence[Part]]]


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a standard normal outcome: their numbers, increasing, and the ends between them."""

    spacing: float
    index: IntArray
    ends: FloatArray

    @classmethod
    def trimmed(cls, spacing: float, index: IntArray, ends: FloatArray, shift: float) -> Cells:
        """Without ends that are so far out that chances beyond them, moved or not, underflow."""
        kept = np.abs(ends) + abs(shift) < _FURTHEST
        kept &= np.append(True, np.diff(ends) > 0.0)
        first = int(np.argmax(kept))
        # A cell keeps its number with its upper end, and the last one has none.
        chosen = np.append(kept, False)
        last = int(np.flatnonzero(kept)[-1]) + 1 if kept.any() else first
        chosen[last] = True
        return cls(spacing, index[chosen], ends[kept])

    def law(self, shift: float) -> tuple[DiscreteLoss, float]:
        """Chances of all cells for an outcome moved by ``shift``, and their relative error."""
        at = self.ends - shift
        head, tail = np.append(ndtr(at), 1.0), np.append(1.0, ndtr(-at))
        low, high = np.append(0.0, head[:-1]), np.append(tail[1:], 0.0)
        right = np.append(at, np.inf) > 0.0
        chance = np.where(right, tail - high, head - low)
        size = np.where(right, tail + high, head + low)
        squares = np.square(np.append(0.0, at))
        squares = np.maximum(squares, np.append(squares[1:], 0.0))
        error = float(np.max(ROUNDOFF * (16.0 + 2.0 * squares) * size / chance))
        if not error < _FEW_DIGITS:
            raise NumericalFailure(f"chances of cells are known to {error:.2g} only")
        return DiscreteLoss(self.spacing, self.index, chance), 2.0 * error


@dataclass(frozen=True, eq=False)
class Rejections:
    """Rejections by their chances: ``p`` from below under P, ``q`` from above under Q."""

    p: FloatArray
    q: FloatArray

    def with_those_of(self, other: Rejections) -> Rejections:
        """These and those of another observer."""
        return Rejections(np.append(self.p, other.p), np.append(self.q, other.q))


def rejecting_above(
    with_p: Mixed,
    with_q: Mixed,
    error: float,
    tilt: float,
    aim: float,
    tilt_p: float | None = None,
) -> Rejections:
    """Rejections that reject when the sum is at least a threshold near ``aim``.

    ``error`` bounds the relative error of any chance of the sum due to those of cells. Where the
    two laws are far apart, the one that is rejected gladly has a gentler tilt of its own.
    """
    d = with_p[0][1][0][0].spacing
    start = math.floor((aim - _AROUND / tilt) / d)
    thresholds = start + np.arange(0, math.ceil(2.0 * _AROUND / (tilt * d)) + 2)
    apart = max(1, math.floor(_APART / (tilt * d)))
    at = thresholds[::apart].astype(np.int64)
    gentle = tilt if tilt_p is None else tilt_p
    p = sum(weight * beyond(parts, gentle, aim, at, -1.0) for weight, parts in with_p)
    q = sum(weight * beyond(parts, tilt, aim, at, +1.0) for weight, parts in with_q)
    p = np.asarray(p) * (1.0 - error - _MARGIN)
    q = np.asarray(q) * (1.0 + error + _MARGIN)
    sensible = (p > q) & (q < 1.0)
    return Rejections(p[sensible], q[sensible])


def beyond(parts: Sequence[Part], tilt: float, aim: float, at: IntArray, sign: float) -> FloatArray:
    """The chance that a sum of parts is at least each of the thresholds, rounded by ``sign``."""
    tilted = Summed([part for part in parts if part[1] > 0]).tilt(tilt)
    d = float(tilted.losses[1] - tilted.losses[0])
    first = round(float(tilted.losses[0]) / parts[0][0].spacing)
    weights = np.exp(np.minimum(-tilt * (tilted.losses - aim), _STEEPEST))
    masses = weights * np.maximum(tilted.masses + sign * tilted.error, 0.0)
    beyond = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    found = beyond[np.clip(at - first, 0, masses.size)]
    # What lies outside the window, or came back into it, weighs no more than at the threshold.
    doubt = 2.0 * OUTSIDE * np.exp(np.minimum(-tilt * (at * d - aim), _STEEPEST))
    rounding = 2.0 * tilted.relative + ROUNDOFF * (8.0 * masses.size + 1e4)
    log_unit = tilted.log_scale - tilt * aim
    if log_unit > _LARGEST_UNIT:  # nothing is known to any digit
        return np.full(at.size, 0.0 if sign < 0.0 else np.inf)
    unit = math.exp(log_unit)
    return np.asarray(np.maximum((found + sign * doubt) * (1.0 + sign * rounding) * unit, 0.0))


def rejecting_pair(
    name: str, ahead: Sequence[Rejections], behind: Sequence[Rejections]
) -> OutcomePair:
    """The pair of all these tests; ``behind`` are tests with P and Q exchanged.

    A test of the exchanged pair that accepts instead has 1 - q under P and 1 - p under Q.
    """
    p, q = (np.concatenate([getattr(one, side) for one in ahead]) for side in "pq")
    other, own = (np.concatenate([getattr(one, side) for one in behind]) for side in "pq")
    points = _Points(
        np.concatenate([[0.0], q, 1.0 - other, [1.0]]),
        np.concatenate([[1.0], 1.0 - q, other, [0.0]]),
        np.concatenate([[0.0], p, 1.0 - own, [1.0]]),
        np.concatenate([[1.0], 1.0 - p, own, [0.0]]),
    )
    edges_q, edges_p = points.edges()
    # Outcomes by increasing loss: the edges from the far end.
    p, q = edges_p[::-1] * (1.0 - _MARGIN), edges_q[::-1] * (1.0 + _MARGIN)
    return OutcomePair(name, frozen(p), frozen(q))


class _Points:
    """Points (q, p) with what they lack to (1, 1): neither end loses digits."""

    def __init__(self, q: FloatArray, no_q: FloatArray, p: FloatArray, no_p: FloatArray) -> None:
        order = np.lexsort((p, -no_q, q))
        self._q, self._p = (q[order], no_q[order]), (p[order], no_p[order])

    def edges(self) -> tuple[FloatArray, FloatArray]:
        """Steps in q and p between the vertices of the upper concave hull."""
        qs, no_qs = (side.tolist() for side in self._q)
        ps, no_ps = (side.tolist() for side in self._p)

        def along(a: int, b: int) -> tuple[float, float]:
            across = qs[b] - qs[a] if qs[b] < 0.5 else no_qs[a] - no_qs[b]
            up = ps[b] - ps[a] if ps[b] < 0.5 else no_ps[a] - no_ps[b]
            return across, up

        kept: list[int] = []
        for new in range(len(qs)):
            while len(kept) >= 2:
                (dq, dp), (eq, ep) = along(kept[-2], kept[-1]), along(kept[-1], new)
                if dp * eq > ep * dq:
                    break
                kept.pop()
            kept.append(new)
        steps = [along(a, b) for a, b in pairwise(kept)]
        found = np.array([step for step in steps if step[0] > 0.0]).reshape(-1, 2)
        return found[:, 0], found[:, 1]
