"""Families of pairs for one step: cells that dominate every pair of neighbours, for draws without
replacement (three points) and for draws in which a record may occur several times.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise, product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from mustdp.accounting.subsampling.one_step import evaluate, feasible, searched_slopes
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.mechanism import (
    PROFILE_ERROR,
    GaussianNoise,
    GroupProfiles,
    Noise,
    Proof,
    mills_ratio,
)
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.numerics.convex import increasing_root, lower_hull
from mustdp.sampling.schemes import MultiplicityLaw

# One step without replacement, seen through three points: certified hockey-stick profiles.
#
# A batch drawn without replacement differs in one place: a common record y, or x, or x'. In noise
# units, with u = |x - y|, w = |x - x'| and A the angle at x,
#
#     H_t(P || Q) = E ( q - (t-1)(1-q) R - t q S )_+,   R = e^{uX - u^2/2},  S = e^{wY - w^2/2},
#
# for t >= 1, P = (1-q) N(y) + q N(x) and Q = (1-q) N(y) + q N(x'), X and Y standard normal with
# correlation cos A.
# It grows in u, in w and, for cos A >= 0, in cos A. The proofs are in docs/derivations/family.md.
#
# Given Y the inner mean is a put price, and as a function of zeta = e^{eta Y - eta^2/2} with
# eta = max(w, u cos A) it is convex: R's conditional mean and S are concave powers of zeta, and the
# payoff is convex and decreasing in both. So chords between nodes lie above it and the outer mean
# becomes a sum over nodes whose weights keep mass and mean of every cell. On a line (cos A = 1)
#
#     (q - aR - bS)_+ <= (theta - aR)_+ + (q - theta - bS)_+      for every theta,
#
# with equality for the right one: any theta is a certificate, for Laplace noise too.


#: Distances below this are taken as this: profiles grow with the distance.
SHORTEST = 1e-7
#: Nodes of the outer mean: spacing near the centre, where the spacing begins to grow, the last one.
_STEP, _NEAR, _FAR = 0.08, 8.0, 20.0
#: No node lies further to the right: what is above counts at the last one.
_HIGHEST = 9.0
#: Nor further to the left, nor where the mean's density underflows.
_LOWEST, _UNDERFLOWS = 37.0, -700.0
#: Below this sine of the angle the line takes its place.
_FLAT = 2e-3
#: Share of a mean that may be given away for quickness.
_NOTHING = 1e-6
#: Relative accuracy allowed for ndtr and erfcx, and for the arguments of put prices.
_SPECIAL = 4e-13


def triple_profile(
    chance: float, u: float, w: float, cosine: float, epsilon: FloatArray
) -> FloatArray:
    """Certified upper bound of H at t = e^epsilon, epsilon >= 0, Gaussian noise, cosine >= 0."""
    sine = math.sqrt(max(0.0, (1.0 - cosine) * (1.0 + cosine)))
    if not sine > _FLAT:  # the line, which is an upper bound
        return line_profile(GaussianNoise(), chance, u, w, epsilon)
    q, a, b = coefficients(chance, epsilon)
    return np.minimum(triple_mean(np.full(epsilon.size, q), a, b, u, w, cosine), 1.0)


def triple_mean(
    q: FloatArray, a: FloatArray, b: FloatArray, u: float, w: float, cosine: float,
    step: float = _STEP,
) -> FloatArray:  # fmt: skip
    """E (q - a R - b S)_+ rounded up, entry by entry; the cosine in [0, 1 - 1e-6].

    ``step`` is the distance of nodes near the centre; any is valid.
    """
    u, w = max(u, SHORTEST), max(w, SHORTEST)
    sine = math.sqrt((1.0 - cosine) * (1.0 + cosine))
    # The payoff ends where b S = q: at the latest here, or nowhere if b vanishes.
    least = float(np.min(b / np.maximum(q, 1e-300), initial=1.0))
    end = 0.5 * w - math.log(max(least, 1e-300)) / w
    nodes, weights = _nodes(max(w, u * cosine), min(math.ceil(4.0 * end) / 4.0, _HIGHEST), step)
    with np.errstate(over="ignore", under="ignore"):
        second = np.exp(w * nodes - 0.5 * w * w) * _below(w, nodes)
        first = np.exp(u * cosine * nodes - 0.5 * (u * cosine) ** 2) * _below(u, nodes)
    # The node at minus infinity, where S vanishes, and R's mean too unless the angle is right.
    second = np.append(0.0, second)
    first = np.append(0.0 if cosine > 0.0 else 1.0, first)
    strikes = q[:, None] * (1.0 + 4.0 * ROUNDOFF) - np.outer(b, second)
    values = np.maximum(strikes, 0.0)
    # No put costs more than its strike. On the left, where so little weight lies that all strikes
    # together are nothing against the puts' least value, strike less forward, that is taken.
    # Small products many times over: threads of a linear algebra library would only wait.
    forwards = np.outer(a, first)
    least_values = np.einsum("ij,j->i", np.maximum(strikes - forwards, 0.0), weights)
    counts = np.outer(q, np.cumsum(weights)) > _NOTHING * least_values[:, None]
    counts &= strikes > 0.0
    values[counts] = put(strikes[counts], forwards[counts], u * sine)
    total = np.einsum("ij,j->i", values, weights) * (1.0 + 4.0 * weights.size * ROUNDOFF)
    if not np.all((total >= 0.0) & np.isfinite(total)):
        raise NumericalFailure(f"the profile of a triple came out as {total[:3]!r}")
    return np.asarray(total)


def line_profile(
    noise: Noise, chance: float, u: float, w: float, epsilon: FloatArray
) -> FloatArray:
    """Certified upper bound of H at t = e^epsilon for y and x' on one side of x; any noise."""
    u, w = max(u, SHORTEST), max(w, SHORTEST)
    q, a, b = coefficients(chance, epsilon)
    with np.errstate(divide="ignore"):
        log_a, log_b = np.log(a), np.log(b)

    def excess(z: FloatArray, rows: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        first, fast = noise.log_ratio(np.asarray(u), z + u)
        second, slow = noise.log_ratio(np.asarray(w), z + w)
        logs = np.stack([log_a[rows] - first, log_b[rows] - second])
        top = logs.max(axis=0)
        shares = np.exp(logs - top)
        total = shares.sum(axis=0)
        return math.log(q) - np.log(total) - top, (shares[0] * fast + shares[1] * slow) / total

    def alone(extra: float) -> FloatArray:
        """Where the larger of the two terms is e^-extra of the chance."""
        ends = [noise.threshold(np.asarray(d), log - math.log(q) + extra) - d
                for d, log in ((u, log_a), (w, log_b))]  # fmt: skip
        return np.maximum(*ends)

    far = max(noise.saturation(u), noise.saturation(w))
    low, high = alone(0.0), alone(math.log(2.0))
    if math.isfinite(far):  # ratios stop growing at either end
        low, high = np.clip(low, -far, far), np.clip(high, -far, far)
    z = increasing_root(excess, np.minimum(low, high), high)
    with np.errstate(over="ignore"):
        share = np.exp(log_a - noise.log_ratio(np.asarray(u), z + u)[0])
    share = np.clip(np.nan_to_num(share, nan=q), 0.0, q)
    rest = (q - share) * (1.0 + 4.0 * ROUNDOFF) + 4.0 * ROUNDOFF * q * (share < q)
    total = _scaled(noise, u, share, log_a) + _scaled(noise, w, rest, log_b)
    if not np.all((total >= 0.0) & np.isfinite(total)):
        raise NumericalFailure(f"the profile of three points on a line came out as {total[:3]!r}")
    return np.minimum(total, 1.0)


def apart_profile(chance: float, u: float, w: float, epsilon: FloatArray) -> FloatArray:
    """The same for Laplace noise with x between y and x', at distances of at most u and w.

    Left of x the ratio S is constant, right of it R is, so the payoff is q - b e^{-w} - a R on the
    left and q - a e^{-u} - b S on the right; both are integrated in closed form. The right part
    grows in both distances. The left one grows in w; in u it first falls, while all of that side
    pays, and then grows, so it is largest at an end: y in the place of x, or at distance u.
    """
    q, a, b = coefficients(chance, epsilon)
    strike = q - b * math.exp(-w)
    left = np.maximum(_half_line(strike, a, u), 0.5 * np.maximum(strike - a, 0.0))
    total = left + _half_line(q - a * math.exp(-u), b, w)
    # No term exceeds q: where a strike is positive its price on that side is below it.
    return np.minimum(total * (1.0 + PROFILE_ERROR) + 256.0 * ROUNDOFF * q, 1.0)


def _half_line(strike: FloatArray, price: FloatArray, distance: float) -> FloatArray:
    """E (strike - price R)_+ over one side of x, where log R runs from -distance to distance."""
    strike = np.maximum(strike, 0.0)
    with np.errstate(divide="ignore"):
        reach = 0.5 * (np.log(strike) - np.log(price) + distance)
    end = np.clip(np.nan_to_num(reach, nan=0.0, posinf=distance), 0.0, distance)
    inside = strike * -np.expm1(-end) - price * math.exp(-distance) * np.expm1(end)
    beyond = math.exp(-distance) * np.maximum(strike - price * math.exp(distance), 0.0)
    return np.asarray(0.5 * np.maximum(inside, 0.0) + 0.5 * beyond)


def coefficients(chance: float, epsilon: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """q rounded up; (t-1)(1-q) and t q rounded down: the profile falls in both."""
    down = 1.0 - ROUNDOFF * (16.0 + 4.0 * epsilon)
    return (
        chance * (1.0 + 4.0 * ROUNDOFF),
        np.expm1(epsilon) * max(0.0, (1.0 - chance) - 4.0 * ROUNDOFF) * down,
        np.exp(epsilon) * chance * down,
    )


def put(strike: FloatArray, forward: FloatArray, deviation: float) -> FloatArray:
    """E (strike - forward R)_+ for lognormal R of mean one, rounded up; strikes > 0."""
    with np.errstate(divide="ignore"):
        moneyness = np.maximum((np.log(forward) - np.log(strike)) / deviation, -1e6)
    d2 = moneyness - 0.5 * deviation
    d1 = d2 + deviation
    out = np.empty(d2.shape)
    deep = d2 < -4.0
    tail = strike[deep] * ndtr(-d2[deep])
    out[deep] = tail - forward[deep] * ndtr(-d1[deep]) + _SPECIAL * tail
    near = ~deep
    with np.errstate(under="ignore", over="ignore"):
        scale = strike[near] * np.exp(-0.5 * np.square(d2[near])) / math.sqrt(2.0 * math.pi)
        ahead = mills_ratio(d2[near])
        drop = np.maximum(ahead - mills_ratio(d1[near]), 0.0)
        # The density itself is rounded by as many units as its exponent is large.
        error = _SPECIAL + 2.0 * ROUNDOFF * np.square(d2[near])
        out[near] = scale * (drop * (1.0 + error) + _SPECIAL * ahead)
    return np.maximum(out, 1e-300)


def _scaled(noise: Noise, distance: float, share: FloatArray, log_price: FloatArray) -> FloatArray:
    """E (share - price R)_+ = share times the noise's profile at price / share, rounded up."""
    out = np.zeros(share.shape)
    some = share > 0.0
    at = log_price[some] - np.log(share[some])
    at = at - 4.0 * ROUNDOFF * (np.abs(at) + np.abs(log_price[some]) + 1.0)
    value = noise.profile(np.asarray(distance), at)
    out[some] = share[some] * np.maximum(value, noise.smallest) * (1.0 + PROFILE_ERROR)
    return out


def _below(steep: float, y: FloatArray) -> FloatArray:
    """A factor just below one that covers the rounding of e^{steep y - steep^2/2}."""
    return np.asarray(1.0 - ROUNDOFF * (16.0 + 8.0 * steep * (np.abs(y) + steep)))


@lru_cache(maxsize=256)
def _nodes(steep: float, end: float, step: float) -> tuple[FloatArray, FloatArray]:
    """Nodes y_1 < y_2 < … beyond ``end``, and weights of zeta = 0 and of every node, rounded up.

    Cell by cell the weights of both ends keep the mass and the mean of zeta. The payoff falls, so
    what lies above the last node counts there; mostly the payoff is zero from ``end`` on.
    """
    near = np.arange(end + 2.0 * step, -_NEAR, -step)
    far = near[-1] - np.cumsum(step * 1.08 ** np.arange(1, 60))
    y = np.concatenate([near, far[far > -_FAR - steep], [-_FAR - steep]])[::-1]
    # Further down nothing is left of mass or mean in double precision; any nodes are valid.
    y = y[(y > -_LOWEST) & (steep * y - 0.5 * steep * steep > _UNDERFLOWS)]
    if not y.size:
        raise NumericalFailure(f"points {steep:.3g} apart are too far for the mean of a triple")
    with np.errstate(under="ignore"):
        mass = np.diff(ndtr(y), prepend=0.0)
        mean = np.diff(ndtr(y - steep), prepend=0.0)
        doubt_mass, doubt_mean = _SPECIAL * ndtr(y), _SPECIAL * ndtr(y - steep)
        zeta = np.exp(steep * y - 0.5 * steep * steep)
    before = np.append(0.0, zeta[:-1])
    gap = zeta - before
    left = (zeta * mass - mean + zeta * doubt_mass + doubt_mean) / gap
    right = (mean - before * mass + before * doubt_mass + doubt_mean) / gap
    left, right = np.clip(left, 0.0, mass + doubt_mass), np.clip(right, 0.0, mass + doubt_mass)
    weights = np.append(left, 0.0) + np.append(0.0, right)
    weights[-1] += float(ndtr(-y[-1]))
    return frozen(y), frozen(weights * (1.0 + _SPECIAL))


# Cells of triples: finitely many pairs that dominate every neighbouring pair of one step.
#
# Three points x, x' and y (what the two data sets put in one place, and a common record) lie in a
# disc. Right or acute triangles dominate the obtuse ones, and larger triangles the smaller ones,
# so with a, b >= 0, a + b = omega <= pi/2 (a = pi/2 - A, b = pi/2 - B for the angles A at x and B
# at x')
#
#     u = |x - y| = s cos b,   v = |x' - y| = s cos a,   w = |x - x'| = s sin(a + b),
#
# is enough if all points lie in a ball of diameter s (bounded contributions to a sum). If only
# their mutual distances are bounded by s, all three lengths are divided by the longest, over s. A
# cell is a range of omega and of f = b/omega; at its corner u, v, w and the cosines are largest,
# so the pair of the corner dominates every pair of the cell: for t >= 1 it knows u, w, cos A, for
# t < 1 v, w, cos B.
#
# On a line the three points are ordered. With y between x and x' the cells are intervals of u/s;
# with x (or x') between the others, y and x' pull apart: the cosine there is -1, and 0 is above
# it.


#: A right angle.
_RIGHT = 0.5 * math.pi
_GAUSSIAN = GaussianNoise()
#: Lengths and cosines are raised by this, relatively, to cover the rounding of sines.
_UP = 1.0 + 16.0 * ROUNDOFF


@dataclass(frozen=True)
class TripleCell:
    """A box of parameters; ``kind`` tells apart boxes that mean different things."""

    ranges: tuple[tuple[float, float], ...]
    kind: str = ""

    @property
    def middle(self) -> TripleCell:
        """A cell without extent inside."""
        halves = [0.5 * (low + high) for low, high in self.ranges]
        return TripleCell(tuple((half, half) for half in halves), self.kind)

    def split(self) -> tuple[TripleCell, TripleCell]:
        """Halve the longest side."""
        axis = max(range(len(self.ranges)), key=lambda i: self.ranges[i][1] - self.ranges[i][0])
        low, high = self.ranges[axis]
        middle = 0.5 * (low + high)
        before, after = self.ranges[:axis], self.ranges[axis + 1 :]
        return (
            TripleCell((*before, (low, middle), *after), self.kind),
            TripleCell((*before, (middle, high), *after), self.kind),
        )


@dataclass(frozen=True)
class Corner:
    """What a profile at t >= 1 knows of a cell: lengths in noise units, and cosines at x."""

    lengths: tuple[float, ...]
    cosines: tuple[float, ...] = (1.0,)


class PairFamily(Protocol):
    """All one-step pairs of neighbouring data sets, covered by cells."""

    @property
    def most_cells(self) -> int:
        """How far a cover is worth refining, given what one cell costs."""

    @property
    def cell_cost(self) -> float:
        """What one cell costs, that of three points being 1."""

    def cells(self) -> tuple[TripleCell, ...]:
        """A first cover."""

    def ends(self) -> tuple[TripleCell, TripleCell]:
        """The two pairs, aligned and reversed, that are attained: cells without extent."""

    def corners(self, cell: TripleCell) -> tuple[Corner, Corner]:
        """What dominates the cell: for H(P || Q) at t >= 1, and for H(Q || P) at t >= 1."""

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """Certified upper bound of H at e^epsilon, epsilon >= 0."""

    def profiles(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        """The same for many corners, a row each."""


@dataclass(frozen=True)
class Triangle:
    """The largest lengths and cosines of a range of triangles."""

    u: float
    v: float
    w: float
    cos_x: float
    cos_other: float


def triangle(shift: float, omega: tuple[float, float], share: tuple[float, float]) -> Triangle:
    """Upper ends of u, v, w, cos A and cos B for omega and f = b/omega in the given ranges."""
    a1, a2 = (1.0 - share[1]) * omega[0], min((1.0 - share[0]) * omega[1], _RIGHT)
    b1, b2 = share[0] * omega[0], min(share[1] * omega[1], _RIGHT)
    return Triangle(
        shift * _raised(math.cos(b1)),
        shift * _raised(math.cos(a1)),
        shift * _raised(math.sin(min(omega[1], _RIGHT))),
        _raised(math.sin(a2)),
        _raised(math.sin(b2)),
    )


def _raised(part: float) -> float:
    """A fraction rounded up to 36 bits, so that mirror images share their profiles."""
    return min(1.0, math.ceil(part * _UP * 2.0**36 + 2.0**-10) / 2.0**36)


def disc_cells(parts: int) -> tuple[TripleCell, ...]:
    """``parts`` ranges of omega and of f, finer where pairs tend to win."""
    steps = np.linspace(0.0, 1.0, parts + 1)
    omega = _ranges(_RIGHT * np.sin(_RIGHT * steps))
    share = _ranges(0.5 - 0.5 * np.cos(np.pi * steps))
    return tuple(TripleCell(box) for box in product(omega, share))


def end_cell(share: float) -> TripleCell:
    """The cell of a single right-angled triangle in which two of the points coincide."""
    return TripleCell(((_RIGHT, _RIGHT), (share, share)))


def _ranges(ends: FloatArray) -> list[tuple[float, float]]:
    values = [0.0, *ends[1:-1].tolist(), float(ends[-1])]
    return list(pairwise(values))


@dataclass(frozen=True)
class DiscTriples:
    """Draws without replacement and Gaussian noise in any dimension; the three points lie in a ball
    of diameter ``shift``, as contributions to a sum do.
    """

    chance: float
    shift: float
    parts: int = 6
    most_cells: int = 240
    cell_cost: float = 1.0

    def cells(self) -> tuple[TripleCell, ...]:
        """Boxes of (omega, f)."""
        return disc_cells(self.parts)

    def ends(self) -> tuple[TripleCell, TripleCell]:
        """y in the place of x', or of x."""
        return end_cell(0.0), end_cell(1.0)

    def corners(self, cell: TripleCell) -> tuple[Corner, Corner]:
        """(u, w, cos A) and (v, w, cos B)."""
        omega, share = cell.ranges
        t = triangle(self.shift, omega, share)
        return Corner((t.u, t.w), (t.cos_x,)), Corner((t.v, t.w), (t.cos_other,))

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """The triple, or the line through the same lengths where that is smaller."""
        u, w = corner.lengths
        on_line = line_profile(_GAUSSIAN, self.chance, u, w, epsilon)
        return np.minimum(on_line, triple_profile(self.chance, u, w, corner.cosines[0], epsilon))

    def profiles(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        """One by one."""
        return np.array([self.profile(corner, epsilon) for corner in corners])


@dataclass(frozen=True)
class DistantTriples(DiscTriples):
    """The same where only any two of the points are within ``shift`` of each other.

    Acute or right triangles whose longest side is s are enough. ``kind`` says which side that is; a
    cell is a box of the other two, over s.
    """

    parts: int = 4

    def cells(self) -> tuple[TripleCell, ...]:
        """Boxes of two sides that some right or acute triangle has."""
        steps = np.linspace(0.0, 1.0, self.parts + 1)
        sides = _ranges(np.sin(_RIGHT * steps))
        boxes = [box for box in product(sides, sides) if math.hypot(box[0][1], box[1][1]) >= 1.0]
        return tuple(TripleCell(box, kind) for kind in ("uv", "vw", "uw") for box in boxes)

    def ends(self) -> tuple[TripleCell, TripleCell]:
        """y in the place of x', or of x."""
        none, all_ = (0.0, 0.0), (1.0, 1.0)
        return TripleCell((all_, none), "uv"), TripleCell((none, all_), "uv")

    def corners(self, cell: TripleCell) -> tuple[Corner, Corner]:
        """The largest u, w and inner product at x; and v, w and inner product at x'."""
        sides = dict.fromkeys("uvw", (1.0, 1.0)) | dict(zip(cell.kind, cell.ranges, strict=True))
        (u1, u2), (v1, v2), (_, w2) = sides["u"], sides["v"], sides["w"]
        return self._corner(u2, w2, v1), self._corner(v2, w2, u1)

    def _corner(self, near: float, far: float, opposite: float) -> Corner:
        """Two sides at most this long, and the third at least: one more than a right angle sees."""
        near, far = _raised(near), _raised(far)
        shorter = min(near, far)
        opposite = max(opposite, math.sqrt(max(0.0, 1.0 - shorter * shorter))) / _UP
        # Of the largest inner product; at fixed lengths and a larger one the value is larger.
        inner = near * near + far * far - opposite * opposite + 16.0 * ROUNDOFF
        cosine = 1.0 if inner >= 2.0 * near * far else _raised(inner / (2.0 * near * far))
        return Corner((self.shift * near, self.shift * far), (max(cosine, 0.0),))


@dataclass(frozen=True)
class LineTriples:
    """Draws without replacement and a release of one number."""

    noise: Noise
    chance: float
    shift: float
    parts: int = 12
    most_cells: int = 90
    cell_cost: float = 1.0

    def cells(self) -> tuple[TripleCell, ...]:
        """Intervals of u/s with y in between, then of w/s with x, and with x', in between."""
        steps = np.linspace(0.0, 1.0, self.parts + 1)
        ends = _ranges(0.5 - 0.5 * np.cos(np.pi * steps))
        kinds = ("y between", "x between", "x' between")
        return tuple(TripleCell((part,), kind) for kind in kinds for part in ends)

    def ends(self) -> tuple[TripleCell, TripleCell]:
        """y in the place of x', or of x."""
        return TripleCell(((1.0, 1.0),), "y between"), TripleCell(((0.0, 0.0),), "y between")

    def corners(self, cell: TripleCell) -> tuple[Corner, Corner]:
        """Lengths at the safe end of the interval; the cosine is 0 where two points pull apart."""
        ((low, high),) = cell.ranges
        s = self.shift
        long, rest = s * min(1.0, high * _UP), s * min(1.0, (1.0 - low) * _UP)
        if cell.kind == "y between":
            return Corner((long, s)), Corner((rest, s))
        apart, along = Corner((rest, long), (0.0,)), Corner((s, long))
        return (apart, along) if cell.kind == "x between" else (along, apart)

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """The line; where two points pull apart, the right angle (Gauss) or the exact value."""
        u, w = corner.lengths
        value = line_profile(self.noise, self.chance, u, w, epsilon)
        if corner.cosines[0] == 1.0:
            return value
        if self.noise.proof is Proof.LAPLACE:
            return np.minimum(value, apart_profile(self.chance, u, w, epsilon))
        if self.noise.proof is Proof.GAUSSIAN:
            return np.minimum(value, triple_profile(self.chance, u, w, 0.0, epsilon))
        return value

    def profiles(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        """One by one."""
        return np.array([self.profile(corner, epsilon) for corner in corners])


# One step with several copies: certified profiles for draws with replacement and MUSTow.
#
# At t = e^eps >= 1 the step is bounded by the largest value, over z_0 <= z_1 <= …, of
#
#     sum_j rho_j Phi(a_j - z_j)  -  sum_i c_i Phi(b_i - z_i)
#
# (supplies rho_j at places a_j, demands c_i at places b_i; docs/derivations/family.md has them for
# both schemes). A *flow* certifies an upper bound of it: send source j to demands i <= j, theta_ji
# of it against m_ji of the demand. With sum_i theta_ji >= rho_j and sum_j m_ji <= c_i,
#
#     sum_j rho_j P_j - sum_i c_i Q_i  <=  sum_ji (theta_ji P_j - m_ji Q_i)_+,
#
# and each term is theta_ji times the profile of the noise at distance a_j - b_i and at
# m_ji/theta_ji. Any flow is valid. A good one has all pairs decided at one threshold z, equal
# inside a first block, and each multiplicity by itself behind it, as in ``one_step.py``.
# Where source j meets two demands whose places form a triangle with its own, the two terms are
# joined and the triple's mean takes their place: (theta P - m Q - m' Q')_+ is at most the sum of
# the two parts, at any angle.


#: What rounding of a share and of two products can take, generously.
_SHARE_ERROR = 1e-12
#: Triangles with a larger cosine are as good as a line.
STRAIGHT = 1.0 - 1e-5
#: Distance of the nodes of a triangle's mean, which is only a part of a value.
_FLOW_STEP = 0.12
#: Terms that make up less than this share of a value are not joined: little could be gained.
_WORTH = 5e-3
#: Thresholds are found this closely; they only steer, and a value hardly changes near the best one.
_CLOSE = 1e-5
#: Thresholds are looked for this far beyond the places of the supplies.
_BEYOND_SUPPLIES = 16.0
_NOISE = GaussianNoise()


@dataclass(frozen=True)
class SourceTriangle:
    """Source ``source`` and the demands ``near`` and ``far`` form a triangle with this cosine."""

    source: int
    near: int
    far: int
    cosine: float


@dataclass(frozen=True, eq=False)
class _Sent:
    """What one source sends: theta P_j against m Q_i, one row per t and one column per demand."""

    theta: FloatArray
    m: FloatArray
    distance: FloatArray
    value: FloatArray


def _values(theta: FloatArray, m: FloatArray, distance: FloatArray) -> FloatArray:
    """E (theta P - m Q)_+ entry by entry, rounded up; 0 where nothing is sent."""
    some = theta > 0.0
    sent = theta[some]
    with np.errstate(divide="ignore"):
        ratio = np.log(m[some]) - np.log(sent)
    value = _NOISE.profile(distance[some], np.maximum(ratio, -700.0))
    out = np.zeros(theta.shape)
    out[some] = sent * np.maximum(value, _NOISE.smallest)
    return np.asarray(out * (1.0 + PROFILE_ERROR))


def _bent(sent: _Sent, rows: IntArray, bends: Sequence[SourceTriangle]) -> FloatArray:
    """The terms of one source that form triangles, joined, at some rows of the same places."""
    far = bends[0].far
    nears = [sent.theta[rows, bend.near] for bend in bends]
    whole = np.sum(nears, axis=0)
    total = np.zeros(whole.size)
    for bend, near in zip(bends, nears, strict=True):
        even = np.full(whole.size, 1.0 / len(bends))
        share = np.divide(near, whole, out=even, where=whole > 0.0)
        theta = near + share * (1.0 + _SHARE_ERROR) * sent.theta[rows, far]
        taken = share * (1.0 - _SHARE_ERROR) * sent.m[rows, far]
        mean = triple_mean(
            theta, sent.m[rows, bend.near], taken, float(sent.distance[rows[0], bend.near]),
            float(sent.distance[rows[0], far]), bend.cosine, _FLOW_STEP,
        )  # fmt: skip
        total += np.where(theta > 0.0, mean, 0.0)
    return total


def _joined(
    total: FloatArray, sent: dict[int, _Sent],
    bends: Sequence[tuple[slice, Sequence[SourceTriangle]]],
) -> FloatArray:  # fmt: skip
    """The totals with terms joined in triangles where that is less.

    Both are certificates, so it is tried only where those terms make up a part worth having.
    """
    spared = np.zeros(total.size)
    for rows, triangles in bends:
        for j in {bend.source for bend in triangles}:
            own = sent[j]
            here = [
                bend
                for bend in triangles
                if bend.source == j
                and bend.cosine < STRAIGHT
                and own.theta[rows, bend.near].any()
                and own.theta[rows, bend.far].any()
            ]
            if not here:
                continue
            parts = own.value[rows, here[0].far] + sum(own.value[rows, b.near] for b in here)
            worth = rows.start + np.flatnonzero(parts > _WORTH * total[rows])
            if worth.size:
                gain = parts[worth - rows.start] - _bent(own, worth, here)
                spared[worth] += np.maximum(gain, 0.0)
    # The difference of two roundings that are small against the total they are taken off.
    spared *= 1.0 - 1e-12
    return np.asarray(total - spared + 1e-12 * total)


def _summed(total: FloatArray, terms: int) -> FloatArray:
    """Sums of this many terms, with what they are rounded by."""
    total = total * (1.0 + 4.0 * terms * ROUNDOFF)
    if not np.all((total >= 0.0) & np.isfinite(total)):
        raise NumericalFailure("a flow between copies has a value that is not a number")
    return total


@dataclass(frozen=True, eq=False)
class FlowProblem:
    """Supplies and demands, one row per t and set of places, columns sorted by copies.

    Many sets of places are worked on at once; the rows of one of them lie together.
    """

    source: FloatArray  # rho_j for j = 1, 2, …
    supply_at: FloatArray
    demand: FloatArray
    demand_at: FloatArray
    demand_copies: IntArray
    #: How far the rounding of the places may have brought a source and a demand together.
    blur: float = 0.0
    #: Whether sources divide over the demand of no copies and their own, before all others.
    none_too: bool = False

    def sends(self) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """A good flow, source by source: theta and m of every demand, and what met no demand."""
        z, pooled = self._thresholds()
        ready, wanted = self._densities(z, pooled)
        left = wanted.copy()
        for j in range(self.source.size):
            flow = self._flow(ready[:, j], left, pooled[:, j], j)
            columns = flow.shape[1]
            whole = flow.sum(axis=1)
            # All of a source is divided in proportion over the demands that it met.
            some = flow > 0.0
            theta = np.divide(flow, whole[:, None], out=np.zeros(flow.shape), where=some)
            used = np.divide(flow, wanted[:, :columns], out=np.zeros(flow.shape), where=some)
            theta *= self.source[j] * (1.0 + _SHARE_ERROR)
            used *= self.demand[:, :columns] * (1.0 - _SHARE_ERROR)
            yield theta, used, np.where(whole > 0.0, 0.0, self.source[j])

    def certified(self, bends: Sequence[tuple[slice, Sequence[SourceTriangle]]] = ()) -> FloatArray:
        """The value of a good flow in every row, without what the law left out.

        ``bends`` are the triangles of rows that share their places.
        """
        total = np.zeros(self.demand.shape[0])
        turning = {bend.source for _, triangles in bends for bend in triangles}
        turned: dict[int, _Sent] = {}
        for j, (theta, used, unmet) in enumerate(self.sends()):
            # A source that found no demand costs its whole mass.
            total += unmet
            gap = self.supply_at[:, j, None] - self.demand_at[:, : theta.shape[1]] + self.blur
            gap = np.maximum(gap, SHORTEST)
            sent = _Sent(theta, used, gap, _values(theta, used, gap))
            total += sent.value.sum(axis=1)
            if j in turning:
                turned[j] = sent
        total = _joined(total, turned, bends)
        return _summed(total, self.source.size * (1 + self.demand_copies.size))

    def _flow(
        self, ready: FloatArray, left: FloatArray, pooled: NDArray[np.bool_], j: int
    ) -> FloatArray:
        """Send one source to its own demands, then to those of fewer copies; lowers ``left``."""
        fewer, end = np.searchsorted(self.demand_copies, (j + 1, j + 2))
        open_ = left[:, :end].copy()
        open_[:, :fewer] *= pooled[:, None]
        flow, order = np.zeros(open_.shape), np.r_[fewer:end, 0:fewer]
        if self.none_too:
            first, order = np.r_[0, fewer:end], np.r_[1:fewer]
            total = open_[:, first].sum(axis=1)
            part = np.divide(ready, total, out=np.zeros(total.size), where=total > 0.0)
            flow[:, first] = open_[:, first] * np.minimum(part, 1.0)[:, None]
        rest = np.maximum(ready - flow.sum(axis=1), 0.0)
        filled = np.minimum(np.cumsum(open_[:, order], axis=1), rest[:, None])
        flow[:, order] = np.diff(filled, axis=1, prepend=0.0)
        # Differences of sums are rounded; no demand may be met twice, so what is left decides.
        flow = np.clip(flow, 0.0, open_)
        left[:, :end] -= flow
        return np.asarray(flow)

    def _densities(self, z: FloatArray, pooled: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Supplies and demands at their thresholds, in a common scale within each block."""
        with np.errstate(under="ignore"):
            source = np.log(self.source) + _exponent(self.supply_at, z)
            column = np.maximum(self.demand_copies - 1, 0)
            demand = self._log_demand + _exponent(self.demand_at, z[:, column])
            inside = np.where(pooled, source, -np.inf).max(axis=1, keepdims=True)
            top = np.where(pooled, inside, source)
            return np.exp(source - top), np.exp(np.minimum(demand - top[:, column], 600.0))

    @cached_property
    def _log_demand(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.demand))

    def _thresholds(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The threshold of every multiplicity, and which ones belong to the first block."""
        rows, width = self.demand.shape[0], self.source.size
        alone = self._alone()
        low = np.zeros(rows, dtype=np.int64)
        high = np.full(rows, width - 1, dtype=np.int64)
        while True:
            active = np.flatnonzero(low < high)
            if not active.size:
                break
            middle = (low[active] + high[active]) // 2
            ends = self._balance(middle, alone[active, middle + 1], active)[0] >= 0.0
            high[active] = np.where(ends, middle, high[active])
            low[active] = np.where(ends, low[active], middle + 1)

        def balance(z: FloatArray, at: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
            return self._balance(high[at], z, at)

        # Further out nothing is left of either side.
        far = _BEYOND_SUPPLIES + self.supply_at[np.arange(rows), high]
        block = increasing_root(balance, -far, far, _CLOSE)
        pooled = np.arange(width) <= high[:, None]
        return np.where(pooled, block[:, None], alone), pooled

    def _alone(self) -> FloatArray:
        """Where each source is in balance with the demands of its own number of copies."""
        width = self.source.size
        own = [np.flatnonzero(self.demand_copies == j + 1) for j in range(width)]
        logs = np.concatenate([self._log_demand[:, at] for at in own])
        places = np.concatenate([self.demand_at[:, at] for at in own])
        source = np.repeat(np.log(self.source), self.demand.shape[0])
        place = self.supply_at.T.ravel()

        def balance(z: FloatArray, at: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
            low, slow = _log_sum(logs[at] + _exponent(places[at], z[:, None]), places[at])
            return source[at] + _exponent(place[at], z) - low, place[at] - slow

        far = _BEYOND_SUPPLIES + place
        found = increasing_root(balance, -far, far, _CLOSE)
        return found.reshape(width, -1).T

    def _balance(
        self, last: NDArray[np.int64], z: FloatArray, rows: NDArray[np.intp]
    ) -> tuple[FloatArray, FloatArray]:
        """Log source minus log demand at z up to column ``last``, and its derivative."""
        supply_at, demand_at = self.supply_at[rows], self.demand_at[rows]
        up = np.log(self.source) + _exponent(supply_at, z[:, None])
        down = self._log_demand[rows] + _exponent(demand_at, z[:, None])
        fits = np.arange(self.source.size) <= last[:, None]
        high, fast = _log_sum(np.where(fits, up, -np.inf), supply_at)
        fits = self.demand_copies <= last[:, None] + 1
        low, slow = _log_sum(np.where(fits, down, -np.inf), demand_at)
        return high - low, fast - slow


def _exponent(place: FloatArray, z: FloatArray) -> FloatArray:
    """Log density at place - z over that at z."""
    return np.asarray(place * z - 0.5 * np.square(place))


def _log_sum(logs: FloatArray, speed: FloatArray) -> tuple[FloatArray, FloatArray]:
    top = logs.max(axis=1)
    finite = np.where(np.isfinite(top), top, 0.0)
    weights = np.exp(logs - finite[:, None])
    total = weights.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.nan_to_num((weights * speed).sum(axis=1) / total)
        return np.log(total) + finite, slope


# Families of pairs where a record may be drawn several times: WR, MUSTow, several records.
#
# With replacement all places of a batch are filled with common records z_1, z_2, …, and x takes the
# first J places. In MUSTow the slot of stage I holds x, x' or a common record y*, and the z are
# drawn from the other slots. Against i copies of y* or x' the distance of j >= i copies of x is at
# most i |x - y*| or i |x - x'|, plus |x - z_l| for i < l <= j.
#
# In MUSTow *one* flow, whatever the records are, makes a sum of terms that lie below convex
# functions of these distances. All common records have the same law, so by Jensen the mean over
# all of them is at most the mean over a single one that takes all their places: a member is a
# triangle, as without replacement. With replacement alone later records count as s apart, and each
# triangle has its own flow. The proofs are in docs/derivations/family.md.


#: Laws with more positive multiplicities than this are left to the single pair.
MOST_COPIES = 40
#: Triangles are looked at for this many copies; more are rare.
_BENT = 4
#: Rows of flows that are worked on at once, so that they stay in the processor's cache.
_AT_ONCE = 3000
#: Slopes of tangents are lowered by this, relatively: lower ones are as valid.
_SLOPE_ERROR = 1e-9
#: More than what hulls lose to rounding.
_HULL_ERROR = 1e-12


@dataclass(frozen=True, eq=False)
class Copies(ABC):
    """What the families share: a law of copies, rounded to the safe side, and triangles."""

    law: MultiplicityLaw
    shift: float
    parts: int = 2  # the cells that matter are split further
    most_cells: int = 140
    cell_cost: float = 3.0

    def cells(self) -> tuple[TripleCell, ...]:
        """Boxes of (omega, f)."""
        return disc_cells(self.parts)

    def ends(self) -> tuple[TripleCell, TripleCell]:
        """Aligned and reversed."""
        return end_cell(0.0), end_cell(1.0)

    def corners(self, cell: TripleCell) -> tuple[Corner, Corner]:
        """(u, w) and (v, w)."""
        omega, share = cell.ranges
        t = triangle(self.shift, omega, share)
        return Corner((t.u, t.w), (t.cos_x,)), Corner((t.v, t.w), (t.cos_other,))

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """Certified upper bound of H at e^epsilon, epsilon >= 0."""
        return np.asarray(self.profiles([corner], epsilon)[0])

    def profiles(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        """The same for many corners, a row each: their flows are worked on together."""
        together = max(1, _AT_ONCE // max(1, epsilon.size))
        parts = [
            self._certified(corners[start : start + together], epsilon)
            for start in range(0, len(corners), together)
        ]
        return np.concatenate([np.empty((0, epsilon.size)), *parts])

    @abstractmethod
    def _certified(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        """A row for each corner."""

    @property
    def _slack(self) -> float:
        return 4.0 * self.law.relative_error + 64.0 * self.law.probabilities.size * ROUNDOFF

    @property
    def _blur(self) -> float:
        """More than what rounding takes off a distance."""
        return 16.0 * ROUNDOFF * self.shift * (1.0 + float(self.law.positive_values[-1]))


class ReplacementCopies(Copies):
    """Draws with replacement, seldom of several copies: the first place has its own triangle, in
    later ones everything is s apart, and every triangle its own flow.
    """

    def _certified(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        """Component j of P at u + (j-1) s; of Q at 0, and at what a copy of x' leaves of that."""
        copies, s, rows = self.law.positive_values, self.shift, epsilon.size
        none, some = np.expm1(epsilon) * self.law.zero, np.outer(np.exp(epsilon), self.law.positive)
        amounts = np.concatenate([none[:, None], some], axis=1) * (1.0 - self._slack)
        lengths = [corner.lengths for corner in corners]
        problem = FlowProblem(
            self.law.positive * (1.0 + self._slack),
            np.repeat([copies * s - (s - u) for u, _ in lengths], rows, axis=0),
            np.tile(amounts, (len(corners), 1)),
            np.repeat([np.append(0.0, self._other_at(u, w)) for u, w in lengths], rows, axis=0),
            np.append(0, copies.astype(np.int64)),
            self._blur,
        )
        bends = [
            (slice(which * rows, (which + 1) * rows), [SourceTriangle(0, 0, 1, corner.cosines[0])])
            for which, corner in enumerate(corners)
        ]
        values = problem.certified(bends).reshape(len(corners), rows)
        return np.minimum(values + self.law.cut, 1.0)

    def _other_at(self, u: float, w: float) -> FloatArray:
        """i copies of x' are at most i w + (j-i) s away from j copies of x."""
        return self.law.positive_values * (self.shift - w) - (self.shift - u)


class DistinctCopies(ReplacementCopies):
    """Several records of one person, drawn with or without replacement: ``law`` counts them.

    The places hold different records, so each has a triangle of its own. That of the first is kept,
    in all others everything is s apart.
    """

    def _other_at(self, u: float, w: float) -> FloatArray:
        return np.full(self.law.positive_values.size, u - w)


@dataclass(frozen=True, eq=False)
class _CommonFlow:
    """What is sent, whatever the records are: an entry for every row, source and demand.

    ``common`` and ``special`` say how many distances u and w an entry is made of. Where several
    records take part, ``several``, a value is raised to the line that touches it at ``farthest``.
    """

    unmet: FloatArray
    row: IntArray
    theta: FloatArray
    m: FloatArray
    common: FloatArray
    special: FloatArray
    several: NDArray[np.bool_]
    farthest: FloatArray
    top: FloatArray
    slope: FloatArray
    #: Of the first sources: demands that form triangles, and the entries that belong to them.
    turning: tuple[tuple[FloatArray, FloatArray, IntArray], ...]

    def total(self, u: float, w: float, cosine: float, blur: float) -> FloatArray:
        """The value of the flow for one triangle, in every row."""
        gap = np.maximum(u * self.common + w * self.special + blur, SHORTEST)
        value = _values(self.theta, self.m, gap)
        line = self.top - self.slope * np.maximum(self.farthest - gap, 0.0)
        value = np.where(self.several, np.maximum(value, line), value)
        rows = self.unmet.size
        total = self.unmet + np.bincount(self.row, value, rows)
        ready, sent, bends = np.append(value, 0.0), {}, []
        for j, (theta, m, entry) in enumerate(self.turning):
            distance = np.full(theta.shape, (j + 1.0) * u + blur)
            distance[:, -1] = (j + 1.0) * w + blur  # the last one is x', the others are common
            sent[j] = _Sent(theta, m, np.maximum(distance, SHORTEST), ready[entry])
            far = theta.shape[1] - 1
            bends += [SourceTriangle(j, near, far, cosine) for near in range(far)]
        return _joined(total, sent, [(slice(0, rows), bends)])


@dataclass(frozen=True, eq=False)
class NestedCopies(Copies):
    """MUSTow, and WR where ``chance`` is 1: a slot holds x, x' or, seldom, a common record.

    ``law`` counts the draws of the slot. Members hold *on average* over the common records: every
    pair of neighbours lies below a mixture of them, so each is made convex, and none is capped.
    """

    parts: int = 4
    chance: float = 1.0
    _known: dict[bytes, _CommonFlow] = field(init=False, default_factory=dict)

    def _certified(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        flow, beside = self._flow(epsilon), self._beside(epsilon)
        found = np.empty((len(corners), epsilon.size))
        for which, corner in enumerate(corners):
            (u, w), (cosine,) = corner.lengths, corner.cosines
            total = flow.total(u, w, cosine, self._blur)
            found[which] = convex_above(
                epsilon, _summed(total, 4 * self.law.positive.size**2) + beside
            )
        return found

    def _beside(self, epsilon: FloatArray) -> FloatArray:
        """What no triangle changes, rounded up."""
        return np.full(epsilon.size, self.law.cut)

    def _flow(self, epsilon: FloatArray) -> _CommonFlow:
        """The flow of the largest triangle, all sides s: it serves all others.

        A family is asked at one grid of epsilons.
        """
        key = epsilon.tobytes()
        if key not in self._known:
            self._known.clear()
            self._known[key] = self._common_flow(epsilon)
        return self._known[key]

    def _common_flow(self, epsilon: FloatArray) -> _CommonFlow:
        copies, s = self.law.positive_values, self.shift
        kind, amounts = self._demands(epsilon)
        problem = FlowProblem(
            self.chance * self.law.positive * (1.0 + self._slack),
            np.tile(copies * s, (epsilon.size, 1)),
            amounts * (1.0 - self._slack),
            np.zeros(amounts.shape),
            kind,
            self._blur,
            none_too=True,  # any order is as good for that triangle, and this one better for others
        )
        # Column 2 i - 1 has i copies of y*, column 2 i has i copies of x'.
        is_other = (np.arange(kind.size) % 2 == 0) & (kind > 0)
        unmet, parts, turning, known = np.zeros(epsilon.size), [], [], 0
        for j, (theta, m, lost) in enumerate(problem.sends(), start=1):
            unmet += lost
            row, column = np.nonzero(theta)
            special = np.where(is_other[column], kind[column], 0)
            # Of the distances to common records those to y* are of one; so is a single one to a z.
            several = (j > 1) & np.where(is_other[column], j - special > 1, kind[column] < j)
            sent = theta[row, column], m[row, column], j - special, special
            parts.append((row, *sent, several, np.full(row.size, j * s + 2.0 * self._blur)))
            if j <= _BENT:
                entry = np.full(theta.shape, -1)
                entry[row, column] = known + np.arange(row.size)
                which = [0, 1, 2] if j == 1 else [2 * j - 1, 2 * j]
                turning.append((theta[:, which], m[:, which], entry[:, which]))
            known += row.size
        row, theta, m, common, special, several, farthest = map(
            np.concatenate, zip(*parts, strict=True)
        )
        return _CommonFlow(
            unmet, row, theta, m, common, special, several, farthest,
            top=_values(theta, m, farthest),
            slope=_slopes(theta, m, farthest) * (1.0 - _SLOPE_ERROR),
            turning=tuple(turning),
        )  # fmt: skip

    def _demands(self, epsilon: FloatArray) -> tuple[IntArray, FloatArray]:
        """Nothing drawn from the slot, then i copies of y* and i copies of x' in turn."""
        beta, hit = self.law.positive, self.chance
        absent = self._absent(epsilon)[:, None]
        amounts = np.empty((epsilon.size, 1 + 2 * beta.size))
        amounts[:, 0] = np.expm1(epsilon) * self.law.zero * (absent[:, 0] + hit)
        amounts[:, 1::2] = np.outer(np.expm1(epsilon), beta) * absent
        amounts[:, 2::2] = np.outer(np.exp(epsilon), beta * hit)
        return np.append(0, np.repeat(self.law.positive_values.astype(np.int64), 2)), amounts

    def _absent(self, epsilon: FloatArray) -> FloatArray:
        """The mass of a slot that holds neither x nor x', at every epsilon."""
        return np.full(epsilon.size, max(0.0, (1.0 - self.chance) - 4.0 * ROUNDOFF))


def _slopes(theta: FloatArray, m: FloatArray, distance: FloatArray) -> FloatArray:
    """How fast E (theta P - m Q)_+ grows with the distance, where theta > 0."""
    with np.errstate(divide="ignore", under="ignore"):
        ratio = np.maximum(np.log(m) - np.log(theta), -700.0)
        threshold = 0.5 * distance - ratio / distance
        return np.asarray(theta * np.exp(-0.5 * np.square(threshold)) / math.sqrt(2.0 * math.pi))


def convex_above(epsilon: FloatArray, values: FloatArray) -> FloatArray:
    """Values that are convex and decreasing in e^epsilon, just above the ones given.

    What lies below a later value is raised to it. The lower hull is below them. Where it is, (x_b -
    x)_+ is added, x_b the right end of that edge: it is convex and decreasing too.
    """
    alpha = np.exp(epsilon)
    values = np.maximum.accumulate(values[::-1])[::-1]
    kept = lower_hull(alpha, values)
    right = np.append(kept[1:], kept[-1])[np.searchsorted(kept, np.arange(alpha.size), "right") - 1]
    hull = np.interp(alpha, alpha[kept], values[kept])
    short = np.flatnonzero((values > hull) & (right > np.arange(alpha.size)))
    need = (values[short] - hull[short]) / (alpha[right[short]] - alpha[short])
    slopes = np.zeros(alpha.size)
    np.maximum.at(slopes, right[short], need)
    ends = np.flatnonzero(slopes)
    hinges = np.maximum(alpha[ends] - alpha[:, None], 0.0) @ slopes[ends]
    return np.asarray((hull + hinges) * (1.0 + _HULL_ERROR))


# The family of MUSTww: a first stage with replacement, of which all but its rare part is MUSTow.
#
# Fill all slots of the first stage with common records and put x into the first I of them. Cut what
# happens with I = 0 in two, shares 1 - phi and phi: one goes with I = 1, the other with I >= 2,
#
#     P = M P_A + N P_B,   M = (1-phi) rho_0 + rho_1,   N = phi rho_0 + rho_2 + rho_3 + …,
#
# and Q alike. Given what the slots hold, (P_A, Q_A) is a pair of MUSTow whose slot is hit with
# chance rho_1 / M, and (P_B, Q_B) belongs to one stage whose law lacks 1. Divergences are jointly
# convex, so M times the profile of MUSTow plus N times a certificate of that stage is an upper
# bound for every phi, another one at every alpha. The certificate of the whole must not be taken
# where it is smaller: members bound pairs on average only. The rest of the proof is that of MUSTow
# (docs/derivations/family.md).


#: More than what sums and products of a few weights lose to rounding.
_SLACK = 64.0 * ROUNDOFF


@dataclass(frozen=True, eq=False)
class ReplacedTwice(NestedCopies):
    """``first`` counts slots with the record, ``law`` draws of one slot, ``chance`` is rho_1;
    ``inside`` are the profiles of the second stage.
    """

    cell_cost: float = 4.0
    first: MultiplicityLaw = field(kw_only=True)
    inside: GroupProfiles = field(kw_only=True)
    _splits: dict[bytes, tuple[FloatArray, FloatArray]] = field(init=False, default_factory=dict)

    @property
    def _slack(self) -> float:
        return super()._slack + self.first.relative_error + _SLACK

    def _absent(self, epsilon: FloatArray) -> FloatArray:
        """The part (1 - phi) rho_0 that goes with rho_1."""
        return self._split(epsilon)[0]

    def _beside(self, epsilon: FloatArray) -> FloatArray:
        return np.asarray(
            (self._split(epsilon)[1] + self.first.cut + self.law.cut) * (1.0 + _SLACK)
        )

    def _split(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(1 - phi) rho_0, phi as in the certificate of the whole, and N times that of (P_B, Q_B).

        A family is asked at one grid of epsilons.
        """
        key = epsilon.tobytes()
        if key not in self._splits:
            rho, groups = self.first.positive, self.first.positive_values
            logs = searched_slopes(self.first, self.inside, epsilon)[0]
            none = -np.expm1(-epsilon) * self.first.zero  # over alpha, as all that follows
            one = np.clip(rho[0] * np.expm1(logs[:, 0] - epsilon), 0.0, none)
            phi = 1.0 - np.divide(one, none, out=np.ones(one.size), where=none > 0.0)
            rest = MultiplicityLaw(
                int(groups[1]), frozen(rho[1:]), 0.0, self.first.relative_error + _SLACK
            )
            capacity = (phi * none)[:, None] * (1.0 - _SLACK) + np.cumsum(rho[1:])
            found = evaluate(rest, self.inside, feasible(rest, logs[:, 1:], epsilon, capacity))
            self._splits.clear()
            self._splits[key] = (1.0 - phi) * (1.0 - _SLACK) * self.first.zero, found
        return self._splits[key]
