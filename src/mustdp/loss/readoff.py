"""Read delta and epsilon off a composition, on the upper or on the lower side.

A tilted sum gives P(S = s) = M_total e^{-theta s} P_theta(S = s). In units of
A = M_total e^{-theta r}, r a reference near the epsilon in question, the profile at the grid points
follows from two running sums of positive terms, from the top down:

    G_i = sum_{s > s_i} e^{s_i - s} w(s),     D_i = D_{i+1} + (e^d - 1) G_i,
    w(s) = e^{-theta (s - r)} P_theta(S = s),

and between grid points it is linear in alpha = e^eps. All errors of the tilted masses are known, so
the masses are moved by them in the direction asked for before they are summed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mustdp.loss.compose import OUTSIDE, Composition, Tilted
from mustdp.numerics.arrays import ROUNDOFF, FloatArray

Side = Literal["upper", "lower"]

_RATIO = 1.15
_KEPT = 3
_LARGEST_EXPONENT = 300.0


@dataclass(frozen=True, eq=False)
class Table:
    """The profile at grid points, in units of e^log_unit, and its slopes between them."""

    first: float
    spacing: float
    log_unit: float
    values: FloatArray
    gains: FloatArray
    theta: float
    reference: float

    def at(self, epsilon: float) -> float:
        """The finite part of delta at one epsilon, in units of e^log_unit, without the doubt."""
        place = (epsilon - self.first) / self.spacing
        if place >= self.values.size - 1:
            return 0.0
        cell = max(0, math.floor(place))
        # D(alpha) = D_{i+1} + (alpha_{i+1} - alpha) e^{-s_i} G_i inside cell i
        left = self.first + cell * self.spacing
        drop = math.exp(self.spacing) - math.exp(epsilon - left)
        return float(self.values[cell + 1] + max(drop, 0.0) * self.gains[cell])

    @property
    def last(self) -> float:
        """The largest loss inside the window."""
        return self.first + self.spacing * (self.values.size - 1)

    @property
    def rounding(self) -> float:
        """Bound of the relative error of the two running sums, and of places between the dots."""
        places = max(abs(self.first), abs(self.last)) / self.spacing
        return ROUNDOFF * (4.0 * self.values.size + 16.0 * places + 1e4)

    def doubt(self, epsilon: float) -> float:
        """What may lie outside the window or have wrapped around, in the same units."""
        away = -self.theta * (epsilon - self.reference)
        return 2.0 * OUTSIDE * math.exp(away) if away < 700.0 else math.inf


class ReadOff:
    """Certified values of one composition; transforms are kept and shared by nearby questions."""

    def __init__(self, composition: Composition, side: Side) -> None:
        self.composition, self.side = composition, side
        self._tilts: dict[float, Tilted] = {}
        self._tables: dict[float, Table] = {}

    def delta(self, epsilon: float) -> float:
        """Bound of delta at one epsilon."""
        if self.side == "upper" and self.composition.infinite >= 1.0:
            return 1.0
        if epsilon >= self.composition.largest:
            return self.composition.infinite if self.side == "upper" else 0.0
        best = self.composition.best_tilt(epsilon)
        table = self._table(_rounded(best), epsilon)
        if not table.first <= epsilon < table.last:
            # Losses with rare, far outliers move a long way with the tilt: no rounding then.
            table = self._table(best, epsilon)
        return self._delta(table, epsilon)

    def curve(self, epsilon: FloatArray) -> FloatArray:
        """Bounds of delta at many epsilons, a few transforms for all."""
        beyond = min(1.0, self.composition.infinite) if self.side == "upper" else 0.0
        if beyond == 1.0:
            return np.ones(epsilon.size)
        out = np.full(epsilon.size, beyond)
        inside = np.flatnonzero(epsilon < self.composition.largest)
        tilts = self.composition.ladder_tilts(epsilon[inside])
        for theta in np.unique(tilts):
            left = inside[tilts == theta]
            while left.size:
                table = self._table(float(theta), float(epsilon[left[0]]))
                near = np.abs(epsilon[left] - table.reference) * theta <= _LARGEST_EXPONENT / 2
                near[0] = True
                rows, left = left[near], left[~near]
                seen = (table.first <= epsilon[rows]) & (epsilon[rows] < table.last)
                out[rows[seen]] = self._deltas(table, epsilon[rows[seen]])
                for row in rows[~seen]:
                    out[row] = self.delta(float(epsilon[row]))
        return out

    def epsilon(self, delta: float) -> float:
        """Bound of the smallest epsilon >= 0 at which delta is met.

        Upper side: a value at which the upper bound of delta is at most ``delta`` (infinite if the
        mass at infinity alone is larger). Lower side: a value at which the lower bound of delta
        still exceeds ``delta`` (zero if there is none).
        """
        if self.side == "upper" and not self.composition.infinite < delta:
            return math.inf
        guess = min(max(0.0, self.composition.chernoff_epsilon(delta)), self.composition.largest)
        seen: set[float] = set()
        while True:
            theta = _rounded(self.composition.best_tilt(guess))
            if theta in seen:
                break
            seen.add(theta)
            table = self._table(theta, guess)
            guess = self._solve(table, delta)
        return self._settled(guess, delta)

    def _table(self, theta: float, near: float) -> Table:
        """A table for this tilt whose reference is close enough to the epsilon in question."""
        table = self._tables.get(theta)
        if table is None or abs(near - table.reference) * theta > _LARGEST_EXPONENT / 2:
            if theta not in self._tilts:
                while len(self._tilts) >= _KEPT:
                    oldest = next(iter(self._tilts))
                    del self._tilts[oldest]
                    self._tables.pop(oldest, None)
                self._tilts[theta] = self.composition.tilt(theta)
            table = self._tabulate(self._tilts[theta], near)
            self._tables[theta] = table
        return table

    def _tabulate(self, tilted: Tilted, reference: float) -> Table:
        sign = 1.0 if self.side == "upper" else -1.0
        d, theta = self.composition.spacing, tilted.theta
        reference = min(reference, float(tilted.losses[-1]))
        lowest = reference - _LARGEST_EXPONENT / max(theta, 1e-3)
        start = int(np.searchsorted(tilted.losses, max(lowest, -d)))
        start = min(start, tilted.losses.size - 2)
        losses = tilted.losses[start:]
        masses = np.maximum(tilted.masses[start:] + sign * tilted.error, 0.0)
        gains = _gains(losses, np.exp(-theta * (losses - reference)) * masses)
        values = np.append(np.cumsum((math.expm1(d) * gains)[::-1])[::-1], 0.0)
        log_unit = tilted.log_scale - theta * reference + math.log1p(sign * tilted.relative)
        return Table(float(losses[0]), d, log_unit, values, gains, theta, reference)

    def _delta(self, table: Table, epsilon: float) -> float:
        if self.side == "upper":
            if epsilon < table.first:  # losses below the window are unknown: the trivial bound
                return 1.0
            finite = (table.at(epsilon) + table.doubt(epsilon)) * (1.0 + table.rounding)
            return min(1.0, _in_units(finite, table.log_unit) + self.composition.infinite)
        at = max(epsilon, table.first)  # delta never increases
        finite = (table.at(at) - table.doubt(at)) * (1.0 - table.rounding)
        missing = math.exp(min(epsilon, 700.0)) * self.composition.lost
        return min(1.0, max(_in_units(finite, table.log_unit) - missing, 0.0))

    def _deltas(self, table: Table, epsilon: FloatArray) -> FloatArray:
        """The same at many epsilons inside the table."""
        cell = np.maximum(np.floor((epsilon - table.first) / table.spacing), 0.0).astype(np.int64)
        cell = np.minimum(cell, table.gains.size - 1)
        drop = math.exp(table.spacing) - np.exp(epsilon - (table.first + cell * table.spacing))
        value = table.values[cell + 1] + np.maximum(drop, 0.0) * table.gains[cell]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            doubt = 2.0 * OUTSIDE * np.exp(-table.theta * (epsilon - table.reference))
            sign = 1.0 if self.side == "upper" else -1.0
            finite = np.maximum(value + sign * doubt, 0.0) * (1.0 + sign * table.rounding)
            found = np.exp(np.minimum(np.log(finite) + table.log_unit, 0.0))
        if self.side == "upper":
            return np.minimum(1.0, found + self.composition.infinite)
        missing = np.exp(np.minimum(epsilon, 700.0)) * self.composition.lost
        return np.clip(found - missing, 0.0, 1.0)

    def _solve(self, table: Table, delta: float) -> float:
        """Bisect on the bound read off one table: a guess, which may be an end of the table."""
        low = max(0.0, table.first)
        high = max(table.last, low)
        if self._delta(table, low) <= delta:
            return low
        while high - low > 1e-10 * (1e-2 + high):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._delta(table, middle) > delta else (low, middle)
        return high if self.side == "upper" else low

    def _settled(self, guess: float, delta: float) -> float:
        """The safe end of a narrow bracket, both ends of it freshly read off."""

        def meets(epsilon: float) -> bool:
            return self.delta(epsilon) <= delta

        low, high = 0.0, max(self.composition.largest, 0.0)  # fails at low > 0, meets at high
        step = 1e-9 * (1e-2 + guess)
        for trial in (guess - step, guess, guess + step):
            if low < trial < high:
                low, high = (low, trial) if meets(trial) else (trial, high)
        while high - low > 3.0 * step:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if meets(middle) else (middle, high)
            step = 1e-9 * (1e-2 + high)
        if low == 0.0 and meets(0.0):
            return 0.0
        return high if self.side == "upper" else low


def _in_units(value: float, log_unit: float) -> float:
    """``value * e^log_unit`` without overflow, at most 1; zero for negative values."""
    if not value > 0.0:
        return 0.0
    return math.exp(min(math.log(value) + log_unit, 0.0))


def _gains(losses: FloatArray, weights: FloatArray) -> FloatArray:
    """G_i = sum_{j > i} e^{s_i - s_j} w_j, in blocks short enough for their exponentials."""
    gains = np.empty(losses.size - 1)
    block = max(2, int(_LARGEST_EXPONENT / (losses[1] - losses[0])))
    carried, stop = 0.0, losses.size - 1  # G at index `stop`
    while stop > 0:
        start = max(0, stop - block)
        away = losses[start : stop + 1] - losses[stop]
        terms = np.exp(-away[1:]) * weights[start + 1 : stop + 1]
        gains[start:stop] = np.exp(away[:-1]) * (np.cumsum(terms[::-1])[::-1] + carried)
        carried, stop = float(gains[start]), start
    return gains


def _rounded(theta: float) -> float:
    """Round a tilt down to a geometric ladder so that nearby questions share a transform.

    Down, because a steeper tilt than the best one may drown the sum in its rarest losses.
    """
    if theta <= 0:
        return 0.0
    return float(_RATIO ** math.floor(math.log(theta) / math.log(_RATIO) + 1e-9))
