"""Swapped records in an epoch of few batches with little noise, from both sides.

Terms of all sizes are added up one by one on a grid that grows like them (``loss/wide_sums.py``),
for one alpha at a time. From below that is the profile of the pair itself, so it is attained.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mustdp.limits import LARGEST_EPSILON
from mustdp.loss.convex_tables import OneSide, OutcomePair, outcome_pair
from mustdp.loss.dots import Profile
from mustdp.loss.wide_sums import WideSum
from mustdp.numerics.arrays import FloatArray, IntArray

#: Shifts for which this is done, and up to how many batches: s^3 of them, where linear grids become
#: as tight and are quicker, but so many at least and at most.
_SHIFTS, _BATCHES = (1.2, 10.0), (7, 40)
#: Grids are this many times as fine as usual at most, which is all that is done beyond the second.
_FINEST, FINEST_ASKED = 1.5, 2.0
#: How narrow a bracket of epsilon is enough, and where it is looked for first.
_NARROW, _STARTS = 1e-6, (0.999, 0.99, 0.9, 0.0)
#: Nats by which the profile falls between the points of a pair, down to this value and further on,
#: and how small it is followed.
_NATS, _LARGE, _SMALLEST = (0.1, 0.4), 0.02, 1e-14
#: Points to choose from.
_PLACES = 5000
_UP, _DOWN = 1.0 + 1e-12, 1.0 - 1e-12


class FewBatches:
    """The first ``steps`` of ``bins`` batches; ``shift`` is that of one record, C / sigma."""

    def __init__(self, shift: float, bins: int, steps: int, fine: float = 1.0) -> None:
        self._bins, self._steps = bins, steps
        # Work and memory grow with the square of the number of points.
        self._sum = WideSum(shift, steps, min(fine, _FINEST))
        self._known: dict[float, float] = {}

    @classmethod
    def of(cls, shift: float, bins: int, steps: int, fine: float = 1.0) -> FewBatches | None:
        """None where there are many batches or much noise."""
        if not _SHIFTS[0] < shift <= _SHIFTS[1]:
            return None
        most = min(max(0.98 * shift**3, _BATCHES[0]), _BATCHES[1])
        return cls(shift, bins, steps, fine) if 2 <= steps <= most else None

    def upper(self, x: float) -> float:
        """The profile at alpha = 1 + x, rounded up."""
        return self._sum.upper(math.log1p(x), self._level(x)) / self._bins * _UP

    def attained(self, epsilon: float) -> float:
        """The profile rounded down."""
        if epsilon not in self._known:
            found = self._sum.lower(epsilon, self._level(math.expm1(epsilon)) * _UP)
            self._known[epsilon] = found / self._bins * _DOWN
        return self._known[epsilon]

    def last_above(self, delta: float, near: float) -> float:
        """An epsilon below ``near`` at which more than ``delta`` is attained, or zero."""
        high = min(near, LARGEST_EPSILON)
        for start in _STARTS:
            low = start * high
            if self.attained(low) > delta:
                break
        else:
            return 0.0
        while high - low > _NARROW * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.attained(middle) > delta else (low, middle)
        return low

    def pair(
        self, profile: Profile, place: Callable[[IntArray], FloatArray], end: float
    ) -> OutcomePair:
        """A discrete pair below the profile, off points out of ``place`` where that has fallen."""
        x = place(np.arange(_PLACES))
        x = x[x <= math.expm1(end)]
        upper = profile(np.log1p(x))
        chosen = [0]
        for number in range(1, x.size):
            nats = _NATS[int(upper[number] < _LARGE)]
            if upper[number] < upper[chosen[-1]] * math.exp(-nats):
                chosen.append(number)
            if upper[number] < _SMALLEST:
                break
        low = [self.attained(math.log1p(value)) for value in x[chosen].tolist()]
        side = OneSide(x[chosen], np.array(low), upper[chosen])
        return outcome_pair("symmetric", side, side)

    def _level(self, x: float) -> float:
        """What the sum of D has to exceed."""
        return (self._bins - self._steps) * x
