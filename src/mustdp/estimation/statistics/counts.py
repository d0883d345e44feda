"""Numbers of records: all of them, shares of them, histograms and contingency tables."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import (
    LEAST_SHARE,
    Averaged,
    BoundedSum,
    NoiseCovariance,
    NoisySums,
    Piece,
    Query,
    present,
    radius_of_squares,
    squares_in_clusters,
)
from mustdp.estimation.result import (
    Interval,
    Spread,
    Support,
    fieller_interval,
    t_interval,
    wilson_interval,
)
from mustdp.estimation.schema import Column, PublicSchema, Shape, SubsetSchema
from mustdp.estimation.statistics.domains import (
    domain_interval,
    influences_on,
    needs_influences,
)
from mustdp.estimation.statistics.moments import Amount, AverageQuery
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

# Which of finitely many cells a record is in: the part behind counts, shares and tables.
#
# A contribution is the unit vector of the record's cell: radius 1, diameter sqrt(2), however many
# cells there are. Two cells of a known number of records need one number only, 1/2 or -1/2, of
# diameter 1.


class CellRule(ABC):
    """A rule that puts a record, by some of its columns, into one of ``labels``."""

    labels: tuple[str, ...]

    @abstractmethod
    def places(self, values: FloatArray) -> IntArray:
        """The cell of every row of ``values``."""


@dataclass(frozen=True)
class OneCell(CellRule):
    """One cell for all records."""

    labels: tuple[str, ...] = ("",)

    def places(self, values: FloatArray) -> IntArray:
        """Zeros."""
        return np.zeros(len(values), dtype=np.int64)


@dataclass(frozen=True)
class Within(CellRule):
    """Values in [low, high] and all others; an end may be left out of the interval."""

    low: float
    high: float
    open_low: bool = False
    open_high: bool = False
    labels: tuple[str, ...] = ("in", "out")

    def places(self, values: FloatArray) -> IntArray:
        """0 inside, 1 outside."""
        column = values[:, 0]
        inside = (column > self.low) if self.open_low else (column >= self.low)
        inside &= (column < self.high) if self.open_high else (column <= self.high)
        return np.where(inside, 0, 1)


@dataclass(frozen=True)
class Between(CellRule):
    """Cells between ``edges``; the last one has both of its ends."""

    edges: tuple[float, ...]

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """The cells as intervals."""
        last = len(self.edges) - 2
        return tuple(
            f"[{low:g}, {high:g}{']' if k == last else ')'}"
            for k, (low, high) in enumerate(zip(self.edges, self.edges[1:], strict=False))
        )

    def places(self, values: FloatArray) -> IntArray:
        """The number of inner edges that a value has reached."""
        return np.searchsorted(np.array(self.edges[1:-1]), values[:, 0], side="right")


@dataclass(frozen=True)
class Outside(CellRule):
    """Values below ``low``, within the range, and above ``high``."""

    low: float
    high: float
    labels: tuple[str, ...] = ("below", "within", "above")

    def places(self, values: FloatArray) -> IntArray:
        """0, 1 or 2."""
        column = values[:, 0]
        return np.where(column < self.low, 0, np.where(column > self.high, 2, 1))


@dataclass(frozen=True)
class Listed(CellRule):
    """A column of categories, already numbered."""

    labels: tuple[str, ...]

    def places(self, values: FloatArray) -> IntArray:
        """The numbers."""
        return values[:, 0].astype(np.int64)


@dataclass(frozen=True)
class Crossed(CellRule):
    """Cells of several columns at once, the last one fastest."""

    parts: tuple[CellRule, ...]

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """The labels of the parts, joined."""
        found: tuple[str, ...] = ("",)
        for part in self.parts:
            found = tuple(
                f"{first}, {own}" if first else own for first in found for own in part.labels
            )
        return found

    def places(self, values: FloatArray) -> IntArray:
        """The cells of the parts, as digits of one number."""
        found = np.zeros(len(values), dtype=np.int64)
        for k, part in enumerate(self.parts):
            found = found * len(part.labels) + part.places(values[:, k : k + 1])
        return found


@dataclass(frozen=True)
class CellCounts(BoundedSum):
    """The number of records in every cell.

    Natural sums: all records, then those of every cell.
    """

    schema: PublicSchema
    columns: tuple[int, ...]
    rule: CellRule

    @cached_property
    def _halved(self) -> bool:
        return len(self.rule.labels) == 2 and not self.schema.counted

    @property
    def width(self) -> int:
        """One number, or one for each cell."""
        return 1 if self._halved else len(self.rule.labels)

    @property
    def radius(self) -> float:
        """Of a unit vector, or of a half."""
        return 0.5 if self._halved else 1.0

    @property
    def diameter(self) -> float:
        """Between two unit vectors, or two halves; nothing where there is one cell."""
        if len(self.rule.labels) == 1:
            return 0.0 if self.schema.counted else 1.0
        return 1.0 if self._halved else math.sqrt(2.0) * (1.0 + 2.0**-50)

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """Unit vectors, or one half of either sign."""
        places = self.rule.places(values)
        if self._halved:
            return np.where(places == 0, 0.5, -0.5)[:, None]
        found = np.zeros((len(values), self.width))
        found[np.arange(len(values)), places] = 1.0
        return found

    def terms(self, values: FloatArray) -> FloatArray:
        """1, and the unit vector of the record's cell."""
        found = np.zeros((len(values), 1 + len(self.rule.labels)))
        found[:, 0] = 1.0
        found[np.arange(len(values)), 1 + self.rule.places(values)] = 1.0
        return found

    def extremes(self) -> FloatArray:
        """A record of every cell."""
        count = len(self.rule.labels)
        return np.concatenate([np.ones((count, 1)), np.eye(count)], axis=1)

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """By counting, where every record counts once."""
        if piece.weights is not None:
            return super().sums(piece, per_step)
        values, slots, _ = present(piece, self.columns)
        count = len(self.rule.labels)
        places = slots * count + self.rule.places(values)
        counts = np.bincount(places, minlength=self.schema.slots * count)
        return self.from_counts(
            counts.reshape(self.schema.slots, count).astype(np.float64), per_step
        )

    def from_counts(self, counts: FloatArray, per_step: float) -> FloatArray:
        """The sums of records that count once, from their numbers (slots, cells)."""
        found = counts
        if self._halved:
            found = (found[:, :1] - found[:, 1:]) * 0.5
        step = 2.0 * np.trunc(0.5 * per_step) if self._halved else np.trunc(per_step)
        return np.asarray(found * step)

    def natural(self, vectors: FloatArray) -> FloatArray:
        """All records, and those of every cell."""
        n = float(self.schema.n or 0)
        if self._halved:
            all_of_them = np.full_like(vectors, n)
            return np.concatenate([all_of_them, 0.5 * n + vectors, 0.5 * n - vectors], axis=1)
        total = vectors.sum(axis=1, keepdims=True)
        if not self.schema.counted:
            total = np.full_like(total, n)
        return np.concatenate([total, vectors], axis=1)

    @property
    def covariance(self) -> NoiseCovariance:
        """Of independent cells; their sum is noisy where the number of all is not public."""
        if self._halved:
            return NoiseCovariance(np.zeros(3), np.array([0.0, 1.0, 1.0]))
        count = len(self.rule.labels)
        both = np.ones(count) if self.schema.counted else np.zeros(count)
        total = both.sum(keepdims=True)
        whole = None
        if count <= 2:
            whole = np.eye(count + 1)
            whole[0], whole[:, 0] = np.append(total, both), np.append(total, both)
        return NoiseCovariance(np.append(total, both), np.append(total, np.ones(count)), whole)


