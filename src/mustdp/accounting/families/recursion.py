"""Adaptive composition with a family of pairs: the worst member is chosen in every step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from mustdp.accounting.pld.discrete import DiscreteLoss
from mustdp.accounting.pld.discretise import connect_values
from mustdp.accounting.pld.readoff import EpsilonAt, Question
from mustdp.errors import NumericalFailure
from mustdp.numerics.arrays import ROUNDOFF, FloatArray

# Adaptive composition with a family of pairs: the worst member is chosen in every step.
#
# With h_0(alpha) = (1 - alpha)_+, the worst delta of j adaptive steps is
# h_j(alpha) = sup over pairs of the integral of p h_{j-1}(alpha q/p). If every pair of one step is
# dominated by some member c of a finite family, then in eps = log alpha, on a grid,
#
#     g_j(e) = max over c of  sum_l p_c(l) g_{j-1}(e - l) + p_c(inf),      g_0(e) = (1 - e^e)_+,
#
# bounds h_j from above; over concrete pairs with losses merged downwards it is attained by a
# strategy that looks at what was released. The proofs are in docs/derivations/family.md.
#
# What is carried is G = g e^{lambda e} on a window of grid points, so that rounding is small where
# the answer is decided. Left of the window a convex function of alpha with value 1 at alpha = 0 is
# below its chord; right of it a decreasing one is below its last value. Rounding of the transforms
# is bounded in every step and moved to the safe side at once. Infinite losses are kept apart, as
# one number that is added when g is read: under the tilt they would drown everything else.


Side = Literal["upper", "lower"]

#: Largest exponent of the tilt over the window.
STEEPEST = 600.0
#: Chernoff's bound is kept at these multiples of the tilt, so that it falls beyond the window.
_LADDER = np.array([1.0, 1.1, 1.25, 1.45, 1.7])
#: Values worked on at once, so that they stay in the processor's cache.
_AT_ONCE = 65_536


@dataclass(frozen=True)
class LossWindow:
    """Grid points ``first … last`` (times ``spacing``), how far losses reach, and the tilt."""

    spacing: float
    first: int
    last: int
    up: int
    down: int
    tilt: float

    @property
    def size(self) -> int:
        """Number of grid points inside."""
        return self.last - self.first + 1

    @property
    def transform(self) -> int:
        """Length of the transforms: the window with what one loss can reach on either side."""
        return int(fft.next_fast_len(self.size + self.up + self.down, real=True))

    @property
    def epsilon(self) -> FloatArray:
        """The grid points."""
        return np.arange(self.first, self.last + 1, dtype=np.float64) * self.spacing


@dataclass(frozen=True, eq=False)
class Kernels:
    """Tilted losses of a family, transformed."""

    spectra: NDArray[np.complex128]
    #: The largest sum of a member's masses at every tilt of the ladder, and of plain masses.
    moments: FloatArray
    total: float
    infinite: float
    lost: float


class Recursion:
    """The function g on its window, one side, step by step."""

    def __init__(self, window: LossWindow, side: Side) -> None:
        far = max(window.last + window.down, window.up - window.first) * window.spacing
        if not 0.0 <= window.tilt * far < STEEPEST:
            raise NumericalFailure(f"a tilt of {window.tilt:.3g} is too steep for its window")
        self.window, self.side = window, side
        e = window.epsilon
        d, n = window.spacing, window.size
        left = np.arange(window.first - window.up, window.first) * d
        right = np.arange(window.last + 1, window.last + 1 + window.down) * d
        with np.errstate(under="ignore"):
            # Exponentials are off by as many roundings as their exponents are large.
            safe = self._outwards(16.0 + self._exponent)
            self._weight = np.exp(window.tilt * e)
            self._full = self._weight * safe
            self._left_weight = np.exp(window.tilt * left) * safe
            self._right_weight = np.exp(window.tilt * right) * safe
        self._left_share = np.exp(left - e[0])
        self._left_floor = -np.expm1(left)
        self._extended = np.zeros(window.transform)
        self._products = np.empty((0, window.transform // 2 + 1), dtype=np.complex128)
        self._inside = slice(window.up, window.up + n)
        self.tilted = np.maximum(-np.expm1(np.minimum(e, 0.0)), 0.0) * self._full
        self.steps = 0
        self._infinite, self.lost = 0.0, 0.0
        # g_0 e^{theta e} <= 1 for every theta >= 0, and a step multiplies by a moment at most.
        self._log_caps = np.zeros(_LADDER.size)
        beyond = np.concatenate([e, right])
        steeper = (_LADDER[1:, None] - 1.0) * window.tilt
        with np.errstate(under="ignore", over="ignore"):
            self._falls = np.concatenate([np.ones((1, beyond.size)), np.exp(-steeper * beyond)])
            self._falls *= safe

    @property
    def values(self) -> FloatArray:
        """g at the grid points, rounded to the safe side."""
        with np.errstate(over="ignore"):
            value = self.tilted / self._weight * self._outwards(8.0 + self._exponent)
        value = value + self._infinite
        return np.minimum(value, 1.0) if self.side == "upper" else np.clip(value, 0.0, 1.0)

    def kernels(self, members: Sequence[DiscreteLoss]) -> Kernels:
        """Tilt and transform the losses of a family."""
        window = self.window
        spectra = np.empty((len(members), window.transform // 2 + 1), dtype=np.complex128)
        infinite, total = 0.0, 1.0
        moments = np.zeros(_LADDER.size)
        for row, loss in enumerate(members):
            if loss.spacing != window.spacing or loss.offset != 0.0:
                raise NumericalFailure("a loss lies on another grid than the recursion")
            beyond = loss.index > window.up
            kept = loss.index[~beyond]
            exponent = window.tilt * window.spacing * np.maximum(kept, -window.down)
            masses = loss.masses[~beyond] * np.exp(exponent)
            span = 16.0 + 4.0 * float(np.max(np.abs(exponent)))
            masses = masses * self._outwards(span)
            if self.side == "upper":  # losses beyond the reach are infinite; low ones are raised
                kept = np.maximum(kept, -window.down)
                top = loss.infinite + float(loss.masses[beyond].sum()) * (1.0 + 1e-12)
                infinite = max(infinite, top)
            else:
                masses = np.where(kept < -window.down, 0.0, masses)
            folded = np.bincount(
                kept % window.transform, weights=masses, minlength=window.transform
            )
            spectra[row] = fft.rfft(folded)
            steeper = np.exp(np.outer(_LADDER - 1.0, exponent))
            moments = np.maximum(moments, np.einsum("ij,j->i", steeper, masses) * (1.0 + 1e-12))
            total = max(total, loss.total * (1.0 + 1e-14))
        lost = max((loss.lost for loss in members), default=0.0)
        return Kernels(spectra, moments, total, infinite, lost)

    def step(self, kernels: Kernels) -> None:
        """One more step in front: the worst member at every grid point."""
        best = self.applied(kernels, reduce=True)
        if self.side == "upper":
            self._log_caps = self._log_caps + np.log(kernels.moments) + 1e-13
            self._infinite = self._infinite * kernels.total + kernels.infinite * (1.0 + 1e-12)
            # No probability exceeds one, and Chernoff's bound holds for every member and step:
            # rounding far from the bulk must not feed on itself.
            np.minimum(best, self._full, out=best)
            np.minimum(best, self._chernoff(slice(0, best.size)), out=best)
        else:
            np.maximum(best, 0.0, out=best)
            self.lost += kernels.lost
        if not np.all(np.isfinite(best)):
            raise NumericalFailure(f"step {self.steps + 1} of the recursion left the numbers")
        self.tilted = best
        self.steps += 1

    def applied(self, kernels: Kernels, *, reduce: bool = False) -> FloatArray:
        """Every member's convolution with g (or the largest of them), tilted."""
        window = self.window
        self._fill()
        spectrum = fft.rfft(self._extended)
        size = window.transform
        chunk = max(1, _AT_ONCE // size)
        parts = []
        for start in range(0, kernels.spectra.shape[0], chunk):
            some = kernels.spectra[start : start + chunk]
            # Memory that is kept: what is asked for and given back in every step costs as much.
            if self._products.shape[0] < some.shape[0]:
                self._products = np.empty_like(some)
            product = np.multiply(some, spectrum, out=self._products[: some.shape[0]])
            moved = fft.irfft(product, size, axis=1, overwrite_x=True)[:, self._inside]
            parts.append(moved.max(axis=0, keepdims=True) if reduce else moved)
        rows = np.concatenate(parts)
        out = rows.max(axis=0) if reduce else rows
        # Higham 2002, Theorem 24.2: 7 u log2 N per transform in the 2-norm; two forward, one
        # backward, each reaching an entry with at most the sum of the kernel times the norm of G.
        norm = math.sqrt(float(np.square(self._extended).sum()))
        doubt = 32.0 * ROUNDOFF * math.log2(size) * float(kernels.moments[0]) * norm
        return np.asarray(out + doubt if self.side == "upper" else out - doubt)

    def _fill(self) -> None:
        """G on the window and beyond both ends, on the safe side."""
        n = self.window.size
        g_first = float(self.tilted[0] / self._weight[0])
        g_last = float(self.tilted[-1] / self._weight[-1])
        up = self.window.up
        if self.side == "upper":
            outside = 1.0 - self._left_share * max(0.0, 1.0 - g_first * (1.0 + 1e-14))
            above = np.minimum(
                g_last * (1.0 + 1e-14) * self._right_weight,
                self._chernoff(slice(n, None)),
            )
        else:
            outside = np.maximum(self._left_floor, g_first * (1.0 - 1e-14))
            above = np.zeros(self.window.down)
        self._extended[:up] = outside * self._left_weight
        self._extended[up : up + n] = self.tilted
        self._extended[up + n : up + n + self.window.down] = above

    def _chernoff(self, where: slice) -> FloatArray:
        """G is at most this: the best of the ladder."""
        with np.errstate(over="ignore"):
            caps = np.exp(self._log_caps)[:, None] * self._falls[:, where]
        return np.asarray(caps.min(axis=0))

    @property
    def _exponent(self) -> float:
        window = self.window
        far = max(window.up - window.first, window.last + window.down) * window.spacing
        return 4.0 * window.tilt * far

    def _outwards(self, roundings: float) -> float:
        """A factor that covers this many roundings in the safe direction."""
        sign = 1.0 if self.side == "upper" else -1.0
        return 1.0 + sign * roundings * ROUNDOFF


def epsilon_at(recursion: Recursion, delta: float) -> float:
    """The epsilon >= 0 at which g meets ``delta``, on the safe side of the recursion."""
    window = recursion.window
    start = -window.first
    g = recursion.values[start:]
    e = window.epsilon[start:]
    upper = recursion.side == "upper"
    if not upper:
        g = np.maximum(g - np.exp(e) * recursion.lost, 0.0)
    if not upper:  # the last point at which delta is still exceeded
        exceeds = np.flatnonzero(g > delta)
        return float(e[exceeds[-1]]) * (1.0 - 1e-14) if exceeds.size else 0.0
    meets = np.flatnonzero(g <= delta)
    if meets.size == 0:
        return math.inf
    at = int(meets[0])
    if at == 0:
        return 0.0
    # Between grid points a convex function of alpha lies below its chord.
    share = (g[at - 1] - delta) / (g[at - 1] - g[at])
    rise = math.log1p(share * math.expm1(window.spacing))
    return float(min(e[at - 1] + rise, e[at])) * (1.0 + 1e-14)


def answer(recursion: Recursion, question: Question) -> float:
    """What the recursion says to a question, on its side."""
    read = epsilon_at if isinstance(question, EpsilonAt) else delta_at
    return read(recursion, question.at)


def profile_of(recursion: Recursion) -> Callable[[FloatArray], FloatArray]:
    """g at any epsilons >= 0, from above: between grid points below its chords, then decreasing."""
    window = recursion.window
    e, g = window.epsilon[-window.first :], recursion.values[-window.first :]

    def profile(epsilon: FloatArray) -> FloatArray:
        cell = np.clip(np.searchsorted(e, epsilon, side="right") - 1, 0, e.size - 2)
        with np.errstate(over="ignore"):
            share = np.expm1(epsilon - e[cell]) / math.expm1(window.spacing)
        share = np.clip(share, 0.0, 1.0)
        value = g[cell] * (1.0 - share) + g[cell + 1] * share
        return np.asarray(np.minimum(value * (1.0 + 1e-13), 1.0))

    return profile


def delta_at(recursion: Recursion, epsilon: float) -> float:
    """g at ``epsilon`` >= 0, on the safe side of the recursion."""
    window = recursion.window
    place = epsilon / window.spacing - window.first
    g = recursion.values
    upper = recursion.side == "upper"
    if place >= window.size - 1:
        return float(g[-1]) if upper else 0.0
    cell = min(max(math.floor(place * (1.0 - 1e-15)), 0), window.size - 2)
    if not upper:
        return max(0.0, float(g[cell + 1]) * (1.0 - 1e-13) - math.exp(epsilon) * recursion.lost)
    left = window.epsilon[cell]
    share = min(1.0, max(0.0, math.expm1(epsilon - left) / math.expm1(window.spacing)))
    value = float(g[cell]) * (1.0 - share) + float(g[cell + 1]) * share
    return min(1.0, value * (1.0 + 1e-13))


# A block of steps as one loss: the worst case of the block, found adaptively, made discrete.
#
# g after m steps is the profile of an m-step mechanism. Under replace_one it serves both orders, so
# it may be made discrete like any profile and composed by powers of a transform. What is given away
# is only that one pair per block has to cover both orders.


_EVERY = 4000


def block_loss(spacing: float, values: FloatArray) -> DiscreteLoss:
    """The loss of a block from upper bounds of its profile at 0, spacing, 2 spacing, …"""
    points = np.arange(values.size, dtype=np.int64)
    if points.size > _EVERY:  # chords may be longer where there is little to see
        far = np.rint(np.geomspace(_EVERY // 2, values.size - 1, _EVERY // 2)).astype(np.int64)
        points = np.unique(np.concatenate([points[: _EVERY // 2], far]))
    h = np.minimum.accumulate(values)[points]
    return connect_values(spacing, points, h, h)
