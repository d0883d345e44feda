"""Records in a CSV or TSV file, plain or packed: read once into memory, only the columns needed.

The file travels as its path: another process reads it again when the first rows are taken, and
refuses it if the values are not the same.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.resampling.sources.delimited_numbers import read_names, read_numbers
from mustdp.resampling.sources.memory import side_by_side
from mustdp.resampling.sources.selection import Columns, Selected, as_list, select
from mustdp.resampling.sources.source import Source


class DelimitedSource(Source):
    """Selected columns of one file of text."""

    def __init__(
        self,
        path: Path,
        selected: tuple[Selected, ...],
        names: tuple[str, ...],
        rows: int,
        checksum: int,
        values: FloatArray | None = None,
    ) -> None:
        self._state = (path, selected, names, rows, checksum)
        self._values = values

    @classmethod
    def open(cls, path: Path, columns: Columns) -> DelimitedSource:
        """Read and check the file at the absolute ``path``."""
        labels = read_names(path)
        if columns is None:
            allowed = f"must be named for a file; {path} has {len(labels)} of them"
            raise InvalidParameter.refusing("columns", allowed, None)
        _refuse_positions_without_names(path, labels, columns)
        selected = select(labels, columns, str(path))
        values = _read(path, selected)
        names = tuple(column.name for column in selected)
        return cls(path, selected, names, len(values), _checksum(values), values)

    @property
    def n(self) -> int:
        """Number of records."""
        return self._state[3]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the selected columns."""
        return self._state[2]

    @property
    def rows_in_memory(self) -> bool:
        """True."""
        return True

    def _read(self, indices: IntArray) -> FloatArray:
        if self._values is None:
            path, selected, _, _, checksum = self._state
            self._values = _read_again(path, selected, checksum)
        return self._values.take(indices, axis=0)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._state


def _read(path: Path, selected: tuple[Selected, ...]) -> FloatArray:
    values = frozen(side_by_side(read_numbers(path, selected)))
    if not len(values):
        raise InvalidParameter(f"{path} must have at least one row of data, got a header alone")
    return values


@lru_cache(maxsize=1)
def _read_again(path: Path, selected: tuple[Selected, ...], checksum: int) -> FloatArray:
    """The same once more; kept, because every task of a worker gets a source of its own."""
    if not path.is_file():
        raise InvalidParameter(f"{path} must be readable wherever its records are taken")
    values = _read(path, selected)
    if _checksum(values) != checksum:
        raise InvalidParameter(f"{path} must stay as it was when it was opened, got other values")
    return values


def _checksum(values: FloatArray) -> int:
    return zlib.crc32(values.reshape(-1).view(np.uint8).data)


def _refuse_positions_without_names(path: Path, labels: list[str], columns: Columns) -> None:
    """A first line of numbers is a record, unless the caller names it."""
    if any(isinstance(column, str) for column in as_list(columns)):
        return
    try:
        [float(label) for label in labels]
    except ValueError:
        return
    raise InvalidParameter(f"the first line of {path} must have the columns' names, got numbers")