@dataclass(frozen=True)
class Unclipped(CellCounts):
    """Cells of values as they stand in the data, for what clipping does to them."""

    about_clipping: ClassVar[bool] = True

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """Of the values before they are clipped."""
        raw = piece.values if piece.raw is None else piece.raw
        return super().sums(Piece(raw, piece.slots, piece.weights), per_step)


@dataclass(frozen=True, eq=False)
class CellSquares(BoundedSum):
    """Squared sums within clusters of the influences on ``shares`` (slots, cells) of ``cells``.

    Natural sums: those of every cell, or of the first of two.
    """

    tells_records: ClassVar[bool] = False
    cells: CellCounts
    shares: FloatArray
    schema: PublicSchema = field(init=False)
    columns: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        shares = np.clip(self.shares, 0.0, 1.0)
        shares = shares / np.maximum(shares.sum(axis=1, keepdims=True) * (1.0 + 2.0**-40), 1.0)
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "schema", self.cells.schema)
        object.__setattr__(self, "columns", self.cells.columns)

    @property
    def width(self) -> int:
        """One number for two cells, else one for each."""
        count = len(self.cells.rule.labels)
        return 1 if count <= 2 else count

    @property
    def radius(self) -> float:
        """Proved in ``queries.py``."""
        length = 1.0 if self.width == 1 else math.sqrt(2.0)
        return radius_of_squares(self.schema, length, math.sqrt(self.width))

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
        """The influences e_k - p of records."""
        places = self.cells.rule.places(values)
        found = -self.shares[slots][:, : self.width]
        at = np.flatnonzero(places < self.width)
        found[at, places[at]] += 1.0
        return found

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """Of clusters; a cell after the other."""
        values = piece.values
        if isinstance(self.cells, Unclipped) and piece.raw is not None:
            values = piece.raw
        return squares_in_clusters(self, piece, values, per_step)


