"""The mean and the sum of a column: (records, sum u, sum u^2) tell both and their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.release.curved import At, Curved
from mustdp.estimation.release.estimate import (
    Judged,
    Reading,
    everything,
    judged,
    moved,
    ratio,
    symmetric,
    symmetric_if_possible,
)
from mustdp.estimation.release.moments import Moments
from mustdp.estimation.release.parts import Noisy, Part
from mustdp.estimation.release.schema import PublicSchema
from mustdp.estimation.release.statistic import StatisticRequest
from mustdp.numerics.arrays import FloatArray


@dataclass(frozen=True)
class Mean(StatisticRequest):
    """The mean of a column; SE^2 = h^2 (variance of u / n + noise), h half of the range."""

    @property
    def name(self) -> str:
        """In results."""
        return "mean"

    @cached_property
    def part(self) -> Moments:
        """Moments of the column."""
        return Moments(self.schema, self.columns)

    @property
    def possible(self) -> tuple[float, float]:
        """The range."""
        column = self.schema.columns[self.columns[0]].numeric
        return (column.lower, column.upper)

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """By Fieller, with the released variance for the sampling."""
        if noisy is None:
            return
        records, top, _ = (float(x) for x in noisy.sums[slot])
        own, known = scaled_variance(noisy.sums[slot], noisy.noise.matrix)
        left = self.left(noisy, slot)
        bottom = max(records, 1.0)
        judge = judged(own * left / bottom, known * left / bottom, noise_of_mean(noisy, slot))
        reading = ratio(
            top,
            records,
            variance=(bottom**2 * judge.sampling, 0.0, 0.0),
            noise=noisy.noise.matrix[:2, :2],
            freedom=judge,
            level=level,
            possible=(-1.0, 1.0),
        )
        yield "", moved(reading, float(self.part.mids[0]), float(self.part.halves[0]))


@dataclass(frozen=True)
class InfluencedMean(Curved):
    """The mean where records count unequally: its sampling error is that of its influences."""

    @property
    def name(self) -> str:
        """In results."""
        return "mean"

    @property
    def cells(self) -> tuple[str, ...]:
        """One."""
        return ("",)

    def theta(self, means: FloatArray) -> FloatArray:
        """In the column's units."""
        return np.asarray(self.part.mids[0] + self.part.halves[0] * means[..., :1])

    @property
    def possible(self) -> tuple[float, float]:
        """The range."""
        column = self.schema.columns[self.columns[0]].numeric
        return (column.lower, column.upper)

    def reading(self, cell: int, at: At, value: float, judge: Judged, level: float) -> Reading:
        """Within the range."""
        if not at.sure:
            return everything(self.possible)
        return symmetric_if_possible(value, judge, level, self.possible)


@dataclass(frozen=True)
class Total(StatisticRequest):
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
    def part(self) -> Part | None:
        """That of the mean."""
        return self.mean.part

    @property
    def twice(self) -> bool:
        """As the mean."""
        return self.mean.twice

    @property
    def influenced(self) -> bool:
        """As the mean."""
        return self.mean.influenced

    @property
    def linearised(self) -> StatisticRequest:
        """The mean: the second round is one for both."""
        return self.mean

    @property
    def possible(self) -> tuple[float, float]:
        """Of the population."""
        low, high = self.mean.possible
        return (self.schema.population * low, self.schema.population * high)

    def describe(self, cell: str) -> str:
        """Of which records."""
        return f"sum of {self.said(self.columns[0])} {self.schema.records_meant()}"

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """Mean and sampling error of the mean, each times the number of records."""
        if noisy is None:
            return
        if self.schema.shares:
            for cell, reading in self.mean.read(noisy, second, slot, level):
                yield cell, moved(reading, 0.0, self.schema.population)
            return
        records = float(noisy.sums[slot, 0])
        value, noise = noisy_sum(noisy, slot)
        (_, mean), *_ = self.mean.read(noisy, second, slot, level)
        ends = possible_sum(self.schema, *self.mean.possible)
        if not mean.known:
            yield "", replace(everything(ends), flags=mean.flags)
            return
        known = 0.0 if mean.flags else mean.noise_share  # nothing is taken off a rough error
        whole = (records * mean.standard_error) ** 2
        sampling = whole * (1.0 - known)
        freedom = math.inf
        if whole > 0:
            freedom = mean.degrees_of_freedom * ((sampling + noise) / whole) ** 2
        found = symmetric(value, Judged(sampling, noise, freedom), level, ends)
        yield "", replace(found, flags=tuple(dict.fromkeys((*found.flags, *mean.flags))))


@dataclass(frozen=True)
class Sum(StatisticRequest):
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
    def part(self) -> Moments:
        """Moments of the column."""
        return Moments(self.schema, self.columns)

    def describe(self, cell: str) -> str:
        """Of which records."""
        values = " that have a value" if self.schema.dropped else ""
        return f"sum of {self.said(self.columns[0])} {self.schema.records_meant()}{values}"

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """mid N + half S; sampled is the product of being in the group and the value."""
        if noisy is None:
            return
        half = float(self.part.halves[0])
        records = float(noisy.sums[slot, 0])
        value, noise = noisy_sum(noisy, slot)
        own, known = scaled_variance(noisy.sums[slot], noisy.noise.matrix)
        total, here = self.total(noisy), max(records, 0.0)
        inside = half**2 * own * here
        error = half**2 * known * here
        # n Var(1_g x) = N_g Var(x | g) + mean^2 N_g (1 - N_g / n)
        mean = value / max(here, 1e-9)
        column = self.schema.columns[self.columns[0]].numeric
        mean = min(max(mean, column.lower), column.upper)
        inside += mean**2 * here * max(1.0 - here / total, 0.0)
        left = self.schema.unsampled(total)
        judge = judged(inside * left, error * left, noise)
        largest = self.schema.largest_weight
        if largest is not None:  # of all t y: the sum of t^2 times the mean of y^2
            square = mean**2 + half**2 * max(own, 0.0)
            judge = Judged(noisy.effective(slot) * square * left, noise)
            yield "", moved(symmetric(value, judge, level), 0.0, largest)
            return
        yield (
            "",
            symmetric(value, judge, level, possible_sum(self.schema, column.lower, column.upper)),
        )


def possible_sum(schema: PublicSchema, lower: float, upper: float) -> tuple[float, float]:
    """What a sum of values in [lower, upper] can be."""
    if not schema.public_size or schema.weighted:
        return (0.0 if lower >= 0 else -math.inf, 0.0 if upper <= 0 else math.inf)
    n = float(schema.n or 0)
    if schema.counted:
        return (min(n * lower, 0.0), max(n * upper, 0.0))
    return n * lower, n * upper


def noisy_sum(noisy: Noisy, slot: int) -> tuple[float, float]:
    """mid N + half S, the sum of a column, and the variance of its noise."""
    part = noisy.part
    if not isinstance(part, Moments):
        raise InvalidParameter("a sum must be read off moments")
    along = np.array([float(part.mids[0]), float(part.halves[0])])
    value = float(along @ noisy.sums[slot, :2])
    return value, float(along @ noisy.noise.matrix[:2, :2] @ along)


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


def noise_of_mean(noisy: Noisy, slot: int) -> float:
    """The variance that the noise gives to the mean of u."""
    records = max(float(noisy.sums[slot, 0]), 1.0)
    mean = min(max(float(noisy.sums[slot, 1]) / records, -1.0), 1.0)
    slope = np.array([-mean, 1.0]) / records
    return float(slope @ noisy.noise.matrix[:2, :2] @ slope)
