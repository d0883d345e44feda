"""Group profiles of noise with a density, and of anything whose profile can be tabulated.

Tangents steer, values count: a tangent that is a little off makes a bound a little looser, never
wrong.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np

from mustdp.mechanisms.contract import GroupProfiles, Steering
from mustdp.mechanisms.laws import Noise
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.convex import TangentFamily, TangentTable, slope_of


class TabulatedProfiles(GroupProfiles, Steering):
    """Profiles without closed-form tangents: slopes are looked up in a table per group size."""

    def __init__(self, reach: float) -> None:
        self._tables = TangentFamily(self._table, reach)

    @property
    def steering(self) -> Self:
        """The tables."""
        return self

    @abstractmethod
    def _table(self, group: int) -> TangentTable:
        """Tabulate the slopes of one profile."""

    def tangent(self, groups: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Looked up in the tables of all groups."""
        return self._tables.tangent(groups, t)

    def parameter(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Looked up in the tables of all groups."""
        return self._tables.parameter(groups, epsilon)

    def slope(self, t: FloatArray) -> FloatArray:
        """The slope behind the logit ``t``."""
        return slope_of(t)

    def saturation(self, groups: FloatArray) -> float:
        """Past the end of every table."""
        return self._tables.last(groups)


@dataclass(frozen=True)
class NoiseProfiles(GroupProfiles, Steering):
    """Exact group profiles of additive noise: j records move the output by at most j * shift."""

    noise: Noise
    shift: float

    @property
    def steering(self) -> Self:
        """The thresholds of optimal tests."""
        return self

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Exact profile of the noise at distance j * shift; never zero where the truth is not."""
        return np.maximum(self.noise.profile(groups * self.shift, epsilon), self.noise.smallest)

    def tangent(self, groups: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The log likelihood ratio at threshold ``t``."""
        return self.noise.log_ratio(groups * self.shift, t[:, None])

    def parameter(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The threshold of the optimal test."""
        return self.noise.threshold(groups * self.shift, epsilon)

    def slope(self, t: FloatArray) -> FloatArray:
        """Chance of a false alarm of the test with threshold ``t``."""
        return self.noise.tail(t)

    def saturation(self, groups: FloatArray) -> float:
        """Laplace ratios stop growing at distance j * shift; Gaussian ones never do."""
        return self.noise.saturation(float(groups[-1]) * self.shift)
