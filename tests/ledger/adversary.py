"""The worst that an adaptive analyst can do on tiny discrete mechanisms, by trying everything.

A mechanism is a pair of rows of probabilities, what it answers on either of two neighbours. At
every moment the analyst looks at all answers so far and picks the next mechanism, its direction, or
an end; whatever picks it, a rule says from the counts alone whether it is admitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

Row = tuple[float, ...]
Mechanism = tuple[Row, Row]
#: Whether so many runs of each mechanism are admitted, all together.
Rule = Callable[[tuple[int, ...]], bool]


def worst_delta(mechanisms: tuple[Mechanism, ...], rule: Rule, epsilon: float) -> float:
    """sup over strategies of P(S) - e^epsilon Q(S), exactly: dynamic programming over histories."""

    @cache
    def value(counts: tuple[int, ...], ratio: float) -> float:
        """The gain from here on, per mass of P, where e^epsilon dQ/dP is ``ratio`` so far."""
        best = max(0.0, 1.0 - ratio)
        for which, (one, other) in enumerate(mechanisms):
            after = tuple(n + (k == which) for k, n in enumerate(counts))
            if not rule(after):
                continue
            for p, q in ((one, other), (other, one)):
                gain = 0.0
                for a, b in zip(p, q, strict=True):
                    if a > 0:
                        gain += a * value(after, float(f"{ratio * b / a:.12g}"))
                best = max(best, gain)
        return best

    return value((0,) * len(mechanisms), math.exp(epsilon))


def fixed_delta(
    mechanisms: tuple[Mechanism, ...], counts: tuple[int, ...], epsilon: float
) -> float:
    """The delta of so many runs fixed in advance; all directions as they stand."""
    p, q = np.ones(1), np.ones(1)
    for (one, other), count in zip(mechanisms, counts, strict=True):
        for _ in range(count):
            p = np.outer(p, one).ravel()
            q = np.outer(q, other).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def moments(mechanism: Mechanism, orders: tuple[float, ...]) -> tuple[tuple[float, ...], float]:
    """Divergences by order, the last at infinity, in the worse direction; mass left out of them."""
    found, outside = [], 0.0
    for order in orders:
        both = []
        for p, q in (mechanism, mechanism[::-1]):
            total = sum(a**order * b ** (1.0 - order) for a, b in zip(p, q, strict=True) if b > 0)
            both.append(math.log(total) / (order - 1.0))
        found.append(max(0.0, *both))
    for p, q in (mechanism, mechanism[::-1]):
        outside = max(outside, sum(a for a, b in zip(p, q, strict=True) if b == 0))
    ratios = [abs(math.log(a / b)) for a, b in zip(*mechanism, strict=True) if a > 0 and b > 0]
    return (*found, max(ratios)), outside
