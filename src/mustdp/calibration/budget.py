"""What a job or a training run may spend: its noise, chosen and certified before data are touched.

A job says how a noise becomes its plan. The noise itself is stated as a noise multiplier, or as a
total (epsilon, delta) that is calibrated for the whole plan. What comes out holds the plan that is
run and charged, and says what it costs.

A budget is the noise of a number of steps, each on a fresh draw of one scheme or on the next batch
of an epoch. The plan's scheme draws the batches, so what runs is what is charged.

With banded noise, steps are correlated by a strategy with bands, and records take turns in as
many groups: the group's scheme is drawn from and charged.

The batches of an epoch depend on each other, so that no step of it has a price of its own. An epoch
is charged as a whole when its first batch is drawn: a run that stops within it, for whatever
reason, has released a part of what was charged. Only a budget that was made to end within an epoch
is charged for that part of its last one alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Banded, InEpoch, Plan, Subsample, atoms, steps_of
from mustdp.calibration.search import calibrate_plan
from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from mustdp.limits import DELTA_RANGE, LARGEST_NOISE, MOST_STEPS, warn_of_large_delta
from mustdp.mechanisms.contract import Mechanism
from mustdp.mechanisms.mechanism import gaussian
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.numerics.formatting import as_stated
from mustdp.sampling.epochs import Epoch, Sampling
from mustdp.sampling.schemes import Poisson, Scheme


class PlannedRun(Protocol):
    """What is to be run; equal jobs have equal plans, and calibrations are remembered by them."""

    @property
    def scheme(self) -> Sampling:
        """The scheme that draws from the records."""

    def plan(self, mechanism: Mechanism, /) -> Plan:
        """The plan with this noise in its place."""

    def __hash__(self) -> int: ...


GIVEN = "noise multiplier as given"
CALIBRATED = "calibrated for a certified epsilon"


@dataclass(frozen=True)
class PrivacySpent:
    """What a plan costs: bounds of epsilon at delta, under a relation.

    Without a ``plan`` nothing was released, or nothing is known that would guarantee anything; the
    upper bound of ``epsilon`` is then infinite.

    Attributes
    ----------
    epsilon : Bounds
        Bounds of epsilon at delta; the upper one is certified.
    delta : float
        The delta at which epsilon is stated.
    relation : Relation
        Which data sets are neighbours.
    noise_multiplier : float
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum.
    source : str
        Where the noise came from, in words.
    plan : Plan or None
        What was released, and is charged for.
    seeded : bool
        That the run is an experiment: anyone who knows the seed can subtract the noise, and
        ``epsilon`` is what the run would cost without a seed.
    dimension : int or None
        1 where every release was accounted for as a single number.
    group : int
        That epsilon holds for people with up to this many records.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.poisson(1000, 0.01)
    >>> budget = md.calibrated_budget(scheme, noise_multiplier=2.0, steps=100, delta=1e-5)
    >>> spent = budget.spent()
    >>> spent.certified, spent.steps, spent.relation.option
    (True, 100, 'add-remove')
    """

    epsilon: Bounds
    delta: float
    relation: Relation
    noise_multiplier: float
    source: str
    plan: Plan | None
    seeded: bool = False
    dimension: int | None = None
    group: int = 1

    @property
    def certified(self) -> bool:
        """Whether something finite is guaranteed for what was released."""
        return not self.seeded and math.isfinite(self.epsilon.upper)

    @property
    def steps(self) -> int:
        """Number of releases on a draw of their own, or on a batch of an epoch."""
        counted = {} if self.plan is None else atoms(self.plan)
        return sum(
            times * (atom.epoch.steps if isinstance(atom, InEpoch) else 1)
            for atom, times in counted.items()
        )

    @property
    def scheme(self) -> Sampling | None:
        """The scheme that every step draws by, if it is one and the same; or the epoch."""
        drawn = [] if self.plan is None else list(atoms(self.plan))
        whole = {
            atom.epoch.first(atom.epoch.bins) if isinstance(atom, InEpoch) else atom.scheme
            for atom in drawn
            if isinstance(atom, InEpoch | Subsample)
        }
        alone = len(drawn) == 1 or all(isinstance(atom, InEpoch) for atom in drawn)
        return whole.pop() if alone and len(whole) == 1 else None

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON; an infinite bound is None.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        finite = math.isfinite(self.epsilon.upper)
        both = {"lower": self.epsilon.lower, "upper": self.epsilon.upper if finite else None}
        cost = both if finite or self.plan is not None else None
        said = {"seeded": True, "epsilon_without_seed": cost} if self.seeded else {"epsilon": cost}
        return {
            **said,
            "delta": self.delta,
            "relation": self.relation.value,
            "noise_multiplier": self.noise_multiplier,
            "noise": self.source,
            "steps": self.steps,
            "scheme": None if self.scheme is None else self.scheme.describe(),
            **({} if self.dimension is None else {"dimension": self.dimension}),
            **({} if self.group == 1 else {"group": self.group}),
        }


@dataclass(frozen=True)
class NoisyPlan:
    """A plan with its noise in place, and where the noise came from."""

    plan: Plan | None
    noise_multiplier: float
    delta: float
    relation: Relation
    source: str
    #: Of every release, where it is known.
    dimension: int | None = None
    #: What the calibration that found the noise has certified already.
    known: Bounds | None = field(default=None, compare=False, repr=False)
    #: Records of one person.
    group: int = 1

    def spent(self) -> PrivacySpent:
        """What running the plan costs, certified."""
        epsilon = self.known
        if epsilon is None:
            sizes = self.dimension, self.group
            epsilon = certified_epsilon(self.plan, self.delta, self.relation, *sizes)
        return PrivacySpent(
            epsilon, self.delta, self.relation, self.noise_multiplier, self.source, self.plan,
            dimension=self.dimension, group=self.group,
        )  # fmt: skip


def plan_with_noise(
    job: PlannedRun,
    *,
    delta: float | None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    relation: str | None = None,
    dimension: int | None = None,
    group: int = 1,
) -> NoisyPlan:
    """The plan of a job with the noise that was stated, or that a target asks for.

    Exactly one of ``epsilon`` and ``noise_multiplier`` is given. ``dimension`` is that of every
    release, where the caller knows it.
    """
    checks.exactly_one(epsilon=epsilon, noise_multiplier=noise_multiplier)
    used = resolve_relation(job.scheme, relation)
    delta = required_delta(delta, job.scheme.n)
    warn_of_large_delta(delta, job.scheme.n)
    group = checks.integer("group", group, 1)
    if epsilon is not None:
        return _calibrated(job, epsilon, delta, used, dimension, group)
    z = checks.real("noise_multiplier", noise_multiplier, above=0, at_most=LARGEST_NOISE)
    plan = job.plan(gaussian(noise_multiplier=z))
    return NoisyPlan(plan, z, delta, used, GIVEN, dimension, group=group)


def required_delta(delta: float | None, n: int) -> float:
    """Check a delta, which has no default: what is small enough is the data holder's to say."""
    if delta is None:
        raise InvalidParameter.refusing(
            "delta",
            "must be given, well below one over the number of records: for n = "
            f"{n}, {as_stated(recommended_delta(n))} or less",
            "none",
        )
    return checks.real("delta", delta, **DELTA_RANGE)


