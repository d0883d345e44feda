"""Views of an account at its accuracy: looked at on finer grids until those hardly matter.

What a grid adds to a view is measured by leaving out every second point of it. What is out of reach
of an accuracy that was asked for is refused; otherwise the last look is the answer, marked as
coarse: each look is a bound by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from mustdp.accounting.bounds import DeltaProfile
from mustdp.accounting.certify import FRACTIONS
from mustdp.accounting.refine import Look, refine
from mustdp.accounting.sides import UpperSide, in_both_orders
from mustdp.accounting.views import (
    NEGLIGIBLE_DELTA,
    Renyi,
    Summary,
    Tradeoff,
    gaussian_dp,
    tradeoff,
)
from mustdp.accounting.workings import Workings
from mustdp.errors import Contradiction, NumericalFailure
from mustdp.loss.curve import LowerCurve, every_second
from mustdp.numerics.arrays import FloatArray

#: Epsilons at which a curve is looked at, at the first spacing.
_EPSILONS = 1500
#: Renyi divergences below this need not be more accurate than this one.
_SMALL_DIVERGENCE = 1e-9

View = TypeVar("View", Tradeoff, Renyi, Summary)


@dataclass(frozen=True)
class Viewer:
    """Looks at the workings of one account; ``strict`` if its accuracy was asked for."""

    work: Workings
    accuracy: float
    strict: bool
    #: Certified deltas by other means, such as a family of pairs.
    also: DeltaProfile

    def tradeoff(self, rates: FloatArray, end: float, smallest: float) -> Tradeoff:
        """Missed-detection rates, each as accurate as the account.

        Losses up to ``end`` count, and deltas down to ``smallest``.
        """

        def look(upper_side: UpperSide, lower_side: LowerCurve, eps: FloatArray) -> Tradeoff:
            upper = np.minimum(upper_side.curve(eps, smallest), self.also(eps))
            return tradeoff(rates, eps, upper, in_both_orders(lower_side, eps, smallest))

        def apart(fine: Tradeoff, rough: Tradeoff) -> float:
            # What is reached is off in first order of the distance of the epsilons.
            below = float(np.max(fine.lower - rough.lower)) / 3.0
            return max(below, float(np.max(rough.upper - fine.upper)))

        return self._refined(look, apart, end)

    def gaussian_dp(self, end: float) -> Summary:
        """The smallest mu, its relative accuracy that of the account."""

        def look(upper_side: UpperSide, _: LowerCurve, eps: FloatArray) -> Summary:
            return gaussian_dp(eps, upper_side.curve(eps, NEGLIGIBLE_DELTA))

        def apart(fine: Summary, rough: Summary) -> float:
            if math.isinf(fine.value):
                return 0.0
            return (rough.value - fine.value) / 3.0 / fine.value

        found = self._refined(look, apart, end)
        return replace(found, gap=found.gap * found.value if found.gap else 0.0)

    def renyi(self, orders: FloatArray) -> Renyi:
        """Divergences, their relative accuracy that of the account."""
        theta = orders - 1.0

        def look(upper_side: UpperSide, lower_side: LowerCurve, _: FloatArray) -> Renyi:
            upper = upper_side.whole_log_mgf(theta, self.work.moments)
            approximate, outside = upper_side.log_mgf(theta, NEGLIGIBLE_DELTA)
            lower = lower_side.log_mgf(theta, NEGLIGIBLE_DELTA)
            if not np.all(lower <= upper * (1.0 + 1e-9) + 1e-12):
                raise Contradiction("the bounds of the Renyi divergences contradict each other")
            lower, approximate = np.minimum(lower, upper), np.minimum(approximate, upper)
            return Renyi(orders, lower / theta, upper / theta, outside, approximate / theta)

        def apart(fine: Renyi, rough: Renyi) -> float:
            # What is left out at the top moves with the grid; the whole divergence does not.
            known = np.isfinite(fine.upper) & np.isfinite(rough.upper)
            low = np.where(known, fine.upper, fine.approximate)
            high = np.where(known, rough.upper, rough.approximate)
            return float(np.max((high - low) / np.maximum(low, _SMALL_DIVERGENCE))) / 3.0

        return self._refined(look, apart, None)

    def _refined(
        self,
        look: Callable[[UpperSide, LowerCurve, FloatArray], View],
        apart: Callable[[View, View], float],
        end: float | None,
    ) -> View:
        """The first look whose grid adds no more than the accuracy; epsilons go up to ``end``."""
        seen: list[View] = []

        def look_at(fraction: float) -> Look[View]:
            grid = self.work.grid(fraction)
            upper, lower = self.work.upper(grid), self.work.lower(grid)
            eps = np.zeros(1)
            if end is not None:
                count = round(_EPSILONS * FRACTIONS.first / fraction)
                eps = np.concatenate([eps, np.geomspace(1e-4, 1.0, count) * end])
            found = look(upper, lower, eps)
            rough = look(upper.coarser, lower.coarser, eps[every_second(eps)])
            gap = max(0.0, apart(found, rough))
            seen.append(replace(found, gap=gap))
            return Look(
                seen[-1],
                good_enough=gap <= self.accuracy,
                excess=gap / self.accuracy,
                finest=grid.finest,
                shortfall=f"grids still add {gap:.3g}, more than accuracy={self.accuracy:g} allows",
            )

        try:
            return refine(look_at, FRACTIONS)
        except Contradiction:
            raise
        except NumericalFailure:
            if self.strict or not seen:
                raise
            return replace(seen[-1], coarse=True)
