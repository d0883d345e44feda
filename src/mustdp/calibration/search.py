"""One search for any parameter: the best value whose certified epsilon meets a target.

Whoever searches says how a value becomes a plan, and by which rule values are tried: the smallest
noise (a real number), or the largest size (a whole one). Every value tried is accounted for; one
that cannot be certified counts as over the target. What is returned was accounted for from both
sides and found within the target: a rule that assumed too much could miss a better value, never
return one over the target.

The rule for noise begins at a guess (``guess.py``) and asks for what the account will say, mostly
twice. The rule for sizes asks one pair per step, which is quick; where a family of pairs says less,
what it found is moved closer to the target by a few full accounts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from mustdp.accounting.account import account
from mustdp.accounting.answers import Account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.decimals import readable

Value = TypeVar("Value", int, float)
#: The certified epsilon at a value of the parameter, at a relative accuracy.
Cost = Callable[[Value, float], float]

#: Accuracy of the account of a size.
_FINE = 1e-3
#: A size need not come closer than the first to its target; the second is aimed at.
_NEAR, _AIM = 1.0 - 2e-3, 1.0 - 8e-4
#: Full accounts made to come closer to the target than one pair per step allows.
_MOST_ACCOUNTS = 6
#: Accounts that are kept while searching: the one that is returned is mostly among the last.
_KEPT = 4


@dataclass(frozen=True)
class Target:
    """At most this epsilon at this delta; the relation is that of the plan unless it is stated.

    ``composition`` is that of the accounts: "pair" is quicker and needs more noise.
    """

    epsilon: float
    delta: float
    relation: str | None = None
    #: How many records of one person may differ.
    group: int = 1
    composition: str = "auto"
    #: Of every release, where it is known.
    dimension: int | None = None

    def __post_init__(self) -> None:
        epsilon = checks.real("epsilon", self.epsilon, above=0, at_most=LARGEST_EPSILON)
        object.__setattr__(self, "epsilon", epsilon)
        delta = checks.real("delta", self.delta, at_least=SMALLEST_DELTA, below=1)
        object.__setattr__(self, "delta", delta)
        if self.relation is not None:
            object.__setattr__(self, "relation", Relation.read(self.relation))

    def account(self, plan: Plan) -> Account:
        """The account that is asked about a plan."""
        return account(
            plan,
            relation=self.relation,
            composition=self.composition,
            dimension=self.dimension,
            group=self.group,
        )


@dataclass(frozen=True)
class Met(Generic[Value]):
    """A value that meets its target, and the account that says so."""

    value: Value
    plan: Plan
    relation: Relation
    epsilon: Bounds


def meet(
    target: Target,
    plan_of: Callable[[Value], Plan],
    rule: Callable[[Cost[Value], float], Value],
    name: str,
    *,
    in_full: bool = False,
) -> Met[Value]:
    """Search by the rule; account for what it found.

    A rule that asks ``in_full`` is told what the composition that was asked for says. Others are
    told what one pair per step says, and what they found is moved closer to the target.
    """
    tries: list[NumericalFailure | None] = []
    known: dict[Value, float] = {}
    accounts: dict[Value, Account] = {}

    def accounted(value: Value) -> Account:
        if value not in accounts:
            for old in list(accounts)[: 1 - _KEPT]:
                del accounts[old]
            accounts[value] = target.account(plan_of(value))
        return accounts[value]

    def spent(value: Value, accuracy: float) -> float:
        tries.append(None)
        try:
            tried = accounted(value)
            if in_full and tried.has_family:
                known[value] = tried.tightest_epsilon(target.delta)
            else:
                known[value] = tried.certified_epsilon(target.delta, accuracy)
        except NumericalFailure as failure:
            tries[-1] = failure
            known[value] = math.inf  # not certified: counts as over the target
        least = isinstance(value, int) and value == 1
        if least and target.epsilon < known[value] < math.inf:
            known[value] = min(known[value], whole(value))  # it may fit all the same
        return known[value]

    def whole(value: Value) -> float:
        return accounted(value).epsilon(target.delta).upper

    try:
        value = rule(spent, target.epsilon)
    except InvalidParameter:
        if len(tries) == 1 and tries[0] is not None:  # not even the least could be certified
            raise tries[0] from None
        raise
    if not in_full and accounted(value).has_family and whole(value) <= target.epsilon:
        value = _closer(value, whole, known, target.epsilon)
    settled = accounted(value)
    bounds = settled.epsilon(target.delta)
    if bounds.upper > target.epsilon:  # the search may have used a finer grid; either is certified
        bounds = replace(bounds, upper=settled.certified_epsilon(target.delta, _FINE))
    if not bounds.lower <= bounds.upper <= target.epsilon:
        raise NumericalFailure(
            f"{name} = {value!r} was found for epsilon={target.epsilon!r}, but its account says "
            f"{bounds!r}"
        )
    return Met(value, settled.plan, settled.relation, bounds)


def _closer(
    value: Value, whole: Callable[[Value], float], known: dict[Value, float], target: float
) -> Value:
    """From a size that meets the target to a larger one, along a straight line of logarithms.

    The slope is that of one pair per step at first, then that of the last two full accounts; what
    is over the target bounds what is tried next.
    """
    best, spent, over, slope = value, whole(value), None, _slope(value, known)
    for _ in range(_MOST_ACCOUNTS):
        if spent >= _NEAR * target or not spent > 0 or not slope > 0:
            break
        move = math.log(_AIM * target / spent) / slope
        trial = best * math.exp(min(max(move, -2.0), 2.0))
        if over is not None and not best < trial < over:
            trial = math.sqrt(best * over)
        trial = max(math.floor(trial), best + 1)
        if over is not None and trial >= over:
            trial = over - 1
        if trial <= best:
            break
        value = type(best)(trial)
        try:
            cost = whole(value)
        except (NumericalFailure, InvalidParameter):  # not certified, or no such size
            cost = math.inf
        if 0 < cost < math.inf and cost != spent:
            slope = math.log(cost / spent) / math.log(value / best) or slope
        if cost <= target:
            best, spent = value, cost
        else:
            over = value
    return best


def _slope(value: Value, known: dict[Value, float]) -> float:
    """d log epsilon / d log value between ``value`` and the next one that was tried."""
    here = known[value]
    others = [v for v, e in known.items() if v != value and 0 < e < math.inf and e != here]
    if not others or not 0 < here < math.inf:
        return 0.0
    other = min(others, key=lambda v: abs(math.log(v / value)))
    return math.log(known[other] / here) / math.log(other / value)


def largest_size(spent: Cost[int], target: float, *, name: str, most: int) -> int:
    """Double, then bisect, for the largest size from 1 to ``most`` within ``target``."""
    least = spent(1, _FINE)
    if not least <= target:
        reached = (
            f"at least {readable(least, 'up', 6)}"
            if math.isfinite(least)
            else "larger, or the noise stronger,"
        )
        allowed = f"must be {reached} for any {{{name}}} to fit"
        raise InvalidParameter.refusing("epsilon", allowed, repr(target), mentions=(name,))
    size, over = 1, most + 1
    while 2 * size < over:
        size, over = (2 * size, over) if spent(2 * size, _FINE) <= target else (size, 2 * size)
    while over - size > 1:
        trial = (size + over) // 2
        size, over = (trial, over) if spent(trial, _FINE) <= target else (size, trial)
    return size
