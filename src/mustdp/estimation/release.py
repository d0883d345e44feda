"""``private_release``: one noisy release on all records, with estimates and intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mustdp.accounting.plan import Plan
from mustdp.calibration.budget import PrivacySpent, plan_with_noise
from mustdp.data.columns import (
    STANDARD_INPUT,
    Category,
    ColumnRequest,
    Day,
    Missing,
    Number,
    Reading,
    as_frame,
    as_reading,
    check_missing,
)
from mustdp.data.opening import Records, engine_of, open_records
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation.engines import EngineTable, engine_table
from mustdp.estimation.grids import grids_in_words, with_grids
from mustdp.estimation.queries import BoundedSum, JointSums, NoisySums, Piece, PushedDown
from mustdp.estimation.result import Interval, ReleasedEstimate, ReleasedFamily, ReleaseResult
from mustdp.estimation.schema import (
    Columns,
    Limits,
    PublicSchema,
    Range,
    Ranges,
    Survey,
    read_schema,
)
from mustdp.estimation.statistics.counts import Clipping
from mustdp.estimation.statistics.moments import WeightSquares
from mustdp.estimation.statistics.quantiles import QuantileCurve
from mustdp.estimation.statistics.statistic import (
    SlotRelease,
    Statistic,
    StatisticRequest,
    read_statistics,
)
from mustdp.estimation.tables import Groups, Lists, Names, read_groupings
from mustdp.estimation.tables import whole_counts as counts_as_whole
from mustdp.ledger.release import LedgerOrPath, charge_release, check_release
from mustdp.mechanisms.mechanism import Mechanism
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import warn_of_large_delta
from mustdp.progress import Progress
from mustdp.randomness.keys import NoiseSource, release_key
from mustdp.sampling.schemes import Scheme, wor

# Private ranges: where the values of a column lie, found on a logarithmic public grid.
#
# For heavy tails a range that is surely wide enough makes the noise of a mean or a sum useless.
# The first step spends a share s of the budget on the numbers of records up to the points of a
# grid that halves from both public ends towards 0 (or doubles from a positive lower end); the
# second releases the statistics on the range that was found, with the rest. Either step is a
# Gaussian release, and the second may depend on the first: with noise z / sqrt(s) and z / sqrt(1
# - s) both together are exactly one Gaussian release with noise z (Dong, Roth & Su 2022, arXiv
# 1905.02383v3, Theorem 3.2 and Corollary 3.3), which is charged before either.
#
# *Which point.* A mean on [0, B] has noise in proportion to B, and clipping takes off the part of
# the values above B. Both change alike where as many records are above B as the noise of a number
# of records has standard deviations: the upper end is the first point with no more noisy records
# above it, give or take two errors of that number; a lower end below 0 likewise. Statistics are
# those of the clipped values, as with any range, and how many were clipped is released with them.

#: Points of the grid on either side of 0.
POINTS = 40
#: This many errors of a number of records do not count: noise alone seldom keeps a range wide.
_ERRORS = 2.0


def grid_of(own: Range) -> tuple[float, ...]:
    """The points that ends of the range may be, rising; the public ends are not among them.

    >>> [x for x in grid_of(Range(0.0, 1024.0)) if x > 100]
    [128.0, 256.0, 512.0]
    """
    found: list[float] = []
    if own.upper > 0:
        above = (own.upper * 0.5**k for k in range(1, POINTS))
        found += [x for x in above if x > max(own.lower, 0.0)]
    if own.lower < 0:
        below = (own.lower * 0.5**k for k in range(1, POINTS))
        found += [x for x in below if x < min(own.upper, 0.0)]
    if own.lower < 0 < own.upper:
        found.append(0.0)
    return tuple(sorted(found))


def possible_ranges(own: Range) -> Iterator[Range]:
    """Ranges that may be found: all with one end where it was, and the narrowest of the others."""
    yield own
    for point in grid_of(own):
        if point > max(own.lower, 0.0):
            yield Range(max(own.lower, -point), point)
        elif point < min(own.upper, 0.0):
            yield Range(point, min(own.upper, -point))


@dataclass(frozen=True)
class RangeRequest(StatisticRequest):
    """The ends of a column; ``noise`` is how many records may be beyond either."""

    noise: float

    @property
    def name(self) -> str:
        """In results."""
        return "range"

    @cached_property
    def sums(self) -> QuantileCurve:
        """Running counts on the grid."""
        return QuantileCurve(
            self.schema, self.columns, grid_of(self.schema.columns[self.columns[0]].numeric)
        )

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """The lower and the upper end."""
        own = self.schema.columns[self.columns[0]].numeric
        grid, noisy = np.array(self.sums.grid), at.first
        running, records = noisy.sums[at.slot, 1:], float(noisy.sums[at.slot, 0])
        size = len(grid)
        lower, upper = own.lower, own.upper
        for k in range(size):
            one = np.eye(size)[k]
            if grid[k] > max(own.lower, 0.0) and upper == own.upper:
                error = math.sqrt(self.sums.noise_along(noisy, at.slot, -one, 1.0))
                if records - running[k] <= self.noise + _ERRORS * error:
                    upper = float(grid[k])
            if grid[k] < min(own.upper, 0.0):
                error = math.sqrt(self.sums.noise_along(noisy, at.slot, one, 0.0))
                if running[k] <= self.noise + _ERRORS * error:
                    lower = float(grid[k])
        for cell, end in (("lower", lower), ("upper", upper)):
            yield cell, Interval(end, 0.0, (end, end), 1.0)


def check_columns(columns: Sequence[str], schema: PublicSchema) -> tuple[int, ...]:
    """Where the columns are; each needs public ends for its range to be found between."""
    names = [one.name for one in schema.columns]
    for name in columns:
        if name not in names:
            raise InvalidParameter.refusing(
                "find", f"must name columns among {', '.join(names)}", repr(name)
            )
    if columns and (schema.largest_cluster is not None or schema.shares):
        raise InvalidParameter.refusing(
            "find", "must not be given with clusters or strata", repr(columns[0])
        )
    found = tuple(names.index(name) for name in dict.fromkeys(columns))
    for k in found:
        own = schema.columns[k].numeric
        if not len(grid_of(own)):
            raise InvalidParameter.refusing(
                "find", "must name columns whose range can be halved", repr(names[k])
            )
    return found


def with_ranges(schema: PublicSchema, found: dict[int, Range]) -> PublicSchema:
    """The schema with other ranges."""
    columns = tuple(
        replace(one, range=found[k]) if k in found else one for k, one in enumerate(schema.columns)
    )
    return replace(schema, columns=columns)


def plain_schema(schema: PublicSchema) -> PublicSchema:
    """The same records in one slot."""
    return replace(schema, groups=(), by=None, grouping=None)


# Records in pieces: numbers clipped to their ranges, categories numbered, groups as slots.
#
# NaN marks a missing number that is dropped from every part that needs it. A missing category
# or group is one of the others.


#: Rows that are worked on at a time.
_ROWS = 2**16

#: What helps against missing numbers of clusters: nothing that is said about missing values.
_IN_A_CLUSTER = "every record needs the number of a cluster, one of its own where it is alone"


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of the schema that are used, and that of groups; ``places`` is where they are."""

    schema: PublicSchema
    records: Records
    places: Mapping[str, int]
    survey: Survey

    def pieces(self) -> Iterator[Piece]:
        """The records, some at a time; all at once where they come in clusters."""
        cluster = self.survey.cluster
        if cluster is None:
            yield from self._parts()
            return
        blocks = list(self.records.blocks())
        if blocks:
            numbers = np.concatenate([one.values[:, self.places[cluster]] for one in blocks])
            yield clustered(list(self._parts()), numbers, self.schema)

    def _parts(self) -> Iterator[Piece]:
        for block in self.records.blocks():
            for start in range(0, len(block), _ROWS):
                rows = slice(start, start + _ROWS)
                given = np.where(block.missing[rows], np.nan, block.values[rows])
                slots = np.zeros(len(given), dtype=np.int64)
                if self.schema.grouping is not None:
                    dimensions = self.schema.grouping.dimensions
                    groups = [one.places(given[:, self.places[one.column]]) for one in dimensions]
                    slots = self.schema.grouping.slots_of(groups)
                raw = self._raw(given)
                yield Piece(self._clipped(raw), slots, self._shares(given), raw)

    def _shares(self, given: FloatArray) -> FloatArray | None:
        """Weights over the largest one, cut to [0, 1]; none is a record that is dropped."""
        weights = self.survey.weights
        if weights is None or self.schema.largest_weight is None:
            return None
        own = np.nan_to_num(given[:, self.places[weights]], nan=0.0)
        return np.clip(own / self.schema.largest_weight, 0.0, 1.0)

    def _raw(self, given: FloatArray) -> FloatArray:
        """The columns of the schema; nothing in those that no statistic reads."""
        values = np.full((len(given), len(self.schema.columns)), np.nan)
        for k, column in enumerate(self.schema.columns):
            if column.name in self.places:
                values[:, k] = given[:, self.places[column.name]]
        return values

    def _clipped(self, raw: FloatArray) -> FloatArray:
        values = raw.copy()
        for k, column in enumerate(self.schema.columns):
            if column.range is not None:
                np.clip(raw[:, k], column.range.lower, column.range.upper, out=values[:, k])
        return values


