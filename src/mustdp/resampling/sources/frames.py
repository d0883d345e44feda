"""Tables in memory as columns of numbers: numpy arrays, pandas and polars frames, Arrow tables.

No library is imported to find out whether data are its own: who holds a frame of pandas has
imported pandas already.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.sources import arrow_values
from mustdp.resampling.sources.selection import Columns, Selected, select, unnamed
from mustdp.resampling.sources.values import (
    floats,
    refuse_inexact,
    refuse_not_numeric,
    type_name,
)
from mustdp.resampling.unquoted import unquoted


class Frame(ABC):
    """Columns with labels, types and values; ``where`` is what messages call the whole."""

    def __init__(self, where: str, labels: Sequence[Hashable], rows: int) -> None:
        self.where = where
        self.labels = tuple(labels)
        self.rows = rows

    @abstractmethod
    def type_of(self, at: int) -> str:
        """The type of the column at this position, in its library's words."""

    @abstractmethod
    def is_numeric(self, at: int) -> bool:
        """Whether that type is one of numbers or booleans."""

    @abstractmethod
    def numbers(self, at: int, column: str) -> FloatArray:
        """The values of a numeric column in double precision, checked; ``column`` in messages."""

    def whole(self) -> FloatArray | None:
        """All columns as one array ``(rows, columns)``, if the data are just that."""
        return None

    def select(self, columns: Columns) -> tuple[Selected, ...]:
        """The columns asked for, None for all numeric ones; refused if one is not numeric."""
        if columns is not None:
            found = select(self.labels, columns, self.where)
        else:
            numeric = [at for at in range(len(self.labels)) if self.is_numeric(at)]
            found = tuple(unnamed(self.labels, at) for at in numeric)
        if not found:
            kinds = {type_name(self.type_of(at)) for at in range(len(self.labels))}
            got = f"type {' and '.join(sorted(kinds))} only" if kinds else "no columns"
            raise InvalidParameter(f"{self.where} must have a numeric column, got {got}")
        for column in found:
            if not self.is_numeric(column.at):
                refuse_not_numeric(column.of(self.where), self.type_of(column.at))
        return found

    def read(self, column: Selected) -> FloatArray:
        """The numbers of a selected column; errors of the frame's library are not passed on."""
        called = column.of(self.where)
        return unquoted(
            lambda: self.numbers(column.at, called), f"{called} must be readable as numbers"
        )


def as_frame(data: Any) -> Frame | None:
    """``data`` as a frame, or None if it is none."""
    if isinstance(data, np.ndarray):
        return NumpyFrame(data)
    pandas, polars, pyarrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))
    if pandas is not None and isinstance(data, pandas.DataFrame | pandas.Series):
        return PandasFrame(data, pandas)
    if polars is not None:
        if isinstance(data, polars.LazyFrame):
            raise InvalidParameter(
                "data must be in memory or in a file, got a polars LazyFrame: collect() it, or "
                "write it with sink_parquet() and give the path"
            )
        if isinstance(data, polars.DataFrame | polars.Series):
            return PolarsFrame(data, polars)
    if pyarrow is not None and isinstance(
        data, pyarrow.Table | pyarrow.RecordBatch | pyarrow.ChunkedArray | pyarrow.Array
    ):
        return ArrowFrame(data)
    return None


