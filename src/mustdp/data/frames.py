"""Tables in memory as columns of numbers: numpy arrays, pandas and polars frames, Arrow tables."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from copy import copy
from typing import Any

import numpy as np

from mustdp.data import values as arrow_values
from mustdp.data.columns import (
    Columns,
    Kind,
    Number,
    Reading,
    Selected,
    Wanted,
    as_list,
    select,
    unnamed,
)
from mustdp.data.values import (
    Conversion,
    Doubles,
    Flags,
    floats,
    refuse_inexact,
    refuse_type,
    type_name,
)
from mustdp.errors import InvalidParameter, unquoted
from mustdp.numerics.arrays import FloatArray, IntArray

# What every table in memory must tell about its columns, and how they become what is wanted.


_USUAL = Reading(None)


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
    def kind_of(self, at: int) -> Kind:
        """What that type is one of: numbers and booleans, dates and points in time, or texts."""

    @abstractmethod
    def numbers(self, at: int, column: str) -> Doubles:
        """The values of a numeric column in double precision; ``column`` in messages."""

    @abstractmethod
    def days(self, at: int) -> tuple[IntArray, Flags | None]:
        """The values of a column of dates as days since 1970-01-01, and where there are none."""

    @abstractmethod
    def distinct(self, at: int) -> tuple[IntArray, Sequence[object]]:
        """Any column as places in a list of values; None in that list stands for missing ones."""

    @abstractmethod
    def part(self, start: int, stop: int) -> Frame:
        """Some of the rows."""

    def whole(self) -> FloatArray | None:
        """All columns as one array ``(rows, columns)``, if the data are just that."""
        return None

    def select(self, columns: Columns) -> tuple[Selected, ...]:
        """The columns asked for, None for all numeric ones; refused if one is not numeric."""
        if columns is not None:
            return self.selected([Number(column) for column in as_list(columns)])
        numeric = [at for at in range(len(self.labels)) if self.kind_of(at) == "number"]
        if not numeric:
            kinds = {type_name(self.type_of(at)) for at in range(len(self.labels))}
            got = f"type {' and '.join(sorted(kinds))} only" if kinds else "no columns"
            raise InvalidParameter(f"{self.where} must have a numeric column, got {got}")
        return tuple(unnamed(self.labels, at) for at in numeric)

    def selected(self, wanted: Sequence[Wanted]) -> tuple[Selected, ...]:
        """The columns that are described; refused if one has a type that does not suit."""
        shown = any(self.kind_of(at) == "number" for at in range(len(self.labels)))
        found = select(self.labels, [one.column for one in wanted], self.where, shown=shown)
        for column, one in zip(found, wanted, strict=True):
            self.refuse_unsuited(column, one)
        return found

    def refuse_unsuited(self, column: Selected, wanted: Wanted) -> None:
        """Refuse a column whose type cannot become what is wanted of it."""
        if self.kind_of(column.at) not in wanted.kinds:
            refuse_type(column.of(self.where), self.type_of(column.at), wanted)

    def read(self, column: Selected, reading: Reading = _USUAL) -> FloatArray:
        """The numbers of a selected column; errors of the frame's library are not passed on."""
        conversion = Conversion(Number(column.at), reading, column.of(self.where))
        return self.convert(column.at, conversion).values

    def convert(self, at: int, conversion: Conversion, first: int = 0) -> Doubles:
        """The column at a position as it is wanted; ``first`` is the number of the first row."""

        def converted() -> Doubles:
            if conversion.is_number:
                return conversion.numbers(self.numbers(at, conversion.called))
            if self.kind_of(at) == "date":
                return conversion.days(*self.days(at))
            return conversion.distinct(
                *self.distinct(at), lambda k: f"in row {first + k}, counted from 0"
            )

        return unquoted(
            converted, f"{conversion.called} must be readable as {conversion.wanted.values_called}"
        )


