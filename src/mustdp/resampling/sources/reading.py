"""How data are read: whether there is a line of names, what separates fields, what is missing.

A ``Reading`` stands wherever data can be given, in front of them:

    md.private_bootstrap(Reading("adult.data", header=False, missing=0.0), columns="0", ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.resampling.sources.header import MARKS
from mustdp.resampling.sources.selection import quoted
from mustdp.resampling.sources.wanted import Missing, check_missing

#: Where data are said to be on standard input.
STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Reading:
    """Data, and how they are read; stands wherever data can be given.

    All but ``missing`` and ``marks`` is for files of text.

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

    Examples
    --------
    >>> import mustdp as md
    >>> md.Reading("survey.txt", delimiter=";", marks=("-9",)).codes
    (-9.0,)
    """

    data: Any
    header: bool | None = None
    delimiter: str | None = None
    missing: Missing = "refuse"
    marks: Sequence[str] = ()

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
        given = {"header": self.header, "delimiter": self.delimiter}
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
        words = [word for word in self.words if _number(word) is None]
        return {form for word in words for form in (word, word.upper(), word.title(), "NaN")}

    @cached_property
    def codes(self) -> tuple[float, ...]:
        """The numbers that are missing values."""
        return tuple(number for mark in self.marks if (number := _number(mark)) is not None)

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


def _number(mark: str) -> float | None:
    try:
        number = float(mark)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
