"""Columns: which are read and how (missing values, categories, dates), and data frames of them."""

from __future__ import annotations

import datetime
import math
import operator
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen, unquoted

# Whether a line is one of names or a record: names are public, a record must never be quoted.
#
# A record is recognised by a number, a date, a word for yes or no or for a missing value, or the
# same text twice. A line without any of these may still be a record of texts; so it is quoted only
# where the columns below hold numbers, for which it has none (anyone who asks says so).


#: Texts that stand for a missing value, in any capitals and with blanks around them.
MARKS = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?")

_WORDS = ("true", "false", "yes", "no")


def looks_like_a_record(labels: Sequence[Hashable]) -> str | None:
    """What about some labels is not like names, in words, or None; a nameless column may be one.

    >>> looks_like_a_record(["age", "income"]), looks_like_a_record(["39", "State-gov"])
    (None, 'numbers')
    """
    texts = [label.strip() if isinstance(label, str) else "" for label in labels]
    if any(not isinstance(label, str) for label in labels) or any(map(_is_number, texts)):
        return "numbers"
    if any(map(_is_date, texts)):
        return "dates"
    named = [text for text in texts if text]
    if any(text.lower() in (*MARKS, *_WORDS) for text in named):
        return "words for values"
    return "a name twice" if len(set(named)) < len(named) else None


def are_names(labels: Sequence[Hashable]) -> bool:
    """Whether all labels are names that can be shown."""
    return looks_like_a_record(labels) is None and all(
        isinstance(label, str) and label.strip() and label.isprintable() for label in labels
    )


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ".").strip("$€£%"))
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


# Which columns are meant: by name, or by position where no column has that name.
#
# Messages call a column what the caller called it. Names that were found in the data are shown only
# where they cannot well be the first record of a file without a header row (``header``).


#: A column as the caller names it.
Column = str | int
ColumnNames = Column | Sequence[Column] | None

#: Characters of a name, and names of a list, that a message repeats.
_LETTERS, _SHOWN = 40, 20


class Selected(NamedTuple):
    """A column: its position, its name in the data, and what messages call it."""

    at: int
    name: str
    called: str

    def of(self, where: str) -> str:
        """What messages call it, and whose it is."""
        return f"{self.called} of {where}"


def select(
    labels: Sequence[Hashable], columns: ColumnNames, where: str, *, shown: bool = False
) -> tuple[Selected, ...]:
    """The ``columns`` among ``labels``, in the order asked for.

    A label itself comes first (frames may have numbers as labels), then its text, then the
    position. ``where`` says in messages whose columns these are. With ``shown`` the labels are
    listed where a column is none of them, if nothing about them looks like a record.

    >>> [column.at for column in select(["age", "income"], ["income", 0], "the table")]
    [1, 0]
    """
    asked = as_list(columns)
    # True and 1 are not the same, and True is never asked for.
    by_label = _places(
        (at, label) for at, label in enumerate(labels) if not isinstance(label, bool)
    )
    by_text = _places((at, name_of(label)) for at, label in enumerate(labels))
    found: dict[int, Selected] = {}
    for column in asked:
        key = column if isinstance(column, str) else operator.index(column)
        matches = by_label.get(key) or by_text.get(key, [])
        at = _position(labels, column, matches, where, shown)
        if at in found:
            twice = f"{quoted(column)} twice"
            raise InvalidParameter.refusing("columns", "must be different", twice)
        named = isinstance(column, str)
        found[at] = (
            Selected(at, column, f"column {quoted(column)}") if named else unnamed(labels, at)
        )
    return tuple(found.values())


def unnamed(labels: Sequence[Hashable], at: int) -> Selected:
    """A column that was not asked for by name."""
    return Selected(at, name_of(labels[at]), f"column {at} (the first is 0)")


def as_list(columns: ColumnNames) -> list[Any]:
    """The columns asked for as a list; None is refused here."""
    if isinstance(columns, str) or _is_integer(columns):
        return [columns]
    allowed = "columns must be a name, a position or a non-empty list of them"
    listed = None
    if columns is not None and not isinstance(columns, bytes | dict | set | frozenset):
        try:
            listed = list(columns)  # type: ignore[arg-type]
        except TypeError:
            listed = None
    if listed is None:
        raise InvalidParameter(f"{allowed}, got {_kind(columns)}")
    if not listed:
        raise InvalidParameter(f"{allowed}, got none")
    for column in listed:
        if not (isinstance(column, str) or _is_integer(column)):
            raise InvalidParameter(f"{allowed}, got {_kind(column)} among them")
    return listed


def name_of(label: object) -> str:
    """A column's name as text."""
    return label if isinstance(label, str) else str(label)


def quoted(name: object, letters: int = _LETTERS) -> str:
    """What a caller wrote, in quotation marks if it is a text, its end left out if it is long."""
    if not isinstance(name, str):
        return str(name)
    return repr(name if len(name) <= letters else name[: letters - 1] + "…")


def _places(labels: Iterable[tuple[int, Hashable]]) -> dict[Hashable, list[int]]:
    """Where each label stands."""
    found: dict[Hashable, list[int]] = {}
    for at, label in labels:
        found.setdefault(label, []).append(at)
    return found


def _position(
    labels: Sequence[Hashable], column: Column, matches: Sequence[int], where: str, shown: bool
) -> int:
    if len(matches) > 1:
        raise InvalidParameter.refusing(
            "columns",
            "must be named unambiguously",
            f"{quoted(column)}, the name of {len(matches)} columns of {where}",
        )
    if matches:
        return matches[0]
    if _is_integer(column) and 0 <= operator.index(column) < len(labels):  # type: ignore[arg-type]
        return operator.index(column)  # type: ignore[arg-type]
    listed = f" ({_listed(labels)})" if shown and are_names(labels) else ""
    raise InvalidParameter.refusing(
        "columns", f"must be among the {len(labels)} columns of {where}{listed}", quoted(column)
    )


