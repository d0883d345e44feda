"""An epoch seen through one sum that few large numbers decide.

As in ``observed.py`` every batch is put into a cell, and an observer sees the sum of the cells'
numbers. Cells up to a bound are small and added up by transforms under a gentle tilt; large ones
may have any number. With r the chances of cells in a batch without the record, x in that with it,
and S the sum of small numbers of the other batches, a test "the sum is at least t" has the chance

    none large              P(x + S_{k-1} >= t), all small
    that with the record    sum_c x(c) P(S_{k-1} >= t - c)
    one of the others       (k - 1) sum_c r(c) P(x + S_{k-2} >= t - c), x small

and at most the chance of two large ones more, which is left out from below and added from above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mustdp.loss.compose import Composition, Part
from mustdp.loss.discrete import DiscreteLoss
from mustdp.loss.observed import Rejections, beyond
from mustdp.numerics.arrays import FloatArray, IntArray

#: Thresholds around the aim, in units of how far the others are below it.
_AROUND, _THRESHOLDS = 0.6, 41
#: How far below the aim, in units of one over the tilt, chances are looked up.
_LOWEST, _LOWER = 40.0, 12.0
#: Chernoff's bound of no large cell that is added as it is, relatively.
_ENOUGH = 1e-6
_UP, _DOWN = 1.0 + 1e-9, 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class FewLarge:
    """Laws of a batch without the record, cells up to ``bound`` being small."""

    absent: DiscreteLoss
    count: int
    bound: float
    size: float
    tilt: float
    aim: float
    fine: float = 1.0

    def rejections(
        self, one: DiscreteLoss, other: DiscreteLoss, inside: float, error: float
    ) -> Rejections:
        """Tests that reject when the sum is at least a threshold near the aim.

        ``one`` is the law of the batch with the record under P, ``other`` under Q; the record is in
        one of the batches with the chance ``inside``; ``error`` is that of chances due to cells.
        """
        count = math.ceil(self.fine * _THRESHOLDS)
        around = self.aim + self.size * np.linspace(-_AROUND, _AROUND, count)
        at = np.unique(np.rint(around / self.absent.spacing).astype(np.int64))
        p, q = inside * self._chances(one, at, -1.0), inside * self._chances(other, at, +1.0)
        if inside < 1.0:
            p = p + (1.0 - inside) * self._chances(self.absent, at, -1.0)
            q = q + (1.0 - inside) * self._chances(self.absent, at, +1.0)
        p, q = p * (_DOWN - error), q * (_UP + error)
        sensible = (p > q) & (q < 1.0)
        return Rejections(p[sensible], q[sensible])

    def _chances(self, law: DiscreteLoss, at: IntArray, sign: float) -> FloatArray:
        """P(sum >= t) with one batch of another law, from below or from above."""
        k = self.count
        small, large, chance = self._split(law)
        rest, places, masses = self._split(self.absent)
        own = self._looked_up([(rest, k - 1)] if k > 1 else [], at, large, sign) @ chance
        if k == 1:
            return own + self._looked_up([(small, 1)], at, np.zeros(1, dtype=np.int64), sign)[:, 0]
        others = [(small, 1), (rest, k - 2)] if k > 2 else [(small, 1)]
        found = own + (k - 1) * self._looked_up(others, at, places, sign) @ masses
        found = found + self._none([(small, 1), (rest, k - 1)], at, sign, found)
        if sign > 0:
            both = (k - 1) * float(masses.sum()) * float(chance.sum())
            both += 0.5 * ((k - 1) * float(masses.sum())) ** 2
            found = np.minimum((found + both) * _UP, 1.0)
        return np.asarray(found)

    def _none(
        self, parts: Sequence[Part], at: IntArray, sign: float, found: FloatArray
    ) -> FloatArray:
        """No large cell: Chernoff's bound where that is little, else by a transform."""
        total, t = Composition(parts), at * self.absent.spacing
        steep = np.geomspace(0.5, 400.0, 25)[:, None] / self.bound
        logs = np.min(total.log_mgf(steep[:, 0])[:, None] - steep * t, axis=0)
        rough = np.exp(np.minimum(logs, 700.0)) * _UP
        if np.all(rough <= _ENOUGH * found):
            return rough if sign > 0 else np.zeros(at.size)
        tilt = min(max(total.best_tilt(self.aim), self.tilt), _LOWEST / (_AROUND * self.size))
        exact = beyond(parts, tilt, self.aim, at, sign)
        return np.minimum(exact, rough) if sign > 0 else exact

    def _looked_up(
        self, parts: Sequence[Part], at: IntArray, places: IntArray, sign: float
    ) -> FloatArray:
        """P(sum of small numbers >= t - c) for all thresholds and places."""
        wanted = at[:, None] - places[None, :]
        if not parts:
            return (wanted <= 0).astype(np.float64)
        # Doubts grow to the left. From below, a higher threshold has a smaller chance.
        lowest = _LOWEST if sign > 0 else _LOWER
        low = math.floor((self.aim - lowest / self.tilt) / self.absent.spacing)
        found = beyond(parts, self.tilt, self.aim, np.maximum(wanted, low).ravel(), sign)
        found = np.minimum(found, _UP).reshape(wanted.shape)
        return np.where(wanted < low, 1.0, found) if sign > 0 else found

    def _split(self, law: DiscreteLoss) -> tuple[DiscreteLoss, IntArray, FloatArray]:
        here = law.index * law.spacing <= self.bound
        small = replace(law, index=law.index[here], masses=law.masses[here])
        return small, law.index[~here], law.masses[~here]
