"""``open_source``: one function for everything records can be in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.sources import paths
from mustdp.resampling.sources.delimited import DelimitedSource
from mustdp.resampling.sources.frames import Frame, as_frame
from mustdp.resampling.sources.memory import ArraySource, side_by_side
from mustdp.resampling.sources.parquet import ParquetSource
from mustdp.resampling.sources.selection import Columns, select
from mustdp.resampling.sources.source import Source


def open_source(data: Any, columns: Columns = None, n: int | None = None) -> Source:
    """Check ``data`` and return the source of its records.

    ``data`` is an array of numpy (one or two dimensions, or with fields), a DataFrame or Series of
    pandas or polars, an Arrow table, the path of a .csv or .tsv file (or .gz of one) or of a
    .parquet file, or a folder or list of Parquet files that together are one data set. A Source is
    returned as it is.

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


def _opened(data: Any, columns: Columns) -> Source:
    if isinstance(data, Source):
        if columns is not None and _names(data, columns) != data.columns:
            raise InvalidParameter(
                f"columns must be those of the source, all {len(data.columns)} in their order, "
                "got others"
            )
        return data
    if isinstance(data, str | os.PathLike):
        return _from_path(data, columns)
    frame = as_frame(data)
    if frame is not None:
        return _from_frame(frame, columns)
    if isinstance(data, list | tuple) and data:
        if all(isinstance(path, str | os.PathLike) for path in data):
            return ParquetSource.open(paths.parquet_files(data), columns)
        raise InvalidParameter(
            "data must not be a plain list of values, got "
            f"{type(data).__name__} of {type(data[0]).__name__}: use numpy.asarray(data)"
        )
    raise InvalidParameter(
        "data must be a numpy array, a pandas or polars frame, an Arrow table, the path of a "
        ".csv, .tsv or .parquet file, or a folder or non-empty list of Parquet files, "
        f"got {type(data).__module__}.{type(data).__qualname__}"
    )


def _names(source: Source, columns: Columns) -> tuple[str, ...]:
    return tuple(column.name for column in select(source.columns, columns, "the source"))


def _from_path(given: paths.AnyPath, columns: Columns) -> Source:
    if os.path.isdir(given):
        return ParquetSource.open(paths.parquet_folder(Path(given).absolute()), columns)
    path = paths.existing_file(given)
    if paths.is_parquet(path):
        return ParquetSource.open([path], columns)
    if paths.is_delimited(path):
        return DelimitedSource.open(path, columns)
    endings = ", ".join([*paths.DELIMITED, paths.PARQUET])
    raise InvalidParameter.refusing(
        "data", f"must be a file that ends in {endings}", repr(str(given))
    )


def _from_frame(frame: Frame, columns: Columns) -> Source:
    selected = frame.select(columns)
    if not frame.rows:
        raise InvalidParameter(f"{frame.where} must have at least one row, got none")
    numbers = [frame.read(column) for column in selected]
    positions = [column.at for column in selected]
    return ArraySource(
        _together(frame, positions, numbers), tuple(column.name for column in selected)
    )


def _together(frame: Frame, positions: list[int], numbers: list[FloatArray]) -> FloatArray:
    whole = frame.whole()
    if whole is not None and positions == list(range(len(frame.labels))):
        return whole
    return side_by_side(numbers)
