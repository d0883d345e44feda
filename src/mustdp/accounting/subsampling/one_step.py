"""One draw of a subsampled mechanism: certified upper bounds, attained lower bounds, profiles.

Above, the mixed-slope certificate, stage by stage from the inside out; below, values that concrete
neighbouring data sets attain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mustdp.accounting.pld.discretise import attained_pairs
from mustdp.accounting.subsampling.one_slope import one_slope_bound
from mustdp.errors import NotCovered, NumericalFailure
from mustdp.limits import LARGEST_EPSILON
from mustdp.mechanisms.mechanism import (
    PROFILE_ERROR,
    GroupProfiles,
    Mechanism,
    Noise,
    Steering,
    TabulatedProfiles,
    dual,
)
from mustdp.mechanisms.relation import Relation, moves, resolve_relation, shift_of
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import WorkEstimate, check_cost, frozen
from mustdp.numerics.convex import TangentTable, chord, increasing_root, two_sided
from mustdp.sampling.schemes import (
    MultiplicityLaw,
    Multistage,
    Poisson,
    Scheme,
    Stage,
    TruncatedPoisson,
    stage_law,
)

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


def searched_slopes(
    law: MultiplicityLaw, profiles: GroupProfiles, epsilon: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.bool_]]:
    """Good slopes log alpha_j, not made feasible; the right side of (*) over alpha; minus the slope
    of the bound; and where the search had to jump.
    """
    rho, groups = law.positive, law.positive_values
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
    return logs, capacity, slope, jumped


def _certificate(
    law: MultiplicityLaw, profiles: GroupProfiles, epsilon: FloatArray
) -> tuple[FloatArray, FloatArray]:
    rho = law.positive
    if rho.size == 0:
        return np.full(epsilon.size, law.cut), np.zeros(epsilon.size)
    logs, capacity, slope, jumped = searched_slopes(law, profiles, epsilon)
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


# Values attained by concrete neighbouring data sets: certified lower bounds.
#
# With contributions of size C, shift s per copy and multiplicity law p, three families of pairs:
#
#   aligned    v = +C, everybody else and v' = -C:  sum_j p_j N(j s)    against  N(0)
#   reversed   the same pair, swapped:              N(0)                against  sum_j p_j N(j s)
#   symmetric  v = +C, v' = -C, all others 0:       sum_j p_j N(j s/2)  against  sum_j p_j N(-j s/2)
#
# N stands for the noise, in one dimension. Likelihood ratios are monotone, so the best set is a
# half-line; its end t is found numerically, and *any* t gives a valid lower bound. With L_j the
# log likelihood ratio of component j against N(0) at t, each value is written as a sum of profiles
# of the noise at L_j, which are positive, plus a remainder that vanishes at the best t: nothing
# cancels, and products of something huge with something tiny are formed in logarithms. What
# rounding, the error of the law and the mass it left out can take away is subtracted.


Rows = NDArray[np.intp]


def aligned(law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray) -> FloatArray:
    """H(sum_j p_j N(j s) || N(0)) at e^epsilon, epsilon >= 0, rounded down."""
    p, distance = _moved(law, shift)
    if p.size == 0:
        return np.zeros(epsilon.size)
    goal = epsilon + np.log(-np.expm1(-epsilon) * law.zero + law.eta)  # log(alpha - p_0)
    t = _half_line(p, distance, noise, goal)
    logs = noise.log_ratio(distance, t[:, None])[0]
    false_alarm = noise.log_tail(t)
    gained = np.exp(logs + false_alarm[:, None]) @ p
    # Components the law left out can but add to the first side; the second side is whole.
    lost = np.exp(goal + false_alarm) + law.cut * np.exp(epsilon + false_alarm)
    value = noise.profile(distance, logs) @ p + (gained - lost)
    nats = epsilon + np.maximum(logs.max(axis=1), 0.0) + np.abs(false_alarm)
    return _down(value, gained + lost, nats, law)


def reversed_pair(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> FloatArray:
    """H(N(0) || sum_j p_j N(j s)) at e^epsilon, epsilon >= 0, rounded down."""
    p, distance = _moved(law, shift)
    out = np.zeros(epsilon.size)
    with np.errstate(over="ignore"):
        needed = law.eta - law.zero * np.expm1(epsilon)  # 1 - alpha p_0
    live = np.flatnonzero(needed > 0)
    if p.size == 0 or live.size == 0:
        return out
    goal = np.log(needed[live]) - epsilon[live]
    t = _half_line(p, distance, noise, goal)
    logs = noise.log_ratio(distance, t[:, None])[0]
    with np.errstate(over="ignore"):
        weights = np.exp(logs + epsilon[live, None] + np.log(p))
        below = noise.tail(-t)
        value = (weights * noise.profile(distance, -logs)).sum(axis=1)
        value += (needed[live] - weights.sum(axis=1)) * below
        scale = (law.eta + weights.sum(axis=1)) * below
        nats = 2.0 * epsilon[live] - np.log(p.min())
        out[live] = _down(value - np.exp(epsilon[live]) * law.cut, scale, nats, law)
    return out


def symmetric(law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray) -> FloatArray:
    """H(sum_j p_j N(j s/2) || sum_j p_j N(-j s/2)) at e^epsilon, epsilon >= 0, rounded down."""
    moved, distance = _moved(law, shift / 2.0)
    if moved.size == 0:
        return np.zeros(epsilon.size)
    t = symmetric_threshold(law, noise, shift, epsilon)
    up = noise.log_ratio(distance, t[:, None])[0]
    down = noise.log_ratio(distance, -t[:, None])[0]
    tail, alpha = noise.log_tail(t), np.exp(epsilon)
    value = noise.profile(distance, up) @ moved
    value += alpha * ((np.exp(down) * noise.profile(distance, -down)) @ moved)
    gained = np.exp(up + tail[:, None]) @ moved
    lost = np.exp(down + (epsilon + tail)[:, None]) @ moved
    still = law.zero * np.exp(epsilon + tail)
    value += (gained - lost) + still * np.expm1(-epsilon)
    nats = epsilon + np.maximum(up.max(axis=1), 0.0) + np.abs(tail)
    remainder = gained + lost - 2.0 * still * np.expm1(-epsilon)
    return _down(value - alpha * law.cut, remainder, nats, law)


def symmetric_threshold(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> FloatArray:
    """The t from which on the first side of the symmetric pair is e^epsilon times as dense."""
    p, distance = _moved(law, shift / 2.0)
    if law.zero > 0:
        p, distance = np.append(p, law.zero), np.append(distance, 0.0)
    log_p = np.log(p)

    def excess(t: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
        up, up_speed = noise.log_ratio(distance, t[:, None])
        down, down_speed = noise.log_ratio(distance, -t[:, None])
        high, high_speed = _log_sum_and_speed(up + log_p, up_speed)
        low, low_speed = _log_sum_and_speed(down + log_p, down_speed)
        return high - low - epsilon[rows], high_speed + low_speed

    # For t >= 0 the lower side sums to at most one, so a single term of the upper side suffices.
    moved = distance > 0
    share = epsilon[:, None] - log_p[moved]
    far = noise.threshold(distance[moved], share).min(axis=1)
    far = np.minimum(far, noise.saturation(float(distance.max())))
    return increasing_root(excess, np.zeros(epsilon.size), np.maximum(far, 0.0))


def _moved(law: MultiplicityLaw, shift: float) -> tuple[FloatArray, FloatArray]:
    """Weights of the components that are moved at all, and how far."""
    return law.positive, law.positive_values * shift


def _half_line(p: FloatArray, distance: FloatArray, noise: Noise, goal: FloatArray) -> FloatArray:
    """The t with log sum_j p_j exp(log_ratio(distance_j, t)) = goal."""
    log_p = np.log(p)

    def excess(t: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
        logs, speed = noise.log_ratio(distance, t[:, None])
        value, derivative = _log_sum_and_speed(logs + log_p, speed)
        return value - goal[rows], derivative

    share = goal[:, None] - log_p
    high = np.minimum(
        noise.threshold(distance, share).min(axis=1), noise.saturation(float(distance[-1]))
    )
    low = noise.threshold(distance, share - np.log(p.size)).min(axis=1)
    high = np.where(np.isfinite(high), high, 0.0)
    low = np.where(np.isfinite(low), np.minimum(low, high), np.minimum(high, 0.0) - 1.0)
    return increasing_root(excess, low, high)


def _log_sum_and_speed(logs: FloatArray, speed: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log of the sum of exponentials along each row, and its derivative."""
    top = logs.max(axis=1)
    weights = np.exp(logs - top[:, None])
    total = weights.sum(axis=1)
    return np.log(total) + top, (weights * speed).sum(axis=1) / total