def open_table(
    data: Any,
    schema: PublicSchema,
    used: Collection[int],
    missing: Missing | None,
    survey: Survey,
) -> Table | EngineTable:
    """The records of ``data`` with the ``used`` columns, as the schema describes them."""
    engine = engine_of(data)
    if engine is not None:
        return engine_table(engine, schema, used, missing, survey)
    plain = _positions(data)
    read: dict[str, ColumnRequest] = {}
    for k in sorted(used):
        column = schema.columns[k]
        name = plain.get(column.name, column.name)
        if column.categories:
            read[column.name] = Category(name, column.categories)
        elif column.origin is not None:
            read[column.name] = Day(name, column.origin, missing)
        else:
            read[column.name] = Number(name, missing)
    for one in () if schema.grouping is None else schema.grouping.dimensions:
        name = plain.get(one.column, one.column)
        # Who has no number is in no group of numbers.
        groups = Number(name, "drop") if one.breaks else Category(name, one.labels)
        found = read.setdefault(one.column, groups)
        if found != groups and not (one.breaks and isinstance(found, Number)):
            raise InvalidParameter.refusing(
                "by", "must be another column, or one with the groups as categories", one.column
            )
    for role, own in (("weights", survey.weights), ("cluster", survey.cluster)):
        if own is not None:
            if own in read:
                raise InvalidParameter.refusing(role, "must be another column", own)
            # A missing weight is nothing; a record that is in no cluster has no privacy unit.
            name = plain.get(own, own)
            whole = Number(name, "refuse", remedy=_IN_A_CLUSTER)
            read[own] = Number(name, missing) if role == "weights" else whole
    if not read:  # nothing but the number of records is asked for
        first = next((column.name for column in schema.columns), None) or column_names(data)[0]
        read[first] = Category(plain.get(first, first), ("-",))
    places = {name: place for place, name in enumerate(read)}
    return Table(schema, open_records(data, list(read.values())), places, survey)


