"""Quantiles that cover where many values are equal: the interval never claims more than the grid.

At grid point k the noisy distribution function F_k has SE_k^2 = p (1 - p) / n + noise. With c the
normal quantile, j the first k with F_k + c SE_k >= p, and l the one after the last with F_k - c
SE_k < p, the quantile lies in (g_{j-1}, g_l]: to miss the true place q, the interval has to err at
q or at q - 1, one place for each end, however many places the grid has. Nothing is interpolated
across an atom to narrow it. F is 1 at the upper end. The first grid point is the lower end itself,
where values may be piled up; a quantile at or below it is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from mustdp.numerics.arrays import FloatArray
from mustdp.releasing.curve import Curve
from mustdp.releasing.stack import Noisy
from mustdp.releasing.statistics.asked import Asked
from mustdp.releasing.uncertainty import CLEARLY, FEW, Reading
from mustdp.resampling.statistics.public import Range

#: Values are whole if less than this share of them is released as lying between whole numbers.
_BETWEEN = 0.05
#: A range between whole numbers up to this length has all of them on its grid.
POINTS = 256
#: Grid points of any other range: so many that a step is small beside sampling errors. Four times
#: as many cost a sixth more noise, which is little beside what a wide step costs.
FINE = 1024


@dataclass(frozen=True)
class Quantile(Asked):
    """The smallest value that a share ``p`` of the records does not exceed."""

    p: float
    grid: tuple[float, ...]
    called: str

    @property
    def name(self) -> str:
        """In results, as it was asked for."""
        return self.called

    @cached_property
    def part(self) -> Curve:
        """Running counts on the grid."""
        return Curve(self.ground, self.columns, self.grid)

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """By the grid points at which F may reach p."""
        if noisy is None:
            return
        seen = self._seen(noisy, slot)
        yield "", self._everything() if seen is None else self._reading(*seen, level)

    def read_strata(
        self, noisy: Noisy | None, second: Noisy | None, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """The distribution function of the population is sum W_h F_h."""
        if noisy is None:
            return
        shares = self.ground.shares
        seen = [self._seen(noisy, slot) for slot in range(len(shares))]
        known = [(share, one) for share, one in zip(shares, seen, strict=True) if one is not None]
        if len(known) < len(shares):
            yield "", self._everything()
            return
        curve, noise, sampling = np.zeros((3, len(self.grid)))
        for share, (own, variance, factor) in known:
            inside = np.clip(_monotone(own), 0.0, 1.0)
            curve += share * own
            noise += share**2 * variance
            sampling += share**2 * factor * inside * (1.0 - inside)
        yield "", self._reading(curve, noise, sampling / (self.p * (1.0 - self.p)), level)

    def _seen(self, noisy: Noisy, slot: int) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """F of one slot, the variance of its noise, and what F (1 - F) is multiplied by.

        None where there are too few records for the noise.
        """
        records = float(noisy.sums[slot, 0])
        if not records > max(CLEARLY * math.sqrt(noisy.noise.own[0]), 1e-9):
            return None
        curve = noisy.sums[slot, 1:] / records
        variance = noisy.noise.own[1:] - 2.0 * curve * noisy.noise.first[1:]
        variance = np.maximum(variance + curve**2 * noisy.noise.own[0], 0.0) / records**2
        factor = self.left(noisy, slot) * noisy.effective(slot) / records**2
        return curve, variance, np.full(len(curve), factor)

    def _everything(self) -> Reading:
        column = self.ground.columns[self.columns[0]].numeric
        middle, half = 0.5 * (column.lower + column.upper), 0.5 * column.width
        return Reading(middle, half, (column.lower, column.upper), 1.0, (FEW,))

    def _reading(
        self, curve: FloatArray, variance: FloatArray, factor: FloatArray, level: float
    ) -> Reading:
        column = self.ground.columns[self.columns[0]].numeric
        sampling = self.p * (1.0 - self.p) * factor
        c = float(ndtri(0.5 + 0.5 * level))
        reach = c * np.sqrt(variance + sampling)
        points = np.array([*self.grid, column.upper])
        first = _first(curve + reach >= self.p)
        last = len(curve) - _first((curve - reach < self.p)[::-1])
        low = float(points[first - 1]) if first else float(points[0])
        if first == 0 and self.grid[0] > column.lower:
            low = column.lower
        high = float(points[last])
        value = self._value(_monotone(curve), points, column)
        value = min(max(value, low), high)
        at = min(_first(_monotone(curve) >= self.p), len(variance) - 1)
        whole = float(variance[at] + sampling[at])
        share = float(variance[at]) / whole if variance[at] > 0 else 0.0
        return Reading(value, (high - low) / (2.0 * c), (low, high), share)

    def _value(self, curve: FloatArray, points: FloatArray, column: Range) -> float:
        """The grid point where the curve reaches p; evenly between two, unless values are whole."""
        at = _first(curve >= self.p)
        if at == 0 or (whole_grid(column) == self.grid and _whole_values(curve, points)):
            return float(points[at])
        below = float(curve[at - 1])
        above = 1.0 if at == len(curve) else float(curve[at])
        part = (self.p - below) / (above - below) if above > below else 0.5
        return float(points[at - 1] + part * (points[at] - points[at - 1]))


def grid_for(column: Range, asked: int | tuple[float, ...] | None = None) -> tuple[float, ...]:
    """The points asked for; whole numbers where the range is one of those; else even steps."""
    if isinstance(asked, tuple):
        return asked
    if asked is None:
        whole = whole_grid(column)
        if whole:
            return whole
    steps = np.arange(asked or FINE) / (asked or FINE)
    return tuple((column.lower + column.width * steps).tolist())


def whole_grid(column: Range) -> tuple[float, ...]:
    """Whole numbers, and even parts between them, if the ends are whole and not too far apart."""
    low, high = column.lower, column.upper
    if not (low == math.floor(low) and high == math.floor(high) and high - low <= POINTS):
        return ()
    parts = 2 ** int(math.log2(POINTS // (high - low)))
    return tuple(low + k / parts for k in range(int(high - low) * parts))


def _whole_values(curve: FloatArray, points: FloatArray) -> bool:
    """Whether next to nobody lies strictly between whole numbers, as far as the release tells."""
    rises = np.diff(curve, prepend=0.0)
    between = points[: len(curve)] != np.floor(points[: len(curve)])
    return float(rises[between].sum()) < _BETWEEN


def _first(true: FloatArray | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """The first place that is true; the place behind the last one if none is."""
    found = np.flatnonzero(true)
    return int(found[0]) if found.size else len(true)


def _monotone(curve: FloatArray) -> FloatArray:
    """The running maximum and minimum in the middle: never falls."""
    up = np.maximum.accumulate(curve)
    down = np.minimum.accumulate(curve[::-1])[::-1]
    found: FloatArray = 0.5 * (up + down)
    return found
