"""Sums of a release pushed down into an engine: one query, and nothing but sums comes back.

Every part that can be pushed down (``queries.py`` has the parts) is written as SQL with the same
operations on doubles in the same order as its ``rows``, cut towards zero to whole steps of the
lattice as its ``sums`` are, and added up as integers. So the totals are those of the records read
into memory, bit by bit, and with the same seed so is the release. Which parts those are is decided
by the exact class: a part that derives from one of them adds up something else.

*Overflow.* A contribution has at most 2^52 steps, and the engines' sums have room for 2^64 of
them. Beyond the number of records that the lattice is made for, :class:`JointSums` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mustdp.data.columns import (
    REMEDY,
    Category,
    ColumnRequest,
    Missing,
    Number,
    quoted,
    refuse_counted,
    refuse_inexact,
)
from mustdp.data.engines import Clean, Engine, clean, double
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation.queries import BoundedSum, PushedDown
from mustdp.estimation.schema import PublicSchema, Survey
from mustdp.estimation.statistics.counts import (
    Between,
    CellCounts,
    CellRule,
    Crossed,
    Listed,
    OneCell,
    Outside,
    Unclipped,
    Within,
)
from mustdp.estimation.statistics.moments import Influences, Moments, WeightSquares
from mustdp.estimation.statistics.quantiles import QuantileCurve, QuantileWindow
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.arrays import FloatArray

#: Slots whose own constants can be written into a query.
_MOST_SLOTS = 512


@dataclass(eq=False)
class EngineTable(PushedDown):
    """The records of an engine, as the schema describes them."""

    engine: Engine
    schema: PublicSchema
    cleaned: dict[str, Clean]
    weights: str | None = None
    #: Of the last query; None before it.
    records: int | None = field(default=None, init=False)

    def totals(
        self, parts: Sequence[BoundedSum], per_steps: Sequence[Sequence[float]]
    ) -> tuple[FloatArray, int]:
        """The exact sums in steps, (slots, width of all parts), and the number of records."""
        asked = [_GroupingQuery(self, at, parts, own) for at, own in enumerate(per_steps)]
        answers = self.engine.rows(self._query(asked))
        found = np.zeros((self.schema.slots, sum(part.width for part in parts)))
        records = 0
        for at, one in enumerate(asked):
            own = [row[1:] for row in answers if row[0] == at]
            count = one.read(own, found)
            if at and count != records:
                raise InvalidParameter("data must not change while they are read, got others")
            records = count
        self.records = records
        return found, records

    def _query(self, asked: Sequence[_GroupingQuery]) -> str:
        """Columns as they are, with codes, clipped, scaled, and a sum for every grouping."""
        columns = self.schema.columns
        places = {name: f"v{k}" for k, name in enumerate(self.cleaned)}
        read = [f"{one.expression} AS p{k}" for k, one in enumerate(self.cleaned.values())]
        # Whether anything is wrong; only then is it asked what.
        wrong = " OR ".join(f"COALESCE({one.wrong}, TRUE)" for one in self.cleaned.values())
        read.append(f"CASE WHEN {wrong or 'FALSE'} THEN 1 ELSE 0 END AS f")
        clipped, middle, scaled = ["f"], [], []
        for k, column in enumerate(columns):
            if column.name not in places:
                continue
            raw, own = f"{places[column.name]}", column.range
            clipped.append(f"{raw} AS r{k}")
            if own is None:
                clipped.append(f"{raw} AS x{k}")
                continue
            clipped.append(f"{_between(raw, own.lower, own.upper)} AS x{k}")
            middle.append(f"((x{k} - {double(own.mid)}) / {double(own.half)}) AS m{k}")
            scaled.append(f"{_between(f'm{k}', -1.0, 1.0)} AS u{k}")
        if self.weights is not None and self.schema.largest_weight is not None:
            weight = f"(COALESCE({places[self.weights]}, {double(0.0)}) / "
            weight += f"{double(self.schema.largest_weight)})"
            clipped.append(f"{_between(weight, 0.0, 1.0)} AS w")
        clipped += self._groups(places)
        inner = f"SELECT {', '.join(read)} FROM records"
        inner = self._coded(inner)
        inner = f"SELECT {', '.join(clipped)} FROM ({inner}) AS a"
        for stage in (middle, scaled):
            if stage:
                inner = f"SELECT *, {', '.join(stage)} FROM ({inner}) AS b"
        return " UNION ALL ".join(one.query(inner) for one in asked)

    def _coded(self, inner: str) -> str:
        """With codes instead of categories: a join with the labels.

        Labels differ as bytes or as integers, so that no record is joined, and counted, twice.
        """
        chosen, joined = ["f"], ""
        for k, one in enumerate(self.cleaned.values()):
            value = f"p{k}"
            if one.other is not None:
                value = f"CAST(COALESCE(g{k}.code, {one.other}) AS DOUBLE)"
                labels = ", ".join(f"({label}, {code})" for label, code in one.labels)
                labels = labels or f"(NULL, {one.other})"
                joined += f" LEFT JOIN (VALUES {labels}) AS g{k}(label, code) ON p{k} = g{k}.label"
            chosen.append(f"{value} AS v{k}")
        return f"SELECT {', '.join(chosen)} FROM ({inner}) AS t{joined}"

    @property
    def faults(self) -> list[tuple[str, str, str]]:
        """Column, what is wrong with it, and the condition."""
        return [
            (name, fault, condition)
            for name, one in self.cleaned.items()
            for fault, condition in one.faults.items()
        ]

    def _groups(self, places: dict[str, str]) -> list[str]:
        """The group of every dimension, -1 for none."""
        found = []
        for j, one in enumerate(self.schema.grouping.dimensions if self.schema.grouping else ()):
            value = places[one.column]
            rest = -1 if one.complete else len(one.labels)
            if one.breaks:
                place = f"({_rank(value, one.breaks, reached=True)} - 1)"
                inside = f"{value} IS NOT NULL AND {place} >= 0"
            else:
                place, inside = f"CAST({value} AS INTEGER)", f"{value} < {len(one.labels)}"
            found.append(f"CASE WHEN {inside} THEN {place} ELSE {rest} END AS d{j}")
        return found

    def refuse(self) -> None:
        """Say what is in a column that must not be there, in the words for data in memory."""
        asked = [
            f"MAX(CASE WHEN {condition} THEN 1 ELSE 0 END) AS f{k}"
            for k, (_, _, condition) in enumerate(self.faults)
        ]
        (flags,) = self.engine.rows(f"SELECT {', '.join(asked)} FROM records")
        for name in self.cleaned:
            said = {
                fault: int(flag or 0)
                for (column, fault, _), flag in zip(self.faults, flags, strict=True)
                if column == name
            }
            called = f"column {quoted(name)} of {self.engine.where}"
            counts = (said.get("missing", 0), said.get("NaN", 0), said.get("infinite", 0))
            refuse_counted(*counts, called, "", REMEDY)
            if said.get("inexact"):
                refuse_inexact(-LARGEST_SIZE - 1, 0, called)
        raise InvalidParameter("data must not change while they are read, got others")


def engine_table(
    engine: Engine,
    schema: PublicSchema,
    used: Collection[int],
    missing: Missing | None,
    survey: Survey,
) -> EngineTable:
    """The ``used`` columns of an engine's records, as ``open_table`` takes those in memory."""
    weights = survey.weights
    if survey.cluster is not None:
        raise InvalidParameter.refusing(
            "cluster", "must not be given in an engine", repr(survey.cluster)
        )
    read: dict[str, ColumnRequest] = {}
    for k in sorted(used):
        column = schema.columns[k]
        if column.origin is not None:
            raise InvalidParameter.refusing(
                "dates", "must be days as numbers in an engine", quoted(column.name)
            )
        if column.categories:
            read[column.name] = Category(column.name, column.categories)
        else:
            read[column.name] = Number(column.name, missing)
    for one in schema.grouping.dimensions if schema.grouping else ():
        groups: ColumnRequest = (
            Number(one.column, "drop") if one.breaks else Category(one.column, one.labels)
        )
        if read.setdefault(one.column, groups) != groups and not one.breaks:
            raise InvalidParameter.refusing(
                "by", "must be another column, or one with the groups as categories", one.column
            )
    if weights is not None:
        if weights in read:
            raise InvalidParameter.refusing("weights", "must be another column", weights)
        read[weights] = Number(weights, missing)
    return EngineTable(
        engine, schema, {name: clean(engine, wanted) for name, wanted in read.items()}, weights
    )


