"""Parquet files that may be larger than memory: only the drawn rows are kept."""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mustdp.data.columns import Columns, Number, Reading, Selected, Wanted, as_list
from mustdp.data.frames import ArrowFrame
from mustdp.data.source import Source
from mustdp.data.values import Conversion, refuse_counted, refuse_inexact
from mustdp.errors import InvalidParameter, unquoted
from mustdp.extras import required
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.arrays import FloatArray, IntArray

# The compact encoding of Thrift, as far as the footer of a Parquet file needs it.
#
# pyarrow ends the whole process where the numbers of a damaged footer contradict each other (its
# accessors of column chunks let C++ exceptions through), so what statistics say is read here.
# Format: Apache Thrift, thrift-compact-protocol.md; fields are those of parquet.thrift.


#: Structures inside of structures; a footer has about seven.
_DEEPEST = 32
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


def decode(content: bytes) -> dict[int, Any]:
    """One structure as its fields by number; raises ValueError or IndexError for what is none.

    >>> decode(bytes([0x15, 0x04, 0x28, 0x01, 0x78, 0x00]))
    {1: 2, 3: b'x'}
    """
    return _Decoder(content).structure(0)


class _Decoder:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def structure(self, depth: int) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("too deep")
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self._zigzag()
            if kind in (_TRUE, _FALSE):
                found[field] = kind == _TRUE
            else:
                found[field] = self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _STRUCT:
            return self.structure(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth + 1)
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        raise ValueError("no such type")  # maps are not in a footer

    def _list(self, depth: int) -> list[Any]:
        if depth > _DEEPEST:
            raise ValueError("too deep")
        head = self._byte()
        count, kind = head >> 4, head & 15
        count = self._varint() if count == 15 else count
        if count > len(self._content) - self._at:  # every element takes a byte at least
            raise ValueError("too long")
        return [self._value(kind, depth) for _ in range(count)]

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._content):
            raise ValueError("too short")
        return self._content[self._at - count : self._at]

    def _varint(self) -> int:
        found = shift = 0
        while shift < 70:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
        raise ValueError("too large")

    def _zigzag(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)


# What the statistics in a Parquet footer already say against a column, before anything is read.
#
# Writers may leave statistics out; then nothing is refused here and values are checked upon
# reading. Nothing is taken from them but refusals: a footer may say anything.


#: Larger footers are left alone: to look at them would take seconds.
LARGEST_FOOTER = 2**22
_FORMATS = {1: "<i", 2: "<q", 4: "<f", 5: "<d"}


def refuse_by_statistics(
    footer: bytes, columns: Sequence[tuple[Selected, str]], unsigned: Sequence[bool], where: str
) -> None:
    """Refuse columns of numbers with missing or infinite values, or integers that are not exact.

    Each comes with what is said where missing values are refused.
    """
    if len(footer) > LARGEST_FOOTER:
        return
    try:
        chunks = list(_chunks(decode(footer)))
    except (ValueError, IndexError):
        return
    for (column, remedy), is_unsigned in zip(columns, unsigned, strict=True):
        called, missing = column.of(where), 0
        for _, chunk in chunks:
            if chunk.get(3) == [column.name.encode()]:
                missing += _refuse_chunk(chunk, is_unsigned, called)
        refuse_counted(missing, 0, 0, called, remedy=remedy)


def _chunks(footer: dict[int, Any]) -> Iterator[tuple[int, dict[int, Any]]]:
    """Row count and metadata of every column chunk, as far as they are what they should be."""
    for group in _structures(footer.get(4)):
        rows = group.get(3)
        for chunk in _structures(group.get(1)):
            metadata = chunk.get(3)
            if isinstance(metadata, dict) and isinstance(rows, int):
                yield rows, metadata


def _structures(found: object) -> Iterator[dict[int, Any]]:
    if isinstance(found, list):
        yield from (one for one in found if isinstance(one, dict))


def _refuse_chunk(chunk: dict[int, Any], unsigned: bool, called: str) -> int:
    """How many values are missing; extremes that cannot be used are refused."""
    statistics, kind = chunk.get(12), chunk.get(1)
    if not isinstance(statistics, dict) or not isinstance(kind, int):
        return 0
    form = _FORMATS.get(kind, "")
    # Fields 5 and 6, or 1 and 2 of old writers, which may have the order of signed numbers.
    found = [_number(statistics.get(new), form, unsigned) for new in (6, 5)]
    if None in found and not unsigned:
        found = [_number(statistics.get(old), form, unsigned) for old in (2, 1)]
    low, high = found
    if isinstance(low, float) and isinstance(high, float):
        if math.isinf(low) or math.isinf(high):
            raise InvalidParameter(
                f"{called} must hold finite numbers only, got infinite ones by its statistics"
            )
    elif low is not None and high is not None:
        refuse_inexact(low, high, called)
    missing = statistics.get(3)
    return missing if isinstance(missing, int) and missing > 0 else 0


