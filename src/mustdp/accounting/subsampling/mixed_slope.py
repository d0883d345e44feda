"""The mixed-slope certificate: one stage of subsampling around any group profiles.

Theorem. Let a stage put J copies of the differing records into the batch, P(J = j) = rho_j, and let
the inner mechanism have group profiles delta_j(alpha). For alpha >= 1 and any numbers alpha_j >= 0
with, for every k >= 1,

    sum_{j<=k} rho_j alpha_j  <=  (alpha - 1) rho_0 + alpha sum_{1<=j<=k} rho_j              (*)

the subsampled mechanism satisfies h(alpha) <= sum_{j>=1} rho_j delta_j(alpha_j) under replace_one.
The proof is in docs/derivations/one-step.md.

Every feasible choice is a certificate, so this file first looks for a good choice (equal slopes
inside a first block, alpha_j = alpha behind it: the solution by pooling adjacent violators), then
*makes* it feasible in floating point with a margin for the rounding of the law, and only then
evaluates it. Everything is divided by alpha, so that no e^eps can overflow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import NumericalFailure
from mustdp.mechanisms.contract import GroupProfiles
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.convex import increasing_root
from mustdp.sampling.law import MultiplicityLaw

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
