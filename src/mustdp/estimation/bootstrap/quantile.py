"""Quantiles, read off a noisy distribution function on a public grid."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.bootstrap.averages import LEAST_SHARE
from mustdp.estimation.bootstrap.query import (
    ANYWHERE,
    Averaged,
    Block,
    Halves,
    LinearQuery,
    Public,
    Query,
    Range,
    Reading,
    Shape,
    Spread,
    Statistic,
    block,
    enlarged,
    everything,
    into,
)
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray

# A noisy distribution function on a grid: made monotone, and inverted.
#
# The curve F counts values <= g. At the ends of the range it is known: 0 at ``lower``, 1 at
# ``upper``. All of this reads what was released and costs no privacy.


def monotone(levels: FloatArray) -> FloatArray:
    """The closest non-decreasing curves to ``levels`` (..., K) in least squares, cut to [0, 1].

    Isotonic regression by its max-min formula (Robertson, Wright & Dykstra 1988, Thm 1.4.4): the
    value at k is the largest over i <= k of the smallest over j >= k of the average of levels i
    to j. It is done for all curves at once. Curves that are monotone already come back unchanged,
    to the last digit.
    """
    count = levels.shape[-1]
    rows = levels.reshape(-1, count)
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
    fitted = np.full(rows.shape, -np.inf)
    for first in range(count):
        averages = (sums[:, first + 1 :] - sums[:, first : first + 1]) / np.arange(
            1, count - first + 1
        )
        smallest = np.minimum.accumulate(averages[:, ::-1], axis=1)[:, ::-1]
        np.maximum(fitted[:, first:], smallest, out=fitted[:, first:])
    sorted_already = (np.diff(rows, axis=1) >= 0.0).all(axis=1, keepdims=True)
    # Rounding in the averages must not leave a step down of one part in 1e16.
    fitted = np.maximum.accumulate(np.where(sorted_already, rows, fitted), axis=1)
    return np.asarray(np.clip(fitted, 0.0, 1.0).reshape(levels.shape))


def crossings(
    curves: FloatArray, points: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Where monotone ``curves`` (..., K) come up to ``level``, and where they leave it.

    ``points`` are the K grid points with both ends of the range around them. Between points the
    inverse of the curve is a monotone cubic. The two answers differ only where the curve is flat at
    ``level``. Levels <= 0 are met at the lower end, levels >= 1 at the upper.
    """
    if not 0.0 < level < 1.0:
        end = np.full(curves.shape[:-1], points[0 if level <= 0.0 else -1])
        return end, end.copy()
    shape = (*curves.shape[:-1], 1)
    heights = np.concatenate([np.zeros(shape), curves, np.ones(shape)], axis=-1)
    first, last = (
        _inside(heights, points, below.sum(axis=-1), level)
        for below in (heights < level, heights <= level)
    )
    return first, last


def _inside(heights: FloatArray, points: FloatArray, right: IntArray, level: float) -> FloatArray:
    """The inverse at ``level`` in the step that ends at place ``right``, where the curve rises.

    Fritsch & Butland (1984): the slope at a point is the weighted harmonic mean of the slopes of
    the two steps that meet there, so that the cubic through both ends of a step is monotone. In
    terms of the curve itself the harmonic mean of 1/density is an average of densities, and empty
    steps need no care.
    """
    last = len(points) - 1
    places = [np.clip(right + offset, 0, last) for offset in (-2, -1, 0, 1)]
    x0, x1, x2, x3 = (points[place] for place in places)
    f0, f1, f2, f3 = (
        np.take_along_axis(heights, place[..., None], axis=-1)[..., 0] for place in places
    )
    rise, run = f2 - f1, x2 - x1
    density = rise / run
    left, next_ = (
        (3.0 * rise + 3.0 * beside)
        / np.where(
            width > 0.0,
            (2.0 * rise + beside) * beside / np.maximum(width, 1e-300)
            + (rise + 2.0 * beside) * density,
            3.0 * rise * density,
        )
        for beside, width in ((f1 - f0, x1 - x0), (f3 - f2, x3 - x2))
    )
    t = (level - f1) / rise
    bent = t * (1.0 - t) * ((1.0 - t) * (left * rise - run) - t * (next_ * rise - run))
    return np.asarray(x1 + t * run + bent)


