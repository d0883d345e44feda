"""Tables in text files (CSV, TSV): read in blocks of whole lines, only the columns needed."""

from __future__ import annotations

import csv
import gzip
import os
import sys
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from mustdp.data.columns import (
    STANDARD_INPUT,
    Columns,
    Number,
    Reading,
    Selected,
    Wanted,
    as_list,
    looks_like_a_record,
    select,
)
from mustdp.data.source import ArraySource, Source
from mustdp.data.values import Conversion, Doubles, arrow_distinct, as_numpy, conversions_of, nulls
from mustdp.errors import InvalidParameter, unquoted
from mustdp.extras import installed
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen

# The bytes of a file of text in blocks of whole lines, with limits: a hostile one costs no more.
#
# Time and memory are linear in what is read. A line, or a record of several, longer than
# ``LONGEST_RECORD`` bytes is refused before more of it is read, so that a few megabytes packed
# cannot fill the memory.


#: Longest line, and longest record where quoted fields have line ends in them, in bytes.
LONGEST_RECORD = 2**24
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PACKED = b"\x1f\x8b"
_BLOCK = 2**22


@dataclass(frozen=True)
class TextFile:
    """A file of text, or standard input: where it is and what separates its fields."""

    path: Path | None
    where: str
    delimiter: str
    header: bool | None

    @classmethod
    def of(cls, reading: Reading) -> TextFile:
        """The file of a reading, whose data are an absolute path or the sign of standard input."""
        if reading.data == STANDARD_INPUT:
            return cls(None, "standard input", reading.delimiter or ",", reading.header)
        path = Path(reading.data)
        tabs = ".tsv" in path.name.lower()[-len(".tsv.gz") :]
        delimiter = reading.delimiter or ("\t" if tabs else ",")
        return cls(path, str(path), delimiter, reading.header)

    def opened(self) -> AbstractContextManager[Any]:
        """Its bytes, unpacked if the name ends in .gz, or if standard input is packed."""
        if self.path is None:
            refusal = f"{self.where} must be readable"
            stream: Any = unquoted(lambda: sys.stdin.buffer, refusal)
            packed = unquoted(lambda: stream.peek(2)[:2] == _PACKED, refusal)
            return nullcontext(gzip.GzipFile(fileobj=stream) if packed else stream)
        path = self.path
        packed_file = path.name.lower().endswith(".gz")
        return closing(
            unquoted(
                lambda: gzip.open(path) if packed_file else path.open("rb"),
                f"{path} must be readable",
            )
        )

    def state(self) -> tuple[int, int] | None:
        """Something that is not the same after the file was written to."""
        if self.path is None:
            return None
        status = unquoted(self.path.stat, f"{self.path} must be readable")
        return status.st_size, status.st_mtime_ns


def blocks(stream: IO[bytes], where: str) -> Iterator[bytes]:
    """A stream in blocks of whole lines, each with its end; without a byte order mark in front."""
    unfinished: list[bytes] = []
    length = lines = 0
    read = _reader(stream, where)
    more = read().removeprefix(BYTE_ORDER_MARK)
    while more:
        first = more.find(b"\n")
        if length + (first if first >= 0 else len(more)) > LONGEST_RECORD:
            refuse_long_record(lines + 1, where)
        cut = more.rfind(b"\n") + 1
        if cut:
            block = b"".join([*unfinished, more[:cut]])
            lines += block.count(b"\n")
            yield block
            unfinished, length = [], 0
        unfinished.append(more[cut:])
        length += len(more) - cut
        more = read()
    if length:
        yield b"".join([*unfinished, b"\n"])


def refuse_long_record(line: int, where: str) -> None:
    """Refuse a record that does not end."""
    raise InvalidParameter(
        f"line {line} of {where} must belong to a record of at most {LONGEST_RECORD} bytes, got "
        "a longer one (without line ends, or with a quotation mark that is not closed)"
    )


def _reader(stream: IO[bytes], where: str) -> Callable[[], bytes]:
    refusal = f"{where} must be readable and undamaged"
    return lambda: unquoted(lambda: stream.read(_BLOCK), refusal)


