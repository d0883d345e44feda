"""Binomial and hypergeometric probabilities on a window that holds all but a stated mass.

Both laws are unimodal with rational ratios of neighbours, so they are built outwards from the
mode as running products of those ratios and normalised by their sum. No gamma function is
involved: each step costs at most six roundings, which bounds the relative error of every entry
by ``8 * length * u`` (u = unit roundoff), for any size of the population.

What is cut on either side is bounded by Bernstein's inequality, which holds for the binomial and,
by Hoeffding (1963, J. Amer. Statist. Assoc. 58, Theorem 4), for the hypergeometric law too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import NumericalFailure
from mustdp.numerics.checks import frozen

FloatArray = NDArray[np.float64]

#: Widest window that is built; wider laws are refused rather than approximated.
WIDEST = 2_000_000
_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, eq=False)
class Window:
    """Probabilities of ``first, first + 1, …``; ``cut`` bounds the mass outside the window."""

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

    mode = ((size + 1) * numerator) // denominator
    return _grow(ratio, 0, min(mode, size), size, size * (numerator / denominator), tail)


def hypergeometric(population: int, special: int, drawn: int, tail: float) -> Window:
    """Law of the special entries among ``drawn`` taken without replacement from ``population``."""
    low, high = max(0, drawn - (population - special)), min(special, drawn)
    if low == high:
        return _point(low)
    ordinary = population - special

    def ratio(k: FloatArray) -> FloatArray:
        return ((special - k) / (k + 1.0)) * ((drawn - k) / (ordinary - drawn + k + 1.0))

    mode = ((drawn + 1) * (special + 1)) // (population + 2)
    mean = drawn * (special / population)
    return _grow(ratio, low, min(max(mode, low), high), high, mean, tail)


def _point(value: int) -> Window:
    return Window(value, frozen(np.ones(1)), 0.0, 0.0)


def _grow(
    ratio: Callable[[FloatArray], FloatArray],
    low: int,
    mode: int,
    high: int,
    mean: float,
    tail: float,
) -> Window:
    """Multiply ratios outwards from the mode as far as ``tail`` asks for."""
    reach = -math.log(tail) if tail > 0 else math.inf
    # Bernstein: P(X - mean >= d) <= exp(-d^2 / (2 (variance + d/3))), both sides; variance <= mean.
    distance = reach / 3 + math.sqrt(reach * reach / 9 + 2 * mean * reach) + 2
    first = low if mode - distance <= low else math.floor(mode - distance)
    last = high if mode + distance >= high else math.ceil(mode + distance)
    if last - first + 1 > WIDEST:
        raise NumericalFailure(
            f"the multiplicity law has {last - first + 1} values that matter "
            f"(around {mode}); at most {WIDEST} are supported"
        )
    cut = 2 * tail if (first > low or last < high) else 0.0
    up = np.cumprod(ratio(np.arange(mode, last, dtype=np.float64)))
    down = np.cumprod(1.0 / ratio(np.arange(mode - 1, first - 1, -1, dtype=np.float64)))
    weights = np.concatenate([down[::-1], [1.0], up])
    total = float(weights.sum())
    # Entries that fell below `tail` (or underflowed) leave the window; their sum joins the cut.
    keep = np.flatnonzero(weights > max(tail, 1e-300) * total / weights.size)
    start, stop = int(keep[0]), int(keep[-1]) + 1
    outside = weights.size - (stop - start)
    if outside:
        cut += max(tail, 1e-300) * outside / weights.size
    probabilities = weights[start:stop] / total
    error = 8.0 * probabilities.size * _ROUNDOFF
    return Window(first + start, frozen(probabilities), cut, error)
