"""Both sides of many atoms together: every composition that is looked at for a bound.

Above, a composition per direction: under add_remove the record may be on either side, and the worse
side counts. Below, a composition per choice of pairs that neighbouring data sets really have; the
best of them counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property

import numpy as np

from mustdp.accounting.atom_pairs import AtomPairs
from mustdp.loss.curve import LowerCurve, LowerParts, Moments, UpperCurve
from mustdp.loss.points import Grid
from mustdp.loss.questions import Question
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray

#: The families of attained pairs, and what each is called in the other order of the neighbours.
_OTHER_ORDER = {
    "aligned": "reversed",
    "reversed": "aligned",
    "symmetric": "symmetric",
    "aligned, largest": "reversed, largest",
    "reversed, largest": "aligned, largest",
    "symmetric, largest": "symmetric, largest",
    "crowded": "crowded, reversed",
    "crowded, reversed": "crowded",
}


class UpperSide:
    """The dominating pairs of all atoms, composed: certified, the larger of both directions."""

    def __init__(self, pairs: Sequence[AtomPairs], counts: Sequence[int], grid: Grid) -> None:
        ahead = [pair.dominating for pair in pairs]
        if all(pair.self_dual for pair in ahead):
            directions = {"both": ahead}
        else:
            directions = {"remove": ahead, "add": [pair.swapped for pair in ahead]}
        self._curves = {
            direction: UpperCurve(chosen, counts, grid) for direction, chosen in directions.items()
        }

    @cached_property
    def coarser(self) -> UpperSide:
        """The same at twice the spacing, from the same evaluations."""
        other = copy(self)
        other._curves = {name: curve.coarser for name, curve in self._curves.items()}
        return other

    def worst(self, question: Question) -> tuple[float, str]:
        """The certified answer, and the direction that decided it."""
        answers = [(curve.value(question), direction) for direction, curve in self._curves.items()]
        return max(answers, key=lambda answer: answer[0])

    def gap(self, question: Question, direction: str) -> float:
        """How much of the answer of one direction is due to the discretisation."""
        return self._curves[direction].gap(question)

    def curve(self, epsilon: FloatArray, smallest: float) -> FloatArray:
        """Certified deltas at many epsilons, accurate down to ``smallest``."""
        curves = [curve.curve(epsilon, smallest) for curve in self._curves.values()]
        return np.asarray(np.max(curves, axis=0))

    def log_mgf(self, theta: FloatArray, rare: float) -> tuple[FloatArray, float]:
        """Log moments of the finite losses, and the mass that was left out of them."""
        found = [curve.log_mgf(theta, rare) for curve in self._curves.values()]
        return np.asarray(np.max([moments for moments, _ in found], axis=0)), max(
            outside for _, outside in found
        )

    def whole_log_mgf(self, theta: FloatArray, crude: Sequence[Moments]) -> FloatArray:
        """Log moments of all losses, none left out."""
        found = [curve.whole_log_mgf(theta, crude) for curve in self._curves.values()]
        return np.asarray(np.max(found, axis=0))


def lower_side(
    pairs: Sequence[AtomPairs], counts: Sequence[int], grid: Grid, relation: Relation,
    *, mixed: bool = True,
) -> LowerCurve:  # fmt: skip
    """The attained pairs of all atoms, composed: pure families, and mixtures of orders.

    Under replace_one an adaptive data holder may take a different order in every step; under
    add_remove the record is on one side throughout. Whoever knows what an adaptive data holder
    attains with aligned and reversed needs neither reversed alone nor mixtures (not ``mixed``).
    """
    names = [name for name in _OTHER_ORDER if all(name in pair.families for pair in pairs)]
    if not mixed:
        names = [name for name in names if "reversed" not in name]
    choices = [(name, _mixture(pairs, counts, name, name)) for name in names]
    if mixed and relation == Relation.REPLACE_ONE and "aligned" in names and max(counts) > 1:
        choices += [
            (f"half aligned, half {name}", _mixture(pairs, counts, "aligned", name))
            for name in names
            if name != "aligned"
        ]
    return LowerCurve(choices, grid)


def in_both_orders(
    lower: LowerCurve, epsilon: FloatArray, smallest: float
) -> list[tuple[FloatArray, FloatArray]]:
    """Lower bounds of the deltas of each named pair, in the order named and in the other."""
    found = lower.curves(epsilon, smallest, tuple(_OTHER_ORDER))
    return [(found[name], found[back]) for name, back in _OTHER_ORDER.items() if name in found]


def _mixture(
    pairs: Sequence[AtomPairs], counts: Sequence[int], first: str, second: str
) -> LowerParts:
    """The first family in half of all steps of each atom, the second in the others."""
    parts = []
    for which, (pair, count) in enumerate(zip(pairs, counts, strict=True)):
        if first == second:
            parts.append((pair.families[first], count, which))
        else:
            parts.append((pair.families[first], count - count // 2, which))
            parts.append((pair.families[second], count // 2, which))
    return parts
