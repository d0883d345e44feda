"""Sums of many independent variables on a linear grid: E(sum - y)_+ from above and from below."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from mustdp.accounting.pld.discretise import DiscreteLoss
from mustdp.accounting.pld.readoff import Composition, Tilted
from mustdp.errors import NumericalFailure
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.convex import lower_hull

# One variable on a linear grid: a law above it and a law below it in convex order.
#
# A law is described by its calls C(d) = E(D - d)_+; one whose C is larger everywhere is larger in
# convex order, and sums of independent variables keep the order. Between chosen grid points C is
# replaced by a broken line:
#
# - above, by its chords: the mass of every cell moves to both its ends, the mean is kept. What lies
#   beyond an end of the grid is moved to that end. That is no loss on the side where it adds to
#   what is asked; on the other side its excess, ``cut``, counts once per variable, because
#   (sum D - y)_+ <= (sum D' - y)_+ + sum (D - last)_+.
# - below, by chords lowered by what a chord can lie above C in the two cells beside: at most
#   (width)^2/8 times the largest density, and at most the height of the chord over the tangents at
#   both ends. Where nothing is left the lines 0 and mean - d take over. Beyond the last point all
#   mass is merged into its conditional mean, rounded down to the grid. The peak of the density,
#   which may be far narrower than a cell, is merged into its mean first, and the grid begins there.
#
# Prices are kept as the smaller of call and put, so that no digits are lost in the tails. Masses
# are differences of slopes; what rounding can have done to them is added above and taken off
# below. (docs/derivations/epochs.md)


#: Beyond this many cells from the middle the cells grow in proportion.
EVEN_CELLS = 250
#: Half the width, in cells, of what is merged around the peak of the density, and how much of the
#: mass has to be there.
_PEAK, _NARROW = 2.0, 0.6
#: Stands in for prices that underflow.
_SMALLEST = 1e-290
#: Indices up to this are exact as floating-point numbers, and so are sums of a few.
_LARGEST_INDEX = 2**50


class Priced(Protocol):
    """A variable known by its option prices."""

    @property
    def mean(self) -> float:
        """The mean."""

    @property
    def error(self) -> float:
        """Bound of the relative error of its prices."""

    def value(self, d: FloatArray) -> FloatArray:
        """E(D - d)_+ from the mean on and E(d - D)_+ below."""


class Variable(Priced, Protocol):
    """A variable known by its option prices, its tails and its density."""

    @property
    def deviation(self) -> float:
        """Standard deviation."""

    @property
    def peak(self) -> float:
        """About where the density is largest."""

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


def above(variable: Priced, spacing: float, index: IntArray, offset: float = 0.0) -> OnGrid:
    """A law that is larger in convex order once its cuts are added.

    Its grid is moved by ``offset`` from the mean, which lies between the first point and the last.
    """
    d = (variable.mean + offset) + index.astype(np.float64) * spacing
    v = variable.value(d)
    v = v * (1.0 + 2.0 * variable.error) + _SMALLEST
    turn = int(np.searchsorted(d, variable.mean))
    masses, doubt = masses_of(spacing, index, v, turn, offset)
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
        masses, doubt = masses_of(spacing, index[kept], ends[kept], at_turn, offset)
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


def masses_of(
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


# Sums that one large variable decides: E(sum - y)_+ in closed form, from both sides.
#
# Z = D - E D with calls C(z) = E(Z - z)_+ and tails p(z) = P(Z > z); k copies, a bound 0 < b < y.
#
# Above: cut every variable at b. Either none is cut, or one, or several; (u + v - y)_+ <= (u -
# y)_+ + v for v >= 0, so that
#
#     E(sum - y)_+  <=  E(S - y)_+  +  k E C(max(y - S', b))  +  k C(b) k p(b),
#
# S the sum of k variables cut at b, S' of k - 1. The first is Chernoff's bound with Bennett's
# inequality. The second is a smooth function of S', which hardly varies on the scale of y: it is
# at most its tangent parabola, opened until it lies above, and that has the mean of S' and its
# variance.
#
# Below: exactly one variable is above b, and the others, given that, are replaced by their mean.
# (docs/derivations/epochs.md)


#: Where the variables are cut, as shares of y.
_CUTS = (0.3, 0.5, 0.7)
#: Points of meshes; how far around the mean of the others the density itself is used.
_MESH, _NEAR = 64, 0.05
_SHARES = np.append(0.0, np.geomspace(1e-9, 1.0, _MESH))
#: For the rounding of sums over a mesh, generously.
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


def _trapezoids(values: FloatArray, x: FloatArray) -> FloatArray:
    """Areas of columns. That of scipy takes a fifth of a second to import."""
    return np.asarray((0.5 * (values[1:] + values[:-1]) * np.diff(x, axis=0)).sum(axis=0))


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
        areas = _trapezoids(self._value(up), up) + _trapezoids(puts, down)
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


# Sums of many independent variables of mean zero: E(sum - y)_+ from above and from below.
#
# Both sides of one variable are put on a linear grid in convex order (``linear_laws.py``); their
# sum is composed by a tilted Fourier transform whose aliasing and rounding are bounded
# (``readoff.py``). With w(t) = e^{-theta (t - r)} P_theta(sum = t), in units of M(theta) e^{-theta
# r},
#
#     G_i = sum_{t > t_i} w(t),      E(sum - t_i)_+ = spacing (G_i + G_{i+1} + ...),
#
# sums of positive terms, linear between grid points. A point outside the window is worth at most
# max (t - y) e^{-theta (t - y)} = 1/(e theta).
#
# The grid is chosen from the question: its spacing from the tilt at y, and the last point a little
# above y. A variable that alone exceeds it has paid: what it has beyond is its expectation, in
# closed form. So heavy tails cost nothing.


#: Spacing times the square root of the number of variables times the tilt.
FINENESS = 0.06
#: The same, of a first look at the tilt, and the cells of its variables.
_ROUGH, _ROUGH_CELLS = 0.25, 16
#: A tilt is at least this over the scale of the sum: without one, far outcomes would count fully.
_LEAST_TILT = 1.0
#: Share of the scale of the sum by which cutting off below may move its mean.
_LOW_CUT = 1e-6
#: Tilted mass that may lie outside the window, per side.
OUTSIDE = 1e-11
#: Points of a transform beyond which a wider grid is taken.
_LONGEST = 2**20
#: Grids that are tried, by their spacing: the first one is nearly always good enough.
_WIDER = tuple(2.0**k for k in range(24))
#: Exponents up to which weights under a tilt are used.
_STEEPEST = 600.0
#: Share of the answer that variables beyond the last point may add to it.
_RARE = 1e-6


@dataclass(frozen=True)
class Aim:
    """A tilt, the last point of the grid, and what E(sum - y)_+ is at most at the last y."""

    tilt: float
    high: float
    price: float


class IndependentSum:
    """The sum of ``count`` independent copies of a variable less its mean, or of its mirror."""

    def __init__(
        self,
        variable: Variable,
        count: int,
        *,
        mirrored: bool = False,
        even: int = EVEN_CELLS,
    ) -> None:
        self.variable, self.count, self.mirrored = variable, count, mirrored
        self._even = even
        size = 2.0 * float(variable.value(np.array([variable.mean]))[0])
        #: A typical size of the sum.
        self.scale = min(math.sqrt(count) * variable.deviation, count * size)
        self._low = self._lowest()

    def aim(self, start: float, stop: float, known: float = math.inf) -> Aim:
        """How to ask about y from ``start`` to ``stop``, found on rough grids.

        ``known`` is about what the price is at ``stop``, where that is known.
        """
        # If one variable is beyond the last point, the sum is beyond y unless the others undo it.
        found = self._rough(start, stop, self._highest(stop + 3.0 * max(self.scale, 0.02 * stop)))
        for _ in range(2):
            # Or such a variable is too rare to matter.
            looks = np.linspace(0.0, found.high, 129)[1:]
            rare = np.flatnonzero(
                self.count * self._values(looks) <= _RARE * min(found.price, known)
            )
            if not rare.size or rare[0] == looks.size - 1:
                break
            found = self._rough(start, stop, float(looks[rare[0]]))
        return found

    def _rough(self, start: float, stop: float, high: float) -> Aim:
        # Nearer the start: with heavy tails prices fall more slowly than the tilt.
        middle = 0.75 * start + 0.25 * stop
        width = _ROUGH * max(self.scale, middle / 40.0) / math.sqrt(self.count)
        rough = self._on_grid(above, width, high, middle, _ROUGH_CELLS)
        total = Composition([(rough.law, self.count)])
        tilt = self._clear(total.best_tilt(middle), stop)
        # Chernoff's bound of the price at the last y.
        size = float(total.log_mgf(np.array([tilt]))[0]) - tilt * stop - math.log(tilt)
        return Aim(tilt, high, math.exp(min(size, 700.0)))

    def upper(self, y: FloatArray, aim: Aim, fineness: float = FINENESS) -> FloatArray:
        """Upper bounds of E(sum - y)_+ at increasing y >= 0, by one transform.

        Infinite where no grid serves.
        """
        for wider in _WIDER:  # a wider grid is looser, never wrong
            spacing = wider * fineness / (aim.tilt * math.sqrt(self.count))
            try:
                found = self._on_grid(above, spacing, aim.high, float(y[0]))
                return self._read(found, aim.tilt, y, +1.0)
            except (TooLong, NumericalFailure):
                continue
        return np.full(y.size, np.inf)

    def lower(self, y: FloatArray, aim: Aim, fineness: float = FINENESS) -> FloatArray:
        """Lower bounds of the same, by one transform; zero where no grid serves."""
        for wider in _WIDER:
            spacing = wider * fineness / (aim.tilt * math.sqrt(self.count))
            try:
                return self._lower(y, aim, spacing)
            except (TooLong, NumericalFailure):
                continue
        return np.zeros(y.size)

    def _lower(self, y: FloatArray, aim: Aim, spacing: float) -> FloatArray:
        under = self._on_grid(below, spacing, aim.high, float(y[0]))
        # Merged into its mean, what is beyond the last point is further out: a gentler tilt.
        best = Composition([(under.law, self.count)]).best_tilt(
            0.75 * float(y[0]) + 0.25 * float(y[-1])
        )
        far = max(float(y[-1]), 0.25 * float(under.law.losses[-1]))
        return self._read(under, self._clear(min(best, aim.tilt), far), y, -1.0)

    def one_large(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds where one large variable decides; else none worth having."""
        if self.mirrored:
            return np.zeros(y.size), np.full(y.size, np.inf)
        return one_large(self.variable, self.count, y)

    def _clear(self, tilt: float, y: float) -> float:
        return max(tilt, _LEAST_TILT / max(self.scale, y))

    def places(self, spacing: float, high: float, y: float, even: int | None = None) -> IntArray:
        """Grid points for one variable, dense around its share of y: there the tilt puts it."""
        low, share = self._low, y / self.count
        if self.mirrored:
            low, high, share = -high, -low, -share
        return places(spacing, low, high, even or self._even, min(max(share, low), high))

    def _on_grid(
        self,
        side: Callable[..., OnGrid],
        spacing: float,
        high: float,
        y: float,
        even: int | None = None,
    ) -> OnGrid:
        found = side(self.variable, spacing, self.places(spacing, high, y, even))
        return found.mirrored if self.mirrored else found

    def _read(self, found: OnGrid, tilt: float, y: FloatArray, sign: float) -> FloatArray:
        left_out = found.cut_high * (1.0 + 1e-12) if sign > 0 else 0.0
        if not found.law.losses[-1] > 0.0:
            return np.zeros(y.size)
        return prices(found.law, self.count, tilt, y, sign) + self.count * left_out

    def _values(self, x: FloatArray) -> FloatArray:
        return self.variable.value(self.variable.mean + (-x if self.mirrored else x))

    def _lowest(self) -> float:
        """A point below which nothing matters: raising what lies there moves the sum little."""
        wanted = _LOW_CUT * self.scale / self.count
        looks = -np.geomspace(1e-6, 1e12, 120) * self.scale
        enough = np.flatnonzero(self._values(looks) <= wanted)
        return float(looks[enough[0]]) if enough.size else float(looks[-1])

    def _highest(self, high: float) -> float:
        """``high``, or a point closer by beyond which the variable has nothing left."""
        looks = np.linspace(0.0, high, 65)[1:]
        none = np.flatnonzero(self._values(looks) <= 1e-60)
        return float(looks[none[0]]) if none.size else high


