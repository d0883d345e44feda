"""The accountant: what people ask about a plan, each answer from the same workings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from mustdp.accounting.bounds import Bounds, Curve
from mustdp.accounting.certify import FRACTIONS, certify
from mustdp.accounting.risk import USUAL_FPR, Risk, risk
from mustdp.accounting.searched import SearchedAccount, is_zero
from mustdp.accounting.shown import in_words, shown
from mustdp.accounting.sides import UpperSide
from mustdp.accounting.viewed import Viewer
from mustdp.accounting.views import (
    NEGLIGIBLE_DELTA,
    Renyi,
    Summary,
    Tradeoff,
    smallest_counted,
    zero_concentrated,
)
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.limits import LARGEST_EPSILON
from mustdp.loss.curve import LowerCurve
from mustdp.loss.questions import DeltaAt, EpsilonAt, Question
from mustdp.numerics import checks


class Account(SearchedAccount):
    """Certified bounds of one plan under one relation; made by :func:`account`.

    May be shared between threads, which wait for each other, and pickled if the plan can be.

    Attributes
    ----------
    plan : Plan
        What is released.
    relation : Relation
        Which data sets are neighbours.
    accuracy : float
        Relative accuracy of epsilon.
    method : str
        "certified" or "one-slope".
    steps : int
        Number of releases, each on a draw of its own or on all records; an epoch counts once.
    composition : str
        How the upper bound of the last epsilon or delta was composed. Where threads share an
        account that may be the answer to another one: the bounds themselves say it, too.
    dimension : int or None
        That of every release, where it was said.
    group : int
        How many records of one person the guarantee covers.

    Examples
    --------
    >>> import mustdp as md
    >>> step = md.subsample(md.poisson(1000, 0.01), md.gaussian(noise_multiplier=2.0))
    >>> account = md.account(md.repeat(100, step))
    >>> round(account.epsilon(delta=1e-5).upper, 3)
    0.19
    >>> account.relation.option
    'add-remove'
    """

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

    def delta(self, epsilon: float) -> Bounds:
        """Bounds of delta at an epsilon.

        Parameters
        ----------
        epsilon : float
            The epsilon to ask about, from 0 to 500.

        Returns
        -------
        Bounds
            The upper one is certified.

        Raises
        ------
        NumericalFailure
            No number that can be trusted was found.
        """
        return self._bounds(DeltaAt(epsilon))

    def epsilon(self, delta: float) -> Bounds:
        """Bounds of epsilon at a delta.

        Parameters
        ----------
        delta : float
            The delta to ask about, from 1e-25 to below 1; or 0, where no loss is infinite, as with
            Laplace noise: the largest loss.

        Returns
        -------
        Bounds
            The upper one is certified; it is infinite where no finite epsilon is.

        Raises
        ------
        NumericalFailure
            No number that can be trusted was found.
        """
        if is_zero(delta):
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
            return replace(found, composition=self.composition)

    def curve(self, epsilon: ArrayLike) -> Curve:
        """Bounds of delta at many epsilons at once, at the first spacing.

        Parameters
        ----------
        epsilon : array_like
            The epsilons to ask about, from 0 to 500.

        Returns
        -------
        Curve
            A lower and an upper delta for each.
        """
        eps = checks.reals("epsilon", epsilon, at_least=0, at_most=LARGEST_EPSILON)
        with self._sides() as (upper_side, lower_side):
            lower = lower_side.curve(eps, NEGLIGIBLE_DELTA)
            upper = upper_side.curve(eps, NEGLIGIBLE_DELTA)
        if not np.all(lower <= upper * (1.0 + 1e-9) + 1e-300):
            raise NumericalFailure("the bounds of the curve contradict each other")
        return Curve(eps, np.minimum(lower, upper), upper)

    def tradeoff(self, fpr: ArrayLike) -> Tradeoff:
        """Missed-detection rates of an attacker at false-positive rates.

        Parameters
        ----------
        fpr : array_like
            False-positive rates of the attacker, from 0 to 1.

        Returns
        -------
        Tradeoff
            A lower and an upper missed-detection rate for each.
        """
        rates = checks.reals("fpr", fpr, at_least=0, at_most=1)
        with self._lock:
            smallest = smallest_counted(rates)
            return self._viewer.tradeoff(rates, self._end(smallest), smallest)

    def risk(self, fpr: ArrayLike = USUAL_FPR) -> Risk:
        """What an attacker who sees everything released achieves.

        Parameters
        ----------
        fpr : array_like, default=(0.001, 0.01, 0.1)
            False-positive rates of the attacker, from 0 to 1.

        Returns
        -------
        Risk
            True-positive rates at these, and the advantage; ``print`` says it in words.

        Examples
        --------
        >>> import mustdp as md
        >>> plan = md.repeat(100, md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=2.0)))
        >>> print(md.account(plan).risk([0.01]).tpr[0])
        0.0150 attained, 0.0152 certified (replace-one)
        """
        return risk(self, fpr)

    def renyi(self, orders: ArrayLike) -> Renyi:
        """Renyi divergences by order.

        Parameters
        ----------
        orders : array_like
            The orders, above 1 and at most 1e6.

        Returns
        -------
        Renyi
            A lower and an upper divergence for each.
        """
        given = checks.reals("orders", orders, at_least=1, at_most=1e6)
        if not np.all(given > 1):
            raise InvalidParameter(f"orders must be > 1, got {given.min()!r}")
        with self._lock:
            return self._viewer.renyi(given)

    def gaussian_dp(self) -> Summary:
        """The smallest mu of Gaussian DP that is an upper bound of this account.

        Returns
        -------
        Summary
            The mu, infinite where none up to 1e6 will do.
        """
        with self._lock:
            exact = self._work.gaussian
            if exact is not None:
                return Summary(exact, "upper bound, and exact: Gaussian noise on all records")
            return self._viewer.gaussian_dp(self._end())

    def zero_concentrated(self) -> Summary:
        """The rho of zero-concentrated DP that covers the Renyi orders from 1.01 to 1000.

        Returns
        -------
        Summary
            The rho, outside an event whose probability its meaning states.
        """
        return zero_concentrated(self.renyi(1.0 + np.geomspace(0.01, 999.0, 240)))

    @property
    def _viewer(self) -> Viewer:
        return Viewer(self._work, self.accuracy, self._strict, self._family.profile)

    def _end(self, delta: float = NEGLIGIBLE_DELTA) -> float:
        """The epsilon at which delta is negligible."""
        return min(LARGEST_EPSILON, max(1.0, self.certified_epsilon(delta)))

    @contextmanager
    def _sides(self) -> Iterator[tuple[UpperSide, LowerCurve]]:
        """Both sides at the first spacing, for as long as nobody else may use them."""
        with self._lock:
            grid = self._work.grid(FRACTIONS.first)
            yield self._work.upper(grid), self._work.lower(grid)
