"""Many independent losses added up: tilted Fourier transforms with all errors bounded.

To know P(S > eps) or delta(eps) at very small values, every loss distribution is tilted first:
masses times e^{theta loss}, normalised by the moment generating function M(theta). The tilted sum
has its bulk where the answer is decided, so an absolute error of 1e-12 there is a relative error of
the answer. After the transform the tilt is taken back:

    P(S = s) = M_total(theta) e^{-theta s} P_theta(S = s),     M_total = product of M_i^{k_i}.

What is bounded and added (upper bounds) or subtracted (lower bounds), in units of
A = M_total e^{-theta eps}:
- aliasing: the window holds all but ``OUTSIDE`` of the tilted mass, by Chernoff's inequality;
  what wraps around can only add to an upper bound, and what is missing is added;
- rounding of the transforms, of the powers and of the masses: see ``_rounding``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from mustdp.accounting.pld.discretise import DiscreteLoss
from mustdp.errors import NumericalFailure
from mustdp.numerics.arrays import ROUNDOFF, FloatArray

Part = tuple[DiscreteLoss, int]
ComplexArray = NDArray[np.complex128]

#: Tilted mass that may lie outside the window, per side.
OUTSIDE = 1e-13
#: A transform of complex numbers of this length takes 128 MiB.
_LARGEST_TRANSFORM = 2**23
#: Logarithms of powers that count as zero: far below any rounding, far above subnormal numbers,
#: which processors are slow with.
_UNDERFLOWS = -300.0
#: Exponents tried in Chernoff bounds, in units of one over the standard deviation of the sum.
_GENTLEST, _STEEPEST, _RUNGS = 0.03, 300.0, 37


@dataclass(frozen=True, eq=False)
class Tilted:
    """The tilted sum on its window, and the numbers needed to take the tilt back."""

    theta: float
    log_scale: float
    losses: FloatArray
    masses: FloatArray
    error: float
    relative: float


class Composition:
    """The sum of independent losses, ``count`` copies of each part, on one grid."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self.spacing = self.parts[0][0].spacing
        # Masses rounded up may sum to a hair more than one, which the others multiply by.
        growth = math.fsum(count * math.log(max(loss.total, 1.0)) for loss, count in self.parts)
        infinite = _any_infinite(self.parts)
        self.infinite = infinite * math.exp(min(growth, 700.0)) if infinite else 0.0
        self.lost = math.fsum(count * loss.lost for loss, count in self.parts)
        #: No finite sum of losses exceeds this.
        ends = [count * float(loss.losses[-1]) for loss, count in self.parts]
        self.largest = math.fsum(ends) + 4.0 * ROUNDOFF * math.fsum(map(abs, ends))
        self.offset = math.fsum(count * loss.offset for loss, count in self.parts)
        self.steps = sum(count for _, count in self.parts)
        # From one over the largest single loss, which rare losses need, to a tilt of about 30 per
        # grid step, which would only resolve the grid itself.
        scale = max(self.deviation, 10.0 * self.spacing)
        widest = max(float(np.max(np.abs(loss.losses))) for loss, _ in self.parts)
        gentle = min(_GENTLEST / scale, 0.3 / max(widest, scale))
        if not _STEEPEST / scale > 0.0:
            raise NumericalFailure("the losses spread too far to be composed")
        self._ladder = np.geomspace(gentle, _STEEPEST / scale, _RUNGS)
        self._ladder_mgf: tuple[FloatArray, FloatArray] | None = None

    @property
    def mean(self) -> float:
        """Mean of the finite part of the sum."""
        return math.fsum(count * loss.mean for loss, count in self.parts)

    @property
    def deviation(self) -> float:
        """Standard deviation of the finite part of the sum."""
        return math.sqrt(math.fsum(count * loss.variance for loss, count in self.parts))

    def log_mgf(self, theta: FloatArray) -> FloatArray:
        """Log moment generating function of the finite part of the sum."""
        total = np.zeros(np.shape(theta))
        for loss, count in self.parts:
            total = total + count * loss.log_mgf(theta)
        return total

    def best_tilt(self, epsilon: float) -> float:
        """The theta >= 0 that minimises log M(theta) - theta epsilon: Chernoff's choice."""
        theta, log_m = self._scan()
        best = int(np.argmin(log_m - theta * epsilon))
        if best == 0:
            return 0.0
        low, high = theta[best - 1], theta[min(best + 1, theta.size - 1)]
        for _ in range(2):
            fine = np.linspace(low, high, 17)
            best = int(np.argmin(self.log_mgf(fine) - fine * epsilon))
            low, high = fine[max(best - 1, 0)], fine[min(best + 1, 16)]
        return float(fine[best])

    def ladder_tilts(self, epsilon: FloatArray) -> FloatArray:
        """Good tilts for many epsilons, from a short ladder."""
        theta, log_m = self._scan()
        return np.asarray(theta[np.argmin(log_m[:, None] - np.outer(theta, epsilon), axis=0)])

    def chernoff_epsilon(self, delta: float) -> float:
        """An epsilon with P(S > epsilon) <= delta by Chernoff's inequality."""
        theta, log_m = self._scan()
        return float(np.min((log_m[1:] - math.log(delta)) / theta[1:]))

    def tilt(self, theta: float) -> Tilted:
        """Compose under the tilt ``theta``."""
        low, high = self._window(theta)
        d = self.spacing
        if not math.isfinite(high - low):
            raise NumericalFailure("the losses spread too far to be composed")
        first = math.floor((low - self.offset) / d)
        needed = math.ceil((high - self.offset) / d) - first + 2
        if not 0 < needed <= _LARGEST_TRANSFORM:
            raise NumericalFailure(
                f"composing {self.steps} steps at spacing {d:.3g} needs a transform of {needed} "
                f"points; at most {_LARGEST_TRANSFORM} are supported"
            )
        size = int(fft.next_fast_len(needed, real=True))
        logs = np.zeros(size // 2 + 1)
        spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
        norms: list[tuple[int, float, FloatArray]] = []
        log_scale, relative = 0.0, 0.0
        for loss, count in self.parts:
            masses, log_m = _tilted_masses(loss, theta)
            # Tilting costs about |theta loss| roundings in the exponent, normalising a few more.
            span = float(np.max(np.abs(theta * loss.losses[masses > 0.0])))
            relative += count * ROUNDOFF * (32.0 + 8.0 * span)
            folded = np.bincount(loss.index % size, weights=masses, minlength=size)
            coefficients = fft.rfft(folded)
            with np.errstate(divide="ignore"):
                magnitude = np.log(np.abs(coefficients))
            # Powers that underflow are zero; at large counts almost all of them do.
            alive = count * magnitude > _UNDERFLOWS
            spectrum[~alive] = 0.0
            spectrum[alive] *= _power(coefficients[alive], count)
            logs += count * magnitude
            norms.append((count, _norm(np.asarray(folded, dtype=np.float64)), magnitude))
            log_scale += count * log_m
        total = np.roll(fft.irfft(spectrum, size), -(first % size))
        losses = self.offset + (first + np.arange(size, dtype=np.float64)) * d
        # Taking the tilt back costs as many roundings again, of the composed losses.
        relative += 8.0 * ROUNDOFF * theta * float(np.max(np.abs(losses[[0, -1]])))
        if not relative < 0.1:
            raise NumericalFailure(
                f"composing {self.steps} steps under the tilt {theta:.3g} leaves a rounding error "
                f"of {relative:.3g}, too large for a bound"
            )
        error = self._rounding(size, logs, norms, total)
        return Tilted(theta, log_scale, losses, total, error, relative)

    def _rounding(
        self,
        size: int,
        logs: FloatArray,
        norms: list[tuple[int, float, FloatArray]],
        total: FloatArray,
    ) -> float:
        """Bound of the rounding error of one entry of the composed masses.

        A transform of length N has a relative error of at most 7 u log2 N in the 2-norm (Higham,
        Accuracy and Stability of Numerical Algorithms, 2nd ed., Theorem 24.2). By Cauchy-Schwarz
        and Parseval the error of one factor reaches an entry with at most its own 2-norm times
        the 2-norm of the product of all others; a power costs at most 8 k u relative (``_power``).
        The factor 2 covers terms of second order.
        """
        transform = 7.0 * ROUNDOFF * math.log2(size)
        norm = _norm(total)
        spread = 0.0
        for count, own, magnitude in norms:
            with np.errstate(invalid="ignore"):
                others = logs - magnitude
            # A factor that is zero says nothing of the others: they are at most one.
            rest = np.exp(others[others > _UNDERFLOWS])
            square = _norm(rest) ** 2 + float(np.isneginf(magnitude).sum()) + 1e-100
            spread += count * own * math.sqrt(min(1.0, 2.0 * square / size))
        return 2.0 * (transform * (spread + norm) + 8.0 * self.steps * ROUNDOFF * norm)

    def _window(self, theta: float) -> tuple[float, float]:
        """Ends outside which the tilted sum has at most ``OUTSIDE`` of its mass, per side."""
        here = float(self.log_mgf(np.array([theta]))[0])
        reach = -math.log(OUTSIDE)
        up = self.log_mgf(theta + self._ladder) - here
        down = self.log_mgf(theta - self._ladder) - here
        high = float(np.min((up + reach) / self._ladder))
        low = -float(np.min((down + reach) / self._ladder))
        return low - 2 * self.spacing, high + 2 * self.spacing

    def _scan(self) -> tuple[FloatArray, FloatArray]:
        if self._ladder_mgf is None:
            theta = np.concatenate([[0.0], self._ladder])
            self._ladder_mgf = theta, self.log_mgf(theta)
        return self._ladder_mgf


def _any_infinite(parts: Sequence[Part]) -> float:
    """Chance that at least one loss is infinite, rounded up."""
    if any(loss.infinite >= 1.0 for loss, _ in parts):
        return 1.0
    spared = math.fsum(count * math.log1p(-loss.infinite) for loss, count in parts)
    return min(1.0, -math.expm1(spared) * (1.0 + 1e-14))


def _norm(values: FloatArray) -> float:
    # No product of vectors: on busy processors threads that share one cost more than it does.
    return math.sqrt(float(np.square(values).sum()))


def _power(values: ComplexArray, count: int) -> ComplexArray:
    """``values ** count`` by squaring, much quicker than by logarithms.

    A product is off by at most sqrt(2) gamma_2 < 3 u of its modulus (Higham, Lemma 3.5), and the
    k-th power is k - 1 factors away from exact, however it is put together: less than 3 k u.
    """
    found, square = np.ones_like(values), values
    with np.errstate(under="ignore"):
        while True:
            if count & 1:
                found = found * square
            count >>= 1
            if not count:
                return found
            square = square * square


def _tilted_masses(loss: DiscreteLoss, theta: float) -> tuple[FloatArray, float]:
    with np.errstate(divide="ignore"):
        exponents = np.log(loss.masses) + theta * loss.losses
    top = float(exponents.max())
    weights = np.exp(exponents - top)
    total = float(weights.sum())
    return weights / total, top + math.log(total)
