"""Batches and how they are drawn: the cost follows the batch, not n (an epoch's draw follows n)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import IntArray
from mustdp.numerics.checks import frozen
from mustdp.sampling.law import Stage

# One draw: distinct record indices and how often each was drawn.


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """A multiset of records.

    The order of the indices carries no meaning, and batches that differ only in it are equal. An
    empty batch is a valid batch. The arrays are read-only copies of what was given.

    Parameters
    ----------
    indices : array_like of int
        The records drawn, each once, by their numbers from 0 on.
    counts : array_like of int
        How often each was drawn, at least once.

    Raises
    ------
    InvalidParameter
        The indices are not distinct, or the counts are not as many.

    Examples
    --------
    >>> Batch([7, 2], [1, 3]).rows()
    array([7, 2, 2, 2])
    """

    indices: IntArray
    counts: IntArray

    def __post_init__(self) -> None:
        indices = _integers("indices", self.indices, 0)
        counts = _integers("counts", self.counts, 1)
        if counts.size != indices.size:
            raise InvalidParameter(
                f"counts must hold one entry for each of the {indices.size} indices, "
                f"got {counts.size}"
            )
        if np.unique(indices).size != indices.size:
            raise InvalidParameter("indices must be distinct, got some more than once")
        object.__setattr__(self, "indices", frozen(indices))
        object.__setattr__(self, "counts", frozen(counts))

    @property
    def size(self) -> int:
        """Number of draws, copies counted: the sum of the counts."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> int:
        """Number of distinct records."""
        return int(self.indices.size)

    def rows(self) -> IntArray:
        """The multiset written out: every index as often as it was drawn.

        Returns
        -------
        ndarray of int
            One entry for every draw, ``size`` of them.
        """
        return np.repeat(self.indices, self.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        mine, theirs = np.argsort(self.indices), np.argsort(other.indices)
        return np.array_equal(self.indices[mine], other.indices[theirs]) and np.array_equal(
            self.counts[mine], other.counts[theirs]
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Callable[..., Batch], tuple[Any, ...]]:
        # Arrays come out of a pickle writable; this way a batch stays frozen on its way.
        return drawn, (self.indices, self.counts)


def drawn(indices: IntArray, counts: IntArray) -> Batch:
    """Wrap fresh arrays that are known to be a batch: no copy, no check."""
    batch = object.__new__(Batch)
    object.__setattr__(batch, "indices", frozen(indices))
    object.__setattr__(batch, "counts", frozen(counts))
    return batch


def _integers(name: str, values: object, least: int) -> IntArray:
    allowed = f"{name} must be a one-dimensional list of integers >= {least}"
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidParameter(f"{allowed}, got {values!r}") from None
    if array.ndim != 1 or not (array.dtype.kind in "iu" or array.size == 0):
        raise InvalidParameter(f"{allowed}, got {values!r}")
    if array.size and array.min() < least:
        raise InvalidParameter(f"{allowed}, got {int(array.min())} among them")
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise InvalidParameter(f"{allowed} and below 2**63, got {int(array.max())} among them")
    return np.array(array, dtype=np.int64)


# How often each slot is hit: the counts behind every draw with replacement.
#
# Three ways to the same law, chosen by what they cost. Few hits on many slots are sorted; many
# hits on few slots are counted one by one; and where the hits outnumber the slots by far (a bag of
# little bootstraps draws n times on a few thousand slots) the total is split in halves over a
# binary tree of the slots, one binomial number per node, so that the cost follows the slots and
# not the hits. The counts of the halves given their total are binomial with the exact share of the
# left half, so no rounding builds up along the slots.


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


def allocate(hits: int, slots: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
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
    Counts that come from :func:`allocate` or from here are exchangeable, because the slots are.
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
    """Whether hits are cheaper to split over the slots than to draw one by one."""
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


# How batches are drawn: cost follows the batch, never n.
#
# A multistage draw is made from its last stage backwards. The m draws of the last stage fall on the
# slots of the stage before it; only the slots that were hit need to be filled, and each of them is
# filled by one draw of that stage. So an unused slot costs nothing, and a batch of m draws
# costs O(min(m, slots)) however large n and the stages in between are.


#: Most distinct entries that one draw may have to hold.
LARGEST_BATCH = 1 << 31


def draw_poisson(n: int, rate: float, rng: np.random.Generator) -> Batch:
    """Take every record independently with chance ``rate``.

    A binomial size and then that many records without replacement have the same law. For n beyond
    the reach of the binomial sampler, records are hit Poisson(-n log(1 - rate)) times in all, with
    replacement: the hits on one record are then independent of those on any other, and the chance
    of at least one is ``rate``.
    """
    if n * rate > LARGEST_BATCH:
        allowed = f"must be at most 2**31 / {{n}} = {LARGEST_BATCH / n:g} for a batch to be held"
        raise InvalidParameter.refusing("rate", allowed, repr(rate), mentions=("n",))
    if n <= LARGEST_TRIALS:
        indices = choose(n, int(rng.binomial(n, rate)), rng)
    else:
        indices, _ = allocate(int(rng.poisson(-n * math.log1p(-rate))), n, rng)
    return drawn(indices, np.ones(indices.size, dtype=np.int64))


def draw_stages(n: int, stages: Sequence[Stage], rng: np.random.Generator) -> Batch:
    """Draw reduced stages: at most one ``wor`` in front, any number of ``wr`` after it."""
    last = len(stages) - 1
    slots = stages[last - 1].size if last else n
    check_held(stages[last].size, slots)
    if stages[last].kind == "wor":
        indices = choose(n, stages[last].size, rng)
        return drawn(indices, np.ones(indices.size, dtype=np.int64))
    indices, counts = allocate(stages[last].size, slots, rng)
    for place in range(last - 1, -1, -1):
        if stages[place].kind == "wor":
            # The counts are exchangeable over the slots, so any order of the records will do.
            return drawn(choose(n, counts.size, rng), counts)
        indices, counts = gather(counts, stages[place - 1].size if place else n, rng)
    return drawn(indices, counts)


def choose(n: int, size: int, rng: np.random.Generator) -> IntArray:
    """Return ``size`` distinct numbers below ``n``, in an order that carries no meaning."""
    return rng.choice(n, size, replace=False, shuffle=False).astype(np.int64, copy=False)


def check_held(draws: int, slots: int) -> None:
    """Refuse, before any work, a draw with more distinct entries than can be held."""
    if min(draws, slots) > LARGEST_BATCH:
        raise InvalidParameter(
            f"the size of a draw must be at most 2**31 = {LARGEST_BATCH} to be held "
            f"(here from {slots} entries), got {draws}"
        )


# How the batches of an epoch are drawn: once per epoch, in time that follows n.
#
# Random allocation: the bin of every record is an exactly uniform number from the epoch's stream of
# bits (numpy's rejection method, Lemire 2019, arXiv 1805.10941), records in their order. So nothing
# has to be kept to know it again: epochs with more records than are held at a time are drawn in
# *portions* of neighbouring bins, each by running through the same bits and keeping the records of
# those bins. No permutation is ever made, and n = 10^9 takes the memory of one portion.
#
# A record in t distinct bins: Floyd's algorithm (Bentley & Floyd 1987, CACM 30(9), 754-757). For j
# = M - t, ..., M - 1 a uniform number up to j is drawn, and j itself is taken where the record has
# that number already: every set of t bins is equally likely, after t draws. One bin is t = 1.
#
# Shuffling: numpy's permutation of all records, held for as long as the epoch lasts.


#: Entries of batches that one portion of an epoch may hold.
HELD = 1 << 26
#: Entries that are drawn in one go. The draw depends on it: it must never change.
_RUN = 1 << 20
#: From so many bins per record on, those it has are looked up in a table instead of compared, of at
#: most so many places for the records that are drawn in one go. The draw depends on both.
_LOOKED_UP, _PLACES = 65, 1 << 26


def draw_allocation(n: int, bins: int, times: int, rng: np.random.Generator) -> tuple[Batch, ...]:
    """All batches of one epoch of random allocation, every record in ``times`` of the bins."""
    check_held(n * times, n * times)
    return BinRange(n, bins, times, 0, bins, lambda: rng).batches


def distinct_bins(
    count: int, bins: int, times: int, rng: np.random.Generator
) -> NDArray[np.uint32]:
    """``times`` distinct bins for each of ``count`` records: one row for each record."""
    chosen = np.empty((times, count), dtype=np.uint32)
    table = np.zeros((count, bins), dtype=bool) if times >= _LOOKED_UP else None
    every = np.arange(count) if times >= _LOOKED_UP else None
    for row, last in enumerate(range(bins - times, bins)):
        place = rng.integers(last + 1, size=count, dtype=np.uint32)
        if row:
            known = np.any(chosen[:row] == place, axis=0) if table is None else table[every, place]
            place = np.where(known, np.uint32(last), place)
        chosen[row] = place
        if table is not None:
            table[every, place] = True
    return chosen.T


def _in_one_go(bins: int, times: int) -> int:
    """For how many records bins are drawn at a time."""
    run = _RUN // times if times < _LOOKED_UP else min(_RUN // times, _PLACES // bins)
    return max(1, run)


def draw_shuffled(n: int, m: int, rng: np.random.Generator) -> tuple[Batch, ...]:
    """All batches of one shuffled epoch."""
    check_held(n, n)
    order = rng.permutation(n)
    return tuple(_once(order[start : start + m]) for start in range(0, n, m))


class BinRange:
    """The batches of bins ``first`` to ``stop`` - 1 of one epoch of random allocation."""

    def __init__(
        self, n: int, bins: int, times: int, first: int, stop: int,
        fresh: Callable[[], np.random.Generator],
    ) -> None:  # fmt: skip
        rng = fresh()
        records, places = [], []
        kind = np.uint16 if bins <= 1 << 16 else np.uint32
        run = _in_one_go(bins, times)
        for start in range(0, n, run):
            chosen = distinct_bins(min(run, n - start), bins, times, rng).ravel()
            if stop - first < bins or times > 1:
                kept = np.flatnonzero((chosen >= first) & (chosen < stop))
                records.append(kept // times + start)
                chosen = chosen[kept]
            places.append((chosen - np.uint32(first)).astype(kind))
        place = np.concatenate(places)
        # Numbers of 16 bits are sorted in linear time.
        order = np.argsort(place, kind="stable")
        self._records = np.concatenate(records)[order] if records else order.astype(np.int64)
        ends = np.cumsum(np.bincount(place, minlength=stop - first))
        self._ends = np.concatenate([[0], ends])
        self.first, self.stop = first, stop

    def batch(self, number: int) -> Batch:
        """The batch of one bin, its records in increasing order."""
        place = number - self.first
        return _once(self._records[self._ends[place] : self._ends[place + 1]].copy())

    @property
    def batches(self) -> tuple[Batch, ...]:
        """All batches of the portion."""
        return tuple(self.batch(number) for number in range(self.first, self.stop))


def portion_of(entries: int, bins: int, number: int, held: int = HELD) -> tuple[int, int]:
    """The bins that are drawn together with bin ``number``: first, and one past the last."""
    portions = min(bins, -(-entries // held))
    size = -(-bins // portions)
    first = number // size * size
    return first, min(first + size, bins)


def _once(indices: IntArray) -> Batch:
    return drawn(indices.astype(np.int64, copy=False), np.ones(indices.size, dtype=np.int64))