class NumpyFrame(Frame):
    """A one- or two-dimensional array, its columns by position, or a structured one by field."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self._fields = data.dtype.names
        self._masked = isinstance(data, np.ma.MaskedArray)
        if data.ndim not in ((1,) if self._fields else (1, 2)):
            raise InvalidParameter(
                f"data must be an array of one or two dimensions (of one, if it has fields), "
                f"got shape {data.shape}"
            )
        self._data = np.ma.asarray(data) if self._masked else np.asarray(data)
        columns = self._fields or range(1 if data.ndim == 1 else data.shape[1])
        super().__init__("the array", columns, len(data))

    def _column(self, at: int) -> Any:
        if self._fields:
            return self._data[self._fields[at]]
        return self._data if self._data.ndim == 1 else self._data[:, at]

    def type_of(self, at: int) -> str:
        """The type without its length, which is that of the longest text."""
        kind = self._data.dtype[at] if self._fields else self._data.dtype
        name = kind.base.type.__name__
        return f"{name} of shape {kind.shape}" if kind.shape else name

    def is_numeric(self, at: int) -> bool:
        """Booleans, integers and floats; no complex numbers, dates, texts or objects."""
        kind = self._data.dtype[at] if self._fields else self._data.dtype
        return not kind.shape and kind.kind in "biuf"

    def numbers(self, at: int, column: str) -> FloatArray:
        """The column; what is masked counts as missing."""
        given = self._column(at)
        missing = int(np.count_nonzero(np.ma.getmaskarray(given))) if self._masked else 0
        return floats(given.compressed() if self._masked else given, column, missing)

    def whole(self) -> FloatArray | None:
        """The array itself, if it is two-dimensional and in double precision."""
        plain = not self._masked and self._data.ndim == 2 and self._data.dtype == np.float64
        return self._data if plain else None


class PandasFrame(Frame):
    """A DataFrame, or a Series as its only column."""

    def __init__(self, data: Any, pandas: Any) -> None:
        single = isinstance(data, pandas.Series)
        self._data = data.to_frame() if single else data
        self._types = pandas.api.types
        labels = [0 if data.name is None else data.name] if single else list(data.columns)
        super().__init__(f"the {'Series' if single else 'DataFrame'}", labels, len(data))

    def type_of(self, at: int) -> str:
        """The type as pandas prints it."""
        return str(self._data.dtypes.iloc[at])

    def is_numeric(self, at: int) -> bool:
        """Numbers and booleans, of numpy, pandas or Arrow; no complex ones and no objects."""
        kind, types = self._data.dtypes.iloc[at], self._types
        return bool(
            (types.is_numeric_dtype(kind) or types.is_bool_dtype(kind))
            and not types.is_complex_dtype(kind)
            and not types.is_object_dtype(kind)
            and not isinstance(kind, types.CategoricalDtype)
        )

    def numbers(self, at: int, column: str) -> FloatArray:
        """The column; NA counts as missing, NaN of a numpy type as NaN."""
        given = self._data.iloc[:, at]
        if isinstance(given.dtype, np.dtype):
            return floats(given.to_numpy(), column)
        missing = int(given.isna().sum())
        kept = given.dropna() if missing else given
        if not self._types.is_float_dtype(given.dtype) and len(kept):
            refuse_inexact(kept.min(), kept.max(), column)
        return floats(kept.to_numpy(dtype=np.float64), column, missing)


class PolarsFrame(Frame):
    """A DataFrame, or a Series as its only column."""

    def __init__(self, data: Any, polars: Any) -> None:
        single = isinstance(data, polars.Series)
        self._columns = [data] if single else data.get_columns()
        self._polars = polars
        labels = [column.name or at for at, column in enumerate(self._columns)]
        super().__init__(f"the {'Series' if single else 'DataFrame'}", labels, len(data))

    def type_of(self, at: int) -> str:
        """The type as polars prints it."""
        return str(self._columns[at].dtype)

    def is_numeric(self, at: int) -> bool:
        """Numbers, decimals and booleans."""
        kind = self._columns[at].dtype
        return bool(kind.is_numeric() or kind == self._polars.Boolean)

    def numbers(self, at: int, column: str) -> FloatArray:
        """The column; null counts as missing."""
        given = self._columns[at]
        missing = int(given.null_count())
        kept = given.drop_nulls() if missing else given
        if not kept.dtype.is_float() and len(kept):
            refuse_inexact(kept.min(), kept.max(), column)
        return floats(kept.cast(self._polars.Float64).to_numpy(), column, missing)


class ArrowFrame(Frame):
    """A Table or RecordBatch, or an array, chunked or not, as its only column."""

    def __init__(self, data: Any) -> None:
        tabular = hasattr(data, "schema")
        self._columns = list(data.columns) if tabular else [data]
        labels = list(data.schema.names) if tabular else [0]
        super().__init__(f"the {type(data).__name__}", labels, len(data))

    def type_of(self, at: int) -> str:
        """The type as Arrow prints it."""
        return str(self._columns[at].type)

    def is_numeric(self, at: int) -> bool:
        """Numbers, decimals and booleans."""
        return arrow_values.is_numeric(self._columns[at].type)

    def numbers(self, at: int, column: str) -> FloatArray:
        """The column; null counts as missing."""
        return arrow_values.arrow_floats(self._columns[at], column)
