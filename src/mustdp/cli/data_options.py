"""Options about data, shared by commands: how a file is read, which statistics, survey designs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.cli.options import ACCOUNTING, read_relation
from mustdp.cli.parameters import (
    Panel,
    clipped,
    read_inner_rate,
    read_integer,
    read_natural,
    read_number,
    read_positive,
    word_of,
    writable_file,
)
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.relation import Relation

if TYPE_CHECKING:
    from pathlib import Path

    from mustdp.data.columns import Reading

#: Titles of panels to which commands add options of their own.
STATISTICS = "Statistics"
FILES = "Files to write"

# How a file is read, and which of its columns.


_data = Panel(
    "Data",
    """
    --column NAME  Column to read; repeat it for several.
    """,
)
_reading = Panel(
    "Reading",
    """
    --header             The first line has names, even if it looks like a record.
    --no-header          Instead of --header: the first line is a record; columns are called 0, 1, 2
                         and so on.
    --delimiter CHAR     What separates fields: one character, or tab, comma, semicolon, space.
                         Default: tab for .tsv, else comma.
    --missing WHAT       What is done with missing values. refuse (the default): raise an error;
                         drop (not in bootstrap): leave them out; a number: put it in their place.
    --missing-mark TEXT  A text or number that means missing, besides NA, NaN, null, none, ? and
                         nothing. May be repeated.
    --encoding NAME      Encoding of a text file, such as latin-1, cp1252 or utf-16. Default: UTF-8.
    --decimal CHAR       What separates decimals: . (the default) or a comma.
    --thousands CHAR     What stands between thousands: one character, or comma, space.
    --date-format FORM   How dates are written, as %d.%m.%Y. Default: ISO 8601.
    """,
)
_CHARACTERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A CSV, Parquet, Stata, SPSS or SAS file; - is standard input.",
        show_default=False,
    ),
]
ColumnOption = Annotated[list[str] | None, _data("--column")]
#: Options by the names that the package has for what they say.
NAMES = {
    "data": "FILE",
    "columns": "--column",
    "header=False": "--no-header",
    "header=True": "--header",
    "marks": "--missing-mark",
    "find": "--find-range",
    "share": "--range-share",
    "dates": "--date-format",
    "Reading(missing=...)": "--missing",
}


def read_missing(name: str, text: str) -> str | float:
    """One of the two words, or a number that everybody may know."""
    if text in ("refuse", "drop"):
        return text
    try:
        return read_number(name, text)
    except InvalidParameter:
        pass
    raise InvalidParameter.refusing(
        name, "must be refuse, drop or a finite number", repr(clipped(text))
    )


def read_character(name: str, text: str) -> str:
    """One character, or the word for one that is hard to type."""
    return _CHARACTERS.get(text.lower(), text)


def per_column(
    name: str, values: Sequence[float], columns: Sequence[str]
) -> float | tuple[float, ...]:
    """One value for all columns, or one for each."""
    if len(values) not in (1, len(columns)):
        raise InvalidParameter.refusing(
            name, "must be given once, or once for each --column", f"{len(values)} of them"
        )
    return values[0] if len(values) == 1 else tuple(values)


@dataclass(frozen=True)
class ReadingOptions:
    """How a file is read: its first line, marks, missing values, encoding and dates."""

    header: Annotated[bool, _reading("--header")] = False
    no_header: Annotated[bool, _reading("--no-header")] = False
    delimiter: Annotated[str | None, _reading("--delimiter", read_character)] = None
    missing: Annotated[Any, _reading("--missing", read_missing)] = None
    missing_mark: Annotated[list[str] | None, _reading("--missing-mark")] = None
    encoding: Annotated[str | None, _reading("--encoding")] = None
    decimal: Annotated[str, _reading("--decimal", read_character)] = "."
    thousands: Annotated[str | None, _reading("--thousands", read_character)] = None
    date_format: Annotated[str | None, _reading("--date-format")] = None

    def of(self, file: str) -> Reading:
        """The file with how it is read."""
        from mustdp.data.columns import Reading

        if self.header and self.no_header:
            raise InvalidParameter(
                "--header and --no-header exclude each other: give at most one, got both"
            )
        return Reading(
            file,
            header=True if self.header else False if self.no_header else None,
            delimiter=self.delimiter,
            missing="refuse" if self.missing is None else self.missing,
            marks=tuple(self.missing_mark or ()),
            encoding=self.encoding,
            decimal=self.decimal,
            thousands=self.thousands,
            dates=self.date_format,
        )


# Which statistics of which columns are released: the options of release and plan.


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


def read_breaks(name: str, text: str) -> tuple[str, tuple[float, ...]]:
    """COLUMN=0,18,65."""
    column, words = read_categories(name, text)
    return column, tuple(read_number(name, word) for word in words)


def read_numbers(name: str, text: str) -> tuple[str, dict[str, int]]:
    """COLUMN=A:480,B:520."""
    column, words = read_categories(name, text)
    found = {}
    for word in words:
        group, sign, number = word.rpartition(":")
        if not sign or group in found:
            raise InvalidParameter.refusing(
                name, "must be COLUMN=A:NUMBER,B:NUMBER", repr(clipped(text))
            )
        found[group] = read_natural(name, number)
    return column, found


_statistics = Panel(
    STATISTICS,
    """
    --lower L                  Lower end of the public range; values below are clipped to it. Once
                               for all, once for each --column, or as COLUMN=L. Public means known
                               without looking at the data.
    --upper U                  Upper end of the public range; values above are clipped to it.
    --statistic NAME           What to estimate, mean by default: {for_release}; docs/cli.md
                               explains them. May be repeated.
    --categories COLUMN=A,B,C  A column of categories; the list is public, and what is not in it is
                               'other'.
    --whole COLUMN             A column whose values are publicly known to be whole numbers. Its
                               quantiles are then whole, too.
    --by COLUMN                With --groups or --breaks: release everything for each group. Repeat
                               it for the cells of several columns.
    --grouping A,B             Instead of all columns of --by at once: those named. Repeat it for
                               several groupings in one release.
    --groups A,B,C             With --by: the groups, a public list, as COLUMN=A,B,C where there are
                               several columns; all others, and missing ones, are 'other'.
    --breaks COLUMN=0,18,65    With --by: where the groups of a column of numbers begin.
    --sizes COLUMN=A:60,B:200  About how many records the groups have, as is publicly known. Plans
                               assume it, and grids of quantiles (median:sizes) follow it.
    --complete                 The lists of groups are publicly known to be complete: there is no
                               'other'.
    --total                    Also release margins and the total of all groups.
    --consistent               Make cells, margins and totals agree with each other and with a
                               public number of records.
    --population SIZE          Size of the population sampled from, for smaller errors; census: the
                               records are all of it, and only noise is left.
    --level LEVEL              Coverage of the intervals.
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
    by: Annotated[list[str] | None, _statistics("--by")] = None
    grouping: Annotated[list[Any] | None, _statistics("--grouping", read_list)] = None
    groups: Annotated[list[str] | None, _statistics("--groups")] = None
    breaks: Annotated[list[Any] | None, _statistics("--breaks", read_breaks)] = None
    sizes: Annotated[list[Any] | None, _statistics("--sizes", read_numbers)] = None
    complete: Annotated[bool, _statistics("--complete")] = False
    total: Annotated[bool, _statistics("--total")] = False
    consistent: Annotated[bool, _statistics("--consistent")] = False
    population: Annotated[Any, _statistics("--population", read_population)] = None
    level: Annotated[float, _statistics("--level", read_inner_rate)] = 0.95

    @property
    def statistics(self) -> tuple[str, ...]:
        """The statistics, mean where none is named."""
        return tuple(self.statistic or ("mean",))

    def read(
        self,
        names: tuple[str, ...],
        *,
        dates: Sequence[Any] | None = None,
        public_totals: Sequence[Any] | None = None,
        whole_counts: bool = False,
    ) -> dict[str, Any]:
        """Everything else, as the package takes it; ``names`` are the columns."""
        from mustdp.estimation.schema import Columns
        from mustdp.estimation.tables import Groups

        return {
            "columns": Columns(
                names, dict(self.categories or ()), dict(dates or ()), tuple(self.whole or ())
            ),
            "lower": limits("--lower", self.lower, names),
            "upper": limits("--upper", self.upper, names),
            "by": self._by(),
            "groups": Groups(
                self._groups(),
                dict(self.breaks or ()),
                self.complete,
                dict(public_totals or ()),
                whole_counts,
                dict(self.sizes or ()),
            ),
            "total": self.total,
            "consistent": self.consistent,
            "population": self.population,
            "level": self.level,
        }

    def _by(self) -> Any:
        if not self.grouping:
            return None if not self.by else self.by[0] if len(self.by) == 1 else tuple(self.by)
        for column in (column for one in self.grouping for column in one):
            if column not in (self.by or ()):
                raise InvalidParameter.refusing(
                    "--grouping", "must name columns of --by", repr(clipped(column))
                )
        return tuple(self.grouping)

    def _groups(self) -> Any:
        """One list, or lists by column."""
        found: dict[str, tuple[str, ...]] = {}
        for text in self.groups or ():
            column, sign, rest = text.partition("=")
            named = bool(sign) and column in (self.by or ())
            if not named and len(self.groups or ()) == 1 and len(self.by or ()) <= 1:
                return read_list("--groups", text)
            if not named or column in found:
                raise InvalidParameter.refusing(
                    "--groups", "must be COLUMN=A,B,C, once for each --by", repr(clipped(text))
                )
            found[column] = read_list("--groups", rest)
        return found or None


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


