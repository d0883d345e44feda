"""Privacy losses added up; certified delta and epsilon read off them, from above or from below."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from mustdp.accounting.pld.discretise import (
    ConcretePair,
    DiscreteLoss,
    DominatingPair,
    Grid,
    PointMass,
    Profile,
    connect_values,
    just_below,
    merge,
    point_masses_of,
    spacing_for,
)
from mustdp.errors import NumericalFailure
from mustdp.limits import DELTA_RANGE, EPSILON_RANGE, LARGEST_EPSILON
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray

# One loss alone, nothing composed: delta and epsilon straight off a profile or a concrete pair.


@runtime_checkable
class Searching(Protocol):
    """A profile whose values are dear and that looks for an epsilon itself."""

    def first_below(self, delta: float) -> float:
        """An epsilon at which the profile is at most ``delta``."""


@runtime_checkable
class SearchingBelow(Protocol):
    """A pair whose values are dear and that looks for an epsilon itself."""

    def last_above(self, delta: float, near: float) -> float:
        """An epsilon at which more than ``delta`` is attained, or zero."""


def first_below(profile: Profile, delta: float) -> float:
    """An epsilon at which the profile is at most ``delta``, as small as bisection can tell."""
    if isinstance(profile, Searching):
        return profile.first_below(delta)
    low, high = 0.0, LARGEST_EPSILON
    if float(profile(np.array([high]))[0]) > delta:
        return math.inf
    for _ in range(9):  # each round narrows the bracket 40 times
        grid = np.concatenate([[low], np.linspace(low, high, 41)[1:]])
        if low == 0.0:
            grid = np.concatenate([[0.0], np.geomspace(max(high * 1e-4, 1e-12), high, 40)])
        met = np.flatnonzero(profile(grid) <= delta)
        if not met.size:  # steered by another grid, the profile may differ in its last digits
            break
        first = int(met[0])
        high = float(grid[first])
        low = float(grid[first - 1]) if first else high
        if high - low <= 1e-12 * high:
            break
    return high


def last_above(pair: ConcretePair, delta: float, near: float = math.inf) -> float:
    """An epsilon at which the pair still attains more than ``delta``, or zero.

    It is looked for just below ``near`` first: pairs may work out what is asked for only then.
    """
    if isinstance(pair, SearchingBelow):
        return pair.last_above(delta, near)
    return bisected(pair, delta, near)


def bisected(pair: ConcretePair, delta: float, near: float) -> float:
    """The same by halves."""
    known = math.inf, -math.inf
    if near < LARGEST_EPSILON and pair.attained(near) <= delta:
        known = near, 0.98 * near if pair.attained(0.98 * near) > delta else -math.inf
    if known[1] < 0.0 and pair.attained(0.0) <= delta:
        return 0.0
    low, high = 0.0, LARGEST_EPSILON
    while high - low > 1e-11 * (1e-3 + high):
        middle = 0.5 * (low + high)
        enough = known[1] >= middle or (middle < known[0] and pair.attained(middle) > delta)
        low, high = (middle, high) if enough else (low, middle)
    return low


# The two questions about a privacy loss, as objects that read their own answers.
#
# A question is asked of a composed loss, of the profile of a single loss or of a concrete pair;
# each is read off on its own side: profiles above the truth, pairs below it. A question also says
# how far from the truth its answer may be.


#: Delta is far more sensitive than epsilon: its relative accuracy is that of epsilon times this.
_DELTA_FACTOR = 4.0
#: Epsilons below this need not be more accurate than this one.
_SMALL_EPSILON = 1e-3


@dataclass(frozen=True)
class Question(ABC):
    """What is asked, and at which value of the other parameter."""

    at: float

    #: What is asked for, the other parameter, and its range.
    name: ClassVar[str]
    given: ClassVar[str]
    allowed: ClassVar[Mapping[str, float]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", checks.real(self.given, self.at, **self.allowed))

    @abstractmethod
    def of_composed(self, loss: ComposedLoss) -> float:
        """The answer for composed losses, on their side."""

    @abstractmethod
    def of_profile(self, profile: Profile) -> float:
        """The answer for one loss from above, by its profile."""

    @abstractmethod
    def of_pair(self, pair: ConcretePair, near: float = math.inf) -> float:
        """The answer for one loss from below, by a pair that attains it."""

    @abstractmethod
    def tolerance(self, answer: float, accuracy: float) -> float:
        """How far an answer may be from the truth at this relative accuracy of epsilon."""


@dataclass(frozen=True)
class DeltaAt(Question):
    """What is delta at this epsilon?"""

    name, given, allowed = "delta", "epsilon", EPSILON_RANGE

    def of_composed(self, loss: ComposedLoss) -> float:
        """Read off at the epsilon."""
        return loss.delta(self.at)

    def of_profile(self, profile: Profile) -> float:
        """The profile's own value."""
        return float(profile(np.array([self.at]))[0])

    def of_pair(self, pair: ConcretePair, near: float = math.inf) -> float:
        """What a half-line near the best one attains."""
        return pair.attained(self.at)

    def tolerance(self, answer: float, accuracy: float) -> float:
        """In proportion to delta, however small."""
        return _DELTA_FACTOR * accuracy * answer


