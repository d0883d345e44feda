"""Stages around a mechanism, from the inside out, and what their certificates cost to compute."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from mustdp.accounting.subsampling.mixed_slope import MOST_GROUPS, certificate
from mustdp.mechanisms.contract import GroupProfiles, Steering, TabulatedProfiles
from mustdp.mechanisms.laws import dual
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.checks import WorkEstimate, check_cost
from mustdp.numerics.convex import TangentTable, chord, two_sided
from mustdp.sampling.law import Stage, stage_law
from mustdp.sampling.schemes import Multistage

# What the certificate of a scheme costs, estimated from the widths of its stages' laws.
#
# A stage asks the profiles inside it for every multiplicity that its law gives a record. Around
# plain noise that is a formula. Around further stages a profile is a certificate itself: at as
# many points as the loss is looked at, and from the third stage on at the points of a table, for
# every group size that can enter. So the cost is the sum over stages of (group sizes that enter) x
# (points) x (multiplicities). The seconds for each were measured on one core (MUSTww of 1000 of
# 1000 twice: 2.8 s; with a third such stage: 65 s) and are right within a factor of three.
#
# Where two stages are so wide that their certificate would take minutes (MUSTww of 50 records with
# b = m = 10000), the first one tells fewer multiplicities apart: neighbours count as the largest of
# them, which is looser by a few percent, holds all the same, and takes seconds.


#: Points at which a loss is looked at, and those of one table of a stage inside others.
_LOOKS, _TABLE = 3000, 1671
#: Seconds for a value of noise, and for one read off tables.
_PLAIN, _TABULATED = 2e-7, 1.2e-6
#: Bytes of the tangents of one profile, kept for every law that asks for it.
_TANGENTS = 4202 * 8
#: A certificate of two stages is to take no more seconds than this.
_SOON = 20.0


@lru_cache(maxsize=256)
def certificate_cost(
    n: int, stages: tuple[Stage, ...], tail: float, outer: int = MOST_GROUPS
) -> WorkEstimate:
    """The cost of certifying a loss of ``stages`` on ``n`` records around additive noise.

    ``outer`` is how many multiplicities the first stage may tell apart.
    """
    seconds, held = 0.0, 0.0
    population, entering, largest = n, 1, 1
    for level, stage in enumerate(stages):
        # Laws are widest where half of the entries are special.
        widest = stage_law(stage, population, min(largest, max(1, population // 2)), tail)
        groups = min(MOST_GROUPS if level else outer, widest.positive.size)
        points = _LOOKS if level < 2 else _TABLE
        seconds += entering * points * groups * (_PLAIN if level < 2 else _TABULATED)
        if 0 < level < len(stages) - 1:
            held += entering * groups * _TANGENTS
        law = stage_law(stage, population, largest, tail)
        largest = max(1, int(law.positive_values[-1])) if law.positive.size else 1
        entering = groups if level == 0 else largest
        population = stage.size
    return WorkEstimate(seconds, held)


def outer_groups(n: int, stages: tuple[Stage, ...], tail: float) -> int:
    """How many multiplicities the first stage may tell apart for an answer in seconds.

    As many as ever, where fewer would not bring that about.
    """
    fewer = (MOST_GROUPS >> k for k in range(4))
    soon = (g for g in fewer if certificate_cost(n, stages, tail, g).seconds <= _SOON)
    return next(soon, MOST_GROUPS)


# Stages around a mechanism, from the inside out: profiles in, profiles out.
#
# A stage turns the group profiles of what happens inside it into group profiles of the whole, so
# stages nest to any depth. A group of g records that enters a stage leaves it as j entries with the
# stage's multiplicity law started at g.


#: Mass a stage's law may leave out; it is added to delta.
TAIL = 1e-36
#: An inner stage is asked at alpha_j <= alpha / rho_j, and rho_j is at least about the tail.
DEPTH = math.log(1.0 / TAIL)
_STEERING_POINTS = 96
_CHORD_POINTS = 1500


class StagedProfiles(TabulatedProfiles):
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

    @property
    def steering(self) -> Steering:
        """As the tabulated family."""
        return self._inner

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
