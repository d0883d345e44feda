"""Quantiles that cover where many values are equal: the interval never claims more than the grid.

At grid point k the noisy distribution function F_k has SE_k^2 = p (1 - p) / n + noise. With c the
normal quantile, j the first k with F_k + c SE_k >= p, and l the one after the last with F_k - c
SE_k < p, the quantile lies in (g_{j-1}, g_l]: to miss the true place q, the interval has to err at
q or at q - 1, one place for each end, however many places the grid has. Nothing is interpolated
across an atom to narrow it. F is 1 at the upper end. The first grid point is the lower end itself,
where values may be piled up; a quantile at or below it is there.

*Two rounds.* The curve on the whole grid gets two fifths of the quantile's budget; the rest goes
into a curve on few points around the quantile, between what the first leaves possible at 3.3
errors (``benchmarks/quantile_rounds.py`` has what that gains). At those points the two are averaged
by their precision. Data that can be read once get one round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from mustdp.estimation.bootstrap.query import ANYWHERE, CLEARLY, Range
from mustdp.estimation.release.curve import Curve, Window
from mustdp.estimation.release.estimate import FEW, Reading, everything
from mustdp.estimation.release.parts import Noisy, Part
from mustdp.estimation.release.statistic import MOST_UNKNOWN, StatisticRequest
from mustdp.numerics.arrays import FloatArray, IntArray

#: A curve, the variance of its noise, and what sampling multiplies F (1 - F) by.
Seen = tuple[FloatArray, FloatArray, FloatArray]
#: Values are whole if less than this share of them is released as lying between whole numbers.
_BETWEEN = 0.05
#: A range between whole numbers up to this length has all of them on its grid.
POINTS = 256
#: Grid points of any other range: so many that a step is small beside sampling errors. Four times
#: as many cost a sixth more noise, which is little beside what a wide step costs.
FINE = 1024
#: Points of the second round for each quantile, and how many errors around it they are laid.
NEAR, WIDE = 32, 3.3


@dataclass(frozen=True)
class Quantile(StatisticRequest):
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
        return Curve(self.schema, self.columns, self.grid)

    @property
    def twice(self) -> bool:
        """Wherever the records can be read twice; strata have their points in common."""
        return not self.schema.once and not self.schema.shares

    @property
    def linearised(self) -> StatisticRequest:
        """One second round for all quantiles of a curve."""
        return replace(self, p=0.5, called="curve")

    def again(self, noisy: Noisy, together: Sequence[StatisticRequest]) -> Part:
        """The points where the quantiles can be, in every slot."""
        shares = [one.p for one in together if isinstance(one, Quantile)]
        count = min(NEAR * len(shares), len(self.grid))
        places = np.empty((self.schema.slots, count), dtype=np.int64)
        for slot in range(self.schema.slots):
            seen = self._seen(noisy, slot, noisy)
            places[slot] = _around(seen, shares, len(self.grid), count)
        return Window(self.part, places)

    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """By the grid points at which F may reach p."""
        if noisy is None:
            return
        seen = self._seen(noisy, slot, noisy)
        if seen is None:
            yield "", self._everything()
            return
        at, whole = np.arange(len(self.grid)), self._whole(_monotone(seen[0]))
        again = None if second is None else self._seen(second, slot, noisy)
        if second is not None and again is not None and isinstance(second.part, Window):
            at = second.part.places[slot]
            seen = _averaged(seen[0][at], seen[1][at], *again)
        yield "", self._reading(*seen, level, at, whole)

    def read_strata(
        self, noisy: Noisy | None, second: Noisy | None, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """The distribution function of the population is sum W_h F_h."""
        if noisy is None:
            return
        shares = self.schema.shares
        seen = [self._seen(noisy, slot, noisy) for slot in range(len(shares))]
        known = [(share, one) for share, one in zip(shares, seen, strict=True) if one is not None]
        unknown = math.fsum(x for x, one in zip(shares, seen, strict=True) if one is None)
        if unknown > MOST_UNKNOWN:
            yield "", self._everything()
            return
        curve, noise, sampling = np.zeros((3, len(self.grid)))
        for share, (own, variance, factor) in known:
            inside = np.clip(_monotone(own), 0.0, 1.0)
            curve += share * own
            noise += share**2 * variance
            sampling += share**2 * factor * inside * (1.0 - inside)
        at, whole = np.arange(len(self.grid)), self._whole(_monotone(curve))
        sampling /= self.p * (1.0 - self.p)
        # F of a stratum that is not known is anywhere in [0, 1].
        curve += 0.5 * unknown
        found = self._reading(curve, noise, sampling, level, at, whole, 0.5 * unknown)
        few = [name for name, one in zip(self.schema.groups, seen, strict=False) if one is None]
        flags = (*found.flags, *(f"{name}: {FEW}" for name in few))
        yield "", replace(found, flags=flags)

    def _seen(self, noisy: Noisy, slot: int, first: Noisy) -> Seen | None:
        """F of one slot, the variance of its noise, and what F (1 - F) is multiplied by.

        ``first`` is the first round, which has the weights. None: too few records for the noise.
        """
        records = float(noisy.sums[slot, 0])
        if not records > max(CLEARLY * math.sqrt(noisy.noise.own[0]), 1e-9):
            return None
        curve = noisy.sums[slot, 1:] / records
        variance = noisy.noise.own[1:] - 2.0 * curve * noisy.noise.first[1:]
        variance = np.maximum(variance + curve**2 * noisy.noise.own[0], 0.0) / records**2
        factor = self.left(noisy, slot) * first.effective(slot) / records**2
        return curve, variance, np.full(len(curve), factor)

    def _everything(self) -> Reading:
        column = self.schema.columns[self.columns[0]].numeric
        return everything((column.lower, column.upper))

    def _reading(
        self,
        curve: FloatArray,
        variance: FloatArray,
        factor: FloatArray,
        level: float,
        at: IntArray,
        whole: bool,
        beside: float = 0.0,
    ) -> Reading:
        """From the curve at the places ``at`` of the grid, off by at most ``beside`` besides."""
        column = self.schema.columns[self.columns[0]].numeric
        sampling = self.p * (1.0 - self.p) * factor
        c = float(ndtri(0.5 + 0.5 * level))
        reach = c * np.sqrt(variance + sampling) + beside
        every = np.array([*self.grid, column.upper])
        points = every[[*at, at[-1] + 1]]
        first = _first(curve + reach >= self.p)
        last = len(curve) - _first((curve - reach < self.p)[::-1])
        low = float(points[first - 1]) if first else float(points[0])
        if first == 0 and at[0] == 0 and self.grid[0] > column.lower:
            low = column.lower
        high = float(points[last])
        if (low, high) == (column.lower, column.upper):
            return everything((low, high), ANYWHERE)
        value = self._value(_monotone(curve), points, whole)
        value = min(max(value, low), high)
        here = min(_first(_monotone(curve) >= self.p), len(variance) - 1)
        both = float(variance[here] + sampling[here])
        share = float(variance[here]) / both if variance[here] > 0 else 0.0
        return Reading(value, (high - low) / (2.0 * c), (low, high), share)

    def _whole(self, curve: FloatArray) -> bool:
        """Whether values are whole numbers: as is known, or as far as the curve tells."""
        own = self.schema.columns[self.columns[0]]
        if own.whole:
            return True
        column = own.numeric
        return whole_grid(column) == self.grid and _whole_values(curve, np.array(self.grid))

    def _value(self, curve: FloatArray, points: FloatArray, whole: bool) -> float:
        """The grid point where the curve reaches p; evenly between two, unless values are whole."""
        at = _first(curve >= self.p)
        declared = self.schema.columns[self.columns[0]].whole
        if at == 0 or (whole and not (declared and points[at] - points[at - 1] > 1.0)):
            return float(points[at])
        below = float(curve[at - 1])
        above = 1.0 if at == len(curve) else float(curve[at])
        part = (self.p - below) / (above - below) if above > below else 0.5
        found = float(points[at - 1] + part * (points[at] - points[at - 1]))
        return float(round(found)) if declared else found


def _around(seen: Seen | None, shares: Sequence[float], size: int, count: int) -> IntArray:
    """``count`` places of a grid: evenly where quantiles can be, then those next to the middle."""
    found: set[int] = set()
    middle = 0.5 * size
    for p in shares:
        if seen is None:
            break
        curve, variance, factor = seen
        reach = WIDE * np.sqrt(variance + p * (1.0 - p) * factor)
        low = max(_first(curve + reach >= p) - 1, 0)
        high = min(size - _first((curve - reach < p)[::-1]), size - 1)
        middle = 0.5 * (low + high)
        found |= set(np.linspace(low, high, count // len(shares)).round().astype(int).tolist())
    order = np.argsort(np.abs(np.arange(size) - middle), kind="stable").tolist()
    rest = [place for place in order if place not in found]
    return np.array(sorted([*found, *rest[: count - len(found)]]), dtype=np.int64)


def _averaged(curve: FloatArray, variance: FloatArray, *again: FloatArray) -> Seen:
    """Two rounds at the same points, by the precision of each."""
    second, own, factor = again
    both = variance + own
    weight = np.where(both > 0, variance / np.where(both > 0, both, 1.0), 1.0)
    together = weight * second + (1.0 - weight) * curve
    return together, weight**2 * own + (1.0 - weight) ** 2 * variance, factor


def grid_for(
    column: Range, asked: int | tuple[float, ...] | None = None, whole: bool = False
) -> tuple[float, ...]:
    """The points asked for; whole numbers where the range is one of those; else even steps.

    ``whole``: the values are whole numbers, and so are all points: every one, or every so many.
    """
    if isinstance(asked, tuple):
        return asked
    if whole:
        step = math.ceil(column.width / FINE)
        return tuple(column.lower + step * k for k in range(math.ceil(column.width / step)))
    if asked is None and (points := whole_grid(column)):
        return points
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
