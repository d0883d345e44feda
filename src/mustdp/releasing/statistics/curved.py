"""Estimates that are curved functions of moments, judged by their influence on a second round.

The averages of the moments, mu, are read off the first release; the estimate is a smooth function
theta(mu), differentiated where it is, by differences far smaller than an error and without cutting
anything. Its variance is what the noise gives along the gradient, plus the released average of the
squared influence (``influence.py``) over the number of records. Products of noisy averages are
freed of the noise's own share: E (m + e)(m' + e') = m m' + Cov(e, e').
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray
from mustdp.releasing.influence import Influences
from mustdp.releasing.moments import Moments
from mustdp.releasing.stack import Noisy
from mustdp.releasing.statistics.asked import Asked
from mustdp.releasing.uncertainty import CLEARLY, Judged, Reading, judged

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
class Curved(Asked):
    """A statistic that is read off moments in two rounds."""

    @cached_property
    def part(self) -> Moments:
        """Moments of the columns."""
        return Moments(self.ground, self.columns)

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

    def again(self, noisy: Noisy, together: Sequence[Asked]) -> Influences:
        """Influences at the averages of every slot; over strata, on what all of them give."""
        spots = [at_slot(self.part, noisy, slot) for slot in range(self.ground.slots)]
        if self.ground.shares:
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
        factor = np.zeros(self.ground.slots)
        factor[slot] = self.left(noisy, slot) / at.records**2
        yield from self._read(at, noisy, second, factor, level)

    def read_strata(
        self, noisy: Noisy | None, second: Noisy | None, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """A function of the averages of the population, sum W_h mu_h."""
        if noisy is None or second is None:
            return
        factor = np.zeros(self.ground.slots)
        for slot, share in enumerate(self.ground.shares):
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
        if self.ground.largest_cluster is not None:
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
        spots = [at_slot(self.part, noisy, h, False) for h in range(len(self.ground.shares))]
        sure = all(spot.sure for spot in spots)
        pairs = list(zip(self.ground.shares, spots, strict=True))
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
    least = 1e-9 if part.ground.weighted else 1.5
    sure = records > max(CLEARLY * deviation, worst / _ROOM, least)
    if not sure:
        middle = np.zeros(len(sums) - 1)
        middle[d : 2 * d] = 0.5
        return At(max(records, least), False, middle, np.eye(len(middle)), part.ground.weighted)
    means = sums[1:] / records
    slope = np.concatenate([-means[:, None], np.eye(len(means))], axis=1) / records
    noise = slope @ noisy.noise.matrix @ slope.T
    if free:
        means = freed(part, means, noise)
    return At(records, True, means, noise, part.ground.weighted)


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