@dataclass(frozen=True)
class EpsilonAt(Question):
    """What is epsilon at this delta?"""

    name, given, allowed = "epsilon", "delta", DELTA_RANGE

    def of_composed(self, loss: ComposedLoss) -> float:
        """Solved on the side of the losses."""
        return loss.epsilon(self.at)

    def of_profile(self, profile: Profile) -> float:
        """The first epsilon at which the profile is small enough."""
        return first_below(profile, self.at)

    def of_pair(self, pair: ConcretePair, near: float = math.inf) -> float:
        """The last epsilon at which the pair attains more, looked for below ``near`` first."""
        return last_above(pair, self.at, near)

    def tolerance(self, answer: float, accuracy: float) -> float:
        """In proportion to epsilon, unless that is tiny."""
        return accuracy * max(answer, _SMALL_EPSILON)


# Many independent losses added up: tilted Fourier transforms with all errors bounded.
#
# To know P(S > eps) or delta(eps) at very small values, every loss distribution is tilted first:
# masses times e^{theta loss}, normalised by the moment generating function M(theta). The tilted
# sum has its bulk where the answer is decided, so an absolute error of 1e-12 there is a relative
# error of the answer. After the transform the tilt is taken back:
#
#     P(S = s) = M_total(theta) e^{-theta s} P_theta(S = s),     M_total = product of M_i^{k_i}.
#
# What is bounded and added (upper bounds) or subtracted (lower bounds), in units of
# A = M_total e^{-theta eps}:
# - aliasing: the window holds all but ``OUTSIDE`` of the tilted mass, by Chernoff's inequality;
#   what wraps around can only add to an upper bound, and what is missing is added;
# - rounding of the transforms, of the powers and of the masses: see ``_rounding``.


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


# Read delta and epsilon off a composition, on the upper or on the lower side.
#
# A tilted sum gives P(S = s) = M_total e^{-theta s} P_theta(S = s). In units of A = M_total
# e^{-theta r}, r a reference near the epsilon in question, the profile at the grid points follows
# from two running sums of positive terms, from the top down:
#
#     G_i = sum_{s > s_i} e^{s_i - s} w(s),     D_i = D_{i+1} + (e^d - 1) G_i,
#     w(s) = e^{-theta (s - r)} P_theta(S = s),
#
# and between grid points it is linear in alpha = e^eps. All errors of the tilted masses are known,
# so the masses are moved by them in the direction asked for before they are summed.


Side = Literal["upper", "lower"]

#: Tilts are rounded down to powers of the ratio, so that epsilons near each other share one, and a
#: few of them are kept. Exponents stay where e^x is finite.
_TILT_RATIO = 1.15
_TILTS_KEPT = 3
_LARGEST_EXPONENT = 300.0


