"""How batches are drawn: cost follows the batch, never n.

A multistage draw is made from its last stage backwards. The m draws of the last stage fall on the
slots of the stage before it; only the slots that were hit need to be filled, and each of them is
filled by one draw of that stage. So a slot nobody asked for costs nothing, and a batch of m draws
costs O(min(m, slots)) however large n and the stages in between are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import IntArray
from mustdp.sampling.batch import Batch, drawn
from mustdp.sampling.occupancy import LARGEST_TRIALS, gather, throw
from mustdp.sampling.stage import Stage

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
        indices, _ = throw(int(rng.poisson(-n * math.log1p(-rate))), n, rng)
    return drawn(indices, np.ones(indices.size, dtype=np.int64))


def draw_stages(n: int, stages: Sequence[Stage], rng: np.random.Generator) -> Batch:
    """Draw reduced stages: at most one ``wor`` in front, any number of ``wr`` after it."""
    last = len(stages) - 1
    slots = stages[last - 1].size if last else n
    check_held(stages[last].size, slots)
    if stages[last].kind == "wor":
        indices = choose(n, stages[last].size, rng)
        return drawn(indices, np.ones(indices.size, dtype=np.int64))
    indices, counts = throw(stages[last].size, slots, rng)
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
