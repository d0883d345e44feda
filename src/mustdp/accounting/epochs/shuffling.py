"""Shuffled epochs of batches of a fixed size: an upper bound with amplification.

A random order of n records is cut into batches of m; M = n/m, rounded down. With alpha = 1 + x the
divergence of an epoch is at most

    E ( e_1/M + sum_j w_j D_j )_+

where D_1, D_2, ... are independent copies of one variable D of mean -x, known by its option prices;
e_1, below another known variable in convex order, is what the first batch tells of the record
itself; and w_j, of sum one, is what the first batch tells of where the record is. How uneven the
weights can be is bounded by B (``mark_bound``). Two bounds follow (docs/derivations/shuffling.md):

- *simple*: the weights are replaced by k equal ones, and k copies of D are added up by one Fourier
  transform;
- *sharp*: the positive part is a Fourier integral, whose integrand is bounded by Jensen's and
  Hoelder's inequality and by a convex function of t = 1/(M w).

Every parameter (k, where variables are cut, the tilt, the exponents) may be chosen freely: a search
chooses them, and what is chosen is evaluated with every error on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from mustdp.accounting.epochs.add_remove import AllocationProfile
from mustdp.accounting.epochs.clones import Clones, Ratio
from mustdp.accounting.epochs.replace_one import ReplacedProfile
from mustdp.accounting.epochs.sums import OnGrid, TooLong, above, masses_of, places, prices
from mustdp.accounting.epochs.tables import falling_root
from mustdp.accounting.pld.discretise import DominatingPair
from mustdp.accounting.pld.readoff import Composition, first_below
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.mechanism import (
    AdditiveNoise,
    GaussianNoise,
    GroupProfile,
    Noise,
    Proof,
    dual,
    has_proof,
)
from mustdp.mechanisms.relation import Relation, moves
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.numerics.convex import lower_hull
from mustdp.sampling.epochs import Epoch

#: A profile at epsilon >= 0.
Profile = Callable[[FloatArray], FloatArray]
#: Points alpha - 1 from zero on, and a profile there.
Table = tuple[FloatArray, FloatArray]

_NOISE = GaussianNoise()
#: For the rounding of a few products, generously.
_UP = 1.0 + 1e-12

# One batch: how large X - alpha X' can be in convex order.
#
# X and X' are the likelihood ratios of a batch with the record and with its neighbour against the
# same batch with a third record in that place, alpha = 1 + x. All that is needed are bounds of
# E(X - alpha X' - d)_+ that hold whatever the three records contribute: a call for d >= 0, and,
# with the roles exchanged, a put. Between the mean -x and zero a call is written without
# cancellation.


class LikelihoodDifference(Protocol):
    """Option prices of D = X - (1 + x) X' in one order of the neighbours."""

    @property
    def error(self) -> float:
        """Bound of the relative error of the prices."""

    def plain(self, epsilon: FloatArray) -> FloatArray:
        """The profile of one batch, E(D)_+, at epsilon >= 0."""

    def call(self, x: float, d: FloatArray) -> FloatArray:
        """E(D - d)_+ at d >= 0."""

    def near(self, x: float, d: FloatArray) -> FloatArray:
        """E(D - d)_+ at -x <= d <= 0."""

    def put(self, x: float, d: FloatArray) -> FloatArray:
        """E(d - D)_+ at d <= -x."""


@dataclass(frozen=True)
class Swapped:
    """The record is replaced: any two of the three records are neighbours of one profile."""

    profile: Profile
    error: float = 4e-12

    def plain(self, epsilon: FloatArray) -> FloatArray:
        """The profile."""
        return self.profile(epsilon)

    def call(self, x: float, d: FloatArray) -> FloatArray:
        """h(alpha + d)."""
        return self.profile(np.log1p(x + d))

    def near(self, x: float, d: FloatArray) -> FloatArray:
        """1 - alpha - d + alpha h((1 - d)/alpha), by self-duality (1 - d) h(alpha/(1 - d))."""
        return (1.0 - d) * self.profile(np.log1p(np.maximum(x + d, 0.0) / (1.0 - d)))

    def put(self, x: float, d: FloatArray) -> FloatArray:
        """alpha h((1 - d)/alpha)."""
        return (1.0 + x) * self.profile(np.log1p(np.maximum(-d - x, 0.0) / (1.0 + x)))


def noise_profile(noise: Noise, shift: float) -> Profile:
    """The profile of noise at epsilon >= 0."""
    distance = np.array(shift)

    def profile(epsilon: FloatArray) -> FloatArray:
        return np.asarray(noise.profile(distance, epsilon))

    return profile


def gaussian_profile(shift: float) -> Profile:
    """The profile of Gaussian noise at epsilon >= 0."""
    return noise_profile(_NOISE, shift)


@dataclass(frozen=True)
class Present:
    """Gaussian noise; the neighbour leaves the place of the record empty: with against without."""

    shift: float

    @property
    def error(self) -> float:
        """Tails are accurate to a few roundings, their differences lose at most |z|/shift."""
        return 1e-11 + 4e-12 / self.shift

    def plain(self, epsilon: FloatArray) -> FloatArray:
        """One shift."""
        return gaussian_profile(self.shift)(epsilon)

    def call(self, x: float, d: FloatArray) -> FloatArray:
        """The record is at most one shift from the empty place and two from another record."""
        return farther(self.shift, 1.0 + x, d)

    def near(self, x: float, d: FloatArray) -> FloatArray:
        """Both the record and the third one are at most one shift from the empty place."""
        return Swapped(gaussian_profile(self.shift)).near(x, d)

    def put(self, x: float, d: FloatArray) -> FloatArray:
        """Both the record and the third one are at most one shift from the empty place."""
        return Swapped(gaussian_profile(self.shift)).put(x, d)


@dataclass(frozen=True)
class Absent:
    """The same in the other order: without the record against with it."""

    shift: float

    @property
    def error(self) -> float:
        """As in the other order."""
        return 1e-11 + 4e-12 / self.shift

    def plain(self, epsilon: FloatArray) -> FloatArray:
        """One shift."""
        return gaussian_profile(self.shift)(epsilon)

    def call(self, x: float, d: FloatArray) -> FloatArray:
        """Both are at most one shift from the empty place."""
        return Swapped(gaussian_profile(self.shift)).call(x, d)

    def near(self, x: float, d: FloatArray) -> FloatArray:
        """1 - alpha - d + alpha U(1/alpha, -d/alpha): max Phi(z+s) - d Phi(z+2s) - alpha Phi(z)."""
        s, alpha = self.shift, 1.0 + x
        z = _turning(s, 1.0 / alpha, -d / alpha)
        return np.asarray(ndtr(z + s) - d * ndtr(z + 2.0 * s) - alpha * ndtr(z))

    def put(self, x: float, d: FloatArray) -> FloatArray:
        """The record is at most one shift from the empty place and two from another record."""
        alpha = 1.0 + x
        return alpha * farther(self.shift, 1.0 / alpha, -d / alpha)


