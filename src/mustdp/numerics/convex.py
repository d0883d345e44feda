"""Lower convex hulls of points, and reading a convex function off its chords."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustdp.numerics.arrays import FloatArray

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
