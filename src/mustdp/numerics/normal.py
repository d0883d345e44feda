"""Normal tails without cancellation.

With the Mills ratio R(u) = (1 - Phi(u)) / phi(u), the hockey-stick divergence of N(d, 1) from
N(0, 1) at alpha = e^eps and the threshold t = eps/d - d/2 is

    Phi(-t) - alpha Phi(-t - d) = phi(t) (R(t) - R(t + d)),

because alpha phi(t + d) = phi(t). All cancellation is in the difference of R. Where d is small it
is replaced by the integral of -R'(u) = 1 - u R(u), which is smooth and positive. The threshold
itself is formed as (eps - d^2/2)/d with the rounding error of d^2 put back, because eps and d^2/2
may cancel.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import erfcx, ndtr

from mustdp.numerics.arrays import FloatArray

_NODES, _WEIGHTS = leggauss(12)
_NODES = (_NODES + 1.0) / 2.0
_WEIGHTS = _WEIGHTS / 2.0
_HALF_LOG_TWO_PI = 0.5 * np.log(2.0 * np.pi)
#: Below this distance the difference of Mills ratios is integrated instead of subtracted.
_CLOSE = 0.75
#: Left of this threshold the plain difference of two tails has no cancellation left.
_FAR_LEFT = -5.0
#: Right of this threshold the logarithm, below -5e23, is returned as -inf.
_FAR_RIGHT = 1e12


def mills_ratio(u: FloatArray) -> FloatArray:
    """(1 - Phi(u)) / phi(u)."""
    return np.asarray(np.sqrt(np.pi / 2.0) * erfcx(u / np.sqrt(2.0)))


def log_hockey_stick(distance: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Log of H(N(distance, 1) || N(0, 1)) at e^epsilon, for epsilon >= 0 and distance > 0.

    The arguments broadcast. The relative error of the value itself is below 2e-12 wherever the
    value is above 1e-300. Beyond that the logarithm stays meaningful, to -inf in the end.
    """
    d, e = np.broadcast_arrays(distance, epsilon)
    t = _threshold(d, e)
    out = np.full(t.shape, -np.inf)
    left = t < _FAR_LEFT
    if left.any():
        tl, dl = t[left], d[left]
        out[left] = np.log(ndtr(-tl) - np.exp(_log_phi(tl)) * mills_ratio(tl + dl))
    right = ~left & (t < _FAR_RIGHT)
    close = right & (d <= _CLOSE)
    if close.any():
        out[close] = _log_phi(t[close]) + np.log(_mills_drop_close(t[close], d[close]))
    apart = right & ~close
    if apart.any():
        ta, da = t[apart], d[apart]
        out[apart] = _log_phi(ta) + np.log(mills_ratio(ta) - mills_ratio(ta + da))
    return out


def _threshold(d: FloatArray, e: FloatArray) -> FloatArray:
    """e/d - d/2 to full relative accuracy, also where the two nearly cancel (Dekker's product)."""
    square = d * d
    big = 134217729.0 * d
    head = big - (big - d)
    tail = d - head
    error = ((head * head - square) + 2.0 * head * tail) + tail * tail
    with np.errstate(over="ignore"):
        return np.asarray(((e - 0.5 * square) - 0.5 * error) / d)


def _log_phi(t: FloatArray) -> FloatArray:
    return np.asarray(-0.5 * t * t - _HALF_LOG_TWO_PI)


def _mills_drop_close(t: FloatArray, d: FloatArray) -> FloatArray:
    """R(t) - R(t + d) for small d, by quadrature of 1 - u R(u)."""
    u = t[..., None] + d[..., None] * _NODES
    steep = 1.0 - u * mills_ratio(u)
    # 1 - u R(u) = 1/u^2 - 3/u^4 + 15/u^6 - …: the difference above loses its digits from u = 1e4.
    far = u > 50.0
    if far.any():
        v = 1.0 / np.square(u[far])
        steep[far] = v * (1.0 - v * (3.0 - v * (15.0 - v * (105.0 - v * 945.0))))
    return np.asarray(d * np.einsum("...j,j->...", steep, _WEIGHTS))
