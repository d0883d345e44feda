"""Sums of many independent variables of mean zero: E(sum - y)_+ from above and from below.

Both sides of one variable are put on a linear grid in convex order (``linear_laws.py``); their sum
is composed by a tilted Fourier transform whose aliasing and rounding are bounded (``compose.py``).
With w(t) = e^{-theta (t - r)} P_theta(sum = t), in units of M(theta) e^{-theta r},

    G_i = sum_{t > t_i} w(t),      E(sum - t_i)_+ = spacing (G_i + G_{i+1} + ...),

sums of positive terms, linear between grid points. A point outside the window is worth at most
max (t - y) e^{-theta (t - y)} = 1/(e theta).

The grid is chosen from the question: its spacing from the tilt at y, and the last point a little
above y. A variable that alone exceeds it has paid: what it has beyond is its expectation, in closed
form. So heavy tails cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.loss.compose import Composition, Tilted
from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.large_terms import one_large
from mustdp.loss.linear_laws import EVEN_CELLS, OnGrid, Variable, above, below, places
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray

#: Spacing times the square root of the number of variables times the tilt.
FINENESS = 0.06
_ROUGH, _ROUGH_CELLS = 0.25, 16
#: A tilt is at least this over the scale of the sum: without one, far outcomes would count fully.
_LEAST_TILT = 1.0
#: Share of the scale of the sum by which cutting off below may move its mean.
_LOW_CUT = 1e-6
#: Tilted mass that may lie outside the window, per side.
OUTSIDE = 1e-11
#: Points of a transform beyond which a wider grid is taken.
_LONGEST = 2**20
#: Grids that are tried, by their spacing: the first one is nearly always good enough.
_WIDER = tuple(2.0**k for k in range(24))
#: Exponents up to which weights under a tilt are used.
_STEEPEST = 600.0
#: Share of the answer that variables beyond the last point may add to it.
_RARE = 1e-6


@dataclass(frozen=True)
class Aim:
    """A tilt, the last point of the grid, and what E(sum - y)_+ is at most at the last y."""

    tilt: float
    high: float
    price: float


class IndependentSum:
    """The sum of ``count`` independent copies of a variable less its mean, or of its mirror."""

    def __init__(
        self,
        variable: Variable,
        count: int,
        *,
        mirrored: bool = False,
        even: int = EVEN_CELLS,
    ) -> None:
        self.variable, self.count, self.mirrored = variable, count, mirrored
        self._even = even
        size = 2.0 * float(variable.value(np.array([variable.mean]))[0])
        #: A typical size of the sum.
        self.scale = min(math.sqrt(count) * variable.deviation, count * size)
        self._low = self._lowest()

    def aim(self, start: float, stop: float, known: float = math.inf) -> Aim:
        """How to ask about y from ``start`` to ``stop``, found on rough grids.

        ``known`` is about what the price is at ``stop``, where that is known.
        """
        # If one variable is beyond the last point, the sum is beyond y unless the others undo it.
        found = self._rough(start, stop, self._highest(stop + 3.0 * max(self.scale, 0.02 * stop)))
        for _ in range(2):
            # Or such a variable is too rare to matter.
            looks = np.linspace(0.0, found.high, 129)[1:]
            rare = np.flatnonzero(
                self.count * self._values(looks) <= _RARE * min(found.price, known)
            )
            if not rare.size or rare[0] == looks.size - 1:
                break
            found = self._rough(start, stop, float(looks[rare[0]]))
        return found

    def _rough(self, start: float, stop: float, high: float) -> Aim:
        # Nearer the start: with heavy tails prices fall more slowly than the tilt.
        middle = 0.75 * start + 0.25 * stop
        width = _ROUGH * max(self.scale, middle / 40.0) / math.sqrt(self.count)
        rough = self._on_grid(above, width, high, middle, _ROUGH_CELLS)
        total = Composition([(rough.law, self.count)])
        tilt = self._clear(total.best_tilt(middle), stop)
        # Chernoff's bound of the price at the last y.
        size = float(total.log_mgf(np.array([tilt]))[0]) - tilt * stop - math.log(tilt)
        return Aim(tilt, high, math.exp(min(size, 700.0)))

    def upper(self, y: FloatArray, aim: Aim, fineness: float = FINENESS) -> FloatArray:
        """Upper bounds of E(sum - y)_+ at increasing y >= 0, by one transform.

        Infinite where no grid serves.
        """
        for wider in _WIDER:  # a wider grid is looser, never wrong
            spacing = wider * fineness / (aim.tilt * math.sqrt(self.count))
            try:
                found = self._on_grid(above, spacing, aim.high, float(y[0]))
                return self._read(found, aim.tilt, y, +1.0)
            except (TooLong, NumericalFailure):
                continue
        return np.full(y.size, np.inf)

    def lower(self, y: FloatArray, aim: Aim, fineness: float = FINENESS) -> FloatArray:
        """Lower bounds of the same, by one transform; zero where no grid serves."""
        for wider in _WIDER:
            spacing = wider * fineness / (aim.tilt * math.sqrt(self.count))
            try:
                return self._lower(y, aim, spacing)
            except (TooLong, NumericalFailure):
                continue
        return np.zeros(y.size)

    def _lower(self, y: FloatArray, aim: Aim, spacing: float) -> FloatArray:
        under = self._on_grid(below, spacing, aim.high, float(y[0]))
        # Merged into its mean, what is beyond the last point is further out: a gentler tilt.
        best = Composition([(under.law, self.count)]).best_tilt(
            0.75 * float(y[0]) + 0.25 * float(y[-1])
        )
        far = max(float(y[-1]), 0.25 * float(under.law.losses[-1]))
        return self._read(under, self._clear(min(best, aim.tilt), far), y, -1.0)

    def one_large(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds where one large variable decides; else none worth having."""
        if self.mirrored:
            return np.zeros(y.size), np.full(y.size, np.inf)
        return one_large(self.variable, self.count, y)

    def _clear(self, tilt: float, y: float) -> float:
        return max(tilt, _LEAST_TILT / max(self.scale, y))

    def places(self, spacing: float, high: float, y: float, even: int | None = None) -> IntArray:
        """Grid points for one variable, dense around its share of y: there the tilt puts it."""
        low, share = self._low, y / self.count
        if self.mirrored:
            low, high, share = -high, -low, -share
        return places(spacing, low, high, even or self._even, min(max(share, low), high))

    def _on_grid(
        self,
        side: Callable[..., OnGrid],
        spacing: float,
        high: float,
        y: float,
        even: int | None = None,
    ) -> OnGrid:
        found = side(self.variable, spacing, self.places(spacing, high, y, even))
        return found.mirrored if self.mirrored else found

    def _read(self, found: OnGrid, tilt: float, y: FloatArray, sign: float) -> FloatArray:
        left_out = found.cut_high * (1.0 + 1e-12) if sign > 0 else 0.0
        if not found.law.losses[-1] > 0.0:
            return np.zeros(y.size)
        return prices(found.law, self.count, tilt, y, sign) + self.count * left_out

    def _values(self, x: FloatArray) -> FloatArray:
        return self.variable.value(self.variable.mean + (-x if self.mirrored else x))

    def _lowest(self) -> float:
        """A point below which nothing matters: raising what lies there moves the sum little."""
        wanted = _LOW_CUT * self.scale / self.count
        looks = -np.geomspace(1e-6, 1e12, 120) * self.scale
        enough = np.flatnonzero(self._values(looks) <= wanted)
        return float(looks[enough[0]]) if enough.size else float(looks[-1])

    def _highest(self, high: float) -> float:
        """``high``, or a point closer by beyond which the variable has nothing left."""
        looks = np.linspace(0.0, high, 65)[1:]
        none = np.flatnonzero(self._values(looks) <= 1e-60)
        return float(looks[none[0]]) if none.size else high


