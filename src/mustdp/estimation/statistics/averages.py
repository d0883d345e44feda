"""The mean and the sum of a column, and averages of one bounded number per record."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.intervals import (
    RARE,
    Interval,
    Spread,
    Support,
    fieller_interval,
    rare_error,
    released_spread,
    spread_of_bounded,
    t_interval,
    vacuous_interval,
)
from mustdp.estimation.queries import (
    LEAST_SHARE,
    Averaged,
    BoundedSum,
    LinearQuery,
    Query,
    QueryBlock,
    block,
    enlarged,
)
from mustdp.estimation.schema import PublicSchema, Range, Shape, SubsetSchema
from mustdp.estimation.statistics.moments import (
    AveragedMoments,
    MomentQuery,
    MomentRequest,
    Moments,
    MomentStatistic,
)
from mustdp.estimation.statistics.statistic import (
    SlotRelease,
    Statistic,
    StatisticRequest,
    register,
)
from mustdp.numerics.arrays import FloatArray

# Averages of one bounded number per record: what the mean and a proportion have in common.
#
# Every record has an *amount* a with ``|a - mid| <= half``; write y = a - mid.
#
# **Multisets of fixed size m.** The total is the sum of y, released is ``mid + total / m``.
# Swapping one entry changes one y, and two values of [-half, half] differ by at most 2 half. So
# the average moves by at most ``2 half / m``, which is attained, and the reach is ``half / m``
# (for a mean: (upper - lower) / (2m)).
#
# **Poisson subsets of expected size M.** The size is random and tells of the records, so sums are
# divided by the public M. Released are ``S = sum of y / M`` and ``N = size / M``. One copy adds (y,
# 1)/M: at most half/M to S and exactly 1/M to N. With shares w (``queries.py``) the reaches are
# ``half / (M w_S)`` and ``1 / (M w_N)``, and ``mid + S/N`` is the estimate: a ratio, so that the
# chance variation of the size cancels. The noise in it has variance close to ``(z half / (M N))^2 *
# (1/w_S^2 + r^2/w_N^2)`` with r = S / (N half) in [-1, 1], which is smallest at w_S^2 : w_N^2 = 1 :
# |r|. Here it is 2 : 1, the best choice at |r| = 1/2 and never more than 1.5 times the best.


_SUM_SHARE, _COUNT_SHARE = math.sqrt(2.0 / 3.0), math.sqrt(1.0 / 3.0)


class Amount(ABC):
    """One bounded number per record; frozen and picklable."""

    #: The middle of what the number can be, and half the length of it.
    mid: float
    half: float

    @abstractmethod
    def centred(self, values: FloatArray) -> FloatArray:
        """The number minus ``mid`` for every row of ``values``; at most ``half`` from zero."""


@dataclass(frozen=True)
class AverageQuery(LinearQuery):
    """The average amount; on Poisson subsets, the sum of the centred amounts and the size."""

    public: SubsetSchema
    amount: Amount
    label: str
    blocks: tuple[QueryBlock, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        size, half, mid = self.public.size, self.amount.half, self.amount.mid
        blocks: tuple[QueryBlock, ...] = (block(self.label, 1, half / size, size, mid),)
        if self.public.poisson:
            total = block(f"sum of {self.label}", 1, half / size, size)
            count = block("count", 1, 1.0 / size, size)
            blocks = (enlarged(total, _SUM_SHARE), enlarged(count, _COUNT_SHARE))
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "labels", (self.label,))

    def contributions(self, values: FloatArray) -> FloatArray:
        """The centred amounts and, on Poisson subsets, ones."""
        centred = self.amount.centred(values)
        if not self.public.poisson:
            return centred[:, None]
        return np.stack([centred, np.ones(len(centred))], axis=1)

    @property
    def supports(self) -> tuple[Support, ...]:
        """The range of the amount."""
        return ((self.amount.mid - self.amount.half, self.amount.mid + self.amount.half),)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The average; not forced into its range, so that averages of it stay unbiased.

        On Poisson subsets mid + sum / size, a noisy size below ``LEAST_SHARE`` taken to be that.
        """
        if not self.public.poisson:
            return np.array(vectors, dtype=np.float64)
        size = np.maximum(vectors[..., 1:], LEAST_SHARE)
        return np.asarray(self.amount.mid + vectors[..., :1] / size)


