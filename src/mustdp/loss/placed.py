"""Where to evaluate the profiles of a family: where chords between the points would cost most.

With chords, a loss l between two points is split between them so that its mass under both data sets
is kept. What one step makes of a function g grows by that, in proportion to the square of their
distance and to p(l) (g'' - g')(e - l): nothing where g is 1 - e^e, which a chord meets exactly. As
in quantisation (Panter & Dite 1951), a density of points in proportion to the cube root of that
weight makes the sum least. Every choice is valid; this one only steers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mustdp.loss.cover import Tests
from mustdp.loss.dots import DominatingPair, connect_values, just_below
from mustdp.numerics.arrays import FloatArray, IntArray

#: Points at which the weight is looked at: all near zero, then so many further and further apart.
_NEAR, _FURTHER = 64, 200
#: Share of the points that is spread evenly in the logarithm, whatever the weight.
_EVEN = 0.1


def placed_points(
    pair: DominatingPair,
    spacing: float,
    last: int,
    count: int,
    tests: Callable[[IntArray], Tests],
) -> IntArray:
    """About ``count`` grid indices from 0 to ``last`` for profiles like that of ``pair``.

    ``tests`` are those by which the profiles will be judged, at any points.
    """
    last = max(last, 4)
    far = np.rint(np.geomspace(1.0, last, _FURTHER)).astype(np.int64)
    looks = np.union1d(np.arange(min(last, _NEAR)), far)
    ahead, behind = pair.values(just_below(spacing, looks))
    found = connect_values(spacing, looks, ahead, behind)
    judged = tests(looks)
    both = np.concatenate([ahead, behind])[None, :]
    gain = np.maximum(judged.after(both)[0] - judged.start, 1e-300)
    counts = 1.0 / (gain * judged.allowed)
    up, down = (
        np.bincount(side, found.masses * (side > 0), last + 1)[looks]
        for side in (np.maximum(found.index, 0), np.maximum(-found.index, 0))
    )
    with np.errstate(over="ignore", under="ignore"):
        down = np.where(down > 0.0, down * np.exp(looks * spacing), 0.0)
    weight = _curved(counts, judged.ahead) * up + _curved(counts, judged.behind) * down
    # Masses and coefficients are those of whole cells.
    density = np.cbrt(np.nan_to_num(weight) / np.square(np.gradient(looks.astype(np.float64))))
    density[0], density[-1] = density[1], density[-2]
    wanted = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(looks)))
    even = np.log1p(looks.astype(np.float64) * _NEAR / last)
    share = even / even[-1]
    if 0.0 < wanted[-1] < np.inf:
        share = (1.0 - _EVEN) * wanted / wanted[-1] + _EVEN * share
    at = np.interp(np.linspace(0.0, 1.0, count), share, looks)
    return np.union1d([0, 1, last], np.rint(at).astype(np.int64))


def _curved(counts: FloatArray, coefficients: FloatArray) -> FloatArray:
    """How curved g is at every point, over all tests; rounding makes some of it negative."""
    return np.asarray(np.einsum("i,ij->j", counts, np.maximum(coefficients, 0.0)))