def _down(
    value: FloatArray, remainder: FloatArray, nats: FloatArray, law: MultiplicityLaw
) -> FloatArray:
    """Subtract what rounding and the error of the law can have added.

    ``remainder`` is the size of the terms that nearly cancel; they are exponentials of sums of
    numbers of size ``nats``.
    """
    rounding = 8.0 * (law.probabilities.size + 16.0) * ROUNDOFF
    error = (4.0 * law.relative_error + rounding) * (np.abs(value) + remainder)
    lowered = value * (1.0 - PROFILE_ERROR) - error - 8.0 * ROUNDOFF * nats * remainder
    return np.where(np.isfinite(lowered), np.clip(lowered, 0.0, 1.0), 0.0)


# Add/remove neighbours of a fixed-size scheme, one direction at a time.
#
# X has the records in question, X' has not; both draw batches of the same size. The batch law of X
# is sum_j rho_j P_j with P_0 the law for X', so one side has a single component and the
# constraints of the mixed-slope certificate shrink to one:
#
#     remove  h(alpha) = min sum rho_j delta_j(alpha_j)        with sum rho_j alpha_j <= alpha -
#     rho_0 add     h(alpha) = min alpha sum rho_j delta_j(beta_j)/beta_j
#                                                  with alpha (rho_0 + sum rho_j/beta_j) >= 1
#
# For one stage directly around the noise both are attained (Neyman-Pearson: among sets of equal
# probability under N(0), half-lines are best for every j at once). The same formulas, with the
# Poisson law, give Poisson sampling (Zhu, Dong & Wang 2022, arXiv 2106.08567v4, Theorem 11).


