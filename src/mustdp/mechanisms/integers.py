"""Noise on an integer: discrete Laplace, discrete Gaussian, and what such mechanisms share.

A law on the integers is symmetric and log-concave, so the likelihood ratio of the law moved by d
against the unmoved one never decreases, every optimal test is "reject from k on", and moving it
further makes the two easier to tell apart. One copy of a record moves the result by at most the
sensitivity, an integer; the pair of K and K + sensitivity attains every profile. All of this is for
one integer: coordinates of a vector are releases of their own.

Tests with the same k have the same slope in alpha, whatever d, and the log ratio at k is that of
the continuous law at k. So the tangents of the continuous law pass through all kinks of these
profiles, and it steers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from mustdp.limits import LARGEST_NOISE, SMALLEST_NOISE
from mustdp.mechanisms.mechanism import (
    DiscreteOutcomes,
    GaussianNoise,
    GroupProfiles,
    LaplaceNoise,
    Mechanism,
    Noise,
    NoiseProfiles,
    OutputLaw,
    Steering,
    dual,
)
from mustdp.mechanisms.registry import SENSITIVITY, register, size_of_noise
from mustdp.noise.exact import discrete_gaussian_noise, discrete_laplace_noise
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.randomness.keys import NoiseSource

#: Outcomes where most of the mass is, fewer for many places, and further out; where there are more
#: integers than that, runs of them are merged.
_MOST_MASSES, _FEWEST_CELLS, _MOST_CELLS, _FAR_CELLS = 4_000_000, 4096, 65_536, 1024
#: Tails below this are merged into one outcome.
_RAREST = 1e-60


class IntegerLaw(OutputLaw, ABC):
    """A symmetric log-concave law on the integers, of some scale."""

    #: The law with a density that it resembles, at unit scale: it steers.
    continuous: ClassVar[Noise]
    #: Bound of the relative error of masses and tails.
    relative_error: float
    scale: float

    @abstractmethod
    def log_mass(self, k: FloatArray) -> FloatArray:
        """Log of the chance of each integer: what everything else is checked against."""

    @abstractmethod
    def tail(self, k: FloatArray) -> FloatArray:
        """P(K >= k) for integers k >= 1."""

    @abstractmethod
    def excess(self, distance: FloatArray, k: FloatArray, epsilon: FloatArray) -> FloatArray:
        """P(K + distance >= k) - e^epsilon P(K >= k) for epsilon >= 0, rounded up."""

    @abstractmethod
    def draw(self, count: int, source: NoiseSource) -> IntArray:
        """Values of exactly this law, in integer arithmetic."""

    def profile(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Hockey-stick divergence at e^epsilon of the law moved by ``distance``, rounded up."""
        size = np.abs(epsilon)
        t = self.continuous.threshold(distance / self.scale, size) * self.scale
        # The best k is the first integer from t on; rounding of t may hide which one that is.
        first = np.ceil(np.minimum(t * (1.0 - 8.0 * ROUNDOFF), 2.0**52))
        best = np.maximum(
            self.excess(distance, first, size), self.excess(distance, first + 1.0, size)
        )
        return dual(np.clip(best, 0.0, 1.0), epsilon)

    def between(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """P(low <= K < high), by the smaller tails; either end may be infinite."""
        right = self._tail(low) - self._tail(high)
        left = self._tail(1.0 - high) - self._tail(1.0 - low)
        astride = 1.0 - self._tail(high) - self._tail(1.0 - low)
        return np.maximum(np.where(low >= 1, right, np.where(high <= 0, left, astride)), 0.0)

    def _tail(self, k: FloatArray) -> FloatArray:
        return np.where(k >= 1, self.tail(np.maximum(k, 1.0)), 0.0)

    def farthest(self) -> int:
        """An integer from which on tails are negligible."""
        k = 1.0
        while float(self.tail(np.asarray(k))) > _RAREST:
            k *= 1.25
            k = float(np.ceil(k + 1.0))
        return int(k)


@dataclass(frozen=True, eq=False)
class IntegerProfiles(GroupProfiles):
    """Exact group profiles: j records move an integer by at most j times the sensitivity."""

    law: IntegerLaw
    sensitivity: int

    relative_error = 1e-14  # values are rounded up already; what is below zero is put together here

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Those of the law at that distance."""
        distance = np.broadcast_to(groups * float(self.sensitivity), np.shape(epsilon))
        return self.law.profile(distance, np.asarray(epsilon, dtype=np.float64))

    @property
    def steering(self) -> Steering:
        """The continuous law."""
        return NoiseProfiles(self.law.continuous, self.sensitivity / self.law.scale)


@dataclass(frozen=True, eq=False)
class IntegerOutcomes(DiscreteOutcomes):
    """The integers; where they are too many to be listed, runs of them are merged."""

    law: IntegerLaw
    sensitivity: int

    @property
    def relative_error(self) -> float:  # type: ignore[override]
        """That of the law, and of differences of its tails over runs of integers."""
        return 2e-12 + 2.0 * self.law.relative_error

    @property
    def placements(self) -> Mapping[str, tuple[int, int]]:
        """The whole sensitivity on one side, or about half of it on each."""
        whole = self.sensitivity
        half = whole // 2
        return {
            "aligned": (whole, 0),
            "reversed": (0, whole),
            "symmetric": (whole - half, -half),
        }

    def masses(self, places: IntArray) -> FloatArray:
        """Masses of the cells between integers that suit all places."""
        far = self.law.farthest()
        low, high = int(places.min()), int(places.max())
        cells = min(max(_MOST_MASSES // places.size, _FEWEST_CELLS), _MOST_CELLS)
        near = np.rint(np.linspace(max(low, -far) - far, min(high, far) + far, cells))
        ends = np.rint(np.linspace(low - far, high + far, _FAR_CELLS))
        cuts = np.unique(np.concatenate([near, ends]))
        rows = []
        for place in places.astype(np.float64):
            below, above = np.append(-np.inf, cuts) - place, np.append(cuts, np.inf) - place
            single = above - below == 1.0
            mass = np.exp(self.law.log_mass(np.where(single, below, 0.0)))
            rows.append(np.where(single, mass, self.law.between(below, above)))
        return np.array(rows)


class IntegerNoise(Mechanism):
    """Noise added to an integer that one copy of a record moves by at most the sensitivity.

    The sensitivity bounds what swapping a record does, and what leaving it out does.
    """

    sensitivity: int
    #: The range of the scale parameter, which is the first field.
    sizes: ClassVar[tuple[float, float]]

    def __post_init__(self) -> None:
        """Read the scale parameter and the sensitivity."""
        parameter = fields(self)[0].name  # type: ignore[arg-type]
        least, most = self.sizes
        size = checks.real(parameter, getattr(self, parameter), at_least=least, at_most=most)
        object.__setattr__(self, parameter, size)
        whole = checks.integer("sensitivity", self.sensitivity, 1, 10**6)
        object.__setattr__(self, "sensitivity", whole)

    def __init_subclass__(cls) -> None:
        if "law" not in vars(cls):
            raise TypeError(
                f"{cls.__name__} must state its law (law): what is known of the law it would "
                "inherit need not hold for it"
            )

    @property
    @abstractmethod
    def law(self) -> IntegerLaw:
        """The law of the noise."""

    def shift_for(self, moves: float) -> float:
        """The sensitivity over the scale, whatever the relation."""
        return self.sensitivity / self.law.scale

    @property
    def covers_left_out(self) -> bool:
        """The sensitivity bounds that, too."""
        return True

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Exact group profiles."""
        return IntegerProfiles(self.law, self.sensitivity)

    def attained(self, shift: float | None) -> DiscreteOutcomes:
        """The noise, moved by a number of sensitivities."""
        return IntegerOutcomes(self.law, self.sensitivity)

    def log_moments(
        self, orders: FloatArray, copies: FloatArray, shift: float | None
    ) -> FloatArray | None:
        """Those of the law."""
        return self.law.log_moments(orders[:, None], copies * float(self.sensitivity))

    def largest_loss(self, moves: int) -> Fraction | None:
        """The sensitivity over the scale, where the noise bounds the loss."""
        if not self.law.bounded_loss:
            return None
        return Fraction(self.sensitivity) / Fraction(self.law.scale)

    def noise(self, count: int = 1, seed: int | None = None) -> IntArray:
        """Draw noise of exactly the law that is charged; a ``seed`` is for experiments alone."""
        return self.law.draw(count, NoiseSource(seed))

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"mechanism": self.name, **asdict(self)}  # type: ignore[call-overload]