# The mean of a column, and of its squares, which tell the mean's sampling error.
#
# On multisets of a fixed size the square of the scaled value u in [-1, 1] is released beside it;
# by ``moments.py`` the mean then costs what it costs alone. With N_1 and N_2 the variances of the
# noise in the averages of u and u^2,
#
#     S^2 = (average of u^2) - (average of u)^2 + N_1,    error^2 = N_2 + 4 (average of u)^2 N_1,
#
# which is far more precise than the spread of noisy replicates. Rare values have an error of their
# own (``intervals.py``): an influence is at most 1 + |average of u|.


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

    def known(self, at: Averaged, level: float) -> tuple[Interval | None, ...]:
        """By the squares."""
        (mean, square), noise = at.vector, at.noise
        half2 = self.public.ranges[0].half ** 2
        # The square of an average is too large by the variance of that average.
        influence = float(square - mean**2 + noise[0]) / max(1.0 - at.factor, 0.5)
        doubt = float(noise[1] + 4.0 * mean**2 * noise[0])
        error = math.sqrt(doubt + 2.0 * max(influence, 0.0) ** 2 * at.factor)
        largest = 1.0 + min(abs(float(mean)), 1.0)
        own = spread_of_bounded(influence, error, 1.0, at.factor, float(noise[0]), largest)
        few = own.noise_dominated and influence < rare_error(influence, largest, at.factor)
        spread = replace(own, sampling=half2 * own.sampling, noise=half2 * own.noise)
        value = float(self.estimate(at.vector)[0])
        found = t_interval(value, spread, level, self.supports[0], curved=True)
        return (replace(found, flags=(*found.flags, *((RARE,) if few else ()))),)


@register
@dataclass(frozen=True)
class Mean(MomentStatistic):
    """The mean of one column.

    Reach (proved above, with half = (upper - lower) / 2 and values measured from the midpoint): on
    multisets of m entries, swapping one entry moves the mean by at most (upper - lower) / m, and
    two opposite ends attain it, so the reach is (upper - lower) / (2m); released is the scaled
    mean, in [-1, 1], with reach 1/m. On Poisson subsets of expected size M one copy adds at most
    (upper - lower) / (2M) to the sum and 1/M to the size; both are released, enlarged to share one
    noise multiplier.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    squares : bool, default=True
        Whether squares are released beside the mean, which costs what it costs alone and then
        tells its sampling error; on Poisson subsets they are not.

    Examples
    --------
    >>> [block.label for block in Mean().query(SubsetSchema([0.0], [10.0], 20)).blocks]
    ['means', 'squares']
    >>> Mean(squares=False).query(SubsetSchema([0.0], [10.0], 20)).blocks
    (QueryBlock(label='mean', width=1, reach=0.25),)
    """

    columns: tuple[str | int, ...] | None = None
    squares: bool = True
    name = "mean"
    about = "the default"

    def smooth(self, at: AveragedMoments) -> FloatArray:
        """In the column's units; not forced into its range, so that averages stay unbiased."""
        return at.centres[..., :1]

    def support(self, ranges: Sequence[Range]) -> Support:
        """The range of the column."""
        return (ranges[0].lower, ranges[0].upper)

    def shape(self, poisson: bool) -> Shape:
        """One number, unless squares (of a fixed size) or sizes (Poisson) are released with it."""
        alone = not (self.squares or poisson)
        return Shape(in_a_ball=alone or poisson, one_number=alone)

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """By its influences where records count unequally, else by Fieller."""
        if schema.weighted or schema.largest_cluster is not None:
            return MomentRequest(schema, columns, self)
        return ReleasedMean(schema, columns)

    def _on(self, public: SubsetSchema) -> Query:
        if self.squares and not public.poisson:
            return MeanQuery(public, self, (self.name,))
        (column,) = public.ranges
        return AverageQuery(public, Value(column.mid, column.half), self.name)


