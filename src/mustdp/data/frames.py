"""Tables in memory as columns: numpy arrays, Arrow tables, and data frames through narwhals."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mustdp.data.columns import (
    Columns,
    Conversion,
    Doubles,
    Flags,
    Kind,
    Number,
    Reading,
    Selected,
    Wanted,
    arrow_days,
    arrow_distinct,
    arrow_floats,
    as_list,
    floats,
    kind_of,
    refuse_type,
    select,
    type_name,
    unnamed,
)
from mustdp.errors import InvalidParameter, unquoted
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen


class Source(ABC):
    """Records as rows of finite double-precision numbers, read where they are needed."""

    #: Number of records, at least 1.
    n: int
    #: Names of the selected columns, in the order of ``take``; unnamed ones by position.
    columns: tuple[str, ...]
    #: Whether ``take`` is a matter of memory alone, or reads a file every time.
    rows_in_memory: ClassVar[bool]

    def take(self, indices: ArrayLike) -> FloatArray:
        """The rows with these numbers, in this order.

        A source that reads files every time reads each file once per call, so that the rows of
        several subsets are cheaper in one call.

        Parameters
        ----------
        indices : array_like of int
            Numbers of records, from 0 to n - 1.

        Returns
        -------
        ndarray
            ``(len(indices), columns)``.
        """
        return self._read(self._checked(indices))

    @abstractmethod
    def _read(self, indices: IntArray) -> FloatArray:
        """The rows of ``indices``, which have been checked."""

    def _checked(self, indices: ArrayLike) -> IntArray:
        given = np.asarray(indices)
        if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
            raise InvalidParameter(
                f"indices must be a one-dimensional array of integers, "
                f"got {given.ndim} dimensions of {given.dtype}"
            )
        if given.size and not (given.min() >= 0 and given.max() < self.n):
            raise InvalidParameter(f"indices must be from 0 to {self.n - 1}, got others")
        return given.astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False, repr=False)
class ArraySource(Source):
    """Rows of an array ``(n, columns)`` that has been checked; seen read-only, not copied."""

    rows_in_memory: ClassVar[bool] = True

    values: FloatArray
    columns: tuple[str, ...]
    n: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values.view()))
        object.__setattr__(self, "n", len(self.values))

    def _read(self, indices: IntArray) -> FloatArray:
        return self.values.take(indices, axis=0)


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
        """Any column as places in a list of values; None in that list means missing."""

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


def each_for_itself(
    values: Sequence[object], missing: Sequence[bool] | Flags
) -> tuple[IntArray, list[object]]:
    """A list of values as places in itself, None for missing ones."""
    found = [None if gone else value for value, gone in zip(values, missing, strict=True)]
    return np.arange(len(found)), found


#: The letters that numpy has for types.
_OF_NUMPY: dict[str, Kind] = {
    "M": "date", "b": "number", "i": "number", "u": "number", "f": "number",
    "U": "text", "S": "text", "O": "text",
}  # fmt: skip


def as_frame(data: Any) -> Frame | None:
    """``data`` as a frame, or None if it is none.

    No library is imported for data that cannot be its own.
    """
    if isinstance(data, np.ndarray):
        return NumpyFrame(data)
    if data is None or isinstance(data, str | bytes | os.PathLike | list | tuple | dict):
        return None
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(
        data, arrow.Table | arrow.RecordBatch | arrow.ChunkedArray | arrow.Array
    ):
        return TableFrame.of_arrow(data)
    import narwhals

    # Columns of pandas may share a name, which narwhals refuses; positions are as good.
    labels = None
    if hasattr(data, "set_axis") and hasattr(data, "columns") and not data.columns.is_unique:
        labels = list(data.columns)
        data = data.set_axis(range(len(labels)), axis=1)
    found = narwhals.from_native(data, pass_through=True, allow_series=True)
    if isinstance(found, narwhals.LazyFrame):
        raise InvalidParameter(
            "data must be in memory or in a file, got a "
            f"{type(data).__module__.partition('.')[0]} {type(data).__name__}: collect() or "
            "compute() it, or write it as a Parquet file and give the path"
        )
    where = f"the {type(data).__name__}"
    if isinstance(found, narwhals.Series):
        label = 0 if found.name in (None, "") else found.name
        return TableFrame(where, [label], [found], len(found))
    if isinstance(found, narwhals.DataFrame):
        columns = [found[:, at] for at in range(found.shape[1])]
        return TableFrame(where, found.columns if labels is None else labels, columns, len(found))
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
        if masked is None:
            return each_for_itself(values, [value != value for value in values])
        return each_for_itself(values, masked)

    def part(self, start: int, stop: int) -> Frame:
        """Some of the rows."""
        return NumpyFrame(self._data[start:stop])

    def whole(self) -> FloatArray | None:
        """The array itself, if it is two-dimensional and in double precision."""
        plain = not self._masked and self._data.ndim == 2 and self._data.dtype == np.float64
        return self._data if plain else None


class TableFrame(Frame):
    """Columns of a data frame as narwhals has them, or of Arrow data; read as Arrow arrays."""

    def __init__(
        self, where: str, labels: Sequence[Hashable], columns: Sequence[Any], rows: int
    ) -> None:
        super().__init__(where, labels, rows)
        self._columns = columns

    @classmethod
    def of_arrow(cls, data: Any) -> TableFrame:
        """A Table or RecordBatch, or an array, chunked or not, as its only column."""
        tabular = hasattr(data, "schema")
        columns = list(data.columns) if tabular else [data]
        labels = list(data.schema.names) if tabular else [0]
        return cls(f"the {type(data).__name__}", labels, columns, len(data))

    def _array(self, at: int) -> Any:
        column = self._columns[at]
        return column.to_arrow() if hasattr(column, "to_arrow") else column

    def type_of(self, at: int) -> str:
        """The type as its library prints it."""
        column = self._columns[at]
        return str(column.dtype if hasattr(column, "dtype") else column.type)

    def kind_of(self, at: int) -> Kind:
        """Decimals are numbers; categories, and objects of pandas, may be texts."""
        if self.type_of(at) in ("Object", "String"):
            return "text"
        nothing = TableFrame(self.where, (), [self._columns[at][0:0]], 0)
        try:
            return kind_of(nothing._array(0).type)
        except Exception:  # Arrow has no such type, and says so in many ways
            return None

    def numbers(self, at: int, column: str) -> Doubles:
        """The column; null counts as missing, and so does NaN of pandas."""
        return arrow_floats(self._array(at), column)

    def days(self, at: int) -> tuple[IntArray, Flags | None]:
        """The column, on the clock that it shows; null counts as missing."""
        return arrow_days(self._array(at))

    def distinct(self, at: int) -> tuple[IntArray, Sequence[object]]:
        """The column's different values; null counts as missing."""
        column = self._columns[at]
        if self.type_of(at) == "Object":
            return each_for_itself(column.to_list(), column.is_null().to_list())
        return arrow_distinct(self._array(at))

    def part(self, start: int, stop: int) -> TableFrame:
        """Some of the rows."""
        columns = [column[start:stop] for column in self._columns]
        return TableFrame(self.where, self.labels, columns, stop - start)
