"""Quantiles, read off a noisy distribution function on a public grid.

Released are the shares F_k of entries <= g_k at K grid points g_1 < ... < g_K inside (lower,
upper), not an order statistic: one record can move an order statistic across the whole range.

Added up are (1 if x <= g_k, else 0) - 1/2 for all k; on multisets of fixed size the 1/2 is given
back after the noise.

**Multisets of fixed size m.** Swapping an entry x for x' changes F_k only where g_k lies between
them, and there by 1/m, all in one direction. So each F_k has sensitivity 1/m, but they move
*together*: up to K of them, an L2 distance of ``sqrt(K) / m``, attained by x = lower, x' = upper.
The reach is ``sqrt(K) / (2m)``.

**Poisson subsets of expected size M.** Released are the sums and the size, over M. One copy moves
every sum by exactly 1/(2M): together ``sqrt(K) / (2M)``; and the size by 1/M. Shares
(``sharing.py``) are w^2 = sqrt(K)/(1 + sqrt(K)) and 1/(1 + sqrt(K)). F_k = sum / size + 1/2, so the
noise in it has variance near ``(z/M)^2 (K/(4 w_F^2) + (F - 1/2)^2/w_N^2)``, and these shares are
the best ones where F is 0 or 1.

**The grid.** More points mean more noise in each (like sqrt K) and finer steps. Noise is averaged
out over replicates, what happens inside a step is not. For normal data in a range of ten standard
deviations, the cubics between grid points move the quantiles from 5 to 95 per cent by up to
0.031, 0.0055, 0.0005 and 0.00006 standard deviations for K = 8, 16, 32 and 64; K = 32 is taken if
nothing is said. An interval much narrower than a step is cautioned about. Who knows from public
sources where the quantile lies should give a short grid around there: five points carry 2.5 times
less noise than 32. The data must not choose the grid.

Data with many equal values (integers, say) are seen as spread evenly over the grid step they lie
in, so a quantile of them is known to one step of the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.statistics.average import LEAST_SHARE
from mustdp.resampling.statistics.columns import OfColumns
from mustdp.resampling.statistics.curve import crossings, monotone
from mustdp.resampling.statistics.public import Public, Range
from mustdp.resampling.statistics.query import Block, LinearQuery, Query
from mustdp.resampling.statistics.sharing import block, enlarged

#: Grid points if nothing is said, and the most that are accepted.
DEFAULT_GRID = 32
LARGEST_GRID = 1024
#: Intervals narrower than this part of a step are cautioned about.
_NARROW = 0.1


@dataclass(frozen=True)
class QuantileQuery(LinearQuery):
    """The distribution function on ``grid`` and, on Poisson subsets, the size."""

    public: Public
    p: float
    grid: tuple[float, ...]
    labels: tuple[str, ...]
    blocks: tuple[Block, ...] = field(init=False)
    _grid: FloatArray = field(init=False, repr=False, compare=False)
    _points: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        root, size, poisson = math.sqrt(len(self.grid)), self.public.size, self.public.poisson
        shift = 0.0 if poisson else 0.5
        curve = block("distribution", len(self.grid), 0.5 * root / size, size, shift)
        blocks: tuple[Block, ...] = (curve,)
        if poisson:
            count = block("count", 1, 1.0 / size, size)
            blocks = (
                enlarged(curve, math.sqrt(root / (1.0 + root))),
                enlarged(count, math.sqrt(1.0 / (1.0 + root))),
            )
        grid = np.array(self.grid)
        (column,) = self.public.ranges
        points = np.concatenate([[column.lower], grid, [column.upper]])
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "_grid", grid)
        object.__setattr__(self, "_points", points)

    def contributions(self, values: FloatArray) -> FloatArray:
        """1/2 for the grid points that a value does not exceed, -1/2 for the others (and 1)."""
        found = np.ones((len(values), self.width))
        found[:, : len(self.grid)] = np.where(values[:, :1] <= self._grid, 0.5, -0.5)
        return found

    def total(self, values: FloatArray, counts: IntArray) -> FloatArray:
        """The sum of the contributions, by counting; all of it is exact."""
        self.public.check_size(counts)
        places = self._grid.searchsorted(values[:, 0])
        sums = np.bincount(places, counts, len(self.grid) + 1).cumsum(dtype=np.float64)
        sums[:-1] -= 0.5 * sums[-1]
        return sums if self.public.poisson else sums[:-1]

    def steps(self, values: FloatArray, counts: IntArray, per_step: FloatArray) -> FloatArray:
        """By counting, too: every contribution is a half or a whole one of either sign."""
        if not np.all(per_step >= 2.0):  # a step that would cut a half to nothing
            return super().steps(values, counts, per_step)
        found: FloatArray = self.total(values, counts) * per_step
        return found

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The quantile of the monotone curve; the middle of the stretch if it is flat there."""
        first, last = crossings(monotone(self._curves(vectors)), self._points, self.p)
        return np.asarray(0.5 * (first + last))[..., None]

    def interval(
        self, average: FloatArray, covariance: FloatArray, quantile: float
    ) -> FloatArray | None:
        """Woodruff's (1952) interval: the curve inverted at level -+ quantile * error of F.

        The error of F is that of the interpolated curve at the estimate; in the outermost steps of
        the grid, that of the outermost grid point. It always holds the estimate.
        """
        curve = self._curves(average)
        fitted = monotone(curve)
        estimate = float(self.estimate(average)[0])
        variance = self._variance_at(estimate, curve, average, covariance)
        reach = quantile * math.sqrt(max(variance, 0.0))
        low = crossings(fitted, self._points, self.p - reach)[0]
        high = crossings(fitted, self._points, self.p + reach)[1]
        return np.array([[min(float(low), estimate), max(float(high), estimate)]])

    def cautions(self, average: FloatArray, widths: FloatArray) -> tuple[str, ...]:
        """A word where the interval is far narrower than the step that the estimate lies in."""
        place = self._points.searchsorted(float(self.estimate(average)[0]))
        right = min(max(int(place), 1), len(self._points) - 1)
        step = float(self._points[right] - self._points[right - 1])
        if not widths[0] < _NARROW * step:
            return ()
        return (
            f"{self.labels[0]}: the interval is less than {_NARROW:g} of a step of the grid, which "
            f"is {step:.3g}, and inside a step the distribution is only interpolated; a finer "
            "grid, or a short one around the quantile, would tell more",
        )

    def _curves(self, vectors: FloatArray) -> FloatArray:
        if not self.public.poisson:
            return np.asarray(vectors, dtype=np.float64)
        curves: FloatArray = 0.5 + vectors[..., :-1] / np.maximum(vectors[..., -1:], LEAST_SHARE)
        return curves

    def _variance_at(
        self, place: float, curve: FloatArray, average: FloatArray, covariance: FloatArray
    ) -> float:
        """Variance of the curve at ``place``: F there is a linear function of the release."""
        weights = self._weights(place, curve, covariance)
        if self.public.poisson:
            # F = 1/2 + sum/size, so dF = (d sum - (F - 1/2) d size) / size.
            size = max(float(average[-1]), LEAST_SHARE)
            weights = np.append(weights, -(weights @ curve - 0.5)) / size
        return float(weights @ covariance @ weights)

    def _weights(self, place: float, curve: FloatArray, covariance: FloatArray) -> FloatArray:
        """What the grid points count for in F at ``place``; they sum to one.

        Raising the whole curve by d moves the quantile by d over the density, so the slopes of the
        quantile in the single points, over their sum, are the weights. Where the quantile does not
        move, the nearest grid point counts alone.
        """
        count = len(self._grid)
        steps = np.sqrt(np.maximum(np.diagonal(covariance)[:count], 1e-18))
        moved = [
            crossings(monotone(curve + sign * np.diag(steps)), self._points, self.p)
            for sign in (1.0, -1.0)
        ]
        up, down = (0.5 * (first + last) for first, last in moved)
        slopes = (up - down) / steps
        total = float(slopes.sum())
        inside = self._grid[0] <= place <= self._grid[-1]
        if inside and total < 0.0 and float(np.abs(slopes).sum()) < 3.0 * -total:
            return np.asarray(slopes / total)
        weights = np.zeros(count)
        weights[int(np.argmin(np.abs(self._grid - place)))] = 1.0
        return weights


