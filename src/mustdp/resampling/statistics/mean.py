"""The mean of a column, and of its squares, which tell the mean's sampling error.

On multisets of a fixed size the square of the scaled value u in [-1, 1] is released beside it; by
``moments.py`` the mean then costs what it costs alone. With N_1 and N_2 the variances of the noise
in the averages of u and u^2,

    S^2 = (average of u^2) - (average of u)^2 + N_1,    error^2 = N_2 + 4 (average of u)^2 N_1,

which is far more precise than the spread of noisy replicates. Rare values have an error of their
own (``reading.py``): an influence is at most 1 + |average of u|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.statistics.average import Amount, AverageQuery
from mustdp.resampling.statistics.moments import MomentQuery
from mustdp.resampling.statistics.public import Public, Shape
from mustdp.resampling.statistics.query import Averaged, Query
from mustdp.resampling.statistics.reading import (
    RARE,
    Reading,
    Spread,
    known,
    rare_error,
    symmetric,
)
from mustdp.resampling.statistics.statistic import Statistic


@dataclass(frozen=True)
class Value(Amount):
    """The value of the first column, measured from the midpoint of its range."""

    mid: float
    half: float

    def centred(self, values: FloatArray) -> FloatArray:
        """The values minus the midpoint."""
        found: FloatArray = values[:, 0] - self.mid
        return found


@dataclass(frozen=True)
class MeanQuery(MomentQuery):
    """The mean of one column, its square released beside it."""

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """The range of the column."""
        return ((self.public.ranges[0].lower, self.public.ranges[0].upper),)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """In the column's units; not forced into its range, so that averages stay unbiased."""
        column = self.public.ranges[0]
        found: FloatArray = column.mid + column.half * self.moments(vectors)[0]
        return found

    def known(self, at: Averaged, level: float) -> tuple[Reading | None, ...]:
        """By the squares."""
        (mean, square), noise = at.vector, at.noise
        half2 = self.public.ranges[0].half ** 2
        # The square of an average is too large by the variance of that average.
        influence = float(square - mean**2 + noise[0]) / max(1.0 - at.factor, 0.5)
        doubt = float(noise[1] + 4.0 * mean**2 * noise[0])
        error = math.sqrt(doubt + 2.0 * max(influence, 0.0) ** 2 * at.factor)
        largest = 1.0 + min(abs(float(mean)), 1.0)
        own = known(influence, error, 1.0, at.factor, float(noise[0]), largest)
        few = own.drowned and influence < rare_error(influence, largest, at.factor)
        spread = Spread(
            half2 * own.sampling, half2 * own.noise, own.degrees_of_freedom, own.drowned
        )
        value = float(self.estimate(at.vector)[0])
        reading = symmetric(value, spread, level, self.possible[0])
        return (replace(reading, flags=(*reading.flags, *((RARE,) if few else ()))),)


@dataclass(frozen=True)
class Mean(Statistic):
    """The mean of one column.

    Reach (proof in ``average.py``, with half = (upper - lower) / 2 and values measured from the
    midpoint): on multisets of m entries, swapping one entry moves the mean by at most (upper -
    lower) / m, and two opposite ends attain it, so the reach is (upper - lower) / (2m); released is
    the scaled mean, in [-1, 1], with reach 1/m. On Poisson subsets of expected size M one copy adds
    at most (upper - lower) / (2M) to the sum and 1/M to the size; both are released, enlarged to
    share one noise multiplier.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    squares : bool, default=True
        Whether squares are released beside the mean, which costs what it costs alone and then
        tells its sampling error; on Poisson subsets they are not.

    Examples
    --------
    >>> [block.label for block in Mean().query(Public([0.0], [10.0], 20)).blocks]
    ['means', 'squares']
    >>> Mean(squares=False).query(Public([0.0], [10.0], 20)).blocks
    (Block(label='mean', width=1, reach=0.25),)
    """

    columns: tuple[str | int, ...] | None = None
    squares: bool = True
    name = "mean"

    def shape(self, poisson: bool) -> Shape:
        """One number, unless squares (of a fixed size) or sizes (Poisson) are released with it."""
        alone = not (self.squares or poisson)
        return Shape(in_a_ball=alone or poisson, one_number=alone)

    def _on(self, public: Public) -> Query:
        if self.squares and not public.poisson:
            return MeanQuery(public, (0,), (self.name,))
        (column,) = public.ranges
        return AverageQuery(public, Value(column.mid, column.half), self.name)
