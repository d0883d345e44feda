"""One loss alone, nothing composed: delta and epsilon straight off a profile or a concrete pair."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np

from mustdp.limits import LARGEST_EPSILON
from mustdp.loss.dots import Profile
from mustdp.loss.pairs import ConcretePair


@runtime_checkable
class Searching(Protocol):
    """A profile whose values are dear and that looks for an epsilon itself."""

    def first_below(self, delta: float) -> float:
        """An epsilon at which the profile is at most ``delta``."""


@runtime_checkable
class SearchingBelow(Protocol):
    """A pair whose values are dear and that looks for an epsilon itself."""

    def last_above(self, delta: float, near: float) -> float:
        """An epsilon at which more than ``delta`` is attained, or zero."""


def first_below(profile: Profile, delta: float) -> float:
    """An epsilon at which the profile is at most ``delta``, as small as bisection can tell."""
    if isinstance(profile, Searching):
        return profile.first_below(delta)
    low, high = 0.0, LARGEST_EPSILON
    if float(profile(np.array([high]))[0]) > delta:
        return math.inf
    for _ in range(9):  # each round narrows the bracket 40 times
        grid = np.concatenate([[low], np.linspace(low, high, 41)[1:]])
        if low == 0.0:
            grid = np.concatenate([[0.0], np.geomspace(max(high * 1e-4, 1e-12), high, 40)])
        met = np.flatnonzero(profile(grid) <= delta)
        if not met.size:  # steered by another grid, the profile may differ in its last digits
            break
        first = int(met[0])
        high = float(grid[first])
        low = float(grid[first - 1]) if first else high
        if high - low <= 1e-12 * high:
            break
    return high


def last_above(pair: ConcretePair, delta: float, near: float = math.inf) -> float:
    """An epsilon at which the pair still attains more than ``delta``, or zero.

    It is looked for just below ``near`` first: pairs may work out what is asked for only then.
    """
    if isinstance(pair, SearchingBelow):
        return pair.last_above(delta, near)
    return bisected(pair, delta, near)


def bisected(pair: ConcretePair, delta: float, near: float) -> float:
    """The same by halves."""
    known = math.inf, -math.inf
    if near < LARGEST_EPSILON and pair.attained(near) <= delta:
        known = near, 0.98 * near if pair.attained(0.98 * near) > delta else -math.inf
    if known[1] < 0.0 and pair.attained(0.0) <= delta:
        return 0.0
    low, high = 0.0, LARGEST_EPSILON
    while high - low > 1e-11 * (1e-3 + high):
        middle = 0.5 * (low + high)
        enough = known[1] >= middle or (middle < known[0] and pair.attained(middle) > delta)
        low, high = (middle, high) if enough else (low, middle)
    return low