def _listed(labels: Sequence[Hashable]) -> str:
    """The first names, as many as a message can take."""
    names = [str(label)[:_LETTERS] for label in labels[:_SHOWN]]
    return ", ".join(names) + (", …" if len(labels) > _SHOWN else "")


def _is_integer(value: object) -> bool:
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


# What is wanted of a column: a number, a code of a public list, or days since a public day.
#
# A description says how what stands in the data becomes a double, and what is done where a value is
# missing. Everything in it is public. It is the same for a CSV file, a Parquet file and a frame:
#
#     Number("income", missing="drop")
#     Category("region", ("north", "south"))     # 0 north, 1 south, 2 other and missing
#     Day("born", origin="1970-01-01")           # days since then


#: Refuse the data, leave the value out (marked, so that nothing is lost silently), or a public
#: number in its place.
Missing = Literal["refuse", "drop"] | float

#: What helps where missing values are refused.
REMEDY = "say with {Reading(missing=...)} what to do with them"

#: What the type of a column is one of; None for anything else.
Kind = Literal["number", "date", "text"] | None

_WHITE = " \t\n\r\f\v"
#: The day that Arrow, pandas and ``datetime.date`` count days from, as an ordinal.
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Number:
    """A column of finite numbers. ``missing``: None for what the reading says of all columns.

    ``remedy`` is said where missing values are refused.
    """

    values_called: ClassVar[str] = "numbers"
    types_called: ClassVar[str] = "numeric (integers, floating-point numbers or booleans)"
    kinds: ClassVar[tuple[Kind, ...]] = ("number",)

    column: Column
    missing: Missing | None = None
    remedy: str = REMEDY

    def __post_init__(self) -> None:
        if self.missing is not None:
            object.__setattr__(self, "missing", check_missing(self.missing))


@dataclass(frozen=True)
class Category:
    """A column of texts as codes: the position in the public list ``values``, or ``other``.

    Texts are compared without the blanks around them; capitals count. Whole numbers, booleans
    (true, false) and dates (ISO 8601) are compared as text. Whatever is not listed, and whatever is
    missing, is ``other``: no record is left out.
    """

    values_called: ClassVar[str] = "text"
    types_called: ClassVar[str] = "of text, whole numbers, booleans or dates"
    kinds: ClassVar[tuple[Kind, ...]] = ("number", "date", "text")

    column: Column
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        given = (self.values,) if isinstance(self.values, str) else tuple(self.values)
        if not given or not all(isinstance(value, str) and value.strip() for value in given):
            raise InvalidParameter.refusing(
                "values", "must be a non-empty list of texts that are not blank", repr(given)
            )
        values = tuple(value.strip(_WHITE) for value in given)
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            got = f"{quoted(twice)} twice"
            raise InvalidParameter.refusing("values", "must be different", got)
        object.__setattr__(self, "values", values)

    @property
    def other(self) -> int:
        """The code of everything that is not listed."""
        return len(self.values)

    @cached_property
    def _codes(self) -> dict[str, float]:
        return {value: float(code) for code, value in enumerate(self.values)}

    def code(self, value: object) -> float | None:
        """The code of a value as Python has it; None for a text that is not UTF-8."""
        text = _text(value)
        return None if text is None else self._codes.get(text, float(self.other))


@dataclass(frozen=True)
class Day:
    """A column of dates (ISO 8601, or a type of dates) as days since ``origin``, a public day.

    Of a point in time the date is taken as it is written, whatever the time of day or the zone. A
    number in place of missing dates is one of days since the origin.
    """

    values_called: ClassVar[str] = "dates (ISO 8601)"
    types_called: ClassVar[str] = "of dates, or of text in the form of ISO 8601"
    kinds: ClassVar[tuple[Kind, ...]] = ("date", "text")

    column: Column
    origin: datetime.date | str = datetime.date(1970, 1, 1)
    missing: Missing | None = None

    def __post_init__(self) -> None:
        if self.missing is not None:
            object.__setattr__(self, "missing", check_missing(self.missing))
        origin = _date(self.origin)
        if origin is None:
            raise InvalidParameter.refusing(
                "origin", "must be a date such as 2026-01-31", repr(self.origin)
            )
        object.__setattr__(self, "origin", origin)

    @property
    def offset(self) -> int:
        """The origin, counted in days since 1970-01-01."""
        return self.origin.toordinal() - _FIRST_DAY  # type: ignore[union-attr]

    def day(self, value: object, dates: str | None = None) -> float | None:
        """Days from the origin to a date or the text of one, in the format ``dates`` or ISO 8601.

        None if it is neither.
        """
        found = _date(value, dates)
        return None if found is None else float(found.toordinal() - _FIRST_DAY - self.offset)


#: A bare name or position is a Number.
ColumnRequest = Number | Category | Day


def as_request(column: Column | ColumnRequest) -> ColumnRequest:
    """A description; a name or a position alone describes a number."""
    return column if isinstance(column, Number | Category | Day) else Number(column)


def check_missing(missing: Any) -> Missing:
    """``missing``, if it is one of the two words or a finite number.

    >>> check_missing("drop"), check_missing(0)
    ('drop', 0.0)
    """
    if isinstance(missing, str):
        if missing in ("refuse", "drop"):
            return missing  # type: ignore[return-value]
        allowed = "must be refuse, drop or a finite number"
        raise InvalidParameter.refusing("missing", allowed, quoted(missing))
    return checks.real("missing", missing)


def _date(value: object, dates: str | None = None) -> datetime.date | None:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(text, str) or not text.isascii():
        return None
    text = text.strip(_WHITE)
    try:
        if dates is not None:
            return datetime.datetime.strptime(text, dates).date()
        return datetime.datetime.fromisoformat(text).date()
    except ValueError:
        return None