@dataclass(frozen=True, eq=False)
class ProfileTable:
    """The profile at grid points, in units of e^log_unit, and its slopes between them."""

    first: float
    spacing: float
    log_unit: float
    values: FloatArray
    gains: FloatArray
    theta: float
    reference: float

    def at(self, epsilon: float) -> float:
        """The finite part of delta at one epsilon, in units of e^log_unit, without the doubt."""
        place = (epsilon - self.first) / self.spacing
        if place >= self.values.size - 1:
            return 0.0
        cell = max(0, math.floor(place))
        # D(alpha) = D_{i+1} + (alpha_{i+1} - alpha) e^{-s_i} G_i inside cell i
        left = self.first + cell * self.spacing
        drop = math.exp(self.spacing) - math.exp(epsilon - left)
        return float(self.values[cell + 1] + max(drop, 0.0) * self.gains[cell])

    @property
    def last(self) -> float:
        """The largest loss inside the window."""
        return self.first + self.spacing * (self.values.size - 1)

    @property
    def rounding(self) -> float:
        """Bound of the relative error of the two running sums, and of places between the dots."""
        places = max(abs(self.first), abs(self.last)) / self.spacing
        return ROUNDOFF * (4.0 * self.values.size + 16.0 * places + 1e4)

    def doubt(self, epsilon: float) -> float:
        """What may lie outside the window or have wrapped around, in the same units."""
        away = -self.theta * (epsilon - self.reference)
        return 2.0 * OUTSIDE * math.exp(away) if away < 700.0 else math.inf


