"""Tables in text files (CSV, TSV): read by pyarrow, in blocks of whole records.

pyarrow is quick and lenient: a quotation mark that is not closed swallows the records behind it,
and ``"1"2`` is read as 12. So a regular expression accepts the well-formed records, of bounded
length, before pyarrow sees them. What pyarrow then cannot read as a number, or may have rounded, is
read once more as text and converted value by value.

Blank lines are skipped. Other columns than the selected ones may hold anything.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from mustdp.data.columns import (
    STANDARD_INPUT,
    ColumnRequest,
    Conversion,
    Doubles,
    Reading,
    Selected,
    arrow_distinct,
    as_numpy,
    conversions_of,
    looks_like_a_record,
    nulls,
    select,
)
from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.checks import unquoted

#: Longest record in bytes: a few megabytes packed must not fill the memory.
LONGEST_RECORD = 2**24
#: More columns are refused.
MOST_COLUMNS = 2**17
#: Bytes that are read at a time.
_BLOCK = 2**22
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PACKED = b"\x1f\x8b"


@dataclass(frozen=True)
class TextFile:
    """A text file, or standard input: where it is and how it is written."""

    path: Path | None
    where: str
    delimiter: str
    header: bool | None
    encoding: str | None

    @classmethod
    def of(cls, reading: Reading) -> TextFile:
        """The file of a reading, whose data are an absolute path or the sign of standard input."""
        path = None if reading.data == STANDARD_INPUT else Path(reading.data)
        tabs = path is not None and path.name.lower().endswith((".tsv", ".tsv.gz"))
        return cls(
            path,
            "standard input" if path is None else str(path),
            reading.delimiter or ("\t" if tabs else ","),
            reading.header,
            reading.encoding,
        )

    def opened(self) -> AbstractContextManager[Any]:
        """Its bytes, unpacked if the name ends in .gz, or if standard input is packed."""
        refusal = f"{self.where} must be readable"
        if self.path is None:
            stream: Any = unquoted(lambda: sys.stdin.buffer, refusal)
            packed = unquoted(lambda: stream.peek(2)[:2] == _PACKED, refusal)
            return nullcontext(gzip.GzipFile(fileobj=stream) if packed else stream)
        path = self.path
        packed = path.name.lower().endswith(".gz")
        return closing(unquoted(lambda: gzip.open(path) if packed else path.open("rb"), refusal))

    def state(self) -> tuple[int, int] | None:
        """Something that is not the same after the file was written to."""
        if self.path is None:
            return None
        status = unquoted(self.path.stat, f"{self.path} must be readable")
        return status.st_size, status.st_mtime_ns

    def fields(self, record: bytes) -> list[str]:
        """The fields of one record."""
        rows = csv.reader([_decoded(record)], delimiter=self.delimiter, strict=True)
        return unquoted(
            lambda: next(rows),
            f"the first line of {self.where} must have fields of at most "
            f"{csv.field_size_limit()} characters",
        )

    def reader(self, stream: IO[bytes]) -> Callable[[], bytes]:
        """What reads the next bytes of a stream as UTF-8, nothing at its end.

        Without an encoding bytes that are not UTF-8 pass: they do no harm in columns that are not
        read.
        """
        undamaged = f"{self.where} must be readable and undamaged"
        encoding = self.encoding
        if encoding is None:
            return lambda: unquoted(lambda: stream.read(max(_BLOCK, 3)), undamaged)
        decoder = codecs.getincrementaldecoder(encoding)()
        refusal = f"{self.where} must be text in the encoding {encoding}"

        def decoded(more: bytes) -> bytes:
            return unquoted(lambda: decoder.decode(more, final=not more).encode(), refusal)

        def read() -> bytes:
            while True:  # some bytes may be no whole character yet
                more = unquoted(lambda: stream.read(_BLOCK), undamaged)
                text = decoded(more)
                if text or not more:
                    return text

        return read


@lru_cache(maxsize=8)
def record_pattern(delimiter: str) -> re.Pattern[bytes]:
    """One well-formed record with its line end.

    A field in quotation marks ends at its delimiter or line end, with marks inside of it doubled;
    in other fields marks are characters like any others, and line ends are never bare carriage
    returns.
    """
    ends = re.escape(delimiter.encode())
    quoted = rb'(?<![^\n%b])"[^"]*+(?:""[^"]*+)*+"(?=[\r\n%b])' % (ends, ends)
    inside = rb'(?<=[^\n%b])"' % ends
    return re.compile(rb'(?:[^"\r\n]*+(?:%b|%b))*+[^"\r\n]*+\r?+\n' % (quoted, inside))


def blocks(file: TextFile, stream: IO[bytes]) -> Iterator[bytes]:
    """A stream in blocks of whole well-formed records, without a byte order mark in front."""
    records = re.compile(rb"(?:%b)*+" % record_pattern(file.delimiter).pattern)
    read = file.reader(stream)
    more = read()
    rest, lines = more.removeprefix(_BYTE_ORDER_MARK), 0
    while rest or more:
        if not more and not rest.endswith(b"\n"):
            rest += b"\n"
        if b'"' in rest or b"\r" in rest:
            found = records.match(rest)
            end = 0 if found is None else found.end()
        else:
            end = rest.rfind(b"\n") + 1
        if end:
            yield rest[:end]
            lines += rest.count(b"\n", 0, end)
            rest = rest[end:]
        if len(rest) > LONGEST_RECORD or (rest and not more):
            raise InvalidParameter(
                f"line {lines + 1} of {file.where} must begin a well-formed record of at most "
                f"{LONGEST_RECORD} bytes, with quotation marks and line ends where they belong"
            )
        if more:
            more = read()
            rest += more


class DelimitedText:
    """An open text file, behind its line of names; read once."""

    def __init__(self, file: TextFile, stream: IO[bytes]) -> None:
        self._file = file
        self._record = record_pattern(file.delimiter)
        self._blocks = blocks(file, stream)
        self._rest, self._line = b"", 1
        first, second = self._next_record(), self._next_record()
        if first is None:
            line = "record" if file.header is False else "line of names"
            raise InvalidParameter(f"{file.where} must have a {line}, got blank lines only")
        fields = file.fields(first[1])
        self._check_first(fields)
        self.labels = self._labels(fields)
        kept = [first, second] if file.header is False else [second]
        self._waiting = [one for one in kept if one is not None]
        while self._waiting:  # put back, unless there are blank lines in between
            number, record = self._waiting[-1]
            if number + record.count(b"\n") != self._line:
                break
            self._rest, self._line = record + self._rest, number
            self._waiting.pop()
        # A line of names that has a number below it may be quoted.
        self._shown = (
            file.header is not False
            and second is not None
            and len(second[1]) < csv.field_size_limit()
            and looks_like_a_record(file.fields(second[1])) == "numbers"
        )

    def _next_record(self) -> tuple[int, bytes] | None:
        """The next record that is not blank and the number of its first line; None at the end."""
        while not (rest := self._rest.lstrip(b"\r\n")):
            self._line += self._rest.count(b"\n")
            self._rest = next(self._blocks, b"")
            if not self._rest:
                return None
        line = self._line + self._rest.count(b"\n", 0, len(self._rest) - len(rest))
        found = self._record.match(rest)
        record = rest if found is None else found[0]
        self._rest, self._line = rest[len(record) :], line + record.count(b"\n")
        return line, record

    def _check_first(self, fields: Sequence[str]) -> None:
        where = self._file.where
        if any("\0" in name for name in fields):
            allowed = "must be given for {where}, unless it is text in UTF-8"
            raise InvalidParameter.refusing(
                "encoding", allowed.format(where=where), "zero bytes in its first line"
            )
        if len(fields) > MOST_COLUMNS:
            raise InvalidParameter(
                f"{where} must have at most {MOST_COLUMNS} columns, got {len(fields)} in its first "
                "line"
            )

    def _labels(self, first: list[str]) -> list[str]:
        if self._file.header is False:
            return [str(at) for at in range(len(first))]
        found = None if self._file.header else looks_like_a_record(first)
        if found is not None:
            raise InvalidParameter.refusing(
                "header",
                f"must be given for {self._file.where}, whose first line does not look like names: "
                "{header=False} if it is a record (columns are then called 0, 1, 2 and so on), "
                "{header=True} if it has names",
                f"{found} in it",
                mentions=("header=False", "header=True"),
            )
        return [name.strip() for name in first]

    def select(self, wanted: Sequence[ColumnRequest]) -> tuple[Selected, ...]:
        """The columns that are described."""
        columns = [one.column for one in wanted]
        return select(self.labels, columns, self._file.where, shown=self._shown)

    def pieces(
        self, selected: Sequence[Selected], wanted: Sequence[ColumnRequest], reading: Reading
    ) -> Iterator[list[Doubles]]:
        """The selected columns as they are wanted, some rows at a time."""
        conversions = conversions_of(selected, wanted, reading, self._file.where)
        parser = _Parser(self._file, len(self.labels), selected, conversions, reading)
        for line, block in self._waiting:
            yield parser.columns(block, line)
        line = self._line
        for block in chain([self._rest], self._blocks):
            if block.strip(b"\r\n"):
                yield parser.columns(block, line)
            line += block.count(b"\n")


class _Parser:
    """Blocks of records as columns, by pyarrow."""

    def __init__(
        self,
        file: TextFile,
        width: int,
        selected: Sequence[Selected],
        conversions: Sequence[Conversion],
        reading: Reading,
    ) -> None:
        import pyarrow
        from pyarrow import csv as arrow_csv

        self._file, self._conversions = file, conversions
        self._csv, self._problem = arrow_csv, pyarrow.ArrowException
        self._buffer = pyarrow.BufferReader
        self._names = [str(at) for at in range(width)]
        wanted = [str(column.at) for column in selected]
        refusing = any(one.is_number and one.refuses_missing for one in conversions)
        self._parse = arrow_csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=True)

        def options(number: Any, marks: set[str]) -> Any:
            kinds = [number if one.is_number else pyarrow.binary() for one in conversions]
            return arrow_csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict(zip(wanted, kinds, strict=True)),
                null_values=sorted(marks),
                strings_can_be_null=False,
                check_utf8=False,
                decimal_point=reading.decimal,
            )

        self._as_numbers = options(pyarrow.float64(), set() if refusing else reading.spelled)
        self._as_texts = options(pyarrow.binary(), set())

    def columns(self, block: bytes, first_line: int) -> list[Doubles]:
        """The wanted columns of some records, the first of which is in ``first_line``."""

        def place(row: int) -> str:
            line, _ = next(islice(self._records(block, first_line), row, None))
            return f"in line {line}"

        table = self._parsed(block, self._as_numbers)
        numbers = None if table is None else self._numbers(table)
        if table is None or numbers is None:
            # A value is no number, is not finite, or may be an integer that is not exact.
            table = self._parsed(block, self._as_texts)
            numbers = {}
        if table is None:
            self._refuse_widths(block, first_line)
        found = []
        for at, conversion in enumerate(self._conversions):
            if at in numbers:
                found.append(conversion.numbers(numbers[at]))
            elif conversion.is_number:
                texts = [_decoded(value) for value in table.column(at).to_pylist()]
                found.append(conversion.texts(texts, place))
            else:
                rows, values = arrow_distinct(table.column(at))
                named = [value if value is None else _decoded(value) for value in values]
                found.append(conversion.distinct(rows, named, place))
        return found

    def _numbers(self, table: Any) -> dict[int, Doubles] | None:
        """The columns of numbers; None where one of them must be looked at as text."""
        found = {}
        for at, conversion in enumerate(self._conversions):
            if conversion.is_number:
                column = table.column(at)
                missing, values = nulls(column), as_numpy(column)
                inside = np.abs(values) < LARGEST_SIZE
                if not (inside if missing is None else inside | missing).all():
                    return None
                found[at] = Doubles(values, missing)
        return found

    def _parsed(self, block: bytes, convert: Any) -> Any:
        """One block as a table; None where a value is not of its type, or a field is missing."""
        # pyarrow would take a byte order mark off the front of every block.
        content = b"\n" + block if block.startswith(_BYTE_ORDER_MARK) else block
        options = self._csv.ReadOptions(
            column_names=self._names, block_size=len(content) + 1, use_threads=False
        )
        with suppress(self._problem):  # it quotes the value
            return self._csv.read_csv(
                self._buffer(content),
                read_options=options,
                parse_options=self._parse,
                convert_options=convert,
            )
        return None

    def _refuse_widths(self, block: bytes, first_line: int) -> NoReturn:
        width, where = len(self._names), self._file.where
        for line, record in self._records(block, first_line):
            found = 0
            with suppress(InvalidParameter):  # a field that is too long for the standard library
                found = len(self._file.fields(record))
            if found not in (0, width):
                raise InvalidParameter(
                    f"line {line} of {where} must have {width} fields as the first line has, "
                    f"got {found}"
                )
        raise InvalidParameter(
            f"records of {where} from line {first_line} on must have {width} fields, got others"
        )

    def _records(self, block: bytes, line: int) -> Iterator[tuple[int, bytes]]:
        """The records of a block that are not blank, and in which line each begins."""
        for found in record_pattern(self._file.delimiter).finditer(block):
            if found[0].strip(b"\r\n"):
                yield line, found[0]
            line += found[0].count(b"\n")


def _decoded(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