def prices(
    law: DiscreteLoss,
    count: int,
    tilt: float,
    y: FloatArray,
    sign: float,
    tilted: Tilted | None = None,
) -> FloatArray:
    """E(sum - y)_+ of ``count`` copies at increasing y, rounded up or down, by one transform."""
    tilted = Summed([(law, count)]).tilt(tilt) if tilted is None else tilted
    reference = float(y[0])
    # Further on weights underflow. A price is at most one before it, and at least nothing.
    asked, y = y, np.minimum(y, reference + _STEEPEST / tilt)
    cells, gains, values = _running(tilted, reference, sign)
    d = law.spacing
    place = (y - cells[0]) / d
    cell = np.clip(np.floor(place), 0, gains.size - 1).astype(np.int64)
    inside = np.maximum(cells[0] + (cell + 1) * d - y, 0.0)
    priced = np.where(place < gains.size, values[cell + 1] + inside * gains[cell], 0.0)
    doubt = 2.0 * OUTSIDE / (math.e * tilt) * np.exp(-tilt * (y - reference))
    # Running sums; and places between grid points, where prices fall by at most this much.
    rounding = ROUNDOFF * (8.0 * gains.size + 1e4) * (1.0 + d * tilt)
    scaled = (priced + sign * doubt) * (1.0 + sign * (rounding + 2.0 * tilted.relative))
    log_unit = tilted.log_scale - tilt * reference
    with np.errstate(divide="ignore", over="ignore"):
        price = np.exp(np.log(np.maximum(scaled, 0.0)) + log_unit) * (1.0 + sign * 1e-12)
    return np.asarray(price if sign > 0 else np.where(np.isinf(price) | (asked > y), 0.0, price))


