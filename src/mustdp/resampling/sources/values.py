"""What a column must hold: finite numbers that double precision represents as they are.

Floating-point numbers of other precisions are converted; booleans become 0 and 1. Integers beyond
2**53 are refused: neighbours of them would become equal. What is refused is named by its column and
its kind. Its value is never shown.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.arrays import FloatArray

#: Rows that are checked at a time, so that checks take no memory to speak of.
_CHUNK = 2**18


def floats(values: NDArray[Any], column: str, missing: int = 0) -> FloatArray:
    """``values`` (booleans, integers or floats, one-dimensional) in double precision, checked.

    Nothing is copied where nothing is converted. ``missing`` values were left out of ``values``.
    ``column`` is what messages call them.
    """
    if values.dtype.kind in "iu" and values.size:
        refuse_inexact(int(values.min()), int(values.max()), column)
    with np.errstate(over="ignore"):
        converted = values.astype(np.float64, copy=False)
    refuse_not_finite(converted, column, missing)
    return converted


def refuse_not_numeric(column: str, kind: object) -> NoReturn:
    """Refuse a column for its type, ``kind``."""
    raise InvalidParameter(
        f"{column} must be numeric (integers, floating-point numbers or booleans), got type "
        f"{type_name(kind)}"
    )


def type_name(kind: object) -> str:
    """A type without what it says in brackets: some types list the values that a column holds.

    >>> type_name("Enum(categories=['a', 'b'])"), type_name("datetime64[ns]")
    ('Enum', 'datetime64')
    """
    return re.split(r"[\[({<]", str(kind), maxsplit=1)[0].strip() or type(kind).__name__


def refuse_inexact(low: Any, high: Any, column: str) -> None:
    """Refuse a column of integers or decimals whose least and greatest values are too far out."""
    if not (low >= -LARGEST_SIZE and high <= LARGEST_SIZE):
        raise InvalidParameter(
            f"{column} must hold integers from -2**53 to 2**53, the range that is exact in double "
            "precision, got one outside of it"
        )


def refuse_not_finite(values: FloatArray, column: str, missing: int = 0) -> None:
    """Refuse a column with NaN or infinities in it, or with ``missing`` values beside them."""
    nan = infinite = 0
    for start in range(0, len(values), _CHUNK):
        part = values[start : start + _CHUNK]
        finite = np.isfinite(part)
        if not finite.all():
            unusable = int(np.count_nonzero(np.isnan(part)))
            nan += unusable
            infinite += int(finite.size - np.count_nonzero(finite)) - unusable
    refuse_counted(missing, nan, infinite, len(values) + missing, column)


def refuse_counted(
    missing: int, nan: int, infinite: int, rows: int, column: str, more: str = ""
) -> None:
    """Refuse a column if any of the counts is not 0; ``more`` is said at the end."""
    counts = {"missing": missing, "NaN": nan, "infinite": infinite}
    found = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    if found:
        raise InvalidParameter(
            f"{column} must hold finite numbers only, got {found} in {rows} rows{more}"
        )