def clustered(parts: Sequence[Piece], numbers: FloatArray, schema: PublicSchema) -> Piece:
    """All records as one piece with their clusters; the first of each, where it is the unit."""
    values, slots = (np.concatenate([getattr(one, name) for one in parts])
                     for name in ("values", "slots"))  # fmt: skip
    raw = [one.values if one.raw is None else one.raw for one in parts]
    weights = [one.weights for one in parts if one.weights is not None]
    together = np.concatenate(weights) if weights else None
    _, clusters = np.unique(numbers, return_inverse=True)
    clusters = clusters.astype(np.int64).ravel()
    kept = np.arange(len(values))
    if schema.whole_clusters and schema.largest_cluster is not None:
        order = np.argsort(clusters, kind="stable")
        starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        kept = np.sort(order[rank < schema.largest_cluster])
    return Piece(
        values[kept],
        slots[kept],
        None if together is None else together[kept],
        np.concatenate(raw)[kept],
        clusters=clusters[kept],
    )


def read_once(data: Any) -> bool:
    """Whether the records can be read only once."""
    given = as_reading(data).data
    return isinstance(given, str) and given == STANDARD_INPUT


def missing_of(data: Any, missing: Any) -> Any:
    """What becomes of missing values: as said here, else as the reading says."""
    return as_reading(data).missing if missing is None else missing


def column_names(data: Any) -> tuple[str, ...]:
    """The names of the columns of data in memory."""
    given = data.data if isinstance(data, Reading) else data
    engine = engine_of(data)
    if engine is not None:
        return tuple(engine.columns)
    if hasattr(given, "__dask_graph__"):
        given = getattr(given, "_meta", None)
    frame = as_frame(given)
    if frame is not None:
        return tuple(str(label) for label in frame.labels)
    raise InvalidParameter.refusing("columns", "must be given for a file", "none")


def _positions(data: Any) -> Mapping[str, int]:
    """Columns of an array without names, which are called by their positions."""
    given = data.data if isinstance(data, Reading) else data
    if isinstance(given, np.ndarray) and not given.dtype.names:
        return {str(k): k for k in range(1 if given.ndim == 1 else given.shape[1])}
    return {}


