"""Certified delta and epsilon of a composition, at an accuracy that is reached, not hoped for.

A curve is made of parts, each a dominating pair (upper side) or a concrete pair (lower side) with
the number of times it occurs. Losses so rare that they cannot matter for the delta in question are
counted as infinite (upper) or dropped (lower) before composing, which keeps transforms short.

On the upper side the discretisation error is of second order in the spacing. Connecting only every
second dot of the same evaluations doubles the spacing, so a third of the difference measures what
the discretisation still costs; the spacing is refined until that is below the requested accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mustdp.accounting.pld.compose import Composition
from mustdp.accounting.pld.discrete import DiscreteLoss
from mustdp.accounting.pld.discretise import (
    DominatingPair,
    Grid,
    Lump,
    connect_values,
    just_below,
    lumps_of,
    merge,
    spacing_for,
)
from mustdp.accounting.pld.pairs import ConcretePair
from mustdp.accounting.pld.readoff import Question, ReadOff, Side
from mustdp.numerics.arrays import FloatArray, IntArray

#: Log moments of one pair at many orders above 1.
Moments = Callable[[FloatArray], FloatArray]
#: How much higher the orders are that bound what lies above all losses of the grid.
_STEPS_UP = np.geomspace(0.03, 3e3, 36)
_MOMENT_ROUNDING = 1e-14
#: Share of delta that rare losses may take when they are counted as infinite or dropped.
_RARE = 1e-4
_FIRST_FLOOR = 1e-12
#: Cells of one loss that make its transforms long.
_LONG_LOSS = 200_000


class ComposedLoss:
    """Losses on one grid with their counts, read off on one side."""

    def __init__(self, parts: Sequence[tuple[DiscreteLoss, int]], side: Side) -> None:
        self._parts, self._side = tuple(parts), side
        self._steps = sum(count for _, count in parts)
        self._readers: dict[int, ReadOff] = {}
        spans = [float(loss.index[-1]) - float(loss.index[0]) for loss, _ in parts]
        self._far = max(spans) > _LONG_LOSS

    def epsilon(self, delta: float) -> float:
        """Certified epsilon at ``delta``."""
        return self._reader(delta).epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Certified delta at ``epsilon``; rare losses are judged against the answer itself."""
        floor = _FIRST_FLOOR
        while True:
            found = self._reader(floor).delta(epsilon)
            if floor <= found or floor < (1e-280 if self._side == "upper" else 1e-60):
                return found
            floor = max(floor * 1e-12, 1e-290) if found <= 0 else min(floor * 1e-3, found)

    def curve(self, epsilon: FloatArray, smallest: float) -> FloatArray:
        """Certified deltas at many epsilons, accurate down to ``smallest``."""
        return self._reader(smallest).curve(epsilon)

    def log_mgf(self, theta: FloatArray, rare: float) -> tuple[FloatArray, float]:
        """Log moments of the finite part once ``rare`` mass in all was taken out at the top."""
        keep = self._side == "upper"
        parts = [(x.truncated(rare / self._steps, keep=keep), k) for x, k in self._parts]
        composition = Composition(parts)
        return composition.log_mgf(theta), composition.infinite

    def whole_log_mgf(self, theta: FloatArray, crude: Sequence[Moments]) -> FloatArray:
        """Log moments of all losses, as :meth:`UpperCurve.whole_log_mgf` has them."""
        total = np.zeros(theta.size)
        for (loss, count), moments in zip(self._parts, crude, strict=True):
            order, top = 1.0 + theta, float(loss.losses[-1])
            known = moments(order)
            parts = [loss.log_mgf(theta) + _MOMENT_ROUNDING]
            if loss.infinite > 0.0:
                parts.append(np.log(order * loss.infinite) + theta * top)
                higher = order[:, None] + _STEPS_UP
                beyond = moments(higher.ravel()).reshape(higher.shape) - _STEPS_UP * top
                parts.append(np.minimum(known, beyond.min(axis=1)))
            total = total + count * np.minimum(known, np.logaddexp.reduce(parts, axis=0))
        return total

    def _reader(self, delta: float) -> ReadOff:
        """The composition truncated for this order of magnitude of delta."""
        # Readers are shared by deltas of three decades, but not where losses reach so far that the
        # rounding of long transforms counts: there as much as allowed is taken out at the top.
        width = 1 if self._far else 3
        decade = width * math.floor(math.log10(delta) / width)
        if decade not in self._readers:
            rare = _RARE * 10.0**decade / self._steps
            keep = self._side == "upper"
            parts = [(loss.truncated(rare, keep=keep), count) for loss, count in self._parts]
            self._readers[decade] = ReadOff(Composition(parts), self._side)
        return self._readers[decade]


