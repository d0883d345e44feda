"""Parquet files that may be larger than memory: only the drawn rows are kept.

Opening reads the footers for row counts and types. Drawn rows are sorted, and those row groups that
hold one of them are read once, in batches of bounded size, the selected columns alone. What is in
memory at a time is one batch, the buffers it is read through, and the answer, however large row
groups and files are. Arrow cannot skip rows inside a row group, so those are decoded; every value
that is decoded is checked, drawn or not, and every page that has a checksum is compared with it.

pyarrow ends the process where its accessors of column chunks meet contradictions in a damaged
footer. They are not used here, neither for statistics nor for anything else.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mustdp.data.columns import (
    ColumnRequest,
    Conversion,
    Number,
    Reading,
    Selected,
    Source,
    TableFrame,
)
from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import unquoted

#: Values of one batch, all columns together, and bytes read of a column chunk at a time. Larger
#: ones were not faster; without buffers (or mapped into memory) whole column chunks stay resident.
_BATCH_VALUES = 2**18
_BUFFER = 2**20


@dataclass(frozen=True)
class ParquetPart:
    """One file: its path, the row count of every row group, and a checksum of its footer."""

    path: Path
    rows: tuple[int, ...]
    checksum: int


@dataclass(frozen=True)
class ParquetFiles:
    """Selected columns of one or several Parquet files that together are one data set."""

    parts: tuple[ParquetPart, ...]
    chosen: tuple[Selected, ...]

    @classmethod
    def open(cls, paths: Sequence[Path], wanted: Sequence[ColumnRequest]) -> ParquetFiles:
        """Read and check the footers of the files at the absolute ``paths``."""
        chosen = _footer(paths[0]).frame(str(paths[0])).selected(wanted)
        parts = []
        for path in paths:
            footer = _footer(path)
            frame = footer.frame(str(path))
            for column, one in zip(chosen, wanted, strict=True):
                there = column._replace(at=_only(footer.names, column, path))
                frame.refuse_unsuited(there, one)
            parts.append(ParquetPart(path, footer.rows, footer.checksum))
        return cls(tuple(parts), chosen)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the selected columns."""
        return tuple(column.name for column in self.chosen)

    def frames(self, part: ParquetPart) -> Iterator[TableFrame]:
        """Batches of one file, with the selected columns in their order."""
        with _opened(part) as file:
            for group in range(len(part.rows)):
                rows = 0
                for batch in self.batches(file, part, group):
                    rows += batch.rows
                    yield batch
                if rows != part.rows[group]:
                    refuse_row_count(part, group, rows)

    def batches(self, file: Any, part: ParquetPart, group: int) -> Iterator[TableFrame]:
        """Batches of one row group, with the selected columns in their order."""
        names = list(self.names)
        batches = file.iter_batches(
            batch_size=max(1024, _BATCH_VALUES // len(names)),
            row_groups=[group],
            columns=names,
            use_threads=False,
        )

        def following() -> TableFrame | None:
            batch = next(batches, None)
            return None if batch is None else TableFrame.of_arrow(batch.select(names))

        while True:
            frame = unquoted(following, f"{part.path} must be undamaged")
            if frame is None:
                return
            yield frame


def refuse_row_count(part: ParquetPart, group: int, rows: int) -> None:
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
    def open(
        cls, paths: Sequence[Path], wanted: Sequence[Number], reading: Reading
    ) -> ParquetSource:
        """Check the footers of the files at the absolute ``paths``, and every value once."""
        source = cls(ParquetFiles.open(paths, wanted), replace(reading, data=None))
        if not source.n:
            raise InvalidParameter(f"{paths[0]} must have at least one row, got none")
        for part in source.files.parts:
            for frame in source.files.frames(part):
                for at, column in enumerate(source.files.chosen):
                    frame.convert(at, Conversion(wanted[at], reading, column.of(str(part.path))))
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

    def _rows_of(self, file: Any, part: ParquetPart, group: int, wanted: IntArray) -> FloatArray:
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

    def frame(self, where: str) -> TableFrame:
        """The columns with their types, without rows."""
        frame = unquoted(
            lambda: TableFrame.of_arrow(self.schema.empty_table()),
            f"{where} must have readable types",
        )
        frame.where = where
        return frame


def column_count(path: Path) -> int:
    """How many columns a file has."""
    return len(_footer(path).names)


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
    from pyarrow import parquet

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


def _opened(part: ParquetPart) -> Any:
    """The file, if it is the one that was opened first: another machine may have another."""
    footer = _footer(part.path)
    if (footer.rows, footer.checksum) != (part.rows, part.checksum):
        raise InvalidParameter(f"{part.path} must stay as it was when it was opened")
    from pyarrow import parquet

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
