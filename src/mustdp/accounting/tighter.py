"""Bounds of a plan made tighter by a family of pairs, where some of its steps have one.

The bounds of one pair per step and those of the family (``family.py``) are both proved for the same
plan, so the smaller upper and the larger lower one hold as well. Their crossing would refute one of
the proofs or its arithmetic: then nothing is answered.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from mustdp.accounting.along import Along, family_along
from mustdp.accounting.bounds import ONE_PAIR, Bounds, FamilyBounds
from mustdp.accounting.certify import consistent
from mustdp.accounting.families import family_of
from mustdp.accounting.family import Counted, family_bounds
from mustdp.accounting.plan import Plan, atoms
from mustdp.accounting.workings import Workings
from mustdp.amplification.replaced_twice import ReplacedTwice
from mustdp.errors import Contradiction, NumericalFailure
from mustdp.loss.questions import DeltaAt, EpsilonAt, Question
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray

#: What a plan may be composed with, and the work that its family may take: "auto" answers in about
#: a second or three, "family" in up to twenty.
_WORK = {"auto": 6e7, "pair": 0.0, "family": 1.2e9}
COMPOSITIONS = tuple(_WORK)
_NAMES = {"family": "exact-family", "family in blocks": "blocks"}
#: Share of the work for what is only drawn: it is looser by a few thousandths at most.
_SHARE_ALONG = 0.5
#: More than any question leaves out of a law: whoever has no family then never has one.
_COARSEST_TAIL = 1e-6
#: Plans of more kinds of steps than this are left to one pair: each kind would take its time.
_MOST_KINDS = 8
#: Where a profile is looked at closely: rates from a tenth to a thousandth are decided there.
_LOOKS: tuple[Question, ...] = (DeltaAt(0.0), EpsilonAt(1e-3))


class FamilyComposition:
    """What the family says about one plan, each question worked out once."""

    def __init__(self, plan: Plan, pair: Workings, composition: str, dimension: int | None) -> None:
        self._pair, self._relation, self._dimension = pair, pair.relation, dimension
        self._work = _WORK[composition]
        thorough = composition == "family"
        self._counted = _with_family(plan, pair.relation, thorough=thorough) if self._work else ()
        self._found: dict[Question, FamilyBounds | None] = {}

    def tighten(self, bounds: Bounds, question: Question) -> tuple[Bounds, str]:
        """The tighter bounds, and how the upper one was composed."""
        found = self._ask(question, bounds.upper)
        if found is None:
            return bounds, ONE_PAIR
        lower, name = max(
            (bounds.lower, bounds.attained_by),
            (found.lower, found.attained_by),
            key=lambda attained: attained[0],
        )
        upper, composed = min(
            (bounds.upper, ONE_PAIR),
            (found.upper, _NAMES.get(found.composition, ONE_PAIR)),
            key=lambda certified: certified[0],
        )
        lower = consistent(lower, upper)
        if (lower, upper) == (bounds.lower, bounds.upper):
            return bounds, ONE_PAIR
        # Finer grids move neither bound past the other.
        tighter = replace(
            bounds, lower=lower, upper=upper, attained_by=name, numerical_gap=upper - lower
        )
        return tighter, composed

    def profile(self, epsilon: FloatArray) -> FloatArray:
        """Certified deltas at many epsilons, for both orders: the least of a few looks, or 1.

        Each look bounds the worst delta of adaptive composition at every epsilon, closely at one.
        """
        found = np.ones(epsilon.size)
        for question in _LOOKS:
            seen = self._ask(question)
            if seen is not None and seen.profile is not None:
                found = np.minimum(found, seen.profile(epsilon))
        return found

    @property
    def applies(self) -> bool:
        """Whether some steps have a family."""
        return bool(self._counted)

    @property
    def adaptive(self) -> bool:
        """Whether what is attained by choosing between orders as releases come in is found."""
        return len(self._counted) == 1

    def along(self, delta: float, counts: Collection[int], epsilon: FloatArray) -> Along | None:
        """What one pass of the family says at other counts of steps and at many epsilons."""
        if not self.adaptive:  # none, or several kinds of steps
            return None
        ((atom, steps),) = self._counted
        return family_along(
            atom, steps, self._relation, delta=delta, counts=counts, epsilon=epsilon,
            dimension=self._dimension, work=_SHARE_ALONG * self._work,
        )  # fmt: skip

    def _ask(self, question: Question, upper: float | None = None) -> FamilyBounds | None:
        if not self._counted:
            return None
        if question not in self._found:
            try:
                self._found[question] = family_bounds(
                    self._counted, self._relation, question,
                    dimension=self._dimension, work=self._work,
                    known=None if upper is None else (self._pair, upper),
                )  # fmt: skip
            except Contradiction:
                raise
            except NumericalFailure:  # the bounds of one pair stand by themselves
                self._found[question] = None
        return self._found[question]


def _with_family(plan: Plan, relation: Relation, *, thorough: bool) -> tuple[Counted, ...]:
    """The atoms of a plan with their counts; none if one pair per step is all there is.

    Unless ``thorough``, a family that costs much and gains little is no reason to begin.
    """
    counted = tuple(atoms(plan).items())
    families = (
        family_of(atom, relation, tail=_COARSEST_TAIL) for atom, count in counted if count > 1
    )
    repeated = any(
        found is not None and (thorough or not isinstance(found, ReplacedTwice))
        for found in families
    )
    return counted if repeated and len(counted) <= _MOST_KINDS else ()
