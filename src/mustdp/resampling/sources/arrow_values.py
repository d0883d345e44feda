"""Columns of Arrow data as numbers: which types are numeric, and how they become numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.extras import required
from mustdp.numerics.arrays import IntArray
from mustdp.resampling.sources.values import Doubles, Flags, floats, refuse_inexact

_PURPOSE = "Arrow data"


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is boolean, integer, floating-point or decimal."""
    types = required("pyarrow", _PURPOSE).types
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
    )


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of texts, or of codes for them."""
    types = required("pyarrow", _PURPOSE).types
    if types.is_dictionary(kind):
        return is_text(kind.value_type) or is_numeric(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view")


def is_date(kind: Any) -> bool:
    """Whether an Arrow type is one of dates or points in time."""
    types = required("pyarrow", _PURPOSE).types
    return bool(types.is_date(kind) or types.is_timestamp(kind))


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