def remove_direction(
    law: MultiplicityLaw, profiles: GroupProfiles, epsilon: FloatArray
) -> FloatArray:
    """Upper bound of H(X || X') at e^epsilon, epsilon >= 0."""
    law = law.coarsened(profiles.most_groups, up=True)
    if law.positive.size == 0:
        return np.full(epsilon.size, law.cut)
    room = margin(law)
    capacity = (-np.expm1(-epsilon) * law.zero + law.eta) * (1.0 - room)
    logs = _tangents(law, profiles, epsilon + np.log(capacity))
    with np.errstate(over="ignore"):
        used = np.exp((logs - epsilon[:, None]) + np.log(law.positive)).sum(axis=1)
    # Use up the budget exactly, whether the search ended a hair off or the tangents stopped moving.
    missed = np.log(capacity / used)
    out = evaluate(law, profiles, rounded_down(logs + missed[:, None]))
    jumped = np.flatnonzero((np.abs(missed) > JUMP) & (out > 2.0 * law.cut))
    if jumped.size:
        level = rounded_down(epsilon[jumped] + np.log(capacity[jumped] / law.eta))
        equal = np.repeat(level[:, None], law.positive.size, axis=1)
        out[jumped] = np.minimum(out[jumped], evaluate(law, profiles, equal))
    return out


def add_direction(law: MultiplicityLaw, profiles: GroupProfiles, epsilon: FloatArray) -> FloatArray:
    """Upper bound of H(X' || X) at e^epsilon, epsilon >= 0; zero once e^epsilon rho_0 >= 1."""
    law = law.coarsened(profiles.most_groups, up=True)
    if law.positive.size == 0:
        return np.full(epsilon.size, law.cut)
    room = margin(law)
    with np.errstate(over="ignore"):
        grown = law.zero * np.expm1(epsilon)
        # (1 - alpha rho_0), padded for the rounding of the law and for the mass it left out.
        needed = (law.eta - grown) + room * (law.eta + grown) + law.cut
    out = np.zeros(epsilon.size)
    live = np.flatnonzero(needed > 0)
    if live.size:
        need = needed[live] * (1.0 + room)
        # From here on ``logs`` are log(1/beta_j).
        logs = _tangents(law, profiles, np.log(need) - epsilon[live])
        with np.errstate(over="ignore"):
            got = np.exp((logs + epsilon[live, None]) + np.log(law.positive)).sum(axis=1)
        missed = np.log(need / got)
        logs = -rounded_down(-logs - missed[:, None])
        # X' is one component of X: H(X' || X) <= 1 - alpha rho_0 whatever the mechanism.
        out[live] = np.minimum(_added(law, profiles, logs, epsilon[live]), need)
        jumped = live[(np.abs(missed) > JUMP) & (out[live] > 0)]
        if jumped.size:
            level = np.log(needed[jumped] * (1.0 + room) / law.eta) - epsilon[jumped]
            equal = np.repeat(-rounded_down(-level)[:, None], law.positive.size, axis=1)
            out[jumped] = np.minimum(out[jumped], _added(law, profiles, equal, epsilon[jumped]))
    return np.minimum(out, 1.0)


