"""The two noise laws, at unit scale, and their group profiles.

Both are symmetric with a log-concave density f, so the likelihood ratio of the law moved by a
distance d against the unmoved one, f(x - d)/f(x), never decreases in x. Every optimal test is
"reject above a threshold t", and the threshold is the natural way to walk along a profile:

    log_ratio(d, t)   the eps at which t is the optimal threshold: log f(t - d) - log f(t)
    threshold(d, eps) the inverse
    tail(t)           P(noise > t): minus the slope of the profile in alpha = e^eps at that point
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import erfcx, log_ndtr, ndtr

from mustdp.mechanisms.contract import GroupProfiles, OutputLaw, Proof, Steering
from mustdp.numerics.arrays import ROUNDOFF, FloatArray


class Noise(OutputLaw, ABC):
    """A symmetric log-concave noise law of unit scale, with a density."""

    name: ClassVar[str]
    #: Stands in for values that are positive but underflow.
    smallest: ClassVar[float]

    @abstractmethod
    def log_density(self, x: FloatArray) -> FloatArray:
        """Log of the density: the definition that everything else is checked against."""

    @abstractmethod
    def profile(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Hockey-stick divergence at e^epsilon of the law moved by ``distance`` (any epsilon)."""

    @abstractmethod
    def log_ratio(self, distance: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log likelihood ratio at ``t`` and its derivative in ``t``."""

    @abstractmethod
    def threshold(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The ``t`` whose log ratio is ``epsilon``; infinite where the ratio never gets there."""

    @abstractmethod
    def tail(self, t: FloatArray) -> FloatArray:
        """Chance that the noise exceeds ``t``."""

    @abstractmethod
    def log_tail(self, t: FloatArray) -> FloatArray:
        """Its logarithm, also where the chance itself underflows."""

    @abstractmethod
    def saturation(self, distance: float) -> float:
        """The ``t`` from which on the log ratio no longer grows."""


class GaussianNoise(Noise):
    """Standard normal noise.

    >>> import numpy as np
    >>> float(GaussianNoise().profile(np.array(1.0), np.array(1.0)).round(6))
    0.126937
    """

    name = "gaussian"
    smallest = 1e-300
    proof = Proof.GAUSSIAN

    def log_density(self, x: FloatArray) -> FloatArray:
        """-x^2/2 and what makes it one in all."""
        return np.asarray(-0.5 * np.square(x) - 0.5 * np.log(2.0 * np.pi))

    def profile(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Phi(d/2 - eps/d) - e^eps Phi(-d/2 - eps/d), computed in log space."""
        e = np.asarray(epsilon, dtype=np.float64)
        size = np.exp(log_hockey_stick(distance, np.abs(e)))
        return dual(size, e)

    def log_ratio(self, distance: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """d t - d^2/2, linear in ``t``."""
        return distance * t - 0.5 * distance * distance, np.asarray(distance + np.zeros_like(t))

    def threshold(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """eps/d + d/2."""
        return np.asarray(epsilon / distance + 0.5 * distance)

    def tail(self, t: FloatArray) -> FloatArray:
        """Phi(-t)."""
        return np.asarray(ndtr(-t))

    def log_tail(self, t: FloatArray) -> FloatArray:
        """log Phi(-t)."""
        return np.asarray(log_ndtr(-t))

    def saturation(self, distance: float) -> float:
        """The Gaussian likelihood ratio grows for ever."""
        return np.inf

    def log_moments(self, a: FloatArray, distance: FloatArray) -> FloatArray:
        """``a (a-1) d^2 / 2``."""
        return np.asarray(0.5 * a * (a - 1.0) * np.square(distance))


class LaplaceNoise(Noise):
    """Laplace noise with density exp(-|x|)/2, in one dimension.

    >>> import numpy as np
    >>> float(LaplaceNoise().profile(np.array(1.0), np.array(0.5)).round(6))
    0.221199
    """

    name = "laplace"
    smallest = 0.0
    proof = Proof.LAPLACE
    bounded_loss = True

    def log_density(self, x: FloatArray) -> FloatArray:
        """-|x| - log 2."""
        return np.asarray(-np.abs(x) - np.log(2.0))

    def profile(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """max(0, 1 - exp((eps - d)/2)) for eps >= 0."""
        e = np.asarray(epsilon, dtype=np.float64)
        size = -np.expm1(np.minimum((np.abs(e) - distance) / 2.0, 0.0))
        return dual(size, e)

    def log_ratio(self, distance: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """|t| - |t - d|: flat outside [0, d]."""
        ratio = np.clip(2.0 * t - distance, -distance, distance)
        return ratio, np.where((t > 0) & (t < distance), 2.0, 0.0)

    def threshold(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """(eps + d)/2 inside [-d, d]; beyond, no threshold reaches eps."""
        inside = np.where(epsilon < -distance, -np.inf, 0.5 * (epsilon + distance))
        return np.where(epsilon > distance, np.inf, inside)

    def tail(self, t: FloatArray) -> FloatArray:
        """Survival function of the Laplace law."""
        return np.where(t > 0, 0.5 * np.exp(-np.abs(t)), 1.0 - 0.5 * np.exp(-np.abs(t)))

    def log_tail(self, t: FloatArray) -> FloatArray:
        """Its logarithm: linear on the right."""
        right = -np.log(2.0) - np.abs(t)
        return np.where(t > 0, right, np.log1p(-0.5 * np.exp(-np.abs(t))))

    def saturation(self, distance: float) -> float:
        """The ratio stops growing at the moved centre."""
        return distance

    def log_moments(self, a: FloatArray, distance: FloatArray) -> FloatArray:
        """Log of (a e^{(a-1) d} + (a-1) e^{-a d}) / (2a-1)."""
        ratio = (a + (a - 1.0) * np.exp(-(2.0 * a - 1.0) * distance)) / (2.0 * a - 1.0)
        return np.asarray((a - 1.0) * distance + np.log(ratio) + 8.0 * ROUNDOFF)


def dual(size: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Turn values at |epsilon| into values at epsilon: h(a) = 1 - a + a h(1/a) below a = 1."""
    below = np.minimum(epsilon, 0.0)
    return np.asarray(np.where(epsilon < 0, -np.expm1(below) + np.exp(below) * size, size))


@dataclass(frozen=True)
class NoiseProfiles(GroupProfiles, Steering):
    """Exact group profiles of additive noise: j records move the output by at most j * shift."""

    noise: Noise
    shift: float

    @property
    def steering(self) -> Self:
        """The thresholds of optimal tests."""
        return self

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Exact profile of the noise at distance j * shift; never zero where the truth is not."""
        return np.maximum(self.noise.profile(groups * self.shift, epsilon), self.noise.smallest)

    def tangent(self, groups: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The log likelihood ratio at threshold ``t``."""
        return self.noise.log_ratio(groups * self.shift, t[:, None])

    def parameter(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The threshold of the optimal test."""
        return self.noise.threshold(groups * self.shift, epsilon)

    def slope(self, t: FloatArray) -> FloatArray:
        """Chance of a false alarm of the test with threshold ``t``."""
        return self.noise.tail(t)

    def saturation(self, groups: FloatArray) -> float:
        """Laplace ratios stop growing at distance j * shift; Gaussian ones never do."""
        return self.noise.saturation(float(groups[-1]) * self.shift)


# Normal tails without cancellation.
#
# With the Mills ratio R(u) = (1 - Phi(u)) / phi(u), the hockey-stick divergence of N(d, 1) from
# N(0, 1) at alpha = e^eps and the threshold t = eps/d - d/2 is
#
#     Phi(-t) - alpha Phi(-t - d) = phi(t) (R(t) - R(t + d)),
#
# because alpha phi(t + d) = phi(t). All cancellation is in the difference of R. Where d is small it
# is replaced by the integral of -R'(u) = 1 - u R(u), which is smooth and positive. The threshold
# itself is formed as (eps - d^2/2)/d with the rounding error of d^2 put back, because eps and d^2/2
# may cancel.

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
