"""How much noise every release gets, settled and certified before any data are touched.

The noise is given in one of three ways: as a noise multiplier, as a total (epsilon, delta) that is
calibrated for the whole design, or as the per-query epsilon' of the MUST paper, reproduced under
the paper's name together with what that noise really guarantees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan
from mustdp.amplification.one_slope import base_epsilon
from mustdp.calibration.noise import calibrate_plan
from mustdp.errors import NumericalFailure
from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.mechanisms.gaussian_sigma import classical_sigma
from mustdp.mechanisms.mechanism import gaussian
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.resampling.designs import Design

PAPER = "per-query epsilon' of the MUST paper with the sensitivity of n records: not a guarantee"


@dataclass(frozen=True)
class Privacy:
    """What a run costs. ``epsilon`` is None where nothing is guaranteed at all."""

    noise_multiplier: float
    delta: float
    relation: Relation
    epsilon: Bounds | None
    source: str
    plan: Plan | None

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON; an infinite bound is None."""
        bounds = self.epsilon
        both = None
        if bounds is not None:
            upper = bounds.upper if math.isfinite(bounds.upper) else None
            both = {"lower": bounds.lower, "upper": upper}
        return {
            "epsilon": both,
            "delta": self.delta,
            "relation": self.relation,
            "noise_multiplier": self.noise_multiplier,
            "noise": self.source,
        }


def settle_noise(
    design: Design,
    *,
    queries: int = 1,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    epsilon_prime: float | None = None,
    relation: str | None = None,
) -> Privacy:
    """Settle the noise multiplier of one release of all ``queries`` together, and its cost.

    Exactly one of ``epsilon``, ``noise_multiplier`` and ``epsilon_prime`` is given. ``delta``
    defaults to n^-1.1 (to 1/n for the paper's epsilon').
    """
    checks.exactly_one(
        epsilon=epsilon, noise_multiplier=noise_multiplier, epsilon_prime=epsilon_prime
    )
    used = resolve_relation(design.scheme, relation)
    if delta is None:
        delta = min(0.5, design.n ** (-1.0 if epsilon_prime is not None else -1.1))
    delta = checks.real("delta", delta, at_least=SMALLEST_DELTA, below=1)
    if epsilon is not None:
        epsilon = checks.real("epsilon", epsilon, above=0, at_most=LARGEST_EPSILON)
        return _calibrated(design, epsilon, delta, used)
    if noise_multiplier is not None:
        z = checks.real("noise_multiplier", noise_multiplier, above=0, at_most=1e9)
        return _charged(design, z, delta, used, "noise multiplier as given")
    z = paper_multiplier(design, epsilon_prime, delta) / math.sqrt(queries)
    if design.poisson:
        # The paper divides by the random size of the subset; no sensitivity is known for that.
        return Privacy(z, delta, used, None, PAPER, None)
    return _charged(design, z, delta, used, PAPER)


def paper_multiplier(design: Design, epsilon_prime: float | None, delta: float) -> float:
    """The noise multiplier behind the paper's sigma for the epsilon' of one query on one subset.

    [Z] = Zhao, Zhou & Liu, arXiv 2312.13389, experiment 1: epsilon from epsilon' by inverting
    Theorem 4, sigma by the classical formula with the sensitivity of a statistic of all n records,
    where the subset has m. With D the sensitivity on m records the formula is given D m / n, and
    half of D is what one record contributes: z = sigma / (D / 2).
    """
    prime = checks.real("epsilon_prime", epsilon_prime, above=0, at_most=100)
    base = float(base_epsilon(prime, design.scheme.eta)[0])
    return 2.0 * classical_sigma(base, delta, design.size / design.n, beyond_proof=True)


@lru_cache(maxsize=256)
def _calibrated(design: Design, epsilon: float, delta: float, relation: Relation) -> Privacy:
    found = calibrate_plan(design.plan, epsilon=epsilon, delta=delta, relation=relation)
    return Privacy(
        found.noise_multiplier, delta, relation, found.epsilon,
        "calibrated for a certified epsilon", found.plan,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _charged(design: Design, z: float, delta: float, relation: Relation, source: str) -> Privacy:
    plan = design.plan(gaussian(noise_multiplier=z))
    try:
        bounds = account(plan, relation=relation).epsilon(delta)
    except NumericalFailure:
        bounds = Bounds(0.0, math.inf)  # nothing finite could be certified: say so, never a guess
    return Privacy(z, delta, relation, bounds, source, plan)
