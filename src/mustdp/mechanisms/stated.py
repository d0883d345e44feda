"""Mechanisms of which only a guarantee is known: (epsilon, delta) or epsilon differential privacy.

Kairouz, Oh & Viswanath 2015, arXiv 1311.0776: among all mechanisms with a guarantee, one with four
outcomes is worst, at every alpha and in compositions. With k = e^epsilon its masses are

    delta, (1-delta) k/(1+k), (1-delta)/(1+k), 0    with the record, and the same in reverse without

so that h(alpha) = delta + (1-delta) max(0, (k - alpha)/(1+k)) for alpha >= 1. It is attained: by
that mechanism, run on whether the record occurs at all. A group of j records has the guarantee
(j epsilon, delta (e^{j epsilon} - 1)/(e^epsilon - 1)) (Vadhan 2017, Lemma 2.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from mustdp.mechanisms.contract import DiscreteOutcomes, GroupProfiles, Mechanism, TabulatedProfiles
from mustdp.mechanisms.laws import dual
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.convex import TangentTable, hull_slopes, two_sided

#: Largest epsilon of a stated guarantee, and the largest loss that is tabulated.
LARGEST, _REACH = 100.0, 690.0
#: Relative rounding of a few exponentials, generously.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class StatedOutcomes(DiscreteOutcomes):
    """The four outcomes, for data sets with the record (places above 0) and without it."""

    epsilon: float
    delta: float

    relative_error = 1e-14
    placements: ClassVar[Mapping[str, tuple[int, int]]] = {"aligned": (1, 0), "reversed": (0, 1)}

    def masses(self, places: IntArray) -> FloatArray:
        """The masses above."""
        likely = (1.0 - self.delta) / (1.0 + np.exp(-self.epsilon))
        rare = (1.0 - self.delta) * np.exp(-self.epsilon) / (1.0 + np.exp(-self.epsilon))
        there = np.array([self.delta, likely, rare, 0.0])
        return np.where(places[:, None] > 0, there, there[::-1])


class StatedProfiles(TabulatedProfiles):
    """Group profiles of a stated guarantee."""

    relative_error = 1e-13

    def __init__(self, epsilon: float, delta: float) -> None:
        self._epsilon, self._delta = epsilon, delta
        super().__init__(_REACH)

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """By the formula above, with the guarantee of each group."""
        j, e = np.broadcast_arrays(groups, np.asarray(epsilon, dtype=np.float64))
        whole = j * self._epsilon * (1.0 + _ROUNDING)
        failing: FloatArray = np.zeros(j.shape)
        if self._delta > 0.0:
            with np.errstate(over="ignore"):
                grown = np.expm1(whole) / np.expm1(self._epsilon) * (1.0 + 4.0 * _ROUNDING)
            failing = np.minimum(self._delta * np.maximum(grown, 1.0), 1.0)
        rest = -np.expm1(np.minimum(np.abs(e) - whole, 0.0)) / (1.0 + np.exp(-whole))
        return dual(np.minimum(failing + (1.0 - failing) * rest, 1.0), e)

    def _table(self, group: int) -> TangentTable:
        end = min(group * self._epsilon, _REACH)
        beyond = np.append(1.001, np.geomspace(1.01, max(1.02, _REACH / end), 40))
        epsilon = np.unique(end * np.concatenate([np.linspace(0.0, 1.0, 60), beyond]))
        value = self.delta(np.array([float(group)]), epsilon[:, None])[:, 0]
        return two_sided(epsilon, value, hull_slopes(epsilon, value))


@dataclass(frozen=True)
class StatedGuarantee(Mechanism):
    """What the two have in common."""

    mechanism_epsilon: float

    name: ClassVar[str]

    def shift_for(self, moves: float) -> None:
        """A guarantee has no shift."""
        return

    @property
    def _failing(self) -> float:
        return 0.0

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Those of the worst mechanism with this guarantee."""
        return StatedProfiles(self.mechanism_epsilon, self._failing)

    def attained(self, shift: float | None) -> DiscreteOutcomes:
        """The worst mechanism itself."""
        return StatedOutcomes(self.mechanism_epsilon, self._failing)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"mechanism": self.name, **asdict(self)}

    def __post_init__(self) -> None:
        limits = {"at_least": 1e-9, "at_most": LARGEST}
        checked = checks.real("epsilon", self.mechanism_epsilon, **limits)
        object.__setattr__(self, "mechanism_epsilon", checked)


@dataclass(frozen=True)
class PureDP(StatedGuarantee):
    """Any mechanism that is epsilon differentially private."""

    name: ClassVar[str] = "pure-dp"


@dataclass(frozen=True)
class ApproximateDP(StatedGuarantee):
    """Any mechanism that is (epsilon, delta) differentially private."""

    mechanism_delta: float

    name: ClassVar[str] = "approximate-dp"

    def __post_init__(self) -> None:
        super().__post_init__()
        delta = checks.real("delta", self.mechanism_delta, at_least=1e-30, at_most=0.5)
        object.__setattr__(self, "mechanism_delta", delta)

    @property
    def _failing(self) -> float:
        return self.mechanism_delta


def pure_dp(epsilon: float) -> Mechanism:
    """Any mechanism of which nothing is known but that it is epsilon differentially private.

    The guarantee must hold for batches that differ in one entry: swapped for schemes of a fixed
    batch size, left out for Poisson sampling under add_remove.

    Parameters
    ----------
    epsilon : float
        The epsilon of one release, from 1e-9 to 100.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated.

    Examples
    --------
    >>> import mustdp as md
    >>> print(f"{md.account(md.repeat(10, md.pure_dp(0.1))).epsilon(delta=1e-5).upper:.2f}")
    0.99
    """
    return PureDP(epsilon)


def approximate_dp(epsilon: float, delta: float) -> Mechanism:
    """Any mechanism of which nothing is known but (epsilon, delta) differential privacy.

    The guarantee must hold for batches that differ in one entry: swapped for schemes of a fixed
    batch size, left out for Poisson sampling under add_remove.

    Parameters
    ----------
    epsilon : float
        The epsilon of one release, from 1e-9 to 100.
    delta : float
        The delta of one release, from 1e-30 to 0.5.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated.

    Examples
    --------
    >>> import mustdp as md
    >>> print(f"{md.account(md.approximate_dp(1.0, 1e-6)).epsilon(delta=1e-5).upper:.3f}")
    1.000
    """
    return ApproximateDP(epsilon, delta)