def _added(
    law: MultiplicityLaw, profiles: GroupProfiles, logs: FloatArray, epsilon: FloatArray
) -> FloatArray:
    """Sum alpha rho_j delta_j(beta_j) / beta_j for log(1/beta_j) = ``logs``, rounded up."""
    weights = np.exp((logs + epsilon[:, None]) + np.log(law.positive))
    total = (weights * profiles.delta(law.positive_values, -logs)).sum(axis=1)
    if not np.all(total >= 0):
        raise NumericalFailure(f"no bound found for epsilon={epsilon[:3]!r}")
    return np.asarray(total * (1.0 + profiles.relative_error + margin(law)))


def _tangents(law: MultiplicityLaw, profiles: GroupProfiles, budget: FloatArray) -> FloatArray:
    """Log alpha_j on one common tangent, about where sum rho_j alpha_j is e^budget."""
    rho, groups = law.positive, law.positive_values
    if rho.size == 1:
        return np.asarray(budget - np.log(rho[0]))[:, None]
    pooled = np.ones((budget.size, rho.size), dtype=np.bool_)
    t, _ = common_tangent(rho, groups, profiles, budget, pooled)
    return profiles.steering.tangent(groups, t)[0]


# Poisson sampling when records are replaced: exact for noise on a bounded sum, for groups too.
#
# J of the g records are taken, P(J = j) = rho_j, binomial; each of them moves the sum by at most
# half the shift s away from where it stands without them. (This is so for contributions in a ball,
# of which s is the diameter. A shift that was stated says nothing of the kind: a count of ones and
# zeros moves by s when a one is left out. It gets the general certificate.) For a set S let x_j be
# its probability with j of the records taken, w_i with i of their substitutes, x_0 = w_0. Any j of
# the ones and any i of the others move the sum apart by at most (i + j) s/2, so for all beta
#
#     x_j <= delta_{(i+j) s/2}(beta) + beta w_i.
#
# With cap_0 = (alpha - 1) rho_0 and cap_i = alpha rho_i, let any shares lambda_i sum to one and any
# u_j > 0 be given. With beta_ji = (cap_i / lambda_i) u_j / sum_k rho_k u_k the terms in w_i vanish
# from P(S) - alpha Q(S) = sum_j rho_j x_j - sum_i cap_i w_i (over j >= 1, i >= 0), and
#
#     h(alpha) <= sum_i lambda_i sum_{j>=1} rho_j delta_{(i+j) s/2}(beta_ji).
#
# The best choice is read off the threshold t of the pair sum_j rho_j N(j s/2) against sum_i rho_i
# N(-i s/2): u_j = f(t - j s/2), lambda_i in proportion to cap_i f(t + i s/2). All beta_ji are then
# the likelihood ratios at t, and the bound is attained by that pair. For g = 1 it is the
# dominating pair of Lebeda, Regehr, Kamath & Steinke 2024, arXiv 2405.20769v1.


#: Chances below this are too small to be divided by.
RAREST = 1e-280
#: Wider laws are coarsened upwards: cells of multiplicities stand for the largest of them.
MOST_TAKEN = 128
#: Entries of a table over epsilons and multiplicities that is worked on at once.
_LARGEST_CUBE = 2_000_000


