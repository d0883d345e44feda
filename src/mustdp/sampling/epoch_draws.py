"""How the batches of an epoch are drawn: once per epoch, in time that follows n.

Random allocation: the bin of every record is an exactly uniform number from the epoch's stream of
bits (numpy's rejection method, Lemire 2019, arXiv 1805.10941), records in their order. So nothing
has to be kept to know it again: epochs with more records than are held at a time are drawn in
*portions* of neighbouring bins, each by running through the same bits and keeping the records of
those bins. No permutation is ever made, and n = 10^9 takes the memory of one portion.

A record in t distinct bins: Floyd's algorithm (Bentley & Floyd 1987, CACM 30(9), 754-757). For
j = M - t, ..., M - 1 a uniform number up to j is drawn, and j itself is taken where the record has
that number already: every set of t bins is equally likely, after t draws. One bin is t = 1.

Shuffling: numpy's permutation of all records, held for as long as the epoch lasts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mustdp.numerics.arrays import IntArray
from mustdp.sampling.batch import Batch, drawn
from mustdp.sampling.draws import check_held

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
    return Portion(n, bins, times, 0, bins, lambda: rng).batches


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


class Portion:
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