class UpperCurve:
    """The upper side of a sequence of dominating pairs on one grid."""

    def __init__(self, pairs: Sequence[DominatingPair], counts: Sequence[int], grid: Grid) -> None:
        self._counts, self._grid = tuple(counts), grid
        self._values = [
            pair.values(just_below(grid.spacing, points))
            for pair, points in zip(pairs, grid.points, strict=True)
        ]
        self._fine = self._connected(fine=True)

    @cached_property
    def _coarse(self) -> ComposedLoss:
        return self._connected(fine=False)

    @cached_property
    def coarser(self) -> UpperCurve:
        """The same curve through every second dot: what it says more is due to the grid."""
        other = copy(self)
        other._fine = self._coarse
        return other

    def _connected(self, fine: bool) -> ComposedLoss:
        """Connect all dots, or every second of them, and compose."""
        parts = []
        for (ahead, behind), count, points in zip(
            self._values, self._counts, self._grid.points, strict=True
        ):
            kept = np.arange(points.size) if fine else every_second(points)
            dots = points[kept], ahead[kept], behind[kept]
            parts.append((connect_values(self._grid.spacing, *dots), count))
        return ComposedLoss(parts, "upper")

    def value(self, question: Question) -> float:
        """The certified answer."""
        return question.of_composed(self._fine)

    def curve(self, epsilon: FloatArray, smallest: float) -> FloatArray:
        """Certified deltas at many epsilons."""
        return self._fine.curve(epsilon, smallest)

    def log_mgf(self, theta: FloatArray, rare: float) -> tuple[FloatArray, float]:
        """Log moments of the finite losses, and the mass counted as infinite, ``rare`` allowed."""
        return self._fine.log_mgf(theta, rare)

    def whole_log_mgf(self, theta: FloatArray, crude: Sequence[Moments]) -> FloatArray:
        """Log moments of all losses, none left out; ``crude`` bounds those of each pair.

        A moment is at most that of the dominating pair with its largest losses replaced by the
        tangent, plus what is above the last loss c: at most c^-b times the crude moment of order b
        higher, for every b (docs/derivations/composition.md).
        """
        return self._fine.whole_log_mgf(theta, crude)

    def gap(self, question: Question) -> float:
        """An estimate of what the discretisation adds to the answer."""
        coarse = question.of_composed(self._coarse)
        if not math.isfinite(coarse):
            return math.inf
        return max(0.0, (coarse - self.value(question)) / 3.0)


#: One composition of the lower side: (pair, count, which points of the grid it is merged on).
LowerParts = Sequence[tuple[ConcretePair, int, int]]


class LowerCurve:
    """The lower side: concrete pairs, one family or a mixture of orders per composition."""

    def __init__(self, choices: Sequence[tuple[str, LowerParts]], grid: Grid) -> None:
        self._choices, self._grid = dict(choices), grid
        self._lumps: dict[int, list[Lump]] = {}
        self._merged: dict[tuple[int, float, bool], DiscreteLoss] = {}
        self._curves = [(label, self._composed(parts, fine=True)) for label, parts in choices]

    @cached_property
    def coarser(self) -> LowerCurve:
        """The same compositions merged onto every second point."""
        other = copy(self)
        other._curves = [
            (label, self._composed(parts, fine=False)) for label, parts in self._choices.items()
        ]
        return other

    def gap(self, question: Question, label: str) -> float:
        """An estimate of what the discretisation takes off one composition's answer."""
        if label not in self._choices:
            return 0.0
        coarse = question.of_composed(self._composed(self._choices[label], fine=False))
        fine = question.of_composed(dict(self._curves)[label])
        return max(0.0, (fine - coarse) / 3.0)

    def _composed(self, parts: LowerParts, fine: bool) -> ComposedLoss:
        spacing = self._spacing(parts)
        losses = [
            (self._loss(pair, which, spacing, fine), count) for pair, count, which in parts if count
        ]
        return ComposedLoss(losses, "lower")

    def _spacing(self, parts: LowerParts) -> float:
        """The grid's spacing, or a little less so that two lumps of the main part fit on it."""
        pair, _, which = max(parts, key=lambda part: part[1])
        return spacing_for(self._lumps_of(pair, which), self._grid.spacing)

    def _lumps_of(self, pair: ConcretePair, which: int) -> list[Lump]:
        if id(pair) not in self._lumps:
            found = lumps_of(pair, self._grid.spacing, self._grid.points[which])
            self._lumps[id(pair)] = found
        return self._lumps[id(pair)]

    def _loss(self, pair: ConcretePair, which: int, spacing: float, fine: bool) -> DiscreteLoss:
        key = (id(pair), spacing, fine)
        if key not in self._merged:
            points = self._grid.points[which]
            kept = points if fine else points[every_second(points)]
            self._merged[key] = merge(pair, spacing, kept, self._lumps_of(pair, which))
        return self._merged[key]

    def curve(self, epsilon: FloatArray, smallest: float) -> FloatArray:
        """The largest certified delta over all compositions, at many epsilons."""
        curves = self.curves(epsilon, smallest, tuple(self._choices)).values()
        return np.asarray(np.max(np.stack([np.zeros(epsilon.size), *curves]), axis=0))

    def curves(
        self, epsilon: FloatArray, smallest: float, labels: Sequence[str]
    ) -> dict[str, FloatArray]:
        """The certified deltas of those compositions that there are, at many epsilons."""
        return {
            label: curve.curve(epsilon, smallest)
            for label, curve in self._curves
            if label in labels
        }

    def log_mgf(self, theta: FloatArray, rare: float) -> FloatArray:
        """The largest log moments over all compositions, ``rare`` mass dropped at the top."""
        moments = [curve.log_mgf(theta, rare)[0] for _, curve in self._curves]
        return np.asarray(np.max(np.stack([np.zeros(theta.size), *moments]), axis=0))

    def best(self, question: Question) -> tuple[float, str]:
        """The largest certified answer over all compositions, and whose it is."""
        answers = [(question.of_composed(curve), label) for label, curve in self._curves]
        return max(answers, default=(0.0, "none"), key=lambda answer: answer[0])


def every_second(points: IntArray | FloatArray) -> NDArray[np.intp]:
    """Positions of every second point, first and last included."""
    return np.unique(np.append(np.arange(0, points.size, 2), points.size - 1))