class ReadOff:
    """Certified values of one composition; transforms are kept and shared by nearby questions."""

    def __init__(self, composition: Composition, side: Side) -> None:
        self.composition, self.side = composition, side
        self._tilts: dict[float, Tilted] = {}
        self._tables: dict[float, ProfileTable] = {}

    def delta(self, epsilon: float) -> float:
        """Bound of delta at one epsilon."""
        if self.side == "upper" and self.composition.infinite >= 1.0:
            return 1.0
        if epsilon >= self.composition.largest:
            return self.composition.infinite if self.side == "upper" else 0.0
        best = self.composition.best_tilt(epsilon)
        table = self._table(_rounded(best), epsilon)
        if not table.first <= epsilon < table.last:
            # Losses with rare, far outliers move a long way with the tilt: no rounding then.
            table = self._table(best, epsilon)
        return self._delta(table, epsilon)

    def curve(self, epsilon: FloatArray) -> FloatArray:
        """Bounds of delta at many epsilons, a few transforms for all."""
        beyond = min(1.0, self.composition.infinite) if self.side == "upper" else 0.0
        if beyond == 1.0:
            return np.ones(epsilon.size)
        out = np.full(epsilon.size, beyond)
        inside = np.flatnonzero(epsilon < self.composition.largest)
        tilts = self.composition.ladder_tilts(epsilon[inside])
        for theta in np.unique(tilts):
            left = inside[tilts == theta]
            while left.size:
                table = self._table(float(theta), float(epsilon[left[0]]))
                near = np.abs(epsilon[left] - table.reference) * theta <= _LARGEST_EXPONENT / 2
                near[0] = True
                rows, left = left[near], left[~near]
                seen = (table.first <= epsilon[rows]) & (epsilon[rows] < table.last)
                out[rows[seen]] = self._deltas(table, epsilon[rows[seen]])
                for row in rows[~seen]:
                    out[row] = self.delta(float(epsilon[row]))
        return out

    def epsilon(self, delta: float) -> float:
        """Bound of the smallest epsilon >= 0 at which delta is met.

        Upper side: a value at which the upper bound of delta is at most ``delta`` (infinite if the
        mass at infinity alone is larger). Lower side: a value at which the lower bound of delta
        still exceeds ``delta`` (zero if there is none).
        """
        if self.side == "upper" and not self.composition.infinite < delta:
            return math.inf
        guess = min(max(0.0, self.composition.chernoff_epsilon(delta)), self.composition.largest)
        seen: set[float] = set()
        while True:
            theta = _rounded(self.composition.best_tilt(guess))
            if theta in seen:
                break
            seen.add(theta)
            table = self._table(theta, guess)
            guess = self._solve(table, delta)
        return self._settled(guess, delta)

    def _table(self, theta: float, near: float) -> ProfileTable:
        """A table for this tilt whose reference is close enough to the epsilon in question."""
        table = self._tables.get(theta)
        if table is None or abs(near - table.reference) * theta > _LARGEST_EXPONENT / 2:
            if theta not in self._tilts:
                while len(self._tilts) >= _TILTS_KEPT:
                    oldest = next(iter(self._tilts))
                    del self._tilts[oldest]
                    self._tables.pop(oldest, None)
                self._tilts[theta] = self.composition.tilt(theta)
            table = self._tabulate(self._tilts[theta], near)
            self._tables[theta] = table
        return table

    def _tabulate(self, tilted: Tilted, reference: float) -> ProfileTable:
        sign = 1.0 if self.side == "upper" else -1.0
        d, theta = self.composition.spacing, tilted.theta
        reference = min(reference, float(tilted.losses[-1]))
        lowest = reference - _LARGEST_EXPONENT / max(theta, 1e-3)
        start = int(np.searchsorted(tilted.losses, max(lowest, -d)))
        start = min(start, tilted.losses.size - 2)
        losses = tilted.losses[start:]
        masses = np.maximum(tilted.masses[start:] + sign * tilted.error, 0.0)
        gains = _gains(losses, np.exp(-theta * (losses - reference)) * masses)
        values = np.append(np.cumsum((math.expm1(d) * gains)[::-1])[::-1], 0.0)
        log_unit = tilted.log_scale - theta * reference + math.log1p(sign * tilted.relative)
        return ProfileTable(float(losses[0]), d, log_unit, values, gains, theta, reference)

    def _delta(self, table: ProfileTable, epsilon: float) -> float:
        if self.side == "upper":
            if epsilon < table.first:  # losses below the window are unknown: the trivial bound
                return 1.0
            finite = (table.at(epsilon) + table.doubt(epsilon)) * (1.0 + table.rounding)
            return min(1.0, _in_units(finite, table.log_unit) + self.composition.infinite)
        at = max(epsilon, table.first)  # delta never increases
        finite = (table.at(at) - table.doubt(at)) * (1.0 - table.rounding)
        missing = math.exp(min(epsilon, 700.0)) * self.composition.lost
        return min(1.0, max(_in_units(finite, table.log_unit) - missing, 0.0))

    def _deltas(self, table: ProfileTable, epsilon: FloatArray) -> FloatArray:
        """The same at many epsilons inside the table."""
        cell = np.maximum(np.floor((epsilon - table.first) / table.spacing), 0.0).astype(np.int64)
        cell = np.minimum(cell, table.gains.size - 1)
        drop = math.exp(table.spacing) - np.exp(epsilon - (table.first + cell * table.spacing))
        value = table.values[cell + 1] + np.maximum(drop, 0.0) * table.gains[cell]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            doubt = 2.0 * OUTSIDE * np.exp(-table.theta * (epsilon - table.reference))
            sign = 1.0 if self.side == "upper" else -1.0
            finite = np.maximum(value + sign * doubt, 0.0) * (1.0 + sign * table.rounding)
            found = np.exp(np.minimum(np.log(finite) + table.log_unit, 0.0))
        if self.side == "upper":
            return np.minimum(1.0, found + self.composition.infinite)
        missing = np.exp(np.minimum(epsilon, 700.0)) * self.composition.lost
        return np.clip(found - missing, 0.0, 1.0)

    def _solve(self, table: ProfileTable, delta: float) -> float:
        """Bisect on the bound read off one table: a guess, which may be an end of the table."""
        low = max(0.0, table.first)
        high = max(table.last, low)
        if self._delta(table, low) <= delta:
            return low
        while high - low > 1e-10 * (1e-2 + high):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._delta(table, middle) > delta else (low, middle)
        return high if self.side == "upper" else low

    def _settled(self, guess: float, delta: float) -> float:
        """The safe end of a narrow bracket, both ends of it freshly read off."""

        def meets(epsilon: float) -> bool:
            return self.delta(epsilon) <= delta

        low, high = 0.0, max(self.composition.largest, 0.0)  # fails at low > 0, meets at high
        step = 1e-9 * (1e-2 + guess)
        for trial in (guess - step, guess, guess + step):
            if low < trial < high:
                low, high = (low, trial) if meets(trial) else (trial, high)
        while high - low > 3.0 * step:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if meets(middle) else (middle, high)
            step = 1e-9 * (1e-2 + high)
        if low == 0.0 and meets(0.0):
            return 0.0
        return high if self.side == "upper" else low


