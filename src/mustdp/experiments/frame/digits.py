"""Numbers for readers: few digits, and bounds rounded to the side on which they still hold."""

from __future__ import annotations

from mustdp.experiments.frame.cells import Kind
from mustdp.numerics.decimals import Toward, readable


def number(value: float, digits: int = 4, toward: Toward = "nearest") -> str:
    """A number with few significant digits; whole numbers keep all of theirs.

    >>> number(0.2308), number(1.26593235e-73), number(60000.0), number(0.0)
    ('0.2308', '1.266e-73', '60000', '0')
    >>> number(0.063821, 3, "up"), number(0.038049, 3, "down"), number(0.00048)
    ('0.0639', '0.0380', '0.00048')
    """
    bound = readable(float(value), toward, digits)  # refuses what is no number
    if value == round(value) and abs(value) < 1e7:
        return str(round(value))
    if toward != "nearest":
        return bound
    text = f"{value:.{max(digits, len(str(int(abs(value)))))}g}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else text


def safe_side(column: str, kind: Kind) -> Toward:
    """Where a column's numbers are rounded: certified ones up, attained ones down.

    In a table of equal guarantees the noise is what is needed for them, and is rounded up as well.
    """
    if "certified" in column or (kind == "equal" and column.startswith("noise multiplier")):
        return "up"
    return "down" if "attain" in column else "nearest"