def each_for_itself(values: list[object]) -> tuple[IntArray, list[object]]:
    """A list of values as places in itself; a NaN among them is missing."""
    return np.arange(len(values)), [None if value != value else value for value in values]


# Tables in memory as columns of numbers: numpy arrays, pandas and polars frames, Arrow tables.
#
# No library is imported to find out whether data are its own: who holds a frame of pandas has
# imported pandas already.


__all__ = ["ArrowFrame", "Frame", "NumpyFrame", "PandasFrame", "PolarsFrame", "as_frame"]


#: The letters that numpy has for types.
_OF_NUMPY: dict[str, Kind] = {
    "M": "date", "b": "number", "i": "number", "u": "number", "f": "number",
    "U": "text", "S": "text", "O": "text",
}  # fmt: skip


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

    def kind_of(self, at: int) -> Kind:
        """Texts, bytes and objects may be texts; complex numbers are none of the kinds."""
        given = self._data.dtype[at] if self._fields else self._data.dtype
        return None if given.shape else _OF_NUMPY.get(given.kind)

    def _masked_at(self, at: int) -> Flags | None:
        return np.ma.getmaskarray(self._column(at)) if self._masked else None

    def numbers(self, at: int, column: str) -> Doubles:
        """The column; what is masked counts as missing."""
        given = self._column(at)
        kept = given.filled(0) if self._masked else given
        return Doubles(floats(kept, column), self._masked_at(at))

    def days(self, at: int) -> tuple[IntArray, Flags | None]:
        """The column; NaT counts as missing."""
        given = np.asarray(self._column(at)).astype("datetime64[D]")
        missing = np.isnat(given)
        masked = self._masked_at(at)
        return given.astype(np.int64), missing if masked is None else missing | masked

    def distinct(self, at: int) -> tuple[IntArray, Sequence[object]]:
        """Every value for itself; masked ones, None and NaN count as missing."""
        values: list[object] = np.asarray(self._column(at)).tolist()
        masked = self._masked_at(at)
        if masked is not None:
            values = [None if gone else one for one, gone in zip(values, masked, strict=True)]
        return each_for_itself(values)

    def part(self, start: int, stop: int) -> Frame:
        """Some of the rows."""
        return NumpyFrame(self._data[start:stop])

    def whole(self) -> FloatArray | None:
        """The array itself, if it is two-dimensional and in double precision."""
        plain = not self._masked and self._data.ndim == 2 and self._data.dtype == np.float64
        return self._data if plain else None