def _text(value: object) -> str | None:
    """A value as the text that is compared with a list, None if it is not UTF-8."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        text = value.strip(_WHITE)
        return text if text.isascii() or not _escaped(text) else None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        whole = math.isfinite(value) and value == int(value)
        return str(int(value)) if whole else repr(float(value))
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time(0)
        return value.date().isoformat() if midnight else value.isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value)


def _escaped(text: str) -> bool:
    """Whether a text has bytes in it that were not UTF-8."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)


# How data are read: whether there is a header row, what separates fields, what is missing.
#
# A ``Reading`` stands wherever data can be given, in front of them:
#
#     md.private_bootstrap(Reading("adult.data", header=False, missing=0.0), columns="0", ...)


#: Where data are said to be on standard input.
STANDARD_INPUT = "-"
#: Before the path of a file that DuckDB is to read, and between a database and a table in it.
ENGINE_MARK = "::"


@dataclass(frozen=True)
class Reading:
    """Data, and how they are read; stands wherever data can be given.

    ``header``, ``delimiter``, ``encoding``, ``decimal`` and ``thousands`` are for text files.

    Parameters
    ----------
    data : array, frame, table or path
        The records; "-" is standard input.
    header : bool, default=None
        True if the first line has the names, False if it is a record: the columns are then called
        0, 1, 2 and so on. None takes it for names, but refuses one that looks like a record.
    delimiter : str, default=None
        One character; None is the tabulator for .tsv and the comma for the rest. With a delimiter
        or without a header a text file may have any ending.
    missing : "refuse", "drop" or float, default="refuse"
        What is done with missing values of columns that do not say so themselves.
    marks : sequence of str, default=()
        Texts that are missing values besides the usual ones (nothing, NA, NaN, null, none, ?); one
        that is a number (-9) is one of a column of numbers, too.
    encoding : str, default=None
        An encoding that Python knows, such as "latin-1", "cp1252" or "utf-16". None is UTF-8, which
        only columns of texts that are read have to be in.
    decimal : str, default="."
        What separates the decimals of numbers: a point or a comma.
    thousands : str, default=None
        What stands between groups of three digits, such as "," or " ". Numbers may be written
        without it; one with groups of other lengths is refused.
    dates : str, default=None
        How dates are written in columns of text, in the codes of ``datetime.strptime``, such as
        "%d.%m.%Y". Years have four digits. None is ISO 8601.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Reading("survey.txt", delimiter=";", marks=("-9",)).codes
    (-9.0,)
    >>> german = md.types.Reading("umfrage.csv", delimiter=";", decimal=",", encoding="cp1252")
    """

    data: Any
    header: bool | None = None
    delimiter: str | None = None
    missing: Missing = "refuse"
    marks: Sequence[str] = ()
    encoding: str | None = None
    decimal: str = "."
    thousands: str | None = None
    dates: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", check_missing(self.missing))
        if isinstance(self.data, Reading):
            raise InvalidParameter("data must be read in one way, got a Reading of a Reading")
        if self.header not in (None, True, False):
            raise InvalidParameter.refusing(
                "header", "must be True, False or None", repr(self.header)
            )
        marks = (self.marks,) if isinstance(self.marks, str) else tuple(self.marks)
        if not all(isinstance(mark, str) for mark in marks):
            raise InvalidParameter("marks must be texts, got others among them")
        object.__setattr__(self, "marks", marks)
        if self.delimiter is not None:
            _check_delimiter(self.delimiter)
        if self.encoding is not None:
            _check_encoding(self.encoding)
        if self.decimal not in (".", ","):
            raise InvalidParameter.refusing(
                "decimal", "must be a point or a comma", quoted(self.decimal)
            )
        if self.thousands is not None and (
            self.thousands not in _THOUSANDS or self.thousands == self.decimal
        ):
            raise InvalidParameter.refusing(
                "thousands",
                "must be a point, a comma, an apostrophe, a space or an underscore, and not the "
                "decimal mark",
                quoted(self.thousands),
            )
        if self.dates is not None:
            _check_date_format(self.dates)

    @property
    def any_ending(self) -> bool:
        """Whether a file is text whatever its name ends in, because it was described as such."""
        return self.delimiter is not None or self.header is False

    def refuse_layout(self, where: str) -> None:
        """Refuse what is said about lines and fields where there are none.

        Parameters
        ----------
        where : str
            What the data are, for the message.
        """
        given = {
            "header": self.header,
            "delimiter": self.delimiter,
            "encoding": self.encoding,
            "decimal": None if self.decimal == "." else self.decimal,
            "thousands": self.thousands,
        }
        for name, value in given.items():
            if value is not None:
                allowed = f"must be left out for {where}, which is no file of text"
                raise InvalidParameter.refusing(name, allowed, repr(value))

    @cached_property
    def words(self) -> frozenset[str]:
        """The texts that are missing values, in small letters."""
        return frozenset((*MARKS, *(mark.strip().lower() for mark in self.marks)))

    @property
    def spelled(self) -> set[str]:
        """Some of them as they are often written; those that are numbers are not among them."""
        words = [word for word in self.words if _number(self.plain_number(word)) is None]
        return {form for word in words for form in (word, word.upper(), word.title(), "NaN")}

    @cached_property
    def codes(self) -> tuple[float, ...]:
        """The numbers that are missing values."""
        found = (_number(self.plain_number(mark)) for mark in self.marks)
        return tuple(number for number in found if number is not None)

    def is_missing(self, text: str) -> bool:
        """Whether a text means a missing value.

        Parameters
        ----------
        text : str
            What a field holds.

        Returns
        -------
        bool
            True for the usual texts and for ``marks``.
        """
        return text.strip().lower() in self.words

    def plain_number(self, text: str) -> str:
        """A number with the usual decimal point and without marks between thousands.

        Parameters
        ----------
        text : str
            What a field holds.

        Returns
        -------
        str
            The number as Python writes it; what is none comes back as no number either.

        Examples
        --------
        >>> import mustdp as md
        >>> reading = md.types.Reading("x.csv", decimal=",", thousands=".")
        >>> [reading.plain_number(text) for text in ("1.234,5", "1234", "12.34", "NA")]
        ['1234.5', '1234', 'no number', 'NA']
        """
        if self.decimal == "." and self.thousands is None:
            return text
        found = self._written.fullmatch(text.strip())
        if found is None:
            marks = {".", ",", self.thousands or "."}
            return "no number" if any(mark in text.strip() for mark in marks) else text
        sign, whole, decimals, exponent = (part or "" for part in found.groups())
        if self.thousands is not None:
            whole = whole.replace(self.thousands, "")
        return f"{sign}{whole}{'.' if decimals else ''}{decimals[1:]}{exponent}"

    @cached_property
    def _written(self) -> re.Pattern[str]:
        """How numbers are written: sign, whole part, decimals, exponent."""
        groups = ""
        if self.thousands is not None:
            groups = rf"[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+|"
        point = re.escape(self.decimal)
        return re.compile(rf"([+-]?)({groups}[0-9]*)({point}[0-9]*)?([eE][+-]?[0-9]+)?")


