"""Group profiles that remember where they were asked."""

from __future__ import annotations

from mustdp.mechanisms.mechanism import GroupProfiles, Steering
from tests.arrays import FloatArray


class Recording(GroupProfiles):
    """Passes everything on to another family and remembers where it was evaluated."""

    def __init__(self, inner: GroupProfiles):
        self.inner, self.relative_error = inner, inner.relative_error
        self.rows: list[FloatArray] = []

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        self.rows.extend(epsilon.copy())
        return self.inner.delta(groups, epsilon)

    @property
    def steering(self) -> Steering:
        return self.inner.steering
