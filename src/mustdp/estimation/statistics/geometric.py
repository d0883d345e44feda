"""The geometric mean of a column whose range is above 0: exp of the mean of the logarithms.

**Sensitivity.** A value x in [L, U], L > 0, is replaced by its logarithm, cut to [log L, log U];
the cut comes last, so that no rounding of the logarithm matters. What a record contributes then
depends on that record and on what is public, and is what it contributes to the mean of a column
with the public range [log L, log U]: radius and diameter in a release are those of ``Moments``,
reaches on subsets those of ``Mean``, both proved for all records in that range (``moments.py``,
``moments.py``). On averages, one record moves the mean of the logarithms by at most log(U/L)/n.

**Estimator.** g = exp(l), with l the noisy mean of the logarithms. Over strata it is exp of the
mean of the logarithms in the population, not an average of the strata's geometric means. Given an
unbiased and normal l of variance V, the median of exp(l) is right, and its mean too large by the
factor exp(V/2).

**Variance.** By the delta method, SE(g) = g SE(l); SE(l) is that of a mean (of sampling and of
noise), by squared influences where records have weights or come in clusters. The interval is that
of l, within [log L, log U], taken to exp: it covers as often as that of l, and lies in [L, U].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import (
    Averaged,
    BoundedSum,
    LinearQuery,
    NoiseCovariance,
    NoisySums,
    Piece,
    Query,
    QueryBlock,
)
from mustdp.estimation.result import Interval, Spread, Support
from mustdp.estimation.schema import PublicSchema, Range, Shape, SubsetSchema
from mustdp.estimation.statistics.moments import Mean
from mustdp.estimation.statistics.statistic import (
    SlotRelease,
    Statistic,
    StatisticRequest,
    register,
)
from mustdp.numerics.arrays import FloatArray, IntArray

#: Ends of intervals this close to an end of the range, relative to its length, are that end.
_ROUNDING = 1e-12


@register
@dataclass(frozen=True)
class GeometricMean(Statistic):
    """The geometric mean of one column, exp of the mean of the logarithms of the clipped values.

    The lower end of the range must be above 0. The noise grows with log(upper / lower).

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> query = GeometricMean().query(SubsetSchema([1.0], [100.0], 20))
    >>> [block.label for block in query.blocks], query.supports
    (['means', 'squares'], ((1.0, 100.0),))
    """

    columns: tuple[str | int, ...] | None = None
    name = "geometric-mean"
    about = "the geometric mean, of a range above 0"
    positive = True
    in_domains = True

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """The mean of the logarithms, taken to exp."""
        (own,) = columns
        scales = list(schema.columns)
        scales[own] = replace(scales[own], range=_log_range(scales[own].numeric))
        logs = Mean().bind(replace(schema, columns=tuple(scales)), columns)
        return ReleasedGeometricMean(schema, columns, logs)

    def shape(self, poisson: bool) -> Shape:
        """As the mean."""
        return Mean().shape(poisson)

    def _on(self, public: SubsetSchema) -> Query:
        (column,) = public.ranges
        logs = _log_range(column)
        on_logs = replace(public, lower=(logs.lower,), upper=(logs.upper,))
        query = Mean().query(on_logs)
        if not isinstance(query, LinearQuery):
            raise InvalidParameter("a mean must be a sum of contributions")
        return GeometricMeanQuery(public, query, logs)


def _log_range(column: Range) -> Range:
    """The range of the logarithms."""
    try:
        return Range(math.log(column.lower), math.log(column.upper))
    except InvalidParameter:
        raise InvalidParameter.refusing(
            "lower",
            "and {upper} must be farther apart in proportion for geometric-mean",
            f"lower={column.lower!r} and upper={column.upper!r}",
            mentions=("upper",),
        ) from None


def _logarithms(values: FloatArray, logs: Range) -> FloatArray:
    """Of clipped values; NaN where they are missing."""
    return np.clip(np.log(values), logs.lower, logs.upper)


def _exponentiated(found: Interval, logs: Range, column: Range) -> Interval:
    """From the logarithmic scale to that of the column, where the ends of the range are exact."""
    slack = _ROUNDING * logs.half

    def back(at: float) -> float:
        if at <= logs.lower + slack:
            return column.lower
        return column.upper if at >= logs.upper - slack else math.exp(at)

    low, high = found.ends
    ends = (back(low), back(high))
    if not found.known:
        return replace(found, ends=ends)
    value = back(found.value)
    return replace(found, value=value, standard_error=value * found.standard_error, ends=ends)


# One release on all records.


@dataclass(frozen=True)
class SumsOfLogarithms(BoundedSum):
    """What is added up about a column, with its logarithms in its place.

    ``inner`` is bound to the schema that has the range of the logarithms.
    """

    inner: BoundedSum
    schema: PublicSchema = field(init=False)
    columns: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.inner.schema)
        object.__setattr__(self, "columns", self.inner.columns)

    @property
    def width(self) -> int:
        """As for any column."""
        return self.inner.width

    @property
    def radius(self) -> float:
        """As for any column."""
        return self.inner.radius

    @property
    def diameter(self) -> float:
        """As for any column."""
        return self.inner.diameter

    def natural(self, vectors: FloatArray) -> FloatArray:
        """As for any column."""
        return self.inner.natural(vectors)

    @property
    def covariance(self) -> NoiseCovariance:
        """As for any column."""
        return self.inner.covariance

    def adds_to(self, grouping: int) -> bool:
        """As for any column."""
        return self.inner.adds_to(grouping)

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """Of the logarithms."""
        return self.inner.rows(_logarithms(values, self._logs), slots)

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """Of the logarithms, with weights and clusters as they are."""
        (own,) = self.columns
        values = piece.values.copy()
        values[:, own] = _logarithms(values[:, own], self._logs)
        return self.inner.sums(replace(piece, values=values), per_step)

    @property
    def _logs(self) -> Range:
        return self.schema.columns[self.columns[0]].numeric


@dataclass(frozen=True)
class ReleasedGeometricMean(StatisticRequest):
    """exp of a mean of logarithms; ``logs`` is the request for that mean."""

    logs: StatisticRequest

    @property
    def name(self) -> str:
        """In results."""
        return GeometricMean.name

    @property
    def sums(self) -> BoundedSum | None:
        """Those of the mean of the logarithms."""
        return None if self.logs.sums is None else SumsOfLogarithms(self.logs.sums)

    @property
    def support(self) -> Support:
        """The range."""
        column = self.schema.columns[self.columns[0]].numeric
        return (column.lower, column.upper)

    @property
    def two_rounds(self) -> bool:
        """As the mean."""
        return self.logs.two_rounds

    @property
    def weighted_errors(self) -> bool:
        """As the mean."""
        return self.logs.weighted_errors

    def second_sums(self, first: NoisySums, together: Sequence[StatisticRequest]) -> BoundedSum:
        """Squared influences on the mean of the logarithms."""
        return SumsOfLogarithms(self.logs.second_sums(first, (self.logs,)))

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """The mean of the logarithms, taken to exp."""
        return self._back(self.logs.read(self._of_logs(at)))

    def read_strata(self, slots: Sequence[SlotRelease]) -> Iterator[tuple[str, Interval]]:
        """exp comes after the average over the strata."""
        return self._back(self.logs.read_strata([self._of_logs(at) for at in slots]))

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """exp comes after the average over the strata."""
        slots = ([self._of_logs(at) for at in own] for own in (inside, strata))
        return self._back(self.logs.read_domain(*slots))

    def _of_logs(self, at: SlotRelease) -> SlotRelease:
        """What the request for the mean of the logarithms reads."""
        second = None if at.second is None else _unwrapped(at.second)
        return replace(at, schema=self.logs.schema, first=_unwrapped(at.first), second=second)

    def _back(self, found: Iterator[tuple[str, Interval]]) -> Iterator[tuple[str, Interval]]:
        own = self.columns[0]
        logs, column = self.logs.schema.columns[own].numeric, self.schema.columns[own].numeric
        for cell, interval in found:
            yield cell, _exponentiated(interval, logs, column)


def _unwrapped(noisy: NoisySums) -> NoisySums:
    part = noisy.part
    return replace(noisy, part=part.inner) if isinstance(part, SumsOfLogarithms) else noisy


# Random subsets.


@dataclass(frozen=True)
class GeometricMeanQuery(LinearQuery):
    """exp of the mean of the logarithms; ``mean`` is the query for that mean."""

    public: SubsetSchema
    mean: LinearQuery
    logs: Range
    blocks: tuple[QueryBlock, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", self.mean.blocks)
        object.__setattr__(self, "labels", (GeometricMean.name,))

    @property
    def in_a_ball(self) -> bool:
        """As for the mean."""
        return self.mean.in_a_ball

    def contributions(self, values: FloatArray) -> FloatArray:
        """Of the logarithms."""
        return self.mean.contributions(_logarithms(values, self.logs))

    @property
    def supports(self) -> tuple[Support, ...]:
        """The range."""
        (column,) = self.public.ranges
        return ((column.lower, column.upper),)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """Within the range."""
        logs = np.clip(self.mean.estimate(vectors), self.logs.lower, self.logs.upper)
        return np.clip(np.exp(logs), *self.supports[0])

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """The mean of the logarithms."""
        return self.mean.smooth(vectors)

    def largest(self, vector: FloatArray) -> float:
        """On the mean of the logarithms."""
        return self.mean.largest(vector)

    def interval(self, place: int, value: float, spread: Spread, level: float) -> Interval:
        """That of the mean of the logarithms, taken to exp."""
        return self._back(self.mean.interval(place, value, spread, level))

    def known(self, at: Averaged, level: float) -> tuple[Interval | None, ...]:
        """By the squares of the logarithms, where they are released."""
        found = self.mean.known(at, level)
        return tuple(None if one is None else self._back(one) for one in found)

    def cautions(self, at: Averaged, grouped: FloatArray) -> tuple[str, ...]:
        """Those of the mean."""
        return self.mean.cautions(at, grouped)

    def _back(self, found: Interval) -> Interval:
        return _exponentiated(found, self.logs, self.public.ranges[0])
