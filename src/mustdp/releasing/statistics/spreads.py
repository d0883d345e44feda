"""Variance, standard deviation, covariance and correlation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from mustdp.numerics.arrays import FloatArray
from mustdp.releasing.statistics.curved import At, Curved, covariances
from mustdp.releasing.uncertainty import (
    CLEARLY,
    Judged,
    Reading,
    everything,
    symmetric_if_possible,
)

#: Said where the noise leaves open whether a column varies at all.
FLAT = "the noise leaves open whether a column varies: the interval is all that is possible"


@dataclass(frozen=True)
class Variance(Curved):
    """The variance of a column, with divisor n - 1."""

    @property
    def name(self) -> str:
        """In results."""
        return "variance"

    @property
    def cells(self) -> tuple[str, ...]:
        """One."""
        return ("",)

    def theta(self, means: FloatArray) -> FloatArray:
        """In the column's units, squared."""
        found: FloatArray = self.part.halves[0] ** 2 * covariances(self.part, means)[..., 0]
        return found

    def reading(self, cell: int, at: At, value: float, judge: Judged, level: float) -> Reading:
        """Between 0 and the square of half the range."""
        bessel = at.bessel
        possible = (0.0, float(self.part.halves[0]) ** 2 * bessel)
        if not at.sure:
            return everything(possible)
        return symmetric_if_possible(value * bessel, judge, level, possible)


@dataclass(frozen=True)
class Deviation(Variance):
    """The standard deviation: the root of the variance and of the ends of its interval."""

    @property
    def name(self) -> str:
        """In results."""
        return "sd"

    @property
    def linearised(self) -> Curved:
        """The variance: the second round is one for both."""
        return Variance(self.ground, self.columns)

    def reading(self, cell: int, at: At, value: float, judge: Judged, level: float) -> Reading:
        """The error is that of a root where the variance is clear, else half of the interval."""
        squared = super().reading(cell, at, value, judge, level)
        low, high = (math.sqrt(end) for end in squared.interval)
        if not squared.known:
            return replace(squared, interval=(low, high))
        root = math.sqrt(squared.value)
        if squared.value > CLEARLY * squared.standard_error:
            error = squared.standard_error / (2.0 * root)
        else:
            error = 0.5 * (high - low)
        return replace(squared, value=root, standard_error=error, interval=(low, high))


@dataclass(frozen=True)
class OfPairs(Curved):
    """A statistic of two columns that is the same in either order."""

    @property
    def linearised(self) -> Curved:
        """In the order of the columns: the second round is one however the pair is written."""
        return replace(self, columns=tuple(sorted(self.columns)))


@dataclass(frozen=True)
class Covariance(OfPairs):
    """The covariance of two columns, with divisor n - 1."""

    @property
    def name(self) -> str:
        """In results."""
        return "covariance"

    @property
    def cells(self) -> tuple[str, ...]:
        """One."""
        return ("",)

    def theta(self, means: FloatArray) -> FloatArray:
        """In the columns' units."""
        return float(np.prod(self.part.halves)) * covariances(self.part, means)[..., 0, 1:]

    def reading(self, cell: int, at: At, value: float, judge: Judged, level: float) -> Reading:
        """At most the product of half the ranges, either way."""
        bessel = at.bessel
        most = float(np.prod(self.part.halves)) * bessel
        if not at.sure:
            return everything((-most, most))
        return symmetric_if_possible(value * bessel, judge, level, (-most, most))


@dataclass(frozen=True)
class Correlation(OfPairs):
    """The correlation of two columns; its interval is made on Fisher's (1915) scale."""

    @property
    def name(self) -> str:
        """In results."""
        return "correlation"

    @property
    def cells(self) -> tuple[str, ...]:
        """One."""
        return ("",)

    def theta(self, means: FloatArray) -> FloatArray:
        """Not cut at 1: it is differentiated. NaN where a variance is not positive."""
        found = covariances(self.part, means)
        squares = found[..., 0, 0] * found[..., 1, 1]
        positive = (found[..., 0, 0] > 0) & (found[..., 1, 1] > 0)
        roots = np.sqrt(np.where(positive, squares, np.nan))
        return np.asarray(found[..., 0, 1] / roots)[..., None]

    def reading(self, cell: int, at: At, value: float, judge: Judged, level: float) -> Reading:
        """Everything where a noisy variance is below three of its standard errors."""
        if not at.sure:
            return everything((-1.0, 1.0))
        varies = np.diagonal(covariances(self.part, at.means))
        for k in range(2):
            along = np.zeros(len(at.means))
            along[k], along[2 + k] = -2.0 * at.means[k], 1.0
            error = math.sqrt(float(along @ at.noise @ along))
            if not varies[k] > CLEARLY * error:
                return everything((-1.0, 1.0), FLAT)
        plain = symmetric_if_possible(value, judge, level, (-1.0, 1.0))
        if not (plain.known and abs(value) < 1.0):
            return plain
        reach = judge.quantile(level) * plain.standard_error / (1.0 - value**2)
        ends = tuple(math.tanh(math.atanh(value) + sign * reach) for sign in (-1.0, 1.0))
        return replace(plain, interval=(ends[0], ends[1]))
