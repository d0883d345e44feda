"""Concrete pairs of output distributions: mixtures of what a mechanism puts out for j copies.

Mixtures of noise with a density, moved by j shifts, have a monotone loss: P has its components at
or right of 0, Q at or left of 0, so log dP/dQ never decreases. The three families of attained pairs
(``subsampling/attained.py``) all have this form; the reversed one is written mirrored. Discrete
outcomes are simply listed, with the masses that both sides have there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from mustdp.mechanisms.contract import DiscreteOutcomes
from mustdp.mechanisms.laws import Noise
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.sampling.law import MultiplicityLaw

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