_release_accounting = Panel(
    ACCOUNTING,
    """
    --relation NAME  Which data sets are neighbours: replace-one (one record is replaced, and the
                     number of records is public; the default) or add-remove (one record more or
                     less; numbers of records are released with noise).
    """,
)
_report = Panel(
    FILES,
    """
    --report FILE  Write a page with pictures and plain words.
    --csv FILE     Write the estimates as a CSV table.
    --latex FILE   Write the estimates as a LaTeX table.
    """,
)
ReleaseRelationOption = Annotated[Relation | None, _release_accounting("--relation", read_relation)]
ReportOption = Annotated[str | None, _report("--report")]


@dataclass(frozen=True)
class FileOptions:
    """``--report``, ``--csv`` and ``--latex``: what is written besides the answer."""

    report: ReportOption = None
    csv: Annotated[str | None, _report("--csv")] = None
    latex: Annotated[str | None, _report("--latex")] = None

    def paths(self) -> dict[str, Path]:
        """Where each is to be written, if it can be."""
        given = (("--csv", self.csv), ("--latex", self.latex), ("--report", self.report))
        found = {name: writable_file(name, path) for name, path in given if path is not None}
        if self.report is not None:
            check_page()
        return found


def check_page() -> None:
    """Refuse a page where what it takes is not installed."""
    from mustdp.reporting.pages import check_installed

    check_installed("a report page")