def farther(s: float, alpha: float, d: FloatArray) -> FloatArray:
    """max over z of Phi(-z) - alpha Phi(-z - s) - d Phi(-z - 2 s), for d >= 0.

    A set that has chance Phi(-z) under N(v) has at least Phi(-z - |v - w|) under N(w).
    """
    z = _turning(s, alpha, d)
    return np.asarray(ndtr(-z) - alpha * ndtr(-z - s) - d * ndtr(-z - 2.0 * s))


def _turning(s: float, alpha: float, d: FloatArray) -> FloatArray:
    """Where alpha e^{-z s - s^2/2} + d e^{-2 z s - 2 s^2} = 1."""
    first, second = alpha * math.exp(-0.5 * s * s), d * math.exp(-2.0 * s * s)
    return np.asarray(np.log(0.5 * (first + np.sqrt(first * first + 4.0 * second))) / s)


@dataclass(frozen=True)
class WorstTerm:
    """D at one alpha = 1 + x: what every batch is replaced by."""

    contrast: LikelihoodDifference
    x: float

    @property
    def mean(self) -> float:
        """The mean of D."""
        return -self.x

    @property
    def error(self) -> float:
        """Bound of the relative error of prices."""
        return self.contrast.error

    def value(self, d: FloatArray) -> FloatArray:
        """E(D - d)_+ from the mean on and E(d - D)_+ below."""
        out = np.empty(d.shape)
        high, low = d >= 0.0, d < -self.x
        out[high] = self.contrast.call(self.x, d[high])
        out[low] = self.contrast.put(self.x, d[low])
        between = ~(high | low)
        out[between] = self.contrast.near(self.x, d[between])
        return out

    @cached_property
    def size(self) -> float:
        """About the standard deviation of D."""
        return 2.5 * float(self.value(np.array([self.mean]))[0])


#: Spacing of the grid of D over its deviation, and cells on either side before they grow.
_SPACING, _EVEN = 0.04, 120
#: Prices over the deviation beyond which D is not followed: to the left, where what is beyond is
#: raised, and to the right, where its price is added.
_LOW, _HIGH = 1e-7, 1e-22
#: How far out, in deviations, the grid may reach.
_REACH = 2.0 ** np.arange(0.0, 12.0, 0.125)


@dataclass(frozen=True, eq=False)
class GriddedTerm:
    """A law above D in convex order: its masses, and what each may be off by.

    ``calls`` are the prices at the points: if the law is cut at point i, its excess counts as
    ``calls[i]``.
    """

    points: FloatArray
    masses: FloatArray
    doubt: FloatArray
    calls: FloatArray
    size: float

    @classmethod
    def of(cls, term: WorstTerm) -> GriddedTerm:
        """The chords of the prices on a linear grid with a point at zero."""
        size = term.size
        if not size > 0.0:
            raise NumericalFailure("nothing is known of a term that does not vary")
        low = _REACH[_first_below(term.value(term.mean - _REACH * size), _LOW * size)] * size
        high = _REACH[_first_below(term.value(term.mean + _REACH * size), _HIGH * size)] * size
        spacing = _SPACING * size
        index = places(spacing, -low, high, _EVEN) - round(term.x / spacing)
        index = np.unique(np.append(index, [-1, 0, 1]))
        points = index.astype(np.float64) * spacing
        value = term.value(points)
        turn = int(np.searchsorted(points, term.mean))
        masses, doubt = masses_of(spacing, index, value, turn, term.x)
        # Chords of the true prices differ by the error of these.
        doubt = doubt * (1.0 + term.error / (2.0 * ROUNDOFF))
        calls = np.where(points >= term.mean, value, value + (term.mean - points))
        return cls(
            frozen(points), frozen(masses), frozen(doubt), frozen(calls * (1.0 + term.error)), size
        )

    @cached_property
    def largest(self) -> FloatArray:
        """The masses, rounded up."""
        return np.asarray((np.maximum(self.masses, 0.0) + self.doubt) * _UP)

    def cut(self, at: int) -> GriddedTerm:
        """All that is above point ``at`` lowered to it."""
        keep = slice(0, at + 1)
        masses, doubt = self.masses[keep].copy(), self.doubt[keep].copy()
        beyond = self.masses[at + 1 :]
        masses[at] += float(beyond.sum())
        rounding = ROUNDOFF * (beyond.size + 4.0) * float(np.abs(beyond).sum() + abs(masses[at]))
        doubt[at] += float(self.doubt[at + 1 :].sum()) * _UP + rounding
        return GriddedTerm(self.points[keep], masses, doubt, self.calls[keep], self.size)


def _first_below(values: FloatArray, most: float) -> int:
    """The first place where a falling function is at most this, or the last."""
    return int(np.argmax(values <= most)) if values[-1] <= most else values.size - 1


# How uneven the weights are.
#
# t = 1/(M w_J), J drawn by the weights, has mean one and E(x - t)_+ <= x B(1/x), where B(kappa)
# bounds the mean over j of H_kappa(N(a_j) || mixture of all N(a_i)), the contributions a_j of other
# records to the first batch. By convexity it is at most the profile of the mechanism. For Gaussian
# noise the mixture is at least e^{-Var/2} N(mean), which gives, in a ball of radius r,
#
#     sup over beta in [0, r] of the concave envelope in c, at c = beta, of
#         G_{sqrt(r^2 - 2 c beta + beta^2)} (kappa e^{-(r^2 - beta^2)/2}),   c in [-r, r].
#
# G grows with the distance and falls in kappa. In a cell of beta the distance is largest at one of
# its ends and kappa is least at the lower end; in a cell of c the distance is largest at its lower
# end. An envelope is at most the height of any line above the points.


#: Cells of beta and of c, and rounds of the search for the slope of a line: more come closer, and
#: none comes below.
_CELLS_BETA, _CELLS_C, _SLOPES = 32, 64, 24


