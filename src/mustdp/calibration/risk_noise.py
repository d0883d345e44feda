"""The smallest noise that keeps an attacker down: a true-positive rate or an advantage as target.

The search is the one for epsilon (``search.py``): what must not be exceeded is the attacker's gain
over guessing, a certified true-positive rate less the false-positive rate, or the advantage itself.
Both fall as the noise grows. What is returned was accounted for and found within the target.
Kulynych et al. 2024 (arXiv 2407.02191) calibrate to such targets with privacy loss distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from mustdp.accounting.account import Account, account, in_words
from mustdp.accounting.plan import Plan, steps_of
from mustdp.accounting.risk import USUAL_FPR, Risk
from mustdp.calibration.results import FoundNoise, noise_limit
from mustdp.calibration.search import SMALLEST, smallest_noise
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.mechanisms.contract import Mechanism
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.sampling.epochs import Sampling

#: No gain over guessing below this can be asked for: bounds are not that fine.
_SMALLEST_GAIN = 1e-9
#: A noise is close enough if it reaches the first share of the target; the second is aimed at.
_NEAR, _AIM = 1.0 - 2e-3, 1.0 - 8e-4
#: Full accounts made to come closer to the target than one pair per step allows.
_MOST_ACCOUNTS = 5


@dataclass(frozen=True)
class RiskTarget:
    """At most this true-positive rate at this false-positive rate, or at most this advantage."""

    tpr: float | None = None
    fpr: float | None = None
    advantage: float | None = None

    def __post_init__(self) -> None:
        checks.exactly_one(tpr=self.tpr, advantage=self.advantage)
        if self.tpr is None:
            if self.fpr is not None:
                raise InvalidParameter("fpr must be given together with tpr, not with advantage")
            checks.real("advantage", self.advantage, at_least=_SMALLEST_GAIN, below=1)
            return
        if self.fpr is None:
            raise InvalidParameter("fpr must be given with tpr: the share of false accusations")
        rate = checks.real("fpr", self.fpr, at_least=0, below=1)
        checks.real("tpr", self.tpr, at_least=rate + _SMALLEST_GAIN, below=1)

    @property
    def gain(self) -> float:
        """The largest gain over guessing."""
        if self.tpr is None or self.fpr is None:
            return float(self.advantage or 0.0)
        return self.tpr - self.fpr

    def reached(self, tried: Account, accuracy: float) -> float:
        """The certified gain of an account, with one pair per step."""
        if self.fpr is None:
            return tried.certified_advantage(accuracy)
        return tried.certified_tpr(self.fpr) - self.fpr

    def in_full(self, tried: Account) -> float:
        """The certified gain of an account, with whatever composes best."""
        if self.fpr is None:
            return tried.delta(0.0).upper
        return tried.certified_tpr(self.fpr, with_family=True) - self.fpr

    def met(self, found: Risk) -> bool:
        """Whether the risk is within the target."""
        if self.tpr is None or self.fpr is None:
            return found.advantage.upper <= self.gain
        return found.tpr[found.fpr.index(self.fpr)].upper <= self.tpr


@dataclass(frozen=True)
class RiskCalibration(FoundNoise):
    """Noise that keeps the risk of repeated draws of one scheme within a target.

    Attributes
    ----------
    plan : Plan
        What meets the target.
    mechanism : Mechanism
        The noise that was found.
    relation : Relation
        Which data sets are neighbours.
    risk : Risk
        What an attacker can achieve: certified, and within the target.
    scheme : Scheme or Epoch
        How batches are drawn.
    steps : int
        Number of steps.
    limit : str or None
        What ended the search where the target did not, in words; else None.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.calibrate(md.poisson(100, 1.0), advantage=0.1, steps=1)
    >>> found.risk.advantage.upper <= 0.1, found.noise_multiplier > 3.9
    (True, True)
    """

    plan: Plan
    mechanism: Mechanism
    relation: Relation
    risk: Risk
    scheme: Sampling
    steps: int
    limit: str | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        """The noise that was found, what it is certified for, and the plan."""
        words = (self.noise_found, *self.risk.sentences(), in_words(self.plan))
        return "\n".join(words if self.limit is None else (*words, self.limit))


def calibrate_risk(
    scheme: Sampling,
    target: RiskTarget,
    *,
    steps: int,
    make: Callable[[float], Mechanism],
    relation: str | None,
    group: int = 1,
) -> RiskCalibration:
    """Find the smallest noise that meets the target for ``steps`` draws of ``scheme``."""

    def accounted(z: float) -> Account:
        return account(steps_of(scheme, steps, make(z)), relation=relation, group=group)

    def spent(z: float, accuracy: float) -> float:
        try:
            return target.reached(accounted(z), accuracy)
        except NumericalFailure:
            return math.inf  # not certified: counts as over the target

    z = smallest_noise(spent, target.gain)
    if z > SMALLEST:
        z = _closer(z, lambda value: target.in_full(accounted(value)), target.gain)
    settled = accounted(z)
    rates = USUAL_FPR if target.fpr is None else tuple(sorted({*USUAL_FPR, target.fpr}))
    found = settled.risk(rates)
    if not target.met(found):
        # Rounding, or a finer grid: the next noise up that is safe.
        for _ in range(8):
            z *= 1.0 + 2e-4
            settled = accounted(z)
            found = settled.risk(rates)
            if target.met(found):
                break
        else:
            raise NumericalFailure(f"noise multiplier {z!r} was found, but its account is over it")
    limit = noise_limit(z)
    return RiskCalibration(
        settled.plan, make(z), settled.relation, found, scheme, steps, limit=limit
    )


def _closer(z: float, reached: Callable[[float], float], target: float) -> float:
    """From the noise that one pair per step needs to what is enough with a family of pairs.

    Along a straight line of logarithms; what is over the target bounds what is tried next.
    """
    best, gain, over, slope = z, reached(z), 0.0, -1.0
    for _ in range(_MOST_ACCOUNTS):
        if not 0.0 < gain < _NEAR * target or best <= SMALLEST:
            break
        trial = best * (_AIM * target / gain) ** (1.0 / slope)
        if not over < trial < best:
            trial = math.sqrt(over * best) if over else 0.5 * best
        trial = max(trial, SMALLEST)
        try:
            found = reached(trial)
        except NumericalFailure:
            found = math.inf
        if gain < found < math.inf:
            slope = math.log(found / gain) / math.log(trial / best)
        if found <= target:
            best, gain = trial, found
        else:
            over = trial
    return best
