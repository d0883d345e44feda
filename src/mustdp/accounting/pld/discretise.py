"""Privacy losses on a grid, concrete pairs of output distributions, and the way from profiles and
pairs to losses: connect the dots above, merge outcomes below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.limits import LARGEST_EPSILON
from mustdp.mechanisms.mechanism import DiscreteOutcomes, Noise
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.numerics.convex import lower_hull
from mustdp.sampling.schemes import MultiplicityLaw

# A privacy loss on a uniform grid, kept as its support points and their masses.
#
# The loss of a pair (P, Q) is log dP/dQ under P. On a grid of spacing d it is an integer times d,
# or +infinity. ``masses`` never describe less than they should for an upper bound, nor more than
# they should for a lower bound; which of the two a distribution is for is the business of its
# maker.


@dataclass(frozen=True, eq=False)
class DiscreteLoss:
    """Masses at the losses ``offset + index * spacing`` and at +infinity.

    ``lost`` bounds mass of Q that a lower bound left out; it counts against the bound, e^eps times.
    """

    spacing: float
    index: IntArray
    masses: FloatArray
    infinite: float = 0.0
    lost: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        frozen(self.index)
        frozen(self.masses)

    @property
    def losses(self) -> FloatArray:
        """The finite losses."""
        return self.offset + self.index.astype(np.float64) * self.spacing

    @property
    def total(self) -> float:
        """All mass, finite and infinite."""
        return float(self.masses.sum()) + self.infinite

    @property
    def mean(self) -> float:
        """Mean of the finite part."""
        return float(self.masses @ self.losses)

    @property
    def variance(self) -> float:
        """Variance of the finite part."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = float(self.masses @ np.square(self.losses - self.mean))
        return max(0.0, found) if found < math.inf else math.inf

    def truncated(self, mass: float, *, keep: bool) -> DiscreteLoss:
        """Take the largest losses, ``mass`` in all at most, out of the finite part.

        With ``keep`` they move to +infinity (which dominates), else they are dropped (which is
        dominated).
        """
        tail = np.cumsum(self.masses[::-1])[::-1]
        cut = int(np.searchsorted(-tail, -mass, side="left"))
        cut = max(cut, 1)  # something finite stays
        if cut >= self.index.size:
            return self
        infinite = self.infinite + float(tail[cut]) * (1.0 + 1e-12) if keep else 0.0
        return replace(self, index=self.index[:cut], masses=self.masses[:cut], infinite=infinite)

    def log_mgf(self, theta: FloatArray) -> FloatArray:
        """log sum of masses times e^{theta loss}, for each theta."""
        exponents = np.outer(theta, self.losses)
        exponents += _log(self.masses)
        top = exponents.max(axis=1)
        exponents -= top[:, None]
        return np.asarray(top + np.log(np.exp(exponents, out=exponents).sum(axis=1)))


