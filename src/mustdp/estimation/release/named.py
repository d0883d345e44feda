"""Statistics by name, spread over the columns: ``mean``, ``quantile:0.9@age``, ``proportion:=yes``.

A statistic of one column is asked of every column that is given, or of those named behind an @. A
covariance or correlation is asked of every pair, a regression of the last column on the others, a
table of all of them at once.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.release.averages import InfluencedMean, Mean, Sum, Total
from mustdp.estimation.release.cells import Between, Crossed, Cutting, Listed, Within
from mustdp.estimation.release.counts import Clipping, Count, Share, Tabulated
from mustdp.estimation.release.curved import (
    Correlation,
    Covariance,
    Deviation,
    Regression,
    Variance,
)
from mustdp.estimation.release.quantiles import Quantile, grid_for
from mustdp.estimation.release.schema import PublicSchema
from mustdp.estimation.release.statistic import StatisticRequest
from mustdp.numerics import checks
from mustdp.numerics.checks import Cost, check_cost

_SINGLE: dict[str, type[StatisticRequest]] = {
    "mean": Mean,
    "sum": Sum,
    "variance": Variance,
    "sd": Deviation,
}
_PAIRED: dict[str, type[StatisticRequest]] = {"covariance": Covariance, "correlation": Correlation}
#: Numbers of records and sums: totals, not averages.
_TOTALS = ("count", "sum", "histogram", "contingency")
#: Cells of a histogram of numbers if nothing is said, and the most that are accepted.
CELLS, MOST_CELLS = 20, 10_000
NAMES = (
    "count",
    *_SINGLE,
    "proportion:CONDITION",
    "median",
    "quantile:P",
    "histogram[:CELLS]",
    "clipping",
    *_PAIRED,
    "regression",
    "contingency",
)


def read_asked(text: str, schema: PublicSchema) -> Iterator[StatisticRequest]:
    """What ``text`` asks of the columns of ``schema``."""
    if not isinstance(text, str):
        raise _refused(text)
    said, at, chosen = text.strip().partition("@")
    name, colon, rest = said.partition(":")
    columns = _chosen(chosen, schema) if at else tuple(range(len(schema.columns)))
    _refuse_designs(name, text, schema)
    if name == "count" and not colon:
        yield from _counts(schema, columns if at or schema.dropped else ())
        return
    if not columns:
        raise InvalidParameter.refusing("columns", f"must be given for {name}", "none")
    if name not in ("proportion", "histogram", "contingency"):
        for k in columns:
            _ = schema.columns[k].numeric  # refused here, before any data are read
    if name in _SINGLE and not colon:
        clustered = schema.largest_cluster is not None
        mean = InfluencedMean if schema.weighted or clustered else Mean
        for k in columns:
            if name == "sum" and (clustered or schema.shares):
                yield Total(schema, (k,), mean(schema, (k,)))
            else:
                yield (mean if name == "mean" else _SINGLE[name])(schema, (k,))
    elif name == "median" and not colon:
        yield from _quantiles(schema, columns, 0.5, None, "median")
    elif name == "quantile" and colon:
        p = checks.real("statistic", _number(text, rest), above=0, below=1)
        yield from _quantiles(schema, columns, p, None, f"quantile:{p:g}")
    elif name == "proportion" and colon:
        yield from (_share(schema, k, rest, text) for k in columns)
    elif name == "clipping" and not colon:
        yield from (Clipping(schema, (k,)) for k in columns)
    elif name == "histogram":
        count = checks.integer("statistic", _whole(text, rest), 1, MOST_CELLS) if colon else CELLS
        yield from (
            Tabulated(schema, (k,), _cutting(schema, k, count), "histogram") for k in columns
        )
    elif name in _PAIRED and not colon:
        _several(name, columns)
        _check_effort(name, len(columns), schema.slots)
        yield from (_PAIRED[name](schema, pair) for pair in itertools.combinations(columns, 2))
    elif name == "regression" and not colon:
        _several(name, columns)
        _check_effort(name, len(columns), schema.slots)
        yield Regression(schema, columns)
    elif name == "contingency" and not colon:
        _several(name, columns)
        cuttings = tuple(_cutting(schema, k, CELLS) for k in columns)
        yield Tabulated(schema, columns, Crossed(cuttings), "contingency")
    else:
        raise _refused(text)


def _refuse_designs(name: str, text: str, schema: PublicSchema) -> None:
    """Refuse what a survey design has no proven errors for, with what to ask instead."""
    reason = None
    if schema.largest_cluster is not None:
        if name in ("median", "quantile"):
            reason = "must not be a quantile with clusters: ask for proportion:<=X at places X"
        elif name in _TOTALS and (schema.weighted or (schema.by is not None and not schema.shares)):
            reason = (
                "must not be a total with clusters and weights or groups: ask for means and "
                "proportions, or for a contingency table that has the groups as a column"
            )
    if schema.shares and name in _TOTALS:
        if name == "count":
            reason = "must not be count with strata, whose numbers in the population are public"
        elif not math.isfinite(schema.population) or schema.census:
            reason = "must be a mean or a proportion with strata, or population must be a number"
    if reason is not None:
        raise InvalidParameter.refusing("statistic", reason, repr(text))


def _counts(schema: PublicSchema, columns: Sequence[int]) -> Iterator[StatisticRequest]:
    if not columns:
        yield Count(schema, ())
    yield from (Count(schema, (k,)) for k in columns)


def _quantiles(
    schema: PublicSchema, columns: Sequence[int], p: float, grid: int | None, called: str
) -> Iterator[StatisticRequest]:
    for k in columns:
        column = schema.columns[k]
        yield Quantile(schema, (k,), p, grid_for(column.numeric, grid, column.whole), called)


def _cutting(schema: PublicSchema, column: int, count: int) -> Cutting:
    own = schema.columns[column]
    if own.categories:
        return Listed(own.cells)
    found = own.numeric
    edges = found.lower + found.width * (np.arange(count + 1) / count)
    edges[-1] = found.upper
    return Between(tuple(edges.tolist()))


def _share(schema: PublicSchema, column: int, conditions: str, text: str) -> Share:
    own = schema.columns[column]
    if own.categories:
        sign, wanted = conditions.strip()[:1], conditions.strip()[1:].strip()
        if sign != "=" or wanted not in own.categories:
            raise InvalidParameter.refusing(
                "statistic",
                f"must ask a proportion of {own.name} as =CATEGORY, one of "
                f"{', '.join(own.categories)}",
                repr(text),
            )
        at = float(own.categories.index(wanted))
        return Share(schema, (column,), Within(at, at), f"={wanted}")
    found = _limits(conditions, text)
    column_range = own.numeric
    for limit in found.values():
        if not column_range.lower <= limit <= column_range.upper:
            raise InvalidParameter.refusing(
                "statistic",
                f"must have limits from {column_range.lower:g} to {column_range.upper:g}, the "
                f"range of {own.name}",
                repr(text),
            )
    if "=" in found:
        cutting = Within(found["="], found["="])
    else:
        low, high = found.get(">", found.get(">=")), found.get("<", found.get("<="))
        cutting = Within(
            -np.inf if low is None else low,
            np.inf if high is None else high,
            ">" in found,
            "<" in found,
        )
    if not (cutting.low < cutting.high or "=" in found):
        raise InvalidParameter.refusing("statistic", "must leave some values", repr(text))
    return Share(schema, (column,), cutting, conditions.strip())


def _limits(conditions: str, text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for condition in conditions.split(","):
        match = re.fullmatch(r"\s*(>=|<=|>|<|=)(.*)", condition)
        if match is None or match[1] in found:
            raise _bad_condition(text)
        found[match[1]] = _number(text, match[2])
    ends: tuple[Callable[[str], bool], ...] = (
        lambda sign: sign.startswith(">"),
        lambda sign: sign.startswith("<"),
    )
    if any(sum(map(end, found)) > 1 for end in ends) or ("=" in found and len(found) > 1):
        raise _bad_condition(text)
    return found


def _bad_condition(text: str) -> InvalidParameter:
    return InvalidParameter.refusing(
        "statistic", "must state a proportion by conditions such as >50, >=50,<60 or =1", repr(text)
    )


def _several(name: str, columns: Sequence[int]) -> None:
    if len(columns) < 2:
        raise InvalidParameter.refusing(
            "columns", f"of {name} must be at least 2", f"{len(columns)}"
        )
    if len(set(columns)) < len(columns):
        raise InvalidParameter.refusing("columns", f"of {name} must differ", "one of them twice")


def _check_effort(name: str, columns: int, slots: int) -> None:
    """Refuse what would not end or not fit, before anything is read or charged.

    Slopes of a regression are taken along every moment of its columns, each with equations of its
    own; the moments of pairs are compared with each other. Seconds were measured on one core.
    """
    if name == "regression":
        moments = columns * (columns + 3) / 2
        seconds = 2.0 * slots * moments * (1e-4 + 2.5e-9 * columns**3)
        cost = Cost(seconds, 8.0 * moments * (2.0 * moments + 4.0 * columns**2))
    else:
        cost = Cost(3e-7 * (columns * (columns - 1) / 2) ** 2)
    check_cost("columns", f"a {name} of {columns} columns", cost)


def _chosen(names: str, schema: PublicSchema) -> tuple[int, ...]:
    known = [column.name for column in schema.columns]
    found = []
    for name in names.split(","):
        if name.strip() not in known:
            raise InvalidParameter.refusing(
                "statistic", f"must name columns among {', '.join(known)}", repr(name.strip())
            )
        found.append(known.index(name.strip()))
    return tuple(found)


def _number(text: str, digits: str) -> float:
    try:
        return checks.real("statistic", float(digits))
    except ValueError:
        raise InvalidParameter.refusing(
            "statistic", f"must have a number in place of {digits!r}", repr(text)
        ) from None


def _whole(text: str, digits: str) -> int:
    if not digits.strip().isdecimal():
        raise InvalidParameter.refusing(
            "statistic", f"must have a whole number in place of {digits!r}", repr(text)
        )
    return int(digits)


def _refused(text: object) -> InvalidParameter:
    return InvalidParameter.refusing(
        "statistic",
        f"must be one of {', '.join(NAMES)}, and may end in @COLUMN,...",
        repr(text),
    )
