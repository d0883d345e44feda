"""Statistics of Poisson subsets divided by their actual size, as the MUST paper computes them.

The size of a Poisson subset is random and depends on the records, so that no sensitivity of this
query is known here: what is released this way has no guarantee, and is labelled so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from mustdp.errors import NotCovered, NumericalFailure
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.query import Block, Halves, Query
from mustdp.resampling.statistics.statistic import Statistic


@dataclass(frozen=True)
class OfActualSize(Query):
    """A statistic on whatever size was drawn; the reach is that of the expected size."""

    statistic: Statistic
    public: Public
    blocks: tuple[Block, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        typical = self.reader
        if typical.halved:
            raise NotCovered(
                "function must be stated to be an average, with average=True, where subsets are "
                "divided by a random size"
            )
        blocks = tuple(replace(block, divisor=1.0, shift=0.0) for block in typical.blocks)
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "labels", typical.labels)

    @property
    def reader(self) -> Query:
        """The same on subsets of a fixed size, the expected one."""
        return _bound(self.statistic, self.public, round(self.public.size))

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The statistic of the subset as it is; a subset too small for it is a failure."""
        drawn = int(counts.sum())
        if drawn < 2:
            raise NumericalFailure("a Poisson subset of fewer than two records was drawn")
        return _bound(self.statistic, self.public, drawn).evaluate(values, counts)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """As on subsets of a fixed size."""
        return self.reader.estimate(vectors)


@lru_cache(maxsize=4096)
def _bound(statistic: Statistic, public: Public, size: int) -> Query:
    return statistic.query(public.fixed(size))
