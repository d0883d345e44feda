"""The family of MUSTww: a first stage with replacement, of which all but its rare part is MUSTow.

Fill all slots of the first stage with common records and put x into the first I of them. Cut what
happens with I = 0 in two, shares 1 - phi and phi: one goes with I = 1, the other with I >= 2,

    P = M P_A + N P_B,   M = (1-phi) rho_0 + rho_1,   N = phi rho_0 + rho_2 + rho_3 + …,

and Q alike. Given what the slots hold, (P_A, Q_A) is a pair of MUSTow whose slot is hit with chance
rho_1 / M, and (P_B, Q_B) belongs to one stage whose law lacks 1. Divergences are jointly convex, so
M times the profile of MUSTow plus N times the certificate of that stage is an upper bound for every
phi, and so is the certificate of the whole, for every member: the smaller one counts. The rest of
the proof is that of MUSTow (docs/derivations/family.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mustdp.amplification.cells import Cell, Corner
from mustdp.amplification.copied import NestedCopies
from mustdp.amplification.mixed_slope import certificate
from mustdp.mechanisms.profiles import GroupProfiles
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen
from mustdp.sampling.law import MultiplicityLaw

#: More than what sums and products of a few weights lose to rounding.
_SLACK = 64.0 * ROUNDOFF


@dataclass(frozen=True, eq=False)
class ReplacedTwice:
    """``first`` counts slots with the record, ``law`` draws of one slot; ``inside`` are the
    profiles of the second stage, ``whole`` is the certificate of both, at epsilon >= 0.
    """

    first: MultiplicityLaw
    law: MultiplicityLaw
    shift: float
    inside: GroupProfiles
    whole: Callable[[FloatArray], FloatArray]
    most_cells: int = 220
    cell_cost: float = 8.0
    _known: dict[bytes, tuple[FloatArray, FloatArray]] = field(init=False, default_factory=dict)

    @cached_property
    def _phi(self) -> float:
        """The share of all copies that slots beyond the first have: any would be valid."""
        values, rho = self.first.positive_values, self.first.positive
        beyond = values > 1.0
        return min(0.5, float(rho[beyond] @ values[beyond]) / float(rho @ values))

    @cached_property
    def _often(self) -> float:
        """M above."""
        none, one = self.first.probabilities[:2]
        return float((1.0 - self._phi) * none + one)

    @cached_property
    def _slot(self) -> NestedCopies:
        """The family of (P_A, Q_A); what weights are off by is laid upon the law of the slot."""
        error = self.law.relative_error + self.first.relative_error + _SLACK
        law = MultiplicityLaw(self.law.first, self.law.probabilities, self.law.cut, error)
        chance = float(self.first.probabilities[1]) / self._often
        return NestedCopies(law, self.shift, chance=chance)

    def cells(self) -> tuple[Cell, ...]:
        """As for MUSTow."""
        return self._slot.cells()

    def ends(self) -> tuple[Cell, Cell]:
        """Aligned and reversed."""
        return self._slot.ends()

    def corners(self, cell: Cell) -> tuple[Corner, Corner]:
        """As for MUSTow."""
        return self._slot.corners(cell)

    def profile(self, corner: Corner, epsilon: FloatArray) -> FloatArray:
        """Certified upper bound of H at e^epsilon, epsilon >= 0."""
        return np.asarray(self.profiles([corner], epsilon)[0])

    def profiles(self, corners: Sequence[Corner], epsilon: FloatArray) -> FloatArray:
        """Both parts, or the certificate of the whole where that is smaller, a row each."""
        whole, rest = self._shared(epsilon)
        own = self._often * self._slot.profiles(corners, epsilon)
        parts = (own + rest + self.first.cut) * (1.0 + _SLACK)
        return np.asarray(np.minimum(np.minimum(whole, parts), 1.0))

    def _shared(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What no corner changes: the certificate of the whole, and N times that of (P_B, Q_B).

        A family is asked at one grid of epsilons.
        """
        key = epsilon.tobytes()
        if key not in self._known:
            self._known.clear()
            self._known[key] = self.whole(epsilon), self._seldom(epsilon)
        return self._known[key]

    def _seldom(self, epsilon: FloatArray) -> FloatArray:
        rho = self.first.probabilities
        rest = np.array([self._phi * rho[0], 0.0, *rho[2:]])
        total = float(rest.sum())
        error = self.first.relative_error + _SLACK
        law = MultiplicityLaw(0, frozen(rest / total), 0.0, error)
        return np.asarray(total * certificate(law, self.inside, epsilon)[0])