# The number of records.


@register
@dataclass(frozen=True)
class Count(Statistic):
    """The number of records, of those of a group, or of those that have a value.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        Columns that the records counted must have a value in, each by itself.
    """

    columns: tuple[str | int, ...] | None = None
    name = "count"
    about = "the number of records, of a group or with a value"
    for_bootstrap = False
    numeric = False
    is_total = True
    in_domains = True

    def requests(self, schema: PublicSchema) -> Iterator[StatisticRequest]:
        """One number, or one for each column where values may be missing."""
        columns = self.positions([column.name for column in schema.columns])
        self.check_domains(schema)
        self.check_survey(schema)
        if (self.columns is None and not schema.dropped) or not columns:
            yield ReleasedCount(schema, ())
            return
        yield from (ReleasedCount(schema, (k,)) for k in columns)

    def check_survey(self, schema: PublicSchema) -> None:
        """Strata have public sizes."""
        if schema.shares and not schema.domains:
            reason = "must not be count with strata, whose numbers in the population are public"
            raise InvalidParameter.refusing("statistic", reason, repr(self.written))
        super().check_survey(schema)


@dataclass(frozen=True)
class ReleasedCount(StatisticRequest):
    """The number of records in one release."""

    counts_records: ClassVar[bool] = True
    is_total: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """In results."""
        return "count"

    @cached_property
    def sums(self) -> CellCounts | None:
        """One cell; nothing where the number is public."""
        schema = self.schema
        known = schema.public_size and not schema.groups and not schema.weighted
        if known and not (schema.dropped and self.columns):
            return None
        return CellCounts(self.schema, self.columns, OneCell())

    def read_public(self) -> Iterator[tuple[str, Interval]]:
        """The public number."""
        n = float(self.schema.n or 0)
        yield "", Interval(n, 0.0, (n, n))

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """The first natural sum of any part; of all records, the public number."""
        grouping = self.schema.grouping
        if self.schema.known_total and grouping is not None and not grouping.keys[at.slot]:
            yield from self.read_public()
            return
        effect = Spread(0.0 if self._at_hand else 1.0, 0.0)
        yield "", number_of_records(at, 0, effect)

    def read_strata(self, slots: Sequence[SlotRelease]) -> Iterator[tuple[str, Interval]]:
        """The public number in the population."""
        n = self.schema.population
        yield "", Interval(n, 0.0, (n, n))

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """The number in the population; what tells it may keep no further covariances."""
        here = np.array([1.0, 0.0])
        found = domain_interval(inside, strata, here, here, ratio=False, support=(0.0, 1.0), cell=0)
        yield "", found.scaled(self.schema.population)

    @property
    def two_rounds(self) -> bool:
        """For groups within strata, of records that count unequally or come in clusters."""
        return needs_influences(self.schema)

    @property
    def weighted_errors(self) -> bool:
        """Then they are in the second round."""
        return self.schema.domains

    def second_sums(self, first: NoisySums, together: Sequence[StatisticRequest]) -> BoundedSum:
        """Influences on the shares of groups within strata."""
        return influences_on(
            CellCounts(self.schema, self.columns, OneCell()),
            replace(first, sums=first.sums[:, [0, 0]]), (np.array([1.0, 0.0]),), ratio=False,
        )  # fmt: skip

    @property
    def _at_hand(self) -> bool:
        """Whether the records that are there are counted, so that nothing was sampled.

        So it is without a public number of all records, and with clusters, whose sizes are no draws
        of single records.
        """
        schema = self.schema
        known = schema.public_size and (schema.dropped or bool(schema.groups))
        return schema.largest_cluster is not None or not (known or schema.groups)

    def describe(self, cell: str) -> str:
        """What is counted, and among which records."""
        schema, found = self.schema, "number of records"
        if self.columns and schema.dropped:
            names = " and ".join(schema.columns[k].name for k in self.columns)
            found = f"number of records that have {names}"
        return f"{found} {schema.records_meant(self._at_hand)}"