class Lines:
    """The lines of blocks one at a time as text, or what is left of a block at once."""

    def __init__(self, stream: IO[bytes], where: str) -> None:
        self._blocks = blocks(stream, where)
        self._where = where
        self._block, self._at = b"", 0
        self._record = 0
        #: Number of the line that was given last.
        self.number = 0

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        if self._at >= len(self._block):
            self._block, self._at = next(self._blocks), 0
        end = self._block.index(b"\n", self._at) + 1
        line = self._block[self._at : end]
        self._at = end
        self.number += 1
        self._record += len(line)
        if self._record > LONGEST_RECORD + 1:
            refuse_long_record(self.number, self._where)
        # Bytes that are not UTF-8 do no harm in columns that are not read.
        return line.decode("utf-8", "surrogateescape")

    @property
    def at_end_of_block(self) -> bool:
        """Whether nothing is left of the last block."""
        return self._at >= len(self._block)

    def record_ends(self) -> None:
        """Say that what comes is another record."""
        self._record = 0

    def rest(self) -> bytes | None:
        """What is left of this block, or the next one; it stays there. None at the end."""
        if self.at_end_of_block:
            self._block, self._at = next(self._blocks, b""), 0
        return self._block[self._at :] or None

    def skip(self) -> None:
        """Go behind the block, which somebody else has read."""
        self.number += self._block.count(b"\n", self._at)
        self._at = len(self._block)


# Columns of text (CSV, TSV) as doubles, in two ways that give the same values.
#
# The standard library's ``csv`` reads everything and explains what it refuses. pyarrow is faster
# where it is installed; a block with quotation marks, and whatever pyarrow does not read at once,
# one row a line, is left to the first way. Both round decimals to the nearest double.
#
# Blank lines are skipped. A column of the words true and false becomes 1 and 0. Other columns than
# the selected ones may hold anything, up to the limits.


#: More columns are refused.
MOST_COLUMNS = 2**17
#: Longest field in characters, which is the limit of ``csv``; longer lines are left to it.
LONGEST_FIELD = 131072
#: Rows that the standard library reads at a time.
_ROWS = 2**15

Row = tuple[int, list[str]]


class DelimitedText:
    """An open file of text, behind its line of names; goes through it once."""

    def __init__(self, file: TextFile, stream: IO[bytes]) -> None:
        self._file = file
        self._lines = Lines(stream, file.where)
        self._rows = csv.reader(self._lines, delimiter=file.delimiter, strict=True)
        self._width: int | None = None
        first = self._one_row()
        if first is None:
            line = "record" if file.header is False else "line of names"
            raise InvalidParameter(f"{file.where} must have a {line}, got blank lines only")
        _check_first(first[1], file.where)
        self._width = len(first[1])
        self._waiting = [first] if file.header is False else []
        self.labels = self._labels(first[1])
        self._look_at_second()

    def _labels(self, first: list[str]) -> list[str]:
        if self._file.header is False:
            return [str(at) for at in range(len(first))]
        found = None if self._file.header else looks_like_a_record(first)
        if found is not None:
            raise InvalidParameter.refusing(
                "header",
                f"must be said for {self._file.where}, whose first line does not look like names: "
                "{header=False} if it is a record (columns are then called 0, 1, 2 and so on), "
                "{header=True} if they are names",
                f"{found} in it",
                mentions=("header=False", "header=True"),
            )
        return [name.strip() for name in first]

    def _look_at_second(self) -> None:
        """A line of names that has a number below it may be quoted."""
        row = self._one_row()
        self._waiting += [] if row is None else [row]
        self._shown = row is not None and looks_like_a_record(row[1]) == "numbers"

    def select(self, wanted: Sequence[Wanted]) -> tuple[Selected, ...]:
        """The columns that are described."""
        columns = [one.column for one in wanted]
        shown = self._shown and self._file.header is not False
        return select(self.labels, columns, self._file.where, shown=shown)

    def pieces(
        self, selected: Sequence[Selected], wanted: Sequence[Wanted], reading: Reading
    ) -> Iterator[list[Doubles]]:
        """The selected columns as they are wanted, some rows at a time."""
        conversions = conversions_of(selected, wanted, reading, self._file.where)
        positions = [column.at for column in selected]
        arrow = _Arrow(self._file.delimiter, len(self.labels), positions, conversions, reading)
        while True:
            block = None if self._waiting else self._lines.rest()
            if block is None and not self._waiting:
                return
            piece = None if block is None else arrow.converted(block, self._lines.number + 1)
            if piece is not None:
                self._lines.skip()
                yield piece
                continue
            rows = [(line, [row[at] for at in positions]) for line, row in self._waiting]
            self._waiting = []
            rows += self._some_rows(_ROWS, positions)
            if rows:
                yield _by_standard_library(rows, conversions)

    def _one_row(self) -> Row | None:
        """The next row that is not blank, None at the end."""
        while self._lines.rest() is not None:
            if rows := self._some_rows(1):
                return rows[0]
        return None

    def _some_rows(self, most: int, positions: Sequence[int] | None = None) -> list[Row]:
        """Rows to the end of a block, with the number of their last line; blank ones left out.

        With ``positions`` the fields there alone.
        """
        found: list[Row] = []
        lines, width = self._lines, self._width
        malformed = None
        try:
            for row in self._rows:
                lines.record_ends()
                if row:
                    if len(row) != (width or len(row)):
                        raise InvalidParameter(
                            f"line {lines.number} of {self._file.where} must have {width} fields "
                            f"as the first line has, got {len(row)}"
                        )
                    kept = row if positions is None else [row[at] for at in positions]
                    found.append((lines.number, kept))
                if lines.at_end_of_block or len(found) >= most:
                    break
        except csv.Error as problem:  # what it says quotes no field
            malformed = "field limit" in str(problem)
        if malformed is not None:
            well = "quotation marks and line ends where they belong"
            short = f"fields of at most {LONGEST_FIELD} characters"
            raise InvalidParameter(
                f"line {lines.number} of {self._file.where} must be well-formed: "
                f"{short if malformed else well}"
            )
        return found


