"""The accountant: what people ask about a plan, each answer from the same workings."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from threading import RLock

import numpy as np
from numpy.typing import ArrayLike

from mustdp.accounting.along import Along
from mustdp.accounting.bounds import Bounds, Curve
from mustdp.accounting.certify import FRACTIONS, certify
from mustdp.accounting.plan import Plan
from mustdp.accounting.pure import Pure
from mustdp.accounting.risk import USUAL_FPR, Risk, closest_tprs, risk
from mustdp.accounting.shown import in_words, shown
from mustdp.accounting.sides import UpperSide
from mustdp.accounting.tighter import ONE_PAIR, FamilyComposition
from mustdp.accounting.viewed import Viewer
from mustdp.accounting.views import (
    NEGLIGIBLE_DELTA,
    Renyi,
    Summary,
    Tradeoff,
    zero_concentrated,
)
from mustdp.accounting.workings import Workings
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.loss.curve import LowerCurve
from mustdp.loss.questions import DeltaAt, EpsilonAt, Question
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray

#: Relative accuracy of epsilon if none is asked for.
ACCURACY = 1e-3


class Account:
    """Certified bounds of one plan under one relation, for up to ``group`` records that differ.

    May be shared between threads, which wait for each other, and pickled if the plan can be.
    ``composition`` says how the upper bound of the last epsilon or delta was composed: with "one
    pair" per step, with the "exact-family", or with the family inside "blocks" of steps.
    ``dimension`` is that of every release, where it was said.

    >>> import mustdp as md
    >>> step = md.subsample(md.poisson(1000, 0.01), md.gaussian(noise_multiplier=2.0))
    >>> account = md.account(md.repeat(100, step))
    >>> round(account.epsilon(delta=1e-5).upper, 3)
    0.19
    >>> account.relation.option
    'add-remove'
    """

    def __init__(
        self, plan: Plan, relation: Relation, accuracy: float | None, method: str,
        composition: str = "pair", dimension: int | None = None, group: int = 1,
    ) -> None:  # fmt: skip
        self.plan, self.relation = plan, Relation.read(relation)
        self.accuracy, self.method = ACCURACY if accuracy is None else accuracy, method
        self._strict = accuracy is not None
        self.group = group
        self._work = Workings(plan, self.relation, method, group)
        self.steps = self._work.steps
        self.composition, self._chosen, self.dimension = ONE_PAIR, composition, dimension
        proved = composition if group == 1 else "pair"  # families are proved for one record
        self._family = FamilyComposition(plan, self._work, proved, dimension)
        self._lock = RLock()

    def __reduce__(self) -> tuple[type[Account], tuple[object, ...]]:
        """What is sent elsewhere is the description; it is worked out again there."""
        accuracy = self.accuracy if self._strict else None
        chosen = self._chosen, self.dimension, self.group
        return Account, (self.plan, self.relation, accuracy, self.method, *chosen)

    def __repr__(self) -> str:
        return f"Account({in_words(self.plan)}; relation {self.relation.option})"

    def __str__(self) -> str:
        return shown(self).text()

    def _repr_html_(self) -> str:
        return shown(self).html()

    @property
    def shift(self) -> float | None:
        """The shift of one copy; None if atoms differ in it."""
        shifts = {pair.shift for pair in self._work.pairs}
        return shifts.pop() if len(shifts) == 1 else None

    def delta(self, epsilon: float) -> Bounds:
        """Bounds of delta at ``epsilon``."""
        return self._bounds(DeltaAt(epsilon))

    def epsilon(self, delta: float) -> Bounds:
        """Bounds of epsilon at ``delta``; at 0, where no loss is infinite, the largest loss."""
        if _is_zero(delta):
            pure = self._pure(delta)
            gap = pure.upper - pure.lower
            coarse = gap > self.accuracy * pure.upper
            if coarse and self._strict:
                raise NumericalFailure(
                    f"epsilon = {pure.upper!r} is certified at delta = 0, but {pure.lower!r} may do"
                )
            name = pure.attained_by
            return Bounds(pure.lower, pure.upper, name, "both", gap, self.relation, coarse)
        return self._bounds(EpsilonAt(delta))

    def _bounds(self, question: Question) -> Bounds:
        with self._lock:
            # Mixtures of orders are covered by a data holder who chooses along the way.
            mixed = not self._family.adaptive
            found = certify(self._work, question, self.accuracy, mixed=mixed, strict=self._strict)
            found, self.composition = self._family.tighten(found, question)
            return found

    def _pure(self, delta: float) -> Pure:
        """The largest loss, or a refusal of a delta of zero."""
        with self._lock:
            pure = self._work.pure
        if pure is None:
            raise InvalidParameter.refusing(
                "delta",
                f"must be a number >= {SMALLEST_DELTA:g} and < 1 here, as only the certificate of "
                "Laplace noise has an epsilon at 0",
                float(delta),
            )
        return pure

    def certified_epsilon(self, delta: float, accuracy: float | None = None) -> float:
        """The upper bound of epsilon alone, with one pair, for searches that need no lower one."""
        if _is_zero(delta):
            return self._pure(delta).upper
        wanted = self.accuracy if accuracy is None else accuracy
        with self._lock:
            question = EpsilonAt(delta)
            strict = self._strict
            return certify(self._work, question, wanted, both_sides=False, strict=strict).upper

    @property
    def has_family(self) -> bool:
        """Whether some steps are composed with a family of pairs."""
        return self._family.applies

    def tightest_epsilon(self, delta: float) -> float:
        """The upper bound of :meth:`epsilon` alone, for searches that need no lower one."""
        with self._lock:
            question = EpsilonAt(delta)
            found = certify(
                self._work, question, self.accuracy, both_sides=False, strict=self._strict
            )
            return self._family.tighten(found, question)[0].upper

    def along(self, delta: float, counts: Collection[int], epsilon: ArrayLike) -> Along | None:
        """Upper bounds of a family at other counts of the same step, and of delta at many epsilons.

        One pass gives all of them; None where no family is worked through step by step.
        """
        eps = checks.reals("epsilon", epsilon, at_least=0, at_most=LARGEST_EPSILON)
        with self._lock:
            return self._family.along(delta, counts, eps)

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
        with self._lock:
            return self._viewer.tradeoff(rates, self._end())

    def risk(self, fpr: ArrayLike = USUAL_FPR) -> Risk:
        """What an attacker who sees everything released achieves at false-positive rates ``fpr``.

        >>> import mustdp as md
        >>> plan = md.repeat(100, md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=2.0)))
        >>> print(f"{md.account(plan).risk([0.01]).tpr[0].upper:.4f}")
        0.0152
        """
        return risk(self, fpr)

    def certified_tpr(self, fpr: float, *, with_family: bool = False) -> float:
        """The upper bound of the true-positive rate alone, looked for closely around its place.

        With one pair per step, which is quick; ``with_family`` with whatever composes best.
        """
        rate = checks.real("fpr", fpr, at_least=0, at_most=1)
        return self.certified_tprs([rate], with_family=with_family)[0]

    def certified_tprs(self, fpr: ArrayLike, *, with_family: bool = False) -> list[float]:
        """The same at several rates at once, which is quicker."""
        rates = checks.reals("fpr", fpr, at_least=0, at_most=1)
        with self._lock:
            upper = self._work.upper(self._work.grid(FRACTIONS.first))

            def profile(eps: FloatArray) -> FloatArray:
                found = upper.curve(eps, NEGLIGIBLE_DELTA)
                return np.minimum(found, self._family.profile(eps)) if with_family else found

            return closest_tprs(rates.tolist(), profile)

    def certified_advantage(self, accuracy: float | None = None) -> float:
        """The upper bound of the advantage alone: delta at epsilon 0, with one pair."""
        wanted = self.accuracy if accuracy is None else accuracy
        with self._lock:
            return certify(self._work, DeltaAt(0.0), wanted, both_sides=False).upper

    def renyi(self, orders: ArrayLike) -> Renyi:
        """Renyi divergences of the given orders, all above 1."""
        given = checks.reals("orders", orders, at_least=1, at_most=1e6)
        if not np.all(given > 1):
            raise InvalidParameter(f"orders must be > 1, got {given.min()!r}")
        with self._lock:
            return self._viewer.renyi(given)

    def gaussian_dp(self) -> Summary:
        """The smallest mu of Gaussian DP that is an upper bound of this account."""
        with self._lock:
            exact = self._work.gaussian
            if exact is not None:
                return Summary(exact, "upper bound, and exact: Gaussian noise on all records")
            return self._viewer.gaussian_dp(self._end())

    def zero_concentrated(self) -> Summary:
        """The rho of zero-concentrated DP that covers the Renyi orders from 1.01 to 1000."""
        return zero_concentrated(self.renyi(1.0 + np.geomspace(0.01, 999.0, 240)))

    @property
    def _viewer(self) -> Viewer:
        return Viewer(self._work, self.accuracy, self._strict, self._family.profile)

    def _end(self) -> float:
        """The epsilon at which delta is negligible."""
        return min(LARGEST_EPSILON, max(1.0, self.certified_epsilon(NEGLIGIBLE_DELTA)))

    @contextmanager
    def _sides(self) -> Iterator[tuple[UpperSide, LowerCurve]]:
        """Both sides at the first spacing, for as long as nobody else may use them."""
        with self._lock:
            grid = self._work.grid(FRACTIONS.first)
            yield self._work.upper(grid), self._work.lower(grid)


def _is_zero(delta: object) -> bool:
    """Whether this is the number 0, which False is not."""
    return isinstance(delta, int | float) and not isinstance(delta, bool) and delta == 0
