"""Sums whose terms differ widely in size: a few large ones apart, the others on a grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from mustdp.accounting.epochs.sums import Summed, TooLong, Variable, above, places, prices
from mustdp.numerics.arrays import FloatArray

# Sums that few large variables decide, from above: the others on a grid, the large ones apart.
#
# D on a grid from above (``linear_laws.py``) is an atom of the small part, at most b, or one of the
# large part, which may lie anywhere. With j of k variables large,
#
#     E(sum - y)_+ = sum_j binom(k, j) E C_{k-j}(y - l_1 - ... - l_j),    C_n(z) = E(S_n - z)_+,
#
# S_n the sum of n small variables, l_i large ones. If b is a share of how far S is below y:
#
# - j = 0 is Chernoff's bound, or a transform tilted to y where that is too much;
# - j = 1 needs C_{k-1} at every large atom: one transform, gently tilted against long left tails;
# - j = 2 is a double sum of large atoms moved to a coarser mesh, which keeps their mean; by
#   Jensen's inequality C_{k-2}(z) is at most C_{k-1}(z + m) over the small mass, m the mean of a
#   small one;
# - j >= 3 pays at most (S - y)_+ and all large variables: (u + v)_+ <= u_+ + v for v >= 0.
#
# (docs/derivations/epochs.md)


#: Where small variables end, as shares of how far the others are below y; what more than two large
#: ones may add to the answer.
_CUTS, _SEVERAL = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 1.0, 2.0, 5.0, 10.0, 30.0), 1e-5
#: The same for two large ones, in tests.
_TWO = 3e-4
#: Prices that fall by a larger power leave little to large variables; chances of one that is rare.
_HEAVY, _RARE = 3.5, 0.3
#: Cells before they grow in proportion; large ones of the coarser mesh, per factor e.
_EVEN, _COARSE = 200, 20
#: The tilt of the others times how far they are below y: least, most, and over their spread.
_TILTS, _SPREAD = (0.6, 10.0), 0.8
#: Relative error that a grid may make.
_GRID = 5e-5
#: Cells before they grow, and wider spacings, where nothing is decided.
_FEW, _WIDER = 50, 4.0
#: How far the window reaches under such a tilt, and how much of that is used where there is more.
REACH, _USED = 25.0, 0.25
#: How far below zero, as a share of that distance, one more small variable may be.
_NEAR = 0.05
#: Share of the answer that may come of sums further out, and the most grids.
_NEGLIGIBLE, _GRIDS = 1e-5, 5
#: For the rounding of sums over all cells, generously.
_UP = 1.0 + 1e-9


@dataclass(frozen=True)
class Distance:
    """How far variables are below y, how fast the price of a large one falls, and its chance."""

    size: float
    power: float
    price: float
    chance: float

    @property
    def decides(self) -> bool:
        """Whether large variables are rare, and all the same more likely than many small ones."""
        return self.power < _HEAVY and self.chance < _RARE


def distance(variable: Variable, count: int, y: float) -> Distance | None:
    """How far below y the others are where a large variable is most likely to make up for it.

    If none of them is below -t they are about y + count E min(-D, t) below, and at least t.
    """
    mean = variable.mean
    most = y - count * mean
    if not most > 0.0:
        return None
    looks = most * np.geomspace(1e-12, 1.0, 400)
    value = variable.value(-looks)
    lowered = np.where(-looks < mean, -mean - value, looks - value)
    sizes = np.maximum(y + count * lowered, looks)
    logs = (count - 1) * np.log1p(-np.minimum(variable.tails(-looks)[0], 1.0 - 1e-15))
    prices = variable.value(np.maximum(sizes, mean))
    # Nearer by, a large variable has nothing to make up for.
    whole = float(variable.value(np.array([max(mean, 0.0)]))[0])
    with np.errstate(divide="ignore"):
        weights = np.where(prices <= 0.9 * whole, logs + np.log(prices), -np.inf)
    best = int(np.argmax(weights))
    size, price = float(sizes[best]), float(prices[best])
    if count < 2 or not price > 1e-280 or not weights[best] > -np.inf:
        return None
    tail = float(variable.tails(np.array([size]))[1][0])
    return Distance(size, size * tail / price, price, count * tail)


def few_large(variable: Variable, count: int, y: float, far: Distance, fine: float = 1.0) -> float:
    """An upper bound of E(sum - y)_+, infinite where no bound of this kind is worth having.

    Grids are ``fine`` times as fine as usual.
    """
    bound = _bound(variable, count, far, fine)
    if bound is None:
        return math.inf
    return _Split(variable, count, y, far, bound, fine).upper()


def _bound(variable: Variable, count: int, far: Distance, fine: float) -> float | None:
    """Where small variables end: as near as more than two large ones allow."""
    at = far.size * np.array(_CUTS)
    tail, price = variable.tails(at)[1], variable.value(at)
    several = 0.5 * np.square(count * tail) * (price + at * tail)
    return _least(at, several, _SEVERAL / fine**2 * far.price, variable.mean)


def observed_bound(
    variable: Variable, count: int, far: Distance, fine: float = 1.0
) -> float | None:
    """The same where two large ones are not looked at."""
    at = far.size * np.array(_CUTS)
    tail = variable.tails(at)[1]
    enough = _TWO / fine**2 * float(variable.tails(np.array([far.size]))[1][0])
    return _least(at, 0.5 * count * np.square(tail), enough, variable.mean)


def _least(at: FloatArray, left_out: FloatArray, enough: float, mean: float) -> float | None:
    good = np.flatnonzero((left_out <= enough) & (at > mean))
    return float(at[good[0]]) if good.size else None


def fitting(variable: Variable, count: int, far: Distance, bound: float) -> tuple[float, float]:
    """A spacing that is fine enough for small variables, and a gentle tilt for their sum."""
    # Half the bend of prices times the variance that a grid of this spacing adds.
    bend = count * far.power * (far.power + 1.0) / far.size**2
    first = 1e-3 * far.size
    wide, fine = (_moment(variable, width, far.size, bound) for width in (first, 0.5 * first))
    added = max(bend * (wide - fine), 1e-3 * _GRID)
    spacing = first * min(max(_GRID / added, 1e-4) ** 0.7, _WIDER)
    tilt = _SPREAD * far.size / math.sqrt(count * fine)
    return spacing, min(max(tilt, _TILTS[0]), _TILTS[1]) / far.size


class _Split:
    """Variables cut into a small part and large atoms, which share the atom at the bound."""

    def __init__(
        self,
        variable: Variable,
        count: int,
        y: float,
        far: Distance,
        bound: float,
        fine: float = 1.0,
    ) -> None:
        self._variable, self._count, self._y = variable, count, y
        self._fine, even = fine, math.ceil(fine * _EVEN)
        self._far, self._bound = far, bound
        last = max(furthest(variable, far), 2.0 * bound)
        self._near = self._first()
        large = above(
            variable,
            bound / even,
            places(bound / even, variable.mean - bound, last, even),
            -variable.mean,
        )
        here = large.law.index >= even
        self._at = large.law.index[here].astype(np.float64) * (bound / even)
        self._chance = large.law.masses[here] * _UP
        self._cut = large.cut_high

    def upper(self) -> float:
        k, chance = self._count, float(self._chance.sum()) * _UP
        more = float(self._chance @ self._at) * _UP
        # Masses rounded up may sum to a hair more than one.
        growth = max(self._near.law.total + chance, 1.0) ** k
        one, two = self._one(), self._two()
        none = self._none(chance, 1e-5 * one)
        several = k * more * 0.5 * (k * chance) ** 2 * growth
        return (none + one + two + several + k * self._cut * growth) * _UP

    def _one(self) -> float:
        """One large variable: further out the sums of the others are looked at more coarsely."""
        k, z = self._count, self._y - self._at
        found = self._near.prices(z)
        one = k * float(self._chance @ found)
        grid, size = self._near, self._far.size
        for _ in range(_GRIDS):
            size = max(grid.reach * _USED, 2.0 * size)
            left_out = min(1.0, k * float(self._variable.tails(np.array([self._y - size]))[0][0]))
            if k * float(self._variable.value(np.array([size]))[0]) * left_out <= _NEGLIGIBLE * one:
                break
            try:
                beyond, grid = z < self._y - size, self._further(size)
            except TooLong:  # what is known already is looser, never wrong
                break
            found[beyond] = np.minimum(found[beyond], grid.prices(z[beyond]))
        return k * float(self._chance @ found) * _UP

    def _two(self) -> float:
        """Two large variables, moved to a coarser mesh."""
        k, law = self._count, self._near.law
        at, chance = _coarser(self._at, self._chance, self._fine)
        # One more small variable, not too small itself, would do no harm.
        near = law.losses >= -_NEAR * self._far.size
        mass = float(law.masses[near].sum())
        mean = float(law.masses[near] @ law.losses[near]) / mass
        z = (self._y + min(mean, 0.0)) - (at[:, None] + at[None, :])
        both = self._near.prices(z.ravel()).reshape(z.shape)
        return 0.5 * k * (k - 1) * float(chance @ both @ chance) / mass * _UP

    def _none(self, chance: float, enough: float) -> float:
        """E(S - y)_+ for all variables small, and as if so for three or more large ones."""
        k, law = self._count, self._near.law
        thetas = np.geomspace(0.5, 400.0, 30) / self._bound
        logs = law.log_mgf(thetas)
        whole = np.logaddexp(logs, math.log(chance))
        sizes = k * whole + 1e-13 * k - thetas * self._y - np.log(math.e * thetas)
        best = int(np.argmin(sizes))
        rough = math.exp(min(float(sizes[best]), 700.0)) * _UP
        if rough <= enough or -float(whole[best]) > 200.0:
            return rough
        three = rough * (k * chance) ** 3 / 6.0 * math.exp(3.0 * max(0.0, -float(whole[best])))
        try:
            exact = prices(law, k, float(thetas[best]), np.array([self._y]), +1.0)
        except TooLong:
            return rough
        return min(rough, float(exact[0]) + three)

    def _first(self) -> _Small:
        """Small variables on a grid for sums about as far below y as they typically are."""
        spacing, tilt = fitting(self._variable, self._count, self._far, self._bound)
        spacing /= self._fine
        while True:
            try:
                return self._grid(spacing, tilt, math.ceil(self._fine * _EVEN))
            except TooLong:  # a wider grid is looser, never wrong
                spacing *= 2.0

    def _further(self, size: float) -> _Small:
        """The same for sums that are further below y."""
        spacing = _WIDER * self._near.law.spacing * size / self._far.size
        return self._grid(spacing, _TILTS[0] / size, math.ceil(self._fine * _FEW))

    def _grid(self, spacing: float, tilt: float, even: int) -> _Small:
        return _Small(self._variable, self._count - 1, spacing, self._y, self._bound, tilt, even)


class _Small:
    """Sums of variables up to a bound, and their prices C_n(z), rounded up."""

    def __init__(
        self,
        variable: Variable,
        count: int,
        spacing: float,
        y: float,
        bound: float,
        tilt: float,
        even: int,
    ) -> None:
        self.reach = REACH / tilt
        at = places(spacing, min(y - self.reach, variable.mean), 1.1 * bound + 2.0 * spacing, even)
        law = above(variable, spacing, at, -variable.mean).law
        # The cell that holds the bound belongs to the small part as a whole.
        last = int(np.searchsorted(at * spacing, bound)) + 1
        self.law = replace(law, index=at[:last], masses=law.masses[:last], offset=0.0)
        tilted = Summed([(self.law, count)]).tilt(tilt)
        self._z = tilted.losses
        total = max(self.law.total, 1.0) ** count * _UP
        # Prices fall by at most the whole mass: so much less than rounding under a tilt allows.
        known = prices(self.law, count, tilt, self._z, +1.0, tilted) + total * self._z
        self._prices = np.minimum.accumulate(known[::-1])[::-1] - total * self._z
        self._total = total

    def prices(self, z: FloatArray) -> FloatArray:
        """Chords between grid points; below the first no sum pays more than if it were there."""
        down = z - 1e-14 * (np.abs(z) + abs(float(self._z[0])))
        below = np.maximum(self._z[0] - down, 0.0) * self._total
        return np.asarray(np.interp(down, self._z, self._prices) * _UP + below)


def furthest(variable: Variable, far: Distance) -> float:
    """A point beyond which what is left out does not matter."""
    looks = far.size * np.geomspace(2.0, 1e9, 200)
    enough = np.flatnonzero(variable.value(looks) <= 1e-6 * far.price)
    return float(looks[enough[0] if enough.size else -1])


def _moment(variable: Variable, spacing: float, size: float, bound: float) -> float:
    """Second moment of one variable, not too far out, on a grid."""
    at = places(spacing, min(-size, variable.mean), bound, _FEW)
    law = above(variable, spacing, at, -variable.mean).law
    return float(law.masses @ np.square(law.index * spacing))


def _coarser(
    at: FloatArray, chance: FloatArray, fine: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Atoms moved to both neighbours on a coarser mesh: larger in convex order."""
    first, last = float(at[0]), float(at[-1])
    count = max(2, math.ceil(math.log(last / first) * _COARSE * fine) + 1)
    mesh: FloatArray = np.geomspace(first, last, count, dtype=np.float64)
    mesh[0], mesh[-1] = first, last
    cell = np.clip(np.searchsorted(mesh, at, side="right") - 1, 0, count - 2)
    right = np.clip((at - mesh[cell]) / (mesh[cell + 1] - mesh[cell]), 0.0, 1.0)
    out = np.bincount(cell, chance * (1.0 - right), count)
    out += np.bincount(cell + 1, chance * right, count)
    return np.asarray(mesh), np.asarray(out * _UP)