# Quantiles, read off a noisy distribution function on a public grid.
#
# Released are the shares F_k of entries <= g_k at K grid points g_1 < ... < g_K inside [lower,
# upper), not an order statistic: one record can move an order statistic across the whole range.
#
# Added up are (1 if x <= g_k, else 0) - 1/2 for all k; on multisets of fixed size the 1/2 is given
# back after the noise.
#
# **Multisets of fixed size m.** Swapping an entry x for x' changes F_k only where g_k lies between
# them, and there by 1/m, all in one direction. So each F_k has sensitivity 1/m, but they move
# *together*: up to K of them, an L2 distance of ``sqrt(K) / m``, attained by x = lower, x' = upper.
# The reach is ``sqrt(K) / (2m)``.
#
# **Poisson subsets of expected size M.** Released are the sums and the size, over M. One copy moves
# every sum by exactly 1/(2M): together ``sqrt(K) / (2M)``; and the size by 1/M. Shares
# (``sharing.py``) are w^2 = sqrt(K)/(1 + sqrt(K)) and 1/(1 + sqrt(K)). F_k = sum / size + 1/2, so
# the noise in it has variance near ``(z/M)^2 (K/(4 w_F^2) + (F - 1/2)^2/w_N^2)``, and these shares
# are the best ones where F is 0 or 1.
#
# **The grid.** More points mean more noise in each (like sqrt K) and finer steps; noise is averaged
# out over replicates, what happens inside a step is not. If nothing is said, the grid is that of
# the whole numbers where the range is one between two of them, 16 to 128 apart (with even parts
# between them if they are closer), and else 64 even steps; all begin with a point at ``lower``
# itself, where values may be piled up. Who knows from public sources where the quantile lies
# should give a short grid around there: five points carry 3.6 times less noise than 64. The data
# must not choose the grid. Between grid points the estimate is read off cubics: for normal data in
# a range of ten standard deviations they move the quantiles from 5 to 95 per cent by up to 0.031,
# 0.0055, 0.0005 and 0.00006 standard deviations for K = 8, 16, 32 and 64.
#
# **The interval** never claims more than the grid knows. F_k has SE_k^2 = p (1 - p) f + N_k, with f
# the design's factor of a record's variance (``spread.py``) and N_k the variance of the noise.
# With c the normal quantile, j the first k with F_k + c SE_k >= p, and l the one after the last
# with F_k - c SE_k < p, the quantile lies in (g_{j-1}, g_l]: to miss the true place, the interval
# has to err at it or at the place before. Nothing is interpolated, so that ties, atoms and mass at
# an end do no harm.


#: Grid points if nothing is said, and the most that are accepted.
DEFAULT_GRID = 64
LARGEST_GRID = 1024
#: Ranges between whole numbers up to so far apart get a grid of all of them.
_WHOLE = 128
#: Up to so far apart, with parts between them.
_FEW = 16


