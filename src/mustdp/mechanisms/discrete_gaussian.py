"""The discrete Gaussian mechanism: P(K = k) proportional to e^{-k^2 / (2 sigma^2)} on the integers.

Canonne, Kamath & Steinke 2020, arXiv 2004.00010v5: Definition 1 is the law, Theorem 7 its profile
(the sum of P(K + d >= k) - e^eps P(K >= k) at the first k with a loss of at least eps), and by
Proposition 5 its Renyi divergences are at most those of continuous Gaussian noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from mustdp.mechanisms.integers import IntegerLaw, IntegerNoise
from mustdp.mechanisms.mechanism import GaussianNoise, Noise
from mustdp.noise.exact import discrete_gaussian_noise
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.randomness.keys import NoiseSource

#: Range of sigma: tails are tabulated up to 39 sigma.
SMALLEST_SIGMA, LARGEST_SIGMA = 1e-3, 1e5
_FARTHEST = 39.0
#: Stands in for chances that are positive but underflow.
_SMALLEST = 1e-300


@dataclass(frozen=True)
class DiscreteGaussianLaw(IntegerLaw):
    """The law of the noise, with its tails in a table."""

    scale: float

    continuous: ClassVar[Noise] = GaussianNoise()

    @property
    def relative_error(self) -> float:  # type: ignore[override]
        """Of sums in extended precision, where there is one, and of exponents up to some 800."""
        return (
            4.0 * (self._tails.size + 800.0) * float(np.finfo(np.longdouble).eps) + 8.0 * ROUNDOFF
        )

    def log_mass(self, k: FloatArray) -> FloatArray:
        """-k^2 / (2 sigma^2) and what makes it one in all."""
        return np.asarray(-0.5 * np.square(k / self.scale) - self._log_total)

    def tail(self, k: FloatArray) -> FloatArray:
        """From the table; nothing beyond it."""
        last = float(self._tails.size - 1)
        return np.asarray(self._tails[np.minimum(k, last).astype(np.int64)])

    def excess(self, distance: FloatArray, k: FloatArray, epsilon: FloatArray) -> FloatArray:
        """By the tails; a chance that underflows is not taken for zero."""
        moved, still = self._from(k - distance), self._from(k)
        # What rounding of the tails, of e^epsilon and of the ratio at the threshold can amount to.
        nats = 16.0 + epsilon + np.square(distance / self.scale)
        error = 8.0 * ROUNDOFF * nats + 2.0 * self.relative_error
        with np.errstate(over="ignore", invalid="ignore"):
            lost = np.where(still > 0.0, np.exp(epsilon) * still, 0.0)
            value = moved * (1.0 + error) - lost * (1.0 - np.minimum(error, 1.0))
        return np.maximum(np.nan_to_num(value, nan=1.0, posinf=1.0, neginf=0.0), _SMALLEST)

    def log_moments(self, a: FloatArray, distance: FloatArray) -> FloatArray:
        """At most ``a (a-1) d^2 / (2 sigma^2)``."""
        return np.asarray(0.5 * a * (a - 1.0) * np.square(distance / self.scale))

    def _from(self, k: FloatArray) -> FloatArray:
        """P(K >= k) for any integer."""
        right = np.where(k >= 1, self.tail(np.maximum(k, 1.0)), 0.0)
        return np.where(k >= 1, right, 1.0 - self.tail(np.maximum(1.0 - k, 1.0)))

    @cached_property
    def _table(self) -> tuple[FloatArray, float]:
        """P(K >= k) for k = 0, 1, …, added up from the far end, and the log of the sum of all."""
        last = int(_FARTHEST * self.scale) + 2
        k = np.arange(last, -1, -1).astype(np.longdouble) / np.longdouble(self.scale)
        sums = np.cumsum(np.exp(-k * k / 2))
        total = sums[-1] + sums[-2]  # all of k >= 0 and, by symmetry, all of k <= -1
        tails = np.append((sums / total).astype(np.float64)[::-1], 0.0)
        return frozen(tails), float(np.log(total))

    @property
    def _tails(self) -> FloatArray:
        return self._table[0]

    @property
    def _log_total(self) -> float:
        return self._table[1]


@lru_cache(maxsize=8)
def _law(sigma: float) -> DiscreteGaussianLaw:
    return DiscreteGaussianLaw(sigma)


@dataclass(frozen=True)
class DiscreteGaussian(IntegerNoise):
    """Discrete Gaussian noise on an integer (see :func:`discrete_gaussian`)."""

    sigma: float
    sensitivity: int = 1

    name: ClassVar[str] = "discrete-gaussian"

    def __post_init__(self) -> None:
        limits = {"at_least": SMALLEST_SIGMA, "at_most": LARGEST_SIGMA}
        object.__setattr__(self, "sigma", checks.real("sigma", self.sigma, **limits))
        whole = checks.integer("sensitivity", self.sensitivity, 1, 10**6)
        object.__setattr__(self, "sensitivity", whole)

    @property
    def law(self) -> DiscreteGaussianLaw:
        """The law of the noise."""
        return _law(self.sigma)

    def noise(self, count: int = 1, seed: int | None = None) -> IntArray:
        """Draw noise of exactly this law, in integer arithmetic."""
        return discrete_gaussian_noise(self.sigma, count, NoiseSource(seed))


def discrete_gaussian(*, sigma: float, sensitivity: int = 1) -> IntegerNoise:
    """Discrete Gaussian noise on an integer: P(K = k) is proportional to e^{-k^2 / (2 sigma^2)}.

    Parameters
    ----------
    sigma : float
        The scale parameter, from 1e-3 to 1e5.
    sensitivity : int, default=1
        How far one copy of a record moves the integer at most, swapped or left out.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated; ``noise(count)`` draws its noise.

    Examples
    --------
    >>> import mustdp as md
    >>> print(f"{md.account(md.discrete_gaussian(sigma=4.0)).epsilon(delta=1e-5).upper:.2f}")
    0.93
    """
    return DiscreteGaussian(sigma, sensitivity)
