"""Randomized response: one answer out of several categories, told truly with a certain chance.

Warner 1965, for c categories: with k = e^epsilon the true category is released with chance
k/(k + c - 1), any other one with chance 1/(k + c - 1). However many records decide the answer, they
can but change it from one category to another, so that

    h(alpha) = max(0, (k - alpha)/(k + c - 1)) for alpha >= 1, for groups of every size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from mustdp.mechanisms.mechanism import (
    DiscreteOutcomes,
    GroupProfiles,
    Mechanism,
    TabulatedProfiles,
    dual,
)
from mustdp.mechanisms.registry import MECHANISM_EPSILON, Argument, register
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.convex import TangentTable, hull_slopes, two_sided


@dataclass(frozen=True)
class Answers(DiscreteOutcomes):
    """The categories: the record's own, that of its substitute, that of all others, the rest."""

    epsilon: float
    categories: int

    relative_error = 1e-14

    @property
    def placements(self) -> Mapping[str, tuple[int, int]]:
        """A substitute has a category of its own where there are three."""
        pairs = {"aligned": (1, 0), "reversed": (0, 1)}
        return pairs | ({"symmetric": (1, -1)} if self.categories > 2 else {})

    def masses(self, places: IntArray) -> FloatArray:
        """One column for each of the three, and one for all other answers."""
        other = np.exp(-self.epsilon)
        kinds = min(self.categories, 3)
        true = np.mod(np.sign(places), 3)[:, None] == np.arange(kinds)
        told = np.where(true, 1.0, other)
        rest = np.full((places.size, 1), (self.categories - kinds) * other)
        return np.asarray(np.hstack([told, rest]) / (1.0 + (self.categories - 1) * other))


class AnswerProfiles(TabulatedProfiles):
    """The same profile for groups of every size."""

    relative_error = 1e-13

    def __init__(self, epsilon: float, categories: int) -> None:
        self._epsilon, self._categories = epsilon, categories
        super().__init__(2.0 * epsilon)

    def delta(self, groups: FloatArray, epsilon: FloatArray) -> FloatArray:
        """By the formula above, with epsilon rounded up."""
        e = np.broadcast_arrays(np.asarray(epsilon, dtype=np.float64), groups)[0]
        whole = self._epsilon * (1.0 + 1e-15)
        gained = -np.expm1(np.minimum(np.abs(e) - whole, 0.0))
        return dual(gained / (1.0 + (self._categories - 1) * np.exp(-whole)), e)

    def _table(self, group: int) -> TangentTable:
        epsilon = self._epsilon * np.append(np.linspace(0.0, 1.0, 60), [1.001, 2.0])
        value = self.delta(np.array([float(group)]), epsilon[:, None])[:, 0]
        return two_sided(epsilon, value, hull_slopes(epsilon, value))


@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """Randomized response (see :func:`randomized_response`)."""

    mechanism_epsilon: float
    categories: int = 2

    name: ClassVar[str] = "randomized-response"

    def __post_init__(self) -> None:
        limits = {"at_least": 1e-9, "at_most": 100.0}
        checked = checks.real("epsilon", self.mechanism_epsilon, **limits)
        object.__setattr__(self, "mechanism_epsilon", checked)
        whole = checks.integer("categories", self.categories, 2, 10**9)
        object.__setattr__(self, "categories", whole)

    def shift_for(self, moves: float) -> None:
        """An answer has no shift."""
        return

    @property
    def covers_left_out(self) -> bool:
        """Leaving a record out changes the answer at most, too."""
        return True

    def profiles(self, shift: float | None) -> GroupProfiles:
        """Exact, and the same for groups of every size."""
        return AnswerProfiles(self.mechanism_epsilon, self.categories)

    def attained(self, shift: float | None) -> DiscreteOutcomes:
        """The answers of a query that one record decides if it is there."""
        return Answers(self.mechanism_epsilon, self.categories)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"mechanism": self.name, **asdict(self)}


@register(
    summary="one answer out of several categories",
    arguments=(
        MECHANISM_EPSILON,
        Argument(
            "categories",
            "INT",
            "Number of possible answers, 2 by default.",
            2,
            10**9,
            whole=True,
            default=2,
        ),
    ),
    examples=(
        {"mechanism_epsilon": 1.0},
        {"mechanism_epsilon": 0.3, "categories": 3},
        {"mechanism_epsilon": 2.0, "categories": 50},
    ),
)
def randomized_response(epsilon: float, categories: int = 2) -> Mechanism:
    """Randomized response: the true answer is e^epsilon times as likely as any other one.

    Parameters
    ----------
    epsilon : float
        The epsilon of one answer, from 1e-9 to 100.
    categories : int, default=2
        How many answers there are, at least 2.

    Returns
    -------
    Mechanism
        A plan of one release, to be subsampled and repeated.

    Examples
    --------
    >>> import mustdp as md
    >>> told = md.randomized_response(1.0, categories=5)
    >>> print(f"{md.account(told).delta(0.0).upper:.4f}")
    0.2558
    """
    return RandomizedResponse(epsilon, categories)