#: What may stand between thousands; spaces may be those that do not break lines.
_THOUSANDS = (".", ",", "'", "\u2019", " ", "\u00a0", "\u202f", "_")


def as_reading(data: Any) -> Reading:
    """Data with the reading in front of them, or read in the usual way."""
    return data if isinstance(data, Reading) else Reading(data)


def _check_delimiter(delimiter: Any) -> None:
    allowed = "must be one character that is no letter, digit, sign, point, quotation or line end"
    if not isinstance(delimiter, str):
        raise InvalidParameter.refusing("delimiter", allowed, f"a {type(delimiter).__name__}")
    one = len(delimiter) == 1 and delimiter.isascii()
    if not one or delimiter.isalnum() or delimiter in "\"'+-.\n\r\0":
        raise InvalidParameter.refusing("delimiter", allowed, quoted(delimiter))


def _check_encoding(encoding: Any) -> None:
    known = isinstance(encoding, str)
    try:
        known = known and "1,2\n".encode(encoding).decode(encoding) == "1,2\n"
    except (LookupError, ValueError):  # unknown, no encoding of text, or no name at all
        known = False
    if not known:
        allowed = "must be an encoding of text that Python knows, such as utf-8 or latin-1"
        raise InvalidParameter.refusing("encoding", allowed, quoted(encoding))


def _check_date_format(dates: Any) -> None:
    """A format must keep a date: one with years of two digits takes 1945 for 2045."""
    day = datetime.date(1945, 1, 31)
    kept = None
    if isinstance(dates, str):
        try:
            kept = datetime.datetime.strptime(day.strftime(dates), dates).date()
        except ValueError:
            kept = None
    if kept != day:
        allowed = "must be a format with day, month and a year of four digits, such as %d.%m.%Y"
        raise InvalidParameter.refusing("dates", allowed, quoted(dates))


def _number(mark: str) -> float | None:
    try:
        number = float(mark)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


# Values of one column: from text, objects, Arrow data or dates to finite doubles.


# What a column must hold: finite numbers that double precision represents as they are.
#
# Floating-point numbers of other precisions are converted; booleans become 0 and 1. Integers
# beyond 2**53 are refused: neighbours of them would become equal. What is refused is named by its
# column and its kind. Its value is never shown.


Flags = NDArray[np.bool_]
#: Rows that are checked at a time, so that checks take no memory to speak of.
_CHUNK = 2**18


class Doubles(NamedTuple):
    """Values of a column, NaN or anything where ``missing`` says so; None if nothing is missing."""

    values: FloatArray
    missing: Flags | None = None


def floats(values: NDArray[Any], column: str) -> FloatArray:
    """``values`` (booleans, integers or floats, one-dimensional) in double precision.

    Nothing is copied where nothing is converted. ``column`` is what messages call them.
    """
    if values.dtype.kind in "iu" and values.size:
        refuse_inexact(int(values.min()), int(values.max()), column)
    with np.errstate(over="ignore"):
        return values.astype(np.float64, copy=False)


def settled(
    given: Doubles, policy: Missing, column: str, more: str = "", remedy: str = REMEDY
) -> Doubles:
    """The values with the missing ones (NaN among them) refused, marked, or replaced.

    What comes back is finite, with 0 where it is marked as missing, and marked under "drop" alone.
    ``more`` is said at the end of a refusal, and ``remedy`` behind it.
    """
    values, missing = given
    missing = missing if missing is not None and missing.any() else None
    if missing is None and _all_finite(values):
        return Doubles(values)
    marked = np.zeros(len(values), dtype=np.bool_) if missing is None else missing
    nan = np.isnan(values) & ~marked
    infinite = np.isinf(values) & ~marked
    if infinite.any() or policy == "refuse":
        refuse_counted(
            int(np.count_nonzero(marked)),
            int(np.count_nonzero(nan)),
            int(np.count_nonzero(infinite)),
            column,
            more,
            remedy,
        )
    unusable = marked | nan
    filled = np.where(unusable, 0.0 if isinstance(policy, str) else policy, values)
    return Doubles(filled, unusable if policy == "drop" else None)


def refuse_type(column: str, kind: object, wanted: ColumnRequest) -> NoReturn:
    """Refuse a column for its type, ``kind``, which cannot become what is ``wanted``."""
    raise InvalidParameter(f"{column} must be {wanted.types_called}, got type {type_name(kind)}")


def type_name(kind: object) -> str:
    """A type without what it says in brackets: some types list the values that a column holds.

    >>> type_name("Enum(categories=['a', 'b'])"), type_name("datetime64[ns]")
    ('Enum', 'datetime64')
    """
    return re.split(r"[\[({<]", str(kind), maxsplit=1)[0].strip() or type(kind).__name__


