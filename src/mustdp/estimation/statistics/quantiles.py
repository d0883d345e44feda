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
    radius_of_squares,
    squares_in_clusters,
)
from mustdp.estimation.result import (
    ANYWHERE,
    CLEARLY,
    FEW,
    MOST_UNKNOWN,
    ROUGH,
    Interval,
    Spread,
    Support,
    into,
    released_spread,
    satterthwaite,
    vacuous_interval,
)
from mustdp.estimation.schema import Column, PublicSchema, Range, Shape, SubsetSchema
from mustdp.estimation.statistics.domains import DomainInfluences, domains_of, sampled
from mustdp.estimation.statistics.statistic import (
    SlotRelease,
    Statistic,
    StatisticRequest,
    effect_on_share,
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
    """Numbers of records up to ``size`` points, or up to fewer in some slots.

    Natural sums: all records, then those up to every point. Where slots have fewer points, the
    sums of the missing ones are those of all records.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of points; the largest one."""

    @abstractmethod
    def cells(self, values: FloatArray, slots: IntArray) -> IntArray:
        """The number of points below a value."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of points of every slot; empty where all have the same."""
        return ()

    def size_in(self, slot: int) -> int:
        """Number of points of one slot."""
        return self.sizes[slot] if self.sizes else self.size

    @cached_property
    def _by_size(self) -> dict[int, IntArray | slice]:
        """The slots by their number of points."""
        if not self.sizes:
            return {self.size: slice(None)}
        if not self.schema.counted:
            raise InvalidParameter("slots must have the same points where records are not counted")
        sizes = np.array(self.sizes)
        return {size: np.flatnonzero(sizes == size) for size in sorted({*self.sizes})}

    def _stretch(self, size: int) -> float:
        """What the contributions of slots with fewer points are multiplied by.

        The longest of every slot are then as long as the longest of all, so that fewer points have
        less noise; one record is in one slot of every grouping.
        """
        if not self.sizes:
            return 1.0
        return max(self.radius / self._columns(size).radius * (1.0 - 2.0**-50), 1.0)

    def _columns(self, size: int) -> _Columns:
        return _columns(size, self.schema.counted)

    @property
    def width(self) -> int:
        """One number for each grid point, and one for all records if they are not counted."""
        return self.size + int(self.schema.counted)

    @property
    def radius(self) -> float:
        """By looking at all columns."""
        return max(self._columns(size).radius for size in self._by_size)

    @property
    def diameter(self) -> float:
        """By looking at all pairs of columns."""
        return max(self._stretch(size) * self._columns(size).diameter for size in self._by_size)

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """The columns of the records' cells."""
        cells = self.cells(values, slots)
        if not self.sizes:
            plain: FloatArray = self._columns(self.size).vectors[cells]
            return plain
        sizes, found = np.array(self.sizes)[slots], np.zeros((len(values), self.width))
        for size in self._by_size:
            vectors = self._columns(size).vectors * self._stretch(size)
            found[sizes == size, : size + 1] = vectors[cells[sizes == size]]
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
        return self.size + 1

    def from_counts(self, counts: FloatArray, per_step: float) -> FloatArray:
        """The sums of records that count once, from their numbers (slots, cells)."""
        found = np.zeros((len(counts), self.width))
        for size, own in self._by_size.items():
            vectors = self._columns(size).vectors
            if self.sizes:
                vectors = vectors * self._stretch(size)
            found[own, : vectors.shape[1]] = counts[own, : size + 1] @ np.trunc(vectors * per_step)
        return found

    def natural(self, vectors: FloatArray) -> FloatArray:
        """C once more; the total is the last running sum where it is not public."""
        if not self.schema.counted:
            running = vectors @ self._columns(self.size).root.T
            total = np.full((len(running), 1), float(self.schema.n or 0))
            return np.concatenate([total, running], axis=1)
        found = np.empty((len(vectors), 1 + self.size))
        for size, own in self._by_size.items():
            root = self._columns(size).root
            running = (vectors[own, : size + 1] @ root.T) / self._stretch(size)
            found[own, 0] = running[:, -1]
            found[own, 1 : 1 + size] = running[:, :-1]
            found[own, 1 + size :] = running[:, -1:]
        return found

    @property
    def covariance(self) -> NoiseCovariance:
        """Of the rows of C."""
        return self._columns(self.size).covariance

    def covariance_in(self, slot: int) -> NoiseCovariance | None:
        """Of the rows of the C of its points."""
        if not self.sizes:
            return None
        size = self.size_in(slot)
        return self._columns(size).covariance.times(self._stretch(size) ** -2)

    def noise_along(self, noisy: NoisySums, slot: int, running: FloatArray, total: float) -> float:
        """The variance that noise gives ``running`` @ running sums + ``total`` * all records."""
        if noisy.agreed is not None:
            weights = np.append(total, running)
            return noisy.between((slot, slot), weights, weights)
        weights = np.append(running, total) if self.schema.counted else running
        root = self._columns(self.size).root
        return float(noisy.variances[slot]) * float(((weights @ root) ** 2).sum())


#: The part of its own budget that a curve of quantiles spends in the first of two rounds.
FIRST_SHARE = 0.4


@dataclass(frozen=True)
class QuantileCurve(Running):
    """Numbers of records up to the points of ``grid``, or of every slot's own grid."""

    schema: PublicSchema
    columns: tuple[int, ...]
    grid: tuple[float, ...]
    #: A grid for every slot, none with more points than ``grid``; empty where all have that.
    own: tuple[tuple[float, ...], ...] = ()

    @property
    def first_share(self) -> float:  # type: ignore[override]
        """Less than all where a second round looks closer: with clusters it tells the errors."""
        return 1.0 if self.schema.largest_cluster is not None else FIRST_SHARE

    @property
    def size(self) -> int:
        """All of the grid."""
        return len(self.grid)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the slots' own grids."""
        return tuple(map(len, self.own))

    def grid_in(self, slot: int) -> tuple[float, ...]:
        """The grid of one slot."""
        return self.own[slot] if self.own else self.grid

    @cached_property
    def points(self) -> FloatArray:
        """The points of every slot (slots, size), without end where there are no more."""
        found = np.full((self.schema.slots, self.size), np.inf)
        for slot in range(self.schema.slots):
            points = self.grid_in(slot)
            found[slot, : len(points)] = points
        return found

    def cells(self, values: FloatArray, slots: IntArray) -> IntArray:
        """By bisection."""
        if not self.own:
            return np.searchsorted(np.array(self.grid), values[:, 0], side="left")
        found = np.empty(len(values), dtype=np.int64)
        for slot in np.unique(slots).tolist():
            here = slots == slot
            found[here] = np.searchsorted(np.array(self.own[slot]), values[here, 0], side="left")
        return found


@dataclass(frozen=True, eq=False)
class QuantileWindow(Running):
    """Numbers of records up to some points of a curve's grid: ``places`` (slots, size), rising.

    Where slots have fewer, ``sizes`` says how many, and what follows in ``places`` is not used.
    """

    curve: QuantileCurve
    places: IntArray
    sizes: tuple[int, ...] = ()
    schema: PublicSchema = field(init=False)
    columns: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.curve.schema)
        object.__setattr__(self, "columns", self.curve.columns)

    @property
    def size(self) -> int:
        """Points of every slot."""
        return int(self.places.shape[1])

    def places_in(self, slot: int) -> IntArray:
        """The places of one slot on its grid."""
        return np.asarray(self.places[slot, : self.size_in(slot)])

    def points_in(self, slot: int) -> FloatArray:
        """The points of one slot."""
        return np.array(self.curve.grid_in(slot))[self.places_in(slot)]

    @cached_property
    def points(self) -> FloatArray:
        """The points of every slot (slots, size), without end where there are no more."""
        found = np.full(self.places.shape, np.inf)
        for slot in range(self.schema.slots):
            found[slot, : self.size_in(slot)] = self.points_in(slot)
        return found

    def cells(self, values: FloatArray, slots: IntArray) -> IntArray:
        """By looking at all of the slot's own."""
        return np.asarray((self.points[slots] < values[:, :1]).sum(axis=1))


