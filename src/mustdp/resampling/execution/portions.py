"""Portions: runs of neighbouring releases that one process computes, and how it does so.

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
from mustdp.randomness.keys import BatchKey, batch_key
from mustdp.randomness.substreams import Substreams
from mustdp.resampling.designs import Design
from mustdp.resampling.execution.bundles import (
    MOST_ENTRIES,
    MOST_VALUES,
    handed_out,
    in_bundles,
)
from mustdp.resampling.execution.halves import HALVES, in_halves
from mustdp.resampling.execution.table import ClippedTable, SourceOrTable, taken
from mustdp.resampling.execution.threads import one_blas_thread
from mustdp.resampling.statistics.query import Query
from mustdp.sampling.scheme import Multistage

#: More portions than this give no more workers something to do, and progress is fine enough.
_MOST_PORTIONS = 64
#: So many portions, if of so many releases, are made of little work too: a query may be slow.
_SOME_PORTIONS, _SOME_RELEASES = 16, 8
#: Work of a portion for which a task is always worth its overhead; see :func:`_work`.
_LEAST_WORK = 2_000_000
#: What drawing and evaluating a subset costs before its first value.
_PER_SUBSET = 1_000


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

    def portion(self, source: SourceOrTable, portion: Portion) -> FloatArray:
        """The totals of one portion."""
        return evaluate_portion(
            source, self.design, self.query, self.key, *portion, self.lower, self.upper
        )


def cut(design: Design, columns: int, *, by_work: bool, by_rows: bool) -> tuple[Portion, ...]:
    """Cut the releases into portions of whole groups.

    ``by_work``: into portions worth a task each. ``by_rows``: into portions whose rows can be held
    at once, as far as groups allow. A file is cut by rows alone: every portion goes through it.
    """
    reuse, count = _reuse(design), 1
    if by_work:
        some = min(_SOME_PORTIONS, design.releases // _SOME_RELEASES)
        count = max(some, min(_MOST_PORTIONS, math.ceil(_work(design, columns) / _LEAST_WORK)))
    if by_rows:
        distinct = design.scheme.expected_distinct
        entries = reuse * distinct
        rows = entries if reuse == 1 else min(entries, _first_stage(design))
        filled = max(rows * columns / MOST_VALUES, entries / MOST_ENTRIES)
        count = max(count, math.ceil(design.groups * filled))
    count = min(max(count, 1), design.groups)
    edges = [design.groups * k // count * reuse for k in range(count + 1)]
    return tuple(Portion(*pair) for pair in pairwise(edges))


def evaluate_portion(
    source: SourceOrTable,
    design: Design,
    query: Query,
    key: int | BatchKey,
    start: int,
    stop: int,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray:
    """The exact totals ``(stop - start, width)`` of the releases start to stop - 1.

    A pure function: computed again, elsewhere, it gives the same answer.
    """
    multisets = _multisets(source, design, key, start, stop, lower, upper)
    return evaluated(multisets, query, start, stop, batch_key(key))


def evaluated(
    multisets: Iterator[tuple[int, FloatArray, IntArray]],
    query: Query,
    start: int,
    stop: int,
    key: BatchKey,
) -> FloatArray:
    """The totals of multisets ``(rank, values, counts)`` that come in the order of ranks."""
    total, shape = query.total, (query.width,)
    halves = Substreams(key, HALVES) if query.halved else None
    totals = np.empty((stop - start, query.width))
    expected = start
    with one_blas_thread():
        for rank, values, counts in multisets:
            if halves is None:
                found = total(values, counts)
            else:
                found = query.total_in_halves(values, counts, in_halves(counts, halves.at(rank)))
            if rank != expected or rank >= stop:
                break
            if getattr(found, "shape", None) != shape:
                raise InvalidParameter(
                    f"query must give an array of {shape[0]} numbers for each subset, "
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
        raise NumericalFailure("the query gave NaN or infinity on a subset; nothing is released")
    return totals


def _multisets(
    source: SourceOrTable,
    design: Design,
    key: int | BatchKey,
    start: int,
    stop: int,
    lower: FloatArray,
    upper: FloatArray,
) -> Iterator[tuple[int, FloatArray, IntArray]]:
    """Every subset with its clipped values, by the way that suits the source."""
    draws = design.draws(key, start, stop)
    if isinstance(source, ClippedTable):
        take = source.plain.take
        for rank, batch in draws:
            yield rank, take(batch.indices, 0), batch.counts
    elif source.rows_in_memory:
        for rank, batch in draws:
            yield rank, taken(source, batch.indices, lower, upper), batch.counts
    else:
        for bundle in in_bundles(draws, lower.size):
            values = taken(source, bundle.rows, lower, upper)
            for rank, batch in bundle.batches:
                yield rank, handed_out(bundle.rows, values, batch), batch.counts


def _work(design: Design, columns: int) -> float:
    """A rough cost of a design on data in memory; one unit is about twenty nanoseconds."""
    subset = _PER_SUBSET + design.scheme.expected_distinct * columns
    return design.releases * subset + design.groups * _first_stage(design)


def _reuse(design: Design) -> int:
    reuse, left = divmod(design.releases, design.groups)
    if left:
        raise InvalidParameter(
            f"design must have equally many releases in each of its {design.groups} groups, "
            f"got {design.releases} releases"
        )
    return reuse


def _first_stage(design: Design) -> float:
    """Entries of a first-stage subset; 0 where there is but one stage."""
    scheme = design.scheme
    if isinstance(scheme, Multistage) and len(scheme.stages) > 1:
        return float(scheme.stages[0].size)
    return 0.0
