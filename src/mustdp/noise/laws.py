"""The normal and the exponential law at unit scale: fast inversion with an error bound, and tails
to any precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Literal

import numpy as np
from scipy.special import ndtri

from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray

# Tails of the normal and the exponential law between two integers, to any number of bits.
#
# All numbers are integers in units of 2^-bits, carried as a pair (at most, at least) that is
# rounded outwards at every step, so that the true value lies between the two whatever was rounded.
# The sums have positive terms only: nothing cancels before the last subtraction.
#
#     exp(y)          = sum over i of y^i / i!
#     Phi(h) - 1/2    = phi(h) * (h + h^3/3 + h^5/(3*5) + ...)      (Marsaglia 2004, JSS 11:4)


#: Bits carried beyond those asked for. A sum loses less than one unit per term and step.
_GUARD = 48

Enclosure = tuple[int, int]


def exponential_tail(h: Fraction, bits: int) -> Enclosure:
    """exp(-h) for h >= 0, in units of 2^-bits: between the two integers."""
    work = bits + _GUARD
    low, high = _exponential(_fixed(h, work), work)
    one = 1 << 2 * work
    return one // high >> _GUARD, -(-_divided_up(one, low) >> _GUARD)


def normal_tail(h: Fraction, bits: int) -> Enclosure:
    """P(|g| > h) for standard normal g and h >= 0, in units of 2^-bits."""
    work = bits + _GUARD
    low, high = _fixed(h, work)
    square = low * low >> work, (high * high >> work) + 1
    odd = _series((low, high), square, work, first=3, step=2)
    growth = _exponential((square[0] >> 1, (square[1] >> 1) + 1), work)
    root = _root_of_two_pi(work)
    # P(|g| <= h) = 2 * odd / (growth * root)
    inside_low = (odd[0] << 2 * work + 1) // (growth[1] * root[1])
    inside_high = _divided_up(odd[1] << 2 * work + 1, growth[0] * root[0])
    one = 1 << work
    return max(0, one - inside_high >> _GUARD), -(-(one - inside_low) >> _GUARD)


def _fixed(value: Fraction, work: int) -> Enclosure:
    low = (value.numerator << work) // value.denominator
    return low, low + 1


def _divided_up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _exponential(y: Enclosure, work: int) -> Enclosure:
    one = 1 << work
    return _series((one, one), y, work, first=1, step=1)


def _series(term: Enclosure, factor: Enclosure, work: int, *, first: int, step: int) -> Enclosure:
    """Sum of terms, each the one before times ``factor`` / (first, first + step, ...)."""
    (low, high), divisor = term, first
    total_low, total_high = low, high
    # From factor / divisor <= 1/2 on, all that follows is at most the last term.
    while low or 2 * factor[1] > divisor << work:
        low = (low * factor[0] >> work) // divisor
        high = _divided_up((high * factor[1] >> work) + 1, divisor)
        total_low += low
        total_high += high
        divisor += step
    return total_low, total_high + high


@lru_cache(maxsize=32)
def _root_of_two_pi(work: int) -> Enclosure:
    low, high = _pi(work)
    return isqrt(low << work + 1), isqrt(high << work + 1) + 1


def _pi(work: int) -> Enclosure:
    """Machin's formula; the guard is far above what the rounding of its few terms adds up to."""
    inner = work + _GUARD
    value = 16 * _arc_tangent_of_inverse(5, inner) - 4 * _arc_tangent_of_inverse(239, inner)
    return (value >> _GUARD) - 1, (value >> _GUARD) + 1


def _arc_tangent_of_inverse(x: int, work: int) -> int:
    """atan(1/x), wrong by less than one unit per term."""
    power = (1 << work) // x
    total, divisor, sign = power, 1, 1
    while power:
        power //= x * x
        divisor += 2
        sign = -sign
        total += sign * (power // divisor)
    return total


# The two laws of noise at unit scale: how fast arithmetic inverts them, and how wrong it may be.
#
# Noise is a sign and a size, and the size is the point h whose tail P(size > h) is a uniform number
# V. ``docs/derivations/noise.md`` has the errors that are assumed here; the tests measure them.


LawName = Literal["gaussian", "laplace"]

#: The sizes found in double precision are right up to this times max(1, size). It covers what
#: ``ndtri`` and ``log`` lose, the rounding of V, and the product with the scale; the tests see to
#: it that at most an eighth of it is ever used.
ARITHMETIC = 2.0**-46


@dataclass(frozen=True, eq=False)
class Law:
    """A symmetric law at unit scale.

    ``unit``: what 63 random bits are multiplied by before :meth:`sizes`. ``surely_within``: up to
    here one margin serves all sizes. ``farthest``: no size is ever beyond it.
    """

    name: LawName
    unit: float
    surely_within: float
    farthest: float
    negative_sizes: Callable[..., FloatArray]
    width_of_last_bit: Callable[[FloatArray], FloatArray]
    tail: Callable[[Fraction, int], Enclosure]

    def uncertainty(self, sizes: FloatArray) -> FloatArray:
        """How far the true size, for any V that begins with the same 63 bits, can be away.

        Good for V above 2^-40, where one unit in the last bit hardly changes the density.
        """
        found: FloatArray = ARITHMETIC * np.maximum(1.0, sizes) + self.width_of_last_bit(sizes)
        return found


def _normal_width(sizes: FloatArray) -> FloatArray:
    # dh = dV / (2 phi(h)) with dV = 2^-63, and twice that to be safe.
    found: FloatArray = (2.0**-63 * np.sqrt(2.0 * np.pi)) * np.exp(0.5 * sizes * sizes)
    return found


def _exponential_width(sizes: FloatArray) -> FloatArray:
    # dh = dV / exp(-h), and twice that to be safe.
    found: FloatArray = 2.0**-62 * np.exp(sizes)
    return found


#: h = -ndtri(V / 2): the lower tail, where ndtri keeps its relative accuracy.
GAUSSIAN = Law("gaussian", 2.0**-64, 4.4, 38.0, ndtri, _normal_width, normal_tail)
#: h = -log(V).
LAPLACE = Law("laplace", 2.0**-63, 11.2, 710.0, np.log, _exponential_width, exponential_tail)


def law_called(name: LawName) -> Law:
    """The law of that name."""
    checks.choice("law", name, ("gaussian", "laplace"))
    return GAUSSIAN if name == "gaussian" else LAPLACE
