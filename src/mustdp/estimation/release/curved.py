"""Estimates that are curved functions of moments: variances, correlations, regression."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.bootstrap.query import CLEARLY
from mustdp.estimation.release.estimate import (
    FEW,
    Judged,
    Reading,
    everything,
    judged,
    symmetric,
    symmetric_if_possible,
)
from mustdp.estimation.release.moments import Influences, Moments
from mustdp.estimation.release.parts import Noisy
from mustdp.estimation.release.statistic import StatisticRequest
from mustdp.numerics.arrays import FloatArray

# Estimates that are curved functions of moments, judged by their influence on a second round.
#
# The averages of the moments, mu, are read off the first release; the estimate is a smooth
# function theta(mu), differentiated where it is, by differences far smaller than an error and
# without cutting anything. Its variance is what the noise gives along the gradient, plus the
# released average of the squared influence (``influence.py``) over the number of records. Products
# of noisy averages are freed of the noise's own share: E (m + e)(m' + e') = m m' + Cov(e, e').


_STEP = 1e-5
#: Slopes beyond this say nothing, and their squares must stay numbers.
_STEEPEST = 1e100
#: Noise in an average, of columns in [-1, 1], beyond which its square can no longer be neglected.
_ROOM = 0.25


@dataclass(frozen=True, eq=False)
class At:
    """One slot of a released part of moments: averages, the covariance of their noise, records."""

    records: float
    sure: bool  # whether there are enough records for the noise
    means: FloatArray
    noise: FloatArray
    weighted: bool = False  # or put together from strata

    @property
    def bessel(self) -> float:
        """n / (n - 1), for divisors n - 1; with weights or strata nothing of the kind."""
        return 1.0 if self.weighted else self.records / (self.records - 1.0)


@dataclass(frozen=True)
class Curved(StatisticRequest):
    """A statistic that is read off moments in two rounds."""

    @cached_property
    def part(self) -> Moments:
        """Moments of the columns."""
        return Moments(self.schema, self.columns)

    @property
    @abstractmethod
    def cells(self) -> tuple[str, ...]:
        """Names of the estimates; one empty name for a single one."""

    @property
    def twice(self) -> bool:
        """Always."""
        return True

    @property
    def influenced(self) -> bool:
        """Yes: weights are in the influences."""
        return True

    @abstractmethod
    def theta(self, means: FloatArray) -> FloatArray:
        """The estimates ``(..., cells)`` in the columns' units, from averages ``(..., moments)``.

        Defined on all numbers near those of data, also where noise made a variance negative.
        """

    @abstractmethod
    def reading(self, cell: int, at: At, value: float, judge: Judged, level: float) -> Reading:
        """The estimate of one cell with its interval."""

    def again(self, noisy: Noisy, together: Sequence[StatisticRequest]) -> Influences:
        """Influences at the averages of every slot; over strata, on what all of them give."""
        spots = [at_slot(self.part, noisy, slot) for slot in range(self.schema.slots)]
        if self.schema.shares:
            whole = self.gradient(self._over_strata(noisy).means)
            gradients = np.stack([whole] * len(spots))
        else:
            gradients = np.stack([self.gradient(spot.means) for spot in spots])
        means = np.stack([spot.means for spot in spots])
        return Influences(self.part, gradients, np.clip(means, -1.0, 1.0))

    @staticmethod
    def bounds(second: Noisy) -> FloatArray:
        """What the squared influences were cut at."""
        if not isinstance(second.part, Influences):
            raise InvalidParameter("the second round must be one of influences")
        return second.part.bounds

    def gradient(self, means: FloatArray) -> FloatArray:
        """Slopes of the estimates, (cells, moments); none where they are not finite."""
        moves = _STEP * np.eye(len(means))
        slopes = (self.theta(means + moves) - self.theta(means - moves)).T / (2.0 * _STEP)
        return np.clip(np.where(np.isfinite(slopes), slopes, 0.0), -_STEEPEST, _STEEPEST)

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """The estimates of one slot, from both rounds."""
        if noisy is None or second is None:
            return
        at = at_slot(self.part, noisy, slot)
        factor = np.zeros(self.schema.slots)
        factor[slot] = self.left(noisy, slot) / at.records**2
        yield from self._read(at, noisy, second, factor, level)

    def read_strata(
        self, noisy: Noisy | None, second: Noisy | None, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """A function of the averages of the population, sum W_h mu_h."""
        if noisy is None or second is None:
            return
        factor = np.zeros(self.schema.slots)
        for slot, share in enumerate(self.schema.shares):
            records = at_slot(self.part, noisy, slot).records
            factor[slot] = self.left(noisy, slot) * (share / records) ** 2
        yield from self._read(self._over_strata(noisy), noisy, second, factor, level)

    def _read(
        self, at: At, noisy: Noisy, second: Noisy, factor: FloatArray, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """Squared influences of every slot count ``factor`` times in the sampling variance.

        Those of K clusters are multiplied by K / (K - 1) and have K - 1 degrees of freedom.
        """
        freedom = np.full(len(factor), np.inf)
        if self.schema.largest_cluster is not None:
            count = np.array([self.clusters(noisy, slot) for slot in range(len(factor))])
            freedom = count - 1.0
            factor = factor * count / freedom
        values, slopes = self.theta(at.means), self.gradient(at.means)
        bounds = self.bounds(second)
        for cell, name in enumerate(self.cells):
            each = factor * bounds[:, cell]
            sampling = float(each @ second.sums[:, cell])
            doubt = float((2.0 * (each * second.sums[:, cell]) ** 2 / freedom).sum())
            error = float(np.linalg.norm(each) * np.sqrt(second.noise.own[cell]))
            noise = float(slopes[cell] @ at.noise @ slopes[cell])
            judge = judged(sampling, error, noise, doubt)
            yield name, self.reading(cell, at, float(values[cell]), judge, level)

    def _over_strata(self, noisy: Noisy) -> At:
        """The averages of the population."""
        spots = [at_slot(self.part, noisy, h, False) for h in range(len(self.schema.shares))]
        sure = all(spot.sure for spot in spots)
        pairs = list(zip(self.schema.shares, spots, strict=True))
        means = np.sum([share * spot.means for share, spot in pairs], axis=0)
        noise = np.sum([share**2 * spot.noise for share, spot in pairs], axis=0)
        if sure:
            means = freed(self.part, means, noise)
        return At(sum(spot.records for spot in spots), sure, means, noise, weighted=True)


def at_slot(part: Moments, noisy: Noisy, slot: int, free: bool = True) -> At:
    """Averages of one slot; where there is nobody to speak of, those of data in the middle.

    ``free``: products are to be freed of the noise's own share.
    """
    sums, d = noisy.sums[slot], part.count
    deviation = float(np.sqrt(noisy.noise.own[0]))
    records = float(sums[0])
    worst = float(np.sqrt(noisy.noise.own[1 : 1 + d].max()))
    least = 1e-9 if part.schema.weighted else 1.5
    sure = records > max(CLEARLY * deviation, worst / _ROOM, least)
    if not sure:
        middle = np.zeros(len(sums) - 1)
        middle[d : 2 * d] = 0.5
        return At(max(records, least), False, middle, np.eye(len(middle)), part.schema.weighted)
    means = sums[1:] / records
    slope = np.concatenate([-means[:, None], np.eye(len(means))], axis=1) / records
    noise = slope @ noisy.noise.matrix @ slope.T
    if free:
        means = freed(part, means, noise)
    return At(records, True, means, noise, part.schema.weighted)


def freed(part: Moments, means: FloatArray, noise: FloatArray) -> FloatArray:
    """Averages whose squares and products are larger by what the noise adds to those of means."""
    d, (rows, columns) = part.count, part.pairs
    means = means.copy()
    means[d : 2 * d] += np.diagonal(noise)[:d]
    means[2 * d :] += noise[rows, columns]
    return means


def covariances(part: Moments, means: FloatArray) -> FloatArray:
    """Covariance matrices ``(..., d, d)`` of the scaled columns, with divisor n."""
    d = part.count
    rows, columns = part.pairs
    found = np.empty((*means.shape[:-1], d, d))
    at = np.arange(d)
    found[..., at, at] = means[..., d : 2 * d]
    found[..., rows, columns] = found[..., columns, rows] = means[..., 2 * d :]
    first = means[..., :d]
    found -= first[..., :, None] * first[..., None, :]
    return found


# Variance, standard deviation, covariance and correlation.


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
        return Variance(self.schema, self.columns)

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


# Linear regression of the last column on the others, by its noisy normal equations.


#: Smallest eigenvalue of the scaled, centred moments that is divided by.
_FLOOR = 1e-4
SINGULAR = "the noise leaves open whether the regressors vary apart: any coefficient is possible"


@dataclass(frozen=True)
class Regression(Curved):
    """Intercept and slopes; errors are those of White (1980), with no law for the residuals."""

    @property
    def name(self) -> str:
        """In results."""
        return "regression"

    @property
    def cells(self) -> tuple[str, ...]:
        """The terms: the intercept and the columns' names."""
        return ("intercept", *(self.schema.columns[k].name for k in self.columns[:-1]))

    def describe(self, cell: str) -> str:
        """Which coefficient."""
        others = ", ".join(self.said(k) for k in self.columns[:-1])
        term = cell if cell == "intercept" else f"slope of {cell}"
        return f"{term} in the regression of {self.said(self.columns[-1])} on {others}"

    def theta(self, means: FloatArray) -> FloatArray:
        """Intercept and slopes ``(..., 1 + p)`` in the columns' own units."""
        spread = covariances(self.part, means)
        values, directions = np.linalg.eigh(spread[..., :-1, :-1])
        along = np.swapaxes(directions, -1, -2) @ spread[..., :-1, -1:]
        along /= np.maximum(values, _FLOOR)[..., None]
        scaled = (directions @ along)[..., 0]
        mids, halves = self.part.mids, self.part.halves
        slopes = scaled * (halves[-1] / halves[:-1])
        centres = mids + halves * means[..., : self.part.count]
        intercept = centres[..., -1] - (slopes * centres[..., :-1]).sum(axis=-1)
        return np.concatenate([intercept[..., None], slopes], axis=-1)

    def reading(self, cell: int, at: At, value: float, judge: Judged, level: float) -> Reading:
        """Nothing is known where the smallest eigenvalue is below three of its errors."""
        anything = (-math.inf, math.inf)
        if not at.sure:
            return everything(anything, FEW)
        if not self._apart(at):
            return everything(anything, SINGULAR)
        return symmetric(value, judge, level)

    def _apart(self, at: At) -> bool:
        values, directions = np.linalg.eigh(covariances(self.part, at.means)[:-1, :-1])
        least, along = float(values[0]), directions[:, 0]
        d, (rows, columns) = self.part.count, self.part.pairs
        full = np.append(along, 0.0)
        slope = np.concatenate(
            [-2.0 * full * (full @ at.means[:d]), full**2, 2.0 * full[rows] * full[columns]]
        )
        error = math.sqrt(max(float(slope @ at.noise @ slope), 0.0))
        return least > max(CLEARLY * error, _FLOOR)
