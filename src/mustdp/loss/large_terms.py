"""Sums that one large variable decides: E(sum - y)_+ in closed form, from both sides.

Z = D - E D with calls C(z) = E(Z - z)_+ and tails p(z) = P(Z > z); k copies, a bound 0 < b < y.

Above: cut every variable at b. Either none is cut, or one, or several; (u + v - y)_+ <= (u - y)_+ +
v for v >= 0, so that

    E(sum - y)_+  <=  E(S - y)_+  +  k E C(max(y - S', b))  +  k C(b) k p(b),

S the sum of k variables cut at b, S' of k - 1. The first is Chernoff's bound with Bennett's
inequality. The second is a smooth function of S', which hardly varies on the scale of y: it is at
most its tangent parabola, opened until it lies above, and that has the mean of S' and its variance.

Below: exactly one variable is above b, and the others, given that, are replaced by their mean.
(docs/derivations/epochs.md)
"""

from __future__ import annotations

import math

import numpy as np

from mustdp.loss.linear_laws import Variable
from mustdp.numerics.arrays import FloatArray

#: Where the variables are cut, as shares of y.
_CUTS = (0.3, 0.5, 0.7)
#: Points of meshes; how far around the mean of the others the density itself is used.
_MESH, _NEAR = 200, 0.05
_UP, _DOWN = 1.0 + 1e-9, 1.0 - 1e-9


def one_large(variable: Variable, count: int, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds of E(sum - y)_+; none where the density may still rise."""
    lower, upper = np.zeros(y.size), np.full(y.size, np.inf)
    # The peak is known roughly. Beyond three times as much the density of one variable falls.
    falling = variable.mean + (1.0 - _NEAR) * y > 3.0 * abs(variable.peak)
    for share in _CUTS if count > 1 else ():
        for i, each in enumerate(y.tolist()):
            if not falling[i] or not each > 0.0:
                continue
            lower[i] = max(lower[i], _from_below(variable, count, each, share * each))
            upper[i] = min(upper[i], _from_above(variable, count, each, share * each))
    return lower, upper


def _from_below(variable: Variable, count: int, y: float, b: float) -> float:
    call, tail = _call(variable, b) * (1.0 + variable.error), _tail(variable, b) * _UP
    if not tail < 0.5:
        return 0.0
    others = -(count - 1) * (call + b * tail) / (1.0 - tail) * _UP
    alone = math.exp((count - 1) * math.log1p(-tail)) * _DOWN
    return count * alone * _call(variable, y - others) * (1.0 - variable.error) * _DOWN


def _from_above(variable: Variable, count: int, y: float, b: float) -> float:
    # Below -low variables are raised to it, which only adds.
    low = _lowest(variable, b)
    put = float(variable.value(np.array([variable.mean - low]))[0]) * (1.0 + variable.error)
    call = _call(variable, b) * (1.0 + variable.error)
    mean = (put - call * (1.0 - 2.0 * variable.error)) + 1e-15 * (put + call)
    square = _square(variable, b, low, call)
    several = count * call * min(1.0, count * _tail(variable, b) * _UP)
    return (_none(count, y, b, mean, square) + several) * _UP + count * _one(
        variable, y, b, (count - 1) * mean, (count - 1) * square
    )


def _none(count: int, y: float, b: float, mean: float, square: float) -> float:
    """E(S - y)_+ by Chernoff's bound, at the best of many tilts."""
    theta = np.geomspace(0.1, 200.0, 80) / b
    grown = np.expm1(theta * b) - theta * b
    log_m = count * np.maximum(np.log1p(np.maximum(theta * mean + grown / b**2 * square, -0.5)), 0)
    return float(np.exp(np.min(log_m - theta * y - np.log(math.e * theta))))


def _one(variable: Variable, y: float, b: float, mean: float, variance: float) -> float:
    """E C(max(y - S', b)) for S' of this mean and at most this variance."""
    at = y - mean
    if not at * (1.0 - _NEAR) > b:
        return float(_call(variable, b) * (1.0 + variable.error))
    away = np.linspace(_NEAR * at, at - b, _MESH)
    calls = variable.value(variable.mean + np.maximum(at - away, b)) * (1.0 + variable.error)
    here, tail = _call(variable, at), _tail(variable, at) * _DOWN
    height = calls - here * (1.0 - variable.error) - tail * away
    opened = float(np.max(height[1:] / np.square(away[:-1])))
    end = at * (1.0 - _NEAR)
    ends = variable.mean + np.array([end, end * (1.0 + 1e-6)])
    opened = max(opened, 0.5 * float(variable.densest(ends)[0]), 0.0)
    return (here * (1.0 + variable.error) + opened * variance) * _UP


def _square(variable: Variable, b: float, low: float, call: float) -> float:
    """E W^2 for W = Z between -low and b: integrals of convex prices by trapezoids, from above."""
    up = np.append(0.0, np.geomspace(1e-9, 1.0, _MESH)) * b
    down = np.append(0.0, np.geomspace(1e-9, 1.0, _MESH)) * low
    calls, puts = variable.value(variable.mean + up), variable.value(variable.mean - down)
    puts[0] = calls[0]
    areas = np.trapezoid(calls, up) + np.trapezoid(puts, down)
    whole = 2.0 * float(areas) * (1.0 + variable.error) * _UP
    return max(whole - 2.0 * b * call * (1.0 - 2.0 * variable.error), 0.0)


def _lowest(variable: Variable, b: float) -> float:
    """How far below its mean the variable has next to nothing left."""
    looks = np.geomspace(1e-12, 1e3, 91) * b
    nothing = np.flatnonzero(variable.value(variable.mean - looks) <= 1e-30 * b)
    return float(looks[nothing[0]]) if nothing.size else float(looks[-1])


def _call(variable: Variable, z: float) -> float:
    return float(variable.value(np.array([variable.mean + z]))[0])


def _tail(variable: Variable, z: float) -> float:
    return float(variable.tails(np.array([variable.mean + z]))[1][0])
