"""Shuffled epochs with less noise: a record hides among others that might as well be absent.

The M records that share a position within their batch are in random order. With a chance p, each of
the others releases what an empty place would, up to a total variation distance of p G_s(1/p). Then
the record is allocated at random to one of K + 1 batches, K ~ Bin(M - 1, p), and

    H_alpha <= E R_{K+1}(alpha) + (1 + alpha) (M - 1) p G_s(1/p),

R_k the divergence of a random allocation to k batches (docs/derivations/shuffling.md, Theorem 3).
Any p proves a bound; a ladder of them is tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mustdp.accounting.pld.discretise import Profile
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.numerics.arrays import FloatArray

#: p = e^-h for these h.
_FIRST, _STEP, _RUNGS = 0.2, 0.1, 80
#: How rare it is to have fewer clones than each level, from the highest level down.
_RARE = (0.3, 1e-2, 1e-4, 1e-7, 1e-10, 1e-14, 1e-19)
#: Fewer clones are not looked at where hiding nowhere would add no more than this share.
_NEGLIGIBLE = 1e-3
#: Relative rounding of a few exponentials and sums, generously.
_UP = 1.0 + 1e-9


@dataclass(frozen=True)
class Rung:
    """One p: what leaving it out costs, and numbers of clones with the chance of fewer."""

    cost: float
    #: Falling numbers k, each with a bound of P(K < k).
    levels: tuple[tuple[int, float], ...]

    @classmethod
    def of(cls, h: float, others: int, radius: float) -> Rung | None:
        """None where there would be hardly any clones."""
        p = math.exp(-h) * (1.0 - 1e-12)
        gained = float(GaussianNoise().profile(np.array(radius), np.array([h]))[0])
        cost = others * p * gained * _UP
        levels: dict[int, float] = {}
        for rare in _RARE:
            k = _least(others, p, rare)
            if k < 1:
                break
            levels[k] = fewer(others, p, k)
        return cls(cost, tuple(levels.items())) if levels else None


def fewer(count: int, p: float, k: int) -> float:
    """Chernoff's bound of P(K < k), K ~ Bin(count, p), from above; one where k is no small number.

    >>> 0.0 < fewer(1000, 0.05, 20) < 1e-5
    True
    """
    share = (k - 1) / count
    if k < 1:
        return 0.0
    if share >= p:
        return 1.0
    left = share * math.log(share / p) if share > 0.0 else 0.0
    exponent = left + (1.0 - share) * math.log1p((p - share) / (1.0 - p))
    return min(1.0, math.exp(-count * exponent * (1.0 - 1e-9)) * _UP)


def _least(count: int, p: float, rare: float) -> int:
    """The largest k of which P(K < k) is at most so rare, by bisection."""
    low, high = 0, math.ceil(count * p) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fewer(count, p, middle) <= rare else (low, middle)
    return low


class Clones:
    """The bound of one order of the neighbours at single alphas.

    ``radius`` is how far a record can be from an empty place; ``allocated`` gives the profile of a
    random allocation to that many batches.
    """

    def __init__(self, radius: float, bins: int, allocated: Callable[[int], Profile]) -> None:
        self._radius, self._bins, self._allocated = radius, bins, allocated
        self._profiles: dict[int, Profile] = {}
        self._best = 0

    @cached_property
    def rungs(self) -> tuple[Rung, ...]:
        """Fewer and fewer clones, at less and less cost."""
        tried = (Rung.of(_FIRST + _STEP * i, self._bins - 1, self._radius) for i in range(_RUNGS))
        return tuple(rung for rung in tried if rung is not None)

    def bound(self, x: float, plain: float) -> float:
        """At alpha = 1 + x, where one batch by itself has ``plain``; rounded up."""
        if not self.rungs:
            return plain
        best, first = min(self._best, len(self.rungs) - 1), self._best
        least = self.value(self.rungs[best], x, plain)
        for step in (1, -1):
            if step < 0 and best > first:  # what lies behind was left for something better
                break
            while 0 <= best + step < len(self.rungs):
                found = self.value(self.rungs[best + step], x, plain, least)
                if not found <= least:
                    break
                best, least = best + step, found
        self._best = best
        return min(plain, least)

    def value(self, rung: Rung, x: float, plain: float, most: float = math.inf) -> float:
        """The bound with one p; infinite, and not worked out, where it is above ``most``."""
        total, chance = (2.0 + x) * rung.cost, 1.0
        if total >= min(plain, most):
            return total if total >= plain else math.inf
        for k, rarer in rung.levels:
            allocated = self._at(k + 1, x)
            total += chance * allocated
            chance = rarer
            # With fewer clones more is told, so what is left adds its chance of this at least.
            if total + chance * allocated > most:
                return math.inf
            if chance * plain <= _NEGLIGIBLE * total:
                break
        return (total + chance * plain) * _UP

    def _at(self, batches: int, x: float) -> float:
        if batches not in self._profiles:
            self._profiles[batches] = self._allocated(batches)
        # Profiles fall in epsilon: rounded down.
        epsilon: FloatArray = np.array([math.log1p(x) * (1.0 - 1e-14)])
        return float(self._profiles[batches](epsilon)[0])