# The discrete Laplace mechanism: P(K = k) proportional to e^{-|k|/scale} on the integers.
#
# Ghosh, Roughgarden & Sundararajan 2009, arXiv 0811.2841v3 ("geometric mechanism"); exact sampling
# is in Canonne, Kamath & Steinke 2020, arXiv 2004.00010v5. With q = e^{-1/scale},
#
#     P(K = k) = (1-q)/(1+q) q^|k|,    P(K >= k) = q^k/(1+q) for k >= 0.
#
# For 1 <= k <= d, the difference P(K + d >= k) - e^eps P(K >= k), times 1+q, is
#
#     (1 - q^{d+1-k}) + q (1 - e^{eps - (k-1)/scale}),    and  1 - e^{eps - d/scale}  for k = d.


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

    def draw(self, count: int, source: NoiseSource) -> IntArray:
        """With geometric coins."""
        return discrete_laplace_noise(self.scale, count, source)


@dataclass(frozen=True)
class DiscreteLaplace(IntegerNoise):
    """Discrete Laplace noise on an integer (see :func:`discrete_laplace`)."""

    scale: float
    sensitivity: int = 1

    name: ClassVar[str] = "discrete-laplace"
    sizes: ClassVar[tuple[float, float]] = SMALLEST_NOISE, LARGEST_NOISE

    @property
    def law(self) -> DiscreteLaplaceLaw:
        """The law of the noise."""
        return DiscreteLaplaceLaw(self.scale)