def refuse_inexact(low: Any, high: Any, column: str) -> None:
    """Refuse a column of integers or decimals whose least and greatest values are too far out."""
    if not (low >= -LARGEST_SIZE and high <= LARGEST_SIZE):
        raise InvalidParameter(
            f"{column} must hold integers from -2**53 to 2**53, the range that is exact in double "
            "precision, got one outside of it"
        )


def _all_finite(values: FloatArray) -> bool:
    starts = range(0, len(values), _CHUNK)
    return all(np.isfinite(values[start : start + _CHUNK]).all() for start in starts)


def refuse_counted(
    missing: int, nan: int, infinite: int, column: str, more: str = "", remedy: str = REMEDY
) -> None:
    """Refuse a column if any of the counts is not 0; ``more`` and ``remedy`` are said at the end.

    How many there are is not said, nor how many rows: these numbers may be private.
    """
    counts = {"missing": missing, "NaN": nan, "infinite": infinite}
    found = ", ".join(kind for kind, count in counts.items() if count)
    found += " values" if found else ""
    way = "" if infinite else f"; {remedy}"
    if found:
        raise InvalidParameter.refusing(
            column,
            "must hold finite numbers only",
            f"{found}{more}{way}",
            mentions=("Reading(missing=...)",),
        )


# Columns of Arrow data: which types are numeric, and how they become numpy arrays. pyarrow is
# imported where it is used, so that arrays of numpy do without.


def kind_of(given: Any) -> Kind:
    """What an Arrow type is one of; decimals are numbers, and codes for texts are texts."""
    from pyarrow import types

    if types.is_dictionary(given):
        return "text" if kind_of(given.value_type) in ("number", "text") else None
    numeric = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    if any(is_one(given) for is_one in numeric):
        return "number"
    if types.is_date(given) or types.is_timestamp(given):
        return "date"
    text = types.is_string(given) or types.is_large_string(given) or str(given) == "string_view"
    return "text" if text else None


def arrow_floats(array: Any, column: str) -> Doubles:
    """An Arrow array, chunked or not, of a numeric type in double precision.

    Decimals are rounded to the nearest double, as decimals in text are.
    """
    import pyarrow
    from pyarrow import compute, types

    missing = nulls(array)
    if types.is_decimal(array.type):
        # Narrow decimals have no minimum in all versions; as wide ones they are the same numbers.
        array = array.cast(pyarrow.decimal256(76, array.type.scale))
    elif types.is_boolean(array.type):
        array = array.cast(pyarrow.uint8())
    if len(array) > array.null_count and not types.is_floating(array.type):
        extremes = compute.min_max(array).as_py()
        refuse_inexact(extremes["min"], extremes["max"], column)
        array = array.cast(pyarrow.float64(), safe=False)
    return Doubles(floats(as_numpy(array), column), missing)


def arrow_days(array: Any) -> tuple[IntArray, Flags | None]:
    """An Arrow array of dates or points in time as days since 1970-01-01, on the clock shown."""
    import pyarrow
    from pyarrow import compute

    missing = nulls(array)
    if pyarrow.types.is_timestamp(array.type):
        if array.type.tz is not None:
            array = compute.local_timestamp(array)
        array = array.cast(pyarrow.timestamp("s"), safe=False)
    days = as_numpy(array.cast(pyarrow.date32(), safe=False).cast(pyarrow.int32()).fill_null(0))
    return days.astype(np.int64), missing


def arrow_distinct(array: Any) -> tuple[IntArray, list[Any]]:
    """An Arrow array as places in a list of its different values, the last of which is None."""
    import pyarrow

    if isinstance(array, pyarrow.ChunkedArray):
        array = array.combine_chunks()
    if not pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    values: list[object] = array.dictionary.to_pylist()
    at = as_numpy(array.indices.cast(pyarrow.int64()).fill_null(len(values)))
    return at, [*values, None]


def nulls(array: Any) -> Flags | None:
    """Where an Arrow array is null, None if nowhere."""
    return as_numpy(array.is_null()) if array.null_count else None


def as_numpy(array: Any) -> NDArray[Any]:
    """An Arrow array, chunked or not, as numpy has it."""
    chunked = hasattr(array, "chunks")
    return np.asarray(array.to_numpy() if chunked else array.to_numpy(zero_copy_only=False))


# One column as it is read, piece by piece: from texts, objects, numbers or days to doubles.
#
# There is one conversion for every kind of data, so that the same record becomes the same numbers
# wherever it stands. What is refused is named by its column and place. Its value is never shown.


_YES_OR_NO = {"true": 1.0, "false": 0.0}
_WHOLE = re.compile(r"[+-]?0*([0-9]+)")
#: Different values that are remembered with what became of them.
_REMEMBERED = 2**16
_NAN = float("nan")

#: Where a value stands, by its number in the piece.
Place = Callable[[int], str]


def conversions_of(
    selected: Sequence[Selected], wanted: Sequence[ColumnRequest], reading: Reading, where: str
) -> list[Conversion]:
    """One conversion for each column."""
    return [
        Conversion(one, reading, column.of(where))
        for column, one in zip(selected, wanted, strict=True)
    ]


