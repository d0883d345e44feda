"""Quantiles, read off a noisy distribution function on a public grid.

Subsets and one release on all records ask for the same thing, the shares F_k of records up to grid
points g_k, and read it in the same way: the interval never claims more than the grid knows. At grid
point k, F_k has SE_k^2 = p (1 - p) f + N_k, with f what sampling multiplies p (1 - p) by and N_k
the variance of the noise. With c the normal quantile, j the first k with F_k + c SE_k >= p, and l
the one after the last with F_k - c SE_k < p, the quantile lies in (g_{j-1}, g_l]: to miss the true
place q, the interval has to err at q or at q - 1, one place for each end, however many places the
grid has. Nothing is interpolated across an atom to narrow it, so that ties and mass at an end do no
harm. F is 1 at the upper end. The first grid point may be the lower end itself, where values may be
piled up; a quantile at or below it is there.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import toeplitz
from scipy.special import ndtri

from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import (
    LEAST_SHARE,
    Averaged,
    BoundedSum,
    Halves,
    LinearQuery,
    NoiseCovariance,
    NoisySums,
    Piece,
    Query,
    QueryBlock,
    block,
    enlarged,
    present,
)
from mustdp.estimation.result import (
    ANYWHERE,
    CLEARLY,
    FEW,
    MOST_UNKNOWN,
    Interval,
    Spread,
    Support,
    into,
    vacuous_interval,
)
from mustdp.estimation.schema import Column, PublicSchema, Range, Shape, SubsetSchema
from mustdp.estimation.statistics.statistic import (
    SlotRelease,
    Statistic,
    StatisticRequest,
    read_number,
    register,
    unknown_statistic,
)
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray

# A distribution function on a public grid, with noise that is correlated along it.
#
# A record is in one of the cells (.., g_1], (g_1, g_2], ..., (g_K, ..). The numbers of records up
# to every grid point are running sums of the cells' counts, A h with A a triangle of ones. Noise on
# the running sums themselves would have to cover a record that moves all of them, noise on the
# counts adds up along the sums. In between lies the square root: A = C C with C the triangle of the
# coefficients 1, 1/2, 3/8, ... of (1 - x)^(-1/2) (Fichtenberger, Henzinger & Upadhyay, ICML 2023,
# arXiv 2202.11205v2; Henzinger, Upadhyay & Upadhyay, SODA 2023). Released is C h, of which one
# record moves one column, and the running sums are C (C h). Radius and diameter are those of the
# columns of C, found by looking at all of them. Both factors grow like log K, so that a fine grid
# costs little.
#
# Fewer points cost less still. In a second round the running sums are released at a few points of
# the grid, in every slot those where the first has found the quantiles to be: the same as above, as
# these points are public then.


class Running(BoundedSum):
    """Numbers of records up to ``size`` points.

    Natural sums: all records, then those up to every point.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of points."""

    @abstractmethod
    def cells(self, values: FloatArray, slots: IntArray) -> IntArray:
        """The number of points below a value."""

    @property
    def _columns(self) -> _Columns:
        return _columns(self.size, self.schema.counted)

    @property
    def width(self) -> int:
        """One number for each grid point, and one for all records if they are not counted."""
        return self.size + int(self.schema.counted)

    @property
    def radius(self) -> float:
        """By looking at all columns."""
        return self._columns.radius

    @property
    def diameter(self) -> float:
        """By looking at all pairs of columns."""
        return self._columns.diameter

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """The columns of the records' cells."""
        found: FloatArray = self._columns.vectors[self.cells(values, slots)]
        return found

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """By counting, where every record counts once."""
        if piece.weights is not None:
            return super().sums(piece, per_step)
        values, slots, _ = present(piece, self.columns)
        count = self.cell_count
        places = slots * count + self.cells(values, slots)
        counts = np.bincount(places, minlength=self.schema.slots * count)
        return self.from_counts(
            counts.reshape(self.schema.slots, count).astype(np.float64), per_step
        )

    @property
    def cell_count(self) -> int:
        """Cells that a record can be in: one more than points."""
        return len(self._columns.vectors)

    def from_counts(self, counts: FloatArray, per_step: float) -> FloatArray:
        """The sums of records that count once, from their numbers (slots, cells)."""
        found: FloatArray = counts @ np.trunc(self._columns.vectors * per_step)
        return found

    def natural(self, vectors: FloatArray) -> FloatArray:
        """C once more; the total is the last running sum where it is not public."""
        running = vectors @ self._columns.root.T
        if self.schema.counted:
            return np.concatenate([running[:, -1:], running[:, :-1]], axis=1)
        total = np.full((len(running), 1), float(self.schema.n or 0))
        return np.concatenate([total, running], axis=1)

    @property
    def covariance(self) -> NoiseCovariance:
        """Of the rows of C."""
        return self._columns.covariance

    def noise_along(self, noisy: NoisySums, slot: int, running: FloatArray, total: float) -> float:
        """The variance that noise gives ``running`` @ running sums + ``total`` * all records."""
        if noisy.agreed is not None:
            weights = np.append(total, running)
            return noisy.between((slot, slot), weights, weights)
        weights = np.append(running, total) if self.schema.counted else running
        return float(noisy.variances[slot]) * float(((weights @ self._columns.root) ** 2).sum())


