"""Pearson's test of drawn outcomes against a law, with rare outcomes pooled.

Every statistical test here accepts the right law at ``p > ACCEPT`` and rejects a law close by at
``p < REJECT``, with fixed seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import SupportsFloat, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

ACCEPT = 1e-3
REJECT = 1e-6
_FEWEST_EXPECTED = 8.0

Outcome = TypeVar("Outcome")


def p_value(outcomes: Iterable[Outcome], law: Mapping[Outcome, SupportsFloat]) -> float:
    """Level at which the law is just rejected; 0 if something impossible was drawn."""
    return p_value_of_counts(Counter(outcomes), law)


def p_value_of_counts(seen: Mapping[Outcome, int], law: Mapping[Outcome, SupportsFloat]) -> float:
    """The same for outcomes that have been counted already."""
    total = sum(seen.values())
    possible = {outcome for outcome, chance in law.items() if float(chance) > 0}
    if not set(seen) <= possible:
        return 0.0
    cells = sorted(possible, key=lambda outcome: float(law[outcome]))
    expected = [float(law[outcome]) * total for outcome in cells]
    return _pearson([seen.get(outcome, 0) for outcome in cells], expected)


def p_value_of_numbers(numbers: ArrayLike, first: int, probabilities: ArrayLike) -> float:
    """Level for a law on ``first, first + 1, …``, neighbours pooled into cells of equal weight."""
    drawn = np.asarray(numbers)
    edges = np.unique(np.searchsorted(np.cumsum(probabilities), np.arange(1, 40) / 40))
    law = np.add.reduceat(np.asarray(probabilities), np.concatenate([[0], edges + 1]))
    cells = np.searchsorted(first + edges, drawn, side="left")
    return p_value(cells.tolist(), dict(enumerate(law.tolist())))


def _pearson(observed: Sequence[int], expected: Sequence[float]) -> float:
    """Pool from the rarest cell on until every cell expects enough."""
    pooled: list[list[float]] = [[0.0, 0.0]]
    for count, mean in zip(observed, expected, strict=True):
        if pooled[-1][1] >= _FEWEST_EXPECTED:
            pooled.append([0.0, 0.0])
        pooled[-1][0] += count
        pooled[-1][1] += mean
    if len(pooled) > 1 and pooled[-1][1] < _FEWEST_EXPECTED:
        seen, foreseen = pooled.pop()
        pooled[-1][0] += seen
        pooled[-1][1] += foreseen
    if len(pooled) < 2:
        return 1.0
    distance = sum((count - mean) ** 2 / mean for count, mean in pooled)
    return float(chi2.sf(distance, len(pooled) - 1))
