"""The options that say how a file of data is read, shared by every command that reads one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.cli.parameters import Panel, clipped, read_number
from mustdp.errors import InvalidParameter

if TYPE_CHECKING:
    from mustdp.data.columns import Reading

_reading = Panel(
    "Reading",
    """
    --header             The first line has names, even if it looks like a record.
    --no-header          The first line is a record; columns are called 0, 1, 2 and so on.
    --delimiter CHAR     What separates fields: one character, or tab, comma, semicolon, space.
                         Default: tab for .tsv, else comma.
    --missing WHAT       refuse a file with missing values (the default), drop them, or a number in
                         their place.
    --missing-mark TEXT  A text or number that means missing, besides NA, NaN, null, none, ? and
                         nothing. May be repeated.
    """,
)
_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="A CSV or Parquet file; - is standard input.", show_default=False
    ),
]
#: Options by the names that the package has for what they say.
NAMES = {
    "data": "FILE",
    "columns": "--column",
    "header=False": "--no-header",
    "header=True": "--header",
    "marks": "--missing-mark",
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


def read_delimiter(name: str, text: str) -> str:
    """One character, or the word for one that is hard to type."""
    return _DELIMITERS.get(text.lower(), text)


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
    """``--no-header``, ``--delimiter`` and ``--missing``."""

    header: Annotated[bool, _reading("--header")] = False
    no_header: Annotated[bool, _reading("--no-header")] = False
    delimiter: Annotated[str | None, _reading("--delimiter", read_delimiter)] = None
    missing: Annotated[Any, _reading("--missing", read_missing)] = None
    missing_mark: Annotated[list[str] | None, _reading("--missing-mark")] = None

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
        )
