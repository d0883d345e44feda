"""Bounds of a plan made tighter by a family of pairs, where its steps are all alike and have one.

The bounds of one pair per step and those of the family (``family.py``) are both proved for the same
plan, so the smaller upper and the larger lower one hold as well. Their crossing would refute one of
the proofs or its arithmetic: then nothing is answered.
"""

from __future__ import annotations

from dataclasses import replace

from mustdp.accounting.bounds import Bounds
from mustdp.accounting.certify import consistent
from mustdp.accounting.families import family_of
from mustdp.accounting.family import FamilyBounds, family_bounds
from mustdp.accounting.plan import Atom, Plan, atoms
from mustdp.loss.questions import Question
from mustdp.mechanisms.relation import Relation

#: What a plan may be composed with.
COMPOSITIONS = ("pair", "family")
ONE_PAIR = "one pair"
_NAMES = {"family": "exact-family", "family in blocks": "blocks"}
#: More than any question leaves out of a law: whoever has no family then never has one.
_COARSEST_TAIL = 1e-6


class FamilyComposition:
    """What the family says about one plan, each question worked out once."""

    def __init__(self, plan: Plan, relation: Relation) -> None:
        self._relation = relation
        self._steps = _alike(plan, relation)
        self._found: dict[Question, FamilyBounds | None] = {}

    def tighten(self, bounds: Bounds, question: Question) -> tuple[Bounds, str]:
        """The tighter bounds, and how the upper one was composed."""
        found = self._ask(question)
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

    def _ask(self, question: Question) -> FamilyBounds | None:
        if self._steps is None:
            return None
        if question not in self._found:
            self._found[question] = family_bounds([self._steps], self._relation, question)
        return self._found[question]


def _alike(plan: Plan, relation: Relation) -> tuple[Atom, int] | None:
    """The one kind of step that the plan repeats, if it has a family; None otherwise."""
    counted = tuple(atoms(plan).items())
    if len(counted) != 1 or counted[0][1] < 2:
        return None
    return None if family_of(counted[0][0], relation, tail=_COARSEST_TAIL) is None else counted[0]