def _log(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(values)


# Concrete pairs of output distributions: mixtures of what a mechanism puts out for j copies.
#
# Mixtures of noise with a density, moved by j shifts, have a monotone loss: P has its components at
# or right of 0, Q at or left of 0, so log dP/dQ never decreases. The three families of attained
# pairs (``subsampling/one_step.py``) all have this form; the reversed one is written mirrored.
# Discrete outcomes are simply listed, with the masses that both sides have there.

#: Laws of copies that are wider are coarsened.
_MOST_COMPONENTS = 512
#: Outcomes at which the loss is tabulated, and how far from the components they reach: standard
#: normal tails are below 1e-323 from there on.
_TABLE, _FARTHEST = 4000, 38.5
#: Losses of discrete outcomes are cut off here: one that is infinite would need an endless grid.
_LARGEST_LOSS = 60.0
#: Fine cells of outcomes per cell of the grid.
_FINENESS = 6
#: Looks at the outcomes that are kept.
_KEPT = 6


class ConcretePair(Protocol):
    """A pair of output distributions that neighbours really have, or one that it dominates."""

    @property
    def lost(self) -> float:
        """Mass of Q that the outcomes leave out, at most."""

    @property
    def constant_ends(self) -> bool:
        """Whether the loss is constant beyond some outcome."""

    def outcomes(self, spacing: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
        """P from below and Q from above on outcomes fine enough for a grid."""

    def attained(self, epsilon: float) -> float:
        """P(S) - e^epsilon Q(S) for a set S near the best one, rounded down."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights and distances from zero of shifted copies of the noise."""

    weights: FloatArray
    distances: FloatArray

    def log_ratio(self, noise: Noise, x: FloatArray) -> FloatArray:
        """Log density ratio of the mixture, shifted to the right, against the noise at zero."""
        logs = noise.log_ratio(self.distances, x[:, None])[0] + np.log(self.weights)
        top = logs.max(axis=1)
        return np.asarray(top + np.log(np.exp(logs - top[:, None]).sum(axis=1)))

    def between(self, noise: Noise, x: FloatArray) -> FloatArray:
        """Masses of the cells with ends -inf, x_0, x_1, …, inf (shifted to the right)."""
        ends = x[:, None] - self.distances
        right = ends > 0
        # The smaller of the two tails at every end; differences of it do not cancel.
        small = noise.tail(np.abs(ends))
        same = np.abs(small[:-1] - small[1:])
        astride = right[1:] & ~right[:-1]
        inner = np.where(astride, (1.0 - small[1:]) - small[:-1], same)
        lowest = np.where(right[:1], 1.0 - small[:1], small[:1])
        highest = np.where(right[-1:], small[-1:], 1.0 - small[-1:])
        cells = np.concatenate([lowest, inner, highest])
        return np.asarray(np.einsum("ij,j->i", np.maximum(cells, 0.0), self.weights))


@dataclass(frozen=True, eq=False)
class MixturePair:
    """P against Q; ``lost`` bounds mass of Q that its weights leave out."""

    name: str
    noise: Noise
    p: Mixture
    q: Mixture
    lost: float
    relative_error: float

    @property
    def span(self) -> float:
        """The largest distance of any component."""
        return float(max(self.p.distances.max(), self.q.distances.max()))

    @property
    def ends(self) -> FloatArray:
        """The outcomes beyond which the loss is constant; none where it never stops growing."""
        left = -self.noise.saturation(float(self.q.distances.max()))
        right = self.noise.saturation(float(self.p.distances.max()))
        return np.array([x for x in (left, right) if np.isfinite(x)])

    @property
    def constant_ends(self) -> bool:
        """Whether there are such outcomes."""
        return self.ends.size > 0

    def outcomes(self, spacing: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
        """Cells between outcomes whose losses are near ``points * spacing`` and in between."""
        key = spacing, points.tobytes()
        seen = self._looks.get(key)
        if seen is None:
            if len(self._looks) >= _KEPT:
                self._looks.clear()
            p, q = self._outcomes(spacing, points)
            seen = self._looks[key] = frozen(p), frozen(q)
        return seen

    @cached_property
    def _looks(self) -> dict[tuple[float, bytes], tuple[FloatArray, FloatArray]]:
        return {}

    def _outcomes(self, spacing: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
        # Outcomes where either side has mass, more of them around the components.
        far = np.linspace(-self.span - _FARTHEST, self.span + _FARTHEST, _TABLE)
        near = np.linspace(-10.0, 10.0 + min(self.span, 40.0), _TABLE)
        x = np.unique(np.concatenate([far, near]))
        loss = np.maximum.accumulate(self.loss(x))
        steps = np.arange(_FINENESS) / _FINENESS
        side = (points[:-1, None] + np.diff(points)[:, None] * steps).ravel() * spacing
        borders = np.concatenate([-side[:0:-1], side])
        borders = borders[(borders > loss[0]) & (borders < loss[-1])]
        return self.cells(np.unique(np.concatenate([np.interp(borders, loss, x), self.ends])))

    def attained(self, epsilon: float) -> float:
        """P(S) - e^epsilon Q(S) for a half-line S near the best one, rounded down."""
        low, high = -self.span - 40.0, self.span + 40.0
        for _ in range(6):
            grid = np.linspace(low, high, 101)
            above = np.flatnonzero(self.loss(grid) >= epsilon)
            if not above.size:
                return 0.0
            place = int(above[0])
            high, low = float(grid[place]), float(grid[max(place - 1, 0)])
        up, down = self.cells(np.array([high]))
        value = up[1] * (1.0 - 1e-13) - math.exp(min(epsilon, 700.0)) * (down[1] + self.lost)
        return max(0.0, float(value))

    def outline(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Both masses on ``count`` cells where most of them is; to steer by."""
        return self.cells(np.linspace(-9.0 - self.span, 9.0 + self.span, count))

    def loss(self, x: FloatArray) -> FloatArray:
        """log dP/dQ at x."""
        return self.p.log_ratio(self.noise, x) - self.q.log_ratio(self.noise, -x)

    def cells(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Lower bounds of P and upper bounds of Q on the cells between -inf, x_0, …, inf."""
        up = self.p.between(self.noise, x) * (1.0 - self.relative_error)
        down = self.q.between(self.noise, -x[::-1])[::-1] * (1.0 + self.relative_error)
        return up, down


def family_pair(name: str, law: MultiplicityLaw, noise: Noise, shift: float) -> MixturePair:
    """The aligned, reversed or symmetric pair of a multiplicity law."""
    half = 0.5 if name == "symmetric" else 1.0
    # Wide laws are coarsened downwards: every half-line then tells the two sides apart less well.
    law = law.coarsened(_MOST_COMPONENTS, up=False)
    moved = Mixture(law.weights, law.support * (shift * half))
    still = Mixture(np.ones(1), np.zeros(1))
    error = law.relative_error + ROUNDOFF * (16.0 + 2.0 * law.probabilities.size) + 2e-13
    if name == "aligned":
        return MixturePair(name, noise, moved, still, 0.0, error)
    if name == "reversed":
        return MixturePair(name, noise, still, moved, law.cut, error)
    return MixturePair(name, noise, moved, moved, law.cut, error)


@dataclass(frozen=True, eq=False)
class DiscretePair:
    """P from below against Q from above on a list of outcomes; ``lost`` as in a mixture."""

    name: str
    p: FloatArray
    q: FloatArray
    lost: float
    constant_ends: bool = False

    def outcomes(self, spacing: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
        """All of them, whatever the grid; losses beyond what is asked about are lowered to that."""
        return self.p, np.maximum(self.q, self.p * math.exp(-_LARGEST_LOSS))

    def outline(self, count: int) -> tuple[FloatArray, FloatArray]:
        """All of them."""
        return self.p, self.q

    def attained(self, epsilon: float) -> float:
        """P(S) - e^epsilon Q(S) for the best set S, rounded down."""
        factor = math.exp(min(epsilon, 700.0))
        gains = self.p - factor * self.q
        value = math.fsum(gains[gains > 0.0].tolist()) * (1.0 - 1e-13) - factor * self.lost
        return max(0.0, value)


def discrete_pair(name: str, law: MultiplicityLaw, outcomes: DiscreteOutcomes) -> DiscretePair:
    """A pair of discrete distributions for a multiplicity law, by its name."""
    law = law.coarsened(_MOST_COMPONENTS, up=False)
    steps = outcomes.placements[name]
    copies = np.rint(law.support).astype(np.int64)
    places, where = np.unique(np.concatenate([copies * one for one in steps]), return_inverse=True)
    masses = outcomes.masses(places)[where.ravel()]
    sides = (law.weights @ masses[: copies.size], law.weights @ masses[copies.size :])
    error = law.relative_error + ROUNDOFF * (16.0 + 2.0 * law.probabilities.size)
    error += outcomes.relative_error
    # Copies that the law left out add to P, if anything; Q must be whole, unless nothing moves it.
    p, q = (sides[0], sides[1]) if steps[1] else (sides[0], masses[copies.size])
    return DiscretePair(
        name,
        frozen(np.asarray(p * (1.0 - error))),
        frozen(np.asarray(q * (1.0 + error))),
        law.cut if steps[1] else 0.0,
    )


def attained_pairs(
    outcomes: Noise | DiscreteOutcomes, law: MultiplicityLaw, shift: float, *, replaced: bool
) -> dict[str, ConcretePair]:
    """All pairs that are known, by name; ``replaced`` if the record is swapped for another."""
    if isinstance(outcomes, Noise):
        names = ("aligned", "reversed", "symmetric")
        return {name: family_pair(name, law, outcomes, shift) for name in names}
    return {
        name: discrete_pair(name, law, outcomes)
        for name in outcomes.placements
        if replaced or name != "symmetric"
    }


# Connect the dots: from a profile to a discrete loss that dominates it.
#
# Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022, arXiv 2207.04380v1. Between the chosen points
# the profile is replaced by its chord in alpha = e^eps. Chords of a convex function lie above it,
# so the discrete pair whose profile is the broken line dominates, for any choice of points; few
# points make it looser, never wrong. The mass at loss eps_i is alpha_i (slope_i - slope_{i-1}),
# the mass at +infinity is the profile at the last point.
#
# For alpha < 1 the profile of (P, Q) is 1 - alpha + alpha times that of (Q, P) at 1/alpha.


#: A certified upper bound of a profile at eps >= 0.
Profile = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class DominatingPair:
    """Upper bounds of H(P || Q) and of H(Q || P) at eps >= 0; the same object if self-dual."""

    forward: Profile
    backward: Profile

    @classmethod
    def of(cls, profile: Profile) -> DominatingPair:
        """A pair that looks the same in both orders."""
        return cls(profile, profile)

    @property
    def self_dual(self) -> bool:
        """Whether both orders share one profile."""
        return self.forward is self.backward

    def values(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both directions at ``epsilon``."""
        ahead = self.forward(epsilon)
        behind = ahead if self.self_dual else self.backward(epsilon)
        for values in (ahead, behind):
            if not np.all((values >= 0.0) & (values <= 1.0)):
                wrong = values[~((values >= 0.0) & (values <= 1.0))][0]
                raise NumericalFailure(f"a profile returned {wrong!r}, which is no probability")
        return ahead, behind

    @property
    def swapped(self) -> DominatingPair:
        """The pair in the other order."""
        return DominatingPair(self.backward, self.forward)


def connect(pair: DominatingPair, spacing: float, points: IntArray) -> DiscreteLoss:
    """The discrete loss through the profile at ``points * spacing`` (increasing, from 0 on)."""
    return connect_values(spacing, points, *pair.values(just_below(spacing, points)))


def just_below(spacing: float, points: IntArray) -> FloatArray:
    """``points * spacing`` rounded down: where a decreasing bound covers the exact grid points."""
    return np.asarray(points.astype(np.float64) * (spacing * (1.0 - 4.0 * ROUNDOFF)))


def connect_values(
    spacing: float, points: IntArray, ahead: FloatArray, behind: FloatArray
) -> DiscreteLoss:
    """The same from values of H(P || Q) and H(Q || P) at the points."""
    middle = max(ahead[0], behind[0])  # the total variation distance, either way
    right_index, right, right_masses = _side(points, spacing, ahead, middle)
    left_index, left, left_masses = _side(points, spacing, behind, middle)
    e1, f1 = float(right_index[1] * spacing), float(right[1])
    e2, b2 = float(left_index[1] * spacing), float(left[1])
    centre = 1.0 + (f1 - middle) / np.expm1(e1) + (middle - np.exp(-e2) * b2) / np.expm1(-e2)
    sizes = 1.0 + middle / np.expm1(e1) + middle / -np.expm1(-e2)
    centre += ROUNDOFF * (8.0 + 4.0 * (e1 + e2)) * sizes
    index = np.concatenate([-left_index[:0:-1], [0], right_index[1:]])
    lower = np.exp(-left_index[:0:-1] * spacing) * left_masses[::-1]
    masses = np.concatenate([lower, [max(centre, 0.0)], right_masses])
    return DiscreteLoss(spacing, index, masses, float(right[-1]))


def _side(
    points: IntArray, spacing: float, values: FloatArray, middle: float
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Hull of one side and its masses at every hull point but the one at zero, rounded up."""
    values = np.minimum.accumulate(np.concatenate([[middle], values[1:]]))
    kept = lower_hull(np.exp(points.astype(np.float64) * spacing), values)
    index, h = points[kept], values[kept]
    # From whole numbers of cells: differences of rounded epsilons would not be accurate enough.
    gap = np.diff(index).astype(np.float64) * spacing
    rise = np.diff(h)
    after = np.append(rise[1:] / np.expm1(gap[1:]), 0.0)
    before = rise / -np.expm1(-gap)
    size = np.append(h[1:-1] / np.expm1(gap[1:]), 0.0) + h[:-1] / -np.expm1(-gap)
    wider = np.maximum(gap, np.append(gap[1:], 0.0))
    masses = np.maximum(after - before, 0.0) + ROUNDOFF * (8.0 + 4.0 * wider) * size
    return index, h, masses


# Where to evaluate profiles: densely near zero loss, in proportion further out.
#
# All losses of one composition live on one grid. Its spacing is a fraction of the root mean square
# deviation of the single losses: connecting the dots then inflates the deviation of the sum by that
# fraction squared over 12, whatever the number of steps, and the length of the composed loss grows
# like the square root of that number.


#: Losses beyond the point where the profile falls below this are counted as infinite.
NEGLIGIBLE = 1e-30
#: Values of a profile on one grid; more are refused, as they may be dear.
_MOST_POINTS = 100_000
#: Grid of a first look at a profile, as a share of where it ends.
_FIRST_LOOK = 1e-6
#: A profile that falls from this to nothing between two looks ends sharply.
_SHARP = 1e-12
#: Spacing over reach: no less than the first, and no less than the second times the fraction.
_FINEST, _FINEST_AT = 1e-6, 2e-5
#: Far out, the growth of distances between points, over the fraction.
_FURTHER = 0.15
#: Few points: their distance near zero over the deviation.
_DENSE = 0.15


@dataclass(frozen=True, eq=False)
class FirstLook:
    """What a first look at a pair told: how far its losses reach, how widely they spread.

    ``sharp`` says that the losses end at ``reach`` at once, as those of Laplace noise do.
    """

    reach: float
    deviation: float
    sharp: bool = False


@dataclass(frozen=True, eq=False)
class Grid:
    """One spacing, and for every pair the grid indices (from 0 on) at which it is evaluated.

    ``finest`` says that no finer grid spans the losses in the memory that is allowed.
    """

    spacing: float
    points: tuple[IntArray, ...]
    finest: bool = False


@dataclass(frozen=True, eq=False)
class ScoutedPairs:
    """Pairs that were scouted, with how often each occurs: grids of any fineness fit them."""

    first_looks: tuple[FirstLook, ...]
    counts: tuple[int, ...]

    def grid(self, fraction: float) -> Grid:
        """A grid whose spacing is this fraction of the deviation of one step."""
        return lay_grid(self.first_looks, self.counts, fraction)


def survey(pairs: Iterable[DominatingPair], counts: Iterable[int]) -> ScoutedPairs:
    """Scout every pair once."""
    return ScoutedPairs(tuple(first_look(pair) for pair in pairs), tuple(counts))


def first_look(pair: DominatingPair) -> FirstLook:
    """Take a first look at a pair with a few hundred evaluations."""
    looks = np.concatenate([[0.0], np.geomspace(1e-7, LARGEST_EPSILON, 120)])
    seen = np.maximum(*pair.values(looks))
    small = np.flatnonzero(seen <= NEGLIGIBLE)
    reach = float(looks[small[0]]) if small.size else LARGEST_EPSILON
    sharp = bool(small.size and small[0] and seen[small[0] - 1] > _SHARP)
    if sharp:
        reach = _end(pair, float(looks[small[0] - 1]), reach)
    spacing = max(reach, 1e-6) * _FIRST_LOOK
    rough = connect(pair, spacing, _points(spacing, 0.0, max(reach, 1e-6), 0.06))
    return FirstLook(reach, math.sqrt(rough.variance), sharp)


def _end(pair: DominatingPair, low: float, high: float) -> float:
    """A close upper bound of where a profile becomes negligible, between ``low`` and ``high``."""
    for _ in range(5):  # each round narrows the bracket 24 times
        looks = np.linspace(low, high, 25)
        small = np.flatnonzero(np.maximum(*pair.values(looks))[:-1] <= NEGLIGIBLE)
        last = int(small[0]) if small.size else 24
        low, high = float(looks[max(last - 1, 0)]), float(looks[last])
    return high


def lay_grid(first_looks: Sequence[FirstLook], counts: Sequence[int], fraction: float) -> Grid:
    """Choose spacing and points; ``fraction`` is the spacing over the deviation of one step."""
    total = math.fsum(k * s.deviation**2 for s, k in zip(first_looks, counts, strict=True))
    # Of one pair the spacing is the same for every count, to the last digit: looks are kept.
    typical = first_looks[0].deviation if len(first_looks) == 1 else math.sqrt(total / sum(counts))
    reach = max(s.reach for s in first_looks)
    # Rare losses may reach far beyond the deviation of a step; the grid has to span them.
    spacing = max(fraction * typical, reach * max(_FINEST, _FINEST_AT * fraction), 1e-13)
    finest = spacing > fraction * typical
    ends = [(k * s.deviation, s.reach) for s, k in zip(first_looks, counts, strict=True) if s.sharp]
    if ends and max(ends)[1] > 4.0 * spacing:
        # A dot where the losses end, so that no chord reaches past it; an even number of cells.
        end = max(ends)[1]
        spacing = end / (2 * math.ceil(end / (2.0 * spacing))) * (1.0 + 1e-12)
    ratio = _FURTHER * fraction
    points = tuple(_points(spacing, 4.0 * s.deviation, s.reach, ratio) for s in first_looks)
    return Grid(spacing, points, finest)


def few_points(spacing: float, deviation: float, last: int, far: int = 70) -> IntArray:
    """Grid indices from 0 to ``last``, ``far`` of them far apart: for the profiles of a family."""
    near = min(last, max(8, math.ceil(4.0 * deviation / spacing)))
    # Rounded down: a bound must not jump where rounding falls on the other side.
    step = max(1, math.floor(_DENSE * deviation / spacing))
    beyond = np.rint(np.geomspace(near, max(last, near + 1), far)).astype(np.int64)
    return np.unique(np.concatenate([np.arange(0, near, step), beyond]))


def _points(spacing: float, dense: float, reach: float, ratio: float) -> IntArray:
    """Grid indices from 0 to ``reach``: every one up to ``dense``, then growing by ``ratio``."""
    last = max(4, math.ceil(reach / spacing))
    near = min(last, max(4, math.ceil(dense / spacing)))
    if near > _MOST_POINTS:
        raise NumericalFailure(
            f"a grid of spacing {spacing:.3g} up to {dense:.3g} needs {near} evaluations; "
            f"at most {_MOST_POINTS} are made"
        )
    start = np.arange(near + 1, dtype=np.int64)
    if near == last:
        return start
    count = max(2, math.ceil(math.log(last / near) / math.log1p(ratio)) + 1)
    far = np.rint(np.geomspace(near, last, count)).astype(np.int64)
    return np.unique(np.concatenate([start, far]))


# Point masses: losses that hold much of the mass at one place, and grids on which they lie.
#
# A point mass between two grid points can only be merged downwards, which costs in first order of
# the spacing. With rare draws most outcomes have almost the same loss, log(1 - q) say; with Laplace
# noise all outcomes beyond the components have one loss on either side. So the grid is moved until
# the larger point mass lies on it, and its spacing is reduced a little until the other one does.


#: Share of the mass, within half a spacing, that makes a point mass: where the loss is constant at
#: an end the point mass is a single loss, elsewhere only a grid too wide for the bulk makes one.
_SHARE_AT_ENDS, _SHARE = 0.05, 0.3
#: How far inside the losses between two point masses their grid points lie, in units of the
#: spacing: cells close by taking a little of what comes next, and rounding must not put that out of
#: reach.
_INSIDE = 1e-6


@dataclass(frozen=True)
class PointMass:
    """A place with much mass; ``low`` if most other mass lies above it."""

    loss: float
    mass: float
    low: bool


def find_point_masses(
    p: FloatArray, q: FloatArray, spacing: float, *, constant_ends: bool = False
) -> list[PointMass]:
    """The one or two largest point masses, by increasing loss, of atoms in order of their loss."""
    if p.size == 0:
        return []
    narrow = np.floor((np.log(p) - np.log(q)) * (4.0 / spacing))
    bins, where = np.unique(narrow, return_inverse=True)
    mass = np.bincount(where, weights=p)
    # A point mass may lie on the border of two bins: look at neighbours together.
    joined = mass + np.append(np.where(np.diff(bins) == 1.0, mass[1:], 0.0), 0.0)
    found: list[tuple[float, float, float]] = []
    free = np.ones(bins.size, dtype=np.bool_)
    while len(found) < 2 and free.any():
        best = int(np.argmax(np.where(free, joined, -1.0)))
        if joined[best] < (_SHARE_AT_ENDS if constant_ends else _SHARE) * float(p.sum()):
            break
        inside = (narrow >= bins[best]) & (narrow <= bins[best] + 1.0)
        loss = math.log(float(p[inside].sum()) / float(q[inside].sum()))
        found.append((loss, float(joined[best]), float(p[narrow < bins[best]].sum())))
        free &= np.abs(bins - bins[best]) > 5.0
    if len(found) == 2:
        return [
            PointMass(x, m, low)
            for (x, m, _), low in zip(sorted(found), (True, False), strict=True)
        ]
    return [PointMass(x, m, below + 0.5 * m < 0.5 * float(p.sum())) for x, m, below in found]


def offset_for(point_masses: Sequence[PointMass], spacing: float) -> float:
    """How far to move the grid so that the largest point mass lies on it, if there is one."""
    if not point_masses:
        return 0.0
    largest = max(point_masses, key=lambda point_mass: point_mass.mass)
    place = largest.loss + (_INSIDE if largest.low else -_INSIDE) * spacing
    # An even place, so that it is still there if every second point is left out.
    return place - 2.0 * spacing * round(place / (2.0 * spacing))


def spacing_for(point_masses: Sequence[PointMass], spacing: float) -> float:
    """A spacing, not above the one given and close to it, on which both of two point masses lie."""
    if len(point_masses) < 2 or point_masses[1].loss - point_masses[0].loss < 4.0 * spacing:
        return spacing
    apart = point_masses[1].loss - point_masses[0].loss
    return apart / (2 * math.ceil(apart / (2.0 * spacing)) + 2.0 * _INSIDE)


# From a concrete pair to a discrete loss that it dominates: merge outcomes onto the grid.
#
# Merging outcomes is post-processing, so the merged pair is dominated. Outcomes are first merged
# into many fine atoms, then the atoms are swept by increasing loss: each coarse cell takes atoms,
# the last one split, until P(cell)/Q(cell) is exactly e^loss for a loss of the grid. Splitting an
# atom changes nothing, merging only lowers, and no loss needs to be rounded: what is lost is of
# second order in the spacing, as it is for the upper bound. Seen as a function of alpha, the
# broken line with kinks at grid points touches the profile from below. Only differences of cdfs
# are used, no densities.


#: Chances below this are dropped from P, and raised to it in Q, so that logarithms are finite.
_SMALLEST = 1e-290
#: Losses of discrete outcomes that differ by less are one loss, computed in different ways.
_SAME = 1e-10


def merge(
    pair: ConcretePair,
    spacing: float,
    points: IntArray,
    point_masses: Sequence[PointMass] | None = None,
) -> DiscreteLoss:
    """A discrete loss that ``pair`` dominates, near ``points * spacing`` and their negatives.

    ``point_masses`` are looked for unless they are given; the grid is moved to the largest.
    """
    p, q = _sorted(pair, spacing, points)
    if p.size == 0:  # nothing resolved: a loss below zero, which attains nothing, is always valid
        return DiscreteLoss(spacing, np.array([-1]), np.ones(1), lost=pair.lost)
    loss = np.log(p) - np.log(q)
    if point_masses is None:
        point_masses = point_masses_of(pair, spacing, points)
    offset = offset_for(point_masses, spacing)
    # The guide reaches past every atom, so that each cell of a sweep can close.
    low, high = (
        math.floor((loss[0] - offset) / spacing),
        math.ceil((loss[-1] - offset) / spacing),
    )
    on_point_masses = [round((point_mass.loss - offset) / spacing) for point_mass in point_masses]
    discrete = isinstance(pair, DiscretePair)
    if discrete:
        on_point_masses += _around(loss, offset, spacing * int(points[1]), int(points[1]))
    guide = np.unique(np.concatenate([-points, points, [low - 1, high + 1, *on_point_masses]]))
    place = offset + guide.astype(np.float64) * spacing
    # Sweep upwards from the bottom and downwards from the top. What is left where they meet is
    # filled up or rounded, so they meet where there is least mass, above low point masses and
    # below high ones.
    cell = np.searchsorted(place, loss)
    weight = np.bincount(cell, weights=p, minlength=guide.size + 1)
    for point_mass in point_masses:
        at = int(np.searchsorted(place, point_mass.loss))
        weight[: at + 2 if point_mass.low else 0] = math.inf
        weight[weight.size if point_mass.low else max(at - 1, 0) :] = math.inf
    inner = np.arange(cell[0] + 1, cell[-1])
    meet = int(inner[np.argmin(weight[inner])]) if inner.size else int(cell[-1])
    split = int(np.searchsorted(cell, meet))
    if discrete and len(point_masses) == 2:  # neighbours: the sweeps meet between them
        split = int(np.searchsorted(loss, 0.5 * (point_masses[0].loss + point_masses[1].loss)))
    levels = np.exp(place)
    up = _sweep(p[:split].tolist(), q[:split].tolist(), levels.tolist())
    down = _sweep(q[split:][::-1].tolist(), p[split:][::-1].tolist(), (1.0 / levels[::-1]).tolist())
    where_to = up.cell + [guide.size - 1 - i for i in down.cell]
    masses, against = up.first + down.second, up.second + down.first
    index: list[int]
    if discrete:
        left = (down.left_second, down.left_first), (up.left_first, up.left_second)
        index = _left_apart(left, levels, guide, where_to, masses, against)
    else:
        left_p, left_q = up.left_first + down.left_second, up.left_second + down.left_first
        if left_p > 0.0 and _fill_up(left_p, left_q, levels, where_to, masses, against):
            left_p = 0.0
        index = [int(guide[i]) for i in where_to]
        if left_p > 0.0:
            index.append(math.floor((math.log(left_p / left_q) - offset) / spacing - 1e-9))
            masses.append(left_p)
    distinct, where = np.unique(np.array(index, dtype=np.int64), return_inverse=True)
    weights = np.bincount(where, weights=np.array(masses)).astype(np.float64)
    return DiscreteLoss(spacing, distinct, weights, lost=pair.lost, offset=offset)


def point_masses_of(pair: ConcretePair, spacing: float, points: IntArray) -> list[PointMass]:
    """The point masses of a pair, seen at this spacing."""
    p, q = _sorted(pair, spacing, points)
    if isinstance(pair, DiscretePair):
        return _neighbours(p, q)
    return find_point_masses(p, q, spacing, constant_ends=pair.constant_ends)


def _neighbours(p: FloatArray, q: FloatArray) -> list[PointMass]:
    """The heaviest loss of a discrete pair and the heavier of the two next to it.

    Losses that are evenly spaced then all lie on the grid.
    """
    loss = np.log(p) - np.log(q)
    where = np.cumsum(np.append(0, np.diff(loss) > _SAME * (1.0 + np.abs(loss[1:]))))
    mass, against = np.bincount(where, weights=p), np.bincount(where, weights=q)
    if mass.size < 2:
        return [PointMass(float(loss[0]), float(mass[0]), low=True)] if mass.size else []
    best = int(np.argmax(mass))
    beside = [k for k in (best - 1, best + 1) if 0 <= k < mass.size]
    pair = sorted((best, max(beside, key=lambda k: float(mass[k]))))
    return [
        PointMass(math.log(mass[k] / against[k]), float(mass[k]), low=low)
        for k, low in zip(pair, (True, False), strict=True)
    ]


def _around(loss: FloatArray, offset: float, spacing: float, step: int) -> list[int]:
    """Grid indices on either side of every loss, all of them multiples of ``step``."""
    below = np.unique(np.floor((loss - offset) / spacing))
    near = np.unique(np.concatenate([below - 1.0, below, below + 1.0, below + 2.0]))
    return [step * int(k) for k in near]


def _left_apart(
    left: Sequence[tuple[float, float]],
    levels: FloatArray,
    guide: IntArray,
    cell: list[int],
    first: list[float],
    second: list[float],
) -> list[int]:
    """Put what two sweeps left over on the grid, each by itself; the indices of all cells.

    What lies just above a level is rounded down to it; anything else is filled up to the next.
    """
    for left_p, left_q in left:
        if not left_p > 0.0:
            continue
        below = max(int(np.searchsorted(levels, left_p / left_q * (1.0 - 1e-12))) - 1, 0)
        if not levels[below] * left_q <= left_p:
            raise NumericalFailure(f"no grid point lies below a loss of {left_p!r} / {left_q!r}")
        above = min(below + 1, levels.size - 1)
        just = math.log(left_p / left_q / levels[below]) < 1e-3 * math.log(
            levels[above] / levels[below]
        )
        if not just and _fill_up(left_p, left_q, levels, cell, first, second):
            continue
        cell.append(below)
        first.append(left_p)
        second.append(left_q)
    return [int(guide[i]) for i in cell]


def _sorted(pair: ConcretePair, spacing: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
    """Masses under P and Q of fine cells of outcomes, by increasing loss."""
    p, q = pair.outcomes(spacing, points)
    kept = p > _SMALLEST
    # Where Q underflows it is taken larger than it is, which lowers the loss. Any order of merging
    # is post-processing, so the atoms may be sorted.
    p, q = p[kept], np.maximum(q[kept], _SMALLEST)
    order = np.argsort(np.log(p) - np.log(q), kind="stable")
    return p[order], q[order]


def _fill_up(
    left_p: float,
    left_q: float,
    levels: FloatArray,
    cell: list[int],
    first: list[float],
    second: list[float],
) -> bool:
    """Fill what is left up to the next level with a share of the next cell above that level."""
    level = int(np.searchsorted(levels, left_p / left_q))
    above = [i for i, at in enumerate(cell) if at > level]
    if level >= levels.size or not above:
        return False
    donor = min(above, key=lambda i: cell[i])
    gain = first[donor] - float(levels[level]) * second[donor]
    missing = float(levels[level]) * left_q - left_p
    if not 0.0 <= missing <= gain:
        return False
    share = missing / gain if gain > 0.0 else 0.0
    cell.append(level)
    first.append(left_p + share * first[donor])
    second.append(left_q + share * second[donor])
    first[donor] -= share * first[donor]
    second[donor] -= share * second[donor]
    return True


@dataclass(frozen=True)
class _Swept:
    """Cells of exact grid loss with their two masses, and what did not fill a cell."""

    cell: list[int]
    first: list[float]
    second: list[float]
    left_first: float
    left_second: float


def _sweep(a: list[float], b: list[float], levels: list[float]) -> _Swept:
    """Fill cells with a/b equal to one of the levels from atoms in increasing order of a/b."""
    cell: list[int] = []
    first: list[float] = []
    second: list[float] = []
    place, last = 0, len(levels) - 1
    level = levels[0]
    have_a = have_b = 0.0
    for atom_a, atom_b in zip(a, b, strict=True):
        while atom_a > 0.0 and atom_b > 0.0:
            if have_b == 0.0:
                # A new cell: the first level above the atom's ratio, so that it can close.
                while place < last and level * atom_b <= atom_a:
                    place += 1
                    level = levels[place]
                if level * atom_b <= atom_a:  # beyond all levels: left out
                    break
            if (have_a + atom_a) - level * (have_b + atom_b) < 0.0:
                have_a += atom_a
                have_b += atom_b
                break
            # The cell closes inside this atom; the rest of the atom starts the next cell.
            gain = atom_a - level * atom_b
            if have_b == 0.0 or gain <= 0.0:  # nothing to fill up, or filled to the last digit
                share = 0.0
            else:
                share = min(1.0, max(0.0, (level * have_b - have_a) / gain))
            cell.append(place)
            first.append(have_a + share * atom_a)
            second.append(have_b + share * atom_b)
            atom_a -= share * atom_a
            atom_b -= share * atom_b
            have_a = have_b = 0.0
    return _Swept(cell, first, second, have_a, have_b)
