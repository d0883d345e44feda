"""One variable on a linear grid: a law above it and a law below it in convex order.

A law is described by its calls C(d) = E(D - d)_+; one whose C is larger everywhere is larger in
convex order, and sums of independent variables keep the order. Between chosen grid points C is
replaced by a broken line:

- above, by its chords: the mass of every cell moves to both its ends, the mean is kept. What lies
  beyond an end of the grid is moved to that end. That is no loss on the side where it adds to what
  is asked; on the other side its excess, ``cut``, counts once per variable, because
  (sum D - y)_+ <= (sum D' - y)_+ + sum (D - last)_+.
- below, by chords lowered by what a chord can lie above C in the two cells beside: at most
  (width)^2/8 times the largest density, and at most the height of the chord over the tangents at
  both ends. Where nothing is left the lines 0 and mean - d take over. Beyond the last point all
  mass is merged into its conditional mean, rounded down to the grid. The peak of the density,
  which may be far narrower than a cell, is merged into its mean first, and the grid begins there.

Prices are kept as the smaller of call and put, so that no digits are lost in the tails. Masses are
differences of slopes; what rounding can have done to them is added above and taken off below.
(docs/derivations/epochs.md)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.loss.discrete import DiscreteLoss
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.convex import lower_hull

#: Beyond this many cells from the middle the cells grow in proportion.
EVEN_CELLS = 250
#: Half the width, in cells, of what is merged around the peak of the density, and how much of the
#: mass has to be there.
_PEAK, _NARROW = 2.0, 0.6
#: Stands in for prices that underflow.
_SMALLEST = 1e-290
#: Indices up to this are exact as floating-point numbers, and so are sums of a few.
_LARGEST_INDEX = 2**50


class Variable(Protocol):
    """A variable known by its option prices, its tails and its density."""

    @property
    def mean(self) -> float:
        """The mean."""

    @property
    def error(self) -> float:
        """Bound of the relative error of its prices."""

    @property
    def deviation(self) -> float:
        """Standard deviation."""

    @property
    def peak(self) -> float:
        """About where the density is largest."""

    def value(self, d: FloatArray) -> FloatArray:
        """E(D - d)_+ from the mean on and E(d - D)_+ below."""

    def tails(self, d: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(D < d) and P(D > d)."""

    def densest(self, d: FloatArray) -> FloatArray:
        """Upper bounds of the density between neighbouring points."""


@dataclass(frozen=True, eq=False)
class OnGrid:
    """The law of D minus its mean on a grid, and the excess that it leaves out at either end."""

    law: DiscreteLoss
    cut_low: float = 0.0
    cut_high: float = 0.0

    @property
    def mirrored(self) -> OnGrid:
        """The law of the mean minus D."""
        law = replace(
            self.law,
            index=-self.law.index[::-1],
            masses=self.law.masses[::-1],
            offset=-self.law.offset,
        )
        return OnGrid(law, self.cut_high, self.cut_low)


def places(
    spacing: float, low: float, high: float, even: int = EVEN_CELLS, centre: float = 0.0
) -> IntArray:
    """Grid indices from below ``low`` < 0 to above ``high`` > 0, zero among them.

    They are dense around ``centre``, which is between the two.
    """
    if not abs(centre) < _LARGEST_INDEX * spacing:
        raise NumericalFailure("the centre of a grid is too far out for exact indices")
    middle = round(centre / spacing)
    below, beyond = _side(spacing, centre - low, even), _side(spacing, high - centre, even)
    found = np.concatenate([middle - below[:0:-1], middle + beyond])
    return found if middle == 0 else np.unique(np.append(found, [-1, 0, 1]))


def _side(spacing: float, reach: float, even: int) -> IntArray:
    cells = reach / spacing
    if not cells < _LARGEST_INDEX:
        raise NumericalFailure(f"a grid of {cells:.3g} cells is too long for exact indices")
    last = max(2, math.ceil(cells))
    start = np.arange(min(last, even) + 1, dtype=np.int64)
    if last <= even:
        return start
    count = max(2, math.ceil(math.log(last / even) * even) + 1)
    far = np.rint(np.geomspace(even, last, count)).astype(np.int64)
    return np.unique(np.concatenate([start, far]))


