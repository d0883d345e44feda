"""Statistics bound to the columns that they read, and put into one release."""

from __future__ import annotations

from collections.abc import Sequence

from mustdp.errors import InvalidParameter
from mustdp.resampling.designs import Design
from mustdp.resampling.sources.source import Source
from mustdp.resampling.statistics.actual_size import OfActualSize
from mustdp.resampling.statistics.joint import Joint
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.query import Query
from mustdp.resampling.statistics.statistic import Statistic


def joined(
    wanted: Sequence[Statistic],
    source: Source,
    low: Sequence[float],
    high: Sequence[float],
    design: Design,
    *,
    paper: bool,
) -> Joint:
    """Bind all statistics to their columns and put them into one release."""
    for at, (least, most) in enumerate(zip(low, high, strict=True)):
        check_order(least, most, f" for column {at} (the first is 0)")
    public = Public(low, high, design.size, design.poisson, design.repeated_pairs)
    picks: list[tuple[int, ...]] = []
    queries: list[Query] = []
    for statistic in wanted:
        pick = _pick(statistic, source.columns)
        statistic.check_columns(len(pick))
        picks.append(pick)
        own = public.of(pick)
        actual = paper and design.poisson
        bound = OfActualSize(statistic, own) if actual else statistic.query(own)
        queries.append(statistic.labelled(bound, [_called(source.columns[k]) for k in pick]))
    return Joint(tuple(queries), tuple(picks), names=_names(wanted, picks, source.columns))


def _called(name: str) -> str:
    """A column by its name, or by its place where it has none."""
    return f"column {name}" if name.isdigit() else name


def descriptions(
    wanted: Sequence[Statistic],
    query: Joint,
    columns: Sequence[str],
    low: Sequence[float],
    high: Sequence[float],
) -> tuple[str, ...]:
    """What every estimate is one of: clipped columns are called so."""
    said = [
        f"{_called(name)} clipped to [{least:g}, {most:g}]"
        for name, least, most in zip(columns, low, high, strict=True)
    ]
    return tuple(
        statistic.described(label, [said[k] for k in pick])
        for statistic, own, pick in zip(wanted, query.queries, query.picks, strict=True)
        for label in own.labels
    )


def _names(
    wanted: Sequence[Statistic], picks: Sequence[Sequence[int]], columns: Sequence[str]
) -> tuple[str, ...] | None:
    """What tells equal statistics of different columns apart: the columns' names."""
    names = [statistic.name for statistic in wanted]
    if len(set(names)) == len(names):
        return None
    return tuple(",".join(columns[k] for k in pick) for pick in picks)


def _pick(statistic: Statistic, columns: Sequence[str]) -> tuple[int, ...]:
    if statistic.columns is None:
        return tuple(range(len(columns)))
    found = []
    for wanted in statistic.columns:
        if isinstance(wanted, str) and wanted in columns:
            found.append(list(columns).index(wanted))
        elif isinstance(wanted, int) and 0 <= wanted < len(columns):
            found.append(wanted)
        else:
            allowed = f"of {statistic.name} must be among the {len(columns)} selected"
            raise InvalidParameter.refusing("columns", allowed, repr(wanted))
    return tuple(found)


def label_of(wanted: Sequence[Statistic]) -> str:
    """What an entry of a ledger says about a bootstrap."""
    label = f"bootstrap: {', '.join(statistic.name for statistic in wanted)}"
    return label if len(label) <= 200 else f"{label[:197]}..."


def check_order(low: float, high: float, where: str) -> None:
    """Refuse ends of a range that are not in order."""
    if not low < high:
        allowed, got = f"must be below {{upper}}{where}", f"{low!r} and {high!r}"
        raise InvalidParameter.refusing("lower", allowed, got, mentions=("upper",))
