"""What a training run may spend, settled before the first step.

A budget is settled noise (``calibration/settle.py``) for a number of steps, each on a fresh draw of
one scheme or on the next batch of an epoch. It holds the plan; the plan's scheme draws the batches,
so what runs is what is charged.

The batches of an epoch depend on each other, so that no step of it has a price of its own. An epoch
is charged as a whole when its first batch is drawn: a run that stops within it, for whatever
reason, has released a part of what was charged. Only a budget that was settled to end within an
epoch is charged for that part of its last one alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan, steps_of
from mustdp.calibration.settle import (
    PaperNoise,
    PaperStatement,
    PrivacySpent,
    Settled,
    settle_noise,
)
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.limits import MOST_STEPS
from mustdp.mechanisms.contract import Mechanism
from mustdp.mechanisms.mechanism import gaussian
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.sampling.epochs import Epoch, Sampling
from mustdp.sampling.schemes import Scheme

_PAPER = "per-step epsilon' of the MUST paper with sensitivity C/n: not a guarantee"


@dataclass(frozen=True)
class _Run:
    """A number of steps on fresh draws of a scheme, whatever their noise."""

    scheme: Sampling
    steps: int

    def plan(self, noise: Mechanism) -> Plan:
        return steps_of(self.scheme, self.steps, noise)


@dataclass(frozen=True)
class Budget:
    """A settled run: scheme, noise, number of steps, and where the noise came from.

    Attributes
    ----------
    scheme : Scheme or Epoch
        How batches are drawn.
    noise_multiplier : float
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum.
    steps : int
        Number of steps, each on a batch of its own.
    delta : float
        The delta at which epsilon is stated.
    relation : Relation
        Which data sets are neighbours.
    source : str
        Where the noise came from, in words.

    Examples
    --------
    >>> import mustdp as md
    >>> budget = md.settle(md.poisson(1000, 0.01), noise_multiplier=2.0, steps=100, delta=1e-5)
    >>> budget.steps, budget.relation.option
    (100, 'add-remove')
    >>> budget.spent().epsilon.upper < 1.0
    True
    """

    scheme: Sampling
    noise_multiplier: float
    steps: int
    delta: float
    relation: Relation
    source: str

    def __post_init__(self) -> None:
        check_runs(self.scheme, self.relation)

    @property
    def fresh_draws(self) -> Scheme:
        """The scheme, where every batch is drawn anew; epochs are refused."""
        if not isinstance(self.scheme, Scheme):
            raise NotCovered(f"batches must be drawn one by one here, got {self.scheme!r}")
        return self.scheme

    @property
    def epochs(self) -> float | None:
        """How many times the run goes through the data, where it goes by epochs."""
        return self.steps / self.scheme.bins if isinstance(self.scheme, Epoch) else None

    def plan(self, steps: int | None = None) -> Plan:
        """What the first steps are charged as.

        Parameters
        ----------
        steps : int, default=None
            How many steps are made; None means all of them.

        Returns
        -------
        Plan
            Every epoch begun is part of it as a whole.
        """
        steps = self.steps if steps is None else self.begun(steps)
        return _Run(self.scheme, steps).plan(gaussian(noise_multiplier=self.noise_multiplier))

    def begun(self, steps: int) -> int:
        """The steps that are charged once some are made: those of every epoch begun.

        Parameters
        ----------
        steps : int
            How many steps are made.

        Returns
        -------
        int
            At least as many.
        """
        if not isinstance(self.scheme, Epoch):
            return steps
        return min(-(-steps // self.scheme.bins) * self.scheme.bins, max(steps, self.steps))

    def spent(self, steps: int | None = None) -> PrivacySpent:
        """What the first steps cost, certified.

        Parameters
        ----------
        steps : int, default=None
            How many steps are made, from 0 to all; None means all of them.

        Returns
        -------
        PrivacySpent
            Bounds of epsilon at the budget's delta.
        """
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
    scheme: Sampling,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    epsilon_prime: float | None = None,
    paper_noise: PaperNoise = "analytic",
    relation: str | None = None,
) -> Budget:
    """Settle the noise of a run, before any data are touched.

    Exactly one of ``noise_multiplier``, ``epsilon`` and ``epsilon_prime`` is given.

    Parameters
    ----------
    scheme : Scheme or Epoch
        How batches are drawn.
    steps : int, default=None
        Number of steps, each on a batch of its own, from 1 to 1e9.
    epochs : int, default=None
        Number of whole epochs, in place of ``steps`` where ``scheme`` is an epoch.
    delta : float
        The delta at which epsilon is stated, well below 1/n; it has no default.
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    epsilon : float, default=None
        What the certified epsilon of the whole run must not exceed; the noise is calibrated for it.
    epsilon_prime : float, default=None
        The MUST paper's epsilon' of one step, whose noise is reproduced as published and is *not* a
        guarantee.
    paper_noise : {"analytic", "classical"}, default="analytic"
        Which Gaussian calibration ``epsilon_prime`` uses.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.

    Returns
    -------
    Budget
        What is run and charged.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        No theorem of this package covers the request.
    NumericalFailure
        No number that can be trusted was found.

    Examples
    --------
    >>> import mustdp as md
    >>> budget = settle(md.poisson(1000, 0.1), steps=50, epsilon=2, delta=1e-5)
    >>> md.account(budget.plan()).epsilon(delta=1e-5).upper <= 2
    True
    """
    check_runs(scheme, resolve_relation(scheme, relation))
    run = _Run(scheme, _steps(scheme, steps, epochs))
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


def check_runs(scheme: Sampling, relation: Relation) -> None:
    """Refuse epochs that are charged as something else than what would be run."""
    if not isinstance(scheme, Epoch):
        return
    if scheme.steps != scheme.bins:
        raise InvalidParameter(
            f"scheme must be a whole epoch of {scheme.bins} batches, got the first {scheme.steps}; "
            "steps says how many of them are made"
        )
    if scheme.fixed_size and relation == Relation.ADD_REMOVE:
        raise NotCovered(
            "shuffled batches are run under replace_one alone: without a record the order of all "
            "others falls into other batches, and no place is left empty"
        )


def _steps(scheme: Sampling, steps: int | None, epochs: int | None) -> int:
    if epochs is None:
        if steps is None:
            raise InvalidParameter("steps (or, for epochs, epochs) must be given, got none")
        return checks.integer("steps", steps, 1, MOST_STEPS)
    if steps is not None:
        raise InvalidParameter(f"steps must be left out beside epochs={epochs!r}, got {steps!r}")
    if not isinstance(scheme, Epoch):
        raise InvalidParameter(
            "epochs must be left out for a scheme that draws every batch anew, got "
            f"{epochs!r}; steps says how many"
        )
    return checks.integer("epochs", epochs, 1, MOST_STEPS // scheme.bins) * scheme.bins


def _stated(scheme: Sampling, epsilon_prime: float, paper_noise: PaperNoise) -> PaperStatement:
    """[Z] experiments 2 and 3: sensitivity C/n, for noise on the *mean* of a batch of m.

    In units of the sum's noise that is z = m sigma / C.
    """
    return PaperStatement(epsilon_prime, 1.0 / scheme.n, scheme.expected_size, _PAPER, paper_noise)