# The rounds of a release: one for all statistics, a second for some of them, more for a few.
#
# The second round tells the errors of curved estimates and of clusters, for a share of the whole
# budget, and looks closer at quantiles, for a part of their own. Every part of either round has its
# share of the budget; a round's is the sum of those of its parts, and both together are all of it.


#: The part of the budget that the errors of curved estimates get, where there are any.
SECOND_SHARE = 0.15
#: A number of records that is a sum of more noisy ones than this is better released by itself.
_LONGEST_SUM = 4.0
#: Numbers in one release, over all groups.
_MOST = 10**7


@dataclass(frozen=True)
class Expectation:
    """In place of noise: none, and sums brought to ``records`` of them. For plans, not for data."""

    records: int


def run_rounds(
    schema: PublicSchema,
    pieces: Callable[[], Iterable[Piece] | PushedDown],
    requests_on: Callable[[PublicSchema], Sequence[StatisticRequest]],
    noise_multiplier: float,
    *,
    charge: Callable[[], None],
    source: NoiseSource | Expectation,
    level: float,
    simultaneous: bool = False,
    clipping: float | None = None,
    progress: Progress | None = None,
    families: list[ReleasedFamily] | None = None,
) -> tuple[ReleasedEstimate, ...]:
    """All estimates. ``charge`` is called once, after the exact sums and before any noise.

    ``clipping`` is the share of the budget for what is said about clipping; None: as for the rest.

    ``requests_on`` gives the statistics on a schema; ``pieces`` begins the records anew. What was
    released is added to ``families``, for what is computed from it later.
    """
    requests = requests_on(schema)
    places = parts_of(requests)
    shared = _shared(requests)
    closer = {one.sums for one in shared if _looks_closer(one)}
    rest = 1.0 - SECOND_SHARE if len(shared) > len(closer) else 1.0
    own = [rest * share for share in _shares(places, clipping)]
    now = [
        x * (one.first_share if one in closer else 1.0) for x, one in zip(own, places, strict=True)
    ]
    first: tuple[NoisySums, ...] = ()
    second: dict[StatisticRequest, NoisySums] = {}
    joint = replace(_joint(schema, tuple(places), noise_multiplier, now), placed=_agrees(schema))
    _refuse_many(joint)
    for one in shared:  # what a second round takes is public, so that it is refused before a charge
        _refuse_influences(one, joint)
    totals, seen = joint.totals(pieces(), progress)
    records = source.records if isinstance(source, Expectation) else seen
    # Where the size is private, an empty data set must not show: the noise alone is released.
    refused = schema.public_size or isinstance(source, Expectation)
    if refused and not (records and seen):
        raise InvalidParameter("data must have at least one record, got none")
    if schema.public_size:
        schema = replace(schema, n=records)
        _check_population(schema)
        requests = requests_on(schema)
        places = parts_of(requests)
        joint = replace(joint, schema=schema, parts=tuple(places))
    if places:
        charge()
        first = tuple(map(joint.agreeing, _released(joint, totals, seen, source)))
    found = _with_squares(dict(zip(places, first, strict=True)))
    shared, spent = _shared(requests), [*now]
    later = {part: x - y for part, x, y in zip(places, own, now, strict=True)}
    each = SECOND_SHARE / max(len(shared) - len(closer), 1)
    for turn in range(max((len(one.later_shares) for one in shared), default=0)):
        asking = [one for one in shared if turn < len(one.later_shares)]
        budgets = [
            (later[one.sums] if one.sums is not None and _looks_closer(one) else each)
            * one.later_shares[turn]
            for one in asking
        ]
        spent += budgets
        if not math.fsum(spent) <= 1.0 + 2.0**-45:  # the noise has 2^-40 to spare
            raise NumericalFailure(
                "all rounds must cost no more than one; nothing more is released"
            )
        again = tuple(
            one.next_sums(second[one])
            if turn
            else one.second_sums(_known(_behind(one, found)), shared[one])
            for one in asking
        )
        joint = _joint(schema, again, noise_multiplier, budgets)
        totals, count = joint.totals(pieces(), progress)
        if count != seen:
            raise InvalidParameter("data must not change while they are read, got other records")
        second.update(zip(asking, _released(joint, totals, seen, source), strict=True))
    if families is not None:
        families += [
            ReleasedFamily(one, _behind(one, found), second.get(one.second_request))
            for one in requests
        ]
    return read_estimates(requests, found, second, level, simultaneous)


def _agrees(schema: PublicSchema) -> bool:
    return schema.grouping is not None and schema.grouping.consistent


