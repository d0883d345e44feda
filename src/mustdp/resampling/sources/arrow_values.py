"""Columns of Arrow data as numbers: which types are numeric, and how they become numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.extras import required
from mustdp.numerics.arrays import IntArray
from mustdp.resampling.sources.values import Doubles, Flags, floats, refuse_inexact
from mustdp.resampling.sources.wanted import Kind

_PURPOSE = "Arrow data"


def kind_of(given: Any) -> Kind:
    """What an Arrow type is one of; decimals are numbers, and codes for texts are texts."""
    types = required("pyarrow", _PURPOSE).types
    if types.is_dictionary(given):
        return "text" if kind_of(given.value_type) in ("number", "text") else None
    numeric = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    if any(is_one(given) for is_one in numeric):
        return "number"
    if types.is_date(given) or types.is_timestamp(given):
        return "date"
    text = types.is_string(given) or types.is_large_string(given) or str(given) == "string_view"
    return "text" if text else None


def arrow_floats(array: Any, column: str) -> Doubles:
    """An Arrow array, chunked or not, of a numeric type in double precision.

    Decimals are rounded to the nearest double, as decimals in text are.
    """
    pyarrow = required("pyarrow", _PURPOSE)
    types = pyarrow.types
    missing = nulls(array)
    if types.is_decimal(array.type):
        # Narrow decimals have no minimum in all versions; as wide ones they are the same numbers.
        array = array.cast(pyarrow.decimal256(76, array.type.scale))
    elif types.is_boolean(array.type):
        array = array.cast(pyarrow.uint8())
    if len(array) > array.null_count and not types.is_floating(array.type):
        compute = required("pyarrow.compute", _PURPOSE)
        extremes = compute.min_max(array).as_py()
        refuse_inexact(extremes["min"], extremes["max"], column)
        array = array.cast(pyarrow.float64(), safe=False)
    return Doubles(floats(as_numpy(array), column), missing)


def arrow_days(array: Any) -> tuple[IntArray, Flags | None]:
    """An Arrow array of dates or points in time as days since 1970-01-01, on the clock shown."""
    pyarrow = required("pyarrow", _PURPOSE)
    missing = nulls(array)
    if pyarrow.types.is_timestamp(array.type):
        if array.type.tz is not None:
            array = required("pyarrow.compute", _PURPOSE).local_timestamp(array)
        array = array.cast(pyarrow.timestamp("s"), safe=False)
    days = as_numpy(array.cast(pyarrow.date32(), safe=False).cast(pyarrow.int32()).fill_null(0))
    return days.astype(np.int64), missing


def arrow_distinct(array: Any) -> tuple[IntArray, list[object]]:
    """An Arrow array as places in a list of its different values, the last of which is None."""
    pyarrow = required("pyarrow", _PURPOSE)
    if isinstance(array, pyarrow.ChunkedArray):
        array = array.combine_chunks()
    if not pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    values: list[object] = array.dictionary.to_pylist()
    at = as_numpy(array.indices.cast(pyarrow.int64()).fill_null(len(values)))
    return at, [*values, None]


def nulls(array: Any) -> Flags | None:
    """Where an Arrow array is null, None if nowhere."""
    return as_numpy(array.is_null()) if array.null_count else None


def as_numpy(array: Any) -> NDArray[Any]:
    """An Arrow array, chunked or not, as numpy has it."""
    if isinstance(array, required("pyarrow", _PURPOSE).ChunkedArray):
        return np.asarray(array.to_numpy())
    return np.asarray(array.to_numpy(zero_copy_only=False))
