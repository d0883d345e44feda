"""Numbers from text with columns (CSV, TSV), in two ways that give the same values.

The standard library's ``csv`` reads everything and explains what it refuses. pyarrow is faster
where it is installed; a file with quotation marks, and whatever pyarrow does not read as finite
numbers at once, one row a line, is left to the first way. Both round decimals to the nearest
double.

The first line has the names. Blank lines are skipped. A column of the words true and false becomes
1 and 0. Other columns than the selected ones may hold anything.
"""

from __future__ import annotations

import csv
import gzip
import re
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.extras import installed
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.sources.selection import Selected
from mustdp.resampling.sources.values import refuse_counted, refuse_inexact
from mustdp.resampling.unquoted import unquoted

_MISSING = {"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none"}
_WORDS = {"true": 1.0, "false": 0.0}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_BYTE_ORDER_MARK = "\ufeff"
_BLOCK = 2**22

T = TypeVar("T")


def read_names(path: Path) -> list[str]:
    """The names in the first line that is not blank, without blanks around them."""
    return _reading(path, lambda stream: next(_rows(path, stream))[1])


def read_numbers(path: Path, columns: tuple[Selected, ...]) -> list[FloatArray]:
    """These columns; refused unless all of their values are finite numbers."""
    found = _reading(path, lambda stream: _by_arrow(path, stream, columns))
    if found is None:
        found = _reading(path, lambda stream: _by_standard_library(path, stream, columns))
    return found


def _reading(path: Path, read: Callable[[IO[bytes]], T]) -> T:
    """What ``read`` makes of the bytes of a file, unpacked if its name ends in .gz."""
    packed = path.name.lower().endswith(".gz")

    def opened() -> T:
        with gzip.open(path) if packed else path.open("rb") as stream:
            return read(stream)  # type: ignore[arg-type]

    return unquoted(opened, f"{path} must be readable and undamaged")


def _delimiter(path: Path) -> str:
    return "\t" if ".tsv" in path.name.lower()[-len(".tsv.gz") :] else ","


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Lines as text, one at a time; bytes that are not UTF-8 do no harm in other columns."""
    yield stream.readline().decode("utf-8", "surrogateescape").removeprefix(_BYTE_ORDER_MARK)
    for line in iter(stream.readline, b""):
        yield line.decode("utf-8", "surrogateescape")


def _rows(path: Path, stream: IO[bytes]) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and fields, the names first; the stream stands behind the row last given."""
    reader = csv.reader(_lines(stream), delimiter=_delimiter(path), strict=True)
    width, malformed = None, False
    try:
        for row in reader:
            if not row:
                continue
            if width is None:
                width = len(row)
                yield reader.line_num, _names(path, row)
            elif len(row) == width:
                yield reader.line_num, row
            else:
                raise InvalidParameter(
                    f"line {reader.line_num} of {path} must have {width} fields as the first line "
                    f"has, got {len(row)}"
                )
    except csv.Error:  # what it says quotes no field
        malformed = True
    if malformed:
        raise InvalidParameter(
            f"line {reader.line_num} of {path} must be well-formed: quotation marks and line ends "
            "where they belong"
        )
    if width is None:
        raise InvalidParameter(f"{path} must have a line of names, got blank lines only")


def _names(path: Path, row: list[str]) -> list[str]:
    if any("\0" in name for name in row):
        raise InvalidParameter(f"{path} must be text in UTF-8, got zero bytes in its first line")
    return [name.strip() for name in row]


def _by_standard_library(
    path: Path, stream: IO[bytes], columns: tuple[Selected, ...]
) -> list[FloatArray]:
    rows = _rows(path, stream)
    next(rows)
    filled = [(column.at, _Column(column.of(str(path)))) for column in columns]
    for line, row in rows:
        for at, column in filled:
            column.add(row[at], line)
    return [column.finished() for _, column in filled]