# The discrete Gaussian mechanism: P(K = k) proportional to e^{-k^2 / (2 sigma^2)} on the integers.
#
# Canonne, Kamath & Steinke 2020, arXiv 2004.00010v5: Definition 1 is the law, Theorem 7 its profile
# (the sum of P(K + d >= k) - e^eps P(K >= k) at the first k with a loss of at least eps), and by
# Proposition 5 its Renyi divergences are at most those of continuous Gaussian noise.

#: Range of the sigma of discrete Gaussian noise: tails are tabulated up to _FARTHEST of it.
SMALLEST_SIGMA, LARGEST_SIGMA = 1e-3, 1e5
#: Beyond it a tail is below 1e-332, less than the smallest double.
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

    def draw(self, count: int, source: NoiseSource) -> IntArray:
        """Discrete Laplace noise, of which some is kept."""
        return discrete_gaussian_noise(self.scale, count, source)

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
    sizes: ClassVar[tuple[float, float]] = SMALLEST_SIGMA, LARGEST_SIGMA

    @property
    def law(self) -> DiscreteGaussianLaw:
        """The law of the noise."""
        return _law(self.sigma)


# The functions that make them.


@register(
    summary="discrete Laplace noise on an integer",
    arguments=(size_of_noise("scale", SMALLEST_NOISE, LARGEST_NOISE), SENSITIVITY),
    searched="scale",
    examples=({"scale": 0.7}, {"scale": 4.0, "sensitivity": 3}, {"scale": 30.0}),
)
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


@register(
    summary="discrete Gaussian noise on an integer",
    arguments=(size_of_noise("sigma", 1e-3, 1e5), SENSITIVITY),
    searched="sigma",
    examples=({"sigma": 0.8}, {"sigma": 3.0, "sensitivity": 4}, {"sigma": 20.0}),
)
def discrete_gaussian(*, sigma: float, sensitivity: int = 1) -> IntegerNoise:
    """Discrete Gaussian noise on an integer: P(K = k) is proportional to e^{-k^2 / (2 sigma^2)}.

    The sensitivity, and what is returned, are those of :func:`discrete_laplace`.

    Parameters
    ----------
    sigma : float
        The scale parameter, from 1e-3 to 1e5.

    Examples
    --------
    >>> import mustdp as md
    >>> print(f"{md.account(md.discrete_gaussian(sigma=4.0)).epsilon(delta=1e-5).upper:.2f}")
    0.93
    """
    return DiscreteGaussian(sigma, sensitivity)