def _in_units(value: float, log_unit: float) -> float:
    """``value * e^log_unit`` without overflow, at most 1; zero for negative values."""
    if not value > 0.0:
        return 0.0
    return math.exp(min(math.log(value) + log_unit, 0.0))


def _gains(losses: FloatArray, weights: FloatArray) -> FloatArray:
    """G_i = sum_{j > i} e^{s_i - s_j} w_j, in blocks short enough for their exponentials."""
    gains = np.empty(losses.size - 1)
    block = max(2, int(_LARGEST_EXPONENT / (losses[1] - losses[0])))
    carried, stop = 0.0, losses.size - 1  # G at index `stop`
    while stop > 0:
        start = max(0, stop - block)
        away = losses[start : stop + 1] - losses[stop]
        terms = np.exp(-away[1:]) * weights[start + 1 : stop + 1]
        gains[start:stop] = np.exp(away[:-1]) * (np.cumsum(terms[::-1])[::-1] + carried)
        carried, stop = float(gains[start]), start
    return gains


def _rounded(theta: float) -> float:
    """Round a tilt down to a geometric ladder so that nearby questions share a transform.

    Down, because a steeper tilt than the best one may drown the sum in its rarest losses.
    """
    if theta <= 0:
        return 0.0
    return float(_TILT_RATIO ** math.floor(math.log(theta) / math.log(_TILT_RATIO) + 1e-9))


# Certified delta and epsilon of a composition, at an accuracy that is reached, not hoped for.
#
# A curve is made of parts, each a dominating pair (upper side) or a concrete pair (lower side) with
# the number of times it occurs. Losses so rare that they cannot matter for the delta in question
# are counted as infinite (upper) or dropped (lower) before composing, which keeps transforms short.
#
# On the upper side the discretisation error is of second order in the spacing. Connecting only
# every second dot of the same evaluations doubles the spacing, so a third of the difference
# measures what the discretisation still costs; the spacing is refined until that is below the
# requested accuracy.

#: Log moments of one pair at many orders above 1.
Moments = Callable[[FloatArray], FloatArray]
#: How much higher the orders are that bound what lies above all losses of the grid.
_STEPS_UP = np.geomspace(0.03, 3e3, 36)
#: Rounding of the logarithm of a moment, generously.
_MOMENT_ROUNDING = 1e-14
#: Share of delta that rare losses may take when they are counted as infinite or dropped.
_RARE = 1e-4
#: Delta that rare losses are judged by first, before the answer is known.
_FIRST_FLOOR = 1e-12
#: Cells of one loss that make its transforms long.
_LONG_LOSS = 200_000