# With clusters the second round tells errors instead: as Woodruff (1952, JASA 47) has it, those of
# the share of records up to the quantile, by squared sums of 1[y <= g] - F within clusters, g
# the grid point that the first round has found. The whole curve varies as many times as much as
# without clusters as the share at g does. Every number is in [-1, 1]: ``queries.py`` says what
# follows for the squares.


@dataclass(frozen=True, eq=False)
class QuantileSquares(BoundedSum):
    """Squared sums within clusters of 1[y <= g] - F, g and F (slots, quantiles) being public."""

    tells_records: ClassVar[bool] = False
    curve: QuantileCurve
    shares: tuple[float, ...]  # of the quantiles
    points: FloatArray
    heights: FloatArray
    schema: PublicSchema = field(init=False)
    columns: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "heights", np.clip(self.heights, 0.0, 1.0))
        object.__setattr__(self, "schema", self.curve.schema)
        object.__setattr__(self, "columns", self.curve.columns)

    @property
    def width(self) -> int:
        """One for each quantile."""
        return len(self.shares)

    @property
    def radius(self) -> float:
        """Proved in ``queries.py``."""
        length = math.sqrt(self.width)
        return radius_of_squares(self.schema, length, length)

    @property
    def diameter(self) -> float:
        """Proved in ``queries.py``."""
        if not self.schema.whole_clusters:
            return 2.0 * self.radius
        return self.radius if self.width == 1 else math.sqrt(2.0) * self.radius

    def natural(self, vectors: FloatArray) -> FloatArray:
        """As they are."""
        return vectors

    @property
    def covariance(self) -> NoiseCovariance:
        """Independent."""
        return NoiseCovariance(np.zeros(self.width), np.ones(self.width))

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """The influences of records."""
        return np.asarray((values[:, :1] <= self.points[slots]) - self.heights[slots])

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """Of clusters."""
        return squares_in_clusters(self, piece, piece.values, per_step)