def _number(value: object, form: str, unsigned: bool) -> float | int | None:
    form = form.upper() if unsigned else form
    if not form or not isinstance(value, bytes) or len(value) != struct.calcsize(form):
        return None
    number: float | int = struct.unpack(form, value)[0]
    return number


# Records in Parquet files that may be larger than memory: only the drawn rows are kept.
#
# Opening reads the files' footers: row counts, types, and the statistics that already show missing
# values. ``take`` sorts the row numbers, and goes once through those row groups that hold one of
# them, reading the selected columns alone, in batches of bounded size. What it holds at a time is
# one batch, the buffers that it is read through, and the answer, however large row groups and
# files are. Arrow cannot skip rows inside a row group, so those are decoded; every value that is
# decoded is checked, drawn or not, and every page that has a checksum is compared with it.


_PURPOSE = "Parquet files"
#: Values of one batch, all columns together, and bytes read of a column chunk at a time. Larger
#: ones were not faster; without buffers (or mapped into memory) whole column chunks stay resident.
_BATCH_VALUES = 2**18
_BUFFER = 2**20


@dataclass(frozen=True)
class Part:
    """One file: its path, the row count of every row group, and a checksum of its footer."""

    path: Path
    rows: tuple[int, ...]
    checksum: int


@dataclass(frozen=True)
class ParquetFiles:
    """Selected columns of one or several Parquet files that together are one data set."""

    parts: tuple[Part, ...]
    chosen: tuple[Selected, ...]

    @classmethod
    def open(
        cls, paths: Sequence[Path], wanted: Sequence[Wanted], reading: Reading
    ) -> ParquetFiles:
        """Read and check the footers of the files at the absolute ``paths``."""
        chosen = _footer(paths[0]).frame(str(paths[0])).selected(wanted)
        parts = []
        for path in paths:
            footer, where = _footer(path), str(path)
            frame = footer.frame(where)
            numbers = []
            for column, one in zip(chosen, wanted, strict=True):
                there = column._replace(at=_only(footer.names, column, path))
                frame.refuse_unsuited(there, one)
                conversion = Conversion(one, reading, "")
                if conversion.refuses_missing and frame.kind_of(there.at) == "number":
                    numbers.append((there, conversion.remedy))
            unsigned = [frame.type_of(column.at).startswith("uint") for column, _ in numbers]
            refuse_by_statistics(footer.content, numbers, unsigned, where)
            parts.append(Part(path, footer.rows, footer.checksum))
        return cls(tuple(parts), chosen)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the selected columns."""
        return tuple(column.name for column in self.chosen)

    def frames(self, part: Part) -> Iterator[ArrowFrame]:
        """Batches of one file, with the selected columns in their order."""
        with _opened(part) as file:
            for group in range(len(part.rows)):
                rows = 0
                for batch in self.batches(file, part, group):
                    rows += batch.rows
                    yield batch
                if rows != part.rows[group]:
                    refuse_row_count(part, group, rows)

    def batches(self, file: Any, part: Part, group: int) -> Iterator[ArrowFrame]:
        """Batches of one row group, with the selected columns in their order."""
        names = list(self.names)
        batches = file.iter_batches(
            batch_size=max(1024, _BATCH_VALUES // len(names)),
            row_groups=[group],
            columns=names,
            use_threads=False,
        )

        def following() -> ArrowFrame | None:
            batch = next(batches, None)
            return None if batch is None else ArrowFrame(batch.select(names))

        while True:
            frame = unquoted(following, f"{part.path} must be undamaged")
            if frame is None:
                return
            yield frame


def refuse_row_count(part: Part, group: int, rows: int) -> None:
    """Refuse a row group that has not as many rows as its footer says."""
    raise InvalidParameter(
        f"row group {group} of {part.path} must have {part.rows[group]} rows, got {rows}"
    )


@dataclass(frozen=True)
class ParquetSource(Source):
    """Numbers of one or several Parquet files, their rows in the order of the files."""

    #: The files are read for every ``take``.
    rows_in_memory: ClassVar[bool] = False

    files: ParquetFiles
    reading: Reading
    columns: tuple[str, ...] = field(init=False)
    n: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", self.files.names)
        object.__setattr__(self, "n", int(self._limits[-1]))

    @classmethod
    def open(cls, paths: Sequence[Path], columns: Columns, reading: Reading) -> ParquetSource:
        """Read and check the footers of the files at the absolute ``paths``."""
        if columns is None:
            count = len(_footer(paths[0]).names)
            allowed = f"must be named for a file; {paths[0]} has {count} of them"
            raise InvalidParameter.refusing("columns", allowed, None)
        wanted = [Number(column) for column in as_list(columns)]
        source = cls(ParquetFiles.open(paths, wanted, reading), replace(reading, data=None))
        if not source.n:
            raise InvalidParameter(f"{paths[0]} must have at least one row, got none")
        return source

    @cached_property
    def _limits(self) -> IntArray:
        """0, and where each row group ends, counted over all files."""
        rows = [count for part in self.files.parts for count in part.rows]
        return np.cumsum(np.array([0, *rows], dtype=np.int64))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.files, self.reading)

    def _read(self, indices: IntArray) -> FloatArray:
        order = np.argsort(indices, kind="stable")
        ordered = indices[order]
        answer = np.empty((len(indices), len(self.columns)))
        first = 0
        for part in self.files.parts:
            limits = self._limits[first : first + len(part.rows) + 1]
            bounds = np.searchsorted(ordered, limits).tolist()
            if bounds[-1] > bounds[0]:
                with _opened(part) as file:
                    for group, (low, high) in enumerate(pairwise(bounds)):
                        if high > low:
                            wanted = ordered[low:high] - limits[group]
                            answer[order[low:high]] = self._rows_of(file, part, group, wanted)
            first += len(part.rows)
        return answer

    def _rows_of(self, file: Any, part: Part, group: int, wanted: IntArray) -> FloatArray:
        """The rows ``wanted`` (sorted) of one row group."""
        found = np.empty((len(wanted), len(self.columns)))
        start = done = 0
        for batch in self.files.batches(file, part, group):
            stop = start + batch.rows
            after = int(np.searchsorted(wanted, stop))
            where = f"{part.path} (rows {start} to {stop - 1} of row group {group})"
            for at, column in enumerate(self.files.chosen):
                conversion = Conversion(Number(at), self.reading, column.of(where))
                values = batch.convert(at, conversion).values
                found[done:after, at] = values[wanted[done:after] - start]
            start, done = stop, after
            if done == len(wanted):
                return found
        refuse_row_count(part, group, start)
        return found


@dataclass(frozen=True)
class _Footer:
    metadata: Any
    schema: Any
    names: tuple[str, ...]
    rows: tuple[int, ...]
    content: bytes

    @cached_property
    def checksum(self) -> int:
        return zlib.crc32(self.content)

    def frame(self, where: str) -> ArrowFrame:
        """The columns with their types, without rows."""
        frame = unquoted(
            lambda: ArrowFrame(self.schema.empty_table()), f"{where} must have readable types"
        )
        frame.where = where
        return frame


def _only(labels: Sequence[str], column: Selected, path: Path) -> int:
    """Where the only column of its name is; what is read is asked for by name."""
    found = [at for at, label in enumerate(labels) if label == column.name]
    if len(found) != 1:
        has = f"its name {len(found)} times" if found else "no column of its name"
        raise InvalidParameter(
            f"columns must be in every file once, got {column.called} while {path} has {has}"
        )
    return found[0]


def _footer(path: Path) -> _Footer:
    """The footer of a file as it is now."""
    status = unquoted(path.stat, f"{path} must be readable wherever its records are taken")
    return _read_footer(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _read_footer(path: Path, size: int, changed: int) -> _Footer:
    parquet = required("pyarrow.parquet", _PURPOSE)

    def read() -> _Footer:
        with parquet.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
        with path.open("rb") as stream:
            stream.seek(-8, os.SEEK_END)
            length = int.from_bytes(stream.read(4), "little")
            stream.seek(-8 - length, os.SEEK_END)
            content = stream.read(length)
        groups = range(metadata.num_row_groups)
        rows = tuple(metadata.row_group(group).num_rows for group in groups)
        total = int(metadata.num_rows)
        if min(rows, default=0) < 0 or sum(rows) != total or total > LARGEST_SIZE:
            raise InvalidParameter(f"{path} must have row groups that add up, got others")
        return _Footer(metadata, schema, tuple(schema.names), rows, content)

    return unquoted(read, f"{path} must be a readable Parquet file")


def _opened(part: Part) -> Any:
    """The file, if it is the one that was opened first: another machine may have another."""
    footer = _footer(part.path)
    if (footer.rows, footer.checksum) != (part.rows, part.checksum):
        raise InvalidParameter(f"{part.path} must stay as it was when it was opened")
    parquet = required("pyarrow.parquet", _PURPOSE)
    return unquoted(
        lambda: parquet.ParquetFile(
            part.path,
            metadata=footer.metadata,
            memory_map=False,
            pre_buffer=False,
            buffer_size=_BUFFER,
            page_checksum_verification=True,
        ),
        f"{part.path} must be a readable Parquet file",
    )
