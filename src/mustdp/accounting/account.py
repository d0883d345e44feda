"""The accountant: what people ask about a plan, each answer from the same workings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from mustdp.accounting.bounds import Bounds, Curve
from mustdp.accounting.certify import FRACTIONS, certify
from mustdp.accounting.paper import PaperAccount
from mustdp.accounting.plan import Atom, InEpoch, Plan, Subsample, atoms, draws_everything
from mustdp.accounting.sides import UpperSide, in_both_orders
from mustdp.accounting.tighter import COMPOSITIONS, ONE_PAIR, FamilyComposition
from mustdp.accounting.views import (
    NEGLIGIBLE_DELTA,
    Renyi,
    Summary,
    Tradeoff,
    gaussian_dp,
    tradeoff,
    zero_concentrated,
)
from mustdp.accounting.workings import Workings
from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from mustdp.limits import LARGEST_EPSILON
from mustdp.loss.curve import LowerCurve
from mustdp.loss.questions import DeltaAt, EpsilonAt, Question
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray

METHODS = ("certified", "one-slope", "paper")


class Account:
    """Certified bounds of one plan under one relation.

    May be shared between threads, which wait for each other, and pickled if the plan can be.
    ``composition`` says how the upper bound of the last epsilon or delta was composed: with "one
    pair" per step, with the "exact-family", or with the family inside "blocks" of steps.
    """

    def __init__(
        self, plan: Plan, relation: Relation, accuracy: float, method: str,
        composition: str = "pair",
    ) -> None:  # fmt: skip
        self.plan, self.relation = plan, Relation.read(relation)
        self.accuracy, self.method = accuracy, method
        self._work = Workings(plan, self.relation, method)
        self.steps = self._work.steps
        self.composition, self._chosen = ONE_PAIR, composition
        family = composition == "family"
        self._family = FamilyComposition(plan, self.relation) if family else None
        self._lock = RLock()

    def __reduce__(self) -> tuple[type[Account], tuple[Plan, Relation, float, str, str]]:
        """What is sent elsewhere is the description; it is worked out again there."""
        return Account, (self.plan, self.relation, self.accuracy, self.method, self._chosen)

    @property
    def shift(self) -> float | None:
        """The shift of one copy; None if atoms differ in it."""
        shifts = {pair.shift for pair in self._work.pairs}
        return shifts.pop() if len(shifts) == 1 else None

    def delta(self, epsilon: float) -> Bounds:
        """Bounds of delta at ``epsilon``."""
        return self._bounds(DeltaAt(epsilon))

    def epsilon(self, delta: float) -> Bounds:
        """Bounds of epsilon at ``delta``."""
        return self._bounds(EpsilonAt(delta))

    def _bounds(self, question: Question) -> Bounds:
        with self._lock:
            found = certify(self._work, question, self.accuracy)
            if self._family is not None:
                found, self.composition = self._family.tighten(found, question)
            return found

    def certified_epsilon(self, delta: float, accuracy: float | None = None) -> float:
        """The upper bound of epsilon alone, with one pair, for searches that need no lower one."""
        wanted = self.accuracy if accuracy is None else accuracy
        with self._lock:
            return certify(self._work, EpsilonAt(delta), wanted, both_sides=False).upper

    def curve(self, epsilon: ArrayLike) -> Curve:
        """Bounds of delta at many epsilons at once, at the first spacing."""
        eps = checks.reals("epsilon", epsilon, at_least=0, at_most=LARGEST_EPSILON)
        with self._sides() as (upper_side, lower_side):
            lower = lower_side.curve(eps, NEGLIGIBLE_DELTA)
            upper = upper_side.curve(eps, NEGLIGIBLE_DELTA)
        if not np.all(lower <= upper * (1.0 + 1e-9) + 1e-300):
            raise NumericalFailure("the bounds of the curve contradict each other")
        return Curve(eps, np.minimum(lower, upper), upper)

    def tradeoff(self, fpr: ArrayLike) -> Tradeoff:
        """Missed-detection rates of an attacker at false-positive rates ``fpr``."""
        rates = checks.reals("fpr", fpr, at_least=0, at_most=1)
        eps = self._epsilons()
        with self._sides() as (upper_side, lower_side):
            upper = upper_side.curve(eps, NEGLIGIBLE_DELTA)
            attained = in_both_orders(lower_side, eps, NEGLIGIBLE_DELTA)
        return tradeoff(rates, eps, upper, attained)

    def renyi(self, orders: ArrayLike) -> Renyi:
        """Renyi divergences of the given orders, all above 1."""
        given = checks.reals("orders", orders, at_least=1, at_most=1e6)
        if not np.all(given > 1):
            raise InvalidParameter(f"orders must be > 1, got {given.min()!r}")
        with self._sides() as (upper_side, lower_side):
            upper, outside = upper_side.log_mgf(given - 1.0, NEGLIGIBLE_DELTA)
            lower = lower_side.log_mgf(given - 1.0, NEGLIGIBLE_DELTA)
        # The pairs leave out events of their own, so at high orders the lower side may come out
        # above; what it bounds from below is the divergence with nothing left out.
        lower = np.minimum(lower, upper)
        return Renyi(given, lower / (given - 1.0), upper / (given - 1.0), outside)

    def gaussian_dp(self) -> Summary:
        """The smallest mu of Gaussian DP that is an upper bound of this account."""
        eps = self._epsilons()
        with self._lock:
            upper = self._work.upper(self._work.grid(FRACTIONS.first))
            return gaussian_dp(eps, upper.curve(eps, NEGLIGIBLE_DELTA))

    def zero_concentrated(self) -> Summary:
        """The rho of zero-concentrated DP that covers the Renyi orders from 1.01 to 1000."""
        return zero_concentrated(self.renyi(1.0 + np.geomspace(0.01, 999.0, 240)))

    def _epsilons(self) -> FloatArray:
        """Epsilons from 0 to where delta is negligible."""
        end = min(LARGEST_EPSILON, max(1.0, self.certified_epsilon(NEGLIGIBLE_DELTA)))
        return np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 1500) * end])

    @contextmanager
    def _sides(self) -> Iterator[tuple[UpperSide, LowerCurve]]:
        """Both sides at the first spacing, for as long as nobody else may use them."""
        with self._lock:
            grid = self._work.grid(FRACTIONS.first)
            yield self._work.upper(grid), self._work.lower(grid)


@overload
def account(
    plan: Plan,
    *,
    relation: str | None = None,
    accuracy: float = 1e-3,
    method: Literal["certified", "one-slope"] = "certified",
    composition: str = "pair",
) -> Account: ...
@overload
def account(
    plan: Plan,
    *,
    relation: str | None = None,
    accuracy: float = 1e-3,
    method: Literal["paper"],
    composition: str = "pair",
) -> PaperAccount: ...
@overload
def account(
    plan: Plan,
    *,
    relation: str | None = None,
    accuracy: float = 1e-3,
    method: str,
    composition: str = "pair",
) -> Account | PaperAccount: ...
def account(
    plan: Plan,
    *,
    relation: str | None = None,
    accuracy: float = 1e-3,
    method: str = "certified",
    composition: str = "pair",
) -> Account | PaperAccount:
    """Account for a plan.

    The default relation is add_remove if every draw is Poisson or allocates, else replace_one.
    ``accuracy`` is the relative accuracy of epsilon. ``method="one-slope"`` composes the paper's
    theorem, in which one slope serves every multiplicity, instead of the certificate: valid, and
    looser. ``method="paper"`` composes the paper's own pair of data sets: what that pair attains,
    not a guarantee. ``composition="family"`` takes longer and chooses the worst pair anew in every
    step, which brings the bounds of ``epsilon`` and ``delta`` closer together where one kind of
    step is repeated under replace_one and has a family; other plans and other views stay as they
    are.

    >>> import mustdp as md
    >>> plan = md.repeat(100, md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=2.0)))
    >>> bounds = md.account(plan).epsilon(delta=1e-5)
    >>> print(f"{bounds.lower:.2f} <= epsilon <= {bounds.upper:.2f}")
    0.72 <= epsilon <= 0.77
    """
    accuracy = checks.real("accuracy", accuracy, at_least=1e-5, at_most=0.5)
    checks.choice("method", method, METHODS)
    checks.choice("composition", composition, COMPOSITIONS)
    if composition == "family" and method != "certified":
        raise NotCovered.refusing(
            "composition",
            f"must be 'pair' with {{method}} {method}",
            "'family'",
            mentions=("method",),
        )
    counted = atoms(plan)
    if relation is not None:
        used = Relation.read(relation)
    else:
        used = Relation.ADD_REMOVE if all(map(_random_size, counted)) else Relation.REPLACE_ONE
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
    return Account(plan, used, accuracy, method, composition)


def _random_size(atom: Atom) -> bool:
    if isinstance(atom, InEpoch):
        return not atom.epoch.fixed_size
    return isinstance(atom, Subsample) and not atom.scheme.fixed_size
