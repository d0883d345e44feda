"""Group profiles of a plan that releases several times on the same subset.

Compose inside, amplify outside: for every group size the releases on the subset are composed first,
by the same machinery as a whole plan, and the composed profile is what the stage around it
amplifies. Charging the releases as independent draws would be unsound.
"""

from __future__ import annotations

import numpy as np

from mustdp.accounting.atom_profiles import GroupProfile
from mustdp.accounting.plan import Atom, InEpoch, Plan, Repeat, Sequence, Subsample, atoms
from mustdp.amplification.stages import stage_profiles
from mustdp.errors import NotCovered
from mustdp.loss.curve import UpperCurve
from mustdp.loss.dots import DominatingPair
from mustdp.loss.points import survey
from mustdp.mechanisms.mechanism import Mechanism
from mustdp.mechanisms.noise import dual
from mustdp.mechanisms.profiles import GroupProfiles, SteeredProfiles
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.convex import chord, hull_slopes
from mustdp.numerics.tangents import TangentTable, two_sided
from mustdp.sampling.scheme import Multistage

_FRACTION = 0.05
_POINTS = 600
#: Deltas of the inner table are accurate down to this; below they are only upper bounds.
_SMALLEST = 1e-30


def group_profiles(plan: Plan, reach: float) -> GroupProfiles:
    """Certified group profiles of ``plan`` under replace_one, up to epsilon = ``reach``."""
    if isinstance(plan, Mechanism):
        return plan.profiles(plan.shift_for(2.0))
    if isinstance(plan, Subsample):
        if not isinstance(plan.scheme, Multistage):
            raise NotCovered("only fixed-size schemes can be nested")
        return stage_profiles(plan.scheme, group_profiles(plan.inner, reach), reach)
    if isinstance(plan, InEpoch):
        raise NotCovered("an epoch on a subset is not covered")
    if isinstance(plan, Repeat) and plan.count == 1:
        return group_profiles(plan.inner, reach)
    return ComposedProfiles(plan, reach)


class ComposedProfiles(SteeredProfiles):
    """Group profiles of a repeated plan or a sequence, tabulated and read off chords."""

    relative_error = 1e-12

    def __init__(self, plan: Repeat | Sequence, reach: float) -> None:
        super().__init__(reach)
        counted: dict[Atom, int] = atoms(plan)
        self._counts = list(counted.values())
        self._families = [group_profiles(atom, reach) for atom in counted]
        self._reach = reach
        self._points: dict[int, tuple[FloatArray, FloatArray]] = {}

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Chord values for eps >= 0, self-duality below."""
        columns = [
            dual(chord(*self._tabulated(int(g)), np.abs(epsilon[:, k])), epsilon[:, k])
            for k, g in enumerate(groups)
        ]
        return np.stack(columns, axis=1)

    def _table(self, group: int) -> TangentTable:
        epsilon, value = self._tabulated(group)
        return two_sided(epsilon, value, hull_slopes(epsilon, value))

    def _tabulated(self, group: int) -> tuple[FloatArray, FloatArray]:
        if group not in self._points:
            pairs = [DominatingPair.of(GroupProfile(family, group)) for family in self._families]
            grid = survey(pairs, self._counts).grid(_FRACTION)
            composed = UpperCurve(pairs, self._counts, grid)
            epsilon = np.concatenate([[0.0], np.geomspace(1e-5, 1.0, _POINTS)]) * self._reach
            value = np.minimum.accumulate(composed.curve(epsilon, _SMALLEST))
            self._points[group] = epsilon, value
        return self._points[group]