class Summed(Composition):
    """A composition whose window leaves out more: here it counts once, against one answer."""

    def _window(self, theta: float) -> tuple[float, float]:
        here = float(self.log_mgf(np.array([theta]))[0])
        reach, rungs = -math.log(OUTSIDE), self._ladder[::2]
        high = float(np.min((self.log_mgf(theta + rungs) - here + reach) / rungs))
        low = -float(np.min((self.log_mgf(theta - rungs) - here + reach) / rungs))
        if (high - low) / self.spacing > _LONGEST:
            raise TooLong
        return low - 2 * self.spacing, high + 2 * self.spacing


class TooLong(Exception):
    """The window has too many points for a transform that is worth its time."""


def _running(
    tilted: Tilted, start: float, sign: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Grid points from just below ``start`` on, G and the prices there."""
    first = max(0, int(np.searchsorted(tilted.losses, start, side="right")) - 1)
    first = min(first, tilted.losses.size - 2)
    cells = tilted.losses[first:]
    masses = np.maximum(tilted.masses[first:] + sign * tilted.error, 0.0)
    # Only the first point lies below the start, unless all of them do: then nothing counts.
    weights = np.exp(np.minimum(-tilted.theta * (cells - start), 50.0)) * masses
    gains = np.cumsum(weights[:0:-1])[::-1]
    d = float(cells[1] - cells[0])
    values = np.append(np.cumsum((d * gains)[::-1])[::-1], 0.0)
    return cells, gains, values