#: The part of its own budget that a curve of quantiles spends in the first of two rounds.
FIRST_SHARE = 0.4


@dataclass(frozen=True)
class QuantileCurve(Running):
    """Numbers of records up to the points of ``grid``, the same in every slot."""

    schema: PublicSchema
    columns: tuple[int, ...]
    grid: tuple[float, ...]
    first_share: ClassVar[float] = FIRST_SHARE

    @property
    def size(self) -> int:
        """All of the grid."""
        return len(self.grid)

    def cells(self, values: FloatArray, slots: IntArray) -> IntArray:
        """By bisection."""
        return np.searchsorted(np.array(self.grid), values[:, 0], side="left")


@dataclass(frozen=True, eq=False)
class QuantileWindow(Running):
    """Numbers of records up to some points of a curve's grid: ``places`` (slots, size), rising."""

    curve: QuantileCurve
    places: IntArray
    schema: PublicSchema = field(init=False)
    columns: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.curve.schema)
        object.__setattr__(self, "columns", self.curve.columns)

    @property
    def size(self) -> int:
        """Points of every slot."""
        return int(self.places.shape[1])

    def cells(self, values: FloatArray, slots: IntArray) -> IntArray:
        """By looking at all of the slot's own."""
        points = np.array(self.curve.grid)[self.places]
        return np.asarray((points[slots] < values[:, :1]).sum(axis=1))


@dataclass(frozen=True, eq=False)
class _Columns:
    """C, what every cell contributes, and how far that reaches."""

    root: FloatArray
    vectors: FloatArray  # (cells, width)
    radius: float
    diameter: float
    covariance: NoiseCovariance


@lru_cache(maxsize=32)
def _columns(points: int, counted: bool) -> _Columns:
    """One column per grid point, and one for all records where their number is unknown."""
    size = points + int(counted)
    steps = np.arange(1, size)
    coefficients = np.concatenate([[1.0], np.cumprod((2.0 * steps - 1.0) / (2.0 * steps))])
    root = np.asarray(toeplitz(coefficients, np.zeros(size)))
    # Above the last grid point a record contributes nothing where the total is public.
    vectors = root.T if counted else np.concatenate([root.T, np.zeros((1, size))])
    squares = (vectors**2).sum(axis=1)
    apart = squares[:, None] + squares[None, :] - 2.0 * vectors @ vectors.T
    # The squares of a difference are off by a few rounding errors of the squares themselves.
    slack = 2.0**-40 * float(squares.max())
    own, first = (root**2).sum(axis=1), np.zeros(size)
    if counted:
        first = np.append(own[-1], (root @ root[-1])[:-1])
        covariance = NoiseCovariance(first, np.append(own[-1], own[:-1]))
    else:
        covariance = NoiseCovariance(np.append(0.0, first), np.append(0.0, own))
    return _Columns(
        root,
        vectors,
        math.sqrt(float(squares.max()) + slack),
        math.sqrt(float(apart.max()) + slack),
        covariance,
    )


# Quantiles in one release.
#
# *Two rounds.* The curve on the whole grid gets two fifths of the quantile's budget; the rest goes
# into a curve on few points around the quantile, between what the first leaves possible at 3.3
# errors (``benchmarks/quantile_rounds.py`` has what that gains). At those points the two are
# averaged by their precision. Data that can be read once get one round.


#: Values are whole if less than this share of them is released as lying between whole numbers.
_BETWEEN = 0.05
#: A range between whole numbers up to this length has all of them on its grid.
POINTS = 256
#: Grid points of any other range: so many that a step is small beside sampling errors. Four times
#: as many cost a sixth more noise, which is little beside what a wide step costs.
FINE = 1024
#: Points of the second round for each quantile, and how many errors around it they are laid.
NEAR, WIDE = 32, 3.3


class NoisyCurve(NamedTuple):
    """F at some points, the variance of its noise, and what sampling multiplies F (1 - F) by."""

    heights: FloatArray
    noise: FloatArray
    factor: FloatArray


def may_reach(heights: FloatArray, errors: FloatArray, p: float) -> tuple[int, int]:
    """The first place at which F may be p, and the one after the last where it may be below."""
    first = _first(heights + errors >= p)
    return first, len(heights) - _first((heights - errors < p)[::-1])


class NeedsQuantiles(StatisticRequest):
    """A request that the second round around quantiles is for."""

    @property
    @abstractmethod
    def shares(self) -> tuple[float, ...]:
        """The shares whose quantiles it needs."""