def _check_first(row: list[str], where: str) -> None:
    if any("\0" in name for name in row):
        raise InvalidParameter(f"{where} must be text in UTF-8, got zero bytes in its first line")
    if len(row) > MOST_COLUMNS:
        raise InvalidParameter(
            f"{where} must have at most {MOST_COLUMNS} columns, got {len(row)} in its first line"
        )


def _by_standard_library(rows: Sequence[Row], conversions: Sequence[Conversion]) -> list[Doubles]:
    return [
        conversion.texts([row[at] for _, row in rows], lambda k: f"in line {rows[k][0]}")
        for at, conversion in enumerate(conversions)
    ]


class _Arrow:
    """Blocks as pyarrow reads them."""

    def __init__(
        self,
        delimiter: str,
        width: int,
        positions: Sequence[int],
        conversions: Sequence[Conversion],
        reading: Reading,
    ) -> None:
        self._conversions = conversions
        self._pyarrow, self._csv = installed("pyarrow"), installed("pyarrow.csv")
        if self._pyarrow is None or self._csv is None:
            return
        wanted = [str(at) for at in positions]
        kinds = [
            self._pyarrow.float64() if one.is_number else self._pyarrow.binary()
            for one in conversions
        ]
        refusing = any(one.is_number and one.refuses_missing for one in conversions)
        self._names = [str(at) for at in range(width)]
        self._parse = self._csv.ParseOptions(
            delimiter=delimiter, quote_char=False, ignore_empty_lines=False
        )
        self._convert = self._csv.ConvertOptions(
            include_columns=wanted,
            column_types=dict(zip(wanted, kinds, strict=True)),
            null_values=[] if refusing else sorted(reading.spelled),
            strings_can_be_null=False,
            check_utf8=False,
        )

    def converted(self, block: bytes, first_line: int) -> list[Doubles] | None:
        """The columns, or None where the standard library must look itself.

        That is so when there is a value that is not a number, or not finite, or so large that it
        may be an integer that is not exact; when rows are not lines, because some are blank or end
        in a bare carriage return; when a field may be too long; and when there are quotation marks,
        which the two take differently where they are misplaced (after one that is never closed,
        pyarrow would lose rows without a word).
        """
        if self._pyarrow is None or self._csv is None or not _is_plain(block):
            return None
        table = self._parsed(block)
        if table is None or table.num_rows != block.count(b"\n"):
            return None
        found: list[Any] = []
        for one, values in zip(self._conversions, table.columns, strict=True):
            if one.is_number:
                missing, numbers = nulls(values), as_numpy(values)
                inside = np.abs(numbers) < LARGEST_SIZE
                if not (inside if missing is None else inside | missing).all():
                    return None
                found.append(Doubles(numbers, missing))
            else:
                found.append(arrow_distinct(values))
        return [
            one.numbers(values)
            if one.is_number
            else one.distinct(*_decoded(values), lambda k: f"in line {first_line + k}")
            for one, values in zip(self._conversions, found, strict=True)
        ]

    def _parsed(self, block: bytes) -> Any:
        """One block as a table. It is whole in memory: pyarrow reads no file by itself."""
        pyarrow: Any = self._pyarrow
        reading: Any = self._csv
        try:
            return reading.read_csv(
                pyarrow.BufferReader(block),
                read_options=reading.ReadOptions(
                    column_names=self._names, block_size=len(block) + 1, use_threads=False
                ),
                parse_options=self._parse,
                convert_options=self._convert,
            )
        except pyarrow.ArrowException:
            return None


