"""Convex functions on grids: lower hulls, chords and tangents; roots of increasing functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mustdp.numerics.arrays import FloatArray

# Lower convex hulls of points, and reading a convex function off its chords.


Places = NDArray[np.intp]


def lower_hull(x: FloatArray, y: FloatArray) -> Places:
    """Indices of the vertices of the lower convex hull of points with increasing ``x``."""
    kept: list[int] = []
    xs, ys = x.tolist(), y.tolist()
    for i in range(len(xs)):
        while len(kept) >= 2:
            a, b = kept[-2], kept[-1]
            if (ys[b] - ys[a]) * (xs[i] - xs[b]) >= (ys[i] - ys[b]) * (xs[b] - xs[a]):
                kept.pop()
            else:
                break
        kept.append(i)
    return np.array(kept, dtype=np.intp)


def hull_slopes(epsilon: FloatArray, value: FloatArray) -> FloatArray:
    """Sizes of the slopes in alpha = e^eps of the lower hull of a decreasing function."""
    alpha = np.exp(epsilon)
    hull = lower_hull(alpha, value)
    steps = -np.diff(value[hull]) / np.diff(alpha[hull])
    piece = np.clip(np.searchsorted(alpha[hull], alpha, side="right") - 1, 0, steps.size - 1)
    return np.clip(steps[piece], 0.0, 1.0)


def chord(grid: FloatArray, value: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Read a convex decreasing function off its chords in alpha = e^eps: never below it.

    ``grid`` starts at 0; beyond its end the last value is held.
    """
    piece = np.clip(np.searchsorted(grid, epsilon, side="right") - 1, 0, grid.size - 2)
    left, right = grid[piece], grid[piece + 1]
    inside = np.clip(epsilon, left, right)
    # Two shares, each to full relative accuracy: a difference of values could round below both.
    whole = np.expm1(left - right)
    at_left = np.expm1(inside - right) / whole
    at_right = np.exp(inside - right) * np.expm1(left - inside) / whole
    return np.asarray(at_left * value[piece] + at_right * value[piece + 1])


# Tangents of convex decreasing functions given on grids, as a steering aid.
#
# A function h is taken in alpha = e^eps. A tangent of slope -w, 0 < w < 1, is named by its logit
# t = log((1 - w)/w), which grows with eps and keeps its digits at both ends. Many functions are
# tabulated over one grid of t and one of eps, so that all of them are looked up at once.


#: Slopes are tabulated down to e^-1000, ever finer towards t = 0: the grid is cubic.
_T_LIMIT, _T_STEPS = 1000.0, 3000
#: Cells on either side of 0 of the grid of epsilons, which is quadratic: finer towards 0.
_ROOT_STEPS = 600
_T_GRID = np.linspace(-1.0, 1.0, _T_STEPS + 1) ** 3 * _T_LIMIT


class TangentTable:
    """A monotone table between eps and the logit t of the slope there, for one function.

    From the first vanishing slope (infinite t) on the function is flat: that point ends the table.
    """

    def __init__(self, epsilon: FloatArray, t: FloatArray) -> None:
        flat = np.flatnonzero(np.isposinf(t))
        if flat.size:
            epsilon, t = epsilon[: flat[0] + 1], t[: flat[0] + 1].copy()
            t[-1] = np.max(t[np.isfinite(t)], initial=0.0) + 10.0
        usable = np.isfinite(t) & np.isfinite(epsilon)
        epsilon, t = epsilon[usable], np.clip(t[usable], -_T_LIMIT, _T_LIMIT)
        if epsilon.size < 2:  # a constant function: nothing to steer by
            epsilon, t = np.array([-1.0, 0.0]), np.array([-1.0, 0.0])
        rising = np.maximum.accumulate(t)
        # Ties are spread by a hair so that both directions of the table can be interpolated.
        self.epsilon = epsilon
        self.t = rising + 1e-12 * np.arange(rising.size) * (1.0 + np.abs(rising))


