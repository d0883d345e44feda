"""Numbers of records: all of them, shares of them, histograms and contingency tables."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mustdp.estimation.release.cells import (
    Cells,
    CellSquares,
    Cutting,
    Everybody,
    Outside,
    Unclipped,
)
from mustdp.estimation.release.estimate import Judged, Reading, judged, moved, ratio, symmetric
from mustdp.estimation.release.parts import Noisy, Part
from mustdp.estimation.release.statistic import StatisticRequest
from mustdp.numerics.arrays import FloatArray


@dataclass(frozen=True)
class Count(StatisticRequest):
    """The number of records, of those of a group, or of those that have a value."""

    @property
    def name(self) -> str:
        """In results."""
        return "count"

    @cached_property
    def part(self) -> Cells | None:
        """One cell; nothing where the number is public."""
        schema = self.schema
        known = schema.public_size and not schema.groups and not schema.weighted
        if known and not (schema.dropped and self.columns):
            return None
        return Cells(self.schema, self.columns, Everybody())

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """The first natural sum of any part."""
        if noisy is None:
            n = float(self.schema.n or 0)
            yield "", Reading(n, 0.0, (n, n))
            return
        value, noise = float(noisy.sums[slot, 0]), float(noisy.noise.own[0])
        effect = Judged(0.0 if self._at_hand else 1.0, 0.0)
        yield "", number(self, noisy, slot, value, noise, level, effect)

    @property
    def _at_hand(self) -> bool:
        """Whether the records that are there are counted, so that nothing was sampled.

        So it is without a public number of all records, and with clusters, whose sizes are no draws
        of single records.
        """
        schema = self.schema
        known = schema.public_size and (schema.dropped or bool(schema.groups))
        return schema.largest_cluster is not None or not (known or schema.groups)

    def describe(self, cell: str) -> str:
        """What is counted, and among which records."""
        schema, found = self.schema, "number of records"
        if self.columns and schema.dropped:
            names = " and ".join(schema.columns[k].name for k in self.columns)
            found = f"number of records that have {names}"
        return f"{found} {schema.records_meant(self._at_hand)}"


@dataclass(frozen=True)
class InCells(StatisticRequest):
    """A statistic of cells; where records come in clusters, a second round tells its errors."""

    @cached_property
    @abstractmethod
    def part(self) -> Cells:
        """The cells."""

    @property
    def twice(self) -> bool:
        """With clusters."""
        return self.schema.largest_cluster is not None

    @property
    def possible(self) -> tuple[float, float]:
        """Of shares."""
        return (0.0, 1.0)

    def again(self, noisy: Noisy, together: Sequence[StatisticRequest]) -> Part:
        """Squared influences on the shares, added up within clusters."""
        return CellSquares(self.part, _shares(noisy))

    def share(
        self, noisy: Noisy, second: Noisy | None, slot: int, at: int, level: float
    ) -> Reading:
        """The share of one cell: binomial, over a number of records that may be noisy."""
        effect = self.effect(noisy, second, slot, at)
        spread = noisy.effective(slot) * self.left(noisy, slot) * effect.sampling
        records, noise = float(noisy.sums[slot, 0]), noisy.noise.pair(at)
        inside = float(_shares(noisy)[slot, at - 1])
        own = float(np.array([-inside, 1.0]) @ noise @ np.array([-inside, 1.0]))
        return ratio(
            float(noisy.sums[slot, at]),
            records,
            variance=(0.0, spread, -spread),
            noise=noise,
            freedom=beside(effect, spread * inside * (1.0 - inside), own),
            level=level,
            possible=(0.0, 1.0),
        )

    def effect(self, noisy: Noisy, second: Noisy | None, slot: int, at: int) -> Judged:
        """How many times as much a share varies as one of records without clusters; at least one.

        At most the size m of the largest cluster, as (sum of m numbers)^2 <= m sum of squares; all
        of it times K / (K - 1), as it comes from K clusters, with K - 1 degrees of freedom.
        """
        if second is None or self.schema.largest_cluster is None:
            return Judged(1.0, 0.0)
        most = float(self.schema.largest_cluster)
        inside = float(_shares(noisy)[slot, at - 1])
        binomial = noisy.effective(slot) * inside * (1.0 - inside)
        k = 0 if second.part.width == 1 else at - 1
        found = most**2 * float(second.sums[slot, k])
        error = most**2 * math.sqrt(float(second.noise.own[k]))
        if not binomial > error / most:
            return Judged(most, 0.0, noise_dominated=True)
        count = self.clusters(noisy, slot)
        deflated = (count - 1.0) / count * binomial
        doubt = 2.0 * (found / deflated) ** 2 / (count - 1.0)
        judge = judged(found / deflated, error / deflated, 0.0, doubt)
        largest = most * count / (count - 1.0)
        return replace(judge, sampling=min(max(judge.sampling, 1.0), largest))


@dataclass(frozen=True)
class Tabulated(InCells):
    """The number of records in every cell of a histogram or a contingency table."""

    cutting: Cutting
    called: str = "histogram"

    @property
    def name(self) -> str:
        """In results."""
        return self.called

    @cached_property
    def part(self) -> Cells:
        """The cells."""
        return Cells(self.schema, self.columns, self.cutting)

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """One number for every cell: over strata, that of the population."""
        if noisy is None:
            return
        for k, label in enumerate(self.cutting.labels, start=1):
            if self.schema.shares:
                share = self.share(noisy, second, slot, k, level)
                yield label, moved(share, 0.0, self.schema.population)
                continue
            value, noise = float(noisy.sums[slot, k]), float(noisy.noise.own[k])
            effect = self.effect(noisy, second, slot, k)
            yield label, number(self, noisy, slot, value, noise, level, effect)

    @property
    def possible(self) -> tuple[float, float]:
        """Of numbers of records in the population."""
        return (0.0, self.schema.population)

    def describe(self, cell: str) -> str:
        """What is counted."""
        columns, of = ", ".join(map(self.said, self.columns)), self.schema.records_meant()
        return f"number of records with {columns} in {cell} {of}"


@dataclass(frozen=True)
class Share(InCells):
    """The share of records in the first of two cells."""

    cutting: Cutting
    condition: str

    @property
    def name(self) -> str:
        """In results, as it was asked for."""
        return f"proportion:{self.condition}"

    @cached_property
    def part(self) -> Cells:
        """In and out."""
        return Cells(self.schema, self.columns, self.cutting)

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """By Wilson and Fieller."""
        if noisy is None:
            return
        yield "", self.share(noisy, second, slot, 1, level)

    def describe(self, cell: str) -> str:
        """Which share."""
        return f"share of records with {self.said(self.columns[0])} {self.condition}"


@dataclass(frozen=True)
class Clipping(InCells):
    """The shares of records that clipping changes, below and above the range."""

    @property
    def name(self) -> str:
        """In results."""
        return "clipping"

    @cached_property
    def part(self) -> Unclipped:
        """Below, within and above."""
        column = self.schema.columns[self.columns[0]].numeric
        return Unclipped(self.schema, self.columns, Outside(column.lower, column.upper))

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """By Wilson and Fieller, as shares."""
        if noisy is None:
            return
        for at, label in ((1, "below"), (3, "above")):
            yield label, self.share(noisy, second, slot, at, level)

    def describe(self, cell: str) -> str:
        """Which end."""
        column = self.schema.columns[self.columns[0]]
        end = column.numeric.lower if cell == "below" else column.numeric.upper
        return f"share of records with {column.name} {cell} {end:g}, which are clipped to it"


def _shares(noisy: Noisy) -> FloatArray:
    """The shares of the cells in every slot, brought into [0, 1]."""
    records = np.maximum(noisy.sums[:, :1], 1e-9)
    return np.clip(noisy.sums[:, 1:] / records, 0.0, 1.0)


def number(
    asked: StatisticRequest,
    noisy: Noisy,
    slot: int,
    value: float,
    noise: float,
    level: float,
    effect: Judged | None = None,
) -> Reading:
    """A number of records among all: binomial, given the number of all; never below zero.

    Where the number of all is public, never above it. With weights, the sum of them; its sampling
    variance is the sum of their squares. ``effect`` is that of clusters; an effect of 0 says that
    the records at hand are meant. The number at hand lies within the noise alone: that is always
    part of the interval.
    """
    total = asked.total(noisy)
    most = total if asked.schema.public_size else math.inf
    if asked.schema.largest_cluster is not None and asked.schema.dropped:
        # How clusters differ is known of the records with a value: given their number.
        total = min(max(float(noisy.sums[:, 0].sum()), 1.0), most)
    largest = asked.schema.largest_weight
    if largest is not None:
        inside = value / max(float(noisy.sums[slot, 0]), 1e-9)
        sampling = noisy.effective(slot) * min(max(inside, 0.0), 1.0)
        judge = Judged(sampling * asked.schema.unsampled(total), noise)
        return moved(symmetric(value, judge, level, (0.0, math.inf)), 0.0, largest)
    effect = effect or Judged(1.0, 0.0)
    spread = total * asked.schema.unsampled(total) * effect.sampling
    inside = min(max(value / total, 0.0), 1.0)
    reading = ratio(
        value,
        total,
        variance=(0.0, spread, -spread),
        noise=np.array([[0.0, 0.0], [0.0, noise]]),
        freedom=beside(effect, spread * inside * (1.0 - inside), noise),
        level=level,
        possible=(0.0, most / total),
    )
    at_hand = symmetric(value, Judged(0.0, noise), level, (0.0, most))
    low, high = (total * end for end in reading.interval)
    error = max(total * reading.standard_error, at_hand.standard_error)
    return replace(
        reading,
        value=at_hand.value,
        standard_error=error,
        interval=(min(low, at_hand.interval[0]), max(high, at_hand.interval[1])),
        noise_share=noise / error**2 if error > 0 else 0.0,
    )


def beside(effect: Judged, sampling: float, noise: float) -> Judged:
    """The degrees of freedom of a whole variance of which the sampling has those of ``effect``."""
    if not sampling > 0:
        return replace(effect, degrees_of_freedom=math.inf)
    freedom = effect.degrees_of_freedom * ((sampling + noise) / sampling) ** 2
    return replace(effect, degrees_of_freedom=freedom)
