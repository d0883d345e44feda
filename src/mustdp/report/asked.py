"""Questions of a report about one scheme: at other steps, at another noise, for the same work."""

from __future__ import annotations

from dataclasses import dataclass

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan, steps_of
from mustdp.calibration.compare import ComparisonRow
from mustdp.calibration.noise import calibrate
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.mechanism import gaussian
from mustdp.sampling.scheme import Scheme, wor

#: Relative accuracy of what is drawn; bounds are certified whatever it is.
_DRAWN = 0.02


@dataclass(frozen=True)
class Question:
    """What a report is about: the arguments of :func:`mustdp.compare`, Gaussian noise."""

    n: int
    b: int
    m: int
    steps: int
    delta: float
    epsilon: float | None = None
    noise_multiplier: float | None = None
    relation: str = "replace_one"
    group: int = 1


@dataclass(frozen=True)
class SameWork:
    """WOR with as many records as MUSTow has distinct ones, at the guarantee that MUSTow has."""

    m: int
    noise_multiplier: float
    epsilon: Bounds


def plan_of(scheme: Scheme, noise_multiplier: float, steps: int) -> Plan:
    """So many steps of a scheme with Gaussian noise."""
    return steps_of(scheme, steps, gaussian(noise_multiplier=noise_multiplier))


def epsilon_of(
    scheme: Scheme,
    noise_multiplier: float,
    steps: int,
    asked: Question,
    composition: str = "auto",
    accuracy: float | None = None,
) -> Bounds | None:
    """Epsilon beside the point that was asked about; None where nothing can be certified."""
    plan = plan_of(scheme, noise_multiplier, steps)
    try:
        asking = account(
            plan, relation=asked.relation, group=asked.group, composition=composition,
            accuracy=accuracy,
        )  # fmt: skip
        return asking.epsilon(asked.delta)
    except NumericalFailure:
        return None


def rough_epsilon_of(
    scheme: Scheme, noise_multiplier: float, steps: int, asked: Question
) -> Bounds | None:
    """The same with one pair per step, as accurate as a picture needs it, or can be."""
    found = epsilon_of(scheme, noise_multiplier, steps, asked, "pair", _DRAWN)
    return found or epsilon_of(scheme, noise_multiplier, steps, asked, "pair")


def epsilon_beside(
    scheme: Scheme, noise_multiplier: float, asked: Question, other: float
) -> Bounds | None:
    """Epsilon at the noise of another scheme that is certified for ``other``.

    If what is attained is more than that already, bounds need not be any closer.
    """
    found = epsilon_of(scheme, noise_multiplier, asked.steps, asked, "pair")
    if found is not None and found.lower > other:
        return found
    return epsilon_of(scheme, noise_multiplier, asked.steps, asked)


def same_work(row: ComparisonRow, asked: Question) -> SameWork | None:
    """What WOR needs that touches as many records; None where it cannot be asked."""
    size = max(1, round(row.expected_distinct))
    target = asked.epsilon if asked.epsilon is not None else row.epsilon.upper
    if not (size <= asked.n and 0 < target <= 500):
        return None
    if asked.relation == "add_remove" and size > asked.n - asked.group:
        return None
    try:
        found = calibrate(
            wor(asked.n, size), epsilon=target, delta=asked.delta, steps=asked.steps,
            relation=asked.relation, group=asked.group,
        )  # fmt: skip
    except NumericalFailure:
        return None
    return SameWork(size, found.noise_multiplier, found.epsilon)
