"""Which records a model is tried on for separation: before the first step, and again on the way.

The records are drawn at random, in two numbers that are primes, so that a layer whose first
dimension is something else than the record cannot pass for one that counts records in both. In
training the records of the batches 1, 2, 4, 8, ... are tried: a model may mix records only where
the data has something that the first trials did not show.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from mustdp.randomness.keys import BatchKey
from mustdp.randomness.substreams import Substreams
from mustdp.training.networks.clipping import Scales, Trial
from mustdp.training.networks.records import Records

TRIALS = 0x74726961
#: Records in the trials before the first step; the last number is also that of later ones.
SIZES = (5, 7)


class Trials:
    """Draws the records of trials, each from a stream of its own."""

    def __init__(self, records: Records, key: BatchKey, rank: int = 0) -> None:
        self._records = records
        self._generators = Substreams(key, TRIALS, (rank,))

    def at_first(self) -> list[Trial]:
        """Records from all of the data."""
        everything = np.arange(self._records.n)
        rng = self._generators.at(0)
        return [self._trial(everything, size, rng) for size in SIZES]

    @staticmethod
    def due(step: int) -> bool:
        """Whether a step, the first one being 0, is one of those that are tried."""
        return step & (step + 1) == 0

    def of_batch(self, step: int, indices: NDArray[np.int64]) -> Trial:
        """A few records of this step's batch, which must not be empty."""
        return self._trial(indices, SIZES[-1], self._generators.at(step + 1))

    def scales(self, step: int) -> Scales:
        """Factors 1, 2, 4 or 8, at random, for so many records."""
        rng = self._generators.at(step + 1)
        return lambda rows: torch.tensor(2.0 ** rng.integers(4, size=rows))

    def _trial(self, among: NDArray[np.int64], size: int, rng: np.random.Generator) -> Trial:
        chosen, beside = rng.choice(among, (2, size))
        beside[::2] = chosen[::2]
        return Trial(self._records.take(chosen), self._records.take(beside))
