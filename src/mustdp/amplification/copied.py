"""Families of pairs where a record may be drawn several times: WR and MUSTow.

With replacement all places of a batch are filled with common records y_1, y_2, …, and x takes the
first J places. Against i copies of x' the distance of j >= i copies of x is at most
i w + u_{i+1} + … + u_j; the first place has its own triangle (u, v, w), later ones move by at most
s. In MUSTow the slot of stage I holds x, x' or a common record y* (distances U, V), and the other
slots hold common records, the first of them with a triangle of its own. Both become a market of
supplies and demands (``flows.py``). The proofs are in docs/derivations/family.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.amplification.cells import Cell, Corner, disc_cells, end_cell, triangle
from mustdp.amplification.flows import Bend, Market
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.sampling.law import MultiplicityLaw

#: Laws with more positive multiplicities than this are left to the single pair.
MOST_COPIES = 40
#: Triangles are looked at for this many copies; more are rare.
_BENT = 4
#: Rows of markets that are worked on at once, so that they stay in the processor's cache.
_AT_ONCE = 3000


@dataclass(frozen=True, eq=False)
class _Stall:
    """A corner's places of supplies and demands, and its triangles."""

    supply_at: FloatArray
    demand_at: FloatArray
    bends: tuple[Bend, ...]


@dataclass(frozen=True, eq=False)
class Copies(ABC):
    """What the two families share: a law of copies, rounded to the safe side."""

    law: MultiplicityLaw
    shift: float
    parts: int = 2  # the cells that matter are split further
    most_cells: int = 140
    cell_cost: float = 3.0

    @property
    def _slack(self) -> float:
        return 4.0 * self.law.relative_error + 64.0 * self.law.probabilities.size * ROUNDOFF

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """Certified upper bound of H at e^epsilon, epsilon >= 0."""
        return np.asarray(self.profiles([corner], epsilon)[0])

    def profiles(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        """The same for many corners, a row each: their markets are worked on together."""
        together = max(1, _AT_ONCE // max(1, epsilon.size))
        parts = [
            self._certified(corners[start : start + together], epsilon)
            for start in range(0, len(corners), together)
        ]
        return np.concatenate([np.empty((0, epsilon.size)), *parts])

    def _certified(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        stalls = [self._stall(corner) for corner in corners]
        copies, amounts = self._demands(epsilon)
        rows = epsilon.size
        market = Market(
            self._supply * (1.0 + self._slack),
            np.repeat([stall.supply_at for stall in stalls], rows, axis=0),
            np.tile(amounts * (1.0 - self._slack), (len(corners), 1)),
            np.repeat([stall.demand_at for stall in stalls], rows, axis=0),
            copies,
            16.0 * ROUNDOFF * self.shift * (1.0 + float(self.law.positive_values[-1])),
        )
        bends = [
            (slice(which * rows, (which + 1) * rows), stall.bends)
            for which, stall in enumerate(stalls)
        ]
        values = market.certified(bends).reshape(len(corners), rows)
        return np.minimum(values + self.law.cut, 1.0)

    @property
    @abstractmethod
    def _supply(self) -> FloatArray:
        """rho_j for j = 1, 2, …"""

    @abstractmethod
    def _demands(self, epsilon: FloatArray) -> tuple[IntArray, FloatArray]:
        """How many copies each demand has, in order, and its amount at every epsilon (rows)."""

    @abstractmethod
    def _stall(self, corner: Corner) -> _Stall:
        """Where supplies and demands lie, and the triangles that they form."""


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

    @property
    def _supply(self) -> FloatArray:
        return self.law.positive

    def _demands(self, epsilon: FloatArray) -> tuple[IntArray, FloatArray]:
        """None of x', then i copies of it."""
        none, some = np.expm1(epsilon) * self.law.zero, np.outer(np.exp(epsilon), self.law.positive)
        copies = np.append(0, self.law.positive_values.astype(np.int64))
        return copies, np.concatenate([none[:, None], some], axis=1)

    def _stall(self, corner: Corner) -> _Stall:
        """Component j of P at u + (j-1) s; of Q at 0 and at i (s-w) - (s-u)."""
        u, w = corner.lengths
        copies, s = self.law.positive_values, self.shift
        demand_at = np.append(0.0, copies * (s - w) - (s - u))
        return _Stall(copies * s - (s - u), demand_at, (Bend(0, 0, 1, corner.cosines[0]),))


@dataclass(frozen=True, eq=False)
class NestedCopies(Copies):
    """MUSTow: a slot of stage I holds x, x' or y*; ``law`` counts the draws of one slot."""

    most_cells: int = 220
    cell_cost: float = 4.0
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

    @property
    def _supply(self) -> FloatArray:
        return self.chance * self.law.positive

    def _demands(self, epsilon: FloatArray) -> tuple[IntArray, FloatArray]:
        """Nothing drawn from the slot, then i copies of y* and i copies of x' in turn."""
        beta, p = self.law.positive, self.chance
        absent = max(0.0, (1.0 - p) - 4.0 * ROUNDOFF)
        amounts = np.empty((epsilon.size, 1 + 2 * beta.size))
        amounts[:, 0] = np.expm1(epsilon) * self.law.zero
        amounts[:, 1::2] = np.outer(np.expm1(epsilon), beta * absent)
        amounts[:, 2::2] = np.outer(np.exp(epsilon), beta * p)
        return np.append(0, np.repeat(self.law.positive_values.astype(np.int64), 2)), amounts

    def _stall(self, corner: Corner) -> _Stall:
        """Component j of P at j s; of Q at s - u_1 (none), i (s-U) and i (s-w)."""
        slot, first, w = corner.lengths
        copies, s = self.law.positive_values, self.shift
        demand_at = np.empty(1 + 2 * copies.size)
        demand_at[0], demand_at[1::2], demand_at[2::2] = (
            s - first,
            copies * (s - slot),
            copies * (s - w),
        )
        # Demand 2 i - 1 has i copies of y*, demand 2 i has i copies of x'.
        bends = [Bend(0, 0, 2, corner.cosines[1])]
        bends += [
            Bend(j, 2 * j + 1, 2 * j + 2, corner.cosines[0]) for j in range(min(_BENT, copies.size))
        ]
        return _Stall(copies * s, demand_at, tuple(bends))
