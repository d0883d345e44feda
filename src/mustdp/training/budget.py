"""What a training run may spend, settled before the first step.

The noise of a run is given in one of three ways: as a noise multiplier, as a target
(epsilon, delta) that is calibrated and certified, or as the per-step epsilon' of the MUST paper,
which is reproduced under the paper's name together with the guarantee that noise really gives.
The budget holds the plan; the plan's scheme draws the batches, so what runs is what is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan, repeat, subsample
from mustdp.amplification.one_slope import base_epsilon
from mustdp.calibration.noise import calibrate
from mustdp.errors import NumericalFailure
from mustdp.limits import SMALLEST_DELTA
from mustdp.mechanisms.gaussian_sigma import analytic_sigma, classical_sigma
from mustdp.mechanisms.mechanism import gaussian
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.sampling.scheme import Scheme

PaperNoise = Literal["classical", "analytic"]


@dataclass(frozen=True)
class Spent:
    """What a run costs: bounds of epsilon at delta, under a relation, for so many steps."""

    epsilon: Bounds
    delta: float
    relation: Relation
    noise_multiplier: float
    steps: int
    scheme: Scheme
    source: str

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON; an infinite bound is None."""
        upper = self.epsilon.upper
        return {
            "epsilon": {
                "lower": self.epsilon.lower,
                "upper": upper if math.isfinite(upper) else None,
            },
            "delta": self.delta,
            "relation": self.relation,
            "noise_multiplier": self.noise_multiplier,
            "steps": self.steps,
            "scheme": self.scheme.describe(),
            "source": self.source,
        }


@dataclass(frozen=True)
class Budget:
    """A settled run: scheme, noise, number of steps, and where the noise came from."""

    scheme: Scheme
    noise_multiplier: float
    steps: int
    delta: float
    relation: Relation
    source: str

    def plan(self, steps: int | None = None) -> Plan:
        """The plan of the first ``steps`` steps (all of them by default)."""
        step = subsample(self.scheme, gaussian(noise_multiplier=self.noise_multiplier))
        return repeat(self.steps if steps is None else steps, step)

    def spent(self, steps: int | None = None) -> Spent:
        """What the first ``steps`` steps cost (all of them by default), certified."""
        done = self.steps if steps is None else checks.integer("steps", steps, 0, self.steps)
        bounds = Bounds(0.0, 0.0) if done == 0 else _epsilon(self, done)
        return Spent(
            bounds, self.delta, self.relation, self.noise_multiplier, done, self.scheme, self.source
        )


def settle(
    scheme: Scheme,
    *,
    steps: int,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    epsilon_prime: float | None = None,
    paper_noise: PaperNoise = "analytic",
    relation: str | None = None,
) -> Budget:
    """Settle the noise of a run of ``steps`` steps.

    Exactly one of ``noise_multiplier``, ``epsilon`` and ``epsilon_prime`` is given. ``delta``
    defaults to n^-1.1 (to 1/n for the paper's epsilon').
    """
    steps = checks.integer("steps", steps, 1, 10**9)
    used = resolve_relation(scheme, relation)
    checks.exactly_one(
        noise_multiplier=noise_multiplier, epsilon=epsilon, epsilon_prime=epsilon_prime
    )
    if delta is None:
        delta = min(0.5, scheme.n ** (-1.0 if epsilon_prime is not None else -1.1))
    delta = checks.real("delta", delta, at_least=SMALLEST_DELTA, below=1)
    if noise_multiplier is not None:
        z = checks.real("noise_multiplier", noise_multiplier, above=0, at_most=1e9)
        return Budget(scheme, z, steps, delta, used, "noise multiplier as given")
    if epsilon is not None:
        z = _calibrated(scheme, epsilon, delta, steps, used)
        return Budget(scheme, z, steps, delta, used, "calibrated for a certified epsilon")
    z = paper_multiplier(scheme, epsilon_prime, delta, paper_noise)
    return Budget(
        scheme, z, steps, delta, used,
        "per-step epsilon' of the MUST paper with sensitivity C/n: not a guarantee",
    )  # fmt: skip


def paper_multiplier(
    scheme: Scheme, epsilon_prime: float | None, delta: float, paper_noise: PaperNoise
) -> float:
    """The noise multiplier behind the paper's sigma for a per-step epsilon'.

    [Z] = Zhao, Zhou & Liu, arXiv 2312.13389, experiments 2 and 3: epsilon from epsilon' by
    inverting Theorem 4, sigma for (epsilon, delta) at sensitivity C/n, added to the *mean* of the
    clipped gradients of a batch of m. In units of the sum's noise that is z = m sigma / C.
    """
    prime = checks.real("epsilon_prime", epsilon_prime, above=0, at_most=100)
    checks.choice("paper_noise", paper_noise, ("classical", "analytic"))
    base = float(base_epsilon(prime, scheme.eta)[0])
    if paper_noise == "classical":
        sigma = classical_sigma(base, delta, 1.0 / scheme.n, beyond_proof=True)
    else:
        sigma = analytic_sigma(base, delta, 1.0 / scheme.n)
    return sigma * scheme.expected_size


@lru_cache(maxsize=256)
def _calibrated(
    scheme: Scheme, epsilon: float, delta: float, steps: int, relation: Relation
) -> float:
    found = calibrate(scheme, epsilon=epsilon, delta=delta, steps=steps, relation=relation)
    return found.noise_multiplier


@lru_cache(maxsize=256)
def _epsilon(budget: Budget, steps: int) -> Bounds:
    try:
        return account(budget.plan(steps), relation=budget.relation).epsilon(budget.delta)
    except NumericalFailure:
        # So little noise that no finite epsilon could be certified: say so, never a guess.
        return Bounds(0.0, math.inf)
