"""The discrete Laplace mechanism: P(K = k) proportional to e^{-|k|/scale} on the integers.

Ghosh, Roughgarden & Sundararajan 2009, arXiv 0811.2841v3 ("geometric mechanism"); exact sampling is
in Canonne, Kamath & Steinke 2020, arXiv 2004.00010v5. With q = e^{-1/scale},

    P(K = k) = (1-q)/(1+q) q^|k|,    P(K >= k) = q^k/(1+q) for k >= 0.

For 1 <= k <= d, the difference P(K + d >= k) - e^eps P(K >= k), times 1+q, is

    (1 - q^{d+1-k}) + q (1 - e^{eps - (k-1)/scale}),    and  1 - e^{eps - d/scale}  for k = d.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from mustdp.limits import LARGEST_NOISE, SMALLEST_NOISE
from mustdp.mechanisms.integers import IntegerLaw, IntegerNoise
from mustdp.mechanisms.mechanism import LaplaceNoise, Noise
from mustdp.noise.exact import discrete_laplace_noise
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.randomness.keys import NoiseSource


@dataclass(frozen=True)
class DiscreteLaplaceLaw(IntegerLaw):
    """The law of the noise."""

    scale: float

    continuous: ClassVar[Noise] = LaplaceNoise()
    bounded_loss: ClassVar[bool] = True
    relative_error = 1e-12  # of exponents up to some hundreds

    @cached_property
    def _step(self) -> float:
        return 1.0 / self.scale

    def log_mass(self, k: FloatArray) -> FloatArray:
        """-|k|/scale and the log of (1-q)/(1+q)."""
        return np.asarray(np.log(np.tanh(0.5 * self._step)) - np.abs(k) * self._step)

    def tail(self, k: FloatArray) -> FloatArray:
        """q^k/(1+q)."""
        return np.asarray(np.exp(-k * self._step) / (1.0 + np.exp(-self._step)))

    def excess(self, distance: FloatArray, k: FloatArray, epsilon: FloatArray) -> FloatArray:
        """By the formulas above; none from k = distance + 1 on."""
        total, q = 1.0 + np.exp(-self._step), np.exp(-self._step)
        largest = distance * self._step * (1.0 + 4.0 * ROUNDOFF)
        last = -np.expm1(np.minimum(epsilon - largest, 0.0))
        first = -np.expm1(np.minimum(-(distance + 1.0 - k) * self._step, 0.0))
        second = -q * np.expm1(np.minimum(epsilon - (k - 1.0) * self._step, 1.0))
        slack = 8.0 * ROUNDOFF * (epsilon + largest)
        value = np.where(k == distance, last, first + second + slack)
        value = np.where((k > distance) | (epsilon >= largest), 0.0, value)
        return np.asarray(value * (1.0 + 1e-14) / total)

    def log_moments(self, a: FloatArray, distance: FloatArray) -> FloatArray:
        """Three geometric sums, over k <= 0, 0 < k < d and k >= d, rounded up."""
        x = np.exp(-(2.0 * a - 1.0) * self._step)
        between = x * -np.expm1(-(2.0 * a - 1.0) * self._step * np.maximum(distance - 1.0, 0.0))
        between = between * np.expm1(-self._step) / np.expm1(-(2.0 * a - 1.0) * self._step)
        inside = 1.0 + np.exp(-(2.0 * a - 1.0) * self._step * distance) + between
        inside = inside / (1.0 + np.exp(-self._step))
        moments = (a - 1.0) * distance * self._step + np.log(inside) + 32.0 * ROUNDOFF
        return np.asarray(np.where(distance > 0.0, moments, 0.0))


@dataclass(frozen=True)
class DiscreteLaplace(IntegerNoise):
    """Discrete Laplace noise on an integer (see :func:`discrete_laplace`)."""

    scale: float
    sensitivity: int = 1

    name: ClassVar[str] = "discrete-laplace"

    def __post_init__(self) -> None:
        limits = {"at_least": SMALLEST_NOISE, "at_most": LARGEST_NOISE}
        object.__setattr__(self, "scale", checks.real("scale", self.scale, **limits))
        whole = checks.integer("sensitivity", self.sensitivity, 1, 10**6)
        object.__setattr__(self, "sensitivity", whole)

    @property
    def law(self) -> DiscreteLaplaceLaw:
        """The law of the noise."""
        return DiscreteLaplaceLaw(self.scale)

    def noise(self, count: int = 1, seed: int | None = None) -> IntArray:
        """Draw noise of exactly this law, in integer arithmetic."""
        return discrete_laplace_noise(self.scale, count, NoiseSource(seed))


def discrete_laplace(*, scale: float, sensitivity: int = 1) -> IntegerNoise:
    """Discrete Laplace noise on an integer: P(K = k) is proportional to ``e^{-|k|/scale}``.

    Parameters
    ----------
    scale : float
        The scale parameter, from 1e-9 to 1e9.
    sensitivity : int, default=1
        How far one copy of a record moves the integer at most, swapped or left out.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated; ``noise(count)`` draws its noise.

    Examples
    --------
    >>> import mustdp as md
    >>> print(f"{md.account(md.discrete_laplace(scale=2.0)).epsilon(delta=0).upper:.2f}")
    0.50
    """
    return DiscreteLaplace(scale, sensitivity)
