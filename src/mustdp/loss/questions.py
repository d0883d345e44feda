"""The two questions about a privacy loss, as objects that read their own answers.

A question is asked of a composed loss, of the profile of a single loss or of a concrete pair; each
is read off on its own side: profiles above the truth, pairs below it. A question also says how far
from the truth its answer may be.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.loss import uncomposed
from mustdp.loss.dots import Profile
from mustdp.loss.pairs import ConcretePair
from mustdp.numerics import checks

if TYPE_CHECKING:
    from mustdp.loss.curve import ComposedLoss

#: Delta is far more sensitive than epsilon: its relative accuracy is that of epsilon times this.
_DELTA_FACTOR = 4.0
#: Epsilons below this need not be more accurate than this one.
_SMALL_EPSILON = 1e-3


class Question(ABC):
    """What is asked, and at which value of the other parameter."""

    #: What is asked for.
    name: ClassVar[str]

    @property
    @abstractmethod
    def at(self) -> float:
        """The value of the other parameter."""

    @abstractmethod
    def of_composed(self, loss: ComposedLoss) -> float:
        """The answer for composed losses, on their side."""

    @abstractmethod
    def of_profile(self, profile: Profile) -> float:
        """The answer for one loss from above, by its profile."""

    @abstractmethod
    def of_pair(self, pair: ConcretePair, near: float = math.inf) -> float:
        """The answer for one loss from below, by a pair that attains it."""

    @abstractmethod
    def room(self, answer: float, accuracy: float) -> float:
        """How far an answer may be from the truth at this relative accuracy of epsilon."""


@dataclass(frozen=True)
class DeltaAt(Question):
    """What is delta at this epsilon?"""

    epsilon: float

    name = "delta"

    def __post_init__(self) -> None:
        asked = checks.real("epsilon", self.epsilon, at_least=0, at_most=LARGEST_EPSILON)
        object.__setattr__(self, "epsilon", asked)

    @property
    def at(self) -> float:
        """The epsilon in question."""
        return self.epsilon

    def of_composed(self, loss: ComposedLoss) -> float:
        """Read off at the epsilon."""
        return loss.delta(self.epsilon)

    def of_profile(self, profile: Profile) -> float:
        """The profile's own value."""
        return float(profile(np.array([self.epsilon]))[0])

    def of_pair(self, pair: ConcretePair, near: float = math.inf) -> float:
        """What a half-line near the best one attains."""
        return pair.attained(self.epsilon)

    def room(self, answer: float, accuracy: float) -> float:
        """In proportion to delta, however small."""
        return _DELTA_FACTOR * accuracy * answer


@dataclass(frozen=True)
class EpsilonAt(Question):
    """What is epsilon at this delta?"""

    delta: float

    name = "epsilon"

    def __post_init__(self) -> None:
        asked = checks.real("delta", self.delta, at_least=SMALLEST_DELTA, below=1)
        object.__setattr__(self, "delta", asked)

    @property
    def at(self) -> float:
        """The delta in question."""
        return self.delta

    def of_composed(self, loss: ComposedLoss) -> float:
        """Solved on the side of the losses."""
        return loss.epsilon(self.delta)

    def of_profile(self, profile: Profile) -> float:
        """The first epsilon at which the profile is small enough."""
        return uncomposed.first_below(profile, self.delta)

    def of_pair(self, pair: ConcretePair, near: float = math.inf) -> float:
        """The last epsilon at which the pair attains more, looked for below ``near`` first."""
        return uncomposed.last_above(pair, self.delta, near)

    def room(self, answer: float, accuracy: float) -> float:
        """In proportion to epsilon, unless that is tiny."""
        return accuracy * max(answer, _SMALL_EPSILON)