def _looks_closer(one: StatisticRequest) -> bool:
    """Whether its second round is paid for by what its first one left."""
    return one.sums is not None and one.sums.first_share < 1.0


def _shared(requests: Sequence[StatisticRequest]) -> dict[StatisticRequest, list[StatisticRequest]]:
    """What the second round is asked, and by which statistics."""
    found: dict[StatisticRequest, list[StatisticRequest]] = {}
    for one in requests:
        if one.two_rounds:
            found.setdefault(one.second_request, []).append(one)
    return found


def _joint(
    schema: PublicSchema,
    parts: tuple[BoundedSum, ...],
    noise_multiplier: float,
    budgets: Sequence[float],
) -> JointSums:
    """One round, of which every part has its share of the whole budget."""
    share = math.fsum(budgets)
    # A square root may be rounded up, and so may the sum of the squares.
    weights = tuple(math.sqrt(one / share) * (1.0 - 2.0**-50) for one in budgets)
    return JointSums(schema, parts, noise_multiplier, share if parts else 1.0, weights)


def _released(
    joint: JointSums, totals: FloatArray, seen: int, source: NoiseSource | Expectation
) -> tuple[NoisySums, ...]:
    if isinstance(source, Expectation):
        return joint.read(totals * (joint.noise.lattice.step * source.records / seen))
    return joint.released(totals, source)


def _with_squares(found: dict[BoundedSum, NoisySums]) -> dict[BoundedSum, NoisySums]:
    """Every part with the sums of the squared weights, where they were released."""
    squares = next((one for one in found if isinstance(one, WeightSquares)), None)
    if squares is None:
        return found
    sums = found[squares].sums[:, 0]
    return {part: replace(noisy, squares=sums) for part, noisy in found.items()}


def _known(noisy: NoisySums | None) -> NoisySums:
    if noisy is None:
        raise InvalidParameter("a statistic with a second round must have had a first one")
    return noisy


def read_estimates(
    requests: Sequence[StatisticRequest],
    found: dict[BoundedSum, NoisySums],
    second: dict[StatisticRequest, NoisySums],
    level: float,
    simultaneous: bool = False,
) -> tuple[ReleasedEstimate, ...]:
    """The estimates behind what was released in both rounds."""

    def at(own: float) -> tuple[ReleasedEstimate, ...]:
        return tuple(
            estimate
            for one in requests
            for estimate in one.estimates(
                _behind(one, found),
                second.get(one.second_request),
                own,
            )
        )

    estimates = at(level)
    return at(1.0 - (1.0 - level) / len(estimates)) if simultaneous else estimates


def parts_of(requests: Sequence[StatisticRequest]) -> dict[BoundedSum, None]:
    """The different parts, in order; a count that another part tells needs none of its own."""
    found: dict[BoundedSum, None] = {}
    for one in sorted(requests, key=lambda each: each.counts_records):
        if one.counts_records and _telling(one, found) is not None:
            continue
        if one.sums is not None:
            found.setdefault(one.sums)
    if any(one.schema.weighted and not one.weighted_errors for one in requests):
        found.setdefault(WeightSquares(requests[0].schema))
    kept = [one for one in found if not any(other.holds(one) for other in found)]
    earlier = ((one, kept[:k]) for k, one in enumerate(kept))
    return {
        one: None for one, before in earlier if not any(other.reorders(one) for other in before)
    }


def _behind(one: StatisticRequest, found: dict[BoundedSum, NoisySums]) -> NoisySums | None:
    if one.counts_records:
        telling = _telling(one, found)
        return None if telling is None else found[telling]
    if one.sums is None or one.sums in found:
        return None if one.sums is None else found[one.sums]
    part = one.sums
    large = next(more for more in found if more.reorders(part) or more.holds(part))
    return large.read_off(found[large], part)


def _telling(count: StatisticRequest, found: Iterable[BoundedSum]) -> BoundedSum | None:
    """A part that holds the number of records which ``count`` asks for, and not as a long sum."""
    if count.sums is None:
        return None
    for part in found:
        if not part.tells_records:
            continue
        same = not count.schema.dropped or part.columns == count.columns
        if part == count.sums or (same and part.covariance.own[0] <= _LONGEST_SUM):
            return part
    return None


def _check_population(schema: PublicSchema) -> None:
    if schema.n is not None and not schema.population >= schema.n:
        raise InvalidParameter.refusing(
            "population",
            f"must be at least the number of records, {schema.n}",
            f"{schema.population:g}",
        )


