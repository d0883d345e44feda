"""The options that say which statistics of which columns are wanted, shared by release and plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from mustdp.cli.bootstrap import ColumnOption
from mustdp.cli.numbers import clipped, read_number
from mustdp.cli.typed import option
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


LowerOption = Annotated[
    list[Any] | None,
    option(
        "--lower", read_limit, metavar="L",
        help="Values below are clipped to it: once for all, once for each --column, or as "
        "COLUMN=L. Must be known without looking at the data.", panel=STATISTICS,
    ),
]  # fmt: skip
UpperOption = Annotated[
    list[Any] | None,
    option(
        "--upper", read_limit, metavar="U", help="Values above are clipped to it.",
        panel=STATISTICS,
    ),
]  # fmt: skip
StatisticOption = Annotated[
    list[str] | None,
    option(
        "--statistic",
        metavar="NAME",
        help="count, sum, mean (the default), proportion:>X (or >=, <, <=, =, =CATEGORY), "
        "variance, sd, median, quantile:P, histogram[:CELLS], covariance, correlation, "
        "regression (the last column on the others), contingency. Of every --column, or of "
        "some: mean@age. Repeat it for several in one release.",
        panel=STATISTICS,
    ),
]
CategoriesOption = Annotated[
    list[Any] | None,
    option(
        "--categories", read_categories, metavar="COLUMN=A,B,C",
        help="A column of categories; the list is public, and what is not in it is 'other'.",
        panel=STATISTICS,
    ),
]  # fmt: skip
ByOption = Annotated[
    str | None,
    option(
        "--by", metavar="COLUMN", help="Release everything for each of --groups.",
        panel=STATISTICS,
    ),
]  # fmt: skip
GroupsOption = Annotated[
    tuple[str, ...] | None,
    option(
        "--groups", read_list, metavar="A,B,C",
        help="The groups, a public list; everybody else, and missing ones, are 'other'.",
        panel=STATISTICS,
    ),
]  # fmt: skip
PopulationOption = Annotated[
    Any,
    option(
        "--population", read_population, metavar="N",
        help="Size of the population sampled from, for smaller errors; census: the records are "
        "all of it, and only noise is left.", panel=STATISTICS,
    ),
]  # fmt: skip
LevelOption = Annotated[
    float,
    option(
        "--level", partial(read_number, above=0, below=1), metavar="P",
        help="Coverage of the intervals.", panel=STATISTICS, show_default=True,
    ),
]  # fmt: skip


@dataclass(frozen=True)
class StatisticsOptions:
    """Columns with their ranges or categories, statistics, groups, population and level."""

    column: ColumnOption = None
    lower: LowerOption = None
    upper: UpperOption = None
    statistic: StatisticOption = None
    categories: CategoriesOption = None
    by: ByOption = None
    groups: GroupsOption = None
    population: PopulationOption = None
    level: LevelOption = 0.95

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
    if len(given) not in (1, len(columns)):
        raise InvalidParameter.refusing(
            name, "must be given once, or once for each --column", f"{len(given)} of them"
        )
    values = tuple(value for _, value in given)
    return values[0] if len(values) == 1 else values