# One release on all records: (records, sum u, sum u^2) tell the mean, the sum and their errors.


@dataclass(frozen=True)
class ReleasedMean(StatisticRequest):
    """The mean of a column; SE^2 = h^2 (variance of u / n + noise), h half of the range."""

    @property
    def name(self) -> str:
        """In results."""
        return "mean"

    @cached_property
    def sums(self) -> Moments:
        """Moments of the column."""
        return Moments(self.schema, self.columns)

    @property
    def support(self) -> Support:
        """The range."""
        column = self.schema.columns[self.columns[0]].numeric
        return (column.lower, column.upper)

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """By Fieller, with the released variance for the sampling."""
        noise = at.first.noise.matrix
        records, top, _ = (float(x) for x in at.first.sums[at.slot])
        own, error = scaled_variance(at.first.sums[at.slot], noise)
        left, bottom = at.unsampled, max(records, 1.0)
        spread = released_spread(own * left / bottom, error * left / bottom, noise_of_mean(at))
        found = fieller_interval(
            top,
            records,
            variance=(bottom**2 * spread.sampling, 0.0, 0.0),
            noise=noise[:2, :2],
            precision=spread,
            level=at.level,
            support=(-1.0, 1.0),
        )
        yield "", found.scaled(float(self.sums.halves[0]), float(self.sums.mids[0]))


@register
@dataclass(frozen=True)
class Sum(Statistic):
    """The sum of a column, in one release on all records.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    """

    columns: tuple[str | int, ...] | None = None
    name = "sum"
    for_bootstrap = False
    is_total = True

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """A mean times a number of records over strata or with clusters, else the noisy sum."""
        if schema.largest_cluster is not None or schema.shares:
            return ScaledMean(schema, columns, Mean().bind(schema, columns))
        return ReleasedSum(schema, columns)


@dataclass(frozen=True)
class ScaledMean(StatisticRequest):
    """A sum as a mean times a number of records: of the population, or of those at hand.

    Over strata the population's size is public, ``population``; of records in clusters the noisy
    number of them is taken, whose own noise stays in.
    """

    mean: StatisticRequest

    @property
    def name(self) -> str:
        """In results."""
        return "sum"

    @property
    def sums(self) -> BoundedSum | None:
        """Those of the mean."""
        return self.mean.sums

    @property
    def two_rounds(self) -> bool:
        """As the mean."""
        return self.mean.two_rounds

    @property
    def weighted_errors(self) -> bool:
        """As the mean."""
        return self.mean.weighted_errors

    @property
    def second_request(self) -> StatisticRequest:
        """That of the mean: the second round is one for both."""
        return self.mean.second_request

    @property
    def support(self) -> Support:
        """Of the population."""
        low, high = self.mean.support
        return (self.schema.population * low, self.schema.population * high)

    def describe(self, cell: str) -> str:
        """Of which records."""
        return f"sum of {self.said(self.columns[0])} {self.schema.records_meant()}"

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """Mean and sampling error of the mean, each times the number of records."""
        if self.schema.shares:
            for cell, mean in self.mean.read(at):
                yield cell, mean.scaled(self.schema.population)
            return
        value, noise = noisy_sum(at)
        (_, mean), *_ = self.mean.read(at)
        ends = support_of_sum(self.schema, *self.mean.support)
        if not mean.known:
            yield "", replace(vacuous_interval(ends), flags=mean.flags)
            return
        known = 0.0 if mean.flags else mean.noise_share  # nothing is taken off a rough error
        whole = (at.records * mean.standard_error) ** 2
        sampling = whole * (1.0 - known)
        freedom = math.inf
        if whole > 0:
            freedom = mean.degrees_of_freedom * ((sampling + noise) / whole) ** 2
        found = t_interval(value, Spread(sampling, noise, freedom), at.level, ends)
        yield "", replace(found, flags=tuple(dict.fromkeys((*found.flags, *mean.flags))))


