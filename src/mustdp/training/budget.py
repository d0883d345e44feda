"""What a training run may spend, settled before the first step.

A budget is settled noise (``calibration/settle.py``) for a number of steps, each on a fresh draw of
one scheme. It holds the plan; the plan's scheme draws the batches, so what runs is what is charged.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan, repeat, subsample
from mustdp.calibration.settle import PaperNoise, PaperStatement, Settled, Spent, settle_noise
from mustdp.limits import MOST_STEPS
from mustdp.mechanisms.mechanism import AdditiveNoise, gaussian
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.sampling.scheme import Scheme

_PAPER = "per-step epsilon' of the MUST paper with sensitivity C/n: not a guarantee"


@dataclass(frozen=True)
class _Run:
    """So many steps on fresh draws of a scheme, whatever their noise."""

    scheme: Scheme
    steps: int

    def plan(self, noise: AdditiveNoise) -> Plan:
        return repeat(self.steps, subsample(self.scheme, noise))


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
        run = _Run(self.scheme, self.steps if steps is None else steps)
        return run.plan(gaussian(noise_multiplier=self.noise_multiplier))

    def spent(self, steps: int | None = None) -> Spent:
        """What the first ``steps`` steps cost (all of them by default), certified."""
        done = self.steps if steps is None else checks.integer("steps", steps, 0, self.steps)
        settled = Settled(
            self.plan(done) if done else None,
            self.noise_multiplier,
            self.delta,
            self.relation,
            self.source,
            known=None if done else Bounds(0.0, 0.0),
        )
        return settled.spent()


def settle(
    scheme: Scheme,
    *,
    steps: int,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    epsilon_prime: float | None = None,
    paper_noise: PaperNoise = "analytic",
    relation: str | None = None,
) -> Budget:
    """Settle the noise of a run of ``steps`` steps, whose epsilon is stated at ``delta``.

    Exactly one of ``noise_multiplier``, ``epsilon`` and ``epsilon_prime`` is given.

    >>> import mustdp as md
    >>> budget = settle(md.poisson(1000, 0.1), steps=50, epsilon=2, delta=1e-5)
    >>> md.account(budget.plan()).epsilon(delta=1e-5).upper <= 2
    True
    """
    run = _Run(scheme, checks.integer("steps", steps, 1, MOST_STEPS))
    found = settle_noise(
        run,
        delta=delta,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        paper=None if epsilon_prime is None else _stated(scheme, epsilon_prime, paper_noise),
        relation=relation,
    )
    return Budget(
        scheme, found.noise_multiplier, run.steps, found.delta, found.relation, found.source
    )


def _stated(scheme: Scheme, epsilon_prime: float, paper_noise: PaperNoise) -> PaperStatement:
    """[Z] experiments 2 and 3: sensitivity C/n, for noise on the *mean* of a batch of m.

    In units of the sum's noise that is z = m sigma / C.
    """
    return PaperStatement(epsilon_prime, 1.0 / scheme.n, scheme.expected_size, _PAPER, paper_noise)