def _between(value: str, low: float, high: float) -> str:
    """Clipped; NULL stays NULL, which GREATEST and LEAST would not promise."""
    least, most = double(low), double(high)
    cases = f"WHEN {value} < {least} THEN {least} WHEN {value} > {most} THEN {most}"
    return f"CASE {cases} ELSE {value} END"


def _rank(value: str, points: Sequence[float], *, reached: bool = False, first: int = 0) -> str:
    """How many of the rising points are below a value, or not above it; by bisection."""
    if not len(points):
        return str(first)
    middle = len(points) // 2
    compared = f"{value} {'>=' if reached else '>'} {double(points[middle])}"
    above = _rank(value, points[middle + 1 :], reached=reached, first=first + middle + 1)
    below = _rank(value, points[:middle], reached=reached, first=first)
    return f"CASE WHEN {compared} THEN {above} ELSE {below} END"


# What parts contribute, as SQL.


@dataclass(frozen=True, eq=False)
class _Terms:
    """Contributions as expressions, before they are in steps; ``power`` is that of the weight."""

    expressions: tuple[str, ...]
    power: int = 1


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cell of a record, and how sums follow from the numbers of records in all cells."""

    place: str
    count: int
    from_counts: Callable[[FloatArray, float], FloatArray]


def _moments(part: Moments, slots: range) -> _Terms:
    a2, b2, _ = part._balance
    own = [f"u{k}" for k in part.columns]
    present = " AND ".join(f"{one} IS NOT NULL" for one in own)
    found = [double(float(np.sqrt(a2)))] if part.schema.counted else []
    found += own
    root = double(float(np.sqrt(b2)))
    found += [f"(({one} * {one} - {double(0.5)}) * {root})" for one in own]
    found += _products(part)
    # A record that lacks one of the columns counts in none of the sums. With one column only the
    # number of records has to be told so: what is computed from NULL is NULL.
    guarded = len(found) if len(own) > 1 else int(part.schema.counted)
    cases = [f"CASE WHEN {present} THEN {one} END" for one in found[:guarded]]
    return _Terms((*cases, *found[guarded:]))


def _products(part: Moments) -> list[str]:
    rows, columns = part.pairs
    own = [f"u{k}" for k in part.columns]
    return [f"({own[int(i)]} * {own[int(j)]})" for i, j in zip(rows, columns, strict=True)]


def _influences(part: Influences, slots: range) -> _Terms:
    own = [f"u{k}" for k in part.columns]
    features = [*own, *(f"({one} * {one})" for one in own), *_products(part.moments)]
    found = []
    for j in range(part.width):
        psi = double(0.0)
        for k, feature in enumerate(features):
            mean = _of_slot(part.means[:, k], slots)
            slope = _of_slot(part.gradients[:, j, k], slots)
            psi = f"({psi} + ({feature} - {mean}) * {slope})"
        share = f"({psi} * {psi} / {_of_slot(part.bounds[:, j], slots)})"
        one = double(1.0)
        share = f"CASE WHEN {share} > {one} THEN {one} ELSE {share} END"
        found.append(f"({share} - {double(0.5)})" if part._centred else share)
    return _Terms(tuple(found), power=2)


def _of_slot(values: FloatArray, slots: range) -> str:
    """A public number of the record's slot."""
    if len(slots) == 1:
        return double(float(values[slots.start]))
    if len(slots) > _MOST_SLOTS:
        raise InvalidParameter(
            f"an engine must be asked for at most {_MOST_SLOTS} groups where a second round "
            f"differs between them, got {len(slots)}"
        )
    cases = " ".join(f"WHEN {slot} THEN {double(float(values[slot]))}" for slot in slots)
    return f"(CASE s {cases} END)"


