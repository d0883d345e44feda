"""Whether a charge fits, by the bound that is valid for how the ledger was opened.

``adaptive``: plans may be chosen, and may end, as earlier releases suggest. The limit is that of a
Renyi filter. The first charge is chosen before anything was released, so it may instead be judged
as a plan fixed in advance: then it takes the whole budget, and nothing is admitted after it. What
another ledger has recorded was released before, and is judged by the filter wherever it comes.

``fixed``: one plan was declared when the ledger was made, and charges go through it in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from mustdp.accounting.account import account
from mustdp.accounting.plan import Atom, Banded, Plan, Repeat, Sequence, atoms
from mustdp.errors import BudgetExceeded, InvalidParameter
from mustdp.ledger.filter import Cost
from mustdp.ledger.records import Head, Header
from mustdp.limits import MOST_STEPS, SMALLEST_NOISE
from mustdp.mechanisms.mechanism import gaussian
from mustdp.numerics.formatting import as_stated, readable

# A plan declared in advance: which charges are a part of it, and what its beginnings cost.
#
# Anyone who stops such a plan early, for whatever reason, releases a function of what the whole
# plan would have released. So the bound of the whole plan, which was compared with the limit when
# the ledger was made, holds at every moment; and charges are admitted as long as they go on in the
# plan where the last one stopped.


#: More runs of equal steps than this are refused: they are walked through at every charge.
_MOST_RUNS = 10_000
#: The cost of a beginning is that of the next longer one whose length has this many binary digits.
_DIGITS = 4


@dataclass(frozen=True)
class Declared:
    """The plan as runs of equal steps, in order."""

    runs: tuple[tuple[Plan, int], ...]

    @property
    def steps(self) -> int:
        """How many steps the whole plan has."""
        return sum(count for _, count in self.runs)

    def beginning(self, steps: int) -> Plan:
        """The first ``steps`` steps."""
        parts = []
        for plan, count in self.runs:
            taken = min(count, steps)
            if taken:
                parts.append(Repeat(taken, plan))
            steps -= taken
        return Sequence(tuple(parts))

    def step_after(self, steps: int) -> Plan:
        """The step at this position; the last one, if there is none."""
        for plan, count in self.runs:
            steps -= count
            if steps < 0:
                return plan
        return self.runs[-1][0]

    def goes_on(self, at: int, charge: Declared) -> bool | None:
        """Whether ``charge`` is what comes after ``at`` steps; None if it is, but is too long."""
        wanted = list(charge.runs)
        for plan, count in self.runs:
            here, at = max(0, count - at), max(0, at - count)
            while here and wanted:
                asked, times = wanted[0]
                if asked != plan:
                    return False
                taken = min(here, times)
                here -= taken
                if taken == times:
                    wanted.pop(0)
                else:
                    wanted[0] = asked, times - taken
        return True if not wanted else None


@lru_cache(maxsize=64)
def declared(plan: Plan) -> Declared:
    """The runs of a plan; what is drawn together or reused stays one step."""
    return Declared(tuple(_runs(plan)))


def _runs(plan: Plan) -> list[tuple[Plan, int]]:
    if isinstance(plan, Banded):
        return _runs(plan.unrolled)
    if isinstance(plan, Sequence):
        return _joined(run for part in plan.parts for run in _runs(part))
    if isinstance(plan, Repeat):
        inner = _runs(plan.inner)
        if len(inner) == 1:
            return [(inner[0][0], inner[0][1] * plan.count)]
        return _joined(run for _ in range(plan.count) for run in inner)
    return [(plan, 1)]


def _joined(runs: Iterable[tuple[Plan, int]]) -> list[tuple[Plan, int]]:
    joined: list[tuple[Plan, int]] = []
    for step, count in runs:
        if joined and joined[-1][0] == step:
            joined[-1] = step, joined[-1][1] + count
        else:
            joined.append((step, count))
        if len(joined) > _MOST_RUNS:
            raise InvalidParameter(
                f"a plan declared in advance must have at most {_MOST_RUNS} runs of equal steps, "
                "got more"
            )
    return joined


def rounded_up(steps: int, whole: int) -> int:
    """The next number with few binary digits, and at most the whole: a beginning costs no more.

    >>> [rounded_up(n, 1000) for n in (1, 15, 17, 100, 999)]
    [1, 15, 18, 104, 1000]
    """
    unit = 1 << max(0, steps.bit_length() - _DIGITS)
    return min(whole, -(-steps // unit) * unit)


@lru_cache(maxsize=1024)
def certified(plan: Plan, relation: str, delta: float) -> float:
    """The certified epsilon of a plan that was fixed in advance."""
    return account(plan, relation=relation).epsilon(delta).upper


@lru_cache(maxsize=1024)
def certified_quickly(plan: Plan, relation: str, delta: float) -> float:
    """The same with one pair per step: for beginnings, which are asked about again and again."""
    return account(plan, relation=relation).certified_epsilon(delta)


# Whether a charge fits.


ADAPTIVE, FIXED = "adaptive", "fixed"


@dataclass(frozen=True)
class ChargeRequest:
    """A charge that was asked for: ``counted`` are the atoms of all runs."""

    plan: Plan
    times: int
    text: str
    counted: Mapping[Atom, int]
    #: It was released before, so it may have been chosen along the way.
    recorded: bool = False

    @property
    def steps(self) -> int:
        """How many atoms."""
        return sum(self.counted.values())

    @property
    def whole(self) -> Plan:
        """All runs as one plan."""
        return self.plan if self.times == 1 else Repeat(self.times, self.plan)


@dataclass(frozen=True)
class Outcome:
    """What the ledger has used and spent after a charge that fits; ``cost`` is that of one run."""

    level: int
    cost: Cost
    used: Cost
    steps: int
    epsilon: float
    whole: bool = False


@dataclass(frozen=True)
class ChargeRefused:
    """A charge that does not fit: how many of the steps wanted would, where that is known."""

    asked: float
    wanted: int
    most: int


def judge(header: Header, head: Head, asked: ChargeRequest) -> Outcome | ChargeRefused:
    """What a charge leads to, from where the ledger stands."""
    if head.steps + asked.steps > MOST_STEPS:
        raise InvalidParameter(
            f"a ledger must have at most {MOST_STEPS} steps, got {head.steps + asked.steps}"
        )
    level = header.filter.level(head.number + 1, asked.steps)
    cost = header.filter.cost(atoms(asked.plan), header.relation, level)
    used = head.cost + cost.times(asked.times)
    if header.plan is not None:
        return _fixed(header, head, asked, Outcome(level, cost, used, 0, 0.0))
    steps = head.steps + asked.steps
    if not head.whole and header.filter.fits(used):
        spent = min(header.filter.spent(used), header.epsilon)
        return Outcome(level, cost, used, steps, spent)
    if head.number == 0 and not asked.recorded:
        alone = certified(asked.whole, header.relation, header.delta)
        if alone <= header.epsilon:
            return Outcome(level, cost, used, steps, alone, whole=True)
    alone = header.filter.spent(header.filter.nothing + cost.times(asked.times))
    wanted, one = asked.times, cost
    if asked.times == 1 and isinstance(asked.plan, Repeat):
        wanted = asked.plan.count
        one = header.filter.cost(atoms(asked.plan.inner), header.relation, level)
    most = 0 if head.whole else min(header.filter.most(head.cost, one), wanted)
    return ChargeRefused(alone, wanted, most)


def _fixed(
    header: Header, head: Head, asked: ChargeRequest, found: Outcome
) -> Outcome | ChargeRefused:
    if asked.recorded:
        raise InvalidParameter(
            "a ledger with a plan that was declared in advance must be charged for what comes next "
            "in it, got what another ledger has recorded; merge that into an adaptive ledger"
        )
    plan, charge = declared(header.plan), declared(asked.whole)
    at, whole = head.steps, plan.steps
    going = plan.goes_on(at, charge)
    if going is False:
        raise InvalidParameter(
            f"plan must go on in the plan that was declared when the ledger was made, after its "
            f"first {at} of {whole} steps, got another one; charge what is chosen later to an "
            "adaptive ledger"
        )
    if going is None:
        alone = certified(asked.whole, header.relation, header.delta)
        return ChargeRefused(alone, charge.steps, whole - at)
    steps = at + charge.steps
    length = rounded_up(steps, whole)
    if length == whole:
        epsilon = float(header.declared or 0.0)
    elif head.number and length == rounded_up(at, whole):
        epsilon = head.epsilon
    else:
        quick = certified_quickly(plan.beginning(length), header.relation, header.delta)
        # No beginning costs more than the whole, which was worked out with more care.
        epsilon = min(quick, math.inf if header.declared is None else header.declared)
    epsilon = max(head.epsilon, epsilon)
    return Outcome(found.level, found.cost, found.used, steps, epsilon)


def refusal(
    header: Header, head: Head, asked: ChargeRequest, refused: ChargeRefused
) -> BudgetExceeded:
    """The refusal, with what would still fit."""
    left = head.left_of(header.epsilon)
    largest = 0.0 if header.plan is not None else _largest(header, head)
    if header.plan is not None:
        fits = f"{refused.most} steps of the declared plan are left"
    else:
        release = f"one release with Gaussian noise of epsilon up to {readable(largest, 'down')}"
        fits = (
            f"{release} still fits"
            if refused.wanted == 1
            else f"at most {refused.most} of the {refused.wanted} steps fit, or {release}"
        )
    cost = readable(refused.asked, "up") if math.isfinite(refused.asked) else "more than any limit"
    return BudgetExceeded(
        f"the budget of {header.data} would be exceeded: the charge costs {cost}, "
        f"{readable(head.epsilon, 'up')} is spent and {readable(left, 'down')} left of epsilon "
        f"{as_stated(header.epsilon)} at delta {as_stated(header.delta)} "
        f"({header.program}); {fits}",
        asked=refused.asked,
        spent=head.epsilon,
        left=left,
        wanted=refused.wanted,
        most=refused.most,
        largest=largest,
    )


def _largest(header: Header, head: Head) -> float:
    """The largest epsilon of one release with Gaussian noise that still fits."""
    if head.number == 0:
        return header.epsilon
    shift = 0.0 if head.whole else header.filter.gaussian_shift(head.cost)
    if shift < SMALLEST_NOISE:
        return 0.0
    return account(gaussian(shift=shift)).epsilon(header.delta).lower


@lru_cache(maxsize=4096)
def check_covered(plan: Plan, relation: str) -> None:
    """Refuse a plan that is not covered under this relation, with the accountant's reason."""
    account(plan, relation=relation)
