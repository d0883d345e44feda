"""Group profiles that remember where they were asked."""

from __future__ import annotations

from mustdp.mechanisms.profiles import GroupProfiles
from mustdp.numerics.arrays import FloatArray


class Recording(GroupProfiles):
    """Passes everything on to another family and remembers where it was evaluated."""

    def __init__(self, inner: GroupProfiles):
        self.inner, self.relative_error = inner, inner.relative_error
        self.rows: list[FloatArray] = []

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        self.rows.extend(epsilon.copy())
        return self.inner.delta(groups, epsilon)

    def tangent(self, groups: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.inner.tangent(groups, t)

    def parameter(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        return self.inner.parameter(groups, epsilon)

    def slope(self, t: FloatArray) -> FloatArray:
        return self.inner.slope(t)

    def saturation(self, groups: FloatArray) -> float:
        return self.inner.saturation(groups)
