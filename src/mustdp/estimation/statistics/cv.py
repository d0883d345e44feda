"""The coefficient of variation of a column: its standard deviation over its mean.

**Sensitivity.** What is released are the first two moments of the column; ``moments.py`` proves how
far one record moves them. They are those of ``mean``, ``variance`` and ``sd`` of the same column,
and are then paid for once.

**Estimator.** c = s / m, with s^2 the released variance and m the released mean. What is
differentiated is c^2 = s^2 / m^2, which stays smooth where s is 0; the interval is that of c^2, and
the root is taken of the value and both ends, as ``sd`` does. The delta method holds where m is
clear of its noise; elsewhere nothing is known, which the interval says.

**Variance.** To first order c^2 is off by the average of its influence,

    psi(x) = ((x - m)^2 - s^2) / m^2 - 2 c^2 (x - m) / m,

by what the noise gives along the gradient, plus the variance of psi over the number of records. In
one release a second round adds up psi^2; the bootstrap sees it in how its replicates differ.

**Support.** Of values in [L, U], L > 0, with mean m the variance is at most (m - L)(U - m) (Bhatia
& Davis 2000), and that over m^2 is largest at m = 2LU/(L + U): c^2 <= (U - L)^2 / (4LU).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.result import Interval, Support, root_interval
from mustdp.estimation.schema import Range
from mustdp.estimation.statistics.moments import AveragedMoments, MomentStatistic
from mustdp.estimation.statistics.statistic import register
from mustdp.numerics.arrays import FloatArray

#: A mean below this share of half its range is raised to it in single replicates.
_LEAST_MEAN = 1e-4


@register
@dataclass(frozen=True)
class CoefficientOfVariation(MomentStatistic):
    """The standard deviation of one column over its mean, which does not depend on the unit.

    The range must not reach below 0.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> from mustdp.estimation.schema import SubsetSchema
    >>> query = CoefficientOfVariation().query(SubsetSchema([1.0], [4.0], 20))
    >>> [block.label for block in query.blocks], query.supports
    (['means', 'squares'], ((0.0, 0.75),))
    """

    columns: tuple[str | int, ...] | None = None
    name = "cv"
    label = "coefficient of variation"
    about = "the standard deviation over the mean, of a range not below 0"
    unbiased = True
    hidden = (
        "the noise leaves open whether the mean that is divided by is above 0: the interval is "
        "the whole possible range"
    )

    def smooth(self, at: AveragedMoments) -> FloatArray:
        """The square; NaN where the mean is not positive."""
        mean = at.centres[..., :1]
        variance = at.covariances[..., 0] * at.halves[0] ** 2
        return np.asarray(variance / np.where(mean > 0.0, mean, np.nan) ** 2)

    def estimate(self, at: AveragedMoments) -> FloatArray:
        """The root, of a variance that is not negative and a mean that is not too small."""
        mean = np.maximum(at.centres[..., :1], _LEAST_MEAN * at.halves[0])
        variance = np.maximum(at.covariances[..., 0], 0.0) * at.halves[0] ** 2
        most = math.sqrt(self.support(at.ranges)[1])
        return np.asarray(np.minimum(np.sqrt(variance) / mean, most))

    def divisors(self, at: AveragedMoments) -> FloatArray:
        """The mean."""
        return at.centres

    def support(self, ranges: Sequence[Range]) -> Support:
        """Of the square, proved above; a mean of next to 0 leaves it open."""
        (column,) = ranges
        if not column.lower > 0.0:
            return (0.0, math.inf)
        return (0.0, column.width**2 / (4.0 * column.lower * column.upper))

    def transform(self, interval: Interval) -> Interval:
        """The root of the value and of both ends."""
        return root_interval(interval)

    def largest_influence(self, at: AveragedMoments) -> float:
        """At an end of the range, or where psi is least."""
        (column,) = at.ranges
        mean = max(float(at.centres[0]), _LEAST_MEAN * column.half)
        square = float(self.estimate(at)[0]) ** 2
        ends = (np.array([column.lower, column.upper]) - mean) / mean
        psi = ends**2 - square - 2.0 * square * ends
        return float(max(np.abs(psi).max(), square + square**2))

    def check_range(self, column: Range) -> None:
        """A mean that may be negative or 0 in the middle of its range divides nothing."""
        if not column.lower >= 0.0:
            raise InvalidParameter.refusing(
                "lower", f"must be at least 0 for {self.name}", f"{column.lower:g}"
            )
