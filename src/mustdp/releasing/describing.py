"""From what a caller states about columns, groups and missing values to the ground of a release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.releasing.ground import OTHER, Column, Ground
from mustdp.resampling.statistics.public import Range

#: A bound for all columns, one for each, or one by name.
Limits = float | Sequence[float] | Mapping[str, float]
#: Lists of groups or categories longer than this are refused.
_MOST_GROUPS = 10**6
#: Ranges and weights are within this, and no narrower than one over it: fourth powers of values,
#: in the variance of a variance, and squares of those have to stay numbers.
_FARTHEST = 1e30


def read_ground(
    names: Sequence[str],
    *,
    named: bool,
    lower: Limits | None,
    upper: Limits | None,
    categories: Mapping[str, Sequence[str]] | None,
    dates: Mapping[str, str] | None,
    by: str | None,
    groups: Sequence[str] | None,
    dropped: bool,
    relation: Relation,
    population: int | str | None,
    largest_weight: float | None = None,
    largest_cluster: int | None = None,
    whole_clusters: bool = False,
    shares: Sequence[float] = (),
    once: bool = False,
    whole: str | Sequence[str] | None = None,
) -> Ground:
    """The ground of a release, before the number of records is known.

    ``names`` are the columns; if they were not ``named`` by the caller, those with a range or with
    categories are meant.
    """
    if (by is None) != (groups is None):
        raise InvalidParameter("by and groups must be given together: the list of groups is public")
    listed, days = dict(categories or {}), dict(dates or {})
    numeric = [name for name in names if name not in listed]
    ranges = _ranges(numeric, lower, upper)
    whole_numbers = _whole(whole, ranges)
    found = [
        Column(name, categories=_labels(f"categories of {name}", listed[name]))
        if name in listed
        else Column(name, ranges.get(name), origin=days.get(name), whole=name in whole_numbers)
        for name in names
        if named or name in listed or name in ranges
    ]
    census = population == "census"
    if population is not None and not census:
        population = checks.integer("population", population, 1)
    return Ground(
        tuple(found),
        relation,
        None,
        (*_labels("groups", groups), OTHER) if groups is not None else (),
        by,
        dropped,
        None
        if largest_weight is None
        else checks.real(
            "largest_weight", largest_weight, at_least=1.0 / _FARTHEST, at_most=_FARTHEST
        ),
        population=float(population) if isinstance(population, int) else math.inf,
        census=census,
        largest_cluster=(
            None
            if largest_cluster is None
            else checks.integer("largest_cluster", largest_cluster, 1, 10**6)
        ),
        whole_clusters=whole_clusters,
        shares=tuple(shares),
        once=once,
    )


def _whole(given: str | Sequence[str] | None, ranges: Mapping[str, Range]) -> frozenset[str]:
    """The columns of whole numbers, whose ranges end at some."""
    names = (given,) if isinstance(given, str) else tuple(given or ())
    for name in names:
        own = ranges.get(name)
        if own is None or not (own.lower.is_integer() and own.upper.is_integer()):
            raise InvalidParameter.refusing(
                "whole",
                "must name columns that have ranges, from a whole number to another",
                repr(name),
            )
    return frozenset(names)


def _labels(name: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidParameter.refusing(name, "must be a list", repr(given))
    found = tuple(str(one).strip() for one in given)
    if not 1 <= len(found) <= _MOST_GROUPS or len(set(found)) != len(found) or OTHER in found:
        raise InvalidParameter.refusing(
            name,
            f"must be from 1 to {_MOST_GROUPS} different names, none of them {OTHER!r}",
            f"{len(found)}",
        )
    return found


def _ranges(names: Sequence[str], lower: Limits | None, upper: Limits | None) -> dict[str, Range]:
    if lower is None and upper is None:
        return {}
    if lower is None or upper is None:
        raise InvalidParameter("lower and upper must be given together")
    low, high = _by_name("lower", lower, names), _by_name("upper", upper, names)
    if set(low) != set(high):
        raise InvalidParameter("lower and upper must be given for the same columns")
    for name in low:
        if not low[name] < high[name]:
            raise InvalidParameter.refusing(
                "lower",
                f"must be below {{upper}} for column {name!r}",
                f"{low[name]!r} and {high[name]!r}",
                mentions=("upper",),
            )
        for end, value in (("lower", low[name]), ("upper", high[name])):
            checks.real(end, value, at_least=-_FARTHEST, at_most=_FARTHEST)
        if not high[name] - low[name] >= 1.0 / _FARTHEST:
            raise InvalidParameter.refusing(
                "lower",
                f"and {{upper}} must be apart by at least {1.0 / _FARTHEST:g} for column {name!r}",
                f"{low[name]!r} and {high[name]!r}",
                mentions=("upper",),
            )
    return {name: Range(low[name], high[name]) for name in low}


def _by_name(name: str, given: Limits, columns: Sequence[str]) -> dict[str, float]:
    if isinstance(given, Mapping):
        unknown = [column for column in given if column not in columns]
        if unknown:
            raise InvalidParameter.refusing(
                name, f"must be given for columns among {', '.join(columns)}", repr(unknown[0])
            )
        return {column: checks.real(name, value) for column, value in given.items()}
    values = checks.reals(name, np.atleast_1d(np.asarray(given, dtype=np.float64)))
    if values.size not in (1, len(columns)):
        raise InvalidParameter.refusing(
            name, f"must be one number or one for each of the {len(columns)} columns", values.size
        )
    spread = np.broadcast_to(values, len(columns))
    return {column: float(value) for column, value in zip(columns, spread, strict=True)}
