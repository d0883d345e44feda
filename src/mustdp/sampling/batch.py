"""One draw: distinct record indices and how often each was drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustdp.numerics.checks import frozen

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """A multiset of records. ``indices`` are distinct, ``counts`` are at least one.

    The order of the indices carries no meaning. An empty batch is a valid batch.
    """

    indices: IntArray
    counts: IntArray

    def __post_init__(self) -> None:
        frozen(self.indices)
        frozen(self.counts)

    @property
    def size(self) -> int:
        """Number of draws, copies counted: the sum of the counts."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> int:
        """Number of distinct records."""
        return int(self.indices.size)

    def rows(self) -> IntArray:
        """The multiset written out: every index as often as it was drawn."""
        return np.repeat(self.indices, self.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        return np.array_equal(self.indices, other.indices) and np.array_equal(
            self.counts, other.counts
        )

    __hash__ = None  # type: ignore[assignment]
