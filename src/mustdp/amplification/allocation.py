"""Random allocation: one term of the likelihood ratio of an epoch.

Every record goes to one of M steps, uniformly and independently. With Gaussian noise and s = C /
sigma, neighbours that differ in one record have, in the worst case and adaptively, the likelihood
ratio (1/M) sum_i X_i under add_remove, X_i independent with log X ~ N(-s^2/2, s^2) where the record
is absent; under replace_one the divergence at alpha is E (1/M sum_i D_i)_+ with

    D = X - alpha X',   X = e^{s g - s^2/2},   X' = e^{-s g - s^2/2},   g standard normal.

alpha = 0 makes D the X of add_remove, so one class serves both (docs/derivations/epochs.md). For
d = D(g*) = a - alpha b with a = X(g*), b = X'(g*), the terms D - d = (X - a) + alpha (b - X') have
one sign, so that E(D - d)_+ is a sum of two option prices of lognormal variables: no cancellation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from mustdp.mechanisms.noise import GaussianNoise
from mustdp.numerics.arrays import FloatArray

_NOISE = GaussianNoise()


@dataclass(frozen=True)
class Term:
    """D for one alpha: known by its option prices, its tails and its density."""

    shift: float
    alpha: float = 0.0

    @property
    def mean(self) -> float:
        """The mean of D."""
        return 1.0 - self.alpha

    @property
    def error(self) -> float:
        """Bound of the relative error of prices, the rounding of d included.

        A price falls by t/s per unit of log d, t up to 38 before it underflows, and log d is known
        to a few roundings. Sixty digits show 1.5e-13/s at most for s from 1e-5 to 40.
        """
        return 1e-11 + 4e-12 / self.shift

    @property
    def deviation(self) -> float:
        """Standard deviation of D; infinite where it overflows."""
        square, alpha = self.shift**2, self.alpha
        with np.errstate(over="ignore"):
            variance = (1.0 + alpha**2) * np.expm1(square) - 2.0 * alpha * np.expm1(-square)
        return float(np.sqrt(variance))

    @property
    def peak(self) -> float:
        """About where the density is largest."""
        g = np.linspace(-4.0, 4.0, 401) - 2.0 * self.shift * (self.alpha == 0.0)
        a, b = self._ends(g)
        seen = a + b > 0.0
        log_density = np.where(
            seen, -0.5 * np.square(g) - np.log(np.where(seen, a + b, 1.0)), -np.inf
        )
        return float((a - b)[np.argmax(log_density)])

    def value(self, d: FloatArray) -> FloatArray:
        """E(D - d)_+ from the mean on and E(d - D)_+ below, to within ``error``."""
        log_a = self._log_a(d)
        log_b = -log_a - self.shift**2
        above = d >= self.mean
        out = np.where(above, self._call(log_a), self._put(log_a))
        if self.alpha > 0.0:
            out = out + self.alpha * np.where(above, self._put(log_b), self._call(log_b))
        return np.asarray(out)

    def tails(self, d: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(D < d) and P(D > d)."""
        g = self.outcome(d)
        return np.asarray(ndtr(g)), np.asarray(ndtr(-g))

    def densest(self, d: FloatArray) -> FloatArray:
        """Upper bounds of the density between neighbouring points; infinite where none is known."""
        g = self.outcome(d)
        near = np.minimum(np.abs(g[:-1]), np.abs(g[1:]))
        near = np.where((g[:-1] < 0) & (g[1:] > 0), 0.0, near)
        # dD/dg = s (a + alpha b), a growing and b falling with g.
        speed = self.shift * (self._ends(g[:-1])[0] + self._ends(g[1:])[1])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            bound = np.exp(-0.5 * np.square(near)) / (np.sqrt(2.0 * np.pi) * speed)
        return np.where(np.isnan(bound), np.inf, bound * (1.0 + 1e-9))

    def _ends(self, g: FloatArray) -> tuple[FloatArray, FloatArray]:
        """a and alpha b at g."""
        half, s = 0.5 * self.shift**2, self.shift
        with np.errstate(over="ignore"):
            a = np.exp(s * g - half)
            return a, self.alpha * np.exp(-s * g - half) if self.alpha > 0.0 else np.zeros(g.shape)

    def _log_a(self, d: FloatArray) -> FloatArray:
        """log X(g*) for D(g*) = d: the positive root of a - alpha e^{-s^2}/a = d."""
        log_product = np.log(self.alpha) - self.shift**2 if self.alpha > 0.0 else -np.inf
        root = np.exp(0.5 * log_product)
        larger = 0.5 * (np.abs(d) + np.hypot(d, 2.0 * root))
        with np.errstate(divide="ignore", invalid="ignore"):
            log_larger = np.where(larger > 0.0, np.log(larger), 0.5 * log_product)
            below = log_product - log_larger if self.alpha > 0.0 else np.full(d.shape, -np.inf)
            return np.where(d > 0, log_larger, below)

    def outcome(self, d: FloatArray) -> FloatArray:
        """The g at which D is d."""
        return np.asarray(self._log_a(d) / self.shift + 0.5 * self.shift)

    def _call(self, log_x: FloatArray) -> FloatArray:
        """E(X - x)_+."""
        return _NOISE.profile(np.array(self.shift), log_x)

    def _put(self, log_x: FloatArray) -> FloatArray:
        """E(x - X)_+."""
        with np.errstate(invalid="ignore", over="ignore"):
            price = np.exp(log_x) * _NOISE.profile(np.array(self.shift), -log_x)
        return np.where(np.isnan(price), 0.0, price)
