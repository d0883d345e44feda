"""Stages around a mechanism, from the inside out: profiles in, profiles out.

A stage turns the group profiles of what happens inside it into group profiles of the whole, so
stages nest to any depth. A group of g records that enters a stage leaves it as j entries with the
stage's multiplicity law started at g.
"""

from __future__ import annotations

import math

import numpy as np

from mustdp.amplification.effort import certificate_cost, outer_groups
from mustdp.amplification.mixed_slope import certificate
from mustdp.mechanisms.noise import dual
from mustdp.mechanisms.profiles import GroupProfiles, SteeredProfiles
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.convex import chord
from mustdp.numerics.cost import check_cost
from mustdp.numerics.tangents import TangentTable, two_sided
from mustdp.sampling.law import stage_law
from mustdp.sampling.scheme import Multistage
from mustdp.sampling.stage import Stage

#: Mass a stage's law may leave out; it is added to delta.
TAIL = 1e-36
#: An inner stage is asked at alpha_j <= alpha / rho_j, and rho_j is at least about the tail.
DEPTH = math.log(1.0 / TAIL)
_STEERING_POINTS = 96
_CHORD_POINTS = 1500


class StagedProfiles(SteeredProfiles):
    """Group profiles of one stage of subsampling around ``inner``."""

    relative_error = 0.0  # the certificate has already been rounded up

    def __init__(
        self, stage: Stage, population: int, inner: GroupProfiles, reach: float, tail: float = TAIL
    ) -> None:
        self.stage, self.population, self.inner = stage, population, inner
        self._reach, self._tail = reach, tail
        super().__init__(reach)

    def one(self, group: int, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Certified profile of one group size at epsilon >= 0, and minus its slope in alpha."""
        law = stage_law(self.stage, self.population, group, self._tail)
        return certificate(law, self.inner, epsilon)

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Certified values, column by column."""
        columns = [
            dual(self.one(int(g), np.abs(epsilon[:, k]))[0], epsilon[:, k])
            for k, g in enumerate(groups)
        ]
        return np.stack(columns, axis=1)

    def slope_at(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Slopes by the envelope theorem for a single column, else from the tables."""
        if groups.size == 1 and np.all(epsilon >= 0):
            return self.one(int(groups[0]), epsilon[:, 0])[1][:, None]
        return self.slope(self.parameter(groups, epsilon))

    def end(self, group: int) -> float:
        """An epsilon beyond which the profile is negligible, or the reach if that comes first."""
        scout = np.geomspace(1e-14, 1.0, 75) * self._reach
        small = np.flatnonzero(self.one(group, scout)[0] <= 10.0 * self._tail)
        return float(scout[small[0]] if small.size else self._reach)

    def _table(self, group: int) -> TangentTable:
        epsilon = self.end(group) * np.linspace(0.0, 1.0, _STEERING_POINTS) ** 1.5
        return two_sided(epsilon, *self.one(group, epsilon))


class ChordProfiles(GroupProfiles):
    """Another family, read off chords in alpha between tabulated points: above it, and cheap."""

    relative_error = 1e-15

    def __init__(self, inner: StagedProfiles) -> None:
        self._inner = inner
        self._points: dict[int, tuple[FloatArray, FloatArray]] = {}

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Chord values for eps >= 0, self-duality below."""
        columns = [
            dual(self._chord(int(g), np.abs(epsilon[:, k])), epsilon[:, k])
            for k, g in enumerate(groups)
        ]
        return np.stack(columns, axis=1)

    def tangent(self, groups: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As the tabulated family."""
        return self._inner.tangent(groups, t)

    def parameter(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """As the tabulated family."""
        return self._inner.parameter(groups, epsilon)

    def slope(self, t: FloatArray) -> FloatArray:
        """As the tabulated family."""
        return self._inner.slope(t)

    def saturation(self, groups: FloatArray) -> float:
        """As the tabulated family."""
        return self._inner.saturation(groups)

    def _chord(self, group: int, epsilon: FloatArray) -> FloatArray:
        if group not in self._points:
            grid = self._inner.end(group) * np.linspace(0.0, 1.0, _CHORD_POINTS) ** 1.5
            self._points[group] = grid, self._inner.one(group, grid)[0]
        return chord(*self._points[group], epsilon)


def stage_profiles(scheme: Multistage, inner: GroupProfiles, reach: float) -> StagedProfiles:
    """Group profiles of all stages of a scheme around ``inner``, up to epsilon = ``reach``."""
    inside = staged_inside(scheme, inner, reach)
    return StagedProfiles(scheme.reduced[0], scheme.n, inside, reach)


def staged_inside(scheme: Multistage, inner: GroupProfiles, reach: float) -> GroupProfiles:
    """Wrap ``inner`` in every stage of a scheme but the first; ``reach`` is the largest epsilon.

    Around a stage that is itself wrapped in two or more, values are read off chords of a table:
    without it the cost would be the product of the stages' group numbers.
    """
    stages = scheme.reduced
    check_cost("stages", "a certificate", certificate_cost(scheme.n, stages, TAIL))
    profiles = inner
    for level in range(len(stages) - 1, 0, -1):
        population = stages[level - 1].size
        profiles = StagedProfiles(stages[level], population, profiles, reach + level * DEPTH)
        if level > 1:
            profiles = ChordProfiles(profiles)
    if len(stages) > 1:
        profiles.most_groups = outer_groups(scheme.n, stages, TAIL)
    return profiles
