"""The mean of a column."""

from __future__ import annotations

from dataclasses import dataclass

from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.statistics.average import Amount, AverageQuery
from mustdp.resampling.statistics.columns import OfColumns
from mustdp.resampling.statistics.public import Public, Range
from mustdp.resampling.statistics.query import Query


@dataclass(frozen=True)
class Value(Amount):
    """The value of the first column, measured from the midpoint of its range."""

    mid: float
    half: float

    @classmethod
    def within(cls, column: Range) -> Value:
        """The value of a column that is clipped to this range."""
        return cls(column.mid, column.half)

    def centred(self, values: FloatArray) -> FloatArray:
        """The values minus the midpoint."""
        found: FloatArray = values[:, 0] - self.mid
        return found


@dataclass(frozen=True)
class Mean(OfColumns):
    """The mean of one column.

    Reach (proof in ``average.py``, with half = (upper - lower) / 2 and values measured from the
    midpoint): on multisets of m entries, swapping one entry moves the mean by at most (upper -
    lower) / m, and two opposite ends attain it, so the reach is (upper - lower) / (2m). On
    Poisson subsets of expected size M one copy adds at most (upper - lower) / (2M) to the sum and
    1/M to the size; both are released, enlarged to share one noise multiplier.

    >>> Mean().query(Public([0.0], [10.0], 20)).blocks
    (Block(label='mean', width=1, reach=0.25),)
    """

    columns: tuple[str | int, ...] | None = None
    name = "mean"

    def _on(self, public: Public) -> Query:
        return AverageQuery(public, Value.within(public.ranges[0]), self.name)
