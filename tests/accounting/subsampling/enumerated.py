"""Worst cases by brute force: every batch, every pair of neighbouring data sets on a grid.

Records contribute a number in {-1, -1/2, 0, 1/2, 1} (C = 1) to a sum with noise of scale z. Every
batch is enumerated with its exact probability, as a list of positions drawn from a list of
positions, so each pair of data sets gives two finite mixtures of the noise law. Their hockey-stick
divergence is the integral of max(0, p - alpha q): the sign changes of p - alpha q are located on a
fine grid and refined, and the masses between them are differences of cdfs. Whatever the located
sets are, the result is P(S) - alpha Q(S) for some set S: never above the truth.

Nothing of mustdp is used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

FloatArray = NDArray[np.float64]
Stages = Sequence[tuple[str, int]]
#: Contributions in units of C/2; fewer for groups, whose pairs are many.
LEVELS = {1: (-2, -1, 0, 1, 2), 2: (-2, 0, 2)}
Batches = dict[tuple[int, ...], Fraction]


def staged_batches(n: int, stages: Stages) -> Batches:
    """Chance of every list of record numbers (sorted: later stages treat all positions alike)."""
    batches: Batches = {tuple(range(n)): Fraction(1)}
    for kind, size in stages:
        following: Batches = defaultdict(Fraction)
        for entries, chance in batches.items():
            if kind == "wor":
                choices = list(combinations(range(len(entries)), size))
            else:
                choices = list(product(range(len(entries)), repeat=size))
            for positions in choices:
                drawn = tuple(sorted(entries[position] for position in positions))
                following[drawn] += chance / len(choices)
        batches = dict(following)
    return batches


def poisson_batches(n: int, rate: float) -> Batches:
    taken = Fraction(rate)
    return {
        subset: taken**size * (1 - taken) ** (n - size)
        for size in range(n + 1)
        for subset in combinations(range(n), size)
    }


def replacements(n: int, group: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of data sets of n records that differ in ``group`` of them.

    Schemes treat records alike, so only the multisets count; the pairs are not ordered.
    """
    for common in combinations_with_replacement(LEVELS[group], n - group):
        changed = list(combinations_with_replacement(LEVELS[group], group))
        for mine, other in combinations(changed, 2):
            yield (*common, *mine), (*common, *other)


def removals(n: int, group: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of a data set of n records and the same without ``group`` of them."""
    for common in combinations_with_replacement(LEVELS[group], n - group):
        for mine in combinations_with_replacement(LEVELS[group], group):
            yield (*common, *mine), common


class Worst:
    """Largest divergences over pairs, for one scheme, one noise law and one noise multiplier."""

    def __init__(self, pairs: Sequence[tuple[FloatArray, FloatArray]], noise: str, z: float):
        first = np.stack([p for p, _ in pairs])
        second = np.stack([q for _, q in pairs])
        self._first, self._second = _distinct(first, second)
        self._noise = noise
        top = self._first.shape[1] // 2
        self._centres = np.arange(-top, top + 1) / (2.0 * z)
        reach = float(self._centres[-1]) + (9.0 if noise == "gaussian" else 25.0)
        grid = np.linspace(-reach, reach, 801)
        self._grid = np.unique(np.concatenate([grid, self._centres]))
        self._density = self._pdf(self._grid[None, :] - self._centres[:, None])

    def at(self, epsilon: float) -> float:
        return float(self.all(epsilon).max())

    def all(self, epsilon: float) -> FloatArray:
        """Divergences of all pairs, in the given order and in the reverse one."""
        orders = [(self._first, self._second), (self._second, self._first)]
        return np.stack([self._divergences(p, q, np.exp(epsilon)) for p, q in orders])

    def _divergences(self, p: FloatArray, q: FloatArray, alpha: float) -> FloatArray:
        weights = p - alpha * q
        height = weights @ self._density
        positive = height > 0
        row, cell = np.nonzero(positive[:, 1:] != positive[:, :-1])
        left, right = self._grid[cell], self._grid[cell + 1]
        rising = positive[row, cell + 1]
        for _ in range(18):
            middle = 0.5 * (left + right)
            density = self._pdf(middle[:, None] - self._centres)
            above = np.einsum("ij,ij->i", weights[row], density) > 0
            left = np.where(above == rising, left, middle)
            right = np.where(above == rising, middle, right)
        beyond = np.einsum("ij,ij->i", weights[row], self._tail(right[:, None] - self._centres))
        total = np.where(positive[:, 0], 1.0 - alpha, 0.0)
        np.add.at(total, row, np.where(rising, beyond, -beyond))
        return total

    def _pdf(self, x: FloatArray) -> FloatArray:
        if self._noise == "gaussian":
            return np.asarray(np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi))
        return np.asarray(0.5 * np.exp(-np.abs(x)))

    def _tail(self, x: FloatArray) -> FloatArray:
        if self._noise == "gaussian":
            return np.asarray(ndtr(-x))
        return np.where(x > 0, 0.5 * np.exp(-np.abs(x)), 1.0 - 0.5 * np.exp(-np.abs(x)))


def sum_laws(
    batches: Batches, smaller: Batches | None, n: int, group: int
) -> list[tuple[FloatArray, FloatArray]]:
    """Both laws of the sum for every pair; ``smaller`` are the batches without the group."""
    largest = 2 * max(len(batch) for batch in batches)
    mine = _SumLaws(batches, n, largest)
    if smaller is None:
        return [(mine(first), mine(second)) for first, second in replacements(n, group)]
    other = _SumLaws(smaller, n - group, largest)
    return [(mine(first), other(second)) for first, second in removals(n, group)]


class _SumLaws:
    """From contributions of the records to the law of the batch's sum."""

    def __init__(self, batches: Batches, n: int, largest: int):
        self._counts = np.array([[batch.count(record) for record in range(n)] for batch in batches])
        self._chances = np.array([float(chance) for chance in batches.values()])
        self._largest = largest

    def __call__(self, levels: tuple[int, ...]) -> FloatArray:
        law = np.zeros(2 * self._largest + 1)
        sums = self._largest + self._counts @ np.array(levels, dtype=np.intp)
        np.add.at(law, sums.astype(np.intp), self._chances)
        return law


def _distinct(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    both = np.unique(np.round(np.concatenate([first, second], axis=1), 15), axis=0)
    return both[:, : first.shape[1]], both[:, first.shape[1] :]