class _Column:
    """Numbers of one column as they are read."""

    def __init__(self, called: str) -> None:
        self._called = called
        self._numbers = array("d")
        self._words = self._missing = self._infinite = 0
        self._first_line = 0

    def add(self, text: str, line: int) -> None:
        """Append a field."""
        try:
            number = float(text)
        except ValueError:
            number = None
        if number is None:  # outside of the handler: what is refused there would be quoted
            number = self._word(text, line)
        elif "_" in text or not text.isascii():  # float() reads 1_000 and digits of all scripts
            self._refuse(line)
        if not -LARGEST_SIZE < number < LARGEST_SIZE:
            self._look_at(text, number, line)
        self._numbers.append(number)

    def _word(self, text: str, line: int) -> float:
        word = text.strip().lower()
        if word in _MISSING:
            return float("nan")
        if word not in _WORDS:
            self._refuse(line)
        self._words += 1
        return _WORDS[word]

    def _look_at(self, text: str, number: float, line: int) -> None:
        if np.isfinite(number):
            if _WHOLE.fullmatch(text.strip()):
                refuse_inexact(int(text), int(text), self._called)
            return
        self._first_line = self._first_line or line
        if np.isnan(number):
            self._missing += 1
        else:
            self._infinite += 1

    def _refuse(self, line: int) -> None:
        raise InvalidParameter(
            f"{self._called} must hold numbers, got a text that is none in line {line}"
        )

    def finished(self) -> FloatArray:
        """All numbers, if they can be used."""
        rows = len(self._numbers)
        refuse_counted(
            self._missing,
            0,
            self._infinite,
            rows,
            self._called,
            f", the first in line {self._first_line}",
        )
        if self._words not in (0, rows):
            raise InvalidParameter(
                f"{self._called} must hold numbers, or the words true and false alone, "
                f"got {self._words} such words in {rows} rows"
            )
        return np.frombuffer(self._numbers, dtype=np.float64) if rows else np.empty(0)


def _by_arrow(
    path: Path, stream: IO[bytes], selected: tuple[Selected, ...]
) -> list[FloatArray] | None:
    """The columns as pyarrow reads them, or None where the standard library must look itself.

    That is so when there is a value that is not a number, or not finite, or so large that it may be
    an integer that is not exact; when rows are not lines, because some are blank or end in a bare
    carriage return; and when there are quotation marks, which the two take differently where they
    are misplaced (after one that is never closed, pyarrow would lose rows without a word).
    """
    pyarrow, reading = installed("pyarrow"), installed("pyarrow.csv")
    if pyarrow is None or reading is None:
        return None
    columns = [array("d") for _ in selected]
    width = len(next(_rows(path, stream))[1])
    for block in _blocks(stream):
        if b'"' in block:
            return None
        try:
            table = _parsed(pyarrow, reading, block, path, selected, width)
        except pyarrow.ArrowException:
            return None
        if table.num_rows != block.count(b"\n"):
            return None
        for column, values in zip(columns, table.columns, strict=True):
            numbers = np.ascontiguousarray(values.to_numpy())
            if values.null_count or not (np.abs(numbers) < LARGEST_SIZE).all():
                return None
            column.frombytes(numbers.view(np.uint8).data)
    return [np.frombuffer(column, dtype=np.float64) for column in columns] if columns[0] else None


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """The rest of a stream in blocks of whole lines, each with its end."""
    rest = b""
    while more := stream.read(_BLOCK):
        cut = more.rfind(b"\n") + 1
        if cut:
            yield rest + more[:cut]
            rest = more[cut:]
        else:
            rest += more
    if rest:
        yield rest + b"\n"


def _parsed(
    pyarrow: Any, reading: Any, block: bytes, path: Path, columns: tuple[Selected, ...], width: int
) -> Any:
    """One block as a table of doubles. It is whole in memory: pyarrow reads no file by itself."""
    wanted = [str(column.at) for column in columns]
    return reading.read_csv(
        pyarrow.BufferReader(block),
        read_options=reading.ReadOptions(
            column_names=[str(at) for at in range(width)],
            block_size=len(block) + 1,
            use_threads=False,
        ),
        parse_options=reading.ParseOptions(
            delimiter=_delimiter(path), quote_char=False, ignore_empty_lines=False
        ),
        convert_options=reading.ConvertOptions(
            include_columns=wanted,
            column_types=dict.fromkeys(wanted, pyarrow.float64()),
            null_values=[],
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )
