"""The ratio of the totals of two columns.

**Sensitivity.** What is released are the moments of both columns; ``moments.py`` proves how far one
record moves them. Their means alone would cost a diameter of 2 sqrt(2) where the moments of two
columns have 3, and the moments are those that a covariance or a correlation of the same columns is
read off, too, and are then paid for once.

**Estimator.** r = mean(x) / mean(y): the number of records cancels. In the noisy averages it is a
ratio, so that the delta method holds where the mean of y is clear of its noise; elsewhere nothing
is known, which the interval says.

**Variance.** To first order r is off by the average of its influence psi = (x - r y) / mean(y): by
what the noise gives along the gradient, plus the variance of psi over the number of records
(Cochran 1977, section 2.11). In one release a second round adds up psi^2; the bootstrap sees it in
how its replicates differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import Query
from mustdp.estimation.result import Support
from mustdp.estimation.schema import PublicSchema, Range, SubsetSchema
from mustdp.estimation.statistics.moments import AveragedMoments, MomentStatistic
from mustdp.estimation.statistics.statistic import StatisticRequest, register
from mustdp.numerics.arrays import FloatArray

#: A mean below this share of half its range is raised to it in single replicates.
_LEAST_MEAN = 1e-4


@register
@dataclass(frozen=True)
class Ratio(MomentStatistic):
    """The total of one column over the total of another, such as spending per hour worked.

    The second column must not be negative.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given. The first is
        divided by the second.

    Examples
    --------
    >>> query = Ratio().query(SubsetSchema([0.0, 1.0], [10.0, 3.0], 20))
    >>> [block.label for block in query.blocks], query.supports
    (['means', 'products'], ((0.0, 10.0),))
    """

    columns: tuple[str | int, ...] | None = None
    name = "ratio"
    about = "the total of the first column over that of the second"
    fewest = most = 2
    hidden = (
        "the noise leaves open whether the total that is divided by is above 0: the interval is "
        "the whole possible range"
    )

    def smooth(self, at: AveragedMoments) -> FloatArray:
        """NaN where the mean that is divided by is not positive."""
        top, bottom = at.centres[..., :1], at.centres[..., 1:]
        return np.asarray(top / np.where(bottom > 0.0, bottom, np.nan))

    def estimate(self, at: AveragedMoments) -> FloatArray:
        """Within what it can be."""
        least = _LEAST_MEAN * at.ranges[1].half
        ratio = at.centres[..., :1] / np.maximum(at.centres[..., 1:], least)
        return np.clip(ratio, *self.support(at.ranges))

    def divisors(self, at: AveragedMoments) -> FloatArray:
        """The mean of the second column."""
        return at.centres[..., 1:]

    def support(self, ranges: Sequence[Range]) -> Support:
        """That of values at the ends of the ranges; a total of next to 0 leaves it open."""
        top, bottom = ranges
        if bottom.lower > 0.0:
            ends = [x / y for x in (top.lower, top.upper) for y in (bottom.lower, bottom.upper)]
            return (min(ends), max(ends))
        return (0.0 if top.lower >= 0.0 else -np.inf, 0.0 if top.upper <= 0.0 else np.inf)

    def largest_influence(self, at: AveragedMoments) -> float:
        """That of a record at a corner of both ranges."""
        top, bottom = at.ranges
        ratio = float(self.estimate(at)[0])
        corners = [x - ratio * y for x in (top.lower, top.upper)
                   for y in (bottom.lower, bottom.upper)]  # fmt: skip
        least = _LEAST_MEAN * bottom.half
        return max(map(abs, corners)) / max(float(at.centres[1]), least)

    def squared_columns(self, columns: int) -> tuple[int, ...]:
        """None."""
        return ()

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """With a second column that is not negative."""
        self._check([schema.columns[k].numeric for k in columns])
        return super().bind(schema, columns)

    def _on(self, public: SubsetSchema) -> Query:
        self._check(public.ranges)
        return super()._on(public)

    def _check(self, ranges: Sequence[Range]) -> None:
        if not ranges[1].lower >= 0.0:
            raise InvalidParameter.refusing(
                "lower",
                "of the second column of a ratio must be at least 0",
                f"{ranges[1].lower:g}",
            )
