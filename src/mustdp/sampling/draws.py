"""How batches are drawn: cost follows the batch, never n.

A multistage draw is made from its last stage backwards. The m draws of the last stage fall on the
slots of the stage before it; only the slots that were hit need to be filled, and each of them is
filled by one draw of that stage. So a slot nobody asked for costs nothing, and a batch of m draws
costs O(m) however large n and the stages in between are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mustdp.sampling.batch import Batch, IntArray
from mustdp.sampling.stage import Stage


def draw_poisson(n: int, rate: float, rng: np.random.Generator) -> Batch:
    """Binomial size, then that many records without replacement."""
    indices = _distinct(n, int(rng.binomial(n, rate)), rng)
    return Batch(indices, np.ones(indices.size, dtype=np.int64))


def draw_stages(n: int, stages: Sequence[Stage], rng: np.random.Generator) -> Batch:
    """Draw reduced stages: at most one ``wor`` in front, any number of ``wr`` after it."""
    sources = [n, *(stage.size for stage in stages[:-1])]
    counts = np.ones(stages[-1].size, dtype=np.int64)
    indices = np.empty(0, dtype=np.int64)
    for stage, slots in zip(reversed(stages), reversed(sources), strict=True):
        if stage.kind == "wor":
            # The counts are exchangeable over the slots, so any order of the records will do.
            return Batch(_distinct(slots, counts.size, rng), counts)
        indices, counts = _merge(rng.integers(slots, size=counts.size), counts, slots)
    return Batch(indices, counts)


def _distinct(n: int, size: int, rng: np.random.Generator) -> IntArray:
    return rng.choice(n, size, replace=False, shuffle=False).astype(np.int64, copy=False)


def _merge(hits: IntArray, counts: IntArray, slots: int) -> tuple[IntArray, IntArray]:
    """Add up the counts of equal hits."""
    if slots <= 4 * hits.size:
        totals = np.bincount(hits, weights=counts, minlength=slots).astype(np.int64)
        occupied = np.flatnonzero(totals)
        return occupied, totals[occupied]
    distinct, inverse = np.unique(hits, return_inverse=True)
    return distinct, np.bincount(inverse, weights=counts).astype(np.int64)