def _weight_squares(part: WeightSquares, slots: range) -> _Terms:
    return _Terms((double(1.0),), power=2)


def _cell_counts(part: CellCounts, slots: range) -> _Cells:
    letter = "r" if isinstance(part, Unclipped) else "x"
    values = [f"{letter}{k}" for k in part.columns]
    place = _place(part.rule, values)
    present = " AND ".join(f"{one} IS NOT NULL" for one in values)
    whole = f"CASE WHEN {present} THEN {place} END" if present else place
    return _Cells(whole, len(part.rule.labels), part.from_counts)


def _place(rule: CellRule, values: Sequence[str]) -> str:
    """The cell by its rule, for values that are not NULL."""
    if isinstance(rule, OneCell):
        return "0"
    if isinstance(rule, Crossed):
        found = "0"
        for one, value in zip(rule.parts, values, strict=True):
            found = f"({found} * {len(one.labels)} + {_place(one, [value])})"
        return found
    (value,) = values
    if isinstance(rule, Within):
        low = f"{value} {'>' if rule.open_low else '>='} {double(rule.low)}"
        high = f"{value} {'<' if rule.open_high else '<='} {double(rule.high)}"
        return f"CASE WHEN {low} AND {high} THEN 0 ELSE 1 END"
    if isinstance(rule, Between):
        return _rank(value, rule.edges[1:-1], reached=True)
    if isinstance(rule, Outside):
        low, high = f"{value} < {double(rule.low)}", f"{value} > {double(rule.high)}"
        return f"CASE WHEN {low} THEN 0 WHEN {high} THEN 2 ELSE 1 END"
    if isinstance(rule, Listed):
        return f"CAST({value} AS INTEGER)"
    raise InvalidParameter(f"cells must be of a kind that engines know, got {type(rule).__name__}")


