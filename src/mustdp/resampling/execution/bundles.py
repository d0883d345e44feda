"""Subsets read together: as many as memory allows, so that a file is passed over seldom.

Reading a few rows of a file costs about as much as reading many, since the rows drawn are all over
the file. So the distinct rows of a *bundle* of neighbouring subsets are read at once and handed out
from memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.sampling.batch import Batch

#: Values (rows times columns) of one bundle.
MOST_VALUES = 2_000_000
#: Indices of one bundle, a row counted for every subset that holds it: 128 MB with the counts.
MOST_ENTRIES = 8_000_000


class Bundle(NamedTuple):
    """Subsets with their ranks, and the distinct rows of all of them in increasing order."""

    batches: list[tuple[int, Batch]]
    rows: IntArray


def in_bundles(draws: Iterable[tuple[int, Batch]], columns: int) -> Iterator[Bundle]:
    """Cut the draws into bundles; a subset that is too large for a bundle is one by itself."""
    most_rows = max(1, MOST_VALUES // columns)
    batches: list[tuple[int, Batch]] = []
    rows, new, fresh, entries = _none(), [_none()], 0, 0
    for rank, batch in draws:
        indices = batch.indices
        if batches and rows.size + fresh + indices.size > most_rows:
            rows, new, fresh = np.unique(np.concatenate([rows, *new])), [], 0
            full = rows.size + indices.size > most_rows
            if full and np.union1d(rows, indices).size > most_rows:
                entries = MOST_ENTRIES
        if batches and entries + indices.size > MOST_ENTRIES:
            yield Bundle(batches, np.unique(np.concatenate([rows, *new])))
            batches, rows, new, fresh, entries = [], _none(), [], 0, 0
        batches.append((rank, batch))
        new.append(indices)
        fresh += indices.size
        entries += indices.size
    if batches:
        yield Bundle(batches, np.unique(np.concatenate([rows, *new])))


def handed_out(rows: IntArray, values: FloatArray, batch: Batch) -> FloatArray:
    """The values of one subset from those of a bundle.

    A row that the bundle lacks is an error, never another row: a cluster whose workers have
    different versions of numpy could otherwise draw one thing and read another.
    """
    places = np.searchsorted(rows, batch.indices)
    if places.size and not (
        places.max() < rows.size and np.array_equal(rows[places], batch.indices)
    ):
        raise NumericalFailure(
            "a subset that was drawn twice came out differently; all workers must have the same "
            "versions of numpy and mustdp"
        )
    return values.take(places, axis=0)


def _none() -> IntArray:
    return np.empty(0, dtype=np.int64)
