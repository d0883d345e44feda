"""Lower convex hulls of points, and reading a convex function off its chords."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


def lower_hull(x: FloatArray, y: FloatArray) -> IntArray:
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
