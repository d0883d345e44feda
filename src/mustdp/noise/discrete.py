"""Exact samples of discrete Laplace and discrete Gaussian noise, in integer arithmetic alone.

Canonne, Kamath & Steinke 2020, arXiv 2004.00010v5: Algorithm 1 tosses a coin of chance e^-gamma,
Algorithm 2 draws discrete Laplace noise of a rational scale, Algorithm 3 discrete Gaussian noise of
a rational variance by rejection from it. A float is a rational number, so no law is approximated.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.numerics import checks
from mustdp.numerics.arrays import IntArray
from mustdp.randomness.keys import NoiseSource

#: Words that are fetched at once, and rejections after which the generator must be broken.
_FETCHED, _MOST_TRIALS = 256, 10_000


class _Coins:
    """Exact coins and uniform integers from the words of a source."""

    def __init__(self, source: NoiseSource) -> None:
        self._source = source
        self._pool, self._bits = 0, 0

    def bits(self, count: int) -> int:
        """``count`` random bits as an integer."""
        while self._bits < count:
            fresh = int.from_bytes(self._source.words(_FETCHED).tobytes(), "little")
            self._pool |= fresh << self._bits
            self._bits += 64 * _FETCHED
        found = self._pool & ((1 << count) - 1)
        self._pool >>= count
        self._bits -= count
        return found

    def below(self, top: int) -> int:
        """Uniform on 0, …, top - 1, by rejection."""
        width = (top - 1).bit_length()
        for _ in range(_MOST_TRIALS):
            found = self.bits(width)
            if found < top:
                return found
        raise NumericalFailure("no uniform integer was found: the generator is broken")

    def toss(self, chance: Fraction) -> bool:
        """Heads with this rational chance."""
        return self.below(chance.denominator) < chance.numerator

    def decays(self, gamma: Fraction) -> bool:
        """Heads with chance e^-gamma, gamma >= 0."""
        whole = gamma.numerator // gamma.denominator
        if not all(self._decays_once(Fraction(1)) for _ in range(whole)):
            return False
        return self._decays_once(gamma - whole)

    def _decays_once(self, gamma: Fraction) -> bool:
        k = 1
        while self.toss(gamma / k):
            k += 1
        return k % 2 == 1


def discrete_laplace_noise(scale: float | Fraction, count: int, source: NoiseSource) -> IntArray:
    """``count`` values K with P(K = k) proportional to e^{-|k|/scale}.

    >>> discrete_laplace_noise(2.5, 3, NoiseSource(1)).dtype
    dtype('int64')
    """
    exact, coins = Fraction(scale), _Coins(source)
    count = checks.integer("count", count, 0)
    return np.array([_laplace(exact, coins) for _ in range(count)], dtype=np.int64)


def discrete_gaussian_noise(sigma: float | Fraction, count: int, source: NoiseSource) -> IntArray:
    """``count`` values K with P(K = k) proportional to e^{-k^2 / (2 sigma^2)}.

    >>> discrete_gaussian_noise(2.5, 3, NoiseSource(1)).dtype
    dtype('int64')
    """
    exact, coins = Fraction(sigma), _Coins(source)
    count = checks.integer("count", count, 0)
    return np.array([_gaussian(exact, coins) for _ in range(count)], dtype=np.int64)


def _laplace(scale: Fraction, coins: _Coins) -> int:
    t, s = scale.numerator, scale.denominator
    for _ in range(_MOST_TRIALS):
        u = coins.below(t)
        if not coins.decays(Fraction(u, t)):
            continue
        v = 0
        while coins.decays(Fraction(1)):
            v += 1
        size, negative = (u + t * v) // s, coins.bits(1)
        if size or not negative:
            return -size if negative else size
    raise NumericalFailure("no discrete Laplace value was accepted: the generator is broken")


def _gaussian(sigma: Fraction, coins: _Coins) -> int:
    t, square = sigma.numerator // sigma.denominator + 1, sigma * sigma
    for _ in range(_MOST_TRIALS):
        found = _laplace(Fraction(t), coins)
        if coins.decays((abs(found) - square / t) ** 2 / (2 * square)):
            return found
    raise NumericalFailure("no discrete Gaussian value was accepted: the generator is broken")
