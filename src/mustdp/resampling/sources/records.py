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

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.sources import paths
from mustdp.resampling.sources.conversion import Conversion
from mustdp.resampling.sources.delimited_text import DelimitedText
from mustdp.resampling.sources.frames import Frame, as_frame
from mustdp.resampling.sources.parquet import ParquetFiles
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


class Records(ABC):
    """Records that can be gone through from the first to the last."""

    def __init__(self, names: Sequence[str], wanted: Sequence[Wanted]) -> None:
        #: Names of the columns, in the order of the descriptions; unnamed ones by position.
        self.columns = tuple(names)
        #: What is wanted of each.
        self.wanted = tuple(wanted)

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """All records in their order; from the beginning each time, except for standard input."""


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
    data = reading.data
    if hasattr(data, "__dask_graph__"):
        return _DaskRecords(data, wanted, reading)
    frame = as_frame(data)
    if frame is not None:
        reading.refuse_layout(frame.where)
        return _FrameRecords(frame, wanted, reading)
    found = paths.located(reading)
    if isinstance(found, Reading):
        return _TextRecords(found, wanted)
    reading.refuse_layout(str(found[0]))
    return _ParquetRecords(ParquetFiles.open(found, wanted, reading), wanted, reading)


class _FrameRecords(Records):
    def __init__(self, frame: Frame, wanted: Sequence[Wanted], reading: Reading) -> None:
        self._frame, self._reading = frame, reading
        self._selected = frame.selected(wanted)
        super().__init__([column.name for column in self._selected], wanted)

    def blocks(self) -> Iterator[Block]:
        """Rows of the frame."""
        conversions = conversions_of(self._selected, self.wanted, self._reading, self._frame.where)
        size = max(1, _BLOCK // len(self.wanted))
        for start in range(0, self._frame.rows, size):
            part = self._frame.part(start, min(start + size, self._frame.rows))
            positions = [column.at for column in self._selected]
            yield converted_frame(part, positions, conversions, start)


class _ParquetRecords(Records):
    def __init__(self, files: ParquetFiles, wanted: Sequence[Wanted], reading: Reading) -> None:
        self._files, self._reading = files, reading
        super().__init__([column.name for column in files.chosen], wanted)

    def blocks(self) -> Iterator[Block]:
        """Batches of the files, one file after the other."""
        for part in self._files.parts:
            where = str(part.path)
            conversions = conversions_of(self._files.chosen, self.wanted, self._reading, where)
            first = 0
            for frame in self._files.frames(part):
                yield converted_frame(frame, range(len(conversions)), conversions, first)
                first += frame.rows


class _TextRecords(Records):
    def __init__(self, reading: Reading, wanted: Sequence[Wanted]) -> None:
        self._reading = reading
        self._file = TextFile.of(reading)
        self._state = self._file.state()
        self._open: DelimitedText | None = None
        if self._file.path is None:
            self._open = DelimitedText(self._file, self._file.opened().__enter__())
            names = self._open.select(wanted)
        else:
            with self._file.opened() as stream:
                names = DelimitedText(self._file, stream).select(wanted)
        super().__init__([column.name for column in names], wanted)

    def blocks(self) -> Iterator[Block]:
        """Lines of the file."""
        if self._file.path is not None:
            with self._file.opened() as stream:
                yield from self._through(DelimitedText(self._file, stream))
            if self._file.state() != self._state:
                raise InvalidParameter(f"{self._file.where} must stay as it was when it was opened")
            return
        text, self._open = self._open, None
        if text is None:
            raise InvalidParameter(
                "standard input can be read once: give the data as a file where they are needed "
                "several times"
            )
        yield from self._through(text)

    def _through(self, text: DelimitedText) -> Iterator[Block]:
        for piece in text.pieces(text.select(self.wanted), self.wanted, self._reading):
            yield side_by_side(piece)


class _DaskRecords(Records):
    """Partitions of a dask DataFrame come here one after the other."""

    def __init__(self, data: Any, wanted: Sequence[Wanted], reading: Reading) -> None:
        meta = None if hasattr(data, "chunks") else as_frame(getattr(data, "_meta", None))
        if meta is None or not hasattr(data, "to_delayed"):
            raise InvalidParameter(
                "data on a Dask cluster must be a DataFrame or a Series (an array has "
                f"to_dask_dataframe()), got {type(data).__name__} of dask"
            )
        self._data, self._reading = data, reading
        selected = meta.selected(wanted)
        super().__init__([column.name for column in selected], wanted)

    def blocks(self) -> Iterator[Block]:
        """One partition after the other, each in parts."""
        for number, partition in enumerate(self._data.to_delayed()):
            rows = unquoted(partition.compute, f"partition {number} must be there to be read")
            yield from open_records(replace(self._reading, data=rows), self.wanted).blocks()


def conversions_of(
    selected: Sequence[Selected], wanted: Sequence[Wanted], reading: Reading, where: str
) -> list[Conversion]:
    """One conversion for each column."""
    return [
        Conversion(one, reading, column.of(where))
        for column, one in zip(selected, wanted, strict=True)
    ]


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