def recommended_delta(n: int) -> float:
    """The largest power of ten that is at most 1/(10 n).

    >>> recommended_delta(10), recommended_delta(10_000), recommended_delta(60_000)
    (0.01, 1e-05, 1e-06)
    """
    return float(10.0 ** -math.ceil(1 + math.log10(n)))


@lru_cache(maxsize=256)
def _calibrated(
    job: PlannedRun,
    epsilon: float,
    delta: float,
    relation: Relation,
    dimension: int | None,
    group: int,
) -> NoisyPlan:
    found = calibrate_plan(
        job.plan, epsilon=epsilon, delta=delta, relation=relation, dimension=dimension, group=group
    )
    return NoisyPlan(
        found.plan, found.noise_multiplier, delta, relation, CALIBRATED, dimension,
        known=found.epsilon, group=group,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def certified_epsilon(
    plan: Plan | None,
    delta: float,
    relation: Relation,
    dimension: int | None = None,
    group: int = 1,
) -> Bounds:
    """Bounds of epsilon; infinite above where there is no plan or nothing finite is certified."""
    nothing = Bounds(0.0, math.inf)
    if plan is None:
        return nothing
    try:
        found = account(plan, relation=relation, dimension=dimension, group=group)
        return found.epsilon(delta)
    except NumericalFailure:
        # So little noise that no finite epsilon could be certified: say so, never a guess.
        return nothing


# Budgets: a number of steps on the batches of one scheme.


@dataclass(frozen=True)
class _Run:
    """A number of steps on fresh draws of a scheme, whatever their noise."""

    scheme: Sampling
    steps: int
    strategy: tuple[float, ...] = (1.0,)

    def plan(self, noise: Mechanism) -> Plan:
        bands = len(self.strategy)
        if bands == 1:
            return steps_of(self.scheme, self.steps, noise)
        rounds = steps_of(scheme_of_a_group(self.scheme, bands), -(-self.steps // bands), noise)
        norm = math.sqrt(sum(factor * factor for factor in self.strategy)) * (1.0 + 1e-12)
        return Banded(rounds, bands, norm)


@dataclass(frozen=True)
class Budget:
    """A run that is planned: scheme, noise, number of steps, and where the noise came from.

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
    group : int
        That epsilon holds for people with up to this many records; 1 for single records.
    strategy : tuple of float
        The first column of the matrix that correlates the noise of steps; (1.0,) where none does.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.poisson(1000, 0.01)
    >>> budget = md.calibrated_budget(scheme, noise_multiplier=2.0, steps=100, delta=1e-5)
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
    group: int = 1
    strategy: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        check_runs(self.scheme, self.relation)
        object.__setattr__(self, "strategy", check_strategy(self.strategy))
        if self.bands > 1:
            scheme_of_a_group(self.scheme, self.bands)

    @property
    def bands(self) -> int:
        """Over how many steps noise is correlated; 1 where every step has its own."""
        return len(self.strategy)

    @property
    def fresh_draws(self) -> Scheme:
        """The scheme, where every batch is drawn anew; epochs are refused."""
        if not isinstance(self.scheme, Scheme):
            raise NotCovered(f"batches must be drawn one by one here, got {self.scheme!r}")
        return self.scheme

    @property
    def epochs(self) -> float | None:
        """How many times the run reads the data, where it has epochs."""
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
        run = _Run(self.scheme, steps, self.strategy)
        return run.plan(gaussian(noise_multiplier=self.noise_multiplier))

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
        found = NoisyPlan(
            self.plan(done) if done else None,
            self.noise_multiplier,
            self.delta,
            self.relation,
            self.source,
            known=None if done else Bounds(0.0, 0.0),
            group=self.group,
        )
        return found.spent()


def calibrated_budget(
    scheme: Sampling,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    relation: str | None = None,
    group: int = 1,
    bands: int | Sequence[float] = 1,
) -> Budget:
    """Make the budget of a run: state its noise, or calibrate it, before data are read.

    Exactly one of ``noise_multiplier`` and ``epsilon`` is given.

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
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    group : int, default=1
        Epsilon holds for people with up to this many records, all of which may differ. A ledger is
        charged for the plan as it is.
    bands : int or sequence of float, default=1
        Over how many steps :class:`PrivateTrainer` correlates the noise (BandMF), so that the noise
        of later steps takes back some of that of earlier ones: by the banded square root strategy,
        or by the first column of a Toeplitz matrix, which begins with 1. Records are then split at
        random into as many groups, which take turns; ``scheme`` is Poisson sampling, with the rate
        of a step among all records.

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
    >>> budget = md.calibrated_budget(md.poisson(1000, 0.1), steps=50, epsilon=2, delta=1e-5)
    >>> md.account(budget.plan()).epsilon(delta=1e-5).upper <= 2
    True
    """
    check_runs(scheme, resolve_relation(scheme, relation))
    run = _Run(scheme, _steps(scheme, steps, epochs), strategy_of(bands))
    if len(run.strategy) > 1:
        scheme_of_a_group(scheme, len(run.strategy))
    found = plan_with_noise(
        run,
        delta=delta,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        relation=relation,
        group=group,
    )
    return Budget(
        scheme, found.noise_multiplier, run.steps, found.delta, found.relation, found.source, group,
        run.strategy,
    )  # fmt: skip


#: Factors of a strategy are multiples of this, so that sums of integers times them are exact.
STRATEGY_UNIT = 2.0**-10
#: Factors of a strategy at most, and their size: a sum of whole noise times factors has at most 24
#: bits more than the noise, and stays exact.
_MOST_BANDS = 4096
_LARGEST_FACTOR = 4.0


def strategy_of(bands: int | Sequence[float]) -> tuple[float, ...]:
    """The first column of a strategy: as given, or the banded square root.

    The banded square root (Kalinin & Lampert 2024, arXiv 2405.13763) has the first coefficients of
    (1 - x)^(-1/2), the square root of the matrix that adds up.

    >>> strategy_of(3)
    (1.0, 0.5, 0.375)
    """
    if isinstance(bands, Sequence) and not isinstance(bands, str):
        return check_strategy(bands)
    factors = [1.0]
    for k in range(1, checks.integer("bands", bands, 1, _MOST_BANDS)):
        factors.append(factors[-1] * (2 * k - 1) / (2 * k))
    return check_strategy(factors)


def check_strategy(factors: Sequence[float]) -> tuple[float, ...]:
    """Factors that begin with 1, rounded to multiples of :data:`STRATEGY_UNIT`."""
    if not 1 <= len(factors) <= _MOST_BANDS:
        raise InvalidParameter(
            f"bands must be from 1 to {_MOST_BANDS} factors, got {len(factors)} of them"
        )
    limits = {"at_least": -_LARGEST_FACTOR, "at_most": _LARGEST_FACTOR}
    found = [checks.real("bands", factor, **limits) for factor in factors]
    if found[0] != 1.0:
        raise InvalidParameter(f"bands must begin with the factor 1, got {found[0]!r}")
    return tuple(round(factor / STRATEGY_UNIT) * STRATEGY_UNIT for factor in found)


def scheme_of_a_group(scheme: Sampling, bands: int) -> Poisson:
    """How a group is drawn from when it is its turn, so that a step has the scheme's rate."""
    if type(scheme) is not Poisson:
        raise NotCovered(f"bands above 1 are covered for Poisson sampling, got {scheme!r}")
    if bands * scheme.rate > 1.0:
        raise InvalidParameter.refusing(
            "rate", f"must be at most 1/{bands}, since groups take turns", scheme.rate
        )
    return Poisson(max(1, scheme.n // bands), bands * scheme.rate)


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
            "shuffled batches can only be run under replace_one: removing a record moves later "
            "records to other batches, and leaves no slot blank"
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