@dataclass(frozen=True)
class ReleasedSum(StatisticRequest):
    """The sum of a column: of the records of a group, and of those that have a value.

    Whether a record is in the group, and whether it has a value, was sampled as the value was. Of
    unknown numbers of records nothing but those that have a value is known: the sum is then meant
    given how many they are.
    """

    @property
    def name(self) -> str:
        """In results."""
        return "sum"

    @cached_property
    def sums(self) -> Moments:
        """Moments of the column."""
        return Moments(self.schema, self.columns)

    def describe(self, cell: str) -> str:
        """Of which records."""
        values = " that have a value" if self.schema.dropped else ""
        return f"sum of {self.said(self.columns[0])} {self.schema.records_meant()}{values}"

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """mid N + half S; sampled is the product of being in the group and the value."""
        half = float(self.sums.halves[0])
        value, noise = noisy_sum(at)
        own, known = scaled_variance(at.first.sums[at.slot], at.first.noise.matrix)
        total, here = at.total_records, max(at.records, 0.0)
        inside = half**2 * own * here
        error = half**2 * known * here
        # n Var(1_g x) = N_g Var(x | g) + mean^2 N_g (1 - N_g / n)
        mean = value / max(here, 1e-9)
        column = self.schema.columns[self.columns[0]].numeric
        mean = min(max(mean, column.lower), column.upper)
        inside += mean**2 * here * max(1.0 - here / total, 0.0)
        left = self.schema.unsampled(total)
        spread = released_spread(inside * left, error * left, noise)
        largest = self.schema.largest_weight
        if largest is not None:  # of all t y: the sum of t^2 times the mean of y^2
            square = mean**2 + half**2 * max(own, 0.0)
            spread = Spread(at.squared_weights * square * left, noise)
            yield "", t_interval(value, spread, at.level).scaled(largest)
            return
        ends = support_of_sum(self.schema, column.lower, column.upper)
        yield "", t_interval(value, spread, at.level, ends)


def support_of_sum(schema: PublicSchema, lower: float, upper: float) -> Support:
    """What a sum of values in [lower, upper] can be."""
    if not schema.public_size or schema.weighted:
        return (0.0 if lower >= 0 else -math.inf, 0.0 if upper <= 0 else math.inf)
    n = float(schema.n or 0)
    if schema.counted:
        return (min(n * lower, 0.0), max(n * upper, 0.0))
    return n * lower, n * upper


def noisy_sum(at: SlotRelease) -> tuple[float, float]:
    """mid N + half S, the sum of a column, and the variance of its noise."""
    part = at.first.part
    if not isinstance(part, Moments):
        raise InvalidParameter("a sum must be read off moments")
    along = np.array([float(part.mids[0]), float(part.halves[0])])
    value = float(along @ at.first.sums[at.slot, :2])
    return value, float(along @ at.first.noise.matrix[:2, :2] @ along)


def scaled_variance(sums: FloatArray, noise: FloatArray) -> tuple[float, float]:
    """The variance of u in a slot, from (records, sum u, sum u^2), and the error of noise in it."""
    records, top, squares = (float(x) for x in sums)
    if not records > 0.0:
        return 1.0, 0.0  # the most that is possible
    mean, square = top / records, squares / records
    along = np.array([2.0 * mean**2 - square, -2.0 * mean, 1.0]) / records
    slope = np.array([-mean, 1.0]) / records
    bias = float(slope @ noise[:2, :2] @ slope)
    found = (square - mean**2 + bias) * (records / (records - 1.0) if records > 2.0 else 1.0)
    error = math.sqrt(max(float(along @ noise @ along), 0.0))
    return min(found, 1.0), error


def noise_of_mean(at: SlotRelease) -> float:
    """The variance that the noise gives to the mean of u."""
    records = max(at.records, 1.0)
    mean = min(max(float(at.first.sums[at.slot, 1]) / records, -1.0), 1.0)
    slope = np.array([-mean, 1.0]) / records
    return float(slope @ at.first.noise.matrix[:2, :2] @ slope)
