"""What is worked out between a plan and its bounds: each thing once, kept for the next question."""

from __future__ import annotations

import math
from copy import copy
from functools import cached_property, partial

import numpy as np

from mustdp.accounting.atom_pairs import AtomPairs, atom_pairs
from mustdp.accounting.moments import log_moments
from mustdp.accounting.plan import Plan, atoms
from mustdp.accounting.pure import Pure, pure_epsilon
from mustdp.accounting.sides import UpperSide, lower_side
from mustdp.limits import LARGEST_EPSILON
from mustdp.loss.curve import LowerCurve, Moments
from mustdp.loss.points import Grid, Survey, survey
from mustdp.mechanisms.mechanism import Gaussian
from mustdp.mechanisms.relation import Relation


class Workings:
    """A plan under one relation: its atoms, their pairs, and both sides on every grid so far.

    An atom has one dominating pair. A family of pairs, the worst chosen anew in every step, stands
    beside this (``family.py``) and makes the bounds tighter afterwards (``tighter.py``).
    """

    def __init__(self, plan: Plan, relation: Relation, method: str, group: int = 1) -> None:
        self.relation = relation
        counted = atoms(plan)
        self.counts: tuple[int, ...] = tuple(counted.values())
        self.pairs: tuple[AtomPairs, ...] = tuple(
            atom_pairs(atom, relation, method, group) for atom in counted
        )
        self._description = counted, group, method
        self._grids: dict[float, Grid] = {}
        self._uppers: dict[Grid, UpperSide] = {}
        self._lowers: dict[tuple[Grid, bool], LowerCurve] = {}
        self._anew: dict[float, Workings] = {}

    @property
    def exact(self) -> bool:
        """Whether both sides would meet but for numerics."""
        return all(pair.exact for pair in self.pairs)

    @property
    def on_grids(self) -> bool:
        """Whether some atoms are found on grids of their own."""
        return any(pair.at is not None for pair in self.pairs)

    @property
    def finest(self) -> float:
        """How fine those grids may be asked for."""
        return min(pair.finest for pair in self.pairs)

    def at(self, fine: float) -> Workings:
        """The same with atoms whose own grids are ``fine`` times as fine."""
        if fine not in self._anew:
            other = copy(self)
            for name in ("pure", "gaussian", "moments", "beyond", "survey"):
                other.__dict__.pop(name, None)
            other.pairs = tuple(pair if pair.at is None else pair.at(fine) for pair in self.pairs)
            other._grids, other._uppers, other._lowers, other._anew = {}, {}, {}, {}
            self._anew[fine] = other
        return self._anew[fine]

    @property
    def steps(self) -> int:
        """How many atoms are released, each counted as often as it occurs."""
        return sum(self.counts)

    @cached_property
    def pure(self) -> Pure | None:
        """The largest loss, where it is known to be finite."""
        counted, group, method = self._description
        return pure_epsilon(counted, self.relation, group) if method == "certified" else None

    @cached_property
    def gaussian(self) -> float | None:
        """The one shift, rounded up, that Gaussian noise on all records comes to; else None."""
        counted, group, _ = self._description
        if not all(isinstance(atom, Gaussian) for atom in counted):
            return None
        shifts = (float(pair.shift or 0.0) for pair in self.pairs)
        squares = (count * s * s for count, s in zip(self.counts, shifts, strict=True))
        return group * math.sqrt(math.fsum(squares)) * (1.0 + 1e-14)

    @cached_property
    def moments(self) -> tuple[Moments, ...]:
        """Crude bounds of the Renyi moments of every atom, nothing left out."""
        counted, group, _ = self._description
        return tuple(
            partial(log_moments, atom, relation=self.relation, group=group) for atom in counted
        )

    @cached_property
    def beyond(self) -> float:
        """Chance that some loss is above the largest that is resolved."""
        top = np.array([LARGEST_EPSILON])
        spared = 0.0
        for pair, count in zip(self.pairs, self.counts, strict=True):
            worst = max(float(side[0]) for side in pair.dominating.values(top))
            spared += count * math.log1p(-min(worst, 1.0 - 1e-16))
        return -math.expm1(spared)

    @cached_property
    def survey(self) -> Survey:
        """The first look at every dominating pair."""
        return survey((pair.dominating for pair in self.pairs), self.counts)

    def grid(self, fraction: float) -> Grid:
        """One grid for all atoms; ``fraction`` is its spacing over the deviation of one step."""
        if fraction not in self._grids:
            self._grids[fraction] = self.survey.grid(fraction)
        return self._grids[fraction]

    def upper(self, grid: Grid) -> UpperSide:
        """The upper side on this grid."""
        if grid not in self._uppers:
            self._uppers[grid] = UpperSide(self.pairs, self.counts, grid)
        return self._uppers[grid]

    def lower(self, grid: Grid, *, mixed: bool = True) -> LowerCurve:
        """The lower side on this grid; without mixtures of orders if not ``mixed``."""
        if (grid, mixed) not in self._lowers:
            self._lowers[grid, mixed] = lower_side(
                self.pairs, self.counts, grid, self.relation, mixed=mixed
            )
        return self._lowers[grid, mixed]
