"""The two noise laws, at unit scale: everything the rest needs to know about them.

Both are symmetric with a log-concave density f, so the likelihood ratio of the law moved by a
distance d against the unmoved one, f(x - d)/f(x), never decreases in x. Every optimal test is
"reject above a threshold t", and the threshold is the natural way to walk along a profile:

    log_ratio(d, t)   the eps at which t is the optimal threshold: log f(t - d) - log f(t)
    threshold(d, eps) the inverse
    tail(t)           P(noise > t): minus the slope of the profile in alpha = e^eps at that point
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtr

from mustdp.mechanisms.contract import OutputLaw, Proof
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.normal import log_hockey_stick


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
