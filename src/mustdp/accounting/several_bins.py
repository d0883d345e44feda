"""An epoch that moves several batches, from above: random allocations one after another.

Whoever is moved most comes first: c_1 >= c_2 >= ... copies in as many distinct batches of the k
that are released. Cut these at random into groups, as many as there can be moves, of sizes rounded
up and down, and let the j-th move be in the j-th group: that is the same law, so that by Jensen's
inequality the epoch is no worse than one with the groups known. And that is no worse than a chain
of random allocations, one to each group, whose moves are independent: c_j is at most what the most
telling moves before it make of it (docs/derivations/epochs.md).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mustdp.accounting.allocated import GaussianBound
from mustdp.accounting.patterns import ERROR, Pattern
from mustdp.loss.curve import UpperCurve
from mustdp.loss.dots import DominatingPair, Profile
from mustdp.loss.points import survey
from mustdp.numerics.arrays import FloatArray

#: Spacing over the deviation of one allocation, and how small deltas are followed.
_FRACTION, _SMALLEST = 0.02, 1e-30


@dataclass(frozen=True)
class Link:
    """One allocation of a chain: to so many batches, of 1, 2, ... copies with these chances."""

    steps: int
    chances: tuple[float, ...]

    @property
    def inside(self) -> float:
        """The chance of any copy at all."""
        return min(1.0, sum(self.chances))


def links(found: tuple[Pattern, ...], steps: int) -> tuple[Link, ...]:
    """The chain of the patterns of an epoch of which ``steps`` batches are released."""
    most = max(len(one.copies) for one in found)
    if len(found) == 1:
        laws = [(*(0.0,) * (copies - 1), 1.0) for copies in found[0].copies]
    else:
        laws = [_most_telling(found, place) for place in range(most)]
    # In proportion to how often they are used, groups tell least; each has a batch at least.
    used = np.cumsum([sum(law) for law in laws])
    ends = np.rint((steps - most) * used / used[-1]).astype(np.int64) + np.arange(1, most + 1)
    sizes = np.diff(ends, prepend=0).tolist()
    return tuple(Link(size, law) for size, law in zip(sizes, laws, strict=True))


def _most_telling(found: tuple[Pattern, ...], place: int) -> tuple[float, ...]:
    """Chances of 1, 2, ... copies whose tails are the largest, whatever came before."""
    after: dict[tuple[int, ...], list[tuple[int, float]]] = {}
    for one in found:
        if len(one.copies) >= place:
            here = one.copies[place] if len(one.copies) > place else 0
            after.setdefault(one.copies[:place], []).append((here, one.chance))
    tails = []
    for copies in range(1, max(c for law in after.values() for c, _ in law) + 1):
        shares = [
            sum(w for c, w in law if c >= copies) / sum(w for _, w in law) for law in after.values()
        ]
        tails.append(min(1.0, max(shares) * (1.0 + 2.0 * ERROR)))
    return tuple(max(0.0, a - b) for a, b in itertools.pairwise([*tails, 0.0]))


def chained(
    chain: tuple[Link, ...],
    farthest: float,
    allocated: Callable[[Link], DominatingPair],
    fine: float = 1.0,
) -> DominatingPair:
    """What dominates a chain; nor is it worse than a Gaussian release that far away.

    It is composed on a grid ``fine`` times as fine as usual.
    """
    counted = Counter(chain)
    made = _Chain([allocated(link) for link in counted], list(counted.values()), farthest, fine)
    return DominatingPair.of(made.ahead) if made.self_dual else made.both


class _Chain:
    """Allocations one after another, composed in both orders when they are asked for."""

    def __init__(
        self, pairs: list[DominatingPair], counts: list[int], farthest: float, fine: float
    ) -> None:
        self._pairs, self._counts, self._fraction = pairs, counts, _FRACTION / fine
        self._plain = GaussianBound(farthest * (1.0 + 1e-15), 1.0)
        self.self_dual = all(pair.self_dual for pair in pairs)
        self.ahead = _Side(self._plain, lambda: self._composed(self._pairs))
        behind = _Side(self._plain, lambda: self._composed([pair.swapped for pair in pairs]))
        self.both = DominatingPair(self.ahead, behind)

    def _composed(self, pairs: list[DominatingPair]) -> Profile:
        if self._counts == [1]:
            return pairs[0].forward
        curve = UpperCurve(pairs, self._counts, survey(pairs, self._counts).grid(self._fraction))
        return lambda epsilon: curve.curve(epsilon, _SMALLEST)


class _Side:
    """One order of a chain: its profile, made when it is asked for, or a plain release."""

    def __init__(self, plain: Profile, make: Callable[[], Profile]) -> None:
        self._plain, self._make = plain, make

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons, rounded up."""
        return np.asarray(np.minimum(self._composed(epsilon), self._plain(epsilon)))

    @cached_property
    def _composed(self) -> Profile:
        return self._make()


def least(one: DominatingPair, other: DominatingPair) -> DominatingPair:
    """The smaller of two upper bounds of one profile, in both orders."""
    ahead = _Least(one.forward, other.forward)
    if one.self_dual and other.self_dual:
        return DominatingPair.of(ahead)
    return DominatingPair(ahead, _Least(one.backward, other.backward))


class _Least:
    """The smaller of two profiles."""

    def __init__(self, one: Profile, other: Profile) -> None:
        self._one, self._other = one, other

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        return np.minimum(self._one(epsilon), self._other(epsilon))
