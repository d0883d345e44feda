"""Noise on an integer: the base of mechanisms whose outputs are integers.

A law on the integers is symmetric and log-concave, so the likelihood ratio of the law moved by d
against the unmoved one never decreases, every optimal test is "reject from k on", and moving it
further makes the two easier to tell apart. One copy of a record moves the result by at most the
sensitivity, an integer; the pair of K and K + sensitivity attains every profile. All of this is for
one integer: coordinates of a vector are releases of their own.

Tests with the same k have the same slope in alpha, whatever d, and the log ratio at k is that of
the continuous law at k. So the tangents of the continuous law pass through all kinks of these
profiles, and it steers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from mustdp.mechanisms.contract import (
    DiscreteOutcomes,
    GroupProfiles,
    Mechanism,
    OutputLaw,
    Steering,
)
from mustdp.mechanisms.mechanism import Noise, NoiseProfiles, dual
from mustdp.numerics.arrays import ROUNDOFF, FloatArray, IntArray

#: Outcomes where most of the mass is, fewer for many places, and further out; where there are more
#: integers than that, runs of them are merged.
_MOST_MASSES, _FEWEST_CELLS, _MOST_CELLS, _FAR_CELLS = 4_000_000, 4096, 65_536, 1024
#: Tails below this are merged into one outcome.
_RAREST = 1e-60


class IntegerLaw(OutputLaw, ABC):
    """A symmetric log-concave law on the integers, of some scale."""

    #: The law with a density that it resembles, at unit scale: it steers.
    continuous: ClassVar[Noise]
    #: Bound of the relative error of masses and tails.
    relative_error: float
    scale: float

    @abstractmethod
    def log_mass(self, k: FloatArray) -> FloatArray:
        """Log of the chance of each integer: what everything else is checked against."""

    @abstractmethod
    def tail(self, k: FloatArray) -> FloatArray:
        """P(K >= k) for integers k >= 1."""

    @abstractmethod
    def excess(self, distance: FloatArray, k: FloatArray, epsilon: FloatArray) -> FloatArray:
        """P(K + distance >= k) - e^epsilon P(K >= k) for epsilon >= 0, rounded up."""

    def profile(self, distance: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Hockey-stick divergence at e^epsilon of the law moved by ``distance``, rounded up."""
        size = np.abs(epsilon)
        t = self.continuous.threshold(distance / self.scale, size) * self.scale
        # The best k is the first integer from t on; rounding of t may hide which one that is.
        first = np.ceil(np.minimum(t * (1.0 - 8.0 * ROUNDOFF), 2.0**52))
        best = np.maximum(
            self.excess(distance, first, size), self.excess(distance, first + 1.0, size)
        )
        return dual(np.clip(best, 0.0, 1.0), epsilon)

    def between(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """P(low <= K < high), by the smaller tails; either end may be infinite."""
        right = self._tail(low) - self._tail(high)
        left = self._tail(1.0 - high) - self._tail(1.0 - low)
        astride = 1.0 - self._tail(high) - self._tail(1.0 - low)
        return np.maximum(np.where(low >= 1, right, np.where(high <= 0, left, astride)), 0.0)

    def _tail(self, k: FloatArray) -> FloatArray:
        return np.where(k >= 1, self.tail(np.maximum(k, 1.0)), 0.0)

    def farthest(self) -> int:
        """An integer from which on tails are negligible."""
        k = 1.0
        while float(self.tail(np.asarray(k))) > _RAREST:
            k *= 1.25
            k = float(np.ceil(k + 1.0))
        return int(k)


@dataclass(frozen=True, eq=False)
class IntegerProfiles(GroupProfiles):
    """Exact group profiles: j records move an integer by at most j times the sensitivity."""

    law: IntegerLaw
    sensitivity: int

    relative_error = 1e-14  # values are rounded up already; what is below zero is put together here

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Those of the law at that distance."""
        distance = np.broadcast_to(groups * float(self.sensitivity), np.shape(epsilon))
        return self.law.profile(distance, np.asarray(epsilon, dtype=np.float64))

    @property
    def steering(self) -> Steering:
        """The continuous law."""
        return NoiseProfiles(self.law.continuous, self.sensitivity / self.law.scale)


@dataclass(frozen=True, eq=False)
class IntegerOutcomes(DiscreteOutcomes):
    """The integers; where they are too many to be listed, runs of them are merged."""

    law: IntegerLaw
    sensitivity: int

    @property
    def relative_error(self) -> float:  # type: ignore[override]
        """That of the law, and of differences of its tails over runs of integers."""
        return 2e-12 + 2.0 * self.law.relative_error

    @property
    def placements(self) -> Mapping[str, tuple[int, int]]:
        """The whole sensitivity on one side, or about half of it on each."""
        whole = self.sensitivity
        half = whole // 2
        return {
            "aligned": (whole, 0),
            "reversed": (0, whole),
            "symmetric": (whole - half, -half),
        }

    def masses(self, places: IntArray) -> FloatArray:
        """Masses of the cells between integers that suit all places."""
        far = self.law.farthest()
        low, high = int(places.min()), int(places.max())
        cells = min(max(_MOST_MASSES // places.size, _FEWEST_CELLS), _MOST_CELLS)
        near = np.rint(np.linspace(max(low, -far) - far, min(high, far) + far, cells))
        ends = np.rint(np.linspace(low - far, high + far, _FAR_CELLS))
        cuts = np.unique(np.concatenate([near, ends]))
        rows = []
        for place in places.astype(np.float64):
            below, above = np.append(-np.inf, cuts) - place, np.append(cuts, np.inf) - place
            single = above - below == 1.0
            mass = np.exp(self.law.log_mass(np.where(single, below, 0.0)))
            rows.append(np.where(single, mass, self.law.between(below, above)))
        return np.array(rows)


class IntegerNoise(Mechanism):
    """Noise added to an integer that one copy of a record moves by at most the sensitivity.

    The sensitivity bounds what swapping a record does, and what leaving it out does.
    """

    sensitivity: int

    def __init_subclass__(cls) -> None:
        if "law" not in vars(cls):
            raise TypeError(
                f"{cls.__name__} must state its law (law): what is known of the law it would "
                "inherit need not hold for it"
            )

    @property
    @abstractmethod
    def law(self) -> IntegerLaw:
        """The law of the noise."""

    def shift_for(self, moves: float) -> float:
        """The sensitivity over the scale, whatever the relation."""
        return self.sensitivity / self.law.scale

    @property
    def covers_left_out(self) -> bool:
        """The sensitivity bounds that, too."""
        return True

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Exact group profiles."""
        return IntegerProfiles(self.law, self.sensitivity)

    def attained(self, shift: float | None) -> DiscreteOutcomes:
        """The noise, moved by a number of sensitivities."""
        return IntegerOutcomes(self.law, self.sensitivity)

    def log_moments(
        self, orders: FloatArray, copies: FloatArray, shift: float | None
    ) -> FloatArray | None:
        """Those of the law."""
        return self.law.log_moments(orders[:, None], copies * float(self.sensitivity))

    def largest_loss(self, moves: int) -> Fraction | None:
        """The sensitivity over the scale, where the noise bounds the loss."""
        if not self.law.bounded_loss:
            return None
        return Fraction(self.sensitivity) / Fraction(self.law.scale)

    @abstractmethod
    def noise(self, count: int = 1, seed: int | None = None) -> IntArray:
        """Draw noise of exactly the law that is charged; a ``seed`` is for experiments alone."""

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"mechanism": self.name, **asdict(self)}  # type: ignore[call-overload]