# Statistics of cells in one release.


@dataclass(frozen=True)
class InCells(StatisticRequest):
    """A statistic of cells; where records come in clusters, a second round tells its errors."""

    rule: CellRule

    @cached_property
    def sums(self) -> CellCounts:
        """The cells."""
        return CellCounts(self.schema, self.columns, self.rule)

    @property
    def two_rounds(self) -> bool:
        """With clusters; for groups within strata with weights, too."""
        return self.schema.largest_cluster is not None or needs_influences(self.schema)

    @property
    def weighted_errors(self) -> bool:
        """For groups within strata they are in the second round."""
        return self.schema.domains

    @property
    def support(self) -> Support:
        """Of shares."""
        return (0.0, 1.0)

    @property
    def influences(self) -> int:
        """One for every cell."""
        return len(self.rule.labels)

    def second_sums(self, first: NoisySums, together: Sequence[StatisticRequest]) -> BoundedSum:
        """Squared influences on the shares, added up within clusters."""
        if self.schema.domains:
            totals = [np.eye(len(first.sums[0]))[cell] for cell, _ in self._domain_cells]
            return influences_on(self.sums, first, totals, ratio=not self.is_total)
        return CellSquares(self.sums, shares_of_cells(first))

    @property
    def _domain_cells(self) -> list[tuple[int, str]]:
        """The cells that are estimated, by number from 1 on, with their names."""
        return [(cell, label) for cell, label in enumerate(self.rule.labels, start=1)]

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """Shares of the group, or numbers in the population."""
        yes = np.array([0.0, 1.0])
        for place, (cell, label) in enumerate(self._domain_cells):
            found = domain_interval(
                inside, strata, yes, yes, ratio=not self.is_total, support=(0.0, 1.0), cell=cell,
                estimate=place,
            )  # fmt: skip
            yield label, found.scaled(self.schema.population) if self.is_total else found

    def read_strata(self, slots: Sequence[SlotRelease]) -> Iterator[tuple[str, Interval]]:
        """Of everybody: as of any group, where there are some within strata."""
        if needs_influences(self.schema):
            yield from self.read_domain(slots, slots)
            return
        yield from super().read_strata(slots)


@dataclass(frozen=True)
class ReleasedTable(InCells):
    """The number of records in every cell of a histogram or a contingency table."""

    is_total: ClassVar[bool] = True
    called: str = "histogram"

    @property
    def name(self) -> str:
        """In results."""
        return self.called

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """One number for every cell: over strata, that of the population."""
        for cell, label in enumerate(self.rule.labels, start=1):
            if self.schema.shares:
                yield label, share_of_records(at, cell).scaled(self.schema.population)
            else:
                yield label, number_of_records(at, cell, cluster_effect(at, cell))

    @property
    def support(self) -> Support:
        """Of numbers of records in the population."""
        return (0.0, self.schema.population)

    def describe(self, cell: str) -> str:
        """What is counted."""
        columns, of = ", ".join(map(self.said, self.columns)), self.schema.records_meant()
        return f"number of records with {columns} in {cell} {of}"


