"""The best of a random number of runs: Papernot & Steinke 2022 with profiles instead of moments.

Let h be the profile of one run, f the generating function of the number K of runs and R the largest
f'(q)/f'(q') over the chances q, q' that one event has in a run on neighbouring data. Then

    H_alpha(best || best') <= E[K] h(alpha / R)     for every alpha >= 1,

and E_Q' (dQ/dQ')^a grows at most to P(K = 0) plus E[K] R^(a-1) times itself. Under the Poisson law
unlikely events count less, and R may be taken for likely ones alone. The proofs, and how R is read
off h, are in docs/derivations/selection.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from mustdp.accounting.atoms import AtomPairs, log_moments
from mustdp.accounting.certify import Computation
from mustdp.accounting.plan import SelectBest, atoms
from mustdp.accounting.pld.discretise import DominatingPair, Grid
from mustdp.accounting.pld.readoff import DeltaAt
from mustdp.errors import NumericalFailure
from mustdp.limits import LARGEST_EPSILON
from mustdp.mechanisms.mechanism import dual
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.convex import chord, lower_hull
from mustdp.sampling.repetitions import Repetitions

#: Spacing of the losses of one run over the deviation of a step; coarser where that is too fine.
_FRACTIONS = (0.02, 0.05, 0.2, 0.8)
#: Deltas of one run are accurate down to this; below they are only upper bounds.
_SMALLEST = 1e-30
#: Epsilons at which the bound is tabulated, for its hull; closely under the Poisson law.
_LOOKS = np.concatenate([[0.0], np.geomspace(1e-4, LARGEST_EPSILON, 300)])
_POISSON_LOOKS = np.concatenate([[0.0], np.geomspace(1e-6, LARGEST_EPSILON, 1500)])
#: Under the Poisson law: the r - 1 that are tried, any of which is valid, and cells of integrals.
_RATIOS = np.geomspace(1e-6, 1e3, 121)
_CELLS = np.concatenate([np.linspace(0.0, 1.0, 25), np.geomspace(1e-40, 1.0, 61)])


@dataclass(frozen=True, eq=False)
class OneRun:
    """Both sides of one run as functions of epsilon."""

    work: Computation

    def upper(self, epsilon: FloatArray) -> FloatArray:
        """Certified deltas at epsilons >= 0, in the worse order of the neighbours."""
        if self.work.steps == 1:
            return np.maximum(*self.work.pairs[0].dominating.values(epsilon))
        side = self.work.upper(self._grid)
        return side.curve(np.minimum(epsilon, LARGEST_EPSILON), _SMALLEST)

    def lower(self, epsilon: float) -> float:
        """A delta that one run attains."""
        if self.work.steps == 1:
            families = self.work.pairs[0].families.values()
            return max((pair.attained(epsilon) for pair in families), default=0.0)
        return self.work.lower(self._grid).best(DeltaAt(epsilon))[0]

    @cached_property
    def _grid(self) -> Grid:
        for fraction in _FRACTIONS:
            grid = self.work.grid(fraction)
            try:
                self.work.upper(grid).curve(np.zeros(1), _SMALLEST)
            except NumericalFailure:
                continue
            return grid
        raise NumericalFailure("no grid spans the losses of one run")


@dataclass(frozen=True, eq=False)
class BestProfile:
    """The upper profile of the best run."""

    run: OneRun
    runs: Repetitions

    @cached_property
    def log_growth(self) -> float:
        """Log of R."""
        return self.runs.log_growth(self.run.upper)

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """E[K] h(alpha / R), or what the hull of that and of the bound at alpha = 1 says."""
        return np.minimum(self._single(epsilon), chord(*self._hull, epsilon))

    def _single(self, epsilon: FloatArray) -> FloatArray:
        inside = epsilon - self.log_growth * (1.0 + 1e-14)
        value = self.run.upper(np.maximum(inside, 0.0)) * self.runs.largest_weight
        return np.where(inside >= 0.0, np.minimum(value, 1.0), 1.0)

    def log_growths(self, orders: FloatArray) -> FloatArray:
        """Log of what takes the place of R in moments of these orders."""
        if self.runs.eta is not None:
            return np.full(orders.shape, self.log_growth)
        inside = self._tabulated(-np.log1p(-1.0 / orders))
        return np.minimum(self.log_growth, self.runs.mean * inside * (1.0 + 1e-11))

    @cached_property
    def _run(self) -> tuple[FloatArray, FloatArray]:
        """The profile of one run in a table."""
        return _POISSON_LOOKS, np.minimum.accumulate(self.run.upper(_POISSON_LOOKS))

    def _tabulated(self, epsilon: FloatArray) -> FloatArray:
        """It at any epsilon, by chords."""
        size = np.minimum(np.abs(epsilon), LARGEST_EPSILON)
        return dual(chord(*self._run, size.ravel()).reshape(size.shape), epsilon)

    def _likely(self, epsilon: FloatArray) -> FloatArray:
        """The Poisson law: E[K] times the mean of h(b u^rho) over u from 0 to 1, for the best rho.

        h is convex, so that between two points it is at most its chord.
        """
        best = np.ones(epsilon.size)
        for rho in _RATIOS.tolist():
            u = np.unique(np.concatenate([_CELLS, _CELLS ** (1.0 / rho)]))
            width, place = np.diff(u), u**rho
            with np.errstate(divide="ignore", invalid="ignore"):
                log_place = rho * np.log(u)
                mean = np.diff(u ** (1.0 + rho)) / ((1.0 + rho) * width)
                share = (mean - place[:-1]) / np.diff(place)
            # The less of a cell's later end, the larger the chord.
            share = np.clip(np.nan_to_num(share, posinf=0.0, neginf=0.0) - 1e-9, 0.0, 1.0)
            growth = self.runs.mean * float(self._tabulated(np.log1p(np.array([rho])))[0])
            begin = epsilon + np.log1p(rho) - growth * (1.0 + 1e-11) - 1e-12
            value = self._tabulated(begin[:, None] + np.maximum(log_place, -1e9))
            value = value[:, :-1] * (1.0 - share) + value[:, 1:] * share
            best = np.minimum(best, self.runs.largest_weight * (1.0 + 1e-9) * (value @ width))
        return best

    @cached_property
    def _hull(self) -> tuple[FloatArray, FloatArray]:
        looks = _LOOKS if self.runs.eta is not None else _POISSON_LOOKS[::3]
        value = self._single(looks)
        if self.runs.eta is None:
            value = np.minimum(value, self._likely(looks))
        # All runs but the best are post-processing of k runs that differ with chance 1 - (1 - h)^k.
        same = 1.0 - min(1.0, float(self.run.upper(np.zeros(1))[0]))
        value[0] = min(value[0], 1.0 - self.runs.generating(same))
        value = np.minimum.accumulate(value)
        kept = lower_hull(np.exp(looks), value)
        return looks[kept], value[kept]


@dataclass(frozen=True, eq=False)
class EqualScores:
    """Runs that all score the same: what is released is one run, if there is any.

    Composed with other releases it counts as nothing, which is a lower bound all the same.
    """

    run: OneRun
    some: float

    lost = 0.0
    constant_ends = False

    def outcomes(self, spacing: float, points: IntArray) -> tuple[FloatArray, FloatArray]:
        """A single outcome that tells nothing."""
        return np.ones(1), np.ones(1)

    def attained(self, epsilon: float) -> float:
        """What one run attains, where there is one."""
        return self.some * self.run.lower(epsilon)


@lru_cache(maxsize=8)
def _best(atom: SelectBest, relation: Relation, method: str, group: int) -> BestProfile:
    run = OneRun(Computation(atom.inner, relation, method, group))
    return BestProfile(run, atom.repetitions)


def selected_pairs(atom: SelectBest, relation: Relation, method: str, group: int) -> AtomPairs:
    """What dominates the best run, and what equal scores attain."""
    best = _best(atom, relation, method, group)
    shifts = {pair.shift for pair in best.run.work.pairs}
    families = {"one run": EqualScores(best.run, atom.repetitions.some_run())}
    shift = shifts.pop() if len(shifts) == 1 else None
    return AtomPairs(shift, DominatingPair.of(best), families)


def log_growth(atom: SelectBest, relation: Relation, group: int) -> float:
    """How much the largest loss of one run can grow."""
    return _best(atom, relation, "certified", group).log_growth


def selected_moments(
    atom: SelectBest, orders: FloatArray, relation: Relation, group: int
) -> FloatArray:
    """log M_a of the best run: that of one run, log E[K] and (a - 1) log R, or no run at all."""
    growth = _best(atom, relation, "certified", group).log_growths(orders)
    total = math.log(atom.repetitions.largest_weight) + (orders - 1.0) * growth
    for part, count in atoms(atom.inner).items():
        total = total + count * log_moments(part, orders, relation, group)
    none = 1.0 - atom.repetitions.some_run()
    if none > 0.0:  # nothing is released with the same chance on both sides
        total = np.logaddexp(total, math.log(none))
    return np.asarray(total * (1.0 + 1e-13) + 1e-13)