def mark_bound(radius: float, kappa: FloatArray) -> FloatArray:
    """The second bound of B at many kappa, rounded up."""
    edges = np.linspace(0.0, radius, _CELLS_BETA + 1)
    c = np.linspace(-radius, radius, _CELLS_C + 1)
    first, last = edges[:-1, None], edges[1:, None]
    square = radius**2 + np.maximum(first * (first - 2.0 * c), last * (last - 2.0 * c))
    distance = np.sqrt(np.maximum(square, 1e-12 * radius**2)) * (1.0 + 1e-14)
    logs = np.log(kappa)[:, None, None]
    epsilon = logs - 0.5 * (radius**2 - np.square(first)) - 4.0 * ROUNDOFF * (1.0 + np.abs(logs))
    heights = _NOISE.profile(distance[None, :, :-1], epsilon) * (1.0 + 1e-11) + 1e-300
    # Where every cell of c ends, from beta on; the first one begins at -radius.
    ends = c[None, 1:] - first
    start, height = c[0] - first[:, 0], heights[:, :, 0]

    def line(slope: FloatArray) -> FloatArray:
        """Height at beta of the lowest line of this slope above all points."""
        above_all = np.max(heights - slope[:, :, None] * ends, axis=2)
        return np.asarray(np.maximum(above_all, height - slope * start))

    low, high = -height * (20.0 / radius), np.zeros(height.shape)
    best = line(high)
    for _ in range(_SLOPES):
        third = (high - low) * 0.382
        left, right = low + third, high - third
        at_left, at_right = line(left), line(right)
        best = np.minimum(best, np.minimum(at_left, at_right))
        go_left = at_left <= at_right
        low, high = np.where(go_left, low, left), np.where(go_left, right, high)
    return np.asarray(np.minimum(best.max(axis=1) * (1.0 + 1e-11), 1.0))


@dataclass(frozen=True)
class Marks:
    """What bounds B: the profile of the mechanism, and the ball of contributions if noise is
    Gaussian.
    """

    profile: Profile
    radius: float | None

    def bound(self, kappa: FloatArray) -> FloatArray:
        """B at many kappa, rounded up."""
        epsilon = np.log(kappa)
        found = dual(self.profile(np.abs(epsilon)), epsilon) * (1.0 + 1e-11) + 1e-300
        if self.radius is not None:
            found = np.minimum(found, mark_bound(self.radius, kappa))
        return np.asarray(np.minimum(found, 1.0))


# The sharp form.
#
# For phi > 0, a cut b of D, a cut nu of e_1, weights of at most cap/M and 1/p + 1/q = 1,
#
#     H <= (alpha/M) C_1(nu/alpha) + C(b) + (2 C(0) + x) B(cap)
#          + (1/(2 pi M)) int d eta/(phi^2 + eta^2) psi(p phi)^{1/p} (E fhat_eta(t))^{1/q},
#
# with f_eta(t) = |E e^{(phi + i eta) min(D, b)/t}|^{q M t} and fhat convex, above f on t >= 1/cap.
# All points lie on one lattice: t = e^{h l}, eta = c e^{h k}, so eta/t = c e^{h (k - l)}.
#
# - *t*. On a cell of t both N = |E e^{(phi + i eta) D/t}| and N_0 = E e^{phi D/t} differ from
#   chords in 1/t by at most an eighth of the squared width times the second derivative. So N/N_0 is
#   at most the larger of its values at the ends, with that added above and taken off below.
#   N_0^{q M t} is convex in t, and chords between N_0^{q M t} times the largest (N/N_0)^{q M t} of
#   both cells beside are above f. What is not convex in the broken line is straightened, outwards
#   from t = 1. Beyond the last t, f is at most N_0^{q M t} there, which falls.
# - *eta*. N^2 differs from its chord in eta by at most such a remainder, and a power of at least
#   one is convex: with the remainder added, f is below its chord. The integral of a concave power
#   of a chord over phi^2 + eta^2 is at most that power at its mean (Jensen).
# - From the last eta of the lattice to a further one N/N_0 is bounded on a mesh; beyond, by one.


#: Ratio of neighbouring t on the lattice, as a logarithm, and of neighbouring eta, in such steps.
_STEP, _STRIDE = 0.02, 3
#: The first eta and the last one of the lattice, over one over the deviation of the sum.
_FIRST_ETA, _LAST_ETA = 0.15, 9.0
#: The mesh beyond: its width over one over the deviation of D, how fast it grows to that, its
#: points, and how many steps of t are looked at together.
_FAR_WIDTH, _FAR_RATIO, _FAR_POINTS, _FAR_STRIDE = 0.6, 0.15, 160, 8
#: How small the price of a large t is where the lattice ends, how far it may reach, and every which
#: point of it B is evaluated at.
_RARE_T, _FARTHEST_T, _EVERY = 1e-5, 160, 4
#: Hoelder's exponents that are tried.
_HOELDER = np.array([1.5, 2.0, 2.8, 4.0, 8.0, 16.0, 64.0, 256.0])
_OTHERS = _HOELDER / (_HOELDER - 1.0)
#: Share of the answer, as far as it is known, that each of the three cuts may add at first, by
#: which factor that is varied, how often, and how often where nothing is known yet.
_SHARE, _FACTOR, _STEPS, _BLIND = 0.01, 4.0, 16, 4
#: At how many alphas in a row the cuts of the one before serve without another search.
_OLDEST = 3
#: How often a ladder of tilts is prolonged and how often it is narrowed down, and every which t is
#: looked at meanwhile.
_LADDER, _ROUNDS, _COARSER = 12, 2, 8
#: Chernoff's bound, the integrand at zero over the tilt, is about this many times the integral.
_CHERNOFF = 12.5
#: Roundings of one term of a transform, its exponent among them, and of its angle, whose frequency
#: is a point of the lattice.
_ROUNDINGS, _ANGLES = 4e3, 32.0
#: Logarithms of powers are kept below this.
_LARGEST_LOG = 600.0


