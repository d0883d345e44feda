"""Records in Parquet files that may be larger than memory: only the drawn rows are kept.

Opening reads the files' footers: row counts, types, and the statistics that already show missing
values. ``take`` sorts the row numbers, and goes once through those row groups that hold one of
them, reading the selected columns alone, in batches of bounded size. What it holds at a time is one
batch, the buffers that it is read through, and the answer, however large row groups and files are.
Arrow cannot skip rows inside a row group, so those are decoded; every value that is decoded is
checked, drawn or not.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.sources.arrow_values import arrow_floats, is_numeric
from mustdp.resampling.sources.footer_statistics import refuse_by_statistics
from mustdp.resampling.sources.selection import Columns, Selected, select
from mustdp.resampling.sources.source import Source
from mustdp.resampling.sources.values import refuse_not_numeric
from mustdp.resampling.unquoted import unquoted

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
class ParquetSource(Source):
    """Selected columns of one or several Parquet files, their rows in the order of the files."""

    parts: tuple[Part, ...]
    chosen: tuple[Selected, ...]

    @classmethod
    def open(cls, paths: Sequence[Path], columns: Columns) -> ParquetSource:
        """Read and check the footers of the files at the absolute ``paths``."""
        if columns is None:
            count = len(_footer(paths[0]).schema.names)
            allowed = f"must be named for a file; {paths[0]} has {count} of them"
            raise InvalidParameter.refusing("columns", allowed, None)
        chosen = select(_footer(paths[0]).schema.names, columns, str(paths[0]))
        parts = []
        for path in paths:
            footer = _footer(path)
            for column in chosen:
                kind = footer.schema.field(_only(footer.schema.names, column, path)).type
                if not is_numeric(kind):
                    refuse_not_numeric(column.of(str(path)), kind)
            refuse_by_statistics(footer.metadata, chosen, str(path))
            parts.append(Part(path, footer.rows, footer.checksum))
        source = cls(tuple(parts), chosen)
        if not source.n:
            raise InvalidParameter(f"{paths[0]} must have at least one row, got none")
        return source

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self._limits[-1])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the selected columns."""
        return tuple(column.name for column in self.chosen)

    @property
    def rows_in_memory(self) -> bool:
        """False: the files are read for every ``take``."""
        return False

    @cached_property
    def _limits(self) -> IntArray:
        """0, and where each row group ends, counted over all files."""
        rows = [count for part in self.parts for count in part.rows]
        return np.cumsum(np.array([0, *rows], dtype=np.int64))

    def __getstate__(self) -> dict[str, Any]:
        return {"parts": self.parts, "chosen": self.chosen}

    def _read(self, indices: IntArray) -> FloatArray:
        order = np.argsort(indices, kind="stable")
        ordered = indices[order]
        answer = np.empty((len(indices), len(self.chosen)))
        first = 0
        for part in self.parts:
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
        found = np.empty((len(wanted), len(self.chosen)))
        start = done = 0
        for batch in _batches(file, part, group, self.columns):
            stop = start + batch.num_rows
            after = int(np.searchsorted(wanted, stop))
            where = f"{part.path} (rows {start} to {stop - 1} of row group {group})"
            for at, column in enumerate(self.chosen):
                values = _numbers(batch, column, where)
                found[done:after, at] = values[wanted[done:after] - start]
            start, done = stop, after
            if done == len(wanted):
                return found
        raise InvalidParameter(
            f"row group {group} of {part.path} must have {part.rows[group]} rows, got {start}"
        )


@dataclass(frozen=True)
class _Footer:
    metadata: Any
    schema: Any
    rows: tuple[int, ...]
    checksum: int


def _only(labels: Sequence[str], column: Selected, path: Path) -> int:
    """Where the only column of its name is; what is read is asked for by name."""
    found = [at for at, label in enumerate(labels) if label == column.name]
    if len(found) != 1:
        has = f"its name {len(found)} times" if found else "no column of its name"
        raise InvalidParameter(
            f"columns must be in every file once, got {column.called} while {path} has {has}"
        )
    return found[0]


def _numbers(batch: Any, column: Selected, where: str) -> FloatArray:
    called = column.of(where)
    return unquoted(
        lambda: arrow_floats(batch.column(column.name), called),
        f"{called} must be readable as numbers",
    )


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
            checksum = zlib.crc32(stream.read(length))
        groups = range(metadata.num_row_groups)
        rows = tuple(metadata.row_group(group).num_rows for group in groups)
        return _Footer(metadata, schema, rows, checksum)

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
        ),
        f"{part.path} must be a readable Parquet file",
    )


def _batches(file: Any, part: Part, group: int, names: tuple[str, ...]) -> Iterator[Any]:
    batches = file.iter_batches(
        batch_size=max(1024, _BATCH_VALUES // len(names)),
        row_groups=[group],
        columns=list(names),
        use_threads=False,
    )
    while True:
        batch = unquoted(lambda: next(batches, None), f"{part.path} must be undamaged")
        if batch is None:
            return
        yield batch
