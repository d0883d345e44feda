"""Binomial and hypergeometric probabilities on a window that holds all but a stated mass.

Both laws are unimodal with rational ratios of neighbours, so they are built outwards from the
mode as running products of those ratios and normalised by their sum. No gamma function is
involved: each step costs at most five roundings, so an entry d steps from the mode is off by at
most 5 d u (u = unit roundoff) and the sum by 5 u times the mean of d, which is at most one more
than the standard deviation. ``8 u (length + deviation + 4)`` covers both, and the summation, for
any size of the population.

How far to go is decided by Bernstein's inequality, which holds for the binomial and, by Hoeffding
(1963, J. Amer. Statist. Assoc. 58, Theorem 4), for the hypergeometric law too. The sum that
normalises is always taken over all but 1e-20 of the mass, also where the caller allows more to be
cut, so that a generous ``tail`` costs mass at the ends and no accuracy in what is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import NumericalFailure
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen

#: Widest window that is built; wider laws are refused rather than approximated.
WIDEST = 2_000_000
#: No window is cut finer than this: double precision ends soon below.
FINEST_TAIL = 1e-300
#: The normalising sum misses at most this much, whatever the caller lets go.
_NORMALISED = 1e-20


@dataclass(frozen=True, eq=False)
class Window:
    """Probabilities of ``first, first + 1, …`` and the mass that is missing.

    Every entry is within ``relative_error`` of the mass it stands for, and ``cut`` bounds all the
    mass that the entries do not stand for.
    """

    first: int
    probabilities: FloatArray
    cut: float
    relative_error: float

    @property
    def values(self) -> NDArray[np.int64]:
        """The integers the probabilities belong to."""
        return np.arange(self.first, self.first + self.probabilities.size, dtype=np.int64)


def binomial(size: int, numerator: int, denominator: int, tail: float) -> Window:
    """Law of the number of successes in ``size`` trials of chance numerator/denominator."""
    if numerator == 0:
        return _point(0)
    if numerator == denominator:
        return _point(size)
    odds = numerator / (denominator - numerator)

    def ratio(k: FloatArray) -> FloatArray:
        return (size - k) / (k + 1.0) * odds

    mode = min(((size + 1) * numerator) // denominator, size)
    return _grow(ratio, 0, mode, size, _variance(size, numerator, denominator), tail)


def hypergeometric(population: int, special: int, drawn: int, tail: float) -> Window:
    """Law of the special entries among ``drawn`` taken without replacement from ``population``."""
    low, high = max(0, drawn - (population - special)), min(special, drawn)
    if low == high:
        return _point(low)
    ordinary = population - special

    def ratio(k: FloatArray) -> FloatArray:
        return ((special - k) / (k + 1.0)) * ((drawn - k) / (ordinary - drawn + k + 1.0))

    mode = min(max(((drawn + 1) * (special + 1)) // (population + 2), low), high)
    # The law stays the same when the roles of `special` and `drawn` are swapped.
    variance = min(_variance(drawn, special, population), _variance(special, drawn, population))
    return _grow(ratio, low, mode, high, variance, tail)


def _variance(size: int, numerator: int, denominator: int) -> float:
    """Variance of the binomial law."""
    return size * (numerator / denominator) * ((denominator - numerator) / denominator)


def _point(value: int) -> Window:
    return Window(value, frozen(np.ones(1)), 0.0, 0.0)


def _grow(
    ratio: Callable[[FloatArray], FloatArray],
    low: int,
    mode: int,
    high: int,
    variance: float,
    tail: float,
) -> Window:
    """Multiply ratios outwards from the mode, normalise, and cut both ends to ``tail``."""
    side = max(tail, FINEST_TAIL) / 4.0  # half of the tail is Bernstein's, half is cut below
    far = min(side, _NORMALISED)
    distance = _reach(variance, far)
    first, last = max(low, mode - distance), min(high, mode + distance)
    if last - first + 1 > WIDEST:
        raise NumericalFailure(
            f"the multiplicity law has {last - first + 1} values that matter "
            f"(around {mode}); at most {WIDEST} are supported"
        )
    beyond = far * ((first > low) + (last < high))
    up = np.cumprod(ratio(np.arange(mode, last, dtype=np.float64)))
    down = np.cumprod(1.0 / ratio(np.arange(mode - 1, first - 1, -1, dtype=np.float64)))
    weights = np.concatenate([down[::-1], [1.0], up])
    total = float(weights.sum())
    below, above = np.cumsum(weights), np.cumsum(weights[::-1])
    start = int(np.searchsorted(below, side * total, side="right"))
    stop = weights.size - int(np.searchsorted(above, side * total, side="right"))
    removed = (below[start - 1] if start else 0.0) + (
        above[weights.size - stop - 1] if stop < weights.size else 0.0
    )
    # A part in a thousand covers the rounding of the sums, FINEST_TAIL what underflowed in them.
    cut = beyond + 1.001 * float(removed) / total
    if stop - start < weights.size:
        cut += FINEST_TAIL / 4.0
    probabilities = weights[start:stop] / total
    error = 8.0 * (probabilities.size + math.sqrt(variance) + 4.0) * ROUNDOFF
    return Window(first + start, frozen(probabilities), cut, error)


def _reach(variance: float, mass: float) -> int:
    """Distance from the mode beyond which either side holds at most ``mass``.

    Bernstein: P(X - mean >= d) <= exp(-d^2 / (2 (variance + d/3))), both sides; the mode is within
    one of the mean.
    """
    nats = -math.log(mass)
    return math.ceil(nats / 3 + math.sqrt(nats * nats / 9 + 2 * variance * nats)) + 2