class PandasFrame(Frame):
    """A DataFrame, or a Series as its only column."""

    def __init__(self, data: Any, pandas: Any) -> None:
        single = isinstance(data, pandas.Series)
        self._data = data.to_frame() if single else data
        self._types, self._pandas = pandas.api.types, pandas
        labels = [0 if data.name is None else data.name] if single else list(data.columns)
        super().__init__(f"the {'Series' if single else 'DataFrame'}", labels, len(data))

    def type_of(self, at: int) -> str:
        """The type as pandas prints it."""
        return str(self._data.dtypes.iloc[at])

    def kind_of(self, at: int) -> Kind:
        """Categories and objects may be texts; complex numbers are none of the kinds."""
        given, types = self._data.dtypes.iloc[at], self._types
        if types.is_object_dtype(given) or isinstance(given, types.CategoricalDtype):
            return "text"
        if types.is_numeric_dtype(given) or types.is_bool_dtype(given):
            return None if types.is_complex_dtype(given) else "number"
        dated = types.is_datetime64_any_dtype(given)
        if hasattr(given, "pyarrow_dtype"):
            dated = arrow_values.kind_of(given.pyarrow_dtype) == "date"
        if dated:
            return "date"
        return "text" if types.is_string_dtype(given) else None

    def numbers(self, at: int, column: str) -> Doubles:
        """The column; NA counts as missing, NaN of a numpy type as NaN."""
        given = self._data.iloc[:, at]
        if isinstance(given.dtype, np.dtype):
            return Doubles(floats(given.to_numpy(), column))
        missing = given.isna().to_numpy()
        if not self._types.is_float_dtype(given.dtype) and not missing.all():
            refuse_inexact(given.min(), given.max(), column)
        values = given.to_numpy(dtype=np.float64, na_value=np.nan)
        return Doubles(values, missing if missing.any() else None)

    def days(self, at: int) -> tuple[IntArray, Flags | None]:
        """The column, on the clock that it shows; NaT counts as missing."""
        given = self._data.iloc[:, at]
        if hasattr(given.dtype, "pyarrow_dtype"):
            return arrow_values.arrow_days(given.array.__arrow_array__())
        if getattr(given.dtype, "tz", None) is not None:
            given = given.dt.tz_localize(None)
        moments = given.to_numpy(dtype="datetime64[s]", na_value=np.datetime64("NaT"))
        return moments.astype("datetime64[D]").astype(np.int64), np.isnat(moments)

    def distinct(self, at: int) -> tuple[IntArray, Sequence[object]]:
        """Every value for itself; NA, None and NaN count as missing."""
        given = self._data.iloc[:, at]
        values: list[object] = given.astype(object).tolist()
        missing = given.isna().tolist()
        return each_for_itself(
            [None if gone else one for one, gone in zip(values, missing, strict=True)]
        )

    def part(self, start: int, stop: int) -> Frame:
        """Some of the rows."""
        return PandasFrame(self._data.iloc[start:stop], self._pandas)


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

    def kind_of(self, at: int) -> Kind:
        """Decimals are numbers, categories are texts."""
        given, polars = self._columns[at].dtype, self._polars
        if given.is_numeric() or given == polars.Boolean:
            return "number"
        if given in (polars.Date, polars.Datetime):
            return "date"
        return "text" if given in (polars.String, polars.Categorical, polars.Enum) else None

    def numbers(self, at: int, column: str) -> Doubles:
        """The column; null counts as missing."""
        given = self._columns[at]
        missing = given.is_null().to_numpy() if given.null_count() else None
        if not given.dtype.is_float() and len(given) > given.null_count():
            refuse_inexact(given.min(), given.max(), column)
        return Doubles(floats(given.cast(self._polars.Float64).to_numpy(), column), missing)

    def days(self, at: int) -> tuple[IntArray, Flags | None]:
        """The column, on the clock that it shows; null counts as missing."""
        given = self._columns[at]
        if given.dtype == self._polars.Datetime:
            given = given.dt.date()
        days = given.cast(self._polars.Int32).fill_null(0).to_numpy()
        return days.astype(np.int64), given.is_null().to_numpy()

    def distinct(self, at: int) -> tuple[IntArray, Sequence[object]]:
        """Every value for itself; null counts as missing."""
        return each_for_itself(self._columns[at].to_list())

    def part(self, start: int, stop: int) -> Frame:
        """Some of the rows."""
        columns = [column[start:stop] for column in self._columns]
        return PolarsFrame(self._polars.DataFrame(columns), self._polars)


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

    def kind_of(self, at: int) -> Kind:
        """Decimals are numbers, and codes for texts are texts."""
        return arrow_values.kind_of(self._columns[at].type)

    def numbers(self, at: int, column: str) -> Doubles:
        """The column; null counts as missing."""
        return arrow_values.arrow_floats(self._columns[at], column)

    def days(self, at: int) -> tuple[IntArray, Flags | None]:
        """The column; null counts as missing."""
        return arrow_values.arrow_days(self._columns[at])

    def distinct(self, at: int) -> tuple[IntArray, Sequence[object]]:
        """The column's different values; null counts as missing."""
        return arrow_values.arrow_distinct(self._columns[at])

    def part(self, start: int, stop: int) -> Frame:
        """Some of the rows."""
        part = copy(self)
        part._columns = [column.slice(start, stop - start) for column in self._columns]
        part.rows = stop - start
        return part