@dataclass(frozen=True)
class QuantileQuery(LinearQuery):
    """The distribution function on ``grid`` and, on Poisson subsets, the size."""

    public: Public
    p: float
    grid: tuple[float, ...]
    labels: tuple[str, ...]
    whole: bool = False
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
        # What lies below a grid point at the lower end is an atom there: a step of no length.
        start = min(column.lower, float(grid[0]) - 1e-9 * column.width)
        points = np.concatenate([[start], grid, [column.upper]])
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "_grid", grid)
        object.__setattr__(self, "_points", points)

    def contributions(self, values: FloatArray) -> FloatArray:
        """1/2 for the grid points that a value does not exceed, -1/2 for the others (and 1)."""
        found = np.ones((len(values), self.width))
        found[:, : len(self.grid)] = np.where(values[:, :1] <= self._grid, 0.5, -0.5)
        return found

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
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
        return np.asarray(self.total(values, counts) * per_step)

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """The range of the column."""
        return ((self.public.ranges[0].lower, self.public.ranges[0].upper),)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The quantile of the monotone curve; the middle of the stretch if it is flat there.

        On a grid of whole numbers, the grid point where the curve reaches p.
        """
        curves = monotone(self._curves(vectors))
        if self.whole:
            places = np.asarray((curves < self.p).sum(axis=-1))
            return np.asarray(self._points[1:][places])[..., None]
        first, last = crossings(curves, self._points, self.p)
        low, high = self.possible[0]
        return np.clip(0.5 * (first + last), low, high)[..., None]

    def known(self, at: Averaged, level: float) -> tuple[Reading | None, ...]:
        """The grid points between which F may reach p; see above."""
        curve = self._curves(at.vector)
        noise = at.noise[: len(curve)]
        if self.public.poisson:  # F = 1/2 + sum / size
            size = max(float(at.vector[-1]), LEAST_SHARE)
            noise = (noise + (curve - 0.5) ** 2 * at.noise[-1]) / size**2
        sampling = self.p * (1.0 - self.p) * at.factor
        c = Spread(0.0, 0.0).quantile(level)
        reach = c * np.sqrt(sampling + noise)
        low, high = self.possible[0]
        may, falls = curve + reach >= self.p, curve - reach < self.p
        first = int(np.argmax(may)) if may.any() else len(curve)
        after = len(curve) - int(np.argmax(falls[::-1])) if falls.any() else 0
        ends = (
            low if first == 0 else float(self._grid[first - 1]),
            high if after == len(curve) else float(self._grid[after]),
        )
        value = into(float(self.estimate(at.vector)[0]), ends)
        place = min(int(self._grid.searchsorted(value)), len(curve) - 1)
        share = float(noise[place]) / (sampling + float(noise[place]))
        error = (ends[1] - ends[0]) / (2.0 * c)
        spread = Spread((1.0 - share) * error**2, share * error**2)
        if ends == (low, high):
            return (everything(ends, spread, ANYWHERE),)
        return (Reading(value, error, ends, spread),)

    def _curves(self, vectors: FloatArray) -> FloatArray:
        if not self.public.poisson:
            return np.asarray(vectors, dtype=np.float64)
        return np.asarray(0.5 + vectors[..., :-1] / np.maximum(vectors[..., -1:], LEAST_SHARE))


@dataclass(frozen=True)
class Quantile(Statistic):
    """The value that a share ``p`` of the records stays below; reach sqrt(K) / (2m), proved above.

    Parameters
    ----------
    p : float
        The share, above 0 and below 1.
    grid : int or sequence of float, default=None
        The number K of evenly spaced points inside the range, at most 1024, or the points
        themselves, of which the first may be ``lower``. Public: the data must not choose it. None
        means the whole numbers of a range between two of them up to 128 apart, with even parts
        between them where it is short, and 64 even steps otherwise.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> Quantile(0.9, grid=4).query(Public([0.0], [10.0], 20)).blocks
    (Block(label='distribution', width=4, reach=0.05),)
    """

    p: float
    grid: int | tuple[float, ...] | None = None
    columns: tuple[str | int, ...] | None = None
    name = "quantile"

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", checks.real("p", self.p, above=0.0, below=1.0))
        if self.grid is None:
            pass
        elif np.ndim(self.grid) == 0:
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

    def shape(self, poisson: bool) -> Shape:
        """Halves of either sign at every grid point, added up."""
        return Shape(in_a_ball=True)

    def _on(self, public: Public) -> Query:
        grid = self._points(public.ranges[0])
        whole = self.grid is None and _fitting(public.ranges[0])[1]
        return QuantileQuery(public, self.p, grid, (self._label(),), whole)

    def _points(self, column: Range) -> tuple[float, ...]:
        if self.grid is None:
            points = np.array(_fitting(column)[0])
        elif isinstance(self.grid, tuple):
            points = np.array(self.grid)
        else:
            points = column.lower + column.width * (np.arange(1, self.grid + 1) / (self.grid + 1))
        inside = column.lower <= points[0] and points[-1] < column.upper
        if not (inside and (np.diff(points) > 0.0).all()):
            raise InvalidParameter(
                f"grid must lie within lower={column.lower!r} and, strictly below it, "
                f"upper={column.upper!r}, got {points[0]!r} to {points[-1]!r}"
            )
        return tuple(points.tolist())

    def _label(self) -> str:
        return f"quantile {self.p:g}"


def _fitting(column: Range) -> tuple[tuple[float, ...], bool]:
    """The grid if nothing is said, from the lower end on, and whether it is one of whole numbers.

    Short ranges between whole numbers get even parts between them, so that all of them are in it.
    """
    length, points = column.width, DEFAULT_GRID
    if column.lower.is_integer() and column.upper.is_integer() and length <= _WHOLE:
        points = int(length) * (1 if length >= _FEW else DEFAULT_GRID // int(length))
    grid = column.lower + length * np.arange(points) / points  # in this order exact if whole
    return tuple(grid.tolist()), points == length


@dataclass(frozen=True)
class Median(Quantile):
    """The quantile for p = 1/2.

    Parameters
    ----------
    grid : int or sequence of float, default=None
        As in :class:`Quantile`.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> import mustdp as md
    >>> from mustdp.estimation.bootstrap.query import Public
    >>> md.Median(grid=4).query(Public([0.0], [10.0], 20)).blocks
    (Block(label='distribution', width=4, reach=0.05),)
    """

    p: float = field(default=0.5, init=False)
    name = "median"

    def _label(self) -> str:
        return "median"
