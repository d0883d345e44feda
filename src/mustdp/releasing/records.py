"""Records in pieces: numbers clipped to their ranges, categories numbered, groups as slots.

NaN stands for a missing number. What becomes of it was settled before: refused, dropped from every
part that needs it, or filled with a value. A missing category or group is one of the others.
"""

from __future__ import annotations

import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.releasing.ground import Ground
from mustdp.releasing.parts import Piece
from mustdp.resampling.sources.opening import open_source
from mustdp.resampling.sources.source import Source

#: Rows that are worked on at a time.
_ROWS = 2**16


class Records(ABC):
    """A table that is read by rows: numbers in double precision, NaN if missing."""

    n: int

    @abstractmethod
    def read(self, rows: slice) -> Mapping[str, NDArray[Any]]:
        """The columns of some rows."""

    def pieces(
        self,
        ground: Ground,
        missing: float | None,
        weights: str | None = None,
        most: float = 1.0,
    ) -> Iterator[Piece]:
        """The records, some at a time; ``missing`` takes the place of missing numbers."""
        for start in range(0, self.n, _ROWS):
            rows = slice(start, min(start + _ROWS, self.n))
            columns = self.read(rows)
            values = np.zeros((rows.stop - start, len(ground.columns)))
            for k, column in enumerate(ground.columns):
                if column.categories:
                    values[:, k] = numbered(columns[column.name], column.categories)
                elif column.range is not None:
                    own = columns[column.name]
                    values[:, k] = _clipped(
                        own, column.numeric.lower, column.numeric.upper, missing
                    )
            slots = np.zeros(len(values), dtype=np.int64)
            if ground.by is not None:
                slots = numbered(columns[ground.by], ground.groups[:-1])
            yield Piece(values, slots, _weights(columns, weights, most))

    def refuse_missing(self, names: Sequence[str]) -> None:
        """Refuse numbers that are missing."""
        counts = dict.fromkeys(names, 0)
        for start in range(0, self.n, _ROWS):
            columns = self.read(slice(start, start + _ROWS))
            for name in names:
                counts[name] += int(np.count_nonzero(np.isnan(columns[name])))
        for name, count in counts.items():
            if count:
                raise InvalidParameter(
                    f"column {name!r} must have no missing values, got {count} in {self.n} rows: "
                    "drop them (the number of records then is private), or give the value that "
                    "stands for them"
                )


@dataclass(frozen=True, eq=False)
class InMemory(Records):
    """Columns by name."""

    columns: Mapping[str, NDArray[Any]]
    n: int

    def read(self, rows: slice) -> Mapping[str, NDArray[Any]]:
        """Views of the columns."""
        return {name: column[rows] for name, column in self.columns.items()}