def _running(part: QuantileCurve | QuantileWindow, slots: range) -> _Cells:
    (column,) = part.columns
    if isinstance(part, QuantileCurve) and not part.own:
        ranks = [_rank(f"x{column}", part.grid)]
    else:
        if len(slots) > _MOST_SLOTS:
            _of_slot(np.zeros(part.schema.slots), slots)  # refuses
        points = part.points[slots.start : slots.stop]
        ranks = [_rank(f"x{column}", own[np.isfinite(own)].tolist()) for own in points]
    cases = " ".join(f"WHEN {slot} THEN {rank}" for slot, rank in zip(slots, ranks, strict=False))
    rank = ranks[0] if len(ranks) == 1 else f"CASE s {cases} END"
    present = f"CASE WHEN x{column} IS NOT NULL THEN {rank} END"
    return _Cells(present, part.cell_count, part.from_counts)


#: By the exact class.
_WRITTEN: dict[type, Callable[[Any, range], _Terms | _Cells]] = {
    Moments: _moments,
    Influences: _influences,
    WeightSquares: _weight_squares,
    CellCounts: _cell_counts,
    Unclipped: _cell_counts,
    QuantileCurve: _running,
    QuantileWindow: _running,
}


def _written(part: BoundedSum, slots: range, *, weighted: bool) -> _Terms | _Cells:
    writer = _WRITTEN.get(type(part))
    if writer is None:
        raise InvalidParameter(
            "statistics in an engine must be means, sums, counts, moments, shares, tables and "
            "quantiles, got one that needs the records themselves: read them into memory"
        )
    found = writer(part, slots)
    if weighted and isinstance(found, _Cells):
        if not isinstance(part, CellCounts):
            raise InvalidParameter.refusing(
                "weights", "must not be given with quantiles in an engine", "both"
            )
        signs = (0.5, -0.5) if part.width == 1 < found.count else (1.0,) * found.count
        if part.width == 1 < found.count:
            first = f"CASE {found.place} WHEN 0 THEN {double(0.5)} WHEN 1 THEN {double(-0.5)} END"
            return _Terms((first,))
        return _Terms(
            tuple(
                f"CASE {found.place} WHEN {k} THEN {double(sign)} END"
                for k, sign in enumerate(signs)
            )
        )
    return found


