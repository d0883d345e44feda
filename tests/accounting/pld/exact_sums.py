"""Sums of discrete losses without rounding: masses as integers over a power of two, big products.

A polynomial whose coefficients are the masses is packed into one integer, so that a k-fold
convolution is one integer power. Divergences are then evaluated with 60 digits.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from mustdp.accounting.pld.discretise import DiscreteLoss

DIGITS = 60


class ExactSum:
    """The sum of independent losses, ``count`` copies of each, on one grid without offset."""

    def __init__(self, parts: list[tuple[DiscreteLoss, int]]) -> None:
        self.spacing = parts[0][0].spacing
        first, numerators, denominator = 0, [1], 1
        for loss, count in parts:
            own, below = _integers(loss)
            first += int(loss.index[0]) * count
            numerators = _product(numerators, _power(own, count))
            denominator *= below**count
        self.places = range(first, first + len(numerators))
        with mp.workdps(DIGITS):
            self._masses = [mp.mpf(n) / denominator for n in numerators]

    def delta(self, epsilon: float) -> mp.mpf:
        """Expectation of (1 - e^(epsilon - S))_+ over the finite part."""
        with mp.workdps(DIGITS):
            d, e = mp.mpf(self.spacing), mp.mpf(epsilon)
            start = max(self.places[0], int(mp.floor(e / d)) + 1)
            masses = self._masses[start - self.places[0] :]
            ratio, factor, total = mp.exp(-d), mp.exp(e - start * d), mp.mpf(0)
            for mass in masses:
                total += mass * (1 - factor)
                factor *= ratio
            return total

    def encloses(self, low: float, high: float, delta: float) -> bool:
        """Whether the smallest epsilon >= 0 that meets ``delta`` lies between the two."""
        return bool((low == 0.0 or self.delta(low) > delta) and self.delta(high) <= delta)

    def tilted(self, theta: float) -> list[mp.mpf]:
        """Masses times e^(theta loss), normalised."""
        with mp.workdps(DIGITS):
            ratio = mp.exp(mp.mpf(theta) * mp.mpf(self.spacing))
            factor, raised = mp.mpf(1), []
            for mass in self._masses:
                raised.append(mass * factor)
                factor *= ratio
            total = mp.fsum(raised)
            return [value / total for value in raised]

    def wrapped(self, theta: float, first: int, size: int) -> list[mp.mpf]:
        """The tilted masses, wrapped around a window of ``size`` places from ``first`` on."""
        window = [mp.mpf(0)] * size
        with mp.workdps(DIGITS):
            for place, value in zip(self.places, self.tilted(theta), strict=True):
                window[(place - first) % size] += value
        return window


def short(masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Masses rounded to multiples of 2^-80, so that exact products stay short."""
    return np.asarray(np.rint(masses * 2.0**80) / 2.0**80)


def _integers(loss: DiscreteLoss) -> tuple[list[int], int]:
    fractions = [Fraction(float(m)) for m in loss.masses]
    denominator = max(f.denominator for f in fractions)  # powers of two: the largest serves all
    low = int(loss.index[0])
    dense = [0] * (int(loss.index[-1]) - low + 1)
    for place, f in zip(loss.index, fractions, strict=True):
        dense[int(place) - low] = f.numerator * (denominator // f.denominator)
    return dense, denominator


def _power(values: list[int], count: int) -> list[int]:
    return _unpacked(
        _packed(values, width := _width([values] * count)) ** count,
        width,
        (len(values) - 1) * count + 1,
    )


def _product(a: list[int], b: list[int]) -> list[int]:
    width = _width([a, b])
    return _unpacked(_packed(a, width) * _packed(b, width), width, len(a) + len(b) - 1)


def _width(factors: list[list[int]]) -> int:
    """Bytes that hold any coefficient of the product."""
    return sum(sum(values).bit_length() for values in factors) // 8 + 2


def _packed(values: list[int], width: int) -> int:
    return int.from_bytes(b"".join(v.to_bytes(width, "little") for v in values), "little")


def _unpacked(number: int, width: int, length: int) -> list[int]:
    raw = number.to_bytes(length * width + width, "little")
    return [int.from_bytes(raw[k * width : (k + 1) * width], "little") for k in range(length)]
