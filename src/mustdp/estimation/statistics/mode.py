"""The mode: the most frequent category of a column, read off a released histogram.

*Release.* Numbers of records by category with Gaussian noise, as in ``counts.py``: a record
changes one number, or moves from one to another. The category with the largest noisy number is
reported, which costs nothing more.

*Which categories may be the mode.* With N_k the noisy numbers and K of them, category k is ruled
out where N_j - N_k > c SE(N_j - N_k) for some j, c the normal quantile of 1 - a / (K - 1). As
the mode m has p_m >= p_j, it is ruled out with a chance of at most a. The variance of sampling
is N_j + N_k - (N_j - N_k)^2 / n, and that of the noise is known.

*Its share.* p_m lies in the union of the intervals of all categories that are not ruled out:
with a tenth of the error for what is ruled out and nine tenths for the intervals, no choice of
the largest makes it miss more often than stated. Categories that are not listed are no
candidates.

*With clusters or strata*, also in groups within strata, the shares have the intervals that these
designs give, at the level 1 - a / K. All of them hold together with a chance of at least 1 - a;
then the mode is among the categories whose interval reaches the highest lower end, and its share in
the union of their intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from mustdp.estimation.result import CLEARLY, FEW, Interval, vacuous_interval
from mustdp.estimation.schema import PublicSchema
from mustdp.estimation.statistics.counts import (
    Histogram,
    InCells,
    Listed,
    cell_rule,
    share_of_records,
)
from mustdp.estimation.statistics.statistic import SlotRelease, StatisticRequest, register
from mustdp.numerics.arrays import FloatArray

#: The part of the chance of an error that goes into what is ruled out.
_RULED_OUT = 0.1
#: Said where records of no listed category may be as many.
UNLISTED = "categories that are not listed may be more frequent"


@register
@dataclass(frozen=True)
class Mode(Histogram):
    """The most frequent category of a column, its share, and which others it may be.

    The estimate is the share of the mode among all records; ``cell`` names the category with the
    largest released number, ``candidates`` all that may be the mode at the level of the release.

    Parameters
    ----------
    count : int, default=20
        The number of cells of a column of numbers; categories have a cell each.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    """

    name = "mode"
    usage = "mode[:CELLS]"
    about = "the most frequent category, and its share"
    is_total = False

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """One column."""
        return ReleasedMode(schema, columns, cell_rule(schema.columns[columns[0]], self.count))


@dataclass(frozen=True)
class SharesOfCells(InCells):
    """The shares of all cells, which the mode is read off."""

    @property
    def name(self) -> str:
        """Of what is read off."""
        return "mode"

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """By Wilson and Fieller."""
        for cell, label in enumerate(self.rule.labels, start=1):
            yield label, share_of_records(at, cell)


@dataclass(frozen=True)
class ReleasedMode(InCells):
    """The mode in one release."""

    smooth: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """In results."""
        return "mode"

    def describe(self, cell: str) -> str:
        """What is estimated, in words."""
        return f"share of the most frequent category of {self.said(self.columns[0])}"

    @property
    def _listed(self) -> int:
        """The number of candidates: what is not listed is none."""
        return len(self.rule.labels) - int(isinstance(self.rule, Listed))

    @property
    def _shares(self) -> SharesOfCells:
        return SharesOfCells(self.schema, self.columns, self.rule)

    def _wider(self, slots: Sequence[SlotRelease]) -> list[SlotRelease]:
        """The same at the level at which the intervals of all cells hold together."""
        cells = len(self.rule.labels)
        return [replace(at, level=1.0 - (1.0 - at.level) / cells) for at in slots]

    def read_strata(self, slots: Sequence[SlotRelease]) -> Iterator[tuple[str, Interval]]:
        """By the shares of all strata together."""
        yield self._most_frequent(list(self._shares.read_strata(self._wider(slots))))

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """By the shares in the group."""
        found = self._shares.read_domain(self._wider(inside), self._wider(strata))
        yield self._most_frequent(list(found))

    def _most_frequent(self, cells: Sequence[tuple[str, Interval]]) -> tuple[str, Interval]:
        """The category with the largest share, by intervals that hold together."""
        listed = cells[: self._listed]
        labels = tuple(label for label, _ in listed)
        values = [one.value if one.value == one.value else -1.0 for _, one in listed]
        top = int(np.argmax(values))
        if values[top] < 0.0:
            return "", replace(vacuous_interval((0.0, 1.0), FEW), candidates=labels)
        highest = max(one.ends[0] for _, one in listed)
        named = [(label, one) for label, one in listed if one.ends[1] >= highest]
        ends = min(one.ends[0] for _, one in named), max(one.ends[1] for _, one in named)
        flags = listed[top][1].flags
        if any(one.ends[1] >= highest for _, one in cells[self._listed :]):
            flags = (*flags, UNLISTED)
        found = replace(listed[top][1], ends=ends, flags=flags)
        return labels[top], replace(found, candidates=tuple(label for label, _ in named))

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """The largest number, and all that may be larger."""
        labels, count = self.rule.labels, self._listed
        if self.schema.largest_cluster is not None:
            yield self._most_frequent(list(self._shares.read(*self._wider([at]))))
            return
        if not at.records > CLEARLY * math.sqrt(float(at.noise.own[0])):
            yield "", replace(vacuous_interval((0.0, 1.0), FEW), candidates=labels[:count])
            return
        numbers = at.first.sums[at.slot, 1 : 1 + count]
        top = int(np.argmax(numbers))
        wrong = 1.0 - at.level
        inside = replace(at, level=1.0 - (1.0 - _RULED_OUT) * wrong)
        possible = np.flatnonzero(self._possible(at, _RULED_OUT * wrong))
        every = {int(k): share_of_records(inside, int(k) + 1) for k in possible}
        found = every[top]
        ends = (
            min(one.ends[0] for one in every.values()),
            max(one.ends[1] for one in every.values()),
        )
        named = np.flatnonzero(self._possible(at, wrong))
        flags = found.flags
        if count < len(labels):
            rest = share_of_records(inside, len(labels))
            if not rest.ends[1] < found.ends[0]:
                flags = (*flags, UNLISTED)
        candidates = tuple(labels[k] for k in named)
        yield labels[top], replace(found, ends=ends, flags=flags, candidates=candidates)

    def _possible(self, at: SlotRelease, wrong: float) -> FloatArray:
        """Which candidates are not ruled out."""
        count = self._listed
        numbers = at.first.sums[at.slot, 1 : 1 + count]
        variances = at.noise.own[1 : 1 + count]
        c = float(ndtri(1.0 - wrong / max(count - 1, 1)))
        factor = at.squared_weights * at.unsampled / max(at.records, 1e-9)
        apart = numbers[:, None] - numbers[None, :]
        both = np.maximum(numbers, 0.0)
        sampling = both[:, None] + both[None, :] - apart**2 / max(at.records, 1e-9)
        # Two cells of a known number of records share one noisy number.
        roots = np.sqrt(variances)
        if len(self.rule.labels) == 2:
            noise = (roots[:, None] + roots[None, :]) ** 2
        else:
            noise = variances[:, None] + variances[None, :]
        errors = np.sqrt(factor * np.maximum(sampling, 0.0) + noise)
        out = (apart > c * errors) & ~np.eye(count, dtype=bool)
        return np.asarray(~out.any(axis=0), dtype=np.float64)