def above(variable: Variable, spacing: float, index: IntArray, offset: float = 0.0) -> OnGrid:
    """A law that is larger in convex order once its cuts are added.

    Its grid is moved by ``offset`` from the mean, which lies between the first point and the last.
    """
    d = (variable.mean + offset) + index.astype(np.float64) * spacing
    v = variable.value(d)
    v = v * (1.0 + 2.0 * variable.error) + _SMALLEST
    turn = int(np.searchsorted(d, variable.mean))
    masses, doubt = _masses(spacing, index, v, turn, offset)
    law = DiscreteLoss(spacing, index, np.maximum(masses, 0.0) + doubt, offset=offset)
    return OnGrid(law, float(v[0]) * (1.0 + 1e-15), float(v[-1]) * (1.0 + 1e-15))


def below(variable: Variable, spacing: float, index: IntArray) -> OnGrid:
    """A law that is smaller in convex order; its grid is moved to a narrow peak of the density."""
    mean, error = variable.mean, variable.error
    start, stop = variable.peak - _PEAK * spacing, variable.peak + _PEAK * spacing
    head, tail = variable.tails(np.array([start, stop]))
    if float(1.0 - head[0] - tail[1]) > _NARROW:
        middle = _conditional_mean(variable, start, stop)
        at = index + round((mean - middle) / spacing)
        at = np.unique(np.append(at, np.arange(-2, 3)))
    else:
        start = stop = middle = mean
        at = index
    d = middle + at.astype(np.float64) * spacing
    full = variable.value(d)
    head, tail = variable.tails(d)
    lowered = full * (1.0 - 2.0 * error)
    # Inside the peak the tangents at its two ends are the whole function.
    peak = (d > start) & (d < stop)
    lowered[peak] = _tangents(variable, start, stop, d[peak])
    width = np.diff(d)
    # Slopes of puts left of the mean and of calls right of it, each to full relative accuracy.
    left = d[1:] < mean
    call = np.where(d < mean, full + (mean - d), full)
    chord = np.where(left, np.diff(full), np.diff(call)) / width
    before = np.where(left, head[:-1], -tail[:-1])
    after = np.where(left, head[1:], -tail[1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        tangents = width * (after - chord) * (chord - before) / (after - before)
        tangents = np.where(after > before, np.maximum(tangents, 0.0), 0.0) * (1.0 + 1e-6)
    tangents += 8.0 * error * np.maximum(full[1:], full[:-1])
    room = np.minimum(0.125 * np.square(width) * variable.densest(d), tangents)
    room[peak[1:] & peak[:-1]] = 0.0
    # The last point needs room for the cell on its left alone: beyond it comes the tangent.
    lowered -= np.maximum(np.append(room[0], room), np.append(room, 0.0))
    return OnGrid(_lowered_law(variable, spacing, middle, at, lowered, full, tail, room))


def _lowered_law(
    variable: Variable,
    spacing: float,
    middle: float,
    at: IntArray,
    lowered: FloatArray,
    full: FloatArray,
    tail: FloatArray,
    room: FloatArray,
) -> DiscreteLoss:
    """The law of lowered prices: 0 where nothing is left, convex, its end merged."""
    mean = variable.mean
    nothing = DiscreteLoss(spacing, np.zeros(1, dtype=np.int64), np.ones(1))
    right = middle + at.astype(np.float64) * spacing >= mean
    turn = int(np.argmax(right))  # the first point from the mean on
    lost = np.flatnonzero(~(lowered > 0.0))
    before, after = lost[lost < turn], lost[lost >= turn]
    # A point is given up together with its neighbour, so that the line between them is 0.
    first = int(before[-1]) + 1 if before.size else 0
    last = int(after[0]) - 1 if after.size else at.size - 1
    if first and room[first - 1] == 0.0:  # a cell inside the peak, where the tangent begins at 0
        first -= 1
    if not right.any() or first >= turn or last <= turn:
        return nothing
    v = lowered.copy()
    v[first] = 0.0
    index, ends = at[first : last + 1], v[first : last + 1]
    beyond = None
    if last == at.size - 1 and tail[last] > 0.0:
        excess = float(full[last]) * (1.0 - 1e-9) / (float(tail[last]) * (1.0 + 1e-9))
        # Nearer by is lower still, and indices stay exact.
        beyond = int(index[-1]) + math.floor(min(excess / spacing, _LARGEST_INDEX))
    if beyond is None or beyond <= index[-1]:
        ends[-1] = 0.0
    else:
        index, ends = np.append(index, beyond), np.append(ends, 0.0)
    turn -= first
    offset = middle - mean
    x = index.astype(np.float64) * spacing + offset
    # Where the two hulls do not meet in a convex chain, one scan of all points does.
    for kept in (_convex(x, ends, turn), _scanned(x, ends, turn)):
        at_turn = int(np.searchsorted(kept, turn))
        masses, doubt = _masses(spacing, index[kept], ends[kept], at_turn, offset)
        if np.all(masses >= -doubt - 1e-12):
            left = np.maximum(masses - doubt, 0.0)
            return DiscreteLoss(spacing, index[kept], left, offset=offset)
    return nothing


def _convex(x: FloatArray, v: FloatArray, turn: int) -> IntArray:
    """Which points make a convex chain: puts on their side, calls on theirs, both around zero.

    Far out, the smaller of the two is far below the other, and adding it up would lose its digits.
    """
    kept = np.concatenate([lower_hull(x[:turn], v[:turn]), lower_hull(x[turn:], v[turn:]) + turn])
    near = kept[v[kept] > 1e-3 * float(v.max())]
    if near.size < 3:
        return kept
    calls = v[near] + np.maximum(-x[near], 0.0)
    joined = near[lower_hull(x[near], calls)]
    return np.concatenate([kept[kept < near[0]], joined, kept[kept > near[-1]]])


def _scanned(x: FloatArray, v: FloatArray, turn: int) -> IntArray:
    """The same by one scan, of puts left of the mean and of calls right of it.

    Slower, and convex where both sides meet as well.
    """
    kept: list[int] = []
    xs, prices = x.tolist(), v.tolist()

    def above_chord(a: int, b: int, c: int) -> bool:
        """Whether b lies on or above the chord from a to c, all three priced as b is."""
        first, last = prices[a], prices[c]
        if b < turn <= c:
            last += xs[c]
        elif a < turn <= b:
            first -= xs[a]
        rise, further = prices[b] - first, last - prices[b]
        return bool(rise * (xs[c] - xs[b]) >= further * (xs[b] - xs[a]))

    for new in range(len(xs)):
        while len(kept) >= 2 and above_chord(kept[-2], kept[-1], new):
            kept.pop()
        kept.append(new)
    return np.array(kept, dtype=np.int64)


def _conditional_mean(variable: Variable, start: float, stop: float) -> float:
    """E[D | start < D < stop]: where the tangents of the calls at both ends meet."""
    ends = np.array([start, stop])
    head, tail = variable.tails(ends)
    inside = float(1.0 - head[0] - tail[1])
    calls = variable.value(ends) + np.where(ends < variable.mean, variable.mean - ends, 0.0)
    # At either end the tangent is call - tail (d - end).
    meeting = (calls[0] - calls[1] + tail[0] * start - tail[1] * stop) / inside
    return float(np.clip(meeting, start, stop))


def _tangents(variable: Variable, start: float, stop: float, d: FloatArray) -> FloatArray:
    """The larger of the tangents at both ends, as prices: puts below the mean, calls above.

    Rounded down: ``error`` bounds that of prices and, many times over, that of tails.
    """
    ends = np.array([start, stop])
    tail = variable.tails(ends)[1]
    prices = variable.value(ends)
    calls = prices + np.where(ends < variable.mean, variable.mean - ends, 0.0)
    lines = calls[:, None] - tail[:, None] * (d - ends[:, None])
    doubt = 2.0 * variable.error * (float(prices.max()) + (stop - start))
    doubt += 4.0 * ROUNDOFF * (1.0 + abs(variable.mean))
    return np.asarray(lines.max(axis=0) - np.maximum(variable.mean - d, 0.0)) - doubt


def _masses(
    spacing: float, index: IntArray, v: FloatArray, turn: int, offset: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Bends of calls given as puts before place ``turn``, and what rounding may have done."""
    gap = np.diff(index).astype(np.float64) * spacing
    rise = np.diff(v) / gap
    if turn > 0:
        # Slopes of puts are those of calls plus one; the cell across the mean has some of either.
        rise[turn - 1] += (index[turn] * spacing + offset) / gap[turn - 1]
    masses = np.concatenate([[rise[0]], np.diff(rise), [-rise[-1]]])
    masses[turn] += 1.0
    sizes = (np.abs(v[:-1]) + np.abs(v[1:])) / gap
    sizes = np.append(sizes, 0.0) + np.append(0.0, sizes)
    sizes[max(turn - 1, 0) : turn + 1] += 2.0 + 2.0 * abs(offset) / spacing
    return masses, np.asarray(4.0 * ROUNDOFF * sizes)