@dataclass(frozen=True)
class ReleasedShare(InCells):
    """The share of records in the first of two cells."""

    condition: str = ""
    is_average: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """In results, as it was asked for."""
        return f"proportion:{self.condition}"

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """By Wilson and Fieller."""
        yield "", share_of_records(at, 1)

    @property
    def _domain_cells(self) -> list[tuple[int, str]]:
        """The first one."""
        return [(1, "")]

    def describe(self, cell: str) -> str:
        """Which share."""
        return f"share of records with {self.said(self.columns[0])} {self.condition}"


@dataclass(frozen=True)
class ReleasedClipping(InCells):
    """The shares of records that clipping changes, below and above the range."""

    @property
    def name(self) -> str:
        """In results."""
        return "clipping"

    @cached_property
    def sums(self) -> Unclipped:
        """Below, within and above."""
        return Unclipped(self.schema, self.columns, self.rule)

    @property
    def _domain_cells(self) -> list[tuple[int, str]]:
        """Both ends."""
        return [(1, "below"), (3, "above")]

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """By Wilson and Fieller, as shares."""
        for cell, label in self._domain_cells:
            yield label, share_of_records(at, cell)

    def describe(self, cell: str) -> str:
        """Which end."""
        column = self.schema.columns[self.columns[0]]
        end = column.numeric.lower if cell == "below" else column.numeric.upper
        return f"share of records with {column.name} {cell} {end:g}, which are clipped to it"


def shares_of_cells(noisy: NoisySums) -> FloatArray:
    """The shares of the cells in every slot, brought into [0, 1]."""
    records = np.maximum(noisy.sums[:, :1], 1e-9)
    return np.clip(noisy.sums[:, 1:] / records, 0.0, 1.0)


def share_of_records(at: SlotRelease, cell: int) -> Interval:
    """The share of one cell: binomial, over a number of records that may be noisy."""
    effect = cluster_effect(at, cell)
    spread = at.squared_weights * at.unsampled * effect.sampling
    noise = at.noise.pair(cell)
    inside = float(shares_of_cells(at.first)[at.slot, cell - 1])
    own = float(np.array([-inside, 1.0]) @ noise @ np.array([-inside, 1.0]))
    return fieller_interval(
        float(at.first.sums[at.slot, cell]),
        at.records,
        variance=(0.0, spread, -spread),
        noise=noise,
        precision=_with_noise(effect, spread * inside * (1.0 - inside), own),
        level=at.level,
        support=(0.0, 1.0),
    )


def cluster_effect(at: SlotRelease, cell: int) -> Spread:
    """How many times as much a share varies as one of records without clusters."""
    second = at.second
    if second is None or at.schema.largest_cluster is None:
        return Spread(1.0, 0.0)
    inside = float(shares_of_cells(at.first)[at.slot, cell - 1])
    return effect_on_share(at, inside, 0 if second.part.width == 1 else cell - 1)


