"""The accountant: from a plan to certified bounds of delta and epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from mustdp.accounting.bounds import Bounds, Curve
from mustdp.accounting.level import Level
from mustdp.accounting.pairs import AtomPairs, atom_pairs
from mustdp.accounting.paper import PaperAccount
from mustdp.accounting.plan import Atom, Plan, Subsample, atoms, draws_everything
from mustdp.accounting.single import SingleStep
from mustdp.accounting.views import (
    NEGLIGIBLE_DELTA,
    Renyi,
    Summary,
    Tradeoff,
    gaussian_dp,
    tradeoff,
    zero_concentrated,
)
from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.loss.curve import Question
from mustdp.loss.points import Scouted, lay_grid, scout
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.scheme import Poisson

#: Spacing over the deviation of one step at the first attempt, and how far it is refined.
_FIRST_FRACTION = 0.05
_FINEST_FRACTION = _FIRST_FRACTION / 64
#: Delta is far more sensitive than epsilon: its relative accuracy is that of epsilon times this.
_DELTA_FACTOR = 4.0
METHODS = ("certified", "section4", "paper")


class Account:
    """Certified bounds of one plan under one relation."""

    def __init__(self, plan: Plan, relation: Relation, accuracy: float, method: str) -> None:
        self.plan, self.relation, self.accuracy, self.method = plan, relation, accuracy, method
        counted = atoms(plan)
        self.steps = sum(counted.values())
        self._counts = list(counted.values())
        self._pairs: list[AtomPairs] = [atom_pairs(a, relation, method) for a in counted]
        self._scouted: list[Scouted] | None = None
        self._levels: dict[float, Level] = {}

    @property
    def shift(self) -> float | None:
        """The shift of one copy; None if atoms differ in it."""
        shifts = {pair.shift for pair in self._pairs}
        return shifts.pop() if len(shifts) == 1 else None

    def delta(self, epsilon: float) -> Bounds:
        """Bounds of delta at ``epsilon``."""
        epsilon = checks.real("epsilon", epsilon, at_least=0, at_most=LARGEST_EPSILON)
        return self._answer("delta", epsilon, lambda value: _DELTA_FACTOR * self.accuracy * value)

    def epsilon(self, delta: float) -> Bounds:
        """Bounds of epsilon at ``delta``."""
        delta = checks.real("delta", delta, at_least=SMALLEST_DELTA, below=1)
        return self._answer("epsilon", delta, _relative(self.accuracy))

    def curve(self, epsilon: ArrayLike) -> Curve:
        """Bounds of delta at many epsilons at once, at the first spacing."""
        eps = checks.reals("epsilon", epsilon, at_least=0, at_most=LARGEST_EPSILON)
        level = self._level(_FIRST_FRACTION)
        lower, upper = level.curves(eps, NEGLIGIBLE_DELTA)
        if not np.all(lower <= upper * (1.0 + 1e-9) + 1e-300):
            raise NumericalFailure("the bounds of the curve contradict each other")
        return Curve(eps, np.minimum(lower, upper), upper)

    def tradeoff(self, fpr: ArrayLike) -> Tradeoff:
        """Missed-detection rates of an attacker at false-positive rates ``fpr``."""
        rates = checks.reals("fpr", fpr, at_least=0, at_most=1)
        eps, level = self._epsilons(), self._level(_FIRST_FRACTION)
        upper = level.upper_curve(eps, NEGLIGIBLE_DELTA)
        return tradeoff(rates, eps, upper, level.attained(eps, NEGLIGIBLE_DELTA))

    def renyi(self, orders: ArrayLike) -> Renyi:
        """Renyi divergences of the given orders, all above 1."""
        given = checks.reals("orders", orders, at_least=1, at_most=1e6)
        if not np.all(given > 1):
            raise InvalidParameter(f"orders must be > 1, got {given.min()!r}")
        level = self._level(_FIRST_FRACTION)
        lower, upper, outside = level.moments(given - 1.0, NEGLIGIBLE_DELTA)
        # The pairs leave out events of their own, so at high orders the lower side may come out
        # above; what it bounds from below is the divergence with nothing left out.
        lower = np.minimum(lower, upper)
        return Renyi(given, lower / (given - 1.0), upper / (given - 1.0), outside)

    def gaussian_dp(self) -> Summary:
        """The smallest mu of Gaussian DP that is an upper bound of this account."""
        eps = self._epsilons()
        upper = self._level(_FIRST_FRACTION).upper_curve(eps, NEGLIGIBLE_DELTA)
        return gaussian_dp(eps, upper)

    def zero_concentrated(self) -> Summary:
        """The rho of zero-concentrated DP that covers the Renyi orders from 1.01 to 1000."""
        return zero_concentrated(self.renyi(1.0 + np.geomspace(0.01, 999.0, 240)))

    def _epsilons(self) -> FloatArray:
        """Epsilons from 0 to where delta is negligible."""
        end = min(LARGEST_EPSILON, max(1.0, self.certified_epsilon(NEGLIGIBLE_DELTA)))
        return np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 1500) * end])

    def certified_epsilon(self, delta: float, accuracy: float | None = None) -> float:
        """The upper bound of epsilon alone, for searches that need no lower bound."""
        delta = checks.real("delta", delta, at_least=SMALLEST_DELTA, below=1)
        wanted = self.accuracy if accuracy is None else accuracy
        return self._answer("epsilon", delta, _relative(wanted), both_sides=False).upper

    def _answer(
        self,
        question: Question,
        at: float,
        allowed: Callable[[float], float],
        both_sides: bool = True,
    ) -> Bounds:
        """Refine until the numerical part of the upper bound is within what is allowed.

        Where the two bounds meet their distance is the proof; elsewhere the numerical part is
        estimated by doubling the spacing.
        """
        if self.steps == 1:
            single = SingleStep(self._pairs[0])
            upper, direction = single.upper(question, at)
            lower, name = single.lower(question, at)
            return Bounds(_consistent(lower, upper), upper, name, direction, 0.0)
        if question == "epsilon" and self._beyond_reach(at):
            return Bounds(0.0, math.inf, "none", "both", math.inf)
        fraction = _FIRST_FRACTION
        while True:
            level = self._level(fraction)
            upper, direction = level.upper(question, at)
            lower, name = level.lower(question, at) if both_sides else (0.0, "")
            lower = _consistent(lower, upper)
            room = allowed(upper)
            if math.isinf(upper) or upper - lower <= room:
                return Bounds(lower, upper, name, direction, upper - lower)
            gap = level.gap(question, at, direction)
            if both_sides:
                gap = max(gap, level.lower_gap(question, at, name))
            if gap <= room / 2:
                return Bounds(lower, upper, name, direction, gap)
            halvings = max(1, round(0.5 * math.log2(gap / (room / 2)) + 0.4))
            fraction /= 2.0**halvings
            if fraction < _FINEST_FRACTION or level.grid.finest:
                raise NumericalFailure(
                    f"{question} = {upper!r} is certified, but its numerical part {gap:.3g} "
                    f"could not be brought below {room / 2:.3g}; accuracy="
                    f"{2.2 * self.accuracy * gap / room:.2g} can be reached"
                )

    def _beyond_reach(self, delta: float) -> bool:
        """Whether losses above the largest that is resolved alone are more likely than delta."""
        top = np.array([LARGEST_EPSILON])
        spared = 0.0
        for pair, count in zip(self._pairs, self._counts, strict=True):
            worst = max(float(side[0]) for side in pair.dominating.values(top))
            spared += count * math.log1p(-min(worst, 1.0 - 1e-16))
        return -math.expm1(spared) >= delta

    def _level(self, fraction: float) -> Level:
        if fraction not in self._levels:
            if self._scouted is None:
                self._scouted = [scout(pair.dominating) for pair in self._pairs]
            grid = lay_grid(self._scouted, self._counts, fraction)
            self._levels[fraction] = Level(self._pairs, self._counts, grid, self.relation)
        return self._levels[fraction]


@overload
def account(
    plan: Plan,
    *,
    relation: str | None = None,
    accuracy: float = 1e-3,
    method: Literal["certified", "section4"] = "certified",
) -> Account: ...
@overload
def account(
    plan: Plan, *, relation: str | None = None, accuracy: float = 1e-3, method: Literal["paper"]
) -> PaperAccount: ...
@overload
def account(
    plan: Plan, *, relation: str | None = None, accuracy: float = 1e-3, method: str
) -> Account | PaperAccount: ...
def account(
    plan: Plan,
    *,
    relation: str | None = None,
    accuracy: float = 1e-3,
    method: str = "certified",
) -> Account | PaperAccount:
    """Account for a plan.

    The default relation is add_remove if every draw is Poisson, replace_one otherwise. ``accuracy``
    is the relative accuracy of epsilon. ``method="section4"`` composes the paper's one-step theorem
    instead of the certificate: valid, and looser. ``method="paper"`` composes the paper's own pair
    of data sets: what that pair attains, not a guarantee.

    >>> import mustdp as md
    >>> plan = md.repeat(100, md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=2.0)))
    >>> bounds = md.account(plan).epsilon(delta=1e-5)
    >>> print(f"{bounds.lower:.2f} <= epsilon <= {bounds.upper:.2f}")
    0.72 <= epsilon <= 0.77
    """
    accuracy = checks.real("accuracy", accuracy, at_least=1e-5, at_most=0.5)
    checks.choice("method", method, METHODS)
    counted = atoms(plan)
    if relation is not None:
        used = Relation.read(relation)
    else:
        used = Relation.ADD_REMOVE if all(map(_poisson, counted)) else Relation.REPLACE_ONE
    if method == "paper":
        paper = PaperAccount(plan, epsilon_width=accuracy)
        if relation is not None and used != paper.relation:
            raise NotCovered.refusing(
                "relation",
                f"must be {{{paper.relation.value}}} for this plan with {{method}} paper",
                f"{{{used.value}}}",
                mentions=(*Relation, "method"),
            )
        return paper
    if used == Relation.ADD_REMOVE and draws_everything(plan):
        raise NotCovered.refusing(
            "relation",
            "must be {replace_one} here, or the draw be left out: {add_remove} compares n records "
            "with one less, from which n cannot be drawn without replacement",
            "{add_remove}",
            mentions=tuple(Relation),
        )
    return Account(plan, used, accuracy, method)


def _consistent(lower: float, upper: float) -> float:
    """The lower bound, or a refusal to answer if the two contradict each other."""
    if not lower <= upper * (1.0 + 1e-9) + 1e-300:
        raise NumericalFailure(
            f"the bounds contradict each other: {lower!r} is attained, {upper!r} was certified"
        )
    return min(lower, upper)


def _relative(accuracy: float) -> Callable[[float], float]:
    return lambda value: accuracy * max(value, 1e-3)


def _poisson(atom: Atom) -> bool:
    return isinstance(atom, Subsample) and isinstance(atom.scheme, Poisson)