@dataclass(frozen=True, eq=False)
class UpToPoints:
    """1, and whether a record is up to each of some points: terms for ``domains.py``."""

    schema: PublicSchema
    columns: tuple[int, ...]
    points: tuple[float, ...]
    about_clipping: ClassVar[bool] = False

    def terms(self, values: FloatArray) -> FloatArray:
        """Of every record."""
        up = values[:, :1] <= np.array(self.points)
        return np.concatenate([np.ones((len(values), 1)), up], axis=1)

    def extremes(self) -> FloatArray:
        """A record of every cell between the points."""
        return self.terms(np.array([[*self.points, math.inf]]).T)


@dataclass(frozen=True, eq=False)
class QuantileInfluences(DomainInfluences):
    """Squared influences on shares of groups up to ``places`` (groups, quantiles) of the grid."""

    shares: tuple[float, ...] = ()
    places: IntArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))


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
    #: Of the sampling errors, and whether noise hides those of clusters.
    degrees_of_freedom: float = math.inf
    noise_dominated: bool = False


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
    #: A grid for every slot; empty where all have ``grid``.
    own: tuple[tuple[float, ...], ...] = ()
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
        return QuantileCurve(self.schema, self.columns, self.grid, self.own)

    @property
    def support(self) -> Support:
        """The range of the column."""
        column = self.schema.columns[self.columns[0]].numeric
        return (column.lower, column.upper)

    @property
    def two_rounds(self) -> bool:
        """Where the records can be read twice and a second round can leave points out; strata have
        their points in common. With clusters it tells the errors."""
        if self.schema.largest_cluster is not None:
            return True
        return not self.schema.once and not self.schema.shares and len(self.grid) > NEAR

    @property
    def second_request(self) -> StatisticRequest:
        """One second round for all quantiles of a curve."""
        return replace(self, p=0.5, called="curve")

    def second_sums(self, first: NoisySums, together: Sequence[StatisticRequest]) -> BoundedSum:
        """The points where the quantiles can be, in every slot."""
        needed = (one for one in together if isinstance(one, NeedsQuantiles))
        shares = list(dict.fromkeys(p for one in needed for p in one.shares))
        if self.schema.largest_cluster is not None:
            return self._squares(first, tuple(shares))
        part, most = self.sums, NEAR * len(shares)
        places = np.zeros((self.schema.slots, min(most, part.size)), dtype=np.int64)
        for slot in range(self.schema.slots):
            curve = noisy_curve(SlotRelease(self.schema, first, None, slot, 0.0), first)
            size = part.size_in(slot)
            places[slot, : min(most, size)] = _around(curve, shares, size, min(most, size))
        return QuantileWindow(part, places, tuple(min(most, size) for size in part.sizes))

    def _squares(self, first: NoisySums, shares: tuple[float, ...]) -> BoundedSum:
        """What clusters do to the shares of records up to the quantiles."""
        schema, part = self.schema, self.sums
        every = [SlotRelease(schema, first, None, slot, 0.0) for slot in range(schema.slots)]
        if schema.domains:
            return self._influences(every, shares)
        # Those in no listed stratum have no share, and nothing is read off them.
        read = every[: len(schema.shares) or None]
        curves = [*(noisy_curve(at, first) for at in read), *(None for _ in every[len(read) :])]
        points, heights = (np.empty((schema.slots, len(shares))) for _ in range(2))
        together = None
        if schema.shares:  # one place for all strata
            known = [(x, one) for x, one in zip(schema.shares, curves, strict=False) if one]
            if known:
                together = np.sum([x * one.heights for x, one in known], axis=0)
                together /= math.fsum(x for x, _ in known)
        for slot, curve in enumerate(curves):
            grid = part.grid_in(slot)
            rising = None if curve is None else _monotone(curve.heights)
            for j, p in enumerate(shares):
                where = _monotone(together) if together is not None else rising
                place = len(grid) // 2 if where is None else _first(where >= p)
                place = min(place, len(grid) - 1)
                points[slot, j] = grid[place]
                heights[slot, j] = p if rising is None else rising[place]
        return QuantileSquares(part, shares, points, heights)

    def _influences(self, every: Sequence[SlotRelease], shares: tuple[float, ...]) -> BoundedSum:
        """The same for all groups within strata."""
        schema, first = self.schema, every[0].first
        groups, count = domains_of(schema), len(schema.shares)
        strata = every[schema.slices[-1]][:count]
        weights = np.array(schema.shares) / np.maximum([at.records for at in strata], 1e-9)
        places = np.full((len(groups), len(shares)), len(self.grid) // 2)
        found = np.zeros((len(groups), len(shares), 2))  # what F and the group are multiplied by
        for d, slots in enumerate(groups):
            curve = self.curve_of_group([every[slot] for slot in slots[:count]], strata)
            if curve is None:  # nothing will be known
                continue
            rising = np.clip(_monotone(curve.heights), 0.0, 1.0)
            inside = float(weights @ first.sums[slots[:count], 0])
            for j, p in enumerate(shares):
                places[d, j] = min(_first(rising >= p), len(rising) - 1)
                found[d, j] = 1.0 / inside, -rising[places[d, j]] / inside
        used = np.unique(places)
        along = np.zeros((len(groups), len(shares), 1 + len(used)))
        along[:, :, 0] = found[:, :, 1]
        at = 1 + np.searchsorted(used, places)
        np.put_along_axis(along, at[:, :, None], found[:, :, :1], axis=2)
        terms = UpToPoints(schema, self.columns, tuple(np.array(self.grid)[used].tolist()))
        chosen = replace(first, sums=first.sums[:, [0, *(1 + used)]])
        made = DomainInfluences.at(terms, chosen, np.clip(along, -1e100, 1e100))
        return QuantileInfluences(made.part, made.along, made.centres, shares, places)

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """By the grid points at which F may reach p."""
        curve, grid = noisy_curve(at, at.first), self.sums.grid_in(at.slot)
        if curve is None:
            yield "", vacuous_interval(self.support)
            return
        places = np.arange(len(grid))
        whole = values_are_whole(self._column, grid, _monotone(curve.heights))
        if at.second is not None and isinstance(at.second.part, QuantileWindow):
            closer = noisy_curve(at, at.second)
            if closer is not None:
                places = at.second.part.places_in(at.slot)
                curve = _averaged(curve, closer, places)
        found = self._enlarged(curve, self._effect(at))
        yield "", self._interval(found, at.level, places, whole, grid=grid)

    def _effect(self, at: SlotRelease) -> Spread:
        """How many times as much shares vary as without clusters."""
        if at.second is None or not isinstance(at.second.part, QuantileSquares):
            return Spread(1.0, 0.0)
        k = at.second.part.shares.index(self.p)
        return effect_on_share(at, float(at.second.part.heights[at.slot, k]), k)

    def _enlarged(self, curve: NoisyCurve, effect: Spread) -> NoisyCurve:
        """With clusters; the least noise is counted in the degrees of freedom."""
        factor, noise = curve.factor * effect.sampling, float(curve.noise.min())
        sampling = self.p * (1.0 - self.p) * float(factor.max())
        freedom = effect.degrees_of_freedom
        if sampling > 0:
            freedom *= ((sampling + noise) / sampling) ** 2
        return NoisyCurve(curve.heights, curve.noise, factor, freedom, effect.noise_dominated)

    def read_strata(self, slots: Sequence[SlotRelease]) -> Iterator[tuple[str, Interval]]:
        """The distribution function of the population is sum W_h F_h."""
        if self.schema.domains:
            yield from self.read_domain(slots, slots)
            return
        shares = self.schema.shares
        curves = [noisy_curve(at, at.first) for at in slots]
        unknown = math.fsum(x for x, one in zip(shares, curves, strict=True) if one is None)
        if unknown > MOST_UNKNOWN:
            yield "", vacuous_interval(self.support)
            return
        heights, noise, sampling = np.zeros((3, len(self.grid)))
        variances, hidden = [], False
        for at, share, own in zip(slots, shares, curves, strict=True):
            if own is None:
                continue
            inside = np.clip(_monotone(own.heights), 0.0, 1.0)
            effect = self._effect(at)
            each = share**2 * own.factor * effect.sampling * inside * (1.0 - inside)
            heights += share * own.heights
            noise += share**2 * own.noise
            sampling += each
            variances.append((float(each.max()), effect.degrees_of_freedom))
            hidden = hidden or effect.noise_dominated
        places, whole = (
            np.arange(len(self.grid)),
            values_are_whole(self._column, self.grid, _monotone(heights)),
        )
        sampling /= self.p * (1.0 - self.p)
        # F of a stratum that is not known is anywhere in [0, 1].
        heights += 0.5 * unknown
        both = NoisyCurve(heights, noise, sampling, satterthwaite(variances), hidden)
        found = self._interval(both, slots[0].level, places, whole, 0.5 * unknown)
        few = [name for name, one in zip(self.schema.strata, curves, strict=False) if one is None]
        yield "", replace(found, flags=(*found.flags, *(f"{name}: {FEW}" for name in few)))

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """The distribution function of a group is a ratio of totals (``domains.py``).

        z = 1_d (1[y <= g] - F); its squares sum up to (1 - 2 F) F_h + F^2 for every record.
        """
        curve = self.curve_of_group(inside, strata)
        if curve is None:
            yield "", vacuous_interval(self.support)
            return
        whole = values_are_whole(self._column, self.grid, _monotone(curve.heights))
        found = self._enlarged(curve, self._effect_in_domain(curve, inside, strata))
        yield "", self._interval(found, strata[0].level, np.arange(len(self.grid)), whole)

    def _effect_in_domain(
        self, curve: NoisyCurve, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Spread:
        """The same, by the variance of the share up to the quantile over all strata."""
        second = strata[0].second
        if second is None or not isinstance(second.part, QuantileInfluences):
            return Spread(1.0, 0.0)
        k = second.part.shares.index(self.p)
        slots = [at.slot for at in inside]
        groups = domains_of(self.schema)
        group = next(d for d, own in enumerate(groups) if own[: len(slots)] == slots)
        weights = np.array(self.schema.shares) / [at.records for at in strata]
        sampling, error, doubt = sampled(inside, strata, weights, k)
        plain = float(curve.factor[second.part.places[group, k]]) * self.p * (1.0 - self.p)
        if not plain > 0.0:
            return Spread(1.0, 0.0)
        found = released_spread(sampling / plain, error / plain, 0.0, doubt / plain**2)
        return replace(found, sampling=max(found.sampling, 1.0))

    def curve_of_group(
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
        self,
        curve: NoisyCurve,
        level: float,
        places: IntArray,
        whole: bool,
        beside: float = 0.0,
        grid: tuple[float, ...] = (),
    ) -> Interval:
        """From the curve at ``places`` of the grid, off by at most ``beside`` besides."""
        lower, upper = self.support
        grid = grid or self.grid
        sampling = self.p * (1.0 - self.p) * curve.factor
        c = float(ndtri(0.5 + 0.5 * level))
        if math.isfinite(curve.degrees_of_freedom):
            c = Spread(0.0, 0.0, curve.degrees_of_freedom).quantile(level)
        errors = c * np.sqrt(curve.noise + sampling) + beside
        every = np.array([*grid, upper])
        points = every[[*places, places[-1] + 1]]
        first, last = may_reach(curve.heights, errors, self.p)
        low = float(points[first - 1]) if first else float(points[0])
        if first == 0 and places[0] == 0 and grid[0] > lower:
            low = lower
        high = float(points[last])
        if (low, high) == (lower, upper):
            return vacuous_interval((low, high), ANYWHERE)
        monotone = _monotone(curve.heights)
        value = into(self._value(monotone, points, whole), (low, high))
        here = min(_first(monotone >= self.p), len(curve.noise) - 1)
        own = float(curve.noise[here])
        share = own / float(curve.noise[here] + sampling[here]) if own > 0 else 0.0
        flags = (ROUGH,) if curve.noise_dominated else ()
        return Interval(value, (high - low) / (2.0 * c), (low, high), share, flags)

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


def simulated_interval(
    request: ReleasedQuantile,
    shares: FloatArray,
    size: int,
    noise: float,
    level: float,
    rng: np.random.Generator,
) -> Interval:
    """Of a group of ``size`` records that are made up, with ``shares`` in the cells of the grid.

    ``noise`` is the variance of the noise over the squared radius, with all of the budget.
    """
    grid, twice = request.grid, len(request.grid) > NEAR and not request.schema.once
    running = np.cumsum(rng.multinomial(size, shares)).astype(np.float64)

    def released(places: IntArray, budget: float) -> NoisyCurve | None:
        part = _columns(len(places), True)
        variance = noise * part.radius**2 / budget
        found = running[[*places, len(grid)]]
        found = found + math.sqrt(variance) * (part.root @ rng.normal(size=len(found)))
        unsampled = request.schema.unsampled(size)
        return _curve_of(found[-1], found[:-1], part.covariance.times(variance), unsampled)

    places = np.arange(len(grid))
    curve = released(places, FIRST_SHARE if twice else 1.0)
    if curve is None:
        return vacuous_interval(request.support)
    if twice:
        places = _around(curve, [request.p], len(grid), NEAR)
        closer = released(places, 1.0 - FIRST_SHARE)
        if closer is None:
            return vacuous_interval(request.support)
        curve = _averaged(curve, closer, places)
    return request._interval(curve, level, places, request._column.whole)


def _curve_of(
    records: float,
    running: FloatArray,
    noise: NoiseCovariance,
    unsampled: float,
    squares: float | None = None,
) -> NoisyCurve | None:
    """F by numbers of records up to some points and of all; None where noise hides the latter."""
    if not records > max(CLEARLY * math.sqrt(noise.own[0]), 1e-9):
        return None
    curve = running / records
    variance = noise.own[1:] - 2.0 * curve * noise.first[1:]
    variance = np.maximum(variance + curve**2 * noise.own[0], 0.0) / records**2
    factor = unsampled * (records if squares is None else squares) / records**2
    return NoisyCurve(curve, variance, np.full(len(curve), factor))


def noisy_curve(at: SlotRelease, noisy: NoisySums) -> NoisyCurve | None:
    """F of one slot by one of the rounds; None where there are too few records for the noise.

    The first round has the weights, whichever is read.
    """
    noise = noisy.noise_in(at.slot)
    records, running = float(noisy.sums[at.slot, 0]), noisy.sums[at.slot, 1 : len(noise.own)]
    return _curve_of(
        records, running, noise, replace(at, first=noisy).unsampled, at.squared_weights
    )


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
# The radius is ``sqrt(K) / (2m)``.
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


#: The word for a grid that is chosen by the sizes of groups.
BY_SIZES = "sizes"
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
    """The value that a share ``p`` of the records stays below; radius sqrt(K) / (2m), proved above.

    Parameters
    ----------
    p : float
        The share, above 0 and below 1.
    grid : int, sequence of float or "sizes", default=None
        The number K of evenly spaced points inside the range, at most 1024, or the points
        themselves, of which the first may be ``lower``. Public: the data must not choose it. None
        means the whole numbers of a range between two of them up to 128 apart, with even parts
        between them where it is short, and 64 even steps otherwise; in one release a finer grid.
        Few points near where the quantile is carry less noise, which small groups need: "sizes",
        in one release, chooses the number for every group by its public size
        (:class:`mustdp.types.Groups`).
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> Quantile(0.9, grid=4).query(SubsetSchema([0.0], [10.0], 20)).blocks
    (QueryBlock(label='distribution', width=4, radius=0.05),)
    """

    p: float
    grid: int | tuple[float, ...] | str | None = None
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

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """On its own grid, or on one that fits the range."""
        column = schema.columns[columns[0]]
        if self.by_sizes and column.grids:
            one, own = max(column.grids, key=len), column.grids if len(column.grids) > 1 else ()
            return ReleasedQuantile(schema, columns, self.p, one, self._called(), own)
        own_points = self.grid not in (None, BY_SIZES)
        grid = (
            self._points(column.numeric) if own_points else grid_for(column.numeric, column.whole)
        )
        return ReleasedQuantile(schema, columns, self.p, grid, self._called())

    def _called(self) -> str:
        return f"quantile:{self.p:g}"

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", checks.real("p", self.p, above=0.0, below=1.0))
        if self.grid is None or self.by_sizes:
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

    @property
    def by_sizes(self) -> bool:
        """Where it says so."""
        return isinstance(self.grid, str) and self.grid == BY_SIZES

    def check_bootstrap(self) -> None:
        """Sizes of groups are those of a release."""
        if self.by_sizes:
            raise InvalidParameter.refusing(
                "statistic", f"must have a grid other than {BY_SIZES!r} here", repr(self.written)
            )
        super().check_bootstrap()

    def _on(self, public: SubsetSchema) -> Query:
        grid = self._points(public.ranges[0])
        whole = self.grid is None and _fitting(public.ranges[0])[1]
        return QuantileQuery(public, self.p, grid, (self._label(),), whole)

    def _points(self, column: Range) -> tuple[float, ...]:
        if self.grid is None:
            points = np.array(_fitting(column)[0])
        elif isinstance(self.grid, tuple):
            points = np.array(self.grid)
        elif isinstance(self.grid, str):
            raise InvalidParameter(
                "grids must be chosen by the sizes of groups before they are used"
            )
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


def _read_grid(text: str, whole: str) -> int | tuple[float, ...] | str:
    """A number of points, or the points, in the argument of a statistic written as ``whole``."""
    if text == BY_SIZES:
        return text
    found = tuple(read_number(whole, one) for one in text.split(","))
    return int(found[0]) if len(found) == 1 and found[0].is_integer() else found


def _written_grid(grid: int | tuple[float, ...] | str) -> str:
    """As :func:`_read_grid` reads it."""
    if isinstance(grid, str):
        return grid
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
    grid : int, sequence of float or "sizes", default=None
        As in :class:`Quantile`.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> Median(grid=4).query(SubsetSchema([0.0], [10.0], 20)).blocks
    (QueryBlock(label='distribution', width=4, radius=0.05),)
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