def replaced_records(
    law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray
) -> FloatArray:
    """Upper bound at e^epsilon, epsilon >= 0, for the law of the records under Poisson sampling."""
    if law.positive.size == 0:
        return np.full(epsilon.size, law.cut)
    law = law.coarsened(MOST_TAKEN, up=True)
    chunk = max(1, _LARGEST_CUBE // (law.positive.size * (law.positive.size + 1)))
    parts = [
        _replaced(law, noise, shift, epsilon[start : start + chunk])
        for start in range(0, epsilon.size, chunk)
    ]
    return np.concatenate([np.empty(0), *parts])


def _replaced(law: MultiplicityLaw, noise: Noise, shift: float, epsilon: FloatArray) -> FloatArray:
    half = shift / 2.0
    rho, taken = law.positive, law.positive_values
    t = symmetric_threshold(law, noise, shift, epsilon)[:, None]
    # Shares of the records taken: log of u_j / sum_k rho_k u_k.
    u = noise.log_ratio(taken * half, t)[0]
    u = u - _log_sum(u + np.log(rho))[:, None]
    with np.errstate(divide="ignore"):
        # log of (alpha - 1) rho_0, which is -inf for alpha = 1 and for rho_0 = 0
        idle = epsilon + np.log(-np.expm1(-epsilon)) + np.log(law.zero)
    caps = np.column_stack([idle, epsilon[:, None] + np.log(rho)])
    others = np.append(0.0, taken)
    away = np.column_stack([np.zeros(epsilon.size), noise.log_ratio(taken * half, -t)[0]])
    shares = caps + away
    shares = shares - _log_sum(shares)[:, None]
    used = np.isfinite(shares)
    level = np.where(used, caps - np.where(used, shares, 0.0), 0.0)
    betas = level[:, :, None] + u[:, None, :]
    # Rounding may have used up to a few units in the last place of every logarithm involved.
    size = 16.0 + 2.0 * others.size + epsilon[:, None, None] + np.abs(betas)
    size = size + np.abs(level)[:, :, None] + 2.0 * np.abs(u)[:, None, :]
    size = size + np.abs(np.where(used, shares, 0.0))[:, :, None] - np.log(rho)
    room = 8.0 * ROUNDOFF * size + 2.0 * law.relative_error
    distance = (others[:, None] + taken) * half
    values = np.maximum(noise.profile(distance, betas - room), noise.smallest)
    bound = np.einsum("ei,eij,j->e", np.exp(shares), values, rho)
    rounding = PROFILE_ERROR + 4.0 * law.relative_error + 8.0 * others.size * ROUNDOFF
    bound = bound * (1.0 + rounding)
    if not np.all(bound >= 0):
        raise NumericalFailure(f"no bound found for epsilon={epsilon[:3]!r} at shift {shift!r}")
    return np.asarray(np.minimum(bound + law.cut, 1.0))


class ThinnedSums(ThinnedProfiles):
    """Poisson sampling inside a stage, of a sum of contributions in a ball with noise on it.

    A batch of a stage differs in at most ``group`` entries, each of which is kept or not: records
    that are replaced under Poisson sampling.
    """

    def __init__(
        self, scheme: Poisson, inner: GroupProfiles, noise: Noise, shift: float, reach: float
    ) -> None:
        super().__init__(scheme, inner, reach)
        self._noise, self._shift = noise, shift

    def one(self, group: int, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The smaller of both bounds; slopes only steer."""
        value, slope = super().one(group, epsilon)
        law = self._law(group)
        if law.eta >= RAREST:
            value = np.minimum(value, replaced_records(law, self._noise, self._shift, epsilon))
        return value, slope


# One application of a subsampled mechanism: certified upper bound and attained lower bound.


Direction = Literal["both", "remove", "add"]

#: Largest epsilon of a one-step profile; beyond it e^epsilon is out of any practical range.
LARGEST_OF_ONE_STEP = 600.0


@dataclass(frozen=True, eq=False)
class OneStep:
    """Bounds of delta for one application, at each epsilon.

    Attributes
    ----------
    scheme : Scheme
        How batches are drawn.
    mechanism : Mechanism
        The noise.
    relation : Relation
        Which data sets are neighbours.
    shift : float or None
        How far one copy moves the output, over the scale of the noise; None for a custom mechanism.
    group : int
        How many records differ.
    epsilon : ndarray
        The epsilons.
    upper : ndarray
        Certified: holds for every pair of neighbouring data sets.
    lower : ndarray
        The largest of ``attained``.
    attained : mapping of str to ndarray
        Deltas of families of concrete pairs of data sets, by name.
    one_slope : ndarray or None
        The paper's theorem read as a bound; None where it does not apply.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.one_step(md.wor(1000, 10), md.gaussian(shift=0.5), epsilon=[0.1, 0.5])
    >>> bool((found.lower <= found.upper).all()), found.group
    (True, 1)
    """

    scheme: Scheme
    mechanism: Mechanism
    relation: Relation
    shift: float | None
    group: int
    epsilon: FloatArray
    upper: FloatArray
    lower: FloatArray
    attained: Mapping[str, FloatArray]
    one_slope: FloatArray | None


def one_step(
    scheme: Scheme,
    mechanism: Mechanism,
    epsilon: ArrayLike,
    *,
    relation: str | None = None,
    group: int = 1,
) -> OneStep:
    """Bound delta(epsilon) of ``mechanism`` applied once to one draw of ``scheme``.

    Further parameters are those of :func:`account`.

    Parameters
    ----------
    scheme : Scheme
        How batches are drawn.
    mechanism : Mechanism
        The noise, of a known size.
    epsilon : array_like
        The epsilons to ask about, from 0 to 600.

    Returns
    -------
    OneStep
        A lower and an upper delta at each epsilon.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        No theorem of this package covers what was asked.

    Examples
    --------
    >>> from mustdp import gaussian, must_ow
    >>> step = one_step(must_ow(1000, 100, 100), gaussian(shift=0.5), epsilon=0.5)
    >>> print(f"{step.lower[0]:.5e} {step.upper[0]:.5e}")
    4.58172e-04 4.58172e-04
    """
    eps = checks.reals("epsilon", epsilon, at_least=0, at_most=LARGEST_OF_ONE_STEP)
    used = resolve_relation(scheme, relation)
    size = checks.integer("group", group, 1, scheme.n)
    shift = shift_of(mechanism, scheme, used)
    profiles = mechanism.profiles(shift)
    upper = upper_bound(scheme, mechanism, eps, relation=used, group=size)
    one_slope = _one_slope(scheme, profiles, used, size, eps)
    if one_slope is not None and not _is_exact(scheme, used):
        upper = np.minimum(upper, one_slope)
    families = attained_values(scheme, mechanism, eps, relation=used, group=size)
    lower = np.max(np.stack([np.zeros(eps.size), *families.values()]), axis=0)
    arrays = [eps, upper, lower, *families.values(), *([] if one_slope is None else [one_slope])]
    for array in arrays:
        checks.frozen(array)
    return OneStep(
        scheme, mechanism, used, shift, size, eps, upper, lower,
        MappingProxyType(families), one_slope,
    )  # fmt: skip


def upper_bound(
    scheme: Scheme,
    mechanism: Mechanism,
    epsilon: FloatArray,
    *,
    relation: str,
    direction: Direction = "both",
    group: int = 1,
    inside: GroupProfiles | None = None,
) -> FloatArray:
    """Certified upper bound at epsilon >= 0; under add_remove one direction can be asked for.

    ``inside`` is what :func:`staged_inside` made of the stages within the first, if it is known.
    """
    used = Relation.read(relation)
    if isinstance(scheme, TruncatedPoisson):
        return _truncated(scheme, mechanism, epsilon, used, direction, group)
    profiles = mechanism.profiles(shift_of(mechanism, scheme, used))
    if used == Relation.REPLACE_ONE:
        if isinstance(scheme, Poisson):
            return _poisson_replace(scheme, mechanism, profiles, epsilon, group)
        law, inner = _outermost(scheme, profiles, group, epsilon, inside)
        return certificate(law, inner, epsilon)[0]
    if isinstance(scheme, Poisson):
        law, inner = scheme.law(group), profiles
    else:
        first = scheme.reduced[0] if isinstance(scheme, Multistage) else None
        if first is not None and first.kind == "wor" and first.size > scheme.n - group:
            raise NotCovered.refusing(
                "relation",
                f"must be {{replace_one}} here: {{add_remove}} compares n = {scheme.n} records "
                f"with {scheme.n - group}, from which {first.size} cannot be drawn without "
                "replacement",
                "{add_remove}",
                mentions=("replace_one", "add_remove"),
            )
        law, inner = _outermost(scheme, profiles, group, epsilon, inside)
    parts = []
    if direction != "add":
        parts.append(remove_direction(law, inner, epsilon))
    if direction != "remove":
        parts.append(add_direction(law, inner, epsilon))
    return np.asarray(np.max(np.stack(parts), axis=0))


def attained_values(
    scheme: Scheme,
    mechanism: Mechanism,
    epsilon: FloatArray,
    *,
    relation: str,
    group: int = 1,
) -> dict[str, FloatArray]:
    """Lower bounds by family of concrete pairs; empty for a mechanism known only by its profile."""
    used = Relation.read(relation)
    shift = mechanism.shift_for(moves(scheme, used))
    noise = mechanism.attained(shift)
    if noise is None:
        return {}
    law = scheme.law(group)
    families: dict[str, FloatArray] = {}
    wholly = _moves_wholly(scheme, mechanism, used)
    if not isinstance(noise, Noise):
        replaced = used == Relation.REPLACE_ONE
        for name, pair in attained_pairs(noise, law, shift or 0.0, replaced=replaced).items():
            if wholly or name == "symmetric":
                families[name] = np.array([pair.attained(one) for one in epsilon.tolist()])
        return families
    shift = checks.real("shift", shift, above=0)
    if wholly:
        families["aligned"] = aligned(law, noise, shift, epsilon)
        families["reversed"] = reversed_pair(law, noise, shift, epsilon)
    if used == Relation.REPLACE_ONE:
        families["symmetric"] = symmetric(law, noise, shift, epsilon)
    return families


def _outermost(
    scheme: Scheme,
    profiles: GroupProfiles,
    group: int,
    epsilon: FloatArray,
    inside: GroupProfiles | None,
) -> tuple[MultiplicityLaw, GroupProfiles]:
    """The first stage's law and the group profiles of all that happens inside it."""
    if not isinstance(scheme, Multistage):
        raise NotCovered(f"no certificate for a scheme of type {type(scheme).__name__}")
    if inside is None:
        inside = staged_inside(scheme, profiles, float(np.max(epsilon)))
    return stage_law(scheme.reduced[0], scheme.n, group, TAIL), inside


def _truncated(
    scheme: TruncatedPoisson,
    mechanism: Mechanism,
    epsilon: FloatArray,
    relation: Relation,
    direction: Direction,
    group: int,
) -> FloatArray:
    """Poisson sampling with a cap, given how many of the other records are drawn.

    While all fit, this is Poisson sampling. Else records that are drawn take the places of others,
    which counts as swapping them (docs/derivations/one-step.md).
    """
    if not mechanism.covers_left_out:
        raise NotCovered(
            f"a {mechanism.name} profile does not say both what swapping a record and what leaving "
            "it out does, which truncated Poisson sampling needs; use another scheme"
        )
    fits = upper_bound(
        scheme.poisson, mechanism, epsilon, relation=relation, direction=direction, group=group
    )
    swapped, found = mechanism.profiles(mechanism.shift_for(2.0)), fits
    for full, law in _crowds(scheme, relation, group):
        if relation == Relation.REPLACE_ONE:
            crowded = certificate(law, swapped, epsilon)[0]
        else:
            parts = []
            if direction != "add":
                parts.append(remove_direction(law, swapped, epsilon))
            if direction != "remove":
                parts.append(add_direction(law, swapped, epsilon))
            crowded = np.max(np.stack(parts), axis=0)
        mixed = fits + full * np.maximum(crowded - fits, 0.0)
        found = np.maximum(found, mixed * (1.0 + 4.0 * ROUNDOFF))
    return np.minimum(found, 1.0)


#: Crowded batches keep a record this much less often before that is looked at, and how closely.
_KEPT_LESS, _SIZES = 0.99, 24


def _crowds(
    scheme: TruncatedPoisson, relation: Relation, group: int
) -> Iterator[tuple[float, MultiplicityLaw]]:
    """Chances of a crowded batch, and what is kept of the records then; the worst of all counts.

    Under add_remove there may be fewer records than n: a batch is less often crowded then, and
    keeps a record more often. Numbers of records are taken in ranges.
    """
    full, law = scheme.overflow(group), scheme.poisson.law(group, TAIL)
    if full == 0.0:
        return
    if group > 1 or scheme.kept(scheme.n) > _KEPT_LESS * scheme.rate:
        yield full, law
        return
    if relation == Relation.REPLACE_ONE:
        yield full, Poisson(scheme.n, scheme.kept(scheme.n)).law(1, TAIL)
        return
    sizes = np.unique(np.rint(np.geomspace(scheme.cap, scheme.n, _SIZES)).astype(np.int64))
    for least, most in itertools.pairwise(sizes.tolist()):
        full = scheme.resized(most).overflow(1)
        if full > 0.0:
            yield full, Poisson(most, scheme.kept(least + 1)).law(1, TAIL)


def _poisson_replace(
    scheme: Poisson,
    mechanism: Mechanism,
    profiles: GroupProfiles,
    epsilon: FloatArray,
    group: int,
) -> FloatArray:
    """Poisson under replace_one: exact for records of a sum, the certificate otherwise."""
    if not mechanism.covers_left_out:
        raise NotCovered(
            f"a {mechanism.name} profile does not say what leaving a record out does, which "
            "Poisson sampling under replace_one needs; use add_remove or a fixed-size scheme"
        )
    # Small groups have a whole law; of larger ones what is cut off is added to delta.
    law = scheme.law(group) if group <= MOST_TAKEN else scheme.law(group, TAIL)
    if law.eta < RAREST:  # what is not taken tells nothing: the chance itself is the bound
        return np.full(epsilon.size, min(1.0, law.eta * (1.0 + 1e-9) + law.cut))
    shift = mechanism.shift_for(2.0)
    noise = mechanism.attained(shift)
    if not mechanism.in_a_ball or shift is None or not isinstance(noise, Noise):
        # Swapping a record and leaving it out may both move the result by the whole shift.
        return certificate(law, profiles, epsilon)[0]
    return replaced_records(law, noise, shift, epsilon)


def _moves_wholly(scheme: Scheme, mechanism: Mechanism, relation: Relation) -> bool:
    """Whether a record can move the result by the whole shift away from where others leave it.

    In a ball its place must be filled for that, or be empty and the shift that of one record.
    """
    filled = not scheme.leaves_empty or relation == Relation.ADD_REMOVE
    return filled or not mechanism.in_a_ball


def _is_exact(scheme: Scheme, relation: Relation) -> bool:
    return isinstance(scheme, Poisson) or relation == Relation.ADD_REMOVE


def _one_slope(
    scheme: Scheme, profiles: GroupProfiles, relation: Relation, group: int, epsilon: FloatArray
) -> FloatArray | None:
    """The paper's bound where it is valid: its own relation, for groups too."""
    if isinstance(scheme, TruncatedPoisson):
        return None
    if isinstance(scheme, Poisson) != (relation == Relation.ADD_REMOVE):
        return None
    return one_slope_bound(scheme.law(group), profiles, epsilon)


# Upper profiles of one atom, as frozen objects that are called with epsilons.
#
# Each turns what describes an atom into a certified profile at epsilon >= 0, rounded up. They are
# objects rather than functions inside functions so that they can be compared, sent and read.

#: Looks at a profile that are kept.
_KEPT = 12


@dataclass(frozen=True, eq=False)
class SubsampledProfile:
    """A mechanism on one draw of a scheme, in one direction or in the worse of both."""

    scheme: Scheme
    mechanism: Mechanism
    relation: Relation
    direction: Direction = "both"
    group: int = 1

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons; the last looks are kept."""
        key = epsilon.tobytes()
        seen = self._looks.get(key)
        if seen is None:
            if len(self._looks) >= _KEPT:
                self._looks.clear()
            seen = self._looks[key] = frozen(upper_bound(
                self.scheme, self.mechanism, epsilon, relation=self.relation,
                direction=self.direction, group=self.group, inside=self._inside,
            ))  # fmt: skip
        return seen

    @cached_property
    def _looks(self) -> dict[bytes, FloatArray]:
        return {}

    @cached_property
    def _inside(self) -> GroupProfiles | None:
        """The stages within the first, whose tables serve every look at this profile."""
        if not isinstance(self.scheme, Multistage) or len(self.scheme.reduced) < 2:
            return None
        profiles = self.mechanism.profiles(shift_of(self.mechanism, self.scheme, self.relation))
        return staged_inside(self.scheme, profiles, LARGEST_EPSILON)


@dataclass(frozen=True, eq=False)
class OneSlopeProfile:
    """The same by the paper's theorem, in which one slope serves every multiplicity."""

    law: MultiplicityLaw
    profiles: GroupProfiles

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        return one_slope_bound(self.law, self.profiles, epsilon)


@dataclass(frozen=True, eq=False)
class ReusedProfile:
    """A subset that several releases share: the certificate around what was composed inside."""

    law: MultiplicityLaw
    inside: GroupProfiles

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        return certificate(self.law, self.inside, epsilon)[0]


@dataclass(frozen=True, eq=False)
class ReusedDirection:
    """The same under add_remove, where the place of a record stays empty: one of two directions."""

    law: MultiplicityLaw
    inside: GroupProfiles
    remove: bool

    def __call__(self, epsilon: FloatArray) -> FloatArray:
        """The profile at many epsilons."""
        bound = remove_direction if self.remove else add_direction
        return bound(self.law, self.inside, epsilon)
