"""Roots of many increasing functions at once: Newton steps kept inside a bracket."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mustdp.numerics.arrays import FloatArray

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