@dataclass(frozen=True, eq=False)
class FromSource(Records):
    """Numbers of a source, which has refused missing ones; read piece by piece."""

    source: Source

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of records."""
        return self.source.n

    def read(self, rows: slice) -> Mapping[str, NDArray[Any]]:
        """Columns of some rows."""
        found = self.source.take(np.arange(rows.start, min(rows.stop, self.n)))
        return {name: found[:, k] for k, name in enumerate(self.source.columns)}

    def refuse_missing(self, names: Sequence[str]) -> None:
        """Nothing is missing."""


def _weights(
    columns: Mapping[str, NDArray[Any]], name: str | None, most: float
) -> FloatArray | None:
    if name is None:
        return None
    own = np.asarray(columns[name], dtype=np.float64)
    found: FloatArray = np.clip(np.where(np.isnan(own), 0.0, own) / most, 0.0, 1.0)
    return found


def _clipped(values: FloatArray, lower: float, upper: float, missing: float | None) -> FloatArray:
    if missing is not None:
        values = np.where(np.isnan(values), missing, values)
    return np.clip(values, lower, upper)


def numbered(values: NDArray[Any], categories: Sequence[str]) -> IntArray:
    """The place of every value in the list; behind its end for what is not there.

    Numbers are compared as numbers where the category is one, texts without spaces around them.
    """
    found = np.full(len(values), len(categories), dtype=np.int64)
    if values.dtype.kind in "biuf":
        for k, category in enumerate(categories):
            number = _as_number(category)
            if number is not None:
                found[values == number] = k
        return found
    place = {category: k for k, category in enumerate(categories)}
    for row, value in enumerate(values):
        if isinstance(value, str):
            found[row] = place.get(value.strip(), len(categories))
        elif value is not None and value == value:
            found[row] = place.get(str(value), len(categories))
    return found


def _as_number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.lower())
    return found if math.isfinite(found) else None


def read_records(data: Any, numbers: Sequence[str], texts: Sequence[str]) -> Records:
    """The columns of a mapping of arrays, a pandas or polars frame, an array, a source or a file.

    ``numbers`` must hold numbers; ``texts`` may hold anything. Columns of a plain array are named
    by their positions.
    """
    if isinstance(data, str | os.PathLike | Source):
        return FromSource(open_source(data, tuple(dict.fromkeys((*numbers, *texts)))))
    found: dict[str, NDArray[Any]] = {}
    wanted = dict.fromkeys((*numbers, *texts))
    for name in wanted:
        own = _column(data, name)
        if own.ndim != 1:
            raise InvalidParameter(f"column {name!r} must have one value for each record")
        found[name] = _floats(own, name) if name in numbers else own
    rows = {len(column) for column in found.values()} or {_rows(data)}
    if len(rows) != 1:
        raise InvalidParameter("columns must have equally many values, got different numbers")
    (n,) = rows
    if not n >= 1:
        raise InvalidParameter("data must have at least one record, got none")
    return InMemory(found, n)


def _column(data: Any, name: str) -> NDArray[Any]:
    names = column_names(data)
    if name not in names:
        raise InvalidParameter.refusing(
            "columns", f"must be among the {len(names)} columns of the data", repr(name)
        )
    if isinstance(data, Mapping):
        return np.asarray(data[name])
    if isinstance(data, np.ndarray):
        if data.dtype.names:
            return np.asarray(data[name])
        own = data if data.ndim == 1 else data[:, int(name)]
        if isinstance(own, np.ma.MaskedArray):
            return np.asarray(np.ma.filled(own.astype(np.float64), np.nan))
        return np.asarray(own)
    own = data[next(one for one in data.columns if str(one) == name)]
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        if pandas.api.types.is_numeric_dtype(own.dtype):
            return np.asarray(own.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(own.astype(object).where(own.notna(), None), dtype=object)
    return np.asarray(own.to_numpy())


def column_names(data: Any) -> tuple[str, ...]:
    """The names of the columns of ``data``."""
    if isinstance(data, Mapping):
        return tuple(map(str, data))
    if isinstance(data, str | os.PathLike):
        raise InvalidParameter.refusing("columns", "must be given for a file", "none")
    if isinstance(data, np.ndarray):
        if data.dtype.names:
            return tuple(data.dtype.names)
        return tuple(str(k) for k in range(1 if data.ndim == 1 else data.shape[1]))
    if hasattr(data, "columns"):
        return tuple(str(name) for name in data.columns)
    raise InvalidParameter(
        "data must be a numpy array, a pandas or polars frame or a mapping of columns, got "
        f"{type(data).__module__}.{type(data).__qualname__}"
    )


def _rows(data: Any) -> int:
    if isinstance(data, Mapping):
        return min((len(column) for column in data.values()), default=0)
    return len(data)


def _floats(own: NDArray[Any], name: str) -> FloatArray:
    if own.dtype.kind not in "biuf":
        raise InvalidParameter(
            f"column {name!r} must be numeric (or have categories), got type {own.dtype.name}"
        )
    found: FloatArray = own.astype(np.float64)
    if np.isinf(found).any():
        raise InvalidParameter(f"column {name!r} must hold finite numbers, got infinite ones")
    return found