def _shares(parts: Collection[BoundedSum], clipping: float | None) -> list[float]:
    """Shares of the budget that add up to one; equal but for what is said about clipping."""
    apart = sum(part.about_clipping for part in parts)
    if clipping is None or apart in (0, len(parts)):
        return [1.0 / len(parts) for _ in parts]
    rest, own = (1.0 - clipping) / (len(parts) - apart), clipping / apart
    return [own if one.about_clipping else rest for one in parts]


def _refuse_many(joint: JointSums) -> None:
    numbers = joint.schema.slots * sum(part.width for part in joint.parts)
    if not numbers <= _MOST:
        raise InvalidParameter(f"a release must hold at most {_MOST} numbers, got {numbers}")


def _refuse_influences(one: StatisticRequest, joint: JointSums) -> None:
    """Refuse influences on more estimates of groups within strata than can be held."""
    schema = joint.schema
    if not schema.domains or schema.grouping is None or _looks_closer(one):
        return
    groups = sum(1 for _ in schema.grouping.domains())
    terms = 1 + max(part.width for part in joint.parts)
    numbers = one.influences * groups * max(schema.slots, terms)
    if not numbers <= _MOST:
        raise InvalidParameter(
            f"the errors of {one.name} in groups within strata must take at most {_MOST} numbers, "
            f"got {numbers}"
        )


# The noise of one release on all records: settled and certified before any data are touched.


@dataclass(frozen=True)
class OneRelease:
    """A job of one Gaussian release; nothing is drawn, so its number of records says nothing."""

    @property
    def scheme(self) -> Scheme:
        """All of one record."""
        return wor(1, 1)

    def plan(self, mechanism: Mechanism, /) -> Plan:
        """The mechanism itself, on all records."""
        return mechanism


def release_with_noise(
    *,
    epsilon: float | None,
    delta: float | None,
    noise_multiplier: float | None,
    relation: Relation,
) -> PrivacySpent:
    """What a release with this budget costs; exactly one of epsilon and noise_multiplier."""
    if delta is None:
        raise InvalidParameter.refusing(
            "delta", "must be given, well below one over the number of records", "none"
        )
    return plan_with_noise(
        OneRelease(),
        delta=delta,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        relation=relation,
    ).spent()


# ``private_release``: one noisy release on all records, with estimates and intervals.
#
# Order matters. What was asked for is checked first, then the noise is settled and certified and
# the ledger asked, then the data are read and exact sums made, in whole steps of a lattice. Only
# then is the ledger charged and noise drawn. Estimates that are curved in what was released get a
# second round on the same data, for their standard errors, out of the same budget (``queries.py``).


