"""What a column must hold: finite numbers that double precision represents as they are.

Floating-point numbers of other precisions are converted; booleans become 0 and 1. Integers beyond
2**53 are refused: neighbours of them would become equal. What is refused is named by its column and
its kind. Its value is never shown.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.sources.wanted import REMEDY, Missing, Wanted

Flags = NDArray[np.bool_]
#: Rows that are checked at a time, so that checks take no memory to speak of.
_CHUNK = 2**18


class Doubles(NamedTuple):
    """Values of a column, NaN or anything where ``missing`` says so; None if nothing is missing."""

    values: FloatArray
    missing: Flags | None = None


def floats(values: NDArray[Any], column: str) -> FloatArray:
    """``values`` (booleans, integers or floats, one-dimensional) in double precision.

    Nothing is copied where nothing is converted. ``column`` is what messages call them.
    """
    if values.dtype.kind in "iu" and values.size:
        refuse_inexact(int(values.min()), int(values.max()), column)
    with np.errstate(over="ignore"):
        return values.astype(np.float64, copy=False)


def settled(
    given: Doubles, policy: Missing, column: str, more: str = "", remedy: str = REMEDY
) -> Doubles:
    """The values with the missing ones (NaN among them) refused, marked, or replaced.

    What comes back is finite, with 0 where it is marked as missing, and marked under "drop" alone.
    ``more`` is said at the end of a refusal, and ``remedy`` behind it.
    """
    values, missing = given
    missing = missing if missing is not None and missing.any() else None
    if missing is None and _all_finite(values):
        return Doubles(values)
    marked = np.zeros(len(values), dtype=np.bool_) if missing is None else missing
    nan = np.isnan(values) & ~marked
    infinite = np.isinf(values) & ~marked
    if infinite.any() or policy == "refuse":
        refuse_counted(
            int(np.count_nonzero(marked)),
            int(np.count_nonzero(nan)),
            int(np.count_nonzero(infinite)),
            column,
            more,
            remedy,
        )
    unusable = marked | nan
    filled = np.where(unusable, 0.0 if isinstance(policy, str) else policy, values)
    return Doubles(filled, unusable if policy == "drop" else None)


def refuse_type(column: str, kind: object, wanted: Wanted) -> NoReturn:
    """Refuse a column for its type, ``kind``, which cannot become what is ``wanted``."""
    raise InvalidParameter(f"{column} must be {wanted.types_called}, got type {type_name(kind)}")


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


def _all_finite(values: FloatArray) -> bool:
    starts = range(0, len(values), _CHUNK)
    return all(np.isfinite(values[start : start + _CHUNK]).all() for start in starts)


def refuse_counted(
    missing: int, nan: int, infinite: int, column: str, more: str = "", remedy: str = REMEDY
) -> None:
    """Refuse a column if any of the counts is not 0; ``more`` and ``remedy`` are said at the end.

    How many rows there are is not said: that number may be private.
    """
    counts = {"missing": missing, "NaN": nan, "infinite": infinite}
    found = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    way = "" if infinite else f"; {remedy}"
    if found:
        raise InvalidParameter.refusing(
            column,
            "must hold finite numbers only",
            f"{found}{more}{way}",
            mentions=("Reading(missing=...)",),
        )
