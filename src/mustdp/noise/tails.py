"""Tails of the normal and the exponential law between two integers, to any number of bits.

All numbers are integers in units of 2^-bits, carried as a pair (at most, at least) that is rounded
outwards at every step, so that the true value lies between the two whatever was rounded. The sums
have positive terms only: nothing cancels before the last subtraction.

    exp(y)          = sum over i of y^i / i!
    Phi(h) - 1/2    = phi(h) * (h + h^3/3 + h^5/(3*5) + ...)      (Marsaglia 2004, JSS 11:4)
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt

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
