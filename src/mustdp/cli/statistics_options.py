"""The options that say which statistics of which columns are wanted, shared by release and plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from mustdp.cli.bootstrap import ColumnOption
from mustdp.cli.numbers import clipped, read_inner_rate, read_number
from mustdp.cli.reading_options import per_column
from mustdp.cli.typed import Panel
from mustdp.errors import InvalidParameter

STATISTICS = "Statistics"


def read_population(name: str, text: str) -> int | str:
    """A whole number, or census."""
    if text == "census":
        return text
    if not text.isdecimal():
        raise InvalidParameter.refusing(
            name, "must be a whole number or census", repr(clipped(text))
        )
    return int(text)


def read_list(name: str, text: str) -> tuple[str, ...]:
    """Words between commas."""
    found = tuple(word.strip() for word in text.split(","))
    if not all(found):
        raise InvalidParameter.refusing(name, "must be a list A,B,C", repr(clipped(text)))
    return found


def read_limit(name: str, text: str) -> tuple[str | None, float]:
    """A number, or COLUMN=NUMBER."""
    column, sign, number = text.rpartition("=")
    return (column if sign else None), read_number(name, number)


def read_categories(name: str, text: str) -> tuple[str, tuple[str, ...]]:
    """COLUMN=A,B,C."""
    column, sign, rest = text.partition("=")
    if not (sign and column):
        raise InvalidParameter.refusing(name, "must be COLUMN=A,B,C", repr(clipped(text)))
    return column, read_list(name, rest)


_statistics = Panel(
    STATISTICS,
    """
    --lower L                  Values below are clipped to it: once for all, once for each --column,
                               or as COLUMN=L. Must be known without looking at the data.
    --upper U                  Values above are clipped to it.
    --statistic NAME           count, sum, mean (the default), proportion:>X (or >=, <, <=, =,
                               =CATEGORY), variance, sd, median, quantile:P, histogram[:CELLS],
                               covariance, correlation, regression (the last column on the others),
                               contingency. Of every --column, or of some: mean@age. Repeat it for
                               several in one release. Numbers of records and sums are those
                               expected among as many records of the population; with --population
                               census those at hand.
    --categories COLUMN=A,B,C  A column of categories; the list is public, and what is not in it is
                               'other'.
    --whole COLUMN             Its values are whole numbers, as is publicly known; so are its
                               quantiles then.
    --by COLUMN                Release everything for each of --groups.
    --groups A,B,C             The groups, a public list; everybody else, and missing ones, are
                               'other'.
    --population N             Size of the population sampled from, for smaller errors; census: the
                               records are all of it, and only noise is left.
    --level P                  Coverage of the intervals.
    """,
)


@dataclass(frozen=True)
class StatisticsOptions:
    """Columns with their ranges or categories, statistics, groups, population and level."""

    column: ColumnOption = None
    lower: Annotated[list[Any] | None, _statistics("--lower", read_limit)] = None
    upper: Annotated[list[Any] | None, _statistics("--upper", read_limit)] = None
    statistic: Annotated[list[str] | None, _statistics("--statistic")] = None
    categories: Annotated[list[Any] | None, _statistics("--categories", read_categories)] = None
    whole: Annotated[list[str] | None, _statistics("--whole")] = None
    by: Annotated[str | None, _statistics("--by")] = None
    groups: Annotated[tuple[str, ...] | None, _statistics("--groups", read_list)] = None
    population: Annotated[Any, _statistics("--population", read_population)] = None
    level: Annotated[float, _statistics("--level", read_inner_rate)] = 0.95

    @property
    def asked(self) -> tuple[str, ...]:
        """The statistics."""
        return tuple(self.statistic or ("mean",))

    def read(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Everything else, as the package takes it; ``names`` are the columns."""
        return {
            "columns": names,
            "lower": limits("--lower", self.lower, names),
            "upper": limits("--upper", self.upper, names),
            "categories": dict(self.categories or ()),
            "whole": tuple(self.whole or ()),
            "by": self.by,
            "groups": self.groups,
            "population": self.population,
            "level": self.level,
        }


def limits(
    name: str, given: list[tuple[str | None, float]] | None, columns: tuple[str, ...]
) -> float | tuple[float, ...] | dict[str, float] | None:
    """The ends of the ranges, as the package takes them."""
    if not given:
        return None
    named = {column: value for column, value in given if column is not None}
    if named:
        if len(named) != len(given):
            raise InvalidParameter(f"{name} must be given as COLUMN=NUMBER everywhere or nowhere")
        return named
    return per_column(name, [value for _, value in given], columns)
