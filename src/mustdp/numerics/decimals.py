"""Numbers for people: few digits, bounds rounded to their safe side."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import Literal

from mustdp.errors import NumericalFailure

Toward = Literal["nearest", "up", "down"]
_ROUNDING = {"nearest": ROUND_HALF_EVEN, "up": ROUND_CEILING, "down": ROUND_FLOOR}


def readable(value: float, toward: Toward = "nearest", digits: int = 3) -> str:
    """Write a number with few significant digits; bounds are rounded ``toward`` their safe side.

    >>> readable(0.2308), readable(1.26593235e-73), readable(0), readable(12345.6)
    ('0.231', '1.27e-73', '0', '12346')
    >>> readable(0.078196, "up"), readable(0.077687, "down")
    ('0.0782', '0.0776')
    """
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        raise NumericalFailure(f"a result is infinite or not a number: {value}")
    if value == 0:
        return "0"
    precision = max(digits, math.floor(math.log10(abs(value))) + 1 if abs(value) < 1e6 else 0)
    shown = Context(prec=precision, rounding=_ROUNDING[toward]).create_decimal_from_float(value)
    if 1e-3 <= abs(shown) < 1e6:
        return f"{shown:f}"
    return f"{shown:.{digits - 1}e}"


def formatted(value: float, spec: str, toward: Toward) -> str:
    """A number by a format of Python's own, ``.3f`` or the like, rounded ``toward`` its safe side.

    >>> formatted(1.4142, ".2f", "up"), formatted(1.4142, ".2f", "down"), f"{1.4142:.2f}"
    ('1.42', '1.41', '1.41')
    """
    if not math.isfinite(value):
        return format(value, spec)
    with localcontext(Context(rounding=_ROUNDING[toward])):
        return format(Decimal(value), spec)


def as_stated(value: float, digits: int = 3) -> str:
    """A bound that was chosen by somebody as they wrote it; one that was computed, rounded up.

    >>> as_stated(1e-05), as_stated(0.1), as_stated(1.5848931924e-09)
    ('1e-05', '0.1', '1.59e-9')
    """
    short = f"{value:g}"
    return short if float(short) == value else readable(value, "up", digits)
