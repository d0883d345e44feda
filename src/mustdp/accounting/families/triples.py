"""One step without replacement, seen through three points, and cells of such triples that dominate
every pair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from mustdp.errors import NumericalFailure
from mustdp.mechanisms.contract import Proof
from mustdp.mechanisms.laws import GaussianNoise, Noise, mills_ratio
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen
from mustdp.numerics.convex import increasing_root

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
_PROFILE_ERROR = 1e-11


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
    return np.minimum(total * (1.0 + _PROFILE_ERROR) + 256.0 * ROUNDOFF * q, 1.0)


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
    out[some] = share[some] * np.maximum(value, noise.smallest) * (1.0 + _PROFILE_ERROR)
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


_RIGHT = 0.5 * math.pi
_GAUSSIAN = GaussianNoise()
#: Lengths and cosines are raised by this, relatively, to cover the rounding of sines.
_UP = 1.0 + 16.0 * ROUNDOFF


@dataclass(frozen=True)
class TripleCell:
    """A box of parameters; ``kind`` tells apart boxes that mean different things."""

    ranges: tuple[tuple[float, float], ...]
    kind: str = ""

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


def triangle(
    shift: float, omega: tuple[float, float], share: tuple[float, float], *, ball: bool = True,
    one_of_two: bool = False,
) -> Triangle:  # fmt: skip
    """Upper ends of u, v, w, cos A and cos B for omega and f = b/omega in the given ranges.

    Two triangles over the same x and x' share w = s sin omega, so none may grow it: one that is
    obtuse at x then has its lengths below those of f = 1, but any cosine at x' (and the other way
    round for f = 0). With ``one_of_two`` cells at these ends cover such triangles as well.
    """
    a1, a2 = (1.0 - share[1]) * omega[0], min((1.0 - share[0]) * omega[1], _RIGHT)
    b1, b2 = share[0] * omega[0], min(share[1] * omega[1], _RIGHT)
    longest = 1.0
    if not ball:  # at least this, everywhere in the cell
        longest = max(math.cos(a2), math.cos(b2), math.sin(omega[0])) / _UP

    def length(part: float) -> float:
        return shift * _raised(part / longest)

    return Triangle(
        length(math.cos(b1)),
        length(math.cos(a1)),
        length(math.sin(min(omega[1], _RIGHT))),
        1.0 if one_of_two and share[0] <= 0.0 else _raised(math.sin(a2)),
        1.0 if one_of_two and share[1] >= 1.0 else _raised(math.sin(b2)),
    )


def _raised(part: float) -> float:
    """A fraction rounded up to 36 bits, so that mirror images share their profiles."""
    return min(1.0, math.ceil(part * _UP * 2.0**36 + 2.0**-10) / 2.0**36)


def disc_cells(parts: int, *, shares: int = 1) -> tuple[TripleCell, ...]:
    """``parts`` ranges of omega and of each share, finer where pairs tend to win."""
    steps = np.linspace(0.0, 1.0, parts + 1)
    omega = _ranges(_RIGHT * np.sin(_RIGHT * steps))
    share = _ranges(0.5 - 0.5 * np.cos(np.pi * steps))
    return tuple(TripleCell(box) for box in product(omega, *([share] * shares)))


def end_cell(shares: int, share: float) -> TripleCell:
    """The cell of a single right-angled triangle in which two of the points coincide."""
    return TripleCell(((_RIGHT, _RIGHT), *([(share, share)] * shares)))


def _ranges(ends: FloatArray) -> list[tuple[float, float]]:
    values = [0.0, *ends[1:-1].tolist(), float(ends[-1])]
    return list(pairwise(values))


@dataclass(frozen=True)
class DiscTriples:
    """Draws without replacement and Gaussian noise in any dimension.

    ``ball`` says that contributions lie in a ball of diameter ``shift``, as in a sum; otherwise
    only any two of them are within ``shift`` of each other.
    """

    chance: float
    shift: float
    ball: bool = True
    parts: int = 6
    most_cells: int = 240
    cell_cost: float = 1.0

    def cells(self) -> tuple[TripleCell, ...]:
        """Boxes of (omega, f)."""
        return disc_cells(self.parts)

    def ends(self) -> tuple[TripleCell, TripleCell]:
        """y in the place of x', or of x."""
        return end_cell(1, 0.0), end_cell(1, 1.0)

    def corners(self, cell: TripleCell) -> tuple[Corner, Corner]:
        """(u, w, cos A) and (v, w, cos B)."""
        omega, share = cell.ranges
        t = triangle(self.shift, omega, share, ball=self.ball)
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
