"""``open_source``: one function for everything records can be in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.sources.delimited import read_delimited
from mustdp.resampling.sources.frame import Frame
from mustdp.resampling.sources.parquet import ParquetSource
from mustdp.resampling.sources.paths import located
from mustdp.resampling.sources.reading import Reading, as_reading
from mustdp.resampling.sources.selection import Columns, Selected, select
from mustdp.resampling.sources.source import ArraySource, Source


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
        chosen = () if columns is None else select(data.columns, columns, "the source")
        if columns is not None and tuple(one.name for one in chosen) != data.columns:
            raise InvalidParameter(
                f"columns must be those of the source, all {len(data.columns)} in their order, "
                "got others"
            )
        return data
    found = located(reading)
    if isinstance(found, Frame):
        return _from_frame(found, columns, reading)
    if isinstance(found, Reading):
        return read_delimited(found, columns)
    return ParquetSource.open(found, columns, reading)


def _from_frame(frame: Frame, columns: Columns, reading: Reading) -> Source:
    selected = frame.select(columns)
    if not frame.rows:
        raise InvalidParameter(f"{frame.where} must have at least one row, got none")
    numbers = [frame.read(column, reading) for column in selected]
    names = tuple(column.name for column in selected)
    return ArraySource(_together(frame, selected, numbers), names)


def _together(
    frame: Frame, selected: Sequence[Selected], numbers: Sequence[FloatArray]
) -> FloatArray:
    """A row per record; the data themselves where they are what was read, all columns in order."""
    whole = frame.whole()
    in_order = [column.at for column in selected] == list(range(len(frame.labels)))
    # A column with values put in for missing ones is a copy.
    if whole is not None and in_order and all(np.may_share_memory(one, whole) for one in numbers):
        return whole
    if len(numbers) == 1:  # not copied
        return numbers[0][:, np.newaxis]
    return np.stack(numbers, axis=1)
