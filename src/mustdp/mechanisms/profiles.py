"""Group profiles: for every group size j, an upper bound of delta_j at every eps.

``delta_j(alpha)`` bounds the hockey-stick divergence, in either order, of data sets that differ in
at most j records; it does not decrease in j. Besides values, a family of profiles offers a common
*parameter* t for the tangents of all its members: the same t means the same slope in alpha. The
mixed-slope certificate walks along t. Tangents steer, values count: a tangent that is a little off
makes a bound a little looser, never wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from mustdp.mechanisms.laws import Noise
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.convex import TangentFamily, TangentTable, slope_of


class GroupProfiles(ABC):
    """Profiles delta_1, delta_2, … of one mechanism, with a common parameter for their slopes."""

    #: Bound of the relative rounding error of the values.
    relative_error: float = 1e-11
    #: Laws around these profiles that are wider are coarsened to so many multiplicities.
    most_groups: int = 512

    @abstractmethod
    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Values at ``epsilon[:, k]`` for group size ``groups[k]``; any real epsilon, and -inf."""

    @abstractmethod
    def tangent(self, groups: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """For each ``t`` (rows) and group (columns): the eps with that slope, and d eps / d t."""

    @abstractmethod
    def parameter(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The inverse of :meth:`tangent`, column by column."""

    @abstractmethod
    def slope(self, t: FloatArray) -> FloatArray:
        """Minus the slope in alpha that ``t`` stands for; decreases in ``t``."""

    def slope_at(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Minus the slope in alpha of each profile at ``epsilon``."""
        return self.slope(self.parameter(groups, epsilon))

    def saturation(self, groups: FloatArray) -> float:
        """The ``t`` from which on no tangent of these groups moves any more."""
        return np.inf


class SteeredProfiles(GroupProfiles):
    """Profiles without closed-form tangents: slopes are looked up in a table per group size."""

    def __init__(self, reach: float) -> None:
        self._steering = TangentFamily(self._table, reach)

    @abstractmethod
    def _table(self, group: int) -> TangentTable:
        """Tabulate the slopes of one profile."""

    def tangent(self, groups: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Looked up in the tables of all groups."""
        return self._steering.tangent(groups, t)

    def parameter(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Looked up in the tables of all groups."""
        return self._steering.parameter(groups, epsilon)

    def slope(self, t: FloatArray) -> FloatArray:
        """The slope behind the logit ``t``."""
        return slope_of(t)

    def saturation(self, groups: FloatArray) -> float:
        """Past the end of every table."""
        return self._steering.last(groups)


@dataclass(frozen=True)
class NoiseProfiles(GroupProfiles):
    """Exact group profiles of additive noise: j records move the output by at most j * shift."""

    noise: Noise
    shift: float

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