class ComposedLoss:
    """Losses on one grid with their counts, read off on one side."""

    def __init__(self, parts: Sequence[tuple[DiscreteLoss, int]], side: Side) -> None:
        self._parts, self._side = tuple(parts), side
        self._steps = sum(count for _, count in parts)
        self._readers: dict[int, ReadOff] = {}
        spans = [float(loss.index[-1]) - float(loss.index[0]) for loss, _ in parts]
        self._far = max(spans) > _LONG_LOSS

    def epsilon(self, delta: float) -> float:
        """Certified epsilon at ``delta``."""
        return self._reader(delta).epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Certified delta at ``epsilon``; rare losses are judged against the answer itself."""
        floor = _FIRST_FLOOR
        while True:
            found = self._reader(floor).delta(epsilon)
            if floor <= found or floor < (1e-280 if self._side == "upper" else 1e-60):
                return found
            floor = max(floor * 1e-12, 1e-290) if found <= 0 else min(floor * 1e-3, found)

    def curve(self, epsilon: FloatArray, smallest: float) -> FloatArray:
        """Certified deltas at many epsilons, accurate down to ``smallest``."""
        return self._reader(smallest).curve(epsilon)

    def log_mgf(self, theta: FloatArray, rare: float) -> tuple[FloatArray, float]:
        """Log moments of the finite part once ``rare`` mass in all was taken out at the top."""
        keep = self._side == "upper"
        parts = [(x.truncated(rare / self._steps, keep=keep), k) for x, k in self._parts]
        composition = Composition(parts)
        return composition.log_mgf(theta), composition.infinite

    def whole_log_mgf(self, theta: FloatArray, crude: Sequence[Moments]) -> FloatArray:
        """Log moments of all losses, as :meth:`UpperCurve.whole_log_mgf` has them."""
        total = np.zeros(theta.size)
        for (loss, count), moments in zip(self._parts, crude, strict=True):
            order, top = 1.0 + theta, float(loss.losses[-1])
            known = moments(order)
            parts = [loss.log_mgf(theta) + _MOMENT_ROUNDING]
            if loss.infinite > 0.0:
                parts.append(np.log(order * loss.infinite) + theta * top)
                higher = order[:, None] + _STEPS_UP
                beyond = moments(higher.ravel()).reshape(higher.shape) - _STEPS_UP * top
                parts.append(np.minimum(known, beyond.min(axis=1)))
            total = total + count * np.minimum(known, np.logaddexp.reduce(parts, axis=0))
        return total

    def _reader(self, delta: float) -> ReadOff:
        """The composition truncated for this order of magnitude of delta."""
        # Readers are shared by deltas of three decades, but not where losses reach so far that the
        # rounding of long transforms counts: there as much as allowed is taken out at the top.
        width = 1 if self._far else 3
        decade = width * math.floor(math.log10(delta) / width)
        if decade not in self._readers:
            rare = _RARE * 10.0**decade / self._steps
            keep = self._side == "upper"
            parts = [(loss.truncated(rare, keep=keep), count) for loss, count in self._parts]
            self._readers[decade] = ReadOff(Composition(parts), self._side)
        return self._readers[decade]


class UpperCurve:
    """The upper side of a sequence of dominating pairs on one grid."""

    def __init__(self, pairs: Sequence[DominatingPair], counts: Sequence[int], grid: Grid) -> None:
        self._counts, self._grid = tuple(counts), grid
        self._values = [
            pair.values(just_below(grid.spacing, points))
            for pair, points in zip(pairs, grid.points, strict=True)
        ]
        self._fine = self._connected(fine=True)

    @cached_property
    def _coarse(self) -> ComposedLoss:
        return self._connected(fine=False)

    @cached_property
    def coarser(self) -> UpperCurve:
        """The same curve through every second dot: what it says more is due to the grid."""
        other = copy(self)
        other._fine = self._coarse
        return other

    def _connected(self, fine: bool) -> ComposedLoss:
        """Connect all dots, or every second of them, and compose."""
        parts = []
        for (ahead, behind), count, points in zip(
            self._values, self._counts, self._grid.points, strict=True
        ):
            kept = np.arange(points.size) if fine else every_second(points)
            dots = points[kept], ahead[kept], behind[kept]
            parts.append((connect_values(self._grid.spacing, *dots), count))
        return ComposedLoss(parts, "upper")

    def value(self, question: Question) -> float:
        """The certified answer."""
        return question.of_composed(self._fine)

    def curve(self, epsilon: FloatArray, smallest: float) -> FloatArray:
        """Certified deltas at many epsilons."""
        return self._fine.curve(epsilon, smallest)

    def log_mgf(self, theta: FloatArray, rare: float) -> tuple[FloatArray, float]:
        """Log moments of the finite losses, and the mass counted as infinite, ``rare`` allowed."""
        return self._fine.log_mgf(theta, rare)

    def whole_log_mgf(self, theta: FloatArray, crude: Sequence[Moments]) -> FloatArray:
        """Log moments of all losses, none left out; ``crude`` bounds those of each pair.

        A moment is at most that of the dominating pair with its largest losses replaced by the
        tangent, plus what is above the last loss c: at most c^-b times the crude moment of order b
        higher, for every b (docs/derivations/composition.md).
        """
        return self._fine.whole_log_mgf(theta, crude)

    def gap(self, question: Question) -> float:
        """An estimate of what the discretisation adds to the answer."""
        coarse = question.of_composed(self._coarse)
        if not math.isfinite(coarse):
            return math.inf
        return max(0.0, (coarse - self.value(question)) / 3.0)


#: One composition of the lower side: (pair, count, which points of the grid it is merged on).
LowerParts = Sequence[tuple[ConcretePair, int, int]]


class LowerCurve:
    """The lower side: concrete pairs, one family or a mixture of orders per composition."""

    def __init__(self, choices: Sequence[tuple[str, LowerParts]], grid: Grid) -> None:
        self._choices, self._grid = dict(choices), grid
        self._point_masses: dict[int, list[PointMass]] = {}
        self._merged: dict[tuple[int, float, bool], DiscreteLoss] = {}
        self._curves = [(label, self._composed(parts, fine=True)) for label, parts in choices]

    @cached_property
    def coarser(self) -> LowerCurve:
        """The same compositions merged onto every second point."""
        other = copy(self)
        other._curves = [
            (label, self._composed(parts, fine=False)) for label, parts in self._choices.items()
        ]
        return other

    def gap(self, question: Question, label: str) -> float:
        """An estimate of what the discretisation takes off one composition's answer."""
        if label not in self._choices:
            return 0.0
        coarse = question.of_composed(self._composed(self._choices[label], fine=False))
        fine = question.of_composed(dict(self._curves)[label])
        return max(0.0, (fine - coarse) / 3.0)

    def _composed(self, parts: LowerParts, fine: bool) -> ComposedLoss:
        spacing = self._spacing(parts)
        losses = [
            (self._loss(pair, which, spacing, fine), count) for pair, count, which in parts if count
        ]
        return ComposedLoss(losses, "lower")

    def _spacing(self, parts: LowerParts) -> float:
        """The grid's spacing, or a little less: two point masses of the main part fit on it."""
        pair, _, which = max(parts, key=lambda part: part[1])
        return spacing_for(self._point_masses_of(pair, which), self._grid.spacing)

    def _point_masses_of(self, pair: ConcretePair, which: int) -> list[PointMass]:
        if id(pair) not in self._point_masses:
            found = point_masses_of(pair, self._grid.spacing, self._grid.points[which])
            self._point_masses[id(pair)] = found
        return self._point_masses[id(pair)]

    def _loss(self, pair: ConcretePair, which: int, spacing: float, fine: bool) -> DiscreteLoss:
        key = (id(pair), spacing, fine)
        if key not in self._merged:
            points = self._grid.points[which]
            kept = points if fine else points[every_second(points)]
            self._merged[key] = merge(pair, spacing, kept, self._point_masses_of(pair, which))
        return self._merged[key]

    def curve(self, epsilon: FloatArray, smallest: float) -> FloatArray:
        """The largest certified delta over all compositions, at many epsilons."""
        curves = self.curves(epsilon, smallest, tuple(self._choices)).values()
        return np.asarray(np.max(np.stack([np.zeros(epsilon.size), *curves]), axis=0))

    def curves(
        self, epsilon: FloatArray, smallest: float, labels: Sequence[str]
    ) -> dict[str, FloatArray]:
        """The certified deltas of those compositions that there are, at many epsilons."""
        return {
            label: curve.curve(epsilon, smallest)
            for label, curve in self._curves
            if label in labels
        }

    def log_mgf(self, theta: FloatArray, rare: float) -> FloatArray:
        """The largest log moments over all compositions, ``rare`` mass dropped at the top."""
        moments = [curve.log_mgf(theta, rare)[0] for _, curve in self._curves]
        return np.asarray(np.max(np.stack([np.zeros(theta.size), *moments]), axis=0))

    def best(self, question: Question) -> tuple[float, str]:
        """The largest certified answer over all compositions, and whose it is."""
        answers = [(question.of_composed(curve), label) for label, curve in self._curves]
        return max(answers, default=(0.0, "none"), key=lambda answer: answer[0])


def every_second(points: IntArray | FloatArray) -> NDArray[np.intp]:
    """Positions of every second point, first and last included."""
    return np.unique(np.append(np.arange(0, points.size, 2), points.size - 1))
