"""The tails of both laws and what rounding makes of them, by mpmath in many digits."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp

from mustdp.noise.exact import GAUSSIAN, LAPLACE, Law

LAWS = [GAUSSIAN, LAPLACE]
DIGITS = 80


def exact(value: Fraction | float) -> mp.mpf:
    fraction = Fraction(value)
    return mp.mpf(fraction.numerator) / fraction.denominator


def tail(law: Law, h: Fraction | float) -> mp.mpf:
    """P(|g| > h)."""
    with mp.workdps(DIGITS):
        point = exact(h)
        return mp.erfc(point / mp.sqrt(2)) if law is GAUSSIAN else mp.exp(-point)


def boundary(ratio: float, size: int) -> Fraction:
    """From here on a size is rounded to ``size`` or more."""
    return Fraction(2 * size - 1) / (2 * Fraction(ratio))


def rounded_law(
    law: Law, ratio: float, *, wrong: float = 1.0, cut: float = 1e-12
) -> dict[int, float]:
    """Exact chances of K, up to tails below ``cut``; ``wrong`` multiplies the scale."""
    chances, size = {}, 0
    above = mp.mpf(1)
    while True:
        size += 1
        following = tail(law, boundary(ratio, size) / Fraction(wrong))
        share = above - following
        for k in {size - 1, 1 - size}:
            chances[k] = float(share if size == 1 else share / 2)
        above = following
        if above < cut:
            return chances
