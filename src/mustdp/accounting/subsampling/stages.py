"""The mixed-slope certificate of one stage around any group profiles, stages from the inside out,
and what their certificates cost to compute.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import NumericalFailure
from mustdp.mechanisms.contract import GroupProfiles, Steering, TabulatedProfiles
from mustdp.mechanisms.mechanism import dual
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import WorkEstimate, check_cost
from mustdp.numerics.convex import TangentTable, chord, increasing_root, two_sided
from mustdp.sampling.law import MultiplicityLaw, Stage, stage_law
from mustdp.sampling.schemes import Multistage, Poisson

# The mixed-slope certificate: one stage of subsampling around any group profiles.
#
# Theorem. Let a stage put J copies of the differing records into the batch, P(J = j) = rho_j, and
# let the inner mechanism have group profiles delta_j(alpha). For alpha >= 1 and any numbers alpha_j
# >= 0 with, for every k >= 1,
#
#     sum_{j<=k} rho_j alpha_j  <=  (alpha - 1) rho_0 + alpha sum_{1<=j<=k} rho_j              (*)
#
# the subsampled mechanism satisfies h(alpha) <= sum_{j>=1} rho_j delta_j(alpha_j) under
# replace_one. The proof is in docs/derivations/one-step.md.
#
# Every feasible choice is a certificate, so this file first looks for a good choice (equal slopes
# inside a first block, alpha_j = alpha behind it: the solution by pooling adjacent violators), then
# *makes* it feasible in floating point with a margin for the rounding of the law, and only then
# evaluates it. Everything is divided by alpha, so that no e^eps can overflow.

#: Entries of a table over epsilons and multiplicities that is worked on at once.
_LARGEST_MATRIX = 2_000_000
#: Where the common tangents jump over the budget by more than this, because profiles have kinks or
#: their tables are coarse, one slope for all is tried as well.
JUMP = 1e-3
#: Wider laws are coarsened. The proof then runs over cells of multiplicities: batches of cells
#: c' <= c differ in at most as many entries as the largest multiplicity of cell c.
MOST_GROUPS = GroupProfiles.most_groups


def certificate(
    law: MultiplicityLaw, profiles: GroupProfiles, epsilon: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Upper bound of h at e^epsilon (epsilon >= 0), and minus its slope in alpha.

    The first array is certified; the second only steers the stages around this one.
    """
    law = law.coarsened(profiles.most_groups, up=True)
    chunk = max(1, _LARGEST_MATRIX // max(1, law.positive.size))
    parts = [
        _certificate(law, profiles, epsilon[start : start + chunk])
        for start in range(0, epsilon.size, chunk)
    ]
    empty = np.empty(0)
    return (
        np.concatenate([empty, *(part[0] for part in parts)]),
        np.concatenate([empty, *(part[1] for part in parts)]),
    )


def _certificate(
    law: MultiplicityLaw, profiles: GroupProfiles, epsilon: FloatArray
) -> tuple[FloatArray, FloatArray]:
    rho, groups = law.positive, law.positive_values
    if rho.size == 0:
        return np.full(epsilon.size, law.cut), np.zeros(epsilon.size)
    capacity = -np.expm1(-epsilon)[:, None] * law.zero + np.cumsum(rho)
    jumped = np.zeros(epsilon.size, dtype=np.bool_)
    if rho.size == 1:
        logs = epsilon[:, None] + np.log(capacity / rho)
        slope = profiles.steering.slope_at(groups, logs)[:, 0] * (law.zero + rho[0])
    else:
        block = _first_block(rho, groups, profiles, epsilon, capacity)
        pooled = np.arange(rho.size) <= block[:, None]
        budget = epsilon + np.log(capacity[np.arange(epsilon.size), block])
        t, spare = common_tangent(rho, groups, profiles, budget, pooled)
        # Where tangents have stopped moving, or jump, before the capacity was used up, all members
        # of the block share what is left. One slope for all may then do better.
        logs = profiles.steering.tangent(groups, t)[0]
        missed = budget - _log_sum(np.where(pooled, logs + np.log(rho), -np.inf))
        jumped = np.abs(missed) > JUMP
        logs = np.where(pooled, logs + missed[:, None], epsilon[:, None])
        alone = profiles.steering.slope_at(groups, np.broadcast_to(epsilon[:, None], logs.shape))
        common = np.where(spare > 0, 0.0, profiles.steering.slope(t))[:, None]
        slope = np.einsum("ij,j->i", np.where(pooled, common, alone), rho)
        slope = law.zero * common[:, 0] + slope
    out = evaluate(law, profiles, feasible(law, logs, epsilon, capacity))
    again = np.flatnonzero(jumped & (out > 2.0 * law.cut))
    if again.size:
        level = epsilon[again] + np.log(capacity[again, -1] / law.eta)
        logs = np.repeat(level[:, None], rho.size, axis=1)
        logs = feasible(law, logs, epsilon[again], capacity[again])
        out[again] = np.minimum(out[again], evaluate(law, profiles, logs))
    return out, slope


def _first_block(
    rho: FloatArray,
    groups: FloatArray,
    profiles: GroupProfiles,
    epsilon: FloatArray,
    capacity: FloatArray,
) -> NDArray[np.intp]:
    """Last index of the block that shares one slope, for every epsilon.

    The block may end at K if its own tangent comes before that of K + 1 taken alone. The tangent
    parameters of the single members first fall, then rise, so the first such K is found by
    bisection.
    """
    alone = profiles.steering.parameter(
        groups, np.broadcast_to(epsilon[:, None], (epsilon.size, rho.size))
    )
    low = np.zeros(epsilon.size, dtype=np.intp)
    high = np.full(epsilon.size, rho.size - 1, dtype=np.intp)
    rows = np.flatnonzero(low < high)
    while rows.size:
        middle = (low[rows] + high[rows]) // 2
        t = alone[rows, middle + 1]
        finite = np.isfinite(t)
        logs = profiles.steering.tangent(groups, np.where(finite, t, 0.0))[0] - epsilon[rows, None]
        with np.errstate(over="ignore"):
            used = np.exp(logs) * rho
        within = np.arange(rho.size) <= middle[:, None]
        total = np.where(within, used, 0.0).sum(axis=1)
        ends = finite & (total >= capacity[rows, middle])
        high[rows] = np.where(ends, middle, high[rows])
        low[rows] = np.where(ends, low[rows], middle + 1)
        rows = rows[low[rows] < high[rows]]
    return high


def common_tangent(
    rho: FloatArray,
    groups: FloatArray,
    profiles: GroupProfiles,
    budget: FloatArray,
    pooled: NDArray[np.bool_],
) -> tuple[FloatArray, FloatArray]:
    """The tangent parameter t at which sum rho_j alpha_j(t) over the pooled j is e^budget.

    Also returns the log of what is left of the budget, which is positive only where all tangents
    have stopped moving before it was used up.
    """
    log_rho = np.log(rho)

    def excess(t: FloatArray, rows: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        logs, speed = profiles.steering.tangent(groups, t)
        logs = np.where(pooled[rows], logs + log_rho - budget[rows, None], -np.inf)
        top = logs.max(axis=1)
        weights = np.exp(logs - top[:, None])
        total = weights.sum(axis=1)
        return np.log(total) + top, (weights * speed).sum(axis=1) / total

    # No member may use more than the whole budget; if none uses more than its share, all fit.
    share = budget[:, None] - log_rho
    hi = _smallest(profiles.steering.parameter(groups, share), pooled)
    lo = _smallest(profiles.steering.parameter(groups, share - np.log(rho.size)), pooled)
    end = profiles.steering.saturation(groups)
    hi = np.minimum(hi, end)
    if not np.all(np.isfinite(hi) | np.isneginf(hi)):
        raise NumericalFailure(f"no common tangent found for log budgets {budget[:3]!r}")
    hi = np.where(np.isneginf(hi), -1e3, hi)
    lo = np.where(np.isfinite(lo), np.minimum(lo, hi), hi - 1e3)
    t = increasing_root(excess, lo, hi)
    spare = np.zeros(budget.size)
    at_end = np.flatnonzero(t >= end)
    if at_end.size:
        spare[at_end] = np.maximum(-excess(t[at_end], at_end)[0], 0.0)
    return t, spare


def _log_sum(logs: FloatArray) -> FloatArray:
    """Log of the sum of exponentials along each row."""
    top = logs.max(axis=1)
    return np.asarray(np.log(np.exp(logs - top[:, None]).sum(axis=1)) + top)


def _smallest(values: FloatArray, pooled: NDArray[np.bool_]) -> FloatArray:
    return np.asarray(np.where(pooled, values, np.inf).min(axis=1))


def margin(law: MultiplicityLaw) -> float:
    """Room left in (*) for the rounding of the law, of the sums and of exp(log alpha_j - eps).

    No alpha_j / alpha is above 1/rho_j, so the argument of that exponential is rounded by at most
    the unit roundoff times -log of the smallest rho_j.
    """
    depth = -float(np.log(law.positive.min(initial=1.0)))
    sums = (4.0 * law.probabilities.size + depth) * ROUNDOFF
    return 4.0 * (2.0 * law.relative_error + sums + 4e-16)


def rounded_down(logs: FloatArray) -> FloatArray:
    """Lower ``logs`` by one to two units in the last place, to cover a sum just rounded."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(logs), logs, logs - 1.5 * np.spacing(np.abs(logs)))


def feasible(
    law: MultiplicityLaw, logs: FloatArray, epsilon: FloatArray, capacity: FloatArray
) -> FloatArray:
    """Lower log alpha_j until (*) holds with its margin; ``capacity`` is its right side / alpha."""
    room = margin(law)
    limit = capacity * (1.0 - room / 2.0)
    logs = rounded_down(logs + np.log1p(-room))
    with np.errstate(over="ignore"):
        used = np.exp(logs - epsilon[:, None]) * law.positive
    broken = np.flatnonzero(np.any(~(np.cumsum(used, axis=1) <= limit), axis=1))
    if broken.size:
        spent = np.zeros(broken.size)
        for k, rho in enumerate(law.positive):
            left = np.maximum(limit[broken, k] - spent, 0.0) * (1.0 - 1e-15)
            share = np.minimum(np.nan_to_num(used[broken, k], nan=0.0, posinf=np.inf), left)
            with np.errstate(divide="ignore"):
                lowered = rounded_down(epsilon[broken] + np.log(share / rho))
            logs[broken, k] = np.where(share < used[broken, k], lowered, logs[broken, k])
            spent = spent + share
        used = np.exp(logs - epsilon[:, None]) * law.positive
        if not np.all(np.cumsum(used, axis=1) <= limit * (1.0 + room / 8.0)):
            raise NumericalFailure(
                f"the certificate's constraint could not be met for epsilon={epsilon[broken][:3]!r}"
            )
    return logs


def evaluate(law: MultiplicityLaw, profiles: GroupProfiles, logs: FloatArray) -> FloatArray:
    """Sum rho_j delta_j(alpha_j), rounded up, plus the mass that the law left out."""
    ruled_out = np.isneginf(logs)
    values = profiles.delta(law.positive_values, np.where(ruled_out, 0.0, logs))
    values = np.where(ruled_out, 1.0, values)
    slack = profiles.relative_error + law.relative_error + 2.0 * law.positive.size * ROUNDOFF
    # Not by a linear algebra library, whose threads would only wait for each other.
    total: FloatArray = np.einsum("ij,j->i", values, law.positive) * (1.0 + slack) + law.cut
    if not np.all((total >= 0) & np.isfinite(total)):
        raise NumericalFailure("a group profile returned a value that is not a number")
    return np.minimum(total, 1.0)


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
#: Points of the tables that steer, and of the chords of an inner stage.
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
        return certificate(self._law(group), self.inner, epsilon)

    def _law(self, group: int) -> MultiplicityLaw:
        return stage_law(self.stage, self.population, group, self._tail)

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
        first_look = np.geomspace(1e-14, 1.0, 75) * self._reach
        small = np.flatnonzero(self.one(group, first_look)[0] <= 10.0 * self._tail)
        return float(first_look[small[0]] if small.size else self._reach)

    def _table(self, group: int) -> TangentTable:
        epsilon = self.end(group) * np.linspace(0.0, 1.0, _STEERING_POINTS) ** 1.5
        return two_sided(epsilon, *self.one(group, epsilon))


class ThinnedProfiles(StagedProfiles):
    """The same where every entry is kept with the same chance: Poisson sampling inside a stage.

    Whichever entries are kept, they are kept on both sides; j that are kept and i of the others'
    differ in j entries, swapped or left out (docs/derivations/one-step.md).
    """

    def __init__(self, scheme: Poisson, inner: GroupProfiles, reach: float) -> None:
        super().__init__(Stage("wor", scheme.n), scheme.n, inner, reach)
        self._scheme = scheme

    def _law(self, group: int) -> MultiplicityLaw:
        return self._scheme.law(group, self._tail)


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
