"""A plan declared in advance: which charges are a part of it, and what its beginnings cost.

Anyone who stops such a plan early, for whatever reason, releases a function of what the whole plan
would have released. So the bound of the whole plan, which was compared with the limit when the
ledger was made, holds at every moment; and charges are admitted as long as they go on in the plan
where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from mustdp.accounting.account import account
from mustdp.accounting.plan import Plan, Repeat, Sequence
from mustdp.errors import InvalidParameter

#: More runs of equal steps than this are refused: they are walked through at every charge.
_MOST_RUNS = 10_000
#: The cost of a beginning is that of the next longer one whose length has this many binary digits.
_DIGITS = 4


class History(Sequence):
    """What a ledger has recorded, as a plan: accounted for like any other, but no declaration.

    What was released is known by now, so that anyone who reads the plan off may have chosen it by
    what came out. Charged or declared, it counts as chosen along the way.
    """

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, Sequence) else NotImplemented

    __hash__ = Sequence.__hash__


def is_record(plan: Plan) -> bool:
    """Whether a plan, or a part of it, was read off a ledger."""
    parts: list[object] = [plan]
    while parts:
        one = parts.pop()
        if isinstance(one, History):
            return True
        parts.extend(getattr(one, "parts", ()))
        if hasattr(one, "inner"):
            parts.append(one.inner)
    return False


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
        """The step that comes after so many; the last one, if there is none."""
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


def declared(plan: Plan) -> Declared:
    """The runs of a plan; what is drawn together or reused stays one step."""
    return Declared(tuple(_runs(plan)))


def _runs(plan: Plan) -> list[tuple[Plan, int]]:
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
