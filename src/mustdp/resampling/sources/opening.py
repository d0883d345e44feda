"""``open_source``: one function for everything records can be in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.sources.conversion import Conversion
from mustdp.resampling.sources.delimited import read_delimited
from mustdp.resampling.sources.frames import Frame, as_frame
from mustdp.resampling.sources.memory import ArraySource, side_by_side
from mustdp.resampling.sources.parquet import ParquetSource
from mustdp.resampling.sources.paths import located
from mustdp.resampling.sources.reading import Reading, as_reading
from mustdp.resampling.sources.selection import Columns, Selected, select
from mustdp.resampling.sources.source import Source
from mustdp.resampling.sources.wanted import Number


def open_source(data: Any, columns: Columns = None, n: int | None = None) -> Source:
    """Check ``data`` and return the source of its records.

    ``data`` is an array of numpy (one or two dimensions, or with fields), a DataFrame or Series of
    pandas or polars, an Arrow table, the path of a .csv or .tsv file (or .gz of one) or of a
    .parquet file, or a folder or list of Parquet files that together are one data set, "-" for text
    on standard input, or a ``Reading`` of any of them. A Source is returned as it is.

    ``columns`` are names, or positions from 0. None stands for all numeric columns of data in
    memory; for files columns must be named. ``n``, if given, must be the number of records.

    Refused are columns that are missing, not numeric or named twice, and values that are missing,
    not finite, or integers beyond 2**53. Files that are read piece by piece are checked as far as
    their footers tell, and the rest whenever it is read.

    >>> import numpy as np
    >>> source = open_source(np.array([[1, 10], [2, 20], [3, 30]]), columns=[1])
    >>> source.n, source.take(np.array([2, 0])).tolist()
    (3, [[30.0], [10.0]])
    """
    if n is not None:
        checks.integer("n", n, 1)
    source = _opened(data, columns)
    if n is not None and n != source.n:
        raise InvalidParameter.refusing(
            "n", f"must be the number of records, {source.n}, or be left out", n
        )
    return source


def refuse_dropping(reading: Reading) -> None:
    """Refuse to draw subsets of the records that lack nothing: their number is not public."""
    if reading.missing == "drop":
        raise InvalidParameter.refusing(
            "missing",
            "must be refuse or a number here: how many records lack no value is private, while "
            "subsets of a stated size and what they cost rest on a public number of records "
            "(one release on all records can drop: mustdp release)",
            "drop",
        )


def _opened(data: Any, columns: Columns) -> Source:
    reading = as_reading(data)
    data = reading.data
    refuse_dropping(reading)
    if isinstance(data, Source):
        if columns is not None and _names(data, columns) != data.columns:
            raise InvalidParameter(
                f"columns must be those of the source, all {len(data.columns)} in their order, "
                "got others"
            )
        return data
    frame = as_frame(data)
    if frame is not None:
        reading.refuse_layout(frame.where)
        return _from_frame(frame, columns, reading)
    found = located(reading)
    if isinstance(found, Reading):
        return read_delimited(found, columns)
    reading.refuse_layout(str(found[0]))
    return ParquetSource.open(found, columns, reading)


def _names(source: Source, columns: Columns) -> tuple[str, ...]:
    return tuple(column.name for column in select(source.columns, columns, "the source"))


def _from_frame(frame: Frame, columns: Columns, reading: Reading) -> Source:
    selected = frame.select(columns)
    if not frame.rows:
        raise InvalidParameter(f"{frame.where} must have at least one row, got none")
    numbers = [
        frame.convert(column.at, Conversion(Number(column.at), reading, column.of(frame.where)))
        for column in selected
    ]
    names = tuple(column.name for column in selected)
    return ArraySource(_together(frame, selected, [one.values for one in numbers]), names)


def _together(
    frame: Frame, selected: Sequence[Selected], numbers: Sequence[FloatArray]
) -> FloatArray:
    """The data themselves where they are what was read, all columns in their order."""
    whole = frame.whole()
    positions = [column.at for column in selected]
    if whole is None or positions != list(range(len(frame.labels))):
        return side_by_side(numbers)
    # A column with values put in for missing ones is a copy.
    same = all(np.may_share_memory(column, whole) for column in numbers)
    return whole if same else side_by_side(numbers)