class _GroupingQuery:
    """The sums of one grouping: a row for every slot, and one for every cell of parts with many."""

    def __init__(
        self, table: EngineTable, at: int, parts: Sequence[BoundedSum], per_step: Sequence[float]
    ) -> None:
        self.table, self.at, self.parts, self.per_step = table, at, parts, per_step
        own = table.schema.slices[at]
        self.slots = range(own.start, own.stop)
        weighted = table.weights is not None
        self.written = [_written(part, self.slots, weighted=weighted) for part in parts]
        self.terms = [
            self._in_steps(expression, step, one.power)
            for one, step in zip(self.written, per_step, strict=True)
            if isinstance(one, _Terms)
            for expression in one.expressions
        ]
        self.cells = [one for one in self.written if isinstance(one, _Cells)]

    def _in_steps(self, expression: str, per_step: float, power: int) -> str:
        """Multiplied as ``BoundedSum.sums`` does: steps first, then the weight."""
        found = f"({expression} * {double(per_step)})"
        if self.table.weights is not None:
            found = f"({found} * {'w' if power == 1 else '(w * w)'})"
        return self.table.engine.dialect.truncated(found)

    def query(self, inner: str) -> str:
        """A number for the grouping, the slot, cells, counts, flags and sums."""
        grouping, dialect = self.table.schema.grouping, self.table.engine.dialect
        slot = "0"
        if grouping is not None:
            slot = "0"
            for j in grouping.sets[self.at]:
                slot = f"({slot} * {grouping.sizes[j]} + d{j})"
            outside = " OR ".join(f"d{j} < 0" for j in range(len(grouping.dimensions)))
            slot = f"CASE WHEN {outside} THEN -1 ELSE {self.slots.start} + {slot} END"
        slotted = f"SELECT *, {slot} AS s FROM ({inner}) AS c"
        computed = [f"{one.place} AS c{k}" for k, one in enumerate(self.cells)]
        computed += [f"{one} AS t{k}" for k, one in enumerate(self.terms)]
        inside = f"SELECT {', '.join(['s', 'f', *computed])} FROM ({slotted}) AS d"
        names = [f"c{k}" for k in range(len(self.cells))]
        chosen = [str(self.at), "0" if grouping is None and not names else "s"]
        chosen += [f"CASE WHEN GROUPING({name}) = 1 THEN NULL ELSE {name} END" for name in names]
        chosen += [f"GROUPING({name})" for name in names]
        chosen += ["COUNT(*)", "MAX(f)"]
        chosen += [dialect.total(f"t{k}") for k in range(len(self.terms))]
        chosen = [f"{one} AS o{k}" for k, one in enumerate(chosen)]
        sets = ", ".join(["(s)", *(f"(s, {name})" for name in names)])
        found = f"SELECT {', '.join(chosen)} FROM ({inside}) AS e"
        if names:
            return f"{found} GROUP BY GROUPING SETS ({sets})"
        return found if grouping is None else f"{found} GROUP BY s"

    def read(self, rows: Sequence[tuple[Any, ...]], found: FloatArray) -> int:
        """Put the sums where they belong; the number of records."""
        many, records = len(self.cells), 0
        counts = [np.zeros((self.table.schema.slots, one.count)) for one in self.cells]
        sums = np.zeros((self.table.schema.slots, len(self.terms)))
        for slot, *rest in rows:
            cells, rolled, numbers = rest[:many], rest[many : 2 * many], rest[2 * many :]
            here = [k for k in range(many) if not rolled[k]]
            if here:
                (k,) = here
                if cells[k] is not None and slot >= 0:
                    counts[k][slot, cells[k]] = _exact(numbers[0])
                continue
            if numbers[1]:
                self.table.refuse()
            records += int(numbers[0])
            if slot >= 0:
                sums[slot] = [_exact(one or 0) for one in numbers[2:]]
        start = taken = which = 0
        for part, one, step in zip(self.parts, self.written, self.per_step, strict=True):
            own = slice(start, start + part.width)
            if isinstance(one, _Terms):
                found[:, own] += sums[:, taken : taken + part.width]
                taken += part.width
            else:
                found[:, own] += one.from_counts(counts[which], step)
                which += 1
            start += part.width
        return records


def _exact(value: Any) -> float:
    """An integer as a double, or a failure."""
    whole = int(value)
    if whole != value or not -(2**53) <= whole <= 2**53:
        raise NumericalFailure("a sum from the engine is not exact; nothing was released")
    return float(whole)
