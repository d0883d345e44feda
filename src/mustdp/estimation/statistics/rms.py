"""The root mean square of a column, such as of errors or of speeds.

**Sensitivity.** What is released are the first two moments of the column; ``moments.py`` proves how
far one record moves them. They are those of ``mean``, ``variance`` and ``sd`` of the same column,
and are then paid for once.

**Estimator.** With the values x = c + h u, u in [-1, 1], the mean square is
q = c^2 + 2 c h mean(u) + h^2 mean(u^2). It is linear in what is released; the interval is that of
q, and the root is taken of the value and both ends, as ``sd`` does.

**Variance.** q is off by the average of its influence psi(x) = x^2 - q, exactly: by what the noise
gives along the gradient, plus the variance of psi over the number of records. In one release a
second round adds up psi^2; the bootstrap sees it in how its replicates differ.

**Support.** q is between the smallest and the largest square of a value in the range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.estimation.result import Interval, Support, root_interval
from mustdp.estimation.schema import Range
from mustdp.estimation.statistics.moments import AveragedMoments, MomentStatistic
from mustdp.estimation.statistics.statistic import register
from mustdp.numerics.arrays import FloatArray


@register
@dataclass(frozen=True)
class RootMeanSquare(MomentStatistic):
    """The root of the mean square of one column.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> from mustdp.estimation.schema import SubsetSchema
    >>> query = RootMeanSquare().query(SubsetSchema([-1.0], [4.0], 20))
    >>> [block.label for block in query.blocks], query.supports
    (['means', 'squares'], ((0.0, 4.0),))
    """

    columns: tuple[str | int, ...] | None = None
    name = "rms"
    label = "root mean square"
    about = "the root of the mean square"

    def smooth(self, at: AveragedMoments) -> FloatArray:
        """The mean square."""
        mid, half = at.mids[0], at.halves[0]
        square = at.second[..., 0, 0] * half**2
        return np.asarray(mid**2 + 2.0 * mid * half * at.means[..., 0] + square)[..., None]

    def estimate(self, at: AveragedMoments) -> FloatArray:
        """The root, of a mean square that is brought to what it can be."""
        return np.sqrt(np.clip(self.smooth(at), *self.support(at.ranges)))

    def support(self, ranges: Sequence[Range]) -> Support:
        """Of the mean square."""
        (column,) = ranges
        low, high = sorted((column.lower**2, column.upper**2))
        return (0.0 if column.lower <= 0.0 <= column.upper else low, high)

    def transform(self, interval: Interval) -> Interval:
        """The root of the value and of both ends."""
        return root_interval(interval)

    def largest_influence(self, at: AveragedMoments) -> float:
        """That of the largest or of the smallest square."""
        low, high = self.support(at.ranges)
        square = float(self.estimate(at)[0]) ** 2
        return max(high - square, square - low)
