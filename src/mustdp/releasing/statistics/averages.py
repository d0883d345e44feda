"""The mean and the sum of a column: (records, sum u, sum u^2) tell both and their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mustdp.numerics.arrays import FloatArray
from mustdp.releasing.moments import Moments
from mustdp.releasing.stack import Noisy
from mustdp.releasing.statistics.asked import Asked
from mustdp.releasing.statistics.curved import At, Curved
from mustdp.releasing.uncertainty import (
    Judged,
    Reading,
    everything,
    judged,
    moved,
    ratio,
    symmetric,
)


@dataclass(frozen=True)
class Mean(Asked):
    """The mean of a column; SE^2 = h^2 (variance of u / n + noise), h half of the range."""

    @property
    def name(self) -> str:
        """In results."""
        return "mean"

    @cached_property
    def part(self) -> Moments:
        """Moments of the column."""
        return Moments(self.ground, self.columns)

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """By Fieller, with the released variance for the sampling."""
        if noisy is None:
            return
        records, top, _ = (float(x) for x in noisy.sums[slot])
        own, known = scaled_variance(noisy.sums[slot], noisy.noise.matrix)
        left = self.ground.unsampled(self.total(noisy))
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

    def reading(self, cell: int, at: At, value: float, judge: Judged, level: float) -> Reading:
        """Within the range."""
        column = self.ground.columns[self.columns[0]].numeric
        possible = (column.lower, column.upper)
        return symmetric(value, judge, level, possible) if at.sure else everything(possible)


@dataclass(frozen=True)
class Sum(Asked):
    """The sum of a column: of the records of a group, and of those that have a value."""

    @property
    def name(self) -> str:
        """In results."""
        return "sum"

    @cached_property
    def part(self) -> Moments:
        """Moments of the column."""
        return Moments(self.ground, self.columns)

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """mid N + half S; sampled is the product of being in the group and the value."""
        if noisy is None:
            return
        mid, half = float(self.part.mids[0]), float(self.part.halves[0])
        records, top, _ = (float(x) for x in noisy.sums[slot])
        value = mid * records + half * top
        noise = np.array([mid, half]) @ noisy.noise.matrix[:2, :2] @ np.array([mid, half])
        own, known = scaled_variance(noisy.sums[slot], noisy.noise.matrix)
        total, here = self.total(noisy), max(records, 0.0)
        inside = half**2 * own * here
        error = half**2 * known * here
        # n Var(1_g x) = N_g Var(x | g) + mean^2 N_g (1 - N_g / n)
        mean = value / max(here, 1e-9)
        column = self.ground.columns[self.columns[0]].numeric
        mean = min(max(mean, column.lower), column.upper)
        inside += mean**2 * here * max(1.0 - here / total, 0.0)
        left = self.ground.unsampled(total)
        judge = judged(inside * left, error * left, float(noise))
        largest = self.ground.largest_weight
        if largest is not None:  # of all t y: the sum of t^2 times the mean of y^2
            square = mean**2 + half**2 * max(own, 0.0)
            judge = Judged(noisy.effective(slot) * square * left, float(noise))
            yield "", moved(symmetric(value, judge, level), 0.0, largest)
            return
        yield "", symmetric(value, judge, level, self._possible(column.lower, column.upper))

    def _possible(self, lower: float, upper: float) -> tuple[float, float]:
        if not self.ground.public_size or self.ground.weighted:
            return (0.0 if lower >= 0 else -math.inf, 0.0 if upper <= 0 else math.inf)
        n = float(self.ground.n or 0)
        if self.ground.counted:
            return (min(n * lower, 0.0), max(n * upper, 0.0))
        return n * lower, n * upper


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