class WeightLattice:
    """t = e^{h l} from one over the largest cap to where larger ones are rare, and prices of t.

    A put E(x - t)_+ is convex in x, so that chords between a few points are above it.
    """

    def __init__(self, marks: Marks, step: float = _STEP) -> None:
        self.step = step
        number = np.arange(-_FARTHEST_T, _FARTHEST_T + 1)
        t = np.exp(step * number)
        known = t[::_EVERY]
        put = np.interp(t, known, known * marks.bound(1.0 / known)) * (1.0 + 1e-11)
        call = np.maximum(put + (1.0 - t), 0.0)
        price = np.where(number <= 0, put, call) + 1e-15
        rare = np.flatnonzero((price <= _RARE_T * price[_FARTHEST_T]) & (number > 0))
        last = int(rare[0]) + 1 if rare.size else t.size
        self.number, self.t, self.price = number[:last], t[:last], price[:last]
        coarser = (self.number % _COARSER == 0) | (self.number == self.number[-1])
        self.coarser = np.flatnonzero(coarser)
        #: B at the caps 1/t.
        self.beyond = put[:last] / t[:last] * _UP

    def expected(self, heights: FloatArray, first: int) -> FloatArray:
        """E fhat(t) for broken lines through ``heights`` (rows) at the points from ``first`` on."""
        t, price = self.t[first:], self.price[first:]
        gap = np.diff(t)
        slopes = np.diff(heights, axis=-1) / gap
        bends = np.maximum(np.diff(slopes, axis=-1), 0.0)
        # Beyond the last point the line is level, or rises on.
        level = np.maximum(-slopes[..., -1:], 0.0)
        sizes = 8.0 * ROUNDOFF * (heights[..., :-1] + heights[..., 1:]) / gap
        bends = np.concatenate(
            [bends + sizes[..., :-1] + sizes[..., 1:], level + sizes[..., -1:]], -1
        )
        middle = heights[..., int(np.flatnonzero(self.number[first:] == 0)[0])]
        return np.asarray((middle + bends @ price[1:]) * (1.0 + 1e-12))


@dataclass(frozen=True)
class Choice:
    """Parameters of the sharp form: where D and e_1 are cut and weights are capped, as places on
    their grids; the tilt; Hoelder's exponent.
    """

    cut: int
    home: int
    cap: int
    phi: float
    p: float

    @property
    def q(self) -> float:
        """The other exponent; a hair larger is safe, because norms grow with their exponent."""
        return self.p / (self.p - 1.0) * (1.0 + 4.0 * ROUNDOFF)


@dataclass(frozen=True)
class Search:
    """Parameters, about the bound that they give, and what each of the three cuts may add to it."""

    value: float
    choice: Choice
    levels: tuple[float, ...]
    #: How many alphas ago the levels were searched for.
    age: int = 0