def number_of_records(at: SlotRelease, cell: int, effect: Spread) -> Interval:
    """A number of records among all: binomial, given the number of all; never below zero.

    ``cell`` is that of a table, from 1 on; 0 is the number of all of the slot. Where the number of
    all is public, never above it. With weights, the sum of them; its sampling variance is the sum
    of their squares. ``effect`` is that of clusters; an effect of 0 says that the records at hand
    are meant. The number at hand lies within the noise alone: that is always part of the interval.
    """
    schema = at.schema
    value, noise = float(at.first.sums[at.slot, cell]), float(at.noise.own[cell])
    total = at.total_records
    most = total if schema.public_size else math.inf
    if schema.largest_cluster is not None and schema.dropped:
        # How clusters differ is known of the records with a value: given their number.
        total = min(max(schema.of_all(at.first.sums[:, 0]), 1.0), most)
    largest = schema.largest_weight
    if largest is not None:
        inside = value / max(at.records, 1e-9)
        sampling = at.squared_weights * min(max(inside, 0.0), 1.0)
        spread = Spread(sampling * schema.unsampled(total), noise)
        return t_interval(value, spread, at.level, (0.0, math.inf)).scaled(largest)
    if schema.known_total and noise == 0.0 and value == total:
        return Interval(total, 0.0, (total, total))
    varies = total * schema.unsampled(total) * effect.sampling
    inside = min(max(value / total, 0.0), 1.0)
    found = fieller_interval(
        value,
        total,
        variance=(0.0, varies, -varies),
        noise=np.array([[0.0, 0.0], [0.0, noise]]),
        precision=_with_noise(effect, varies * inside * (1.0 - inside), noise),
        level=at.level,
        support=(0.0, most / total),
    )
    at_hand = t_interval(value, Spread(0.0, noise), at.level, (0.0, most))
    low, high = (total * end for end in found.ends)
    error = max(total * found.standard_error, at_hand.standard_error)
    # What agrees with its margins must not be cut.
    agreed = at_hand.value if at.first.agreed is None else value
    return replace(
        found,
        value=agreed,
        standard_error=error,
        ends=(min(low, at_hand.ends[0], agreed), max(high, at_hand.ends[1], agreed)),
        noise_share=noise / error**2 if error > 0 else 0.0,
    )


def _with_noise(effect: Spread, sampling: float, noise: float) -> Spread:
    """The degrees of freedom of a whole variance of which the sampling has those of ``effect``."""
    if not sampling > 0:
        return replace(effect, degrees_of_freedom=math.inf)
    freedom = effect.degrees_of_freedom * ((sampling + noise) / sampling) ** 2
    return replace(effect, degrees_of_freedom=freedom)


# Histograms, tables and clipping.


#: Cells of a histogram of numbers if nothing is said, and the most that are accepted.
CELLS, MOST_CELLS = 20, 10_000


def cell_rule(column: Column, count: int) -> CellRule:
    """The categories of a column, or cells of equal width."""
    if column.categories:
        return Listed(column.cells)
    found = column.numeric
    edges = found.lower + found.width * (np.arange(count + 1) / count)
    edges[-1] = found.upper
    return Between(tuple(edges.tolist()))


@register
@dataclass(frozen=True)
class Histogram(Statistic):
    """The number of records in every cell of a column.

    Parameters
    ----------
    count : int, default=20
        The number of cells of a column of numbers; categories have a cell each.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    """

    count: int = CELLS
    columns: tuple[str | int, ...] | None = None
    name = "histogram"
    usage = "histogram[:CELLS]"
    about = "the number of records in each category, or in each of CELLS equal parts of the range"
    for_bootstrap = False
    numeric = False
    is_total = True
    in_domains = True

    def __post_init__(self) -> None:
        checks.integer("statistic", self.count, 1, MOST_CELLS)
        super().__post_init__()

    @classmethod
    def parse(cls, argument: str | None, text: str) -> Statistic:
        """The number of cells behind the colon."""
        if argument is None:
            return cls()
        if not argument.strip().isdecimal():
            raise InvalidParameter.refusing(
                "statistic", f"must have a whole number in place of {argument!r}", repr(text)
            )
        return cls(int(argument))

    @property
    def argument(self) -> str | None:
        """The number of cells, where it is not the usual one."""
        return None if self.count == CELLS else str(self.count)

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """One column."""
        rule = cell_rule(schema.columns[columns[0]], self.count)
        return ReleasedTable(schema, columns, rule, "histogram")


@register
@dataclass(frozen=True)
class Contingency(Statistic):
    """The number of records in every cell of several columns at once.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    """

    columns: tuple[str | int, ...] | None = None
    name = "contingency"
    about = "the number of records in every combination of categories or cells"
    fewest = 2
    most = None
    for_bootstrap = False
    numeric = False
    is_total = True
    in_domains = True

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """All columns at once."""
        rules = tuple(cell_rule(schema.columns[k], CELLS) for k in columns)
        return ReleasedTable(schema, columns, Crossed(rules), "contingency")