class Conversion:
    """What becomes of one column; it remembers what it has seen in earlier pieces."""

    def __init__(self, wanted: ColumnRequest, reading: Reading, called: str) -> None:
        self.wanted, self.called = wanted, called
        self._reading = reading
        self._known: dict[object, float] = {}
        self._words = self._numbers = 0

    @property
    def is_number(self) -> bool:
        """Whether numbers are wanted."""
        return isinstance(self.wanted, Number)

    @property
    def refuses_missing(self) -> bool:
        """Whether a missing value is refused; for a category it is another value."""
        return self._missing == "refuse" and not isinstance(self.wanted, Category)

    @property
    def remedy(self) -> str:
        """What is said where missing values are refused."""
        return self.wanted.remedy if isinstance(self.wanted, Number) else REMEDY

    @property
    def _missing(self) -> Missing:
        own = None if isinstance(self.wanted, Category) else self.wanted.missing
        return self._reading.missing if own is None else own

    def numbers(self, given: Doubles) -> Doubles:
        """Numbers, missing ones marked or NaN."""
        missing = 0 if given.missing is None else int(np.count_nonzero(given.missing))
        self._count(0, len(given.values) - missing)
        return self._settled(given)

    def days(self, days: IntArray, missing: Flags | None) -> Doubles:
        """Days since 1970-01-01, of a type of dates; days or codes are wanted."""
        if isinstance(self.wanted, Day):
            return self._settled(Doubles((days - self.wanted.offset).astype(np.float64), missing))
        few, at = np.unique(days, return_inverse=True)
        values: list[object] = [day.item() for day in few.astype("datetime64[D]")]
        if missing is not None:
            at, values = np.where(missing, len(values), at), [*values, None]
        return self.distinct(at, values, lambda k: "")

    def distinct(self, at: IntArray, values: Sequence[object], place: Place) -> Doubles:
        """Places ``at`` in a list of values as Python has them, None for missing ones.

        Codes or days are wanted.
        """
        few = np.fromiter((self._converted(value) for value in values), np.float64, len(values))
        found = few[at]
        self._refuse_unreadable(found, place)
        return self._settled(Doubles(found))

    def texts(self, texts: Sequence[str], place: Place) -> Doubles:
        """Fields of a file of text."""
        if not self.is_number:
            return self.distinct(np.arange(len(texts)), texts, place)
        words = 0
        found = np.empty(len(texts))
        for k, written in enumerate(texts):
            text = self._reading.plain_number(written)
            try:
                number = float(text)
            except ValueError:
                number = None
            if number is None:  # outside of the handler: what is refused there would be quoted
                word = written.strip().lower()
                if word in _YES_OR_NO:
                    words += 1
                elif word not in self._reading.words:
                    self._refuse_text(place(k))
                number = _YES_OR_NO.get(word, _NAN)
            elif "_" in text or not text.isascii():  # float() reads 1_000 and all scripts' digits
                self._refuse_text(place(k))
            elif not -LARGEST_SIZE < number < LARGEST_SIZE and number not in self._reading.codes:
                self._refuse_inexact(text)
            found[k] = number
        self._count(words, len(texts) - words - int(np.count_nonzero(np.isnan(found))))
        return self._settled(Doubles(found, np.isnan(found)), place)

    def _count(self, words: int, numbers: int) -> None:
        self._words += words
        self._numbers += numbers
        if self._words and self._numbers:
            raise InvalidParameter(
                f"{self.called} must hold numbers, or the words true and false alone, "
                f"got {self._words} such words"
            )

    def _settled(self, given: Doubles, place: Place | None = None) -> Doubles:
        more = ""
        if self.is_number and self._reading.codes:
            coded = np.isin(given.values, self._reading.codes)
            if coded.any():
                marked = coded if given.missing is None else coded | given.missing
                given = Doubles(given.values, marked)
        if place is not None and not np.isfinite(given.values).all():
            more = f", the first {place(int(np.argmin(np.isfinite(given.values))))}"
        return settled(given, self._missing, self.called, more, self.remedy)

    def _converted(self, value: object) -> float:
        """A code or a day, NaN for a missing day, infinity for what is refused."""
        key = (type(value), value)
        try:
            known = self._known.get(key)
        except TypeError:  # cannot be a key: a list, say
            key, known = (str, str(value)), None
        if known is None:
            known = self._looked_at(value)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = known
        return known

    def _looked_at(self, value: object) -> float:
        wanted = self.wanted
        if isinstance(wanted, Category):
            found = float(wanted.other) if value is None else wanted.code(value)
        elif isinstance(wanted, Day):
            if value is None or (isinstance(value, str) and self._reading.is_missing(value)):
                return _NAN
            found = wanted.day(value, self._reading.dates)
        else:
            found = None
        return float("inf") if found is None else found

    def _refuse_unreadable(self, found: FloatArray, place: Place) -> None:
        unreadable = np.isinf(found)
        if unreadable.any():
            kind = self.wanted.values_called
            kind = f"{kind} in UTF-8" if isinstance(self.wanted, Category) else kind
            where = place(int(np.argmax(unreadable)))
            raise InvalidParameter(
                f"{self.called} must hold {kind}, got one that is not one {where}"
            )

    def _refuse_text(self, where: str) -> None:
        raise InvalidParameter(
            f"{self.called} must hold numbers, got a text that is not one {where}"
        )

    def _refuse_inexact(self, text: str) -> None:
        """Integers beyond 2**53; with more digits than it has, nothing need be computed."""
        whole = _WHOLE.fullmatch(text.strip())
        if whole is not None:
            size = int(whole[1]) if len(whole[1]) < 20 else 2 * LARGEST_SIZE
            refuse_inexact(size, size, self.called)


# Tables in memory as columns: numpy arrays, Arrow tables, and data frames through narwhals.


class Source(ABC):
    """Records as rows of finite double-precision numbers, read where they are needed."""

    #: Number of records, at least 1.
    n: int
    #: Names of the selected columns, in the order of ``take``; unnamed ones by position.
    columns: tuple[str, ...]
    #: Whether ``take`` is a matter of memory alone, or reads a file every time.
    rows_in_memory: ClassVar[bool]

    def take(self, indices: ArrayLike) -> FloatArray:
        """The rows with these numbers, in this order.

        A source that reads files every time reads each file once per call, so that the rows of
        several subsets are cheaper in one call.

        Parameters
        ----------
        indices : array_like of int
            Numbers of records, from 0 to n - 1.

        Returns
        -------
        ndarray
            ``(len(indices), columns)``.
        """
        return self._read(self._checked(indices))

    @abstractmethod
    def _read(self, indices: IntArray) -> FloatArray:
        """The rows of ``indices``, which have been checked."""

    def _checked(self, indices: ArrayLike) -> IntArray:
        given = np.asarray(indices)
        if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
            raise InvalidParameter(
                f"indices must be a one-dimensional array of integers, "
                f"got {given.ndim} dimensions of {given.dtype}"
            )
        if given.size and not (given.min() >= 0 and given.max() < self.n):
            raise InvalidParameter(f"indices must be from 0 to {self.n - 1}, got others")
        return given.astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False, repr=False)
class ArraySource(Source):
    """Rows of an array ``(n, columns)`` that has been checked; seen read-only, not copied."""

    rows_in_memory: ClassVar[bool] = True

    values: FloatArray
    columns: tuple[str, ...]
    n: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values.view()))
        object.__setattr__(self, "n", len(self.values))

    def _read(self, indices: IntArray) -> FloatArray:
        return self.values.take(indices, axis=0)


# What every table in memory must tell about its columns, and how they become what is wanted.


_USUAL = Reading(None)


class Frame(ABC):
    """Columns with labels, types and values; ``where`` is what messages call the whole."""

    def __init__(self, where: str, labels: Sequence[Hashable], rows: int) -> None:
        self.where = where
        self.labels = tuple(labels)
        self.rows = rows

    @abstractmethod
    def type_of(self, at: int) -> str:
        """The type of the column at this position, in its library's words."""

    @abstractmethod
    def kind_of(self, at: int) -> Kind:
        """What that type is one of: numbers and booleans, dates and points in time, or texts."""

    @abstractmethod
    def numbers(self, at: int, column: str) -> Doubles:
        """The values of a numeric column in double precision; ``column`` in messages."""

    @abstractmethod
    def days(self, at: int) -> tuple[IntArray, Flags | None]:
        """The values of a column of dates as days since 1970-01-01, and where there are none."""

    @abstractmethod
    def distinct(self, at: int) -> tuple[IntArray, Sequence[object]]:
        """Any column as places in a list of values; None in that list means missing."""

    @abstractmethod
    def part(self, start: int, stop: int) -> Frame:
        """Some of the rows."""

    def whole(self) -> FloatArray | None:
        """All columns as one array ``(rows, columns)``, if the data are just that."""
        return None

    def select(self, columns: ColumnNames) -> tuple[Selected, ...]:
        """The columns asked for, None for all numeric ones; refused if one is not numeric."""
        if columns is not None:
            return self.selected([Number(column) for column in as_list(columns)])
        numeric = [at for at in range(len(self.labels)) if self.kind_of(at) == "number"]
        if not numeric:
            kinds = {type_name(self.type_of(at)) for at in range(len(self.labels))}
            got = f"type {' and '.join(sorted(kinds))} only" if kinds else "no columns"
            raise InvalidParameter(f"{self.where} must have a numeric column, got {got}")
        return tuple(unnamed(self.labels, at) for at in numeric)

    def selected(self, wanted: Sequence[ColumnRequest]) -> tuple[Selected, ...]:
        """The columns that are described; refused if one has a type that does not suit."""
        shown = any(self.kind_of(at) == "number" for at in range(len(self.labels)))
        found = select(self.labels, [one.column for one in wanted], self.where, shown=shown)
        for column, one in zip(found, wanted, strict=True):
            self.refuse_unsuited(column, one)
        return found

    def refuse_unsuited(self, column: Selected, wanted: ColumnRequest) -> None:
        """Refuse a column whose type cannot become what is wanted of it."""
        if self.kind_of(column.at) not in wanted.kinds:
            refuse_type(column.of(self.where), self.type_of(column.at), wanted)

    def read(self, column: Selected, reading: Reading = _USUAL) -> FloatArray:
        """The numbers of a selected column; errors of the frame's library are not passed on."""
        conversion = Conversion(Number(column.at), reading, column.of(self.where))
        return self.convert(column.at, conversion).values

    def convert(self, at: int, conversion: Conversion, first: int = 0) -> Doubles:
        """The column at a position as it is wanted; ``first`` is the number of the first row."""

        def converted() -> Doubles:
            if conversion.is_number:
                return conversion.numbers(self.numbers(at, conversion.called))
            if self.kind_of(at) == "date":
                return conversion.days(*self.days(at))
            return conversion.distinct(
                *self.distinct(at), lambda k: f"in row {first + k}, counted from 0"
            )

        return unquoted(
            converted, f"{conversion.called} must be readable as {conversion.wanted.values_called}"
        )


def each_for_itself(
    values: Sequence[object], missing: Sequence[bool] | Flags
) -> tuple[IntArray, list[object]]:
    """A list of values as places in itself, None for missing ones."""
    found = [None if gone else value for value, gone in zip(values, missing, strict=True)]
    return np.arange(len(found)), found


#: The letters that numpy has for types.
_OF_NUMPY: dict[str, Kind] = {
    "M": "date", "b": "number", "i": "number", "u": "number", "f": "number",
    "U": "text", "S": "text", "O": "text",
}  # fmt: skip


def as_frame(data: Any) -> Frame | None:
    """``data`` as a frame, or None if it is none.

    No library is imported for data that cannot be its own.
    """
    if isinstance(data, np.ndarray):
        return NumpyFrame(data)
    if data is None or isinstance(data, str | bytes | os.PathLike | list | tuple | dict):
        return None
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(
        data, arrow.Table | arrow.RecordBatch | arrow.ChunkedArray | arrow.Array
    ):
        return TableFrame.of_arrow(data)
    import narwhals

    # Columns of pandas may share a name, which narwhals refuses; positions are as good.
    labels = None
    if hasattr(data, "set_axis") and hasattr(data, "columns") and not data.columns.is_unique:
        labels = list(data.columns)
        data = data.set_axis(range(len(labels)), axis=1)
    found = narwhals.from_native(data, pass_through=True, allow_series=True)
    if isinstance(found, narwhals.LazyFrame):
        raise InvalidParameter(
            "data must be in memory or in a file, got a "
            f"{type(data).__module__.partition('.')[0]} {type(data).__name__}: collect() or "
            "compute() it, or write it as a Parquet file and give the path"
        )
    where = f"the {type(data).__name__}"
    if isinstance(found, narwhals.Series):
        label = 0 if found.name in (None, "") else found.name
        return TableFrame(where, [label], [found], len(found))
    if isinstance(found, narwhals.DataFrame):
        columns = [found[:, at] for at in range(found.shape[1])]
        return TableFrame(where, found.columns if labels is None else labels, columns, len(found))
    return None


class NumpyFrame(Frame):
    """A one- or two-dimensional array, its columns by position, or a structured one by field."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self._fields = data.dtype.names
        self._masked = isinstance(data, np.ma.MaskedArray)
        if data.ndim not in ((1,) if self._fields else (1, 2)):
            raise InvalidParameter(
                f"data must be an array of one or two dimensions (of one, if it has fields), "
                f"got shape {data.shape}"
            )
        self._data = np.ma.asarray(data) if self._masked else np.asarray(data)
        columns = self._fields or range(1 if data.ndim == 1 else data.shape[1])
        super().__init__("the array", columns, len(data))

    def _column(self, at: int) -> Any:
        if self._fields:
            return self._data[self._fields[at]]
        return self._data if self._data.ndim == 1 else self._data[:, at]

    def type_of(self, at: int) -> str:
        """The type without its length, which is that of the longest text."""
        kind = self._data.dtype[at] if self._fields else self._data.dtype
        name = kind.base.type.__name__
        return f"{name} of shape {kind.shape}" if kind.shape else name

    def kind_of(self, at: int) -> Kind:
        """Texts, bytes and objects may be texts; complex numbers are none of the kinds."""
        given = self._data.dtype[at] if self._fields else self._data.dtype
        return None if given.shape else _OF_NUMPY.get(given.kind)

    def _masked_at(self, at: int) -> Flags | None:
        return np.ma.getmaskarray(self._column(at)) if self._masked else None

    def numbers(self, at: int, column: str) -> Doubles:
        """The column; what is masked counts as missing."""
        given = self._column(at)
        kept = given.filled(0) if self._masked else given
        return Doubles(floats(kept, column), self._masked_at(at))

    def days(self, at: int) -> tuple[IntArray, Flags | None]:
        """The column; NaT counts as missing."""
        given = np.asarray(self._column(at)).astype("datetime64[D]")
        missing = np.isnat(given)
        masked = self._masked_at(at)
        return given.astype(np.int64), missing if masked is None else missing | masked

    def distinct(self, at: int) -> tuple[IntArray, Sequence[object]]:
        """Every value for itself; masked ones, None and NaN count as missing."""
        values: list[object] = np.asarray(self._column(at)).tolist()
        masked = self._masked_at(at)
        if masked is None:
            return each_for_itself(values, [value != value for value in values])
        return each_for_itself(values, masked)

    def part(self, start: int, stop: int) -> Frame:
        """Some of the rows."""
        return NumpyFrame(self._data[start:stop])

    def whole(self) -> FloatArray | None:
        """The array itself, if it is two-dimensional and in double precision."""
        plain = not self._masked and self._data.ndim == 2 and self._data.dtype == np.float64
        return self._data if plain else None


class TableFrame(Frame):
    """Columns of a data frame as narwhals has them, or of Arrow data; read as Arrow arrays."""

    def __init__(
        self, where: str, labels: Sequence[Hashable], columns: Sequence[Any], rows: int
    ) -> None:
        super().__init__(where, labels, rows)
        self._columns = columns

    @classmethod
    def of_arrow(cls, data: Any) -> TableFrame:
        """A Table or RecordBatch, or an array, chunked or not, as its only column."""
        tabular = hasattr(data, "schema")
        columns = list(data.columns) if tabular else [data]
        labels = list(data.schema.names) if tabular else [0]
        return cls(f"the {type(data).__name__}", labels, columns, len(data))

    def _array(self, at: int) -> Any:
        column = self._columns[at]
        return column.to_arrow() if hasattr(column, "to_arrow") else column

    def type_of(self, at: int) -> str:
        """The type as its library prints it."""
        column = self._columns[at]
        return str(column.dtype if hasattr(column, "dtype") else column.type)

    def kind_of(self, at: int) -> Kind:
        """Decimals are numbers; categories, and objects of pandas, may be texts."""
        if self.type_of(at) in ("Object", "String"):
            return "text"
        nothing = TableFrame(self.where, (), [self._columns[at][0:0]], 0)
        try:
            return kind_of(nothing._array(0).type)
        except Exception:  # Arrow has no such type, and says so in many ways
            return None

    def numbers(self, at: int, column: str) -> Doubles:
        """The column; null counts as missing, and so does NaN of pandas."""
        return arrow_floats(self._array(at), column)

    def days(self, at: int) -> tuple[IntArray, Flags | None]:
        """The column, on the clock that it shows; null counts as missing."""
        return arrow_days(self._array(at))

    def distinct(self, at: int) -> tuple[IntArray, Sequence[object]]:
        """The column's different values; null counts as missing."""
        column = self._columns[at]
        if self.type_of(at) == "Object":
            return each_for_itself(column.to_list(), column.is_null().to_list())
        return arrow_distinct(self._array(at))

    def part(self, start: int, stop: int) -> TableFrame:
        """Some of the rows."""
        columns = [column[start:stop] for column in self._columns]
        return TableFrame(self.where, self.labels, columns, stop - start)