class Sharp:
    """The sharp form at one alpha."""

    def __init__(
        self, term: WorstTerm, home: GriddedTerm, lattice: WeightLattice, bins: float
    ) -> None:
        """``home`` is the law of D at alpha = 1."""
        self._alpha, self._bins, self._home, self._lattice = 1.0 + term.x, bins, home, lattice
        self._law = GriddedTerm.of(term)
        plain = float(term.value(np.zeros(1))[0]) * (1.0 + term.error)
        #: No amplification, and what a unit of weight above the cap costs.
        self._plain, self._unit = plain, (2.0 * plain + term.x) * _UP

    def bound(self, near: Search | None = None) -> tuple[float, Search | None]:
        """The bound at the best parameters found, at most what it is without amplification.

        ``near`` is what was found at an alpha near by.
        """
        found = self._searched(near)
        if not found.value < self._plain:
            return self._plain, None
        return min(self._plain, self.evaluate(found.choice)), found

    def _searched(self, near: Search | None) -> Search:
        """Parameters by Chernoff's bound in place of the integral: first how much the cuts may
        add, all in proportion, then each of them.
        """
        phi = None if near is None else near.choice.phi
        if near is not None and near.age < _OLDEST:
            found = self._look(near.levels, phi)
            if found.value < self._plain:
                return replace(found, age=near.age + 1)
        best = self._look((_SHARE * self._guess,) * 3 if near is None else near.levels, phi)
        for factor in (1.0 / _FACTOR, _FACTOR):
            for _ in range(_STEPS if math.isfinite(best.value) else _BLIND):
                if not max(best.levels) * factor < self._plain:
                    break
                phi = best.choice.phi if math.isfinite(best.value) else None
                found = self._look(tuple(factor * level for level in best.levels), phi)
                if not found.value < best.value and math.isfinite(best.value):
                    break
                best = found
        return best if near is not None else self._polished(best)

    def _polished(self, best: Search) -> Search:
        for place in range(3):
            for factor in (_FACTOR, 1.0 / _FACTOR):
                tried = tuple(
                    level * (factor if which == place else 1.0)
                    for which, level in enumerate(best.levels)
                )
                found = self._look(tried, best.choice.phi)
                if found.value < best.value:
                    best = found
                    break
        return best

    def _look(self, levels: tuple[float, ...], near: float | None) -> Search:
        """About the bound with cuts that add so much, at the best tilt and exponent."""
        cuts = self._cuts(*levels)
        ladder = self._first_tilts if near is None else near * np.array([0.8, 1.0, 1.25])
        width = float(ladder[1] / ladder[0])
        tried = {phi: self._chernoff(*cuts, phi) for phi in ladder.tolist()}
        for _ in range(_LADDER):
            best = min(tried, key=lambda phi: tried[phi][0])
            if min(tried) < best < max(tried):
                break
            further = best / width if best == min(tried) else best * width
            tried[further] = self._chernoff(*cuts, further)
        for _ in range(_ROUNDS):
            best = min(tried, key=lambda phi: tried[phi][0])
            width = width**0.5
            tried |= {phi: self._chernoff(*cuts, phi) for phi in (best / width, best * width)}
        best = min(tried, key=lambda phi: tried[phi][0])
        added = math.fsum(self._added(*cuts))
        return Search(added + tried[best][0], Choice(*cuts, best, tried[best][1]), levels)

    @property
    def _guess(self) -> float:
        """About the answer if D were normal and the weights were equal."""
        spread = self._law.size / math.sqrt(self._bins)
        away = (self._alpha - 1.0) / spread
        return min(self._plain, max(spread * math.exp(-0.5 * away**2) / (1.0 + away**2), 1e-18))

    @cached_property
    def _first_tilts(self) -> FloatArray:
        size = self._law.size
        guess = math.hypot((self._alpha - 1.0) / size**2, 1.0 / (size * math.sqrt(self._bins)))
        return np.asarray(guess * np.geomspace(0.2, 1.6, 6))

    def _cuts(self, cut: float, home: float, cap: float) -> tuple[int, int, int]:
        """Where each of the three cuts adds at most this, if it can."""
        from_home = self._home.calls * (self._alpha / self._bins)
        over = self._unit * self._lattice.beyond[self._lattice.number <= 0]
        last = over.size - 1
        # Powers M t / 2 of at least one are convex.
        least = int(np.argmax(self._bins * self._lattice.t >= 2.0 * _UP))
        return (
            _first_below(self._law.calls, cut),
            _first_below(from_home, home),
            max(last - _first_below(over[::-1], cap), least),
        )

    def _added(self, cut: int, home: int, cap: int) -> tuple[float, float, float]:
        """What the three cuts add."""
        return (
            float(self._law.calls[cut]),
            float(self._home.calls[home]) * self._alpha / self._bins * _UP,
            self._unit * float(self._lattice.beyond[cap]) * _UP,
        )

    def _home_moment(self, c: FloatArray, cut: int) -> FloatArray:
        """log psi(c): psi is the mean of e^{c e_1}, continued by its tangent from the cut on."""
        home, scale = self._home, self._alpha * c[:, None]
        points = scale * home.points
        top = points[:, cut : cut + 1]
        lines = np.exp(np.minimum(points - top, 0.0)) * (1.0 + np.maximum(points - top, 0.0))
        whole = lines @ home.largest + scale[:, 0] * float(home.calls[-1])
        return np.asarray(top[:, 0] + np.log(whole)) + 1e-10

    def _chernoff(self, cut: int, home: int, cap: int, phi: float) -> tuple[float, float]:
        """About the integral, and the best exponent, on a coarser lattice."""
        law, lattice, q = self._law, self._lattice, _OTHERS
        keep = lattice.coarser
        keep = np.concatenate([[cap], keep[keep > cap]])
        t = lattice.t[keep]
        masses = law.masses[: cut + 1].copy()
        masses[-1] += law.masses[cut + 1 :].sum()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            logs = np.log(np.exp(np.outer(phi / t, law.points[: cut + 1])) @ masses)
            heights = np.exp(np.minimum(np.outer(q, self._bins * t * logs), _LARGEST_LOG))
            slopes = np.diff(heights, axis=1) / np.diff(t)
            bends = np.maximum(np.diff(np.append(slopes, np.zeros((q.size, 1)), 1), axis=1), 0.0)
            middle = heights[:, int(np.searchsorted(lattice.number[keep], 0))]
            expected = middle + bends @ lattice.price[keep[1:]]
            moments = self._home_moment(_HOELDER * phi, home) / _HOELDER
            found = np.exp(np.minimum(moments, 700.0)) * np.power(expected, 1.0 / q)
            found = found / (_CHERNOFF * phi * self._bins)
        found = np.where(np.isfinite(found), found, np.inf)
        best = int(np.argmin(found))
        return float(found[best]), float(_HOELDER[best])

    def evaluate(self, choice: Choice) -> float:
        """The bound at these parameters, every error on the safe side."""
        lattice, bins, phi, q = self._lattice, self._bins, choice.phi, choice.q
        t, number = lattice.t[choice.cap :], lattice.number[choice.cap :]
        law, size = self._law.cut(choice.cut), self._law.size
        span = max(float(law.points[-1]), -float(law.points[0]))
        if not (bins * float(t[0]) >= 2.0 and phi / float(t[0]) * span < _LARGEST_LOG):
            return math.inf
        start = _FIRST_ETA / (size * math.sqrt(bins))
        count = math.ceil(math.log(_LAST_ETA / _FIRST_ETA) / (lattice.step * _STRIDE)) + 1
        eta = start * np.exp(lattice.step * _STRIDE * np.arange(count))
        # eta/t for all eta and t.
        first = -int(number[-1])
        u = start * np.exp(lattice.step * np.arange(first, _STRIDE * (count - 1) - number[0] + 1))
        far = _far_mesh(float(eta[-1]) / float(t[-1]), size)
        known = Transforms.of(law, phi, t, float(max(u[-1], far[-1])))
        if known is None:
            return math.inf
        whole = q * bins * t * np.log(known.level + known.off)
        log_moment = float(self._home_moment(np.array([choice.p * phi]), choice.home)[0])
        if not max(float(whole.max()), log_moment / choice.p) < _LARGEST_LOG:
            return math.inf

        def expected(square: FloatArray) -> FloatArray:
            """E fhat(t), for bounds of (N/N_0)^2 in every cell of t (rows: for each eta)."""
            logs = 0.5 * q * bins * t[:-1] * np.log(np.minimum(square, 1.0))
            return lattice.expected(np.exp(whole + beside(logs)), choice.cap)

        sizes = known.sizes(u)
        width = np.diff(np.append(0.0, eta))
        width = np.maximum(width, np.append(width[1:], 0.0))
        squares = [known.shares(known.level, 0.0, float(eta[0]))]
        for k in range(count):
            here = sizes[np.arange(t.size), _STRIDE * k - number - first]
            squares.append(known.shares(here, float(eta[k]), float(width[k])))
        integral = float(_integral(phi, np.append(0.0, eta), expected(np.array(squares)), q).sum())
        square, last = known.far_shares(far, float(eta[-1]))
        further = float(expected(square[None])[0]) ** (1.0 / q)
        everywhere = float(expected(np.ones((1, t.size - 1)))[0]) ** (1.0 / q)
        ends = math.atan2(phi, float(eta[-1])) / phi, math.atan2(phi, last) / phi
        integral += (max(ends[0] - ends[1], 0.0) * further + ends[1] * everywhere) * _UP
        found = integral * math.exp(log_moment / choice.p) / (math.pi * bins)
        added = math.fsum(self._added(choice.cut, choice.home, choice.cap))
        return float((found + added) * (1.0 + 1e-10))


