"""Which columns are read and how: names and positions, missing values, categories, dates."""

from __future__ import annotations

import datetime
import math
import operator
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks

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
# where they cannot well be the first record of a file without a line of names (``header``).


#: A column as the caller names it.
Column = str | int
Columns = Column | Sequence[Column] | None

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
    labels: Sequence[Hashable], columns: Columns, where: str, *, shown: bool = False
) -> tuple[Selected, ...]:
    """The ``columns`` among ``labels``, in the order asked for.

    A label itself comes first (frames may have numbers as labels), then its text, then the
    position. ``where`` says in messages whose columns these are. With ``shown`` the labels are
    listed where a column is none of them, if nothing about them looks like a record.

    >>> [column.at for column in select(["age", "income"], ["income", 0], "the table")]
    [1, 0]
    """
    asked = as_list(columns)
    # True and 1 are not the same, and nobody asks for True.
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


def as_list(columns: Columns) -> list[Any]:
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
REMEDY = "{Reading(missing=...)} can say what is done with them"

#: What the type of a column is one of; None for anything else.
Kind = Literal["number", "date", "text"] | None

_WHITE = " \t\n\r\f\v"
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
Wanted = Number | Category | Day


def as_wanted(column: Column | Wanted) -> Wanted:
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


# How data are read: whether there is a line of names, what separates fields, what is missing.
#
# A ``Reading`` stands wherever data can be given, in front of them:
#
#     md.private_bootstrap(Reading("adult.data", header=False, missing=0.0), columns="0", ...)


#: Where data are said to be on standard input.
STANDARD_INPUT = "-"


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
    >>> md.Reading("survey.txt", delimiter=";", marks=("-9",)).codes
    (-9.0,)
    >>> german = md.Reading("umfrage.csv", delimiter=";", decimal=",", encoding="cp1252")
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
        """Whether a text is one that stands for a missing value.

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
        >>> reading = md.Reading("x.csv", decimal=",", thousands=".")
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