def private_release(
    data: Any,
    statistics: str | Statistic | Sequence[str | Statistic] = "mean",
    *,
    lower: Limits | None = None,
    upper: Limits | None = None,
    columns: str | Sequence[str] | Columns | None = None,
    by: Names | None = None,
    groups: Lists | Groups | None = None,
    total: bool = False,
    consistent: bool = False,
    missing: str | float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    relation: str = "replace_one",
    population: int | str | None = None,
    survey: Survey | None = None,
    ranges: Ranges | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    ledger: LedgerOrPath | None = None,
    seed: Any = None,
    progress: Progress | None = None,
) -> ReleaseResult:
    """Release statistics of all records once, with intervals for sampling and noise together.

    All statistics share the budget: ``epsilon`` at ``delta``, or a ``noise_multiplier``.

    Parameters
    ----------
    data : array, frame, table, path or Reading
        The records: an array, a pandas or polars frame, an Arrow table, or a CSV or Parquet file.
    statistics : str, Statistic or sequence of them, default="mean"
        One or several, by name or as objects: ``"mean"``, ``"quantile:0.9"``, ``"proportion:>50"``,
        ``md.types.Mean()``; ``mustdp release --help`` lists the names. Each is asked of every
        column, or of those behind an @, as in ``"mean@age"`` or ``md.types.Mean(columns=["age"])``.
    lower : float, sequence or mapping, default=None
        Lower ends of the ranges that values are clipped to: one for all columns, one for each, or
        by name. Public: they must be known without looking at the data. Needed where numbers are
        used.
    upper : float, sequence or mapping, default=None
        Upper ends of the ranges, given like ``lower``.
    columns : str, sequence of str or Columns, default=None
        The columns that are used; None means all. :class:`mustdp.types.Columns` also says which
        hold categories, dates or whole numbers.
    by : str or sequence, default=None
        A column of groups: everything is released for each group and for all others together. Of
        several columns, the groups are the cells of all of them; of several lists of columns, each
        is a grouping of its own.
    groups : sequence of str, mapping or Groups, default=None
        The public values of that column; of several columns, lists by column.
        :class:`mustdp.types.Groups` also takes breaks of columns of numbers, and says what is
        publicly known of the groups.
    total : bool, default=False
        Whether margins and the total of all groups are released, too.
    consistent : bool, default=False
        Whether cells, margins and totals agree with each other and with a public number of records.
    missing : "refuse", "drop" or float, default=None
        What is done with missing values: "refuse"; "drop", which leaves a record out of every
        statistic that needs the value and makes the number of records used private; or the number
        in its place. None means what a :class:`Reading` says, and "refuse" for other data.
    epsilon : float, default=None
        What the certified epsilon of the whole release must not exceed.
    delta : float
        The delta at which epsilon is stated, well below 1/n; it has no default.
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    relation : {"replace_one", "add_remove"}, default="replace_one"
        Which data sets are neighbours. Under replace_one the number of records is public; under
        add_remove it is not, and is released with noise wherever it is needed.
    population : int or "census", default=None
        The size of what the records were sampled from; "census" where they are all of it, so that
        only noise is left; None means endless.
    survey : Survey, default=None
        Weights, strata and clusters: a :class:`mustdp.types.Survey`.
    ranges : Ranges, default=None
        A :class:`mustdp.types.Ranges`: columns whose ranges are found first, and whether to say how
        many values were clipped.
    level : float, default=0.95
        Confidence of the intervals, above 0 and below 1.
    simultaneous : bool, default=False
        Whether all intervals are widened until they hold together (Bonferroni).
    ledger : Ledger, str or path, default=None
        Charged once, before noise is drawn; what would pass its limit is refused before the data
        are read. A path is that of a ledger in a file, which must be there.
    seed : int, Generator or RandomState, default=None
        Repeats a run, for experiments only: anyone who knows the seed can subtract the noise.
        None takes fresh entropy from the operating system.
    progress : Progress, default=None
        Called whenever the work has got further.

    Returns
    -------
    ReleaseResult
        Estimates with intervals, and what they cost; all of it may be published.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    BudgetExceeded
        The charge does not fit the limit of the ledger; nothing was written.
    NumericalFailure
        No number that can be trusted was found.

    Warns
    -----
    LargeDelta
        ``delta`` is above one in the number of records, where that is public.
    SeededRelease
        A seed was given.

    Examples
    --------
    >>> import numpy as np
    >>> ages = np.random.default_rng(0).uniform(20, 80, 10_000)
    >>> result = private_release(ages, "mean", lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> low, high = result.interval
    >>> bool(low < result.estimate < high)
    True
    """
    used = Relation.read(relation)
    asked = read_statistics(statistics)
    written = ", ".join(one.written for one in asked)
    level = checks.real("level", level, above=0, below=1)
    columns = Columns.read(columns)
    survey = checks.instance("survey", Survey() if survey is None else survey, Survey)
    ranges = checks.instance("ranges", Ranges() if ranges is None else ranges, Ranges)
    grouping = None
    if not (by is None and groups is None and total is False and consistent is False):
        grouping = read_groupings(by, groups, total=total, consistent=consistent)
    grouping = survey.groupings(grouping)
    missing = check_missing(missing_of(data, missing))
    schema = read_schema(
        columns, column_names(data) if columns.names is None else columns.names,
        lower=lower, upper=upper, grouping=grouping, survey=survey, dropped=missing == "drop",
        relation=used, population=population, once=read_once(data),
    )  # fmt: skip

    def bound(to: PublicSchema) -> list[StatisticRequest]:
        found = [one for statistic in asked for one in statistic.requests(to)]
        if ranges.report_clipping is not None:
            used = dict.fromkeys(k for one in found for k in one.columns)
            numbers = (k for k in used if to.columns[k].range is not None)
            found += [Clipping().bind(to, (k,)) for k in numbers]
        return found

    requests = bound(schema)
    sought = check_columns(ranges.find, schema)
    if sought and (read_once(data) or engine_of(data) is not None):
        raise InvalidParameter.refusing(
            "find", "must be asked of data that can be read again, outside of an engine",
            repr(ranges.find[0]),
        )  # fmt: skip
    for k in sought:
        for one in possible_ranges(schema.columns[k].numeric):
            bound(with_ranges(schema, {k: one}))  # refused here, or on no range
    if grouping is not None and not schema.known_total:
        grouping.refuse_unknown_total()
    if schema.domains and engine_of(data) is not None and any(one.two_rounds for one in requests):
        raise InvalidParameter.refusing(
            "data", f"must be read into memory for {written} of groups within strata", "an engine"
        )
    if any(one.two_rounds for one in requests) and read_once(data):
        raise InvalidParameter.refusing(
            "data", f"must be a file for {written}: it is read twice", "'-'"
        )
    privacy = release_with_noise(
        epsilon=epsilon, delta=delta, noise_multiplier=noise_multiplier, relation=used
    )
    by_sizes = any(one.by_sizes for one in asked)
    if by_sizes:
        parts = max(len(parts_of(requests)), 1)
        noise = privacy.noise_multiplier * math.sqrt(parts)
        schema = with_grids(schema, asked, noise, level, ranges.find)
    key = release_key(seed, name="seed")
    privacy = replace(privacy, seeded=key.seeded)
    if ledger is not None:
        check_release(ledger, OneRelease().scheme, privacy)
    table = open_table(data, schema, {k for one in requests for k in one.columns}, missing, survey)
    read = 0

    def counted(pieces: Iterable[Piece]) -> Iterator[Piece]:
        nonlocal read
        read = 0
        for piece in pieces:
            read += len(piece)
            yield piece

    def pieces() -> Iterable[Piece] | PushedDown:
        return table if isinstance(table, EngineTable) else counted(table.pieces())

    def charge() -> None:
        nonlocal read
        if isinstance(table, EngineTable):
            read = table.records or 0
        if schema.public_size:
            warn_of_large_delta(privacy.delta, read)
        if grouping is not None:
            grouping.refuse_other_total(read)
        if ledger is not None:
            charge_release(ledger, OneRelease().scheme, privacy, f"release: {written}"[:200])

    families: list[ReleasedFamily] = []
    source, noise = NoiseSource(key.seed), privacy.noise_multiplier
    found_ranges: dict[int, Range] = {}
    if sought:
        # The noise of either step is rounded up by more than its root may be rounded down.
        first, noise = (
            noise / math.sqrt(share) * (1.0 + 2.0**-40)
            for share in (ranges.share, 1.0 - ranges.share)
        )
        rest = noise

        if isinstance(table, EngineTable):
            raise InvalidParameter("find must not be asked of an engine")
        in_one_slot = replace(table, schema=plain_schema(schema))
        found = run_rounds(
            plain_schema(schema),
            lambda: counted(in_one_slot.pieces()),
            lambda to: [RangeRequest(to, (k,), rest) for k in sought],
            first,
            charge=charge,
            source=source,
            level=level,
        )
        ends = {(one.column, one.cell): one.value for one in found}
        for k in sought:
            name = schema.columns[k].name
            found_ranges[k] = Range(ends[name, "lower"], ends[name, "upper"])
        schema = with_ranges(schema, found_ranges)
        table = replace(table, schema=schema)
    estimates = run_rounds(
        schema,
        pieces,
        bound,
        noise,
        charge=(lambda: None) if sought else charge,
        source=source,
        level=level,
        simultaneous=simultaneous,
        clipping=ranges.report_clipping,
        progress=progress,
        families=families,
    )
    if grouping is not None and grouping.whole_counts:
        estimates = with_whole_counts(estimates, families)
    used_ranges = {
        schema.columns[k].name: (one.lower, one.upper) for k, one in found_ranges.items()
    }
    return ReleaseResult(
        estimates,
        privacy,
        level,
        notes=tuple(
            f"range of {name}: [{low:g}, {high:g}], found with {100 * ranges.share:g} % of the "
            "budget; statistics are those of the clipped values"
            for name, (low, high) in used_ranges.items()
        )
        + (grids_in_words(schema) if by_sizes else ()),
        families=tuple(families),
        ranges=used_ranges,
    )


def with_whole_counts(
    estimates: Sequence[ReleasedEstimate], families: Sequence[ReleasedFamily]
) -> tuple[ReleasedEstimate, ...]:
    """Numbers of records as whole numbers that agree; their intervals hold these, too."""
    whole: dict[tuple[str | None, str | None], float] = {}
    for one in families:
        if one.request.counts_records and one.first is not None and one.first.agreed is not None:
            found = counts_as_whole(one.first.agreed[1], one.first.sums[:, 0])
            for group, number in zip(one.request.schema.groups, found.tolist(), strict=True):
                whole[one.column, group] = number
    replaced = []
    for estimate in estimates:
        number = whole.get((estimate.column, estimate.group))
        if estimate.statistic == "count" and number is not None:
            low, high = estimate.interval
            ends = (min(low, number), max(high, number))
            estimate = replace(estimate, value=number, interval=ends)
        replaced.append(estimate)
    return tuple(replaced)