def _decoded(found: Any) -> tuple[Any, list[Any]]:
    at, values = found
    return at, [
        value if value is None else value.decode("utf-8", "surrogateescape") for value in values
    ]


def _is_plain(block: bytes) -> bool:
    """Whether rows are lines, for pyarrow and for the standard library, and no field is too long.

    pyarrow takes a byte order mark off every block, and an empty line for a row.
    """
    if b'"' in block or block.startswith((BYTE_ORDER_MARK, b"\n", b"\r\n")):
        return False
    if b"\n\n" in block or block.count(b"\r") != block.count(b"\r\n") or b"\n\r\n" in block:
        return False
    # If every half of a longest field has a line end in it, no line is longer than the whole.
    half = LONGEST_FIELD // 2
    return all(b"\n" in block[start : start + half] for start in range(0, len(block) - half, half))


# Records in a file of text, plain or packed: read once into memory, only the columns needed.
#
# The file travels as its path: another process reads it again when the first rows are taken, and
# refuses it if the values are not the same. What comes from standard input travels itself.


Names = tuple[str, ...]


def read_delimited(reading: Reading, columns: Columns) -> Source:
    """Read and check a file of text, or standard input."""
    wanted = None if columns is None else tuple(Number(column) for column in as_list(columns))
    values, names = _read(reading, wanted)
    if TextFile.of(reading).path is None:
        return ArraySource(values, names)
    return DelimitedSource(reading, wanted or (), names, len(values), _checksum(values), values)


@dataclass(eq=False, repr=False)
class DelimitedSource(Source):
    """Selected columns of one file of text."""

    rows_in_memory: ClassVar[bool] = True

    reading: Reading
    wanted: tuple[Number, ...]
    columns: Names
    n: int
    checksum: int
    values: FloatArray | None = None

    def _read(self, indices: IntArray) -> FloatArray:
        if self.values is None:
            self.values = _read_again(self.reading, self.wanted, self.checksum)
        return self.values.take(indices, axis=0)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reading, self.wanted, self.columns, self.n, self.checksum)


def _read(reading: Reading, wanted: tuple[Number, ...] | None) -> tuple[FloatArray, Names]:
    file = TextFile.of(reading)
    numbers, most = array("d"), _most_bytes()
    with file.opened() as stream:
        text = DelimitedText(file, stream)
        if wanted is None:
            allowed = f"must be named for a file; {file.where} has {len(text.labels)} of them"
            raise InvalidParameter.refusing("columns", allowed, None)
        selected = text.select(wanted)
        for piece in text.pieces(selected, wanted, reading):
            rows = np.stack([column.values for column in piece], axis=1)
            numbers.frombytes(rows.reshape(-1).view(np.uint8).data)
            if len(numbers) * numbers.itemsize > most:
                raise InvalidParameter(
                    f"{file.where} must have numbers that fit into {most / 2**30:.3g} GiB, half of "
                    "this machine's memory, got more: write it as a Parquet file, of which only "
                    "the drawn rows are kept"
                )
    if not numbers:
        raise InvalidParameter(
            f"{file.where} must have at least one row of data, got a header alone"
        )
    values = np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(wanted))
    return frozen(values), tuple(column.name for column in selected)


def _most_bytes() -> float:
    """Half of the memory, as far as the system tells."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2
    except (AttributeError, OSError, ValueError):
        return float("inf")


@lru_cache(maxsize=1)
def _read_again(reading: Reading, wanted: tuple[Number, ...], checksum: int) -> FloatArray:
    """The same once more; kept, because every task of a worker gets a source of its own."""
    path = Path(reading.data)
    if not path.is_file():
        raise InvalidParameter(f"{path} must be readable wherever its records are taken")
    values, _ = _read(reading, wanted)
    if _checksum(values) != checksum:
        raise InvalidParameter(f"{path} must stay as it was when it was opened, got other values")
    return values


def _checksum(values: FloatArray) -> int:
    return zlib.crc32(values.reshape(-1).view(np.uint8).data)
