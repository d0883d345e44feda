"""One term of the likelihood ratio of an epoch: a move of fixed or of random size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.numerics.arrays import FloatArray

# Random allocation: one term of the likelihood ratio of an epoch.
#
# Every record goes to one of M steps, uniformly and independently. With Gaussian noise and s = C /
# sigma, neighbours that differ in one record have, in the worst case and adaptively, the
# likelihood ratio (1/M) sum_i X_i under add_remove, X_i independent with log X ~ N(-s^2/2, s^2)
# where the record is absent; under replace_one the divergence at alpha is E (1/M sum_i D_i)_+ with
#
#     D = X - alpha X',   X = e^{s g - s^2/2},   X' = e^{-s g - s^2/2},   g standard normal.
#
# alpha = 0 makes D the X of add_remove, so one class serves both (docs/derivations/epochs.md). For
# d = D(g*) = a - alpha b with a = X(g*), b = X'(g*), the terms D - d = (X - a) + alpha (b - X')
# have one sign, so that E(D - d)_+ is a sum of two option prices of lognormal variables: no
# cancellation.


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
        out = np.where(above, self.call(log_a), self.put(log_a))
        if self.alpha > 0.0:
            out = out + self.alpha * np.where(above, self.put(log_b), self.call(log_b))
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

    def call(self, log_x: FloatArray) -> FloatArray:
        """E(X - x)_+."""
        return _NOISE.profile(np.array(self.shift), log_x)

    def put(self, log_x: FloatArray) -> FloatArray:
        """E(x - X)_+."""
        with np.errstate(invalid="ignore", over="ignore"):
            price = np.exp(log_x) * _NOISE.profile(np.array(self.shift), -log_x)
        return np.where(np.isnan(price), 0.0, price)


# Random allocation of a move of random size: one term of the likelihood ratio of an epoch.
#
# Several records of one person that share a batch move it by c shifts together, c by chance. Where
# they are absent, the term of one batch is
#
#     Z = sum_c w_c e^{c s g - c^2 s^2 / 2},      g standard normal, w_1 + w_2 + ... = 1.
#
# All its parts increase in g. For d = Z(g*) the differences of the parts from what they are at g*
# have one sign on either side of g*, so that E(Z - d)_+ is a sum of prices of lognormal variables,
# as for the term of one record (``allocation.py``), which this is for w_1 = 1.


#: Newton's method from above for a convex increasing function: it ends long before.
_ITERATIONS = 200


@dataclass(frozen=True)
class MixedTerm:
    """Z by its option prices, its tails and its density; ``weights`` are of 1, 2, ... copies."""

    shift: float
    weights: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of Z, up to the rounding of its weights."""
        return 1.0

    @property
    def error(self) -> float:
        """Bound of the relative error of prices, the rounding of d and of g* included."""
        return 4e-11 + 2e-11 / self.shift

    @property
    def deviation(self) -> float:
        """Standard deviation of Z; infinite where it overflows."""
        _, copies, weights = self.parts
        with np.errstate(over="ignore"):
            variance = weights @ np.expm1(np.outer(copies, copies) * self.shift**2) @ weights
        return float(np.sqrt(variance))

    @property
    def peak(self) -> float:
        """About where the density is largest."""
        s = self.shift
        g = np.linspace(-4.0 - s * len(self.weights), 4.0, 801)
        speed = self.speed(g)
        with np.errstate(divide="ignore"):
            logs = np.where(speed > 0.0, -0.5 * np.square(g) - np.log(speed), -np.inf)
        return float(np.exp(self._log(g))[np.argmax(logs)])

    def value(self, d: FloatArray) -> FloatArray:
        """E(Z - d)_+ from the mean on and E(d - Z)_+ below, to within ``error``."""
        g, out = self.outcome(d), np.zeros(d.shape)
        above = d >= self.mean
        for moved, _, weight in zip(*self.parts, strict=True):
            log_x = moved * g - 0.5 * moved**2
            with np.errstate(invalid="ignore", over="ignore"):
                call = _NOISE.profile(np.array(moved), log_x)
                put = np.exp(log_x) * _NOISE.profile(np.array(moved), -log_x)
            out += weight * np.where(above, call, np.where(np.isnan(put), 0.0, put))
        return out

    def tails(self, d: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(Z < d) and P(Z > d)."""
        g = self.outcome(d)
        return np.asarray(ndtr(g)), np.asarray(ndtr(-g))

    def densest(self, d: FloatArray) -> FloatArray:
        """Upper bounds of the density between neighbouring points; infinite where none is known."""
        g = self.outcome(d)
        near = np.minimum(np.abs(g[:-1]), np.abs(g[1:]))
        near = np.where((g[:-1] < 0) & (g[1:] > 0), 0.0, near)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            bound = np.exp(-0.5 * np.square(near)) / (np.sqrt(2.0 * np.pi) * self.speed(g[:-1]))
        return np.where(np.isnan(bound), np.inf, bound * (1.0 + 1e-9))

    def outcome(self, d: FloatArray) -> FloatArray:
        """The g at which Z is d: every part alone says how large it is at most."""
        moved, _, weights = (part[:, None] for part in self.parts)
        with np.errstate(divide="ignore", invalid="ignore"):
            goal = np.log(d.ravel())
        known = np.isfinite(goal)
        aim = goal[known]
        g = np.min((aim - np.log(weights) + 0.5 * moved**2) / moved, axis=0)
        for _ in range(_ITERATIONS):
            logs = np.log(weights) + moved * g - 0.5 * moved**2
            whole = np.logaddexp.reduce(logs, axis=0)
            slope = np.sum(moved * np.exp(logs - whole), axis=0)
            step = (whole - aim) / slope
            g = g - step
            # Errors are squared by every step: the one that is left is that of rounding.
            if not np.any(np.abs(step) > 1e-10 * (1.0 + np.abs(g))):
                break
        out = np.where(goal > 0.0, np.inf, -np.inf)
        out[known] = g
        return out.reshape(d.shape)

    @property
    def parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """How far each part is moved, by how many copies, and its weight."""
        copies = np.flatnonzero(self.weights).astype(np.float64) + 1.0
        weights = np.array([w for w in self.weights if w > 0.0])
        return copies * self.shift, copies, weights

    def _log(self, g: FloatArray) -> FloatArray:
        moved, _, weights = (part[:, None] for part in self.parts)
        logs = np.log(weights) + moved * g - 0.5 * moved**2
        return np.asarray(np.logaddexp.reduce(logs, axis=0))

    def speed(self, g: FloatArray) -> FloatArray:
        """dZ/dg, which grows with g."""
        moved, _, weights = (part[:, None] for part in self.parts)
        with np.errstate(over="ignore"):
            return np.asarray(np.sum(weights * moved * np.exp(moved * g - 0.5 * moved**2), axis=0))


# The same under replace_one: the difference of two such terms, moved opposite ways.
#
#     D = Z(g) - alpha Z(-g),      Z as above, for one alpha.
#
# It increases in g as all its parts do, so that its prices are sums of prices of lognormal
# variables again. One part alone is the ``Term`` of that many shifts, whose root is known in closed
# form; D is a mean of the parts, so that its own root lies between theirs.


@dataclass(frozen=True)
class SwappedTerm:
    """D for one alpha; ``weights`` are of 1, 2, ... copies and add up to one exactly."""

    shift: float
    weights: tuple[float, ...]
    alpha: float

    @property
    def mean(self) -> float:
        """The mean of D."""
        return 1.0 - self.alpha

    @property
    def error(self) -> float:
        """Bound of the relative error of prices, the rounding of d and of g* included."""
        return self._moved.error

    @property
    def deviation(self) -> float:
        """Standard deviation of D; infinite where it overflows."""
        _, copies, weights = self._moved.parts
        squares, alpha = np.outer(copies, copies) * self.shift**2, self.alpha
        with np.errstate(over="ignore"):
            each = (1.0 + alpha**2) * np.expm1(squares) - 2.0 * alpha * np.expm1(-squares)
        return float(np.sqrt(weights @ each @ weights))

    @property
    def peak(self) -> float:
        """About where the density is largest."""
        g = np.linspace(-4.0, 4.0, 401)
        value, speed = self._at(g)
        return float(value[np.argmax(-0.5 * np.square(g) - np.log(speed))])

    def value(self, d: FloatArray) -> FloatArray:
        """E(D - d)_+ from the mean on and E(d - D)_+ below, to within ``error``."""
        g, above = self.outcome(d), d >= self.mean
        # From the mean on calls of Z(g) and puts of Z(-g), below it the other way round.
        side = np.where(above, g, -g)
        factor, other = np.where(above, 1.0, self.alpha), np.where(above, self.alpha, 1.0)
        out = np.zeros(d.shape)
        for moved, _, weight in zip(*self._moved.parts, strict=True):
            one = Term(float(moved))
            call = one.call(moved * side - 0.5 * moved**2)
            put = one.put(-moved * side - 0.5 * moved**2)
            out += weight * (factor * call + other * put)
        return out

    def tails(self, d: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(D < d) and P(D > d)."""
        g = self.outcome(d)
        return np.asarray(ndtr(g)), np.asarray(ndtr(-g))

    def densest(self, d: FloatArray) -> FloatArray:
        """Upper bounds of the density between neighbouring points; infinite where none is known."""
        g = self.outcome(d)
        near = np.minimum(np.abs(g[:-1]), np.abs(g[1:]))
        near = np.where((g[:-1] < 0) & (g[1:] > 0), 0.0, near)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            bound = np.exp(-0.5 * np.square(near)) / (
                np.sqrt(2.0 * np.pi) * self._speed(g[:-1], g[1:])
            )
        return np.where(np.isnan(bound), np.inf, bound * (1.0 + 1e-9))

    def outcome(self, d: FloatArray) -> FloatArray:
        """The g at which D is d: Newton's method for asinh D, kept between the roots of parts."""
        flat = d.ravel()
        roots = np.stack([Term(float(s), self.alpha).outcome(flat) for s in self._moved.parts[0]])
        low, high = np.min(roots, axis=0), np.max(roots, axis=0)
        # A hair wider, for their rounding.
        hair = 1e-13 * (1.0 + np.abs(low) + np.abs(high) + 1.0 / self.shift)
        low, high = low - hair, high + hair
        g, unit = 0.5 * (low + high), np.sqrt(self.alpha) * np.exp(-0.5 * self.shift**2)
        goal = np.arcsinh(flat / unit)
        for _ in range(_ITERATIONS):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                here, speed = self._at(g)
                off = np.arcsinh(here / unit) - goal
                newton = g - off * np.hypot(here, unit) / speed
            low, high = np.where(off < 0.0, g, low), np.where(off > 0.0, g, high)
            inside = (newton >= low) & (newton <= high)
            following = np.where(inside, newton, 0.5 * (low + high))
            step, g = following - g, following
            # Errors are squared by every step of Newton's method: what is left is rounding.
            if not np.any(np.abs(step) > 1e-10 * (1.0 + np.abs(g))):
                break
        return np.asarray(g.reshape(d.shape))

    def _at(self, g: FloatArray) -> tuple[FloatArray, FloatArray]:
        """D and dD/dg, by powers of e^{s g}."""
        moved, copies, weights = self._moved.parts
        sizes = weights * np.exp(-0.5 * np.square(moved))
        ahead = np.exp(self.shift * g)
        behind = 1.0 / ahead
        value, speed = np.zeros(g.shape), np.zeros(g.shape)
        for power, size in zip(copies.tolist(), sizes.tolist(), strict=True):
            right, left = size * ahead**power, self.alpha * size * behind**power
            value += right - left
            speed += power * self.shift * (right + left)
        return value, speed

    def _speed(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """dD/dg between two points at least: dZ/dg grows with g."""
        return self._moved.speed(left) + self.alpha * self._moved.speed(-right)

    @property
    def _moved(self) -> MixedTerm:
        return MixedTerm(self.shift, self.weights)
