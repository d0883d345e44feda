"""Two random halves of a subset, for statistics whose bias depends on its size.

All ways of cutting the entries in half have the same chance, whatever the entries are and in
whatever order they come; so the law of what is computed from halves depends on the multiset alone.
"""

from __future__ import annotations

import numpy as np

from mustdp.numerics.arrays import IntArray

#: The purpose of the generators of halves (``randomness/substreams.py``).
HALVES = 0x68616C66


def in_halves(counts: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """The counts of both halves; one entry is left out where their number is odd.

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
