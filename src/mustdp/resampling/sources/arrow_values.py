"""Columns of Arrow data as numbers: which types are numeric, and how they become numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.extras import required
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.sources.values import floats, refuse_inexact

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


def arrow_floats(array: Any, column: str) -> FloatArray:
    """An Arrow array, chunked or not, of a numeric type in double precision, checked.

    Decimals are rounded to the nearest double, as decimals in text are.
    """
    missing = int(array.null_count)
    return floats(arrow_numbers(array, column), column, missing)


def arrow_numbers(array: Any, column: str) -> NDArray[Any]:
    """The values of an Arrow array that are not null, as a numpy array of booleans or numbers."""
    pyarrow = required("pyarrow", _PURPOSE)
    if array.null_count:
        array = array.drop_null()
    if pyarrow.types.is_decimal(array.type) and len(array):
        compute = required("pyarrow.compute", _PURPOSE)
        extremes = compute.min_max(array).as_py()
        refuse_inexact(extremes["min"], extremes["max"], column)
        array = array.cast(pyarrow.float64())
    if isinstance(array, pyarrow.ChunkedArray):
        return np.asarray(array.to_numpy())
    return np.asarray(array.to_numpy(zero_copy_only=False))