class TangentFamily:
    """Tables of the functions numbered 1, 2, …, built on demand and looked up together."""

    def __init__(self, build: Callable[[int], TangentTable], reach: float) -> None:
        self._build, self._reach = build, reach
        self._tables: dict[int, TangentTable] = {}
        self._stacks: dict[bytes, tuple[FloatArray, FloatArray, FloatArray, float]] = {}

    def tangent(self, groups: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """For each ``t`` (rows) and function (columns): eps at that slope, and d eps / d t."""
        rows, _, _, _ = self._stack(groups)
        where = np.clip((np.cbrt(t / _T_LIMIT) + 1.0) * (_T_STEPS / 2.0), 0.0, _T_STEPS - 1e-9)
        piece = where.astype(np.intp)
        start, stop = _T_GRID[piece], _T_GRID[piece + 1]
        share = np.clip((t - start) / (stop - start), 0.0, 1.0)
        left, right = rows[piece], rows[piece + 1]
        inside = (np.abs(t) < _T_LIMIT)[:, None]
        rise = right - left
        speed = np.where(inside, rise / (stop - start)[:, None], 0.0)
        return left + share[:, None] * rise, speed

    def parameter(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The inverse, column by column; infinite outside a function's table."""
        _, columns, ends, reach = self._stack(groups)
        root = np.sign(epsilon) * np.sqrt(np.minimum(np.abs(epsilon) / reach, 1.0))
        where = np.clip((root + 1.0) * _ROOT_STEPS, 0.0, 2 * _ROOT_STEPS - 1e-9)
        piece = where.astype(np.intp)
        which = np.arange(groups.size)
        left, right = columns[piece, which], columns[piece + 1, which]
        found = left + (where - piece) * (right - left)
        found = np.where(epsilon > ends[1], np.inf, found)
        return np.where(epsilon < ends[0], -np.inf, found)

    def last(self, groups: FloatArray) -> float:
        """The largest ``t`` at which any of these functions still moves."""
        self._stack(groups)
        return max(float(self._tables[int(g)].t[-1]) for g in groups)

    def _stack(self, groups: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        key = groups.tobytes()
        if key not in self._stacks:
            for g in groups:
                if int(g) not in self._tables:
                    self._tables[int(g)] = self._build(int(g))
            tables = [self._tables[int(g)] for g in groups]
            roots = np.linspace(-1.0, 1.0, 2 * _ROOT_STEPS + 1)
            # Tables may end far before the reach: where they all do, so does the common grid.
            reach = min(self._reach, max(float(np.abs(table.epsilon).max()) for table in tables))
            eps = np.sign(roots) * np.square(roots) * reach
            self._stacks[key] = (
                np.stack([np.interp(_T_GRID, table.t, table.epsilon) for table in tables], axis=1),
                np.stack([np.interp(eps, table.epsilon, table.t) for table in tables], axis=1),
                np.array([[table.epsilon[k] for table in tables] for k in (0, -1)]),
                reach,
            )
        return self._stacks[key]


def slope_of(t: FloatArray) -> FloatArray:
    """The slope's size w for the logit t."""
    return np.asarray(expit(-t))


def two_sided(epsilon: FloatArray, value: FloatArray, slope: FloatArray) -> TangentTable:
    """Build a table for all eps from values and slopes at eps >= 0 (increasing, from 0 on).

    Below zero, self-duality h(a) = 1 - a + a h(1/a) gives 1 - w(-eps) = h(eps) + e^eps w(eps).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        right = np.log1p(-slope) - np.log(slope)
        missing = value + np.exp(epsilon + np.log(slope))
        # Where h is so close to 1 that 1 - missing is lost in rounding, t is known to be below
        # its value at eps = 0.
        left = np.minimum(np.log(missing) - np.log1p(-missing), right[0])
    # Both ends meet at eps = 0, where upper bounds of profiles often have a kink.
    return TangentTable(
        np.concatenate([-epsilon[::-1], epsilon]), np.concatenate([left[::-1], right])
    )


# Roots of many increasing functions at once: Newton steps kept inside a bracket.

#: Takes the points and the positions (rows) they belong to; returns values and derivatives.
Function = Callable[[FloatArray, NDArray[np.intp]], tuple[FloatArray, FloatArray]]


def increasing_root(
    function: Function, low: FloatArray, high: FloatArray, tolerance: float = 1e-13
) -> FloatArray:
    """Find x with f(x) = 0 in [low, high], entry by entry; f must not decrease.

    Where f has one sign on the whole bracket the nearer end is returned. Entries that have
    converged are not evaluated again.
    """
    low, high = low.copy(), high.copy()
    x = high.copy()
    todo = np.arange(x.size)
    for _ in range(200):
        value, derivative = function(x[todo], todo)
        above = value >= 0
        high[todo] = np.where(above, x[todo], high[todo])
        low[todo] = np.where(above, low[todo], x[todo])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = value / derivative
            proposal = x[todo] - step
        inside = (proposal >= low[todo]) & (proposal <= high[todo])
        middle = 0.5 * (low[todo] + high[todo])
        nxt = np.where(inside, proposal, middle)
        scale = 1.0 + np.abs(x[todo])
        narrow = high[todo] - low[todo] <= tolerance * scale
        settled = inside & (np.abs(nxt - x[todo]) <= tolerance * scale)
        x[todo] = nxt
        todo = todo[~(narrow | settled)]
        if todo.size == 0:
            break
    return x
