"""Both sides of an account at one spacing of the grid."""

from __future__ import annotations

import numpy as np

from mustdp.accounting.pairs import AtomPairs
from mustdp.loss.curve import LowerCurve, Question, UpperCurve
from mustdp.loss.dots import DominatingPair
from mustdp.loss.pairs import MixturePair
from mustdp.loss.points import Grid
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray


class Level:
    """Everything at one spacing, made when first asked for."""

    def __init__(
        self, pairs: list[AtomPairs], counts: list[int], grid: Grid, relation: Relation
    ) -> None:
        self._pairs, self._counts, self._relation = pairs, counts, relation
        self.grid = grid
        self._uppers: dict[str, UpperCurve] = {}
        self._lower: LowerCurve | None = None

    def upper(self, question: Question, at: float) -> tuple[float, str]:
        """The upper bound, the larger of both directions where they differ."""
        curves = self._directions().items()
        answers = [(curve.value(question, at), direction) for direction, curve in curves]
        return max(answers, key=lambda answer: answer[0])

    def lower_gap(self, question: Question, at: float, label: str) -> float:
        """How much the discretisation took off the lower bound."""
        return self._lowers().gap(question, at, label)

    def curves(self, epsilon: FloatArray, smallest: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of delta at many epsilons."""
        return self._lowers().curve(epsilon, smallest), self.upper_curve(epsilon, smallest)

    def upper_curve(self, epsilon: FloatArray, smallest: float) -> FloatArray:
        """Upper bounds of delta at many epsilons, the larger of both directions."""
        uppers = [curve.curve(epsilon, smallest) for curve in self._directions().values()]
        return np.asarray(np.max(uppers, axis=0))

    def attained(self, epsilon: FloatArray, smallest: float) -> list[tuple[FloatArray, FloatArray]]:
        """Lower bounds of the deltas of each named pair, in the order named and in the other."""
        other = {"aligned": "reversed", "reversed": "aligned", "symmetric": "symmetric"}
        found = self._lowers().curves(epsilon, smallest, tuple(other))
        return [(found[name], found[back]) for name, back in other.items() if name in found]

    def moments(self, theta: FloatArray, rare: float) -> tuple[FloatArray, FloatArray, float]:
        """Log moments of the loss, lower and upper, and the mass the upper side leaves out."""
        pairs = [curve.log_mgf(theta, rare) for curve in self._directions().values()]
        upper = np.asarray(np.max([p[0] for p in pairs], axis=0))
        return self._lowers().log_mgf(theta, rare), upper, max(p[1] for p in pairs)

    def gap(self, question: Question, at: float, direction: str) -> float:
        """How much of the upper bound is due to the discretisation."""
        return self._directions()[direction].gap(question, at)

    def lower(self, question: Question, at: float) -> tuple[float, str]:
        """The largest attained value."""
        return self._lowers().best(question, at)

    def _lowers(self) -> LowerCurve:
        if self._lower is None:
            self._lower = LowerCurve(self._choices(), self.grid)
        return self._lower

    def _directions(self) -> dict[str, UpperCurve]:
        if not self._uppers:
            ahead: list[DominatingPair] = [pair.dominating for pair in self._pairs]
            if all(pair.forward is pair.backward for pair in ahead):
                self._uppers["both"] = UpperCurve(ahead, self._counts, self.grid)
            else:
                behind = [pair.swapped for pair in ahead]
                self._uppers["remove"] = UpperCurve(ahead, self._counts, self.grid)
                self._uppers["add"] = UpperCurve(behind, self._counts, self.grid)
        return self._uppers

    def _choices(self) -> list[tuple[str, list[tuple[MixturePair, int, int]]]]:
        """The compositions tried for the lower bound: pure families, and mixtures of orders.

        Under replace_one an adaptive data holder may take a different order in every step; under
        add_remove the record is on one side throughout.
        """
        if any(not pair.families for pair in self._pairs):
            return []
        names = [
            n
            for n in ("aligned", "reversed", "symmetric")
            if all(n in pair.families for pair in self._pairs)
        ]
        choices = [(name, self._mixture(name, name)) for name in names]
        if self._relation == Relation.REPLACE_ONE and "aligned" in names and max(self._counts) > 1:
            choices += [
                (f"half aligned, half {name}", self._mixture("aligned", name))
                for name in names
                if name != "aligned"
            ]
        return choices

    def _mixture(self, first: str, second: str) -> list[tuple[MixturePair, int, int]]:
        parts = []
        for which, (pair, count) in enumerate(zip(self._pairs, self._counts, strict=True)):
            if first == second:
                parts.append((pair.families[first], count, which))
            else:
                parts.append((pair.families[first], count - count // 2, which))
                parts.append((pair.families[second], count // 2, which))
        return parts
