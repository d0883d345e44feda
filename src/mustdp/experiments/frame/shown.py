"""Numbers for readers: few digits, and bounds rounded to the side on which they still hold."""

from __future__ import annotations

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


def short(value: float) -> float:
    """A number that is only drawn, with the six digits that a picture needs."""
    return float(f"{value:.6g}")
