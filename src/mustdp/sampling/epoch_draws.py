"""How the batches of an epoch are drawn: once per epoch, in time that follows n.

Random allocation: the bin of every record is an exactly uniform number from the epoch's stream of
bits (numpy's rejection method, Lemire 2019, arXiv 1805.10941), records in their order. So nothing
has to be kept to know it again: epochs with more records than are held at a time are drawn in
*portions* of neighbouring bins, each by running through the same bits and keeping the records of
those bins. No permutation is ever made, and n = 10^9 takes the memory of one portion.

Shuffling: numpy's permutation of all records, held for as long as the epoch lasts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mustdp.numerics.arrays import IntArray
from mustdp.sampling.batch import Batch, drawn
from mustdp.sampling.draws import check_held

#: Records that one portion of an epoch may hold.
HELD = 1 << 26
#: Records whose bins are drawn in one go. The draw depends on it: it must never change.
_RUN = 1 << 20


def draw_allocation(n: int, bins: int, rng: np.random.Generator) -> tuple[Batch, ...]:
    """All batches of one epoch of random allocation."""
    check_held(n, n)
    return Portion(n, bins, 0, bins, lambda: rng).batches


def draw_shuffled(n: int, m: int, rng: np.random.Generator) -> tuple[Batch, ...]:
    """All batches of one shuffled epoch."""
    check_held(n, n)
    order = rng.permutation(n)
    return tuple(_once(order[start : start + m]) for start in range(0, n, m))


class Portion:
    """The batches of bins ``first`` to ``stop`` - 1 of one epoch of random allocation."""

    def __init__(
        self, n: int, bins: int, first: int, stop: int, fresh: Callable[[], np.random.Generator]
    ) -> None:
        rng = fresh()
        records, places = [], []
        kind = np.uint16 if bins <= 1 << 16 else np.uint32
        for start in range(0, n, _RUN):
            chosen = rng.integers(bins, size=min(_RUN, n - start), dtype=np.uint32)
            if stop - first < bins:
                kept = np.flatnonzero((chosen >= first) & (chosen < stop))
                records.append(kept + start)
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


def portion_of(n: int, bins: int, number: int, held: int = HELD) -> tuple[int, int]:
    """The bins that are drawn together with bin ``number``: first, and one past the last."""
    portions = min(bins, -(-n // held))
    size = -(-bins // portions)
    first = number // size * size
    return first, min(first + size, bins)


def _once(indices: IntArray) -> Batch:
    return drawn(indices.astype(np.int64, copy=False), np.ones(indices.size, dtype=np.int64))