# Sums of few variables of very different sizes: E(sum - y)_+ from above and from below.
#
# With little noise D = X - alpha X' (``epochs/terms.py``) is c sinh(s g - eps/2) for a
# standard normal g, alpha = e^eps and c = 2 e^{eps/2 - s^2/2}: it spreads over many orders of
# magnitude, and no linear grid holds a sum of few of them. So both live on the points c sinh(j h),
# even near zero and geometric beyond.
#
# - Above, what falls between two points moves to both, which keeps the mean and is larger in convex
#   order (as in ``linear_laws.py``). Where sums of two points fall does not depend on alpha: it is
#   worked out once.
# - Below, what falls into a cell is merged into its mean, which is smaller in convex order.
#
# Either is done once for D and once per addition; sums keep both orders. Terms below the first
# point leave a sum that cannot be positive; those beyond the last one pay their expectation. All
# terms are positive, and every rounding is covered by a margin of 1e-9, far more than the number
# of terms times the unit roundoff (docs/derivations/epochs.md).


#: About how many points there are, and the least distance h.
_POINTS, _FINEST = 1500, 0.01
#: How far out g is followed, under either law.
_FAR = 9.5
#: For the rounding of shares and of sums over all points, generously.
_MARGIN = 1e-9
_UP_WIDE_SUMS, _DOWN = 1.0 + _MARGIN, 1.0 - _MARGIN
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
        return (paid + _PAID) * _UP_WIDE_SUMS**4

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
        return found * _UP_WIDE_SUMS, float(
            ndtr(s - (self._top * self._h + 0.5 * epsilon) / s)
        ) * _UP_WIDE_SUMS

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
        return np.asarray(found * _UP_WIDE_SUMS)


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
