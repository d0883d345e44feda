"""The most steps, the largest batch or the smallest first stage that a budget allows.

Each answer was itself accounted for and found within the budget: a search that assumed too much
could miss a better answer, never return one over the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from mustdp.accounting.account import Account, account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import repeat, subsample
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.limits import LARGEST_EPSILON, MOST_STEPS, SMALLEST_DELTA
from mustdp.mechanisms.mechanism import Mechanism
from mustdp.mechanisms.relation import resolve_relation
from mustdp.numerics import checks
from mustdp.sampling.naming import scheme_by_name
from mustdp.sampling.scheme import Scheme


@dataclass(frozen=True)
class Solution:
    """A size that meets the budget, and what it costs."""

    value: int
    epsilon: Bounds
    delta: float


def most_steps(
    scheme: Scheme,
    mechanism: Mechanism,
    *,
    epsilon: float,
    delta: float,
    relation: str | None = None,
) -> Solution:
    """The largest number of steps whose certified epsilon is at most ``epsilon``."""
    epsilon, delta = _target(epsilon, delta)
    used = resolve_relation(scheme, relation)

    def accounted(steps: int) -> Account:
        return account(repeat(steps, subsample(scheme, mechanism)), relation=used)

    return _largest("steps", accounted, 1, MOST_STEPS, epsilon, delta)


def largest_batch(
    name: str,
    mechanism: Mechanism,
    *,
    n: int,
    b: int | None = None,
    epsilon: float,
    delta: float,
    steps: int,
    relation: str | None = None,
) -> Solution:
    """The largest m whose certified epsilon is at most ``epsilon``, for a scheme by name."""
    epsilon, delta = _target(epsilon, delta)
    steps = checks.integer("steps", steps, 1, MOST_STEPS)
    n = checks.integer("n", n, 1)

    def accounted(m: int) -> Account:
        scheme = scheme_by_name(name, n=n, b=b, m=m)
        plan = repeat(steps, subsample(scheme, mechanism))
        return account(plan, relation=resolve_relation(scheme, relation))

    highest = n if name in ("wor", "poisson") else 10 * n
    return _largest("m", accounted, 1, highest, epsilon, delta)


def smallest_first_stage(
    name: str,
    mechanism: Mechanism,
    *,
    n: int,
    m: int,
    epsilon: float,
    delta: float,
    steps: int,
    relation: str | None = None,
) -> Solution:
    """The smallest b of a two-stage scheme whose certified epsilon is at most ``epsilon``.

    A larger first stage means fewer repeated copies, hence less privacy spent at equal noise.
    """
    epsilon, delta = _target(epsilon, delta)
    steps = checks.integer("steps", steps, 1, MOST_STEPS)
    checks.choice("scheme", name, ("must-ow", "must-ww"))
    n = checks.integer("n", n, 1)

    def accounted(b: int) -> Account:
        scheme = scheme_by_name(name, n=n, b=b, m=m)
        plan = repeat(steps, subsample(scheme, mechanism))
        return account(plan, relation=resolve_relation(scheme, relation))

    found = _largest("b", lambda c: accounted(n + 1 - c), 1, n, epsilon, delta)
    return Solution(n + 1 - found.value, found.epsilon, delta)


def _target(epsilon: float, delta: float) -> tuple[float, float]:
    return (
        checks.real("epsilon", epsilon, above=0, at_most=LARGEST_EPSILON),
        checks.real("delta", delta, at_least=SMALLEST_DELTA, below=1),
    )


def _largest(
    name: str,
    accounted: Callable[[int], Account],
    low: int,
    high: int,
    epsilon: float,
    delta: float,
) -> Solution:
    """Double, then bisect, for the largest size within the budget."""

    def fits(size: int) -> bool:
        try:
            return accounted(size).certified_epsilon(delta) <= epsilon
        except NumericalFailure:
            return False  # not certified: counts as over the budget

    if not fits(low):
        least = accounted(low).certified_epsilon(delta)
        reached = (
            f"at least {least:.6g}" if math.isfinite(least) else "larger, or the noise stronger,"
        )
        allowed = f"must be {reached} for any {{{name}}} to fit"
        raise InvalidParameter.refusing("epsilon", allowed, repr(epsilon), mentions=(name,))
    size, over = low, high + 1
    while 2 * size < over:
        size, over = (2 * size, over) if fits(2 * size) else (size, 2 * size)
    while over - size > 1:
        trial = (size + over) // 2
        size, over = (trial, over) if fits(trial) else (size, trial)
    settled = accounted(size)
    bounds = settled.epsilon(delta)
    if bounds.upper > epsilon:  # the search may have used a finer grid; either bound is certified
        bounds = replace(bounds, upper=settled.certified_epsilon(delta))
    if not bounds.lower <= bounds.upper <= epsilon:
        raise NumericalFailure(
            f"{name} = {size} was found for epsilon={epsilon!r}, but its account says {bounds!r}"
        )
    return Solution(size, bounds, delta)
