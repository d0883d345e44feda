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
from mustdp.resampling.statistics.query import Averaged, Block, Query, Statistic
from mustdp.resampling.statistics.reading import Reading, Spread


@dataclass(frozen=True)
class OfActualSize(Query):
    """A statistic on whatever size was drawn; the reach is that of the expected size."""

    statistic: Statistic
    public: Public
    blocks: tuple[Block, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        typical = self._typical
        if typical.halved:
            raise NotCovered(
                "function must be stated to be an average, with average=True, where subsets are "
                "divided by a random size"
            )
        blocks = tuple(replace(block, divisor=1.0, shift=0.0) for block in typical.blocks)
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "labels", typical.labels)

    @property
    def paired(self) -> tuple[bool, ...]:
        """As on subsets of a fixed size."""
        return self._typical.paired

    def total(self, values: FloatArray, counts: IntArray) -> FloatArray:
        """The statistic of the subset as it is; a subset too small for it is a failure."""
        drawn = int(counts.sum())
        if drawn < 2:
            raise NumericalFailure("a Poisson subset of fewer than two records was drawn")
        return _bound(self.statistic, self.public, drawn).evaluate(values, counts)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """As on subsets of a fixed size."""
        return self._typical.estimate(vectors)

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """As on subsets of a fixed size."""
        return self._typical.possible

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """As on subsets of a fixed size."""
        return self._typical.smooth(vectors)

    def divided_by(self, vectors: FloatArray) -> FloatArray:
        """As on subsets of a fixed size."""
        return self._typical.divided_by(vectors)

    def read(self, place: int, value: float, spread: Spread, level: float) -> Reading:
        """As on subsets of a fixed size."""
        return self._typical.read(place, value, spread, level)

    def known(self, at: Averaged, level: float) -> tuple[Reading | None, ...]:
        """As on subsets of a fixed size."""
        return self._typical.known(at, level)

    @property
    def _typical(self) -> Query:
        return _bound(self.statistic, self.public, round(self.public.size))


@lru_cache(maxsize=4096)
def _bound(statistic: Statistic, public: Public, size: int) -> Query:
    return statistic.query(public.fixed(size))
