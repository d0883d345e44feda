"""All records once, in blocks of bounded size: what a release on the whole data reads.

    >>> import numpy as np
    >>> people = np.array([[30.0, 1.0], [np.nan, 2.0], [50.0, 7.0]])
    >>> records = open_records(people, [Number(0, missing="drop"), Category(1, ("1", "2"))])
    >>> records.columns
    ('0', '1')
    >>> for block in records.blocks():
    ...     block.values.tolist(), block.missing[:, 0].tolist()
    ([[30.0, 0.0], [0.0, 1.0], [50.0, 2.0]], [False, True, False])

The same works for a CSV or Parquet file, a frame of pandas, polars or Arrow, and a dask DataFrame.
Nothing is used before the last block is there: a value that is refused may stand at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.sources.conversion import Conversion, conversions_of
from mustdp.resampling.sources.delimited_text import DelimitedText
from mustdp.resampling.sources.frames import Frame, as_frame
from mustdp.resampling.sources.parquet import ParquetFiles
from mustdp.resampling.sources.paths import located
from mustdp.resampling.sources.reading import Reading, as_reading
from mustdp.resampling.sources.selection import Column, Selected
from mustdp.resampling.sources.text_stream import TextFile
from mustdp.resampling.sources.values import Doubles
from mustdp.resampling.sources.wanted import Category, Number, Wanted, as_wanted
from mustdp.resampling.unquoted import unquoted

__all__ = ["Block", "Category", "Number", "Records", "open_records"]

#: Values of a frame that are converted at a time.
_BLOCK = 2**20


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Some records, a row for each and a column for each description, all values finite.

    ``missing`` marks the values that were dropped, which are 0 in ``values``. Every record read is
    a row of some block: rows are used or marked, never left out.
    """

    values: FloatArray
    missing: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.values)


#: Where the columns are that are wanted, and what goes through the records.
Found = tuple[Sequence[Selected], Callable[[], Iterator[Block]]]


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """Records that can be gone through from the first to the last."""

    #: Names of the columns, in the order of the descriptions; unnamed ones by position.
    columns: tuple[str, ...]
    #: What is wanted of each.
    wanted: tuple[Wanted, ...]
    #: All records in their order; from the beginning each time, except for standard input.
    blocks: Callable[[], Iterator[Block]]


def open_records(data: Any, columns: Sequence[Column | Wanted]) -> Records:
    """The records of ``data``, with ``columns`` as they are described.

    ``data`` is what :func:`mustdp.private_bootstrap` takes, "-" for text on standard input, or a
    ``Reading`` of it, which says whether there is a line of names, what separates fields, and what
    is missing. A bare name or position describes a number whose missing values are refused.
    """
    reading = as_reading(data)
    wanted = tuple(as_wanted(column) for column in columns)
    if not wanted:
        raise InvalidParameter("columns must be a non-empty list of them, got none")
    selected, blocks = _found(reading, wanted)
    return Records(tuple(column.name for column in selected), wanted, blocks)


def _found(reading: Reading, wanted: Sequence[Wanted]) -> Found:
    if hasattr(reading.data, "__dask_graph__"):
        return _on_dask(reading, wanted)
    found = located(reading)
    if isinstance(found, Frame):
        return _in_frame(found, wanted, reading)
    if isinstance(found, Reading):
        return _in_text(found, wanted)
    return _in_parquet(ParquetFiles.open(found, wanted, reading), wanted, reading)


def _in_frame(frame: Frame, wanted: Sequence[Wanted], reading: Reading) -> Found:
    selected = frame.selected(wanted)

    def blocks() -> Iterator[Block]:
        conversions = conversions_of(selected, wanted, reading, frame.where)
        positions = [column.at for column in selected]
        size = max(1, _BLOCK // len(wanted))
        for start in range(0, frame.rows, size):
            part = frame.part(start, min(start + size, frame.rows))
            yield converted_frame(part, positions, conversions, start)

    return selected, blocks


def _in_parquet(files: ParquetFiles, wanted: Sequence[Wanted], reading: Reading) -> Found:
    def blocks() -> Iterator[Block]:
        for part in files.parts:
            conversions = conversions_of(files.chosen, wanted, reading, str(part.path))
            first = 0
            for frame in files.frames(part):
                yield converted_frame(frame, range(len(conversions)), conversions, first)
                first += frame.rows

    return files.chosen, blocks


def _in_text(reading: Reading, wanted: Sequence[Wanted]) -> Found:
    file = TextFile.of(reading)
    state = file.state()

    def through(text: DelimitedText) -> Iterator[Block]:
        for piece in text.pieces(text.select(wanted), wanted, reading):
            yield side_by_side(piece)

    def blocks() -> Iterator[Block]:
        with file.opened() as stream:
            yield from through(DelimitedText(file, stream))
        if file.state() != state:
            raise InvalidParameter(f"{file.where} must stay as it was when it was opened")

    def blocks_once() -> Iterator[Block]:
        if not unread:
            raise InvalidParameter(
                "standard input can be read once: give the data as a file where they are needed "
                "several times"
            )
        yield from through(unread.pop())

    if file.path is None:
        unread = [DelimitedText(file, file.opened().__enter__())]
        return unread[0].select(wanted), blocks_once
    with file.opened() as stream:
        return DelimitedText(file, stream).select(wanted), blocks


def _on_dask(reading: Reading, wanted: Sequence[Wanted]) -> Found:
    """Partitions of a dask DataFrame come here one after the other, each in parts."""
    data = reading.data
    meta = None if hasattr(data, "chunks") else as_frame(getattr(data, "_meta", None))
    if meta is None or not hasattr(data, "to_delayed"):
        raise InvalidParameter(
            "data on a Dask cluster must be a DataFrame or a Series (an array has "
            f"to_dask_dataframe()), got {type(data).__name__} of dask"
        )

    def blocks() -> Iterator[Block]:
        for number, partition in enumerate(data.to_delayed()):
            rows = unquoted(partition.compute, f"partition {number} must be there to be read")
            yield from open_records(replace(reading, data=rows), wanted).blocks()

    return meta.selected(wanted), blocks


def converted_frame(
    frame: Frame, positions: Sequence[int], conversions: Sequence[Conversion], first: int
) -> Block:
    """A part of a frame whose first row has the number ``first``."""
    return side_by_side(
        [
            frame.convert(at, conversion, first)
            for at, conversion in zip(positions, conversions, strict=True)
        ]
    )


def side_by_side(columns: Sequence[Doubles]) -> Block:
    """Columns as a block."""
    values = np.stack([column.values for column in columns], axis=1)
    missing = np.zeros(values.shape, dtype=np.bool_)
    for at, column in enumerate(columns):
        if column.missing is not None:
            missing[:, at] = column.missing
    return Block(values, missing)
