"""One search for any parameter: the best value whose certified epsilon meets a target.

Whoever searches says how a value becomes a plan, and by which rule values are tried: the smallest
noise (a real number), or the largest size (a whole one). Every value tried is accounted for; one
that cannot be certified counts as over the target. What is returned was accounted for from both
sides and found within the target: a rule that assumed too much could miss a better value, never
return one over the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks

Value = TypeVar("Value", int, float)
#: The certified epsilon at a value of the parameter, at a relative accuracy.
Cost = Callable[[Value, float], float]

#: The epsilon reached by a noise lies between this fraction of the target and the target.
_CLOSE = 1.0 - 1e-3
#: Accuracy of the account while bracketing, and while closing in.
_COARSE, _FINE = 0.02, 1e-3
_SMALLEST, _LARGEST = 1e-4, 1e8


@dataclass(frozen=True)
class Target:
    """At most this epsilon at this delta; the relation is that of the plan unless it is stated."""

    epsilon: float
    delta: float
    relation: str | None = None
    #: How many records of one person may differ.
    group: int = 1

    def __post_init__(self) -> None:
        epsilon = checks.real("epsilon", self.epsilon, above=0, at_most=LARGEST_EPSILON)
        object.__setattr__(self, "epsilon", epsilon)
        delta = checks.real("delta", self.delta, at_least=SMALLEST_DELTA, below=1)
        object.__setattr__(self, "delta", delta)
        if self.relation is not None:
            object.__setattr__(self, "relation", Relation.read(self.relation))


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
) -> Met[Value]:
    """Search by the rule; account for what it found."""
    tries: list[NumericalFailure | None] = []

    def spent(value: Value, accuracy: float) -> float:
        tries.append(None)
        try:
            tried = account(plan_of(value), relation=target.relation, group=target.group)
            return tried.certified_epsilon(target.delta, accuracy)
        except NumericalFailure as failure:
            tries[-1] = failure
            return math.inf  # not certified: counts as over the target

    try:
        value = rule(spent, target.epsilon)
    except InvalidParameter:
        if len(tries) == 1 and tries[0] is not None:  # not even the least could be certified
            raise tries[0] from None
        raise
    settled = account(plan_of(value), relation=target.relation, group=target.group)
    bounds = settled.epsilon(target.delta)
    if bounds.upper > target.epsilon:  # the search may have used a finer grid; either is certified
        bounds = replace(bounds, upper=settled.certified_epsilon(target.delta, _FINE))
    if not bounds.lower <= bounds.upper <= target.epsilon:
        raise NumericalFailure(
            f"{name} = {value!r} was found for epsilon={target.epsilon!r}, but its account says "
            f"{bounds!r}"
        )
    return Met(value, settled.plan, settled.relation, bounds)


def smallest_noise(spent: Cost[float], target: float) -> float:
    """Bracket and close in on the noise whose certified epsilon just meets ``target``.

    ``spent(z, accuracy)`` must not increase with the noise z. It is asked coarsely while the
    bracket is wide; only a value that met the target at full accuracy is returned.
    """
    low, high = math.nan, math.nan  # too little noise, enough noise
    low_value, high_value = math.inf, 0.0
    z = 1.0
    while math.isnan(low) or math.isnan(high):
        value = spent(z, _COARSE)
        if value <= target:
            high, high_value = z, value
            if z <= _SMALLEST:
                return high
            z = max(z / 2.0, _SMALLEST)
        else:
            low, low_value = z, value
            if z >= _LARGEST:
                raise NumericalFailure(
                    f"no noise multiplier up to {_LARGEST:g} reaches epsilon={target!r}"
                )
            z = min(z * 2.0, _LARGEST)
    met = math.nan
    for step in range(80):
        if high / low - 1.0 < 1e-9:
            break
        z = _between(low, high, low_value, high_value, target, step)
        value = spent(z, _FINE)
        if value <= target:
            high, high_value, met = z, value, z
            if value >= _CLOSE * target:
                return z
        else:
            low, low_value = z, value
    return met if not math.isnan(met) else high


def _between(
    low: float, high: float, low_value: float, high_value: float, target: float, step: int
) -> float:
    """Interpolate log epsilon in log noise, aiming a hair under the target; sometimes bisect."""
    middle = math.sqrt(low * high)
    if step % 3 == 2 or not (0 < high_value < low_value < math.inf):
        return middle
    aim = math.log(target * (1.0 - 4e-4))
    share = (math.log(low_value) - aim) / (math.log(low_value) - math.log(high_value))
    z = low * (high / low) ** share
    return z if low < z < high else middle


def largest_size(spent: Cost[int], target: float, *, name: str, most: int) -> int:
    """Double, then bisect, for the largest size from 1 to ``most`` within ``target``."""
    least = spent(1, _FINE)
    if not least <= target:
        reached = (
            f"at least {least:.6g}" if math.isfinite(least) else "larger, or the noise stronger,"
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
