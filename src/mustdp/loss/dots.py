"""Connect the dots: from a profile to a discrete loss that dominates it.

Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022, arXiv 2207.04380v1. Between the chosen points
the profile is replaced by its chord in alpha = e^eps. Chords of a convex function lie above it, so
the discrete pair whose profile is the broken line dominates, for any choice of points; few points
make it looser, never wrong. The mass at loss eps_i is alpha_i (slope_i - slope_{i-1}), the mass at
+infinity is the profile at the last point.

For alpha < 1 the profile of (P, Q) is 1 - alpha + alpha times that of (Q, P) at 1/alpha.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.loss.discrete import DiscreteLoss
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray
from mustdp.numerics.convex import lower_hull

#: A certified upper bound of a profile at eps >= 0.
Profile = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class DominatingPair:
    """Upper bounds of H(P || Q) and of H(Q || P) at eps >= 0; the same object if self-dual."""

    forward: Profile
    backward: Profile

    @classmethod
    def of(cls, profile: Profile) -> DominatingPair:
        """A pair that looks the same in both orders."""
        return cls(profile, profile)

    @property
    def self_dual(self) -> bool:
        """Whether both orders share one profile."""
        return self.forward is self.backward

    def values(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both directions at ``epsilon``."""
        ahead = self.forward(epsilon)
        behind = ahead if self.self_dual else self.backward(epsilon)
        for values in (ahead, behind):
            if not np.all((values >= 0.0) & (values <= 1.0)):
                wrong = values[~((values >= 0.0) & (values <= 1.0))][0]
                raise NumericalFailure(f"a profile returned {wrong!r}, which is no probability")
        return ahead, behind

    @property
    def swapped(self) -> DominatingPair:
        """The pair in the other order."""
        return DominatingPair(self.backward, self.forward)


def connect(pair: DominatingPair, spacing: float, points: IntArray) -> DiscreteLoss:
    """The discrete loss through the profile at ``points * spacing`` (increasing, from 0 on)."""
    return connect_values(spacing, points, *pair.values(just_below(spacing, points)))


def just_below(spacing: float, points: IntArray) -> FloatArray:
    """``points * spacing`` rounded down: where a decreasing bound covers the exact grid points."""
    return np.asarray(points.astype(np.float64) * (spacing * (1.0 - 4.0 * ROUNDOFF)))


def connect_values(
    spacing: float, points: IntArray, ahead: FloatArray, behind: FloatArray
) -> DiscreteLoss:
    """The same from values of H(P || Q) and H(Q || P) at the points."""
    middle = max(ahead[0], behind[0])  # the total variation distance, either way
    right_index, right, right_masses = _side(points, spacing, ahead, middle)
    left_index, left, left_masses = _side(points, spacing, behind, middle)
    e1, f1 = float(right_index[1] * spacing), float(right[1])
    e2, b2 = float(left_index[1] * spacing), float(left[1])
    centre = 1.0 + (f1 - middle) / np.expm1(e1) + (middle - np.exp(-e2) * b2) / np.expm1(-e2)
    sizes = 1.0 + middle / np.expm1(e1) + middle / -np.expm1(-e2)
    centre += ROUNDOFF * (8.0 + 4.0 * (e1 + e2)) * sizes
    index = np.concatenate([-left_index[:0:-1], [0], right_index[1:]])
    lower = np.exp(-left_index[:0:-1] * spacing) * left_masses[::-1]
    masses = np.concatenate([lower, [max(centre, 0.0)], right_masses])
    return DiscreteLoss(spacing, index, masses, float(right[-1]))


def _side(
    points: IntArray, spacing: float, values: FloatArray, middle: float
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Hull of one side and its masses at every hull point but the one at zero, rounded up."""
    values = np.minimum.accumulate(np.concatenate([[middle], values[1:]]))
    kept = lower_hull(np.exp(points.astype(np.float64) * spacing), values)
    index, h = points[kept], values[kept]
    # From whole numbers of cells: differences of rounded epsilons would not be accurate enough.
    gap = np.diff(index).astype(np.float64) * spacing
    rise = np.diff(h)
    after = np.append(rise[1:] / np.expm1(gap[1:]), 0.0)
    before = rise / -np.expm1(-gap)
    size = np.append(h[1:-1] / np.expm1(gap[1:]), 0.0) + h[:-1] / -np.expm1(-gap)
    wider = np.maximum(gap, np.append(gap[1:], 0.0))
    masses = np.maximum(after - before, 0.0) + ROUNDOFF * (8.0 + 4.0 * wider) * size
    return index, h, masses
