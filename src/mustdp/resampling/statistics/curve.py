"""A noisy distribution function on a grid: made monotone, and inverted.

The curve F counts values <= g. At the ends of the range it is known: 0 at ``lower``, 1 at
``upper``. All of this reads what was released and costs no privacy.
"""

from __future__ import annotations

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray


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