@register
@dataclass(frozen=True)
class Clipping(Statistic):
    """The shares of records that clipping changes, below and above the range.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    """

    columns: tuple[str | int, ...] | None = None
    name = "clipping"
    about = "the shares of records that the range clips, below and above"
    for_bootstrap = False
    in_domains = True

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """One column."""
        column = schema.columns[columns[0]].numeric
        return ReleasedClipping(schema, columns, Outside(column.lower, column.upper))


# The share of records whose value lies in a given set.


#: How the limits are written.
SIGNS = {"above": ">", "at_least": ">=", "below": "<", "at_most": "<=", "equal": "="}


@dataclass(frozen=True)
class Membership(Amount):
    """1 for values of the first column that a rule puts into its first cell, else 0."""

    rule: Within
    mid = 0.5
    half = 0.5

    def centred(self, values: FloatArray) -> FloatArray:
        """1/2 inside and -1/2 outside."""
        return np.where(self.rule.places(values) == 0, 0.5, -0.5)


@dataclass(frozen=True)
class ShareQuery(AverageQuery):
    """A share p of the records; its sampling variance follows from p itself."""

    def known(self, at: Averaged, level: float) -> tuple[Interval | None, ...]:
        """By Wilson, with noise."""
        value, noise = float(self.estimate(at.vector)[0]), float(at.noise[0])
        if self.public.poisson:  # p = 1/2 + sum / size
            size = max(float(at.vector[1]), LEAST_SHARE)
            noise = (noise + (value - 0.5) ** 2 * float(at.noise[1])) / size**2
        return (wilson_interval(value, at.factor, noise, level),)


