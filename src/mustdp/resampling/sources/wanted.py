"""What is wanted of a column: a number, a code of a public list, or days since a public day.

A description says how what stands in the data becomes a double, and what is done where a value is
missing. Everything in it is public. It is the same for a CSV file, a Parquet file and a frame:

    Number("income", missing="drop")
    Category("region", ("north", "south"))     # 0 north, 1 south, 2 other and missing
    Day("born", origin="1970-01-01")           # days since then
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.resampling.sources.selection import Column, quoted

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

    def day(self, value: object) -> float | None:
        """Days from the origin to a value that is a date or the text of one; None if it is none."""
        found = _date(value)
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


def _date(value: object) -> datetime.date | None:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(text, str) or not text.isascii():
        return None
    try:
        return datetime.datetime.fromisoformat(text.strip(_WHITE)).date()
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
