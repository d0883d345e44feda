"""Exact laws of tiny draws, as fractions, by following every list of entries forwards.

Nothing here knows of kernels, reductions or drawing backwards: a stage turns a vector of copies
per record into the next one, with or without replacement, and all vectors are enumerated.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from typing import TypeVar

from mustdp.types import Multistage, Poisson, Scheme

Counts = tuple[int, ...]
Outcome = TypeVar("Outcome")


def joint_law(scheme: Scheme) -> dict[Counts, Fraction]:
    """Probability of every vector of copies of the records 0, 1, …, n - 1."""
    if isinstance(scheme, Poisson):
        return _coin_flips(scheme.n, Fraction(scheme.rate))
    if not isinstance(scheme, Multistage):
        raise TypeError(scheme)
    law = {(1,) * scheme.n: Fraction(1)}
    for stage in scheme.stages:
        following: dict[Counts, Fraction] = defaultdict(Fraction)
        for entries, weight in law.items():
            for drawn in _vectors(stage.size, scheme.n):
                chance = _without(entries, drawn) if stage.kind == "wor" else _with(entries, drawn)
                if chance:
                    following[drawn] += weight * chance
        law = dict(following)
    return law


def law_of(scheme: Scheme, statistic: Callable[[Counts], Outcome]) -> dict[Outcome, Fraction]:
    """Law of a statistic of the vector of copies."""
    law: dict[Outcome, Fraction] = defaultdict(Fraction)
    for counts, chance in joint_law(scheme).items():
        law[statistic(counts)] += chance
    return dict(law)


def occupancy(hits: int, slots: int) -> list[float]:
    """Law of the number of distinct slots that ``hits`` uniform hits occupy."""
    law = [1.0] + [0.0] * hits
    for _ in range(hits):
        for k in range(hits, 0, -1):
            law[k] = law[k] * (k / slots) + law[k - 1] * (1.0 - (k - 1) / slots)
        law[0] = 0.0
    return law


def distinct_law(scheme: Multistage) -> dict[int, float]:
    """Law of the number of distinct records, for any size: occupancies stage by stage."""
    stages = scheme.reduced
    sources = [scheme.n, *(stage.size for stage in stages[:-1])]
    law = {scheme.m: 1.0}
    for stage, slots in zip(reversed(stages), reversed(sources), strict=True):
        if stage.kind == "wr":
            following: dict[int, float] = defaultdict(float)
            for hits, weight in law.items():
                if weight > 1e-12:
                    for k, chance in enumerate(occupancy(hits, slots)):
                        following[k] += weight * chance
            law = dict(following)
    return law


def _coin_flips(n: int, rate: Fraction) -> dict[Counts, Fraction]:
    return {
        taken: rate ** sum(taken) * (1 - rate) ** (n - sum(taken))
        for taken in product((0, 1), repeat=n)
    }


@cache
def _vectors(total: int, parts: int) -> tuple[Counts, ...]:
    def each(total: int, parts: int) -> Iterator[Counts]:
        if parts == 1:
            yield (total,)
            return
        for first in range(total + 1):
            for rest in each(total - first, parts - 1):
                yield (first, *rest)

    return tuple(each(total, parts))


def _with(entries: Counts, drawn: Counts) -> Fraction:
    """Multinomial: every draw falls on one of the entries."""
    size, chance = sum(entries), Fraction(math.factorial(sum(drawn)))
    for have, take in zip(entries, drawn, strict=True):
        chance *= Fraction(have, size) ** take / math.factorial(take)
    return chance


def _without(entries: Counts, drawn: Counts) -> Fraction:
    """Multivariate hypergeometric: subsets of the entries are equally likely."""
    ways = math.prod(math.comb(have, take) for have, take in zip(entries, drawn, strict=True))
    return Fraction(ways, math.comb(sum(entries), sum(drawn)))
