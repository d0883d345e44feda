"""Adaptive composition with a family of pairs: the worst member in every step, which losses stand
for a family, and what adaptive strategies attain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from mustdp.accounting.families.triples import Corner, PairFamily, TripleCell
from mustdp.accounting.pld.discretise import (
    ConcretePair,
    DiscreteLoss,
    DominatingPair,
    FirstLook,
    connect,
    connect_values,
    few_points,
    just_below,
    merge,
    point_masses_of,
)
from mustdp.accounting.pld.readoff import OUTSIDE, Composition, EpsilonAt, Question
from mustdp.errors import NumericalFailure
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray

# Adaptive composition with a family of pairs: the worst member is chosen in every step.
#
# With h_0(alpha) = (1 - alpha)_+, the worst delta of j adaptive steps is
# h_j(alpha) = sup over pairs of the integral of p h_{j-1}(alpha q/p). If every pair of one step is
# dominated by some member c of a finite family, then in eps = log alpha, on a grid,
#
#     g_j(e) = max over c of  sum_l p_c(l) g_{j-1}(e - l) + p_c(inf),      g_0(e) = (1 - e^e)_+,
#
# bounds h_j from above; over concrete pairs with losses merged downwards it is attained by a
# strategy that looks at what was released. The proofs are in docs/derivations/family.md.
#
# What is carried is G = g e^{lambda e} on a window of grid points, so that rounding is small where
# the answer is decided. Left of the window a convex function of alpha with value 1 at alpha = 0 is
# below its chord; right of it a decreasing one is below its last value. Rounding of the transforms
# is bounded in every step and moved to the safe side at once. Infinite losses are kept apart, as
# one number that is added when g is read: under the tilt they would drown everything else.


Side = Literal["upper", "lower"]

#: Largest exponent of the tilt over the window.
STEEPEST = 600.0
#: Chernoff's bound is kept at these multiples of the tilt, so that it falls beyond the window.
_LADDER = np.array([1.0, 1.1, 1.25, 1.45, 1.7])
#: Values worked on at once, so that they stay in the processor's cache.
_AT_ONCE = 131_072


@dataclass(frozen=True)
class LossWindow:
    """Grid points ``first … last`` (times ``spacing``), how far losses reach, and the tilt."""

    spacing: float
    first: int
    last: int
    up: int
    down: int
    tilt: float

    @property
    def size(self) -> int:
        """Number of grid points inside."""
        return self.last - self.first + 1

    @property
    def transform(self) -> int:
        """Length of the transforms: the window with what one loss can reach on either side."""
        return int(fft.next_fast_len(self.size + self.up + self.down, real=True))

    @property
    def epsilon(self) -> FloatArray:
        """The grid points."""
        return np.arange(self.first, self.last + 1, dtype=np.float64) * self.spacing


@dataclass(frozen=True, eq=False)
class Kernels:
    """Tilted losses of a family, transformed."""

    spectra: NDArray[np.complex128]
    #: The largest sum of a member's masses at every tilt of the ladder, and of plain masses.
    moments: FloatArray
    total: float
    infinite: float
    lost: float


class Recursion:
    """The function g on its window, one side, step by step."""

    def __init__(self, window: LossWindow, side: Side) -> None:
        far = max(window.last + window.down, window.up - window.first) * window.spacing
        if not 0.0 <= window.tilt * far < STEEPEST:
            raise NumericalFailure(f"a tilt of {window.tilt:.3g} is too steep for its window")
        self.window, self.side = window, side
        e = window.epsilon
        d, n = window.spacing, window.size
        left = np.arange(window.first - window.up, window.first) * d
        right = np.arange(window.last + 1, window.last + 1 + window.down) * d
        with np.errstate(under="ignore"):
            # Exponentials are off by as many roundings as their exponents are large.
            safe = self._outwards(16.0 + self._exponent)
            self._weight = np.exp(window.tilt * e)
            self._full = self._weight * safe
            self._left_weight = np.exp(window.tilt * left) * safe
            self._right_weight = np.exp(window.tilt * right) * safe
        self._left_share = np.exp(left - e[0])
        self._left_floor = -np.expm1(left)
        self._extended = np.zeros(window.transform)
        self._products = np.empty((0, window.transform // 2 + 1), dtype=np.complex128)
        self._inside = slice(window.up, window.up + n)
        self.tilted = np.maximum(-np.expm1(np.minimum(e, 0.0)), 0.0) * self._full
        self.steps = 0
        self._infinite, self.lost = 0.0, 0.0
        # g_0 e^{theta e} <= 1 for every theta >= 0, and a step multiplies by a moment at most.
        self._log_caps = np.zeros(_LADDER.size)
        beyond = np.concatenate([e, right])
        steeper = (_LADDER[1:, None] - 1.0) * window.tilt
        with np.errstate(under="ignore", over="ignore"):
            self._falls = np.concatenate([np.ones((1, beyond.size)), np.exp(-steeper * beyond)])
            self._falls *= safe

    @property
    def values(self) -> FloatArray:
        """g at the grid points, rounded to the safe side."""
        with np.errstate(over="ignore"):
            value = self.tilted / self._weight * self._outwards(8.0 + self._exponent)
        value = value + self._infinite
        return np.minimum(value, 1.0) if self.side == "upper" else np.clip(value, 0.0, 1.0)

    def kernels(self, members: Sequence[DiscreteLoss]) -> Kernels:
        """Tilt and transform the losses of a family."""
        window = self.window
        spectra = np.empty((len(members), window.transform // 2 + 1), dtype=np.complex128)
        infinite, total = 0.0, 1.0
        moments = np.zeros(_LADDER.size)
        for row, loss in enumerate(members):
            if loss.spacing != window.spacing or loss.offset != 0.0:
                raise NumericalFailure("a loss lies on another grid than the recursion")
            beyond = loss.index > window.up
            kept = loss.index[~beyond]
            exponent = window.tilt * window.spacing * np.maximum(kept, -window.down)
            masses = loss.masses[~beyond] * np.exp(exponent)
            span = 16.0 + 4.0 * float(np.max(np.abs(exponent)))
            masses = masses * self._outwards(span)
            if self.side == "upper":  # losses beyond the reach are infinite; low ones are raised
                kept = np.maximum(kept, -window.down)
                top = loss.infinite + float(loss.masses[beyond].sum()) * (1.0 + 1e-12)
                infinite = max(infinite, top)
            else:
                masses = np.where(kept < -window.down, 0.0, masses)
            folded = np.bincount(
                kept % window.transform, weights=masses, minlength=window.transform
            )
            spectra[row] = fft.rfft(folded)
            steeper = np.exp(np.outer(_LADDER - 1.0, exponent))
            moments = np.maximum(moments, np.einsum("ij,j->i", steeper, masses) * (1.0 + 1e-12))
            total = max(total, loss.total * (1.0 + 1e-14))
        lost = max((loss.lost for loss in members), default=0.0)
        return Kernels(spectra, moments, total, infinite, lost)

    def step(self, kernels: Kernels) -> None:
        """One more step in front: the worst member at every grid point."""
        best = self.applied(kernels, reduce=True)
        if self.side == "upper":
            self._log_caps = self._log_caps + np.log(kernels.moments) + 1e-13
            self._infinite = self._infinite * kernels.total + kernels.infinite * (1.0 + 1e-12)
            # No probability exceeds one, and Chernoff's bound holds for every member and step:
            # rounding far from the bulk must not feed on itself.
            np.minimum(best, self._full, out=best)
            np.minimum(best, self._chernoff(slice(0, best.size)), out=best)
        else:
            np.maximum(best, 0.0, out=best)
            self.lost += kernels.lost
        if not np.all(np.isfinite(best)):
            raise NumericalFailure(f"step {self.steps + 1} of the recursion left the numbers")
        self.tilted = best
        self.steps += 1

    def applied(self, kernels: Kernels, *, reduce: bool = False) -> FloatArray:
        """Every member's convolution with g (or the largest of them), tilted."""
        window = self.window
        self._fill()
        spectrum = fft.rfft(self._extended)
        size = window.transform
        chunk = max(1, _AT_ONCE // size)
        parts = []
        for start in range(0, kernels.spectra.shape[0], chunk):
            some = kernels.spectra[start : start + chunk]
            # Memory that is kept: what is asked for and given back in every step costs as much.
            if self._products.shape[0] < some.shape[0]:
                self._products = np.empty_like(some)
            product = np.multiply(some, spectrum, out=self._products[: some.shape[0]])
            moved = fft.irfft(product, size, axis=1, overwrite_x=True)[:, self._inside]
            parts.append(moved.max(axis=0, keepdims=True) if reduce else moved)
        rows = np.concatenate(parts)
        out = rows.max(axis=0) if reduce else rows
        # Higham 2002, Theorem 24.2: 7 u log2 N per transform in the 2-norm; two forward, one
        # backward, each reaching an entry with at most the sum of the kernel times the norm of G.
        norm = math.sqrt(float(np.square(self._extended).sum()))
        doubt = 32.0 * ROUNDOFF * math.log2(size) * float(kernels.moments[0]) * norm
        return np.asarray(out + doubt if self.side == "upper" else out - doubt)

    def _fill(self) -> None:
        """G on the window and beyond both ends, on the safe side."""
        n = self.window.size
        g_first = float(self.tilted[0] / self._weight[0])
        g_last = float(self.tilted[-1] / self._weight[-1])
        up = self.window.up
        if self.side == "upper":
            outside = 1.0 - self._left_share * max(0.0, 1.0 - g_first * (1.0 + 1e-14))
            above = np.minimum(
                g_last * (1.0 + 1e-14) * self._right_weight,
                self._chernoff(slice(n, None)),
            )
        else:
            outside = np.maximum(self._left_floor, g_first * (1.0 - 1e-14))
            above = np.zeros(self.window.down)
        self._extended[:up] = outside * self._left_weight
        self._extended[up : up + n] = self.tilted
        self._extended[up + n : up + n + self.window.down] = above

    def _chernoff(self, where: slice) -> FloatArray:
        """G is at most this: the best of the ladder."""
        with np.errstate(over="ignore"):
            caps = np.exp(self._log_caps)[:, None] * self._falls[:, where]
        return np.asarray(caps.min(axis=0))

    @property
    def _exponent(self) -> float:
        window = self.window
        far = max(window.up - window.first, window.last + window.down) * window.spacing
        return 4.0 * window.tilt * far

    def _outwards(self, roundings: float) -> float:
        """A factor that covers this many roundings in the safe direction."""
        sign = 1.0 if self.side == "upper" else -1.0
        return 1.0 + sign * roundings * ROUNDOFF


def epsilon_at(recursion: Recursion, delta: float) -> float:
    """The epsilon >= 0 at which g meets ``delta``, on the safe side of the recursion."""
    window = recursion.window
    start = -window.first
    g = recursion.values[start:]
    e = window.epsilon[start:]
    upper = recursion.side == "upper"
    if not upper:
        g = np.maximum(g - np.exp(e) * recursion.lost, 0.0)
    if not upper:  # the last point at which delta is still exceeded
        exceeds = np.flatnonzero(g > delta)
        return float(e[exceeds[-1]]) * (1.0 - 1e-14) if exceeds.size else 0.0
    meets = np.flatnonzero(g <= delta)
    if meets.size == 0:
        return math.inf
    at = int(meets[0])
    if at == 0:
        return 0.0
    # Between grid points a convex function of alpha lies below its chord.
    share = (g[at - 1] - delta) / (g[at - 1] - g[at])
    rise = math.log1p(share * math.expm1(window.spacing))
    return float(min(e[at - 1] + rise, e[at])) * (1.0 + 1e-14)


def answer(recursion: Recursion, question: Question) -> float:
    """What the recursion says to a question, on its side."""
    read = epsilon_at if isinstance(question, EpsilonAt) else delta_at
    return read(recursion, question.at)


def profile_of(recursion: Recursion) -> Callable[[FloatArray], FloatArray]:
    """g at any epsilons >= 0, from above: between grid points below its chords, then decreasing."""
    window = recursion.window
    e, g = window.epsilon[-window.first :], recursion.values[-window.first :]

    def profile(epsilon: FloatArray) -> FloatArray:
        cell = np.clip(np.searchsorted(e, epsilon, side="right") - 1, 0, e.size - 2)
        with np.errstate(over="ignore"):
            share = np.expm1(epsilon - e[cell]) / math.expm1(window.spacing)
        share = np.clip(share, 0.0, 1.0)
        value = g[cell] * (1.0 - share) + g[cell + 1] * share
        return np.asarray(np.minimum(value * (1.0 + 1e-13), 1.0))

    return profile


def delta_at(recursion: Recursion, epsilon: float) -> float:
    """g at ``epsilon`` >= 0, on the safe side of the recursion."""
    window = recursion.window
    place = epsilon / window.spacing - window.first
    g = recursion.values
    upper = recursion.side == "upper"
    if place >= window.size - 1:
        return float(g[-1]) if upper else 0.0
    cell = min(max(math.floor(place * (1.0 - 1e-15)), 0), window.size - 2)
    if not upper:
        return max(0.0, float(g[cell + 1]) * (1.0 - 1e-13) - math.exp(epsilon) * recursion.lost)
    left = window.epsilon[cell]
    share = min(1.0, max(0.0, math.expm1(epsilon - left) / math.expm1(window.spacing)))
    value = float(g[cell]) * (1.0 - share) + float(g[cell + 1]) * share
    return min(1.0, value * (1.0 + 1e-13))


# A block of steps as one loss: the worst case of the block, found adaptively, made discrete.
#
# g after m steps is the profile of an m-step mechanism. Under replace_one it serves both orders, so
# it may be made discrete like any profile and composed by powers of a transform. What is given away
# is only that one pair per block has to cover both orders.


#: Points that chords go through; of more, only some are taken where there is little to see.
_EVERY = 4000


def block_loss(spacing: float, values: FloatArray) -> DiscreteLoss:
    """The loss of a block from upper bounds of its profile at 0, spacing, 2 spacing, …"""
    points = np.arange(values.size, dtype=np.int64)
    if points.size > _EVERY:  # chords may be longer where there is little to see
        far = np.rint(np.geomspace(_EVERY // 2, values.size - 1, _EVERY // 2)).astype(np.int64)
        points = np.unique(np.concatenate([points[: _EVERY // 2], far]))
    h = np.minimum.accumulate(values)[points]
    return connect_values(spacing, points, h, h)


# Which cells of a family to keep apart: refine where a cell wins, join where none would.
#
# Every cover is valid, so nothing in this file has to be rigorous; it only steers. What one step
# with the profile h does to a function g is linear in the values of h, so a cell is judged at a
# few dozen *tests* (a function g that occurs on the way, and a point e) by a product with fixed
# weights. Its excess over the two attained ends of the family, in units of what one step gains,
# says how much it would loosen the bound. Cells that exceed are split; then cells are joined, by
# the pointwise maximum of their profiles, so that the largest excess grows least, on average.


#: How often all cells are looked at for a better group.
_SWEEPS = 6


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A function g that occurs on the way: values at ``first, first + 1, …`` times ``spacing``."""

    spacing: float
    first: int
    values: FloatArray

    def at(self, epsilon: FloatArray) -> FloatArray:
        """Read off in between and beyond."""
        e = (self.first + np.arange(self.values.size)) * self.spacing
        inside = np.interp(epsilon, e, self.values)
        return np.where(epsilon < e[0], -np.expm1(np.minimum(epsilon, 0.0)), inside)


@dataclass(frozen=True, eq=False)
class Tests:
    """Weights of the profile's values in both directions, the gains, and how much excess counts."""

    ahead: FloatArray
    behind: FloatArray
    start: FloatArray
    allowed: FloatArray

    def after(self, profiles: FloatArray) -> FloatArray:
        """g after one step with each of the profiles (rows: both directions in one)."""
        # Small products many times over: threads of a linear algebra library would only wait.
        return np.asarray(self.start + np.einsum("ij,jk->ik", profiles, self._weights))

    def scale(self, base: FloatArray) -> FloatArray:
        """What may be exceeded at every test where a step gains ``base``."""
        return np.asarray(np.maximum(base - self.start, 1e-300) * self.allowed)

    @cached_property
    def _weights(self) -> FloatArray:
        return np.ascontiguousarray(np.concatenate([self.ahead, self.behind], axis=1).T)


def make_tests(
    snapshots: Sequence[Snapshot],
    places: Sequence[FloatArray],
    allowances: Sequence[FloatArray],
    spacing: float,
    points: IntArray,
) -> Tests:
    """Tests at the given places of every snapshot."""
    loss = points.astype(np.float64) * spacing
    gap = np.diff(loss)
    rise, fall = 1.0 / np.expm1(gap), 1.0 / -np.expm1(-gap)
    blocks = []
    for g, e in zip(snapshots, places, strict=True):
        up = g.at(e[:, None] - loss)
        down = g.at(e[:, None] + loss) * np.exp(-loss)
        ahead = _second_differences(up, rise, fall)
        behind = _second_differences(down, rise, fall)
        ahead[:, -1] += 1.0  # losses beyond the last point are infinite
        behind[:, 0] -= down[:, 0]  # the centre keeps the total mass
        blocks.append((ahead, behind, g.at(e)))
    ahead, behind, start = (np.concatenate(column) for column in zip(*blocks, strict=True))
    return Tests(ahead, behind, start, np.concatenate(list(allowances)))


def _second_differences(g: FloatArray, rise: FloatArray, fall: FloatArray) -> FloatArray:
    """Coefficients of h_0 … h_n in the sum of masses times g at all points."""
    out = np.zeros(g.shape)
    out[:, :-1] += g[:, 1:] * fall - g[:, :-1] * rise
    out[:, 1:] += g[:, :-1] * rise - g[:, 1:] * fall
    return out


@dataclass(eq=False)
class Cover:
    """Cells of a family with their profiles at the points of a grid."""

    family: PairFamily
    spacing: float
    points: IntArray
    _known: dict[Corner, FloatArray] = field(default_factory=dict)

    def profiles(self, cells: Sequence[TripleCell]) -> FloatArray:
        """Both directions of every cell, one row each."""
        corners = [self.family.corners(cell) for cell in cells]
        new = list(dict.fromkeys(c for both in corners for c in both if c not in self._known))
        if new:
            at = just_below(self.spacing, self.points)
            self._known.update(zip(new, self.family.profiles(new, at), strict=True))
        known = self._known
        return np.stack([np.concatenate([known[one], known[other]]) for one, other in corners])

    def refined(self, tests: Tests, most: int) -> tuple[FloatArray, FloatArray]:
        """Profiles of a cover whose cells were split while they exceed, up to ``most`` cells.

        They are judged by what they exceed: the most that single members gain, as far as is known.
        """
        base = tests.after(self.profiles(self.family.ends())).max(axis=0)
        cells = list(self.family.cells())
        rows = self.profiles(cells)
        after = tests.after(rows)
        while len(cells) < most:
            harm = np.max((after - base) / tests.scale(base), axis=1)
            worst = np.argsort(-harm)
            chosen = [int(i) for i in worst[: max(1, len(cells) // 8)] if harm[i] > 1.0]
            if not chosen:
                break
            inside = tests.after(self.profiles([cells[i].middle for i in chosen]))
            base = np.maximum(base, inside.max(axis=0))
            children = [child for i in chosen for child in cells[i].split()]
            kept = np.setdiff1d(np.arange(len(cells)), chosen)
            new = self.profiles(children)
            cells = [cells[i] for i in kept] + children
            rows = np.concatenate([rows[kept], new])
            after = np.concatenate([after[kept], tests.after(new)])
        return rows, base

    def joined(
        self, tests: Tests, rows: FloatArray, base: FloatArray, weight: FloatArray, most: int,
        slack: float,
    ) -> FloatArray:  # fmt: skip
        """Groups of cells, each with the largest of its profiles: no cell is above its own group.

        The two groups that cost least are joined, until ``most`` are left and joining costs more
        than ``slack``; then cells change groups as long as that helps. What a grouping costs is by
        how much its best group exceeds at the tests, in units of what a step gains, on average.
        """
        weight = weight / np.maximum(base - tests.start, 1e-300)
        owner = np.arange(rows.shape[0])
        groups = rows.copy()
        reached = np.maximum(tests.after(rows).max(axis=0), base)
        cost = np.full((owner.size, owner.size), np.inf)

        def costs(i: int, others: FloatArray) -> FloatArray:
            over = np.maximum(tests.after(np.maximum(others, groups[i])) - reached, 0.0)
            return np.asarray(np.einsum("ij,j->i", over, weight))

        for i in range(1, owner.size):
            cost[i, :i] = costs(i, rows[:i])
        alive = np.ones(owner.size, dtype=np.bool_)
        while int(alive.sum()) > 1:
            i, j = divmod(int(np.argmin(cost)), owner.size)
            if not (cost[i, j] <= slack or int(alive.sum()) > most):
                break
            groups[i] = np.maximum(groups[i], groups[j])
            reached = np.maximum(reached, tests.after(groups[i : i + 1])[0])
            owner[owner == j] = i
            alive[j] = False
            cost[j, :] = cost[:, j] = np.inf
            others = np.flatnonzero(alive & (np.arange(owner.size) != i))
            if not others.size:
                break
            fresh = costs(i, groups[others])
            low, high = others < i, others > i
            cost[i, others[low]] = fresh[low]
            cost[others[high], i] = fresh[high]
        owner = _regrouped(tests, rows, np.searchsorted(np.flatnonzero(alive), owner), weight)
        return np.stack([rows[owner == group].max(axis=0) for group in np.unique(owner)])

    def losses(self, profiles: FloatArray) -> list[DiscreteLoss]:
        """The discrete losses through the dots of every row."""
        n = self.points.size
        return [connect_values(self.spacing, self.points, row[:n], row[n:]) for row in profiles]


def _regrouped(
    tests: Tests, rows: FloatArray, owner: NDArray[np.intp], weight: FloatArray
) -> NDArray[np.intp]:
    """Move single cells to other groups while the largest values at the tests fall on average."""
    owner, count = owner.copy(), int(owner.max()) + 1
    if count < 2:
        return owner
    groups = np.stack([rows[owner == group].max(axis=0) for group in range(count)])
    after = tests.after(groups)
    spent = float(after.max(axis=0) @ weight)
    for _ in range(_SWEEPS):
        moved = False
        for cell in range(owner.size):
            own = int(owner[cell])
            rest = owner == own
            rest[cell] = False
            without = rows[rest].max(axis=0, initial=0.0)
            if np.all(without >= rows[cell]):  # the others of its group need as much
                continue
            trial = np.maximum(groups, rows[cell])
            trial[own] = without
            there, kept = tests.after(trial), after.copy()
            kept[own] = there[own]
            second, best = np.partition(kept, -2, axis=0)[-2:]
            others = np.where(kept.argmax(axis=0) == np.arange(count)[:, None], second, best)
            found = np.einsum("ij,j->i", np.maximum(others, there), weight)
            found[own] = spent
            target = int(np.argmin(found))
            if found[target] < spent * (1.0 - 1e-9):
                owner[cell] = target
                groups[own], groups[target] = trial[own], trial[target]
                after[own], after[target] = there[own], there[target]
                spent, moved = float(after.max(axis=0) @ weight), True
        if not moved:
            break
    return owner


# Where to evaluate the profiles of a family: where chords between the points would cost most.
#
# With chords, a loss l between two points is split between them so that its mass under both data
# sets is kept. What one step makes of a function g grows by that, in proportion to the square of
# their distance and to p(l) (g'' - g')(e - l): nothing where g is 1 - e^e, which a chord meets
# exactly. As in quantisation (Panter & Dite 1951), a density of points in proportion to the cube
# root of that weight makes the sum least. Every choice is valid; this one only steers.


#: Points at which the weight is looked at: all near zero, then so many further and further apart.
_NEAR, _FURTHER = 64, 200
#: Share of the points that is spread evenly in the logarithm, whatever the weight.
_EVEN = 0.1


def placed_points(
    pair: DominatingPair,
    spacing: float,
    last: int,
    count: int,
    tests: Callable[[IntArray], Tests],
) -> IntArray:
    """About ``count`` grid indices from 0 to ``last`` for profiles like that of ``pair``.

    ``tests`` are those by which the profiles will be judged, at any points.
    """
    last = max(last, 4)
    far = np.rint(np.geomspace(1.0, last, _FURTHER)).astype(np.int64)
    looks = np.union1d(np.arange(min(last, _NEAR)), far)
    ahead, behind = pair.values(just_below(spacing, looks))
    found = connect_values(spacing, looks, ahead, behind)
    judged = tests(looks)
    both = np.concatenate([ahead, behind])[None, :]
    gain = np.maximum(judged.after(both)[0] - judged.start, 1e-300)
    counts = 1.0 / (gain * judged.allowed)
    up, down = (
        np.bincount(side, found.masses * (side > 0), last + 1)[looks]
        for side in (np.maximum(found.index, 0), np.maximum(-found.index, 0))
    )
    with np.errstate(over="ignore", under="ignore"):
        down = np.where(down > 0.0, down * np.exp(looks * spacing), 0.0)
    weight = _curved(counts, judged.ahead) * up + _curved(counts, judged.behind) * down
    # Masses and coefficients are those of whole cells.
    density = np.cbrt(np.nan_to_num(weight) / np.square(np.gradient(looks.astype(np.float64))))
    density[0], density[-1] = density[1], density[-2]
    wanted = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(looks)))
    even = np.log1p(looks.astype(np.float64) * _NEAR / last)
    share = even / even[-1]
    if 0.0 < wanted[-1] < np.inf:
        share = (1.0 - _EVEN) * wanted / wanted[-1] + _EVEN * share
    at = np.interp(np.linspace(0.0, 1.0, count), share, looks)
    return np.union1d([0, 1, last], np.rint(at).astype(np.int64))


def _curved(counts: FloatArray, coefficients: FloatArray) -> FloatArray:
    """How curved g is at every point, over all tests; rounding makes some of it negative."""
    return np.asarray(np.einsum("i,ij->j", counts, np.maximum(coefficients, 0.0)))


# What an adaptive data holder attains: aligned or reversed, chosen as releases come in.
#
# The recursion over concrete pairs, with losses merged downwards, is a value that a real strategy
# reaches: it looks at the loss so far and takes the better pair. Deciding only every so many steps
# is a strategy too, so many steps cost no more than a few hundred.


#: Decisions that are made at most and at least, and grid points that all of them work through.
_DECISIONS, _FEWEST_DECISIONS, _LONGEST = 400, 10, 2e7
#: Mass at either end of a step's losses that the window may leave out; what lies outside it is
#: dropped.
_DROPPED = 1e-9

#: Pairs to choose from, the points they are merged on, and for how many steps.
Choice = tuple[Sequence[ConcretePair], IntArray, int]


@dataclass(frozen=True, eq=False)
class AttainedBound:
    """A value that is attained, by whom, and what g looked like on the way."""

    value: float
    attained_by: str
    snapshots: tuple[Snapshot, ...]
    marks: tuple[float, ...]
    slope: float = 1.0


def attained(
    choices: Sequence[Choice],
    spacing: float,
    question: Question,
    epsilon: float,
    deviation: float,
    marks: Sequence[float],
    rare: float = 0.0,
) -> AttainedBound:
    """The value of the strategy; ``epsilon`` is above where the answer lies.

    The largest losses, ``rare`` of mass in every step at most, are dropped: that lowers the value,
    by no more than all of that mass, and without them transforms are short.
    """
    steps = sum(count for *_, count in choices)
    spacing = _on_point_masses(choices, spacing)
    losses: dict[tuple[int, int, int], list[DiscreteLoss]] = {}
    single = {
        _key(choice, 1): [
            merge(pair, spacing, choice[1], []).truncated(rare, keep=False) for pair in choice[0]
        ]
        for choice in choices
    }
    composition = Composition([(single[_key(choice, 1)][0], choice[2]) for choice in choices])
    tilt = composition.best_tilt(epsilon)
    plan: list[tuple[int, list[DiscreteLoss]]] = []
    # Rare losses that reach far make long transforms: fewer decisions then.
    length = (epsilon + 5.0 * deviation) / spacing + max(int(c[1][-1]) for c in choices)
    decisions = min(_DECISIONS, max(_FEWEST_DECISIONS, _LONGEST / length))
    for choice in reversed(choices):  # the last step is the first of the recursion
        count, stride = choice[2], max(1, math.ceil(steps / decisions))
        for length, times in ((stride, count // stride), (count % stride, 1)):
            if length and times:
                key = _key(choice, length)
                if key not in losses:
                    losses[key] = [_power(one, length, tilt) for one in single[_key(choice, 1)]]
                plan += [(length, losses[key])] * times
    window = _window(spacing, epsilon, deviation, [x for v in losses.values() for x in v], tilt)
    recursion = Recursion(window, "lower")
    kernels = {id(members): recursion.kernels(members) for members in losses.values()}
    done, snapshots, seen = 0, [], []
    wanted = sorted(marks)
    for length, members in plan:
        recursion.step(kernels[id(members)])
        done += length
        if wanted and done >= wanted[0] * steps:
            snapshots.append(Snapshot(spacing, window.first, recursion.values))
            seen.append(done / steps)
            wanted = [mark for mark in wanted if mark * steps > done]
    value = answer(recursion, question)
    slope = _slope(recursion, value if isinstance(question, EpsilonAt) else question.at)
    return AttainedBound(
        value, "adaptive: aligned and reversed", tuple(snapshots), tuple(seen), slope
    )


def _on_point_masses(choices: Sequence[Choice], spacing: float) -> float:
    """A spacing, not above the one given, on which the largest point mass of the first pair lies.

    Its mirror image, the point mass of the reversed pair, then lies on the grid as well. A point
    mass between two grid points would cost in first order of the spacing, in every step.
    """
    pairs, points, _ = max(choices, key=lambda choice: choice[2])
    found = point_masses_of(pairs[0], spacing, points)
    if not found:
        return spacing
    place = abs(max(found, key=lambda point_mass: point_mass.mass).loss)
    if not place > 0.2 * spacing:
        return spacing
    # A hair inside, so that the cell of the point mass can close.
    return place / (math.ceil(place / spacing) + 1e-6)


def _key(choice: Choice, length: int) -> tuple[int, int, int]:
    return id(choice[0][0]), id(choice[0][-1]), length


def _power(loss: DiscreteLoss, times: int, tilt: float) -> DiscreteLoss:
    """The loss of ``times`` steps with the same pair, every mass rounded down."""
    if times == 1:
        return loss
    tilted = Composition([(loss, times)]).tilt(tilt)
    # What wraps around the window may sit anywhere in it.
    masses = np.maximum(tilted.masses - tilted.error - 2.0 * OUTSIDE, 0.0)
    masses = masses * (1.0 - tilted.relative - 1e-12)
    masses = masses * np.exp(tilted.log_scale - tilt * tilted.losses)
    index = np.rint(tilted.losses / loss.spacing).astype(np.int64)
    kept = masses > 0.0
    return DiscreteLoss(loss.spacing, index[kept], masses[kept], lost=times * loss.lost)


def _window(
    spacing: float, epsilon: float, deviation: float, losses: Sequence[DiscreteLoss], tilt: float
) -> LossWindow:
    """Wide enough for the losses that matter under the tilt; what lies beyond is dropped."""
    up = down = 1
    for loss in losses:
        weight = loss.masses * np.exp(tilt * loss.losses)
        weight /= weight.sum()
        above = np.flatnonzero(np.cumsum(weight[::-1])[::-1] > _DROPPED)
        plain = np.flatnonzero(np.cumsum(loss.masses) > _DROPPED)
        up = max(up, int(loss.index[above[-1]]))
        down = max(down, -int(loss.index[plain[0]]))
    bottom = 3.0 * deviation + 16.0 * spacing
    top = epsilon + 2.0 * deviation
    steepest = 0.9 * STEEPEST / max(top + down * spacing, bottom + up * spacing)
    return LossWindow(
        spacing, -math.ceil(bottom / spacing), math.ceil(top / spacing) + 2, up, down,
        min(tilt, steepest),
    )  # fmt: skip


def _slope(recursion: Recursion, epsilon: float) -> float:
    """Minus the slope of log g at ``epsilon``: a good tilt for the other side."""
    window, g = recursion.window, recursion.values
    middle = min(max(round(epsilon / window.spacing) - window.first, 8), window.size - 9)
    low, high = g[middle - 8], g[middle + 8]
    if not (low > 0.0 and high > 0.0):
        return 1.0
    return max(0.1, math.log(low / high) / (16.0 * window.spacing))


# Which losses stand for a family of pairs in a composition: where to look, refine and join.
#
# Whatever is chosen here covers the whole family, so the bound holds; the choice decides how tight
# it is. Cells are judged where the composition passes: around the path from the answer, after all
# steps, to zero before the first.


#: Excess of a cell over the attained ends, in units of one step's gain, that is not worth refining.
_TOLERANCE = 0.002
#: Excess on average that may be spent on having fewer members.
_SLACK = 1e-4
#: How far from the path cells are judged, in its deviations there.
_ASIDE = np.linspace(-2.5, 2.5, 9)
#: Cells that are looked at in any case.
_FEWEST_CELLS = 48


def chosen_members(
    family: PairFamily | None,
    pair: DominatingPair,
    seen: FirstLook,
    low: AttainedBound,
    window: LossWindow,
    near: float,
    deviation: float,
    *,
    points: int,
    more_cells: float,
    most: int,
) -> list[DiscreteLoss]:
    """The losses of one atom's family, refined and joined; of its single pair without one.

    ``low`` is what the steps attain and how, ``near`` the epsilon at the end of its path, and
    ``deviation`` that of all steps. Profiles are evaluated at ``points`` places, ``more_cells``
    are looked at beyond a few, and at most ``most`` losses are returned.
    """
    if family is None or not low.snapshots:
        places = few_points(window.spacing, seen.deviation, window.up, points)
        if family is None:
            return [connect(pair, window.spacing, places)]
        cover = Cover(family, window.spacing, places)
        return cover.losses(cover.profiles(family.cells()))
    judged, allowed, weight = [], [], []
    marks = np.array(low.marks)
    ends = np.concatenate([[0.0], 0.5 * (marks[1:] + marks[:-1]), [1.0]])
    for share, lasts in zip(low.marks, np.diff(ends), strict=True):
        width = deviation * math.sqrt(share * (1.0 - share) + 0.02)
        judged.append(near * share + _ASIDE * width)
        allowed.append(_TOLERANCE * np.exp(np.square(_ASIDE) / 4.0))
        weight.append(lasts * np.exp(-0.5 * np.square(_ASIDE)))
    often = np.concatenate(weight) / np.sum(weight)
    tests_at = partial(make_tests, low.snapshots, judged, allowed, window.spacing)
    places = placed_points(pair, window.spacing, window.up, points, tests_at)
    cover, tests = Cover(family, window.spacing, places), tests_at(places)
    most_cells = int(_FEWEST_CELLS + more_cells / family.cell_cost)
    rows, base = cover.refined(tests, min(family.most_cells, most_cells))
    return cover.losses(cover.joined(tests, rows, base, often, most, _SLACK))