def write_files(paths: Mapping[str, Path], page: Callable[[], Any], table: Any) -> None:
    """Write the page and the tables of a result."""
    from mustdp.files.replacing import SHARED, replace_file

    for name, path in paths.items():
        if name == "--report":
            page().write(path)
        else:
            text = table.as_csv() if name == "--csv" else table.as_latex()
            replace_file(path, text.encode(), mode=SHARED)


# The options of survey designs: weights, strata and clusters.


_survey = Panel(
    "Survey design",
    """
    --weights COLUMN          A column of survey weights.
    --largest-weight WEIGHT   The largest weight, public; larger ones are cut to it.
    --strata COLUMN           A column of strata.
    --stratum-shares A=X,B=Y  Shares of the strata in the population, which are public.
    --cluster COLUMN          A column that identifies clusters, such as households.
    --largest-cluster INT     The most records that a cluster has, or that are counted; public.
    --unit UNIT               What the guarantee protects: a record, or a whole cluster.
    """,
)


def read_shares(name: str, text: str) -> dict[str, float]:
    """A=0.3,B=0.7."""
    found = {}
    for item in text.split(","):
        stratum, sign, share = item.rpartition("=")
        if not (sign and stratum.strip()) or stratum.strip() in found:
            raise InvalidParameter.refusing(
                name, "must be a list A=SHARE,B=SHARE", repr(clipped(text))
            )
        found[stratum.strip()] = read_positive(name, share)
    return found


@dataclass(frozen=True)
class SurveyOptions:
    """``--weights``, ``--strata`` and ``--cluster`` with what is public about them."""

    weights: Annotated[str | None, _survey("--weights")] = None
    largest_weight: Annotated[float | None, _survey("--largest-weight", read_positive)] = None
    strata: Annotated[str | None, _survey("--strata")] = None
    stratum_shares: Annotated[Any, _survey("--stratum-shares", read_shares)] = None
    cluster: Annotated[str | None, _survey("--cluster")] = None
    largest_cluster: Annotated[int | None, _survey("--largest-cluster", read_integer)] = None
    unit: Annotated[str, _survey("--unit", word_of(("record", "cluster")))] = "record"
