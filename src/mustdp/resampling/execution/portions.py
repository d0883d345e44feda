"""Portions: runs of neighbouring releases that one process computes, how, and all of them again.

Portions are cut where a new first-stage subset begins, so that each of these is drawn once. The cut
depends on the design and on where the data are, never on the number of workers; and since a subset
depends on the seed and its rank alone, neither does any result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.progress import Progress
from mustdp.randomness.keys import BatchKey
from mustdp.randomness.substreams import Substreams
from mustdp.resampling.designs import Design
from mustdp.resampling.execution.bundles import (
    MOST_ENTRIES,
    MOST_VALUES,
    handed_out,
    in_bundles,
)
from mustdp.resampling.execution.table import ClippedTable, SourceOrTable, taken
from mustdp.resampling.execution.threads import one_blas_thread
from mustdp.resampling.statistics.query import Query
from mustdp.sampling.batch import Batch
from mustdp.sampling.scheme import Multistage

#: More portions than this give no more workers something to do, and progress is fine enough.
_MOST_PORTIONS = 64
#: So many portions, if of so many releases, are made of little work too: a query may be slow.
_SOME_PORTIONS, _SOME_RELEASES = 16, 8
#: Work of a portion for which a task is always worth its overhead; see :func:`_work`.
_LEAST_WORK = 2_000_000
#: What drawing and evaluating a subset costs before its first value.
_PER_SUBSET = 1_000


#: The purpose of the generators of halves (``randomness/substreams.py``).
HALVES = 0x68616C66

#: The rank of a subset, its clipped values, and how often each was drawn.
Multiset = tuple[int, FloatArray, IntArray]


class Portion(NamedTuple):
    """The releases ``start`` to ``stop - 1``."""

    start: int
    stop: int


@dataclass(frozen=True, eq=False, repr=False)
class Job:
    """What is computed, for every portion alike. The key is in it: it is not to be printed."""

    design: Design
    query: Query
    key: BatchKey
    lower: FloatArray
    upper: FloatArray

    def draws(self, portion: Portion) -> Iterator[tuple[int, Batch]]:
        """The subsets of a portion with their ranks."""
        return self.design.draws(self.key, *portion)

    def portion(self, source: SourceOrTable, portion: Portion) -> FloatArray:
        """The exact totals ``(releases, width)`` of a portion, by the way that suits the source.

        A pure function: computed again, elsewhere, it gives the same answer.
        """
        return self.totals(self._multisets(source, portion), portion)

    def totals(self, multisets: Iterator[Multiset], portion: Portion) -> FloatArray:
        """The totals of the multisets of a portion, which come in the order of ranks."""
        query, (start, stop) = self.query, portion
        halves = Substreams(self.key, HALVES) if query.halved else None
        totals = np.empty((stop - start, query.width))
        expected = start
        with one_blas_thread():
            for rank, values, counts in multisets:
                both = None if halves is None else in_halves(counts, halves.at(rank))
                found = query.total(values, counts, both)
                if rank != expected or rank >= stop:
                    break
                if getattr(found, "shape", None) != (query.width,):
                    raise InvalidParameter(
                        f"query must give an array of {query.width} numbers for each subset, "
                        f"got {type(found).__name__} of shape {np.shape(found)}"
                    )
                totals[rank - start] = found
                expected += 1
        if expected != stop:
            raise NumericalFailure(
                f"the releases {start} to {stop - 1} must be drawn once each and in order; "
                f"number {expected} was not"
            )
        if not np.isfinite(totals).all():
            raise NumericalFailure(
                "the query gave NaN or infinity on a subset; nothing is released"
            )
        return totals

    def _multisets(self, source: SourceOrTable, portion: Portion) -> Iterator[Multiset]:
        draws = self.draws(portion)
        if isinstance(source, ClippedTable):
            take = source.plain.take
            for rank, batch in draws:
                yield rank, take(batch.indices, 0), batch.counts
        elif source.rows_in_memory:
            for rank, batch in draws:
                yield rank, taken(source, batch.indices, self.lower, self.upper), batch.counts
        else:
            for bundle in in_bundles(draws, self.lower.size):
                values = taken(source, bundle.rows, self.lower, self.upper)
                for rank, batch in bundle.batches:
                    yield rank, handed_out(bundle.rows, values, batch), batch.counts


def in_halves(counts: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """The counts of two random halves of a subset, for statistics whose bias depends on its size.

    All ways of cutting the entries in half have the same chance, whatever the entries are and in
    whatever order they come; so the law of what is computed from halves depends on the multiset
    alone. One entry is left out where their number is odd.

    >>> first, second = in_halves(np.array([3, 1, 2]), np.random.default_rng(1))
    >>> (first + second).tolist(), int(first.sum())
    ([3, 1, 2], 3)
    """
    entries = np.repeat(np.arange(counts.size), counts)
    rng.shuffle(entries)
    half = entries.size // 2
    first, second = (
        np.bincount(part, minlength=counts.size).astype(np.int64)
        for part in (entries[:half], entries[half : 2 * half])
    )
    return first, second


class Collected:
    """Room for all totals in the order of ranks; a portion that comes again changes nothing."""

    def __init__(
        self, portions: tuple[Portion, ...], width: int, progress: Progress | None
    ) -> None:
        self._missing = dict.fromkeys(portions)
        self._totals = np.full((portions[-1].stop, width), np.nan)
        self._done = 0
        self._progress = progress

    @property
    def missing(self) -> tuple[Portion, ...]:
        """The portions that have not come yet, in the order of ranks."""
        return tuple(self._missing)

    def add(self, portion: Portion, totals: FloatArray) -> None:
        """Take a portion in and report the progress."""
        if portion not in self._missing:
            return
        self._totals[portion.start : portion.stop] = totals
        del self._missing[portion]
        self._done += portion.stop - portion.start
        if self._progress is not None:
            self._progress("releases", self._done, len(self._totals))

    def totals(self) -> FloatArray:
        """All totals; an error while any portion is missing."""
        if self._missing:
            raise NumericalFailure(
                f"{len(self._missing)} portions of the releases were never computed"
            )
        return self._totals


def cut(design: Design, columns: int, *, by_work: bool, by_rows: bool) -> tuple[Portion, ...]:
    """Cut the releases into portions of whole groups.

    ``by_work``: into portions worth a task each. ``by_rows``: into portions whose rows can be held
    at once, as far as groups allow. A file is cut by rows alone: every portion goes through it.
    """
    reuse, groups, count = design.reuse, design.subsets, 1
    if by_work:
        some = min(_SOME_PORTIONS, design.releases // _SOME_RELEASES)
        count = max(some, min(_MOST_PORTIONS, math.ceil(_work(design, columns) / _LEAST_WORK)))
    if by_rows:
        distinct = design.scheme.expected_distinct
        entries = reuse * distinct
        rows = entries if reuse == 1 else min(entries, _first_stage(design))
        filled = max(rows * columns / MOST_VALUES, entries / MOST_ENTRIES)
        count = max(count, math.ceil(groups * filled))
    count = min(max(count, 1), groups)
    edges = [groups * k // count * reuse for k in range(count + 1)]
    return tuple(Portion(*pair) for pair in pairwise(edges))


def _work(design: Design, columns: int) -> float:
    """A rough cost of a design on data in memory; one unit is about twenty nanoseconds."""
    subset = _PER_SUBSET + design.scheme.expected_distinct * columns
    return design.releases * subset + design.subsets * _first_stage(design)


def _first_stage(design: Design) -> float:
    """Entries of a first-stage subset; 0 where there is but one stage."""
    scheme = design.scheme
    if isinstance(scheme, Multistage) and len(scheme.stages) > 1:
        return float(scheme.stages[0].size)
    return 0.0
