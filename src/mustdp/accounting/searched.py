"""What searches ask an account: upper bounds alone, as quickly as they can be had."""

from __future__ import annotations

from collections.abc import Collection
from threading import RLock

import numpy as np
from numpy.typing import ArrayLike

from mustdp.accounting.along import Along
from mustdp.accounting.bounds import ONE_PAIR
from mustdp.accounting.certify import FRACTIONS, certify
from mustdp.accounting.plan import Plan
from mustdp.accounting.pure import Pure
from mustdp.accounting.risk import closest_tprs
from mustdp.accounting.tighter import FamilyComposition
from mustdp.accounting.views import smallest_counted
from mustdp.accounting.workings import Workings
from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.loss.questions import DeltaAt, EpsilonAt
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray

#: Relative accuracy of epsilon if none is asked for.
ACCURACY = 1e-3


class SearchedAccount:
    """The workings of one plan under one relation, and the upper bounds read off them."""

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

    @property
    def shift(self) -> float | None:
        """The shift of one copy; None if atoms differ in it."""
        shifts = {pair.shift for pair in self._work.pairs}
        return shifts.pop() if len(shifts) == 1 else None

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
        """The upper bound of epsilon alone, with one pair, for searches that need no lower one.

        Parameters
        ----------
        delta : float
            The delta to ask about, from 1e-25 to below 1; or 0, as for :meth:`epsilon`.
        accuracy : float, default=None
            Relative accuracy; None means that of the account.

        Returns
        -------
        float
            Certified.
        """
        if is_zero(delta):
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
        """The upper bound of :meth:`epsilon` alone, for searches that need no lower one.

        Parameters
        ----------
        delta : float
            The delta to ask about, from 1e-25 to below 1.

        Returns
        -------
        float
            Certified.
        """
        with self._lock:
            question = EpsilonAt(delta)
            found = certify(
                self._work, question, self.accuracy, both_sides=False, strict=self._strict
            )
            return self._family.tighten(found, question)[0].upper

    def along(self, delta: float, counts: Collection[int], epsilon: ArrayLike) -> Along | None:
        """Upper bounds of a family at other counts of the same step, and of delta at many epsilons.

        One pass gives all of them.

        Parameters
        ----------
        delta : float
            The delta at which epsilons are asked for, from 1e-25 to below 1.
        counts : collection of int
            Numbers of steps.
        epsilon : array_like
            The epsilons to ask about, from 0 to 500.

        Returns
        -------
        Along or None
            Certified epsilons by count, and deltas; None where no family is worked through step by
            step.
        """
        eps = checks.reals("epsilon", epsilon, at_least=0, at_most=LARGEST_EPSILON)
        with self._lock:
            return self._family.along(delta, counts, eps)

    def certified_tpr(self, fpr: float, *, with_family: bool = False) -> float:
        """The upper bound of the true-positive rate alone, looked for closely around its place.

        Parameters
        ----------
        fpr : float
            The false-positive rate of the attacker, from 0 to 1.
        with_family : bool, default=False
            Whether steps are composed with whatever composes best; one pair per step is quicker.

        Returns
        -------
        float
            Certified.
        """
        rate = checks.real("fpr", fpr, at_least=0, at_most=1)
        return self.certified_tprs([rate], with_family=with_family)[0]

    def certified_tprs(self, fpr: ArrayLike, *, with_family: bool = False) -> list[float]:
        """The same at several rates at once, which is quicker.

        Parameters
        ----------
        fpr : array_like
            False-positive rates of the attacker, from 0 to 1.
        with_family : bool, default=False
            As in :meth:`certified_tpr`.

        Returns
        -------
        list of float
            Certified, one for each.
        """
        rates = checks.reals("fpr", fpr, at_least=0, at_most=1)
        with self._lock:
            upper = self._work.upper(self._work.grid(FRACTIONS.first))
            smallest = smallest_counted(rates)

            def profile(eps: FloatArray) -> FloatArray:
                found = upper.curve(eps, smallest)
                return np.minimum(found, self._family.profile(eps)) if with_family else found

            return closest_tprs(rates.tolist(), profile)

    def certified_advantage(self, accuracy: float | None = None) -> float:
        """The upper bound of the advantage alone: delta at epsilon 0, with one pair.

        Parameters
        ----------
        accuracy : float, default=None
            Relative accuracy; None means that of the account.

        Returns
        -------
        float
            Certified.
        """
        wanted = self.accuracy if accuracy is None else accuracy
        with self._lock:
            return certify(self._work, DeltaAt(0.0), wanted, both_sides=False).upper


def is_zero(delta: object) -> bool:
    """Whether this is the number 0, which False is not."""
    return isinstance(delta, int | float) and not isinstance(delta, bool) and delta == 0
