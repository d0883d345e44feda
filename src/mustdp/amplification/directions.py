"""Add/remove neighbours of a fixed-size scheme, one direction at a time.

X has the records in question, X' has not; both draw batches of the same size. The batch law of X is
sum_j rho_j P_j with P_0 the law for X', so one side has a single component and the constraints of
the mixed-slope certificate shrink to one:

    remove  h(alpha) = min sum rho_j delta_j(alpha_j)        with sum rho_j alpha_j <= alpha - rho_0
    add     h(alpha) = min alpha sum rho_j delta_j(beta_j)/beta_j
                                                 with alpha (rho_0 + sum rho_j/beta_j) >= 1

For one stage directly around the noise both are attained (Neyman-Pearson: among sets of equal
probability under N(0), half-lines are best for every j at once). The same formulas, with the
Poisson law, give Poisson sampling (Zhu, Dong & Wang 2022, arXiv 2106.08567v4, Theorem 11).
"""

from __future__ import annotations

import numpy as np

from mustdp.amplification.mixed_slope import (
    JUMP,
    common_tangent,
    evaluate,
    margin,
    rounded_down,
)
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.profiles import GroupProfiles
from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.law import MultiplicityLaw


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
    return profiles.tangent(groups, t)[0]
