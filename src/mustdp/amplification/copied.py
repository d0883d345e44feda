"""Families of pairs where a record may be drawn several times: WR and MUSTow.

With replacement all places of a batch are filled with common records y_1, y_2, …, and x takes the
first J places. Against i copies of x' the distance of j >= i copies of x is at most
i w + u_{i+1} + … + u_j; the first place has its own triangle (u, v, w), later ones move by at most
s. In MUSTow the slot of stage I holds x, x' or a common record y* (distances U, V), and the other
slots hold common records, the first of them with a triangle of its own. Both become a market of
supplies and demands (``flows.py``). The proofs are in docs/derivations/family.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.amplification.cells import Cell, Corner, disc_cells, end_cell, triangle
from mustdp.amplification.flows import Bend, Market
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.sampling.law import MultiplicityLaw

#: Laws with more positive multiplicities than this are left to the single pair.
MOST_COPIES = 40
#: Triangles are looked at for this many copies; more are rare.
_BENT = 4


@dataclass(frozen=True, eq=False)
class Copies:
    """What the two families share: a law of copies, rounded to the safe side."""

    law: MultiplicityLaw
    shift: float
    parts: int = 4
    most_cells: int = 140

    @property
    def _slack(self) -> float:
        return 4.0 * self.law.relative_error + 64.0 * self.law.probabilities.size * ROUNDOFF

    def _market(
        self,
        supply: FloatArray,
        supply_at: FloatArray,
        demands: Sequence[tuple[int, float, FloatArray]],
        bends: Sequence[Bend],
    ) -> FloatArray:
        """Value of a market whose demands are (copies, place, amounts at every t), by copies."""
        market = Market(
            supply * (1.0 + self._slack),
            supply_at,
            np.stack([amount for *_, amount in demands], axis=1) * (1.0 - self._slack),
            np.array([place for _, place, _ in demands]),
            np.array([copies for copies, *_ in demands], dtype=np.int64),
            16.0 * ROUNDOFF * self.shift * (1.0 + float(self.law.positive_values[-1])),
        )
        return np.minimum(market.certified(bends) + self.law.cut, 1.0)


class ReplacementCopies(Copies):
    """Draws with replacement: the first copy has its own triangle, later ones move by s."""

    def cells(self) -> tuple[Cell, ...]:
        """Boxes of (omega, f)."""
        return disc_cells(self.parts)

    def ends(self) -> tuple[Cell, Cell]:
        """Aligned and reversed."""
        return end_cell(1, 0.0), end_cell(1, 1.0)

    def corners(self, cell: Cell) -> tuple[Corner, Corner]:
        """(u, w) and (v, w)."""
        omega, share = cell.ranges
        t = triangle(self.shift, omega, share)
        return Corner((t.u, t.w), (t.cos_x,)), Corner((t.v, t.w), (t.cos_other,))

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """Component j of P at u + (j-1) s; of Q at 0 and at i (s-w) - (s-u)."""
        u, w = corner.lengths
        rho, copies, s = self.law.positive, self.law.positive_values, self.shift
        none, some = np.expm1(epsilon) * self.law.zero, np.exp(epsilon)
        demands = [(0, 0.0, none)]
        demands += [
            (int(i), float(i * (s - w) - (s - u)), some * p)
            for i, p in zip(copies, rho, strict=True)
        ]
        bends = [Bend(0, 0, 1, corner.cosines[0])]
        return self._market(rho, copies * s - (s - u), demands, bends)


@dataclass(frozen=True, eq=False)
class NestedCopies(Copies):
    """MUSTow: a slot of stage I holds x, x' or y*; ``law`` counts the draws of one slot."""

    most_cells: int = 220
    chance: float = 0.0

    def cells(self) -> tuple[Cell, ...]:
        """Boxes of (omega, f of y*, f of the record in the first other slot)."""
        return disc_cells(self.parts, shares=2)

    def ends(self) -> tuple[Cell, Cell]:
        """Aligned and reversed."""
        return end_cell(2, 0.0), end_cell(2, 1.0)

    def corners(self, cell: Cell) -> tuple[Corner, Corner]:
        """(U, u_1, w) and (V, v_1, w)."""
        omega, share, other = cell.ranges
        slot = triangle(self.shift, omega, share, one_of_two=True)
        first = triangle(self.shift, omega, other, one_of_two=True)
        return (
            Corner((slot.u, first.u, slot.w), (slot.cos_x, first.cos_x)),
            Corner((slot.v, first.v, slot.w), (slot.cos_other, first.cos_other)),
        )

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """Component j of P at j s; of Q at s - u_1 (none), i (s-U) and i (s-w)."""
        slot, first, w = corner.lengths
        beta, copies = self.law.positive, self.law.positive_values
        s, p = self.shift, self.chance
        absent = max(0.0, (1.0 - p) - 4.0 * ROUNDOFF)
        excess, whole = np.expm1(epsilon), np.exp(epsilon)
        demands = [(0, s - first, excess * self.law.zero)]
        for i, b in zip(copies, beta, strict=True):
            demands.append((int(i), float(i * (s - slot)), excess * (b * absent)))
            demands.append((int(i), float(i * (s - w)), whole * (b * p)))
        # Demand 2 i - 1 has i copies of y*, demand 2 i has i copies of x'.
        bends = [Bend(0, 0, 2, corner.cosines[1])]
        bends += [
            Bend(j, 2 * j + 1, 2 * j + 2, corner.cosines[0]) for j in range(min(_BENT, beta.size))
        ]
        return self._market(p * beta, copies * s, demands, bends)
