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
from numpy.typing import NDArray

from mustdp.amplification.mixed_slope import common_tangent, evaluate, margin
from mustdp.mechanisms.profiles import GroupProfiles
from mustdp.sampling.law import MultiplicityLaw

FloatArray = NDArray[np.float64]


def remove_direction(
    law: MultiplicityLaw, profiles: GroupProfiles, epsilon: FloatArray
) -> FloatArray:
    """Upper bound of H(X || X') at e^epsilon, epsilon >= 0."""
    if law.positive.size == 0:
        return np.full(epsilon.size, law.cut)
    room = margin(law)
    capacity = (-np.expm1(-epsilon) * law.zero + law.eta) * (1.0 - room)
    logs, spare = _tangents(law, profiles, epsilon + np.log(capacity))
    logs = logs + np.minimum(spare, room)[:, None]
    used = np.exp(logs - epsilon[:, None]) @ law.positive
    # The root finder may end a hair above the budget: scale back onto it.
    logs = logs + np.minimum(0.0, np.log(capacity / used))[:, None]
    return evaluate(law, profiles, logs)


def add_direction(law: MultiplicityLaw, profiles: GroupProfiles, epsilon: FloatArray) -> FloatArray:
    """Upper bound of H(X' || X) at e^epsilon, epsilon >= 0; zero once e^epsilon rho_0 >= 1."""
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
        logs = _tangents(law, profiles, np.log(need) - epsilon[live])[0]
        got = np.exp(logs + epsilon[live, None]) @ law.positive
        logs = logs + np.maximum(0.0, np.log(need / got))[:, None]
        weights = np.exp(logs + epsilon[live, None])
        values = weights * profiles.delta(law.positive_values, -logs)
        slack = profiles.relative_error + room
        out[live] = (values @ law.positive) * (1.0 + slack)
    return np.minimum(out, 1.0)


def _tangents(
    law: MultiplicityLaw, profiles: GroupProfiles, budget: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log alpha_j on one common tangent that uses up e^budget."""
    rho, groups = law.positive, law.positive_values
    if rho.size == 1:
        return (budget - np.log(rho[0]))[:, None], np.zeros(budget.size)
    pooled = np.ones((budget.size, rho.size), dtype=np.bool_)
    t, spare = common_tangent(rho, groups, profiles, budget, pooled)
    return profiles.tangent(groups, t)[0], spare
