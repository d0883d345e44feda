"""Numbers for readers: few digits, and bounds rounded to the side on which they still hold."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from typing import Literal

from mustdp.errors import NumericalFailure
from mustdp.experiments.cells import Kind

Toward = Literal["nearest", "up", "down"]
_ROUNDING = {"nearest": ROUND_HALF_EVEN, "up": ROUND_CEILING, "down": ROUND_FLOOR}


def number(value: float, digits: int = 4, toward: Toward = "nearest") -> str:
    """A number with few significant digits; whole numbers keep all of theirs.

    >>> number(0.2308), number(1.26593235e-73), number(60000.0), number(0.0)
    ('0.2308', '1.266e-73', '60000', '0')
    >>> number(0.063821, 3, "up"), number(0.038049, 3, "down"), number(0.00048)
    ('0.0639', '0.0380', '0.00048')
    """
    if not math.isfinite(value):
        raise NumericalFailure(f"a result is infinite or not a number: {value}")
    if value == round(value) and abs(value) < 1e7:
        return str(round(value))
    # What is left over from binary fractions is not worth a digit: 0.00048 is not 0.0004800000...
    exact = float(f"{value:.12g}") if toward == "nearest" else value
    context = Context(prec=max(digits, len(str(int(abs(value))))), rounding=_ROUNDING[toward])
    shown = context.create_decimal_from_float(exact)
    if toward == "nearest":
        shown = shown.normalize(context)
    if 1e-4 <= abs(shown) < 1e7:
        return f"{shown:f}"
    mantissa, _, exponent = f"{shown:e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def safe_side(column: str, kind: Kind) -> Toward:
    """Where a column's numbers are rounded: certified ones up, attained ones down.

    In a table of equal guarantees the noise is what is needed for them, and is rounded up as well.
    """
    if "certified" in column or (kind == "equal" and column.startswith("noise multiplier")):
        return "up"
    return "down" if "attain" in column else "nearest"
