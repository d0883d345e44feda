"""The noise of a job, settled and certified before any data are touched.

Whatever is to be run says how a noise becomes its plan. The noise itself is stated in one of three
ways: as a noise multiplier, as a total (epsilon, delta) that is calibrated for the whole plan, or
as the epsilon' of the MUST paper, reproduced under the paper's name together with what that noise
really guarantees. What comes out holds the plan that is run and charged, and says what it costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import InEpoch, Plan, Subsample, atoms
from mustdp.accounting.subsampling.one_slope import base_epsilon
from mustdp.calibration.noise import calibrate_plan
from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from mustdp.limits import LARGEST_EPSILON_PRIME, LARGEST_NOISE, SMALLEST_DELTA, warn_of_large_delta
from mustdp.mechanisms.contract import Mechanism
from mustdp.mechanisms.mechanism import analytic_sigma, classical_sigma, gaussian
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.numerics.formatting import as_stated
from mustdp.sampling.epochs import Sampling
from mustdp.sampling.schemes import Scheme

#: Which Gaussian calibration the paper's epsilon' goes through.
PaperNoise = Literal["classical", "analytic"]


class Job(Protocol):
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

    Examples
    --------
    >>> import mustdp as md
    >>> budget = md.settle(md.poisson(1000, 0.01), noise_multiplier=2.0, steps=100, delta=1e-5)
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
        }


@dataclass(frozen=True)
class Settled:
    """A plan whose noise is settled, and where the noise came from."""

    plan: Plan | None
    noise_multiplier: float
    delta: float
    relation: Relation
    source: str
    #: Of every release, where it is known.
    dimension: int | None = None
    #: What the calibration that found the noise has certified already.
    known: Bounds | None = field(default=None, compare=False, repr=False)

    def spent(self) -> PrivacySpent:
        """What running the plan costs, certified."""
        epsilon = self.known
        if epsilon is None:
            epsilon = certified_epsilon(self.plan, self.delta, self.relation, self.dimension)
        return PrivacySpent(
            epsilon, self.delta, self.relation, self.noise_multiplier, self.source, self.plan,
            dimension=self.dimension,
        )  # fmt: skip


@dataclass(frozen=True)
class PaperStatement:
    """The MUST paper's own statement of the noise: epsilon' of one application.

    [Z] = Zhao, Zhou & Liu, arXiv 2312.13389: epsilon comes from epsilon' by inverting Theorem 4,
    and sigma from (epsilon, delta) by a Gaussian formula with a ``sensitivity`` in units of what
    one record contributes. ``scale`` turns that sigma into a noise multiplier. ``source`` says in
    words what was assumed; it is not a guarantee.
    """

    epsilon_prime: float
    sensitivity: float
    scale: float
    source: str
    noise: PaperNoise = "classical"

    def multiplier(self, scheme: Scheme, delta: float) -> float:
        """The noise multiplier behind the paper's sigma."""
        prime = checks.real(
            "epsilon_prime", self.epsilon_prime, above=0, at_most=LARGEST_EPSILON_PRIME
        )
        checks.choice("paper_noise", self.noise, ("classical", "analytic"))
        base = float(base_epsilon(prime, scheme.eta)[0])
        if self.noise == "classical":
            sigma = classical_sigma(base, delta, self.sensitivity, beyond_proof=True)
        else:
            sigma = analytic_sigma(base, delta, self.sensitivity)
        return self.scale * sigma


def settle_noise(
    job: Job,
    *,
    delta: float | None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    paper: PaperStatement | None = None,
    relation: str | None = None,
    dimension: int | None = None,
) -> Settled:
    """Settle the noise of a job.

    Exactly one of ``epsilon``, ``noise_multiplier`` and ``paper`` is given. ``dimension`` is that
    of every release, where the caller knows it.
    """
    checks.exactly_one(epsilon=epsilon, noise_multiplier=noise_multiplier, epsilon_prime=paper)
    used = resolve_relation(job.scheme, relation)
    delta = required_delta(delta, job.scheme.n)
    warn_of_large_delta(delta, job.scheme.n)
    if epsilon is not None:
        return _calibrated(job, epsilon, delta, used, dimension)
    if noise_multiplier is not None:
        z = checks.real("noise_multiplier", noise_multiplier, above=0, at_most=LARGEST_NOISE)
        source = GIVEN
    elif paper is not None:
        if not isinstance(job.scheme, Scheme):
            raise NotCovered("epsilon_prime must be left out for epochs: the paper has none")
        z, source = paper.multiplier(job.scheme, delta), paper.source
    return Settled(job.plan(gaussian(noise_multiplier=z)), z, delta, used, source, dimension)


def required_delta(delta: float | None, n: int) -> float:
    """Check a delta, which has no default: what is small enough is the data holder's to say."""
    if delta is None:
        raise InvalidParameter.refusing(
            "delta",
            "must be given, well below one over the number of records: for n = "
            f"{n}, {as_stated(recommended_delta(n))} or less",
            "none",
        )
    return checks.real("delta", delta, at_least=SMALLEST_DELTA, below=1)


def recommended_delta(n: int) -> float:
    """The largest power of ten that is at most 1/(10 n).

    >>> recommended_delta(10), recommended_delta(10_000), recommended_delta(60_000)
    (0.01, 1e-05, 1e-06)
    """
    return float(10.0 ** -math.ceil(1 + math.log10(n)))


@lru_cache(maxsize=256)
def _calibrated(
    job: Job, epsilon: float, delta: float, relation: Relation, dimension: int | None
) -> Settled:
    found = calibrate_plan(
        job.plan, epsilon=epsilon, delta=delta, relation=relation, dimension=dimension
    )
    return Settled(
        found.plan, found.noise_multiplier, delta, relation, CALIBRATED, dimension,
        known=found.epsilon,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def certified_epsilon(
    plan: Plan | None, delta: float, relation: Relation, dimension: int | None = None
) -> Bounds:
    """Bounds of epsilon; infinite above where there is no plan or nothing finite is certified."""
    nothing = Bounds(0.0, math.inf)
    if plan is None:
        return nothing
    try:
        return account(plan, relation=relation, dimension=dimension).epsilon(delta)
    except NumericalFailure:
        # So little noise that no finite epsilon could be certified: say so, never a guess.
        return nothing
