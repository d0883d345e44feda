"""Records in a file of text, plain or packed: read once into memory, only the columns needed.

The file travels as its path: another process reads it again when the first rows are taken, and
refuses it if the values are not the same. What comes from standard input travels itself.
"""

from __future__ import annotations

import os
import zlib
from array import array
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.resampling.sources.delimited_text import DelimitedText
from mustdp.resampling.sources.reading import Reading
from mustdp.resampling.sources.selection import Columns, as_list
from mustdp.resampling.sources.source import ArraySource, Source
from mustdp.resampling.sources.text_stream import TextFile
from mustdp.resampling.sources.wanted import Number

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