@register
@dataclass(frozen=True)
class Proportion(Statistic):
    """The share of records with a value in a set: between limits, or equal to a number.

    Reach (proof in ``moments.py``, with an amount of 0 or 1, so half = 1/2): on multisets of m
    entries, swapping one entry moves the share by at most 1/m, so the radius is 1/(2m). On Poisson
    subsets of expected size M one copy adds at most 1/(2M) to the centred sum and 1/M to the
    size.

    The set is asked of the *clipped* values: a limit that every value within [lower, upper] lies on
    one side of is refused, and a value beyond an end of the range counts as being that end.

    Parameters
    ----------
    above : float, default=None
        The set begins above this; or give ``at_least``.
    below : float, default=None
        The set ends below this; or give ``at_most``.
    at_least : float, default=None
        The set begins at this, which is in it.
    at_most : float, default=None
        The set ends at this, which is in it.
    equal : float or str, default=None
        The only number in the set, or the only category in one release; given alone.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    condition : str, default=None
        The conditions as they were written, which results then call it by.

    Examples
    --------
    >>> Proportion(above=50.0).query(SubsetSchema([0.0], [100.0], 20)).blocks
    (QueryBlock(label='proportion', width=1, radius=0.025),)
    """

    above: float | None = None
    below: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    equal: float | str | None = None
    columns: tuple[str | int, ...] | None = None
    condition: str | None = field(default=None, repr=False, compare=False)
    name = "proportion"
    usage = "proportion:CONDITION"
    about = "the share of records that meet a condition such as >50, >=50,<60, =1 or =CATEGORY"
    example = "proportion:>0.4,<=0.8"
    numeric = False
    in_domains = True

    def __post_init__(self) -> None:
        given = [limit for limit in SIGNS if getattr(self, limit) is not None]
        for limit in given:
            value = getattr(self, limit)
            if not (limit == "equal" and isinstance(value, str)):
                object.__setattr__(self, limit, checks.real(limit, value))
        lows = {"above", "at_least"} & set(given)
        highs = {"below", "at_most"} & set(given)
        if (
            not given
            or len(lows) > 1
            or len(highs) > 1
            or (self.equal is not None and lows | highs)
        ):
            raise InvalidParameter(
                "proportion must be given equal alone, or one of above and at_least, or one of "
                f"below and at_most, or one of each; got {', '.join(given) or 'none of them'}"
            )
        if not isinstance(self.equal, str):
            inside = self._within()
            strict = inside.open_low or inside.open_high
            if not (inside.low < inside.high or (inside.low == inside.high and not strict)):
                raise InvalidParameter(
                    f"limits of a proportion must leave some values between them, got {self!r}"
                )
        super().__post_init__()

    @classmethod
    def parse(cls, argument: str | None, text: str) -> Statistic:
        """The conditions behind the colon."""
        if argument is None:
            raise unknown_statistic(text)
        stripped = argument.strip()
        if stripped[:1] == "=" and not _is_number(stripped[1:]):
            return cls(equal=stripped[1:].strip(), condition=stripped)
        limits: dict[str, float] = {}
        for condition in argument.split(","):
            found = re.fullmatch(r"\s*(>=|<=|>|<|=)(.*)", condition)
            if found is None or found[1] in limits:
                raise InvalidParameter.refusing(
                    "statistic",
                    "must state a proportion by conditions such as >50, >=50,<60 or =1, each once",
                    repr(text),
                )
            limits[found[1]] = read_number(text, found[2])
        given: dict[str, Any] = {name: limits.get(sign) for name, sign in SIGNS.items()}
        try:
            return cls(**given, condition=stripped)
        except InvalidParameter as problem:
            raise InvalidParameter.refusing(
                "statistic", f"must state possible conditions: {problem}", repr(text)
            ) from None

    @property
    def argument(self) -> str:
        """The conditions."""
        if self.condition is not None:
            return self.condition
        limits = ((sign, getattr(self, name)) for name, sign in SIGNS.items())
        return ",".join(f"{sign}{_shown(limit)}" for sign, limit in limits if limit is not None)

    def check_bootstrap(self) -> None:
        """Subsets have numbers alone."""
        if isinstance(self.equal, str):
            read_number(self.written, self.equal)

    def shape(self, poisson: bool) -> Shape:
        """One half or minus one half, added up."""
        return Shape(in_a_ball=True, one_number=not poisson)

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """Of a category, or of numbers in an interval."""
        column, condition = schema.columns[columns[0]], self.argument
        if column.categories:
            sign, category = condition[:1], condition[1:].strip()
            if sign != "=" or category not in column.categories:
                raise InvalidParameter.refusing(
                    "statistic",
                    f"must ask a proportion of {column.name} as =CATEGORY, one of "
                    f"{', '.join(column.categories)}",
                    repr(self.written),
                )
            at = float(column.categories.index(category))
            return ReleasedShare(schema, columns, Within(at, at), f"={category}")
        self._check_limits(column.numeric.lower, column.numeric.upper, column.name)
        return ReleasedShare(schema, columns, self._within(), condition)

    def _on(self, public: SubsetSchema) -> Query:
        (column,) = public.ranges
        self._check_limits(column.lower, column.upper, "the column")
        return ShareQuery(public, Membership(self._within()), self.name)

    def _check_limits(self, lower: float, upper: float, column: str) -> None:
        if isinstance(self.equal, str):
            read_number(self.written, self.equal)
        for limit in SIGNS:
            value = getattr(self, limit)
            if value is not None and not lower <= value <= upper:
                raise InvalidParameter.refusing(
                    "statistic",
                    f"must have limits from {lower:g} to {upper:g}, the range of {column}",
                    repr(self.written),
                )

    def described(self, label: str, columns: Sequence[str]) -> str:
        """The share of records, and the conditions."""
        given = (
            f"{SIGNS[limit]} {getattr(self, limit):g}"
            for limit in SIGNS
            if getattr(self, limit) is not None
        )
        return f"share of records with {columns[0]} {' and '.join(given)}"

    def _within(self) -> Within:
        if self.equal is not None:
            return Within(float(self.equal), float(self.equal))
        low = self.above if self.above is not None else self.at_least
        high = self.below if self.below is not None else self.at_most
        return Within(
            -np.inf if low is None else low,
            np.inf if high is None else high,
            self.above is not None,
            self.below is not None,
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(limit: float | str) -> str:
    """A limit as it can be typed, without a fraction where there is none."""
    return limit if isinstance(limit, str) else repr(limit).removesuffix(".0")