def prices(
    law: DiscreteLoss,
    count: int,
    tilt: float,
    y: FloatArray,
    sign: float,
    tilted: Tilted | None = None,
) -> FloatArray:
    """E(sum - y)_+ of ``count`` copies at increasing y, rounded up or down, by one transform."""
    tilted = Summed([(law, count)]).tilt(tilt) if tilted is None else tilted
    reference = float(y[0])
    # Further on weights underflow. A price is at most one before it, and at least nothing.
    asked, y = y, np.minimum(y, reference + _STEEPEST / tilt)
    cells, gains, values = _running(tilted, reference, sign)
    d = law.spacing
    place = (y - cells[0]) / d
    cell = np.clip(np.floor(place), 0, gains.size - 1).astype(np.int64)
    inside = np.maximum(cells[0] + (cell + 1) * d - y, 0.0)
    priced = np.where(place < gains.size, values[cell + 1] + inside * gains[cell], 0.0)
    doubt = 2.0 * OUTSIDE / (math.e * tilt) * np.exp(-tilt * (y - reference))
    # Running sums; and places between grid points, where prices fall by at most this much.
    rounding = ROUNDOFF * (8.0 * gains.size + 1e4) * (1.0 + d * tilt)
    scaled = (priced + sign * doubt) * (1.0 + sign * (rounding + 2.0 * tilted.relative))
    log_unit = tilted.log_scale - tilt * reference
    with np.errstate(divide="ignore", over="ignore"):
        price = np.exp(np.log(np.maximum(scaled, 0.0)) + log_unit) * (1.0 + sign * 1e-12)
    return np.asarray(price if sign > 0 else np.where(np.isinf(price) | (asked > y), 0.0, price))


class Summed(Composition):
    """A composition whose window leaves out more: here it counts once, against one answer."""

    def _window(self, theta: float) -> tuple[float, float]:
        here = float(self.log_mgf(np.array([theta]))[0])
        reach, rungs = -math.log(OUTSIDE), self._ladder[::2]
        high = float(np.min((self.log_mgf(theta + rungs) - here + reach) / rungs))
        low = -float(np.min((self.log_mgf(theta - rungs) - here + reach) / rungs))
        if (high - low) / self.spacing > _LONGEST:
            raise TooLong
        return low - 2 * self.spacing, high + 2 * self.spacing


class TooLong(Exception):
    """The window has too many points for a transform that is worth its time."""


def _running(
    tilted: Tilted, start: float, sign: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Grid points from just below ``start`` on, G and the prices there."""
    first = max(0, int(np.searchsorted(tilted.losses, start, side="right")) - 1)
    first = min(first, tilted.losses.size - 2)
    cells = tilted.losses[first:]
    masses = np.maximum(tilted.masses[first:] + sign * tilted.error, 0.0)
    # Only the first point lies below the start, unless all of them do: then nothing counts.
    weights = np.exp(np.minimum(-tilted.theta * (cells - start), 50.0)) * masses
    gains = np.cumsum(weights[:0:-1])[::-1]
    d = float(cells[1] - cells[0])
    values = np.append(np.cumsum((d * gains)[::-1])[::-1], 0.0)
    return cells, gains, values