@dataclass(frozen=True)
class Quantile(OfColumns):
    """The value that a share ``p`` of the records stays below; reach sqrt(K) / (2m), proved above.

    ``grid`` is the number K of evenly spaced points inside the range, or the points themselves.

    >>> Quantile(0.9, grid=4).query(Public([0.0], [10.0], 20)).blocks
    (Block(label='distribution', width=4, reach=0.05),)
    """

    p: float
    grid: int | tuple[float, ...] = DEFAULT_GRID
    columns: tuple[str | int, ...] | None = None
    name = "quantile"

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", checks.real("p", self.p, above=0.0, below=1.0))
        if np.ndim(self.grid) == 0:
            checks.integer("grid", self.grid, 1, LARGEST_GRID)
        else:
            points = checks.reals("grid", self.grid)
            if not (points.size <= LARGEST_GRID and (np.diff(points) > 0.0).all()):
                raise InvalidParameter(
                    f"grid must be at most {LARGEST_GRID} points in strictly increasing order, "
                    f"got {points.size}: {self.grid!r}"
                )
            object.__setattr__(self, "grid", tuple(points.tolist()))
        super().__post_init__()

    def _on(self, public: Public) -> Query:
        grid = self._points(public.ranges[0])
        return QuantileQuery(public, self.p, grid, (self._label(),))

    def _points(self, column: Range) -> tuple[float, ...]:
        if isinstance(self.grid, tuple):
            points = np.array(self.grid)
        else:
            points = column.lower + column.width * (np.arange(1, self.grid + 1) / (self.grid + 1))
        around = np.concatenate([[column.lower], points, [column.upper]])
        if not (np.diff(around) > 0.0).all():
            raise InvalidParameter(
                f"grid must lie strictly between lower={column.lower!r} and "
                f"upper={column.upper!r}, got {points[0]!r} to {points[-1]!r}"
            )
        return tuple(points.tolist())

    def _label(self) -> str:
        return f"quantile {self.p:g}"


@dataclass(frozen=True)
class Median(Quantile):
    """The quantile for p = 1/2."""

    p: float = field(default=0.5, init=False)
    name = "median"

    def _label(self) -> str:
        return "median"