@dataclass(frozen=True)
class ReleasedQuantile(NeedsQuantiles):
    """The smallest value that a share ``p`` of the records does not exceed."""

    p: float
    grid: tuple[float, ...]
    called: str
    smooth: ClassVar[bool] = False

    @property
    def shares(self) -> tuple[float, ...]:
        """Its own."""
        return (self.p,)

    @property
    def _column(self) -> Column:
        return self.schema.columns[self.columns[0]]

    @property
    def name(self) -> str:
        """In results, as it was asked for."""
        return self.called

    @cached_property
    def sums(self) -> QuantileCurve:
        """Running counts on the grid."""
        return QuantileCurve(self.schema, self.columns, self.grid)

    @property
    def support(self) -> Support:
        """The range of the column."""
        column = self.schema.columns[self.columns[0]].numeric
        return (column.lower, column.upper)

    @property
    def two_rounds(self) -> bool:
        """Where the records can be read twice and a second round can leave points out; strata have
        their points in common."""
        return not self.schema.once and not self.schema.shares and len(self.grid) > NEAR

    @property
    def second_request(self) -> StatisticRequest:
        """One second round for all quantiles of a curve."""
        return replace(self, p=0.5, called="curve")

    def second_sums(self, first: NoisySums, together: Sequence[StatisticRequest]) -> BoundedSum:
        """The points where the quantiles can be, in every slot."""
        needed = (one for one in together if isinstance(one, NeedsQuantiles))
        shares = list(dict.fromkeys(p for one in needed for p in one.shares))
        count = min(NEAR * len(shares), len(self.grid))
        places = np.empty((self.schema.slots, count), dtype=np.int64)
        for slot in range(self.schema.slots):
            curve = noisy_curve(SlotRelease(self.schema, first, None, slot, 0.0), first)
            places[slot] = _around(curve, shares, len(self.grid), count)
        return QuantileWindow(self.sums, places)

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """By the grid points at which F may reach p."""
        curve = noisy_curve(at, at.first)
        if curve is None:
            yield "", vacuous_interval(self.support)
            return
        places, whole = (
            np.arange(len(self.grid)),
            values_are_whole(self._column, self.grid, _monotone(curve.heights)),
        )
        closer = None if at.second is None else noisy_curve(at, at.second)
        if (
            closer is not None
            and at.second is not None
            and isinstance(at.second.part, QuantileWindow)
        ):
            places = at.second.part.places[at.slot]
            curve = _averaged(curve, closer, places)
        yield "", self._interval(curve, at.level, places, whole)

    def read_strata(self, slots: Sequence[SlotRelease]) -> Iterator[tuple[str, Interval]]:
        """The distribution function of the population is sum W_h F_h."""
        if self.schema.domains:
            yield from self.read_domain(slots, slots)
            return
        shares = self.schema.shares
        curves = [noisy_curve(at, at.first) for at in slots]
        known = [(share, one) for share, one in zip(shares, curves, strict=True) if one is not None]
        unknown = math.fsum(x for x, one in zip(shares, curves, strict=True) if one is None)
        if unknown > MOST_UNKNOWN:
            yield "", vacuous_interval(self.support)
            return
        heights, noise, sampling = np.zeros((3, len(self.grid)))
        for share, own in known:
            inside = np.clip(_monotone(own.heights), 0.0, 1.0)
            heights += share * own.heights
            noise += share**2 * own.noise
            sampling += share**2 * own.factor * inside * (1.0 - inside)
        places, whole = (
            np.arange(len(self.grid)),
            values_are_whole(self._column, self.grid, _monotone(heights)),
        )
        sampling /= self.p * (1.0 - self.p)
        # F of a stratum that is not known is anywhere in [0, 1].
        heights += 0.5 * unknown
        both = NoisyCurve(heights, noise, sampling)
        found = self._interval(both, slots[0].level, places, whole, 0.5 * unknown)
        few = [name for name, one in zip(self.schema.strata, curves, strict=False) if one is None]
        yield "", replace(found, flags=(*found.flags, *(f"{name}: {FEW}" for name in few)))

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """The distribution function of a group is a ratio of totals (``domains.py``).

        z = 1_d (1[y <= g] - F); its squares sum up to (1 - 2 F) F_h + F^2 for every record.
        """
        curve = self._curve_of_group(inside, strata)
        if curve is None:
            yield "", vacuous_interval(self.support)
            return
        whole = values_are_whole(self._column, self.grid, _monotone(curve.heights))
        yield "", self._interval(curve, strata[0].level, np.arange(len(self.grid)), whole)

    def _curve_of_group(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> NoisyCurve | None:
        """None where the strata or the group do not stand out of the noise."""
        counts = np.array([at.records for at in strata])
        errors = np.array([float(at.noise.own[0]) for at in strata])
        if not (counts > CLEARLY * np.sqrt(errors)).all():
            return None
        weights = np.array(self.schema.shares) / counts
        sums = np.array([at.first.sums[at.slot] for at in inside])
        own = [at.noise for at in inside]
        share = float(weights @ sums[:, 0])
        if not share > CLEARLY * math.sqrt(float(weights**2 @ [one.own[0] for one in own])):
            return None
        heights = weights @ sums[:, 1:] / share
        beside = (sums[:, 1:] - heights * sums[:, :1]) / counts[:, None]  # z_h
        everybody = inside[0].slot == strata[0].slot
        noise, sampling = np.zeros((2, len(heights)))
        rising = np.clip(_monotone(heights), 0.0, 1.0)
        for h, (at, whole) in enumerate(zip(inside, strata, strict=True)):
            slope = heights + (beside[h] if everybody else 0.0)
            each = own[h].own[1:] - 2.0 * slope * own[h].first[1:] + slope**2 * own[h].own[0]
            each = each + (0.0 if everybody else beside[h] ** 2 * errors[h])
            noise += weights[h] ** 2 * np.maximum(each, 0.0)
            here = np.clip(_monotone(sums[h, 1:] / max(float(sums[h, 0]), 1e-9)), 0.0, 1.0)
            squares = at.squared_weights * np.maximum(
                (1.0 - 2.0 * rising) * here + rising**2 - 2.0 * beside[h] * (here - rising), 0.0
            )
            squares = squares + whole.squared_weights * beside[h] ** 2
            sampling += weights[h] ** 2 * whole.unsampled * squares
        factor = sampling / (share**2 * self.p * (1.0 - self.p))
        return NoisyCurve(heights, noise / share**2, factor)

    def _interval(
        self, curve: NoisyCurve, level: float, places: IntArray, whole: bool, beside: float = 0.0
    ) -> Interval:
        """From the curve at ``places`` of the grid, off by at most ``beside`` besides."""
        lower, upper = self.support
        sampling = self.p * (1.0 - self.p) * curve.factor
        c = float(ndtri(0.5 + 0.5 * level))
        errors = c * np.sqrt(curve.noise + sampling) + beside
        every = np.array([*self.grid, upper])
        points = every[[*places, places[-1] + 1]]
        first, last = may_reach(curve.heights, errors, self.p)
        low = float(points[first - 1]) if first else float(points[0])
        if first == 0 and places[0] == 0 and self.grid[0] > lower:
            low = lower
        high = float(points[last])
        if (low, high) == (lower, upper):
            return vacuous_interval((low, high), ANYWHERE)
        monotone = _monotone(curve.heights)
        value = into(self._value(monotone, points, whole), (low, high))
        here = min(_first(monotone >= self.p), len(curve.noise) - 1)
        own = float(curve.noise[here])
        share = own / float(curve.noise[here] + sampling[here]) if own > 0 else 0.0
        return Interval(value, (high - low) / (2.0 * c), (low, high), share)

    def _value(self, curve: FloatArray, points: FloatArray, whole: bool) -> float:
        """The grid point where the curve reaches p; evenly between two, unless values are whole."""
        at = _first(curve >= self.p)
        declared = self.schema.columns[self.columns[0]].whole
        if at == 0 or (whole and not (declared and points[at] - points[at - 1] > 1.0)):
            return float(points[at])
        below = float(curve[at - 1])
        above = 1.0 if at == len(curve) else float(curve[at])
        part = (self.p - below) / (above - below) if above > below else 0.5
        found = float(points[at - 1] + part * (points[at] - points[at - 1]))
        return float(round(found)) if declared else found


def noisy_curve(at: SlotRelease, noisy: NoisySums) -> NoisyCurve | None:
    """F of one slot by one of the rounds; None where there are too few records for the noise.

    The first round has the weights, whichever is read.
    """
    records, noise = float(noisy.sums[at.slot, 0]), noisy.noise_in(at.slot)
    if not records > max(CLEARLY * math.sqrt(noise.own[0]), 1e-9):
        return None
    curve = noisy.sums[at.slot, 1:] / records
    variance = noise.own[1:] - 2.0 * curve * noise.first[1:]
    variance = np.maximum(variance + curve**2 * noise.own[0], 0.0) / records**2
    unsampled = replace(at, first=noisy).unsampled
    factor = unsampled * at.squared_weights / records**2
    return NoisyCurve(curve, variance, np.full(len(curve), factor))


def _around(curve: NoisyCurve | None, shares: Sequence[float], size: int, count: int) -> IntArray:
    """``count`` places of a grid: evenly where quantiles can be, then those next to the middle."""
    found: set[int] = set()
    middle = 0.5 * size
    for p in shares:
        if curve is None:
            break
        errors = WIDE * np.sqrt(curve.noise + p * (1.0 - p) * curve.factor)
        first, last = may_reach(curve.heights, errors, p)
        low, high = max(first - 1, 0), min(last, size - 1)
        middle = 0.5 * (low + high)
        found |= set(np.linspace(low, high, count // len(shares)).round().astype(int).tolist())
    order = np.argsort(np.abs(np.arange(size) - middle), kind="stable").tolist()
    rest = [place for place in order if place not in found]
    return np.array(sorted([*found, *rest[: count - len(found)]]), dtype=np.int64)


def _averaged(first: NoisyCurve, second: NoisyCurve, places: IntArray) -> NoisyCurve:
    """Two rounds at the same points, by the precision of each."""
    noise = first.noise[places]
    both = noise + second.noise
    weight = np.where(both > 0, noise / np.where(both > 0, both, 1.0), 1.0)
    heights = weight * second.heights + (1.0 - weight) * first.heights[places]
    return NoisyCurve(
        heights, weight**2 * second.noise + (1.0 - weight) ** 2 * noise, second.factor
    )


def grid_for(column: Range, whole: bool = False) -> tuple[float, ...]:
    """Whole numbers where the range is one of those; else even steps.

    ``whole``: the values are whole numbers, and so are all points: every one, or every so many.
    """
    if whole:
        step = math.ceil(column.width / FINE)
        return tuple(column.lower + step * k for k in range(math.ceil(column.width / step)))
    return whole_grid(column) or _even(column, FINE)


def whole_grid(column: Range) -> tuple[float, ...]:
    """Whole numbers, and even parts between them, if the ends are whole and not too far apart."""
    length = _whole_length(column, POINTS)
    return _even(column, length * 2 ** int(math.log2(POINTS // length))) if length else ()


def _whole_length(column: Range, most: int) -> int:
    """How far apart the ends are, if both are whole and not too far apart; else 0."""
    whole = column.lower.is_integer() and column.upper.is_integer() and column.width <= most
    return int(column.width) if whole else 0


def _even(column: Range, count: int) -> tuple[float, ...]:
    """Even steps from the lower end on; in this order of operations exact if whole."""
    return tuple((column.lower + column.width * np.arange(count) / count).tolist())


def values_are_whole(column: Column, grid: tuple[float, ...], curve: FloatArray) -> bool:
    """Whether values are whole numbers: as is known, or as far as a rising curve tells."""
    if column.whole:
        return True
    points = np.array(grid)
    between = points != np.floor(points)
    few = float(np.diff(curve, prepend=0.0)[between].sum()) < _BETWEEN
    return whole_grid(column.numeric) == grid and few


def _first(true: FloatArray | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """The first place that is true; the place behind the last one if none is."""
    found = np.flatnonzero(true)
    return int(found[0]) if found.size else len(true)


def _monotone(curve: FloatArray) -> FloatArray:
    """The running maximum and minimum in the middle: never falls."""
    up = np.maximum.accumulate(curve)
    down = np.minimum.accumulate(curve[::-1])[::-1]
    found: FloatArray = 0.5 * (up + down)
    return found


# A noisy distribution function on a grid: made monotone, and inverted.
#
# The curve F counts values <= g. At the ends of the range it is known: 0 at ``lower``, 1 at
# ``upper``. All of this reads what was released and costs no privacy.


def monotone(levels: FloatArray) -> FloatArray:
    """The closest non-decreasing curves to ``levels`` (..., K) in least squares, cut to [0, 1].

    Isotonic regression by its max-min formula (Robertson, Wright & Dykstra 1988, Thm 1.4.4): the
    value at k is the largest over i <= k of the smallest over j >= k of the average of levels i
    to j. It is done for all curves at once. Curves that are monotone already come back unchanged,
    to the last digit.
    """
    count = levels.shape[-1]
    rows = levels.reshape(-1, count)
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
    fitted = np.full(rows.shape, -np.inf)
    for first in range(count):
        averages = (sums[:, first + 1 :] - sums[:, first : first + 1]) / np.arange(
            1, count - first + 1
        )
        smallest = np.minimum.accumulate(averages[:, ::-1], axis=1)[:, ::-1]
        np.maximum(fitted[:, first:], smallest, out=fitted[:, first:])
    sorted_already = (np.diff(rows, axis=1) >= 0.0).all(axis=1, keepdims=True)
    # Rounding in the averages must not leave a step down of one part in 1e16.
    fitted = np.maximum.accumulate(np.where(sorted_already, rows, fitted), axis=1)
    return np.asarray(np.clip(fitted, 0.0, 1.0).reshape(levels.shape))


def crossings(
    curves: FloatArray, points: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Where monotone ``curves`` (..., K) come up to ``level``, and where they leave it.

    ``points`` are the K grid points with both ends of the range around them. Between points the
    inverse of the curve is a monotone cubic. The two answers differ only where the curve is flat at
    ``level``. Levels <= 0 are met at the lower end, levels >= 1 at the upper.
    """
    if not 0.0 < level < 1.0:
        end = np.full(curves.shape[:-1], points[0 if level <= 0.0 else -1])
        return end, end.copy()
    shape = (*curves.shape[:-1], 1)
    heights = np.concatenate([np.zeros(shape), curves, np.ones(shape)], axis=-1)
    first, last = (
        _inside(heights, points, below.sum(axis=-1), level)
        for below in (heights < level, heights <= level)
    )
    return first, last


def _inside(heights: FloatArray, points: FloatArray, right: IntArray, level: float) -> FloatArray:
    """The inverse at ``level`` in the step that ends at place ``right``, where the curve rises.

    Fritsch & Butland (1984): the slope at a point is the weighted harmonic mean of the slopes of
    the two steps that meet there, so that the cubic through both ends of a step is monotone. In
    terms of the curve itself the harmonic mean of 1/density is an average of densities, and empty
    steps need no care.
    """
    last = len(points) - 1
    places = [np.clip(right + offset, 0, last) for offset in (-2, -1, 0, 1)]
    x0, x1, x2, x3 = (points[place] for place in places)
    f0, f1, f2, f3 = (
        np.take_along_axis(heights, place[..., None], axis=-1)[..., 0] for place in places
    )
    rise, run = f2 - f1, x2 - x1
    density = rise / run
    left, next_ = (
        (3.0 * rise + 3.0 * beside)
        / np.where(
            width > 0.0,
            (2.0 * rise + beside) * beside / np.maximum(width, 1e-300)
            + (rise + 2.0 * beside) * density,
            3.0 * rise * density,
        )
        for beside, width in ((f1 - f0, x1 - x0), (f3 - f2, x3 - x2))
    )
    t = (level - f1) / rise
    bent = t * (1.0 - t) * ((1.0 - t) * (left * rise - run) - t * (next_ * rise - run))
    return np.asarray(x1 + t * run + bent)


# Quantiles of subsets.
#
# Released are the shares F_k of entries <= g_k at K grid points g_1 < ... < g_K inside [lower,
# upper), not an order statistic: one record can move an order statistic across the whole range.
#
# Added up are (1 if x <= g_k, else 0) - 1/2 for all k; on multisets of fixed size the 1/2 is given
# back after the noise.
#
# **Multisets of fixed size m.** Swapping an entry x for x' changes F_k only where g_k lies between
# them, and there by 1/m, all in one direction. So each F_k has sensitivity 1/m, but they move
# *together*: up to K of them, an L2 distance of ``sqrt(K) / m``, attained by x = lower, x' = upper.
# The reach is ``sqrt(K) / (2m)``.
#
# **Poisson subsets of expected size M.** Released are the sums and the size, over M. One copy moves
# every sum by exactly 1/(2M): together ``sqrt(K) / (2M)``; and the size by 1/M. Shares
# (``queries.py``) are w^2 = sqrt(K)/(1 + sqrt(K)) and 1/(1 + sqrt(K)). F_k = sum / size + 1/2, so
# the noise in it has variance near ``(z/M)^2 (K/(4 w_F^2) + (F - 1/2)^2/w_N^2)``, and these shares
# are the best ones where F is 0 or 1.
#
# **The grid.** More points mean more noise in each (like sqrt K) and finer steps; noise is averaged
# out over replicates, what happens inside a step is not. If nothing is said, the grid is that of
# the whole numbers where the range is one between two of them, 16 to 128 apart (with even parts
# between them if they are closer), and else 64 even steps; all begin with a point at ``lower``
# itself, where values may be piled up. Who knows from public sources where the quantile lies
# should give a short grid around there: five points carry 3.6 times less noise than 64. The data
# must not choose the grid. Between grid points the estimate is read off cubics: for normal data in
# a range of ten standard deviations they move the quantiles from 5 to 95 per cent by up to 0.031,
# 0.0055, 0.0005 and 0.00006 standard deviations for K = 8, 16, 32 and 64.


#: Grid points if nothing is said, and the most that are accepted.
DEFAULT_GRID = 64
LARGEST_GRID = 1024
#: Ranges between whole numbers up to so far apart get a grid of all of them.
_WHOLE = 128
#: Up to so far apart, with parts between them.
_FEW = 16


@dataclass(frozen=True)
class QuantileQuery(LinearQuery):
    """The distribution function on ``grid`` and, on Poisson subsets, the size."""

    public: SubsetSchema
    p: float
    grid: tuple[float, ...]
    labels: tuple[str, ...]
    whole: bool = False
    blocks: tuple[QueryBlock, ...] = field(init=False)
    _grid: FloatArray = field(init=False, repr=False, compare=False)
    _points: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        root, size, poisson = math.sqrt(len(self.grid)), self.public.size, self.public.poisson
        shift = 0.0 if poisson else 0.5
        curve = block("distribution", len(self.grid), 0.5 * root / size, size, shift)
        blocks: tuple[QueryBlock, ...] = (curve,)
        if poisson:
            count = block("count", 1, 1.0 / size, size)
            blocks = (
                enlarged(curve, math.sqrt(root / (1.0 + root))),
                enlarged(count, math.sqrt(1.0 / (1.0 + root))),
            )
        grid = np.array(self.grid)
        (column,) = self.public.ranges
        # What lies below a grid point at the lower end is an atom there: a step of no length.
        start = min(column.lower, float(grid[0]) - 1e-9 * column.width)
        points = np.concatenate([[start], grid, [column.upper]])
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "_grid", grid)
        object.__setattr__(self, "_points", points)

    def contributions(self, values: FloatArray) -> FloatArray:
        """1/2 for the grid points that a value does not exceed, -1/2 for the others (and 1)."""
        found = np.ones((len(values), self.width))
        found[:, : len(self.grid)] = np.where(values[:, :1] <= self._grid, 0.5, -0.5)
        return found

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The sum of the contributions, by counting; all of it is exact."""
        self.public.check_size(counts)
        places = self._grid.searchsorted(values[:, 0])
        sums = np.bincount(places, counts, len(self.grid) + 1).cumsum(dtype=np.float64)
        sums[:-1] -= 0.5 * sums[-1]
        return sums if self.public.poisson else sums[:-1]

    def steps(self, values: FloatArray, counts: IntArray, per_step: FloatArray) -> FloatArray:
        """By counting, too: every contribution is a half or a whole one of either sign."""
        if not np.all(per_step >= 2.0):  # a step that would cut a half to nothing
            return super().steps(values, counts, per_step)
        return np.asarray(self.total(values, counts) * per_step)

    @property
    def supports(self) -> tuple[Support, ...]:
        """The range of the column."""
        return ((self.public.ranges[0].lower, self.public.ranges[0].upper),)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The quantile of the monotone curve; the middle of the stretch if it is flat there.

        On a grid of whole numbers, the grid point where the curve reaches p.
        """
        curves = monotone(self._curves(vectors))
        if self.whole:
            places = np.asarray((curves < self.p).sum(axis=-1))
            return np.asarray(self._points[1:][places])[..., None]
        first, last = crossings(curves, self._points, self.p)
        low, high = self.supports[0]
        return np.clip(0.5 * (first + last), low, high)[..., None]

    def known(self, at: Averaged, level: float) -> tuple[Interval | None, ...]:
        """The grid points between which F may reach p; see above."""
        curve = self._curves(at.vector)
        noise = at.noise[: len(curve)]
        if self.public.poisson:  # F = 1/2 + sum / size
            size = max(float(at.vector[-1]), LEAST_SHARE)
            noise = (noise + (curve - 0.5) ** 2 * at.noise[-1]) / size**2
        sampling = self.p * (1.0 - self.p) * at.factor
        c = Spread(0.0, 0.0).quantile(level)
        low, high = self.supports[0]
        first, after = may_reach(curve, c * np.sqrt(sampling + noise), self.p)
        ends = (
            low if first == 0 else float(self._grid[first - 1]),
            high if after == len(curve) else float(self._grid[after]),
        )
        value = into(float(self.estimate(at.vector)[0]), ends)
        place = min(int(self._grid.searchsorted(value)), len(curve) - 1)
        share = float(noise[place]) / (sampling + float(noise[place]))
        error = (ends[1] - ends[0]) / (2.0 * c)
        spread = Spread((1.0 - share) * error**2, share * error**2)
        if ends == (low, high):
            return (vacuous_interval(ends, ANYWHERE, spread),)
        return (Interval(value, error, ends, spread.noise_share),)

    def _curves(self, vectors: FloatArray) -> FloatArray:
        if not self.public.poisson:
            return np.asarray(vectors, dtype=np.float64)
        return np.asarray(0.5 + vectors[..., :-1] / np.maximum(vectors[..., -1:], LEAST_SHARE))


@register
@dataclass(frozen=True)
class Quantile(Statistic):
    """The value that a share ``p`` of the records stays below; reach sqrt(K) / (2m), proved above.

    Parameters
    ----------
    p : float
        The share, above 0 and below 1.
    grid : int or sequence of float, default=None
        The number K of evenly spaced points inside the range, at most 1024, or the points
        themselves, of which the first may be ``lower``. Public: the data must not choose it. None
        means the whole numbers of a range between two of them up to 128 apart, with even parts
        between them where it is short, and 64 even steps otherwise; in one release a finer grid.
        Few points near where the quantile is carry less noise, which small groups need.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> Quantile(0.9, grid=4).query(SubsetSchema([0.0], [10.0], 20)).blocks
    (QueryBlock(label='distribution', width=4, reach=0.05),)
    """

    p: float
    grid: int | tuple[float, ...] | None = None
    columns: tuple[str | int, ...] | None = None
    name = "quantile"
    usage = "quantile:P[:GRID]"
    about = "the value below which a share P of the records lies"
    example = "quantile:0.7"
    in_domains = True

    @classmethod
    def parse(cls, argument: str | None, text: str) -> Statistic:
        """The share behind the colon, and the grid behind another."""
        if argument is None:
            raise unknown_statistic(text)
        share, colon, grid = argument.partition(":")
        p = checks.real("statistic", read_number(text, share), above=0, below=1)
        return cls(p, _read_grid(grid, text) if colon else None)

    @property
    def argument(self) -> str | None:
        """The share, and the grid where there is one."""
        return repr(self.p) if self.grid is None else f"{self.p!r}:{_written_grid(self.grid)}"

    def check_survey(self, schema: PublicSchema) -> None:
        """Clusters have no proven errors here."""
        if schema.largest_cluster is not None:
            raise InvalidParameter.refusing(
                "statistic",
                "must not be a quantile with clusters: ask for proportion:<=X at places X",
                repr(self.written),
            )

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """On its own grid, or on one that fits the range."""
        column = schema.columns[columns[0]]
        own = self.grid is not None
        grid = self._points(column.numeric) if own else grid_for(column.numeric, column.whole)
        return ReleasedQuantile(schema, columns, self.p, grid, self._called())

    def _called(self) -> str:
        return f"quantile:{self.p:g}"

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", checks.real("p", self.p, above=0.0, below=1.0))
        if self.grid is None:
            pass
        elif np.ndim(self.grid) == 0:
            checks.integer("grid", self.grid, 1, LARGEST_GRID)
        else:
            points = checks.reals("grid", self.grid)
            if not (points.size <= LARGEST_GRID and (np.diff(points) > 0.0).all()):
                raise InvalidParameter(
                    f"grid must be at most {LARGEST_GRID} points in strictly increasing order, "
                    f"got {points.size}: {self.grid!r}"
                )
            object.__setattr__(self, "grid", tuple(points.tolist()))
        super().__post_init__()

    def shape(self, poisson: bool) -> Shape:
        """Halves of either sign at every grid point, added up."""
        return Shape(in_a_ball=True)

    def _on(self, public: SubsetSchema) -> Query:
        grid = self._points(public.ranges[0])
        whole = self.grid is None and _fitting(public.ranges[0])[1]
        return QuantileQuery(public, self.p, grid, (self._label(),), whole)

    def _points(self, column: Range) -> tuple[float, ...]:
        if self.grid is None:
            points = np.array(_fitting(column)[0])
        elif isinstance(self.grid, tuple):
            points = np.array(self.grid)
        else:
            points = column.lower + column.width * (np.arange(1, self.grid + 1) / (self.grid + 1))
        inside = column.lower <= points[0] and points[-1] < column.upper
        if not (inside and (np.diff(points) > 0.0).all()):
            raise InvalidParameter(
                f"grid must lie within lower={column.lower!r} and, strictly below it, "
                f"upper={column.upper!r}, got {points[0]!r} to {points[-1]!r}"
            )
        return tuple(points.tolist())

    def _label(self) -> str:
        return f"quantile {self.p:g}"


def _read_grid(text: str, whole: str) -> int | tuple[float, ...]:
    """A number of points, or the points, in the argument of a statistic written as ``whole``."""
    found = tuple(read_number(whole, one) for one in text.split(","))
    return int(found[0]) if len(found) == 1 and found[0].is_integer() else found


def _written_grid(grid: int | tuple[float, ...]) -> str:
    """As :func:`_read_grid` reads it."""
    return ",".join(map(repr, grid)) if isinstance(grid, tuple) else repr(grid)


def _fitting(column: Range) -> tuple[tuple[float, ...], bool]:
    """The grid if nothing is said, from the lower end on, and whether it is one of whole numbers.

    Short ranges between whole numbers get even parts between them, so that all of them are in it.
    """
    length, points = _whole_length(column, _WHOLE), DEFAULT_GRID
    if length:
        points = length * (1 if length >= _FEW else DEFAULT_GRID // length)
    return _even(column, points), points == column.width


@register
@dataclass(frozen=True)
class Median(Quantile):
    """The quantile for p = 1/2.

    Parameters
    ----------
    grid : int or sequence of float, default=None
        As in :class:`Quantile`.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> Median(grid=4).query(SubsetSchema([0.0], [10.0], 20)).blocks
    (QueryBlock(label='distribution', width=4, reach=0.05),)
    """

    p: float = field(default=0.5, init=False)
    name = "median"
    usage = "median[:GRID]"
    about = "the quantile for P = 0.5"
    example = ""

    @classmethod
    def parse(cls, argument: str | None, text: str) -> Statistic:
        """The grid behind a colon."""
        return cls() if argument is None else cls(_read_grid(argument, text))

    @property
    def argument(self) -> str | None:
        """The grid, where there is one."""
        return None if self.grid is None else _written_grid(self.grid)

    def _called(self) -> str:
        return "median"

    def _label(self) -> str:
        return "median"