@dataclass(frozen=True, eq=False)
class Transforms:
    """E e^{(phi + i eta) D/t} at the points of the lattice of t.

    ``level`` is N_0 = E e^{phi D/t}, ``second`` is at least E D^2 e^{phi D/t}; what masses, angles
    and sums may be off by is at most ``off``, whatever the frequency.
    """

    points: FloatArray
    tilted: FloatArray
    level: FloatArray
    off: FloatArray
    second: FloatArray
    phi: float
    t: FloatArray

    @classmethod
    def of(cls, law: GriddedTerm, phi: float, t: FloatArray, top: float) -> Transforms | None:
        """Frequencies are at most ``top``; None where rounding leaves nothing."""
        weights = np.exp(np.outer(phi / t, law.points))
        size = np.abs(law.masses)
        off = weights @ law.doubt
        off += ROUNDOFF * (_ROUNDINGS + law.points.size) * (weights @ size)
        off += ROUNDOFF * _ANGLES * top * (weights @ (size * np.abs(law.points)))
        second = (weights @ ((size + law.doubt) * np.square(law.points))) * _UP
        tilted = weights * law.masses
        found = cls(law.points, tilted, tilted.sum(axis=1), off, second, phi, t)
        return found if np.all(found._least > 0.0) else None

    def sizes(self, u: FloatArray, every: int = 1) -> FloatArray:
        """N at the frequencies eta/t = u (columns), at every ``every``-th t and the last (rows)."""
        angles = np.outer(self.points, u)
        some = self.tilted[self._rows(every)]
        return np.asarray(np.hypot(some @ np.cos(angles), some @ np.sin(angles)))

    def _rows(self, every: int) -> IntArray:
        return np.unique(np.append(np.arange(0, self.t.size, every), self.t.size - 1))

    @cached_property
    def _bent(self) -> FloatArray:
        """How far N_0, over phi^2, may lie off its chord in 1/t, in every cell."""
        second = np.maximum(self.second[:-1], self.second[1:])
        return np.asarray(0.125 * np.square(np.diff(1.0 / self.t)) * second)

    @cached_property
    def _least(self) -> FloatArray:
        """N_0 in every cell, from below."""
        low = self.level - self.off
        return np.asarray(np.minimum(low[:-1], low[1:]) - self.phi**2 * self._bent)

    def shares(self, size: FloatArray, eta: float, width: float) -> FloatArray:
        """The largest (N/N_0)^2 in every cell of t, with N at its ends, and room for eta up to
        ``width`` away.
        """
        more, less = (self.phi**2 + eta**2) * self._bent, self.phi**2 * self._bent
        left, right = (
            (size[side] + self.off[side] + more) / (self.level[side] - self.off[side] - less)
            for side in (slice(None, -1), slice(1, None))
        )
        high = self.level + self.off
        second = np.maximum(self.second[:-1], self.second[1:]) * np.maximum(high[:-1], high[1:])
        curved = 0.25 * np.square(width / self.t[:-1]) * second
        return np.asarray(np.square(np.maximum(left, right)) + curved / np.square(self._least))

    def far_shares(self, u: FloatArray, start: float) -> tuple[FloatArray, float]:
        """Bounds of (N/N_0)^2 in every cell of t for eta from ``start`` to an end, and that end.

        ``u`` is a mesh of frequencies from below start/t on.
        """
        rows, y = self._rows(_FAR_STRIDE), self.phi / self.t
        # Across u, at the ends of a block of t; then across the block.
        square = np.square(self.sizes(u, _FAR_STRIDE) + self.off[rows, None])
        square = np.maximum(square[:, 1:], square[:, :-1])
        second, high = self.second[rows], (self.level + self.off)[rows]
        size = np.sqrt(square + 0.25 * np.outer(second * high, np.square(np.diff(u))))
        bent = 0.125 * np.square(np.diff(y[rows])) * np.maximum(second[1:], second[:-1])
        low = (self.level - self.off)[rows]
        ratio = np.zeros((rows.size - 1, u.size - 1))
        for side in (slice(None, -1), slice(1, None)):
            least = np.maximum(low[side] - bent, 1e-300)[:, None]
            ratio = np.maximum(ratio, (size[side] + bent[:, None]) / least)
        # The largest from each u on.
        from_here = np.maximum.accumulate(ratio[:, ::-1], axis=1)[:, ::-1]
        block = np.minimum(np.arange(self.t.size - 1) // _FAR_STRIDE, rows.size - 2)
        at = np.searchsorted(u, start * (1.0 - 1e-12) / self.t[1:], side="right") - 1
        inside = (at >= 0) & (at < u.size - 1)
        found = np.where(inside, from_here[block, np.clip(at, 0, u.size - 2)], 1.0)
        return np.square(np.minimum(found, 1.0)), float(u[-1] * self.t[0]) * (1.0 - 1e-12)


def beside(cells: FloatArray) -> FloatArray:
    """At every point the larger value of both cells beside it (rows); zero at the last one."""
    inner = np.maximum(cells[:, 1:], cells[:, :-1])
    return np.concatenate([cells[:, :1], inner, np.zeros((cells.shape[0], 1))], axis=1)


def _far_mesh(start: float, size: float) -> FloatArray:
    """Frequencies from a hair below ``start`` on, in proportion first, then evenly."""
    width = _FAR_WIDTH / size
    count = max(1, math.ceil(math.log(max(width / (_FAR_RATIO * start), 1.0)) / _FAR_RATIO))
    near = start * (1.0 - 1e-12) * np.exp(_FAR_RATIO * np.arange(count))
    return np.append(near, float(near[-1]) + width * np.arange(1, _FAR_POINTS))


def _integral(phi: float, knots: FloatArray, values: FloatArray, q: float) -> FloatArray:
    """Integrals of (chord of values)^{1/q} / (phi^2 + eta^2) over cells, from above."""
    left, right = knots[:-1], knots[1:]
    weight = np.arctan2(phi * (right - left), phi**2 + left * right) / phi
    first = 0.5 * np.log1p((right - left) * (right + left) / (phi**2 + left**2))
    share = np.clip((first / weight - left) / (right - left), 0.0, 1.0)
    mean = values[:-1] * (1.0 - share) + values[1:] * share
    return np.asarray(weight * np.power(mean, 1.0 / q) * (1.0 + 1e-11))


# The simple form.


#: Shares of the answer that uneven weights, and the first batch, may add to the simple form.
_SIMPLE_SHARES = (0.01, 0.05)
#: Spacing of its grid over one over the tilt, as a share of one term of many.
_SIMPLE_FINENESS = 0.1


def simple(
    term: WorstTerm, home: GriddedTerm, lattice: WeightLattice, bins: float, near: float
) -> float:
    """The simple form at one alpha, for the k and nu that look best; ``near`` is about its size."""
    found = math.inf
    plain = float(term.value(np.zeros(1))[0]) * (1.0 + term.error)
    alpha, unit = 1.0 + term.x, (2.0 * plain + term.x) * _UP
    for share in _SIMPLE_SHARES:
        # The largest cap, a point of the lattice, at which uneven weights add little.
        caps = np.flatnonzero(unit * lattice.beyond[lattice.number <= 0] <= share * near)
        if not caps.size:
            continue
        k = math.floor(bins * float(lattice.t[caps[-1]]) * (1.0 - 1e-12))
        if k < 1:
            continue
        from_home = home.calls * (alpha / bins)
        cut = _first_below(from_home, share * near)
        nu = max(alpha * float(home.points[cut]), 0.0) * _UP
        added = float(from_home[cut]) + unit * float(lattice.beyond[caps[-1]])
        equal = equal_weights(term, k, k * nu / bins * _UP, 0.2 * share * near)
        found = min(found, added * _UP + equal / k * _UP)
    return found


def equal_weights(term: WorstTerm, k: int, more: float, cut: float) -> float:
    """E(more + D_1 + ... + D_k)_+ from above, by one transform; D is cut where its call is ``cut``.

    Infinite where no grid serves.
    """
    y, size = k * term.x - more, term.size
    reaches = [
        float(_REACH[_first_below(term.value(term.mean + sign * _REACH * size), most)]) * size
        for sign, most in ((-1.0, _LOW * size), (1.0, cut))
    ]

    def on_grid(spacing: float) -> OnGrid:
        return above(term, spacing, places(spacing, -reaches[0], reaches[1]))

    rough = Composition([(on_grid(0.25 * size).law, k)])
    tilt = max(rough.best_tilt(y), 1.0 / (math.sqrt(k) * size))
    fine = min(_SIMPLE_FINENESS / (tilt * math.sqrt(k)), 0.25 * size)
    for wider in (1.0, 2.0, 4.0, 8.0):  # wider grids are looser, never wrong
        try:
            found = on_grid(fine * wider)
            price = float(prices(found.law, k, tilt, np.array([y]), +1.0)[0])
            return price + k * found.cut_high * _UP
        except (TooLong, NumericalFailure):
            continue
    return math.inf


# The profile of an epoch.


#: Where no amplification is below this, nothing better is looked for.
_NEGLIGIBLE = 1e-31
#: Batches that a bound needs at least.
_FEWEST = 3
#: A total variation distance from which on nothing is gained at any delta of interest.
_FARTHEST = 0.65
#: Where the profile is below this it is held at that until no amplification is smaller.
_SMALLEST = 1e-20
#: How far away, relatively, parameters of another alpha are a good start, and serve as they are.
_CLOSE, _CLOSER = 0.3, 0.1
#: How narrow the bracket of an epsilon is made.
_NARROW = 3e-5
#: Points of a table: the first step over the spread of alpha, how many nats the profile falls from
#: one to the next where it is above a small value and where it is below, and how fast steps grow.
_FIRST, _NATS, _SMALL, _NATS_BELOW, _RATIO = 0.25, 0.35, 1e-10, 1.2, 0.3
#: Clones are looked for where a record moves its batch at least so far; they hide it among fewer
#: batches, by about this factor. From the second distance on marks are not looked at.
_LITTLE_NOISE, _FEWER, _FEW_MARKS = 0.26, 4.0, 0.5
#: Nor at larger alphas than one at which they are behind clones by this factor.
_BEHIND = 2.0
#: Points in a row at which nothing is gained before no further ones are looked at.
_MOST_MISSED = 3


class ShuffledProfile:
    """One order of the neighbours: the smallest of all forms and of no amplification."""

    def __init__(
        self,
        contrast: LikelihoodDifference,
        marks: Marks,
        bins: int,
        released: float,
        clones: Clones | None = None,
    ) -> None:
        """``released`` is the chance that the record is in a batch that is released."""
        self._contrast, self._marks, self._bins, self._released = contrast, marks, bins, released
        self._clones = clones
        #: From this alpha - 1 on marks are not looked at.
        far = marks.radius is not None and marks.radius >= _FEW_MARKS
        self._last_marked = -1.0 if clones is not None and far else math.inf
        #: The other order of the neighbours, where that has another profile.
        self.other: ShuffledProfile = self
        self._known: dict[float, float] = {}
        self._searches: dict[float, Search] = {}

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons, off chords between the points, rounded up."""
        if epsilon.size == 1:
            return np.array([self._at(float(np.expm1(epsilon[0])) * (1.0 - 8.0 * ROUNDOFF))])
        out = self.plain(epsilon)
        asked = (out > _SMALLEST) & (epsilon <= self._end)
        x = np.expm1(epsilon[asked]) * (1.0 - 8.0 * ROUNDOFF)
        if x.size and self._amplified:
            out[asked] = np.minimum(out[asked], np.interp(x, *self._joined) * _UP)
        return out

    def plain(self, epsilon: FloatArray) -> FloatArray:
        """No amplification: the record is in one batch, if it is in any that is released."""
        found = self._contrast.plain(epsilon) * (1.0 + 1e-11) * self._released
        return np.minimum(np.maximum(found, 1e-300), 1.0)

    def first_below(self, delta: float) -> float:
        """An epsilon at which the profile is at most ``delta``."""
        most = first_below(self.plain, delta)
        if not self._amplified or math.isinf(most):
            return most

        def nats_above(epsilon: float) -> float:
            return math.log(max(float(self(np.array([epsilon]))[0]), 1e-300) / delta)

        # From about where a normal variable of this deviation would be.
        high = min(most, self._scale * math.sqrt(2.0 * max(-math.log(delta), 0.5)))
        low, above, below = 0.0, math.inf, nats_above(high)
        while below > 0.0 and high < most:
            low, above = high, below
            high = min(most, 1.25 * high)
            below = nats_above(high)
        if not below <= 0.0:
            return most
        if low == 0.0:
            above = nats_above(low)
            if above <= 0.0:
                return 0.0
        return falling_root(nats_above, (low, above), (high, below), _NARROW)

    @cached_property
    def _end(self) -> float:
        return first_below(self.plain, _NEGLIGIBLE)

    @property
    def _amplified(self) -> bool:
        return self._bins >= _FEWEST and (self._home is not None or self._clones is not None)

    @cached_property
    def _home(self) -> GriddedTerm | None:
        """D at alpha = 1; none where it spreads too far."""
        told = float(self._contrast.call(0.0, np.zeros(1))[0])
        return GriddedTerm.of(WorstTerm(self._contrast, 0.0)) if 1e-12 < told < _FARTHEST else None

    @cached_property
    def _lattice(self) -> WeightLattice:
        return WeightLattice(self._marks)

    @cached_property
    def _scale(self) -> float:
        """How widely alpha spreads."""
        bins = self._bins if self._clones is None else self._bins / _FEWER
        return WorstTerm(self._contrast, 0.0).size / math.sqrt(bins)

    @cached_property
    def _joined(self) -> Table:
        """The table, and at alpha = 1 what the other order tells too."""
        x, values = (side.copy() for side in self._table)
        values[0] = at_one(self._table, self.other._table)
        return frozen(x), frozen(np.minimum.accumulate(values))

    @cached_property
    def _table(self) -> Table:
        """Points alpha - 1 and the profile there, as far apart as chords allow."""
        x, values = [0.0], [self._at(0.0)]
        step, end, missed = _FIRST * self._scale, math.expm1(min(self._end, 600.0)), 0
        while x[-1] < end and values[-1] > _SMALLEST and missed < _MOST_MISSED:
            x.append(min(x[-1] + step, end))
            values.append(self._at(x[-1]))
            plain = float(self.plain(np.log1p(np.array([x[-1]])))[0])
            missed = missed + 1 if values[-1] >= plain else 0
            fallen = math.log(values[-2] / values[-1])
            wanted = _NATS if values[-1] > _SMALL else _NATS_BELOW
            step *= min(max(wanted / max(fallen, 1e-3), 0.6), 1.6)
            step = min(step, max(_RATIO * x[-1], _FIRST * self._scale))
        return frozen(np.array(x)), frozen(np.array(values))

    def _at(self, x: float) -> float:
        """The profile at alpha = 1 + x, rounded up."""
        if x not in self._known:
            plain = float(self.plain(np.log1p(np.array([x * (1.0 - 8.0 * ROUNDOFF)])))[0])
            found = plain
            if plain > _SMALLEST and self._amplified:
                found = self._cloned(x, plain)
                if self._home is not None and x < self._last_marked:
                    marked = self._bound(x, self._home)
                    if self._clones is not None and marked > _BEHIND * found:
                        self._last_marked = x
                    found = min(found, marked)
            # Profiles fall: what holds nearer by holds here.
            nearer = [value for other, value in self._known.items() if other < x]
            self._known[x] = min([found, *nearer])
        return self._known[x]

    def _cloned(self, x: float, plain: float) -> float:
        """The third form, which is worth its time with less noise."""
        try:
            return plain if self._clones is None else self._clones.bound(x, plain)
        except (NumericalFailure, ArithmeticError):
            return plain

    def _bound(self, x: float, home: GriddedTerm) -> float:
        """The smaller of both forms at one alpha."""
        term = WorstTerm(self._contrast, x)
        near = min(self._searches, key=lambda other: abs(other - x), default=math.inf)
        away = abs(near - x) / (x + self._scale)
        start = self._searches[near] if away < _CLOSE else None
        if start is not None and away > _CLOSER:
            start = replace(start, age=_OLDEST)
        try:
            found, search = Sharp(term, home, self._lattice, self._bins).bound(start)
            if search is not None:
                self._searches[x] = search
            return min(found, simple(term, home, self._lattice, self._bins, found))
        except (NumericalFailure, ArithmeticError):  # spread too far for any grid
            return math.inf


def at_one(ahead: Table, behind: Table) -> float:
    """The total variation distance from above, by chords across alpha = 1.

    For alpha < 1 the profile is 1 - alpha + alpha times that of the other order at 1/alpha, and all
    of it is one convex function.
    """
    alpha = 1.0 / (1.0 + behind[0][:0:-1])
    left = (1.0 - alpha) + alpha * behind[1][:0:-1]
    places = np.concatenate([alpha - 1.0, [0.0], ahead[0][1:]])
    heights = np.concatenate([left, [min(ahead[1][0], behind[1][0])], ahead[1][1:]])
    kept = lower_hull(places, heights)
    found = float(np.interp(0.0, places[kept], heights[kept]))
    return min(found * _UP + 4.0 * ROUNDOFF, float(ahead[1][0]), float(behind[1][0]))


def shuffled_pair(epoch: Epoch, mechanism: AdditiveNoise, relation: Relation) -> DominatingPair:
    """The dominating pair of one shuffled epoch.

    The last batch may be smaller or be dropped, and the epoch may end early: with the number of
    full batches in place of all of them the bound of a whole epoch covers that.
    """
    shift = mechanism.shift_for(moves(epoch, relation))
    bins = epoch.n // round(epoch.expected_size)
    if bins < _FEWEST and epoch.steps == epoch.bins:
        return DominatingPair.of(GroupProfile(mechanism.profiles(shift)))
    released = min(1.0, epoch.steps * epoch.expected_size / epoch.n * _UP)
    if relation == Relation.ADD_REMOVE:
        # All records are within one shift of the empty place.
        marks = Marks(gaussian_profile(2.0 * shift), shift)
        near, far = (
            _clones(shift, bins, partial(_left_out, shift, backward), partial(ratio, shift))
            for backward, ratio in ((False, _present), (True, _absent))
        )
        ahead = ShuffledProfile(Present(shift), marks, bins, released, near)
        behind = ShuffledProfile(Absent(shift), marks, bins, released, far)
        ahead.other, behind.other = behind, ahead
        return DominatingPair(ahead, behind)
    profile = noise_profile(mechanism.noise, shift)
    radius = None
    if has_proof(mechanism, Proof.GAUSSIAN):
        # Points that are pairwise at most this far apart lie in a ball of that radius (Jung).
        radius = 0.5 * shift if mechanism.in_a_ball else shift / math.sqrt(2.0) * _UP
    clones = None
    if radius is not None and mechanism.in_a_ball:
        clones = _clones(radius, bins, partial(_swapped, radius), partial(_swapped_ratio, radius))
    return DominatingPair.of(
        ShuffledProfile(Swapped(profile), Marks(profile, radius), bins, released, clones)
    )


def _clones(
    radius: float, bins: int, allocated: Callable[[int], Profile], ratio: Ratio
) -> Clones | None:
    return Clones(radius, bins, allocated, ratio) if radius >= _LITTLE_NOISE else None


def _swapped(radius: float, batches: int) -> Profile:
    return ReplacedProfile(radius, batches, batches)


def _swapped_ratio(radius: float, x: float, g: FloatArray) -> FloatArray:
    """X - alpha X' of opposite contributions."""
    return np.asarray(_moved(radius, g) - (1.0 + x) * _moved(radius, -g))


def _left_out(shift: float, backward: bool, batches: int) -> Profile:
    return AllocationProfile(shift, batches, batches, backward=backward)


def _present(shift: float, x: float, g: FloatArray) -> FloatArray:
    """X - alpha."""
    return np.asarray(_moved(shift, g) - (1.0 + x))


def _absent(shift: float, x: float, g: FloatArray) -> FloatArray:
    """1 - alpha X."""
    return np.asarray(1.0 - (1.0 + x) * _moved(shift, g))


def _moved(shift: float, g: FloatArray) -> FloatArray:
    return np.asarray(np.exp(shift * g - 0.5 * shift**2))
