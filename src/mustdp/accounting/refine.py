"""The one loop that refines: look at an answer on finer and finer grids until it is good enough.

The discretisation error falls with the square of the spacing, so an error that is four times too
large needs half the spacing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mustdp.errors import NumericalFailure

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Fractions:
    """The spacings that are tried, as fractions of the deviation of one step.

    ``boldness`` rounds the halvings that seem needed: below 1 a step too short costs a second look,
    above 1 a step too far costs a longer one. With ``last_look`` the finest spacing is tried before
    giving up even if it seems not to be fine enough.
    """

    first: float
    finest: float
    boldness: float
    last_look: bool = False

    def after(self, fraction: float, excess: float) -> float | None:
        """The next spacing if the error was ``excess`` times too large; None if there is none."""
        needed = 0.5 * math.log2(excess) if math.isfinite(excess) else 0.0
        finer = fraction / 2.0 ** max(1, math.floor(needed + self.boldness))
        if self.last_look and fraction > self.finest:
            finer = max(finer, self.finest)
        return finer if finer >= self.finest else None


@dataclass(frozen=True)
class Look(Generic[Answer]):
    """An answer on one grid, and by which factor its error is larger than allowed.

    ``finest`` says that no finer grid would help, ``shortfall`` what to say then.
    """

    answer: Answer
    good_enough: bool
    excess: float = 0.0
    finest: bool = False
    shortfall: str = ""


def refine(look_at: Callable[[float], Look[Answer]], fractions: Fractions) -> Answer:
    """Look at finer and finer spacings until the answer is good enough, or say that none is."""
    fraction: float | None = fractions.first
    while fraction is not None:
        look = look_at(fraction)
        if look.good_enough:
            return look.answer
        fraction = None if look.finest else fractions.after(fraction, look.excess)
    raise NumericalFailure(look.shortfall)
