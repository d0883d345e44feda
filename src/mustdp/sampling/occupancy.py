"""How often each slot is hit: the counts behind every draw with replacement.

Three ways to the same law, chosen by what they cost. Few hits on many slots are sorted; many hits
on few slots are counted one by one; and where the hits outnumber the slots by far (a bag of little
bootstraps draws n times on a few thousand slots) the total is split in halves over a binary tree
of the slots, one binomial number per node, so that the cost follows the slots and not the hits.
The counts of the halves given their total are binomial with the exact share of the left half, so
no rounding builds up along the slots.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustdp.numerics.arrays import IntArray

#: Slots beyond the number of hits up to which counting on a full array beats sorting.
_SPARE_SLOTS = 1_000
#: Hits per slot, and per level of the tree, from which splitting beats drawing one by one.
_HITS_PER_SLOT = 30
_HITS_PER_LEVEL = 2_500
#: Hits that are drawn in one go when they are counted one by one.
_PORTION = 1 << 20
#: Largest number of trials given to numpy's binomial sampler. Its rejection step rounds with an
#: absolute error near ``trials * 2**-53``: at 2**53 trials the variance comes out 6 % too small.
LARGEST_TRIALS = 1 << 32


def throw(hits: int, slots: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Throw ``hits`` uniformly on ``slots``; return the slots that were hit and how often each."""
    if prefers_splitting(hits, slots):
        return occupied(split(hits, np.ones(slots, dtype=np.int64), rng))
    if slots > hits + _SPARE_SLOTS:
        places, edges = _runs(rng.integers(slots, size=hits))
        return places, edges[1:] - edges[:-1]
    return occupied(_counted(hits, slots, rng))


def gather(counts: IntArray, slots: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Throw groups of hits, each as one, uniformly on ``slots`` and add up what falls together.

    ``counts`` must be exchangeable, that is in an order that carries no information: then it does
    not matter which of the sorted places is given to which group, and no group has to be followed.
    Counts that come from :func:`throw` or from here are exchangeable, because the slots are.
    """
    places = rng.integers(slots, size=counts.size)
    if slots <= counts.size + _SPARE_SLOTS:
        # Sums of counts stay below 2**53 and are exact as floats.
        return occupied(np.bincount(places, weights=counts).astype(np.int64))
    places, edges = _runs(places)
    return places, np.add.reduceat(counts, edges[:-1])


def occupied(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the slots whose count is not zero, and their counts."""
    slots = counts.nonzero()[0]
    return slots, counts[slots]


def prefers_splitting(hits: int, slots: int) -> bool:
    """Whether so many hits are cheaper to split over the slots than to draw one by one."""
    return hits > _HITS_PER_SLOT * slots + _HITS_PER_LEVEL * slots.bit_length()


def split(total: int, weights: IntArray, rng: np.random.Generator) -> IntArray:
    """Multinomial counts of ``total`` draws on slots of the given integer weights."""
    depth = (weights.size - 1).bit_length()
    leaves = np.zeros(1 << depth, dtype=np.int64)
    leaves[: weights.size] = weights
    levels = [leaves]
    while levels[-1].size > 1:
        levels.append(levels[-1][0::2] + levels[-1][1::2])
    counts = np.array([total], dtype=np.int64)
    for parents, children in zip(levels[:0:-1], levels[-2::-1], strict=True):
        left = _binomial(counts, children[0::2] / np.maximum(parents, 1), rng)
        halves = np.empty(children.size, dtype=np.int64)
        halves[0::2], halves[1::2] = left, counts - left
        counts = halves
    return counts[: weights.size]


def _binomial(trials: IntArray, chance: NDArray[np.float64], rng: np.random.Generator) -> IntArray:
    """Binomial numbers; more than ``LARGEST_TRIALS`` trials are made in several goes."""
    goes, rest = np.divmod(trials, LARGEST_TRIALS)
    successes = rng.binomial(rest, chance)
    for place in goes.nonzero()[0]:
        successes[place] += rng.binomial(LARGEST_TRIALS, chance[place], size=goes[place]).sum()
    return successes


def _counted(hits: int, slots: int, rng: np.random.Generator) -> IntArray:
    portion = max(_PORTION, slots)
    if hits <= portion:
        return np.bincount(rng.integers(slots, size=hits)).astype(np.int64, copy=False)
    counts = np.zeros(slots, dtype=np.int64)
    for done in range(0, hits, portion):
        places = rng.integers(slots, size=min(portion, hits - done))
        counts += np.bincount(places, minlength=slots)
    return counts


def _runs(places: IntArray) -> tuple[IntArray, IntArray]:
    """Sort in place; return the distinct places, and where the run of each begins and all end."""
    places.sort()
    changes = np.empty(places.size + 1, dtype=np.bool_)
    changes[0] = changes[-1] = True
    np.not_equal(places[1:], places[:-1], out=changes[1:-1])
    edges = changes.nonzero()[0]
    return places[edges[:-1]], edges
