"""Poisson sampling: a coin of its own for every record, so that batches have random sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from mustdp.numerics import checks, windows
from mustdp.numerics.checks import frozen
from mustdp.randomness.substreams import generator
from mustdp.sampling.batch import Batch
from mustdp.sampling.draws import draw_poisson
from mustdp.sampling.law import TAIL, MultiplicityLaw, as_law
from mustdp.sampling.rule import Scheme


@dataclass(frozen=True)
class Poisson(Scheme):
    """Every record is taken independently with chance ``rate``.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    rate : float
        Chance of every record to be in a batch, from 0 to 1.

    Examples
    --------
    >>> import mustdp as md
    >>> md.Poisson(1000, 0.01).expected_size
    10.0
    """

    name: ClassVar[str] = "poisson"
    fixed_size: ClassVar[bool] = False
    leaves_empty: ClassVar[bool] = True

    n: int
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.integer("n", self.n, 1))
        object.__setattr__(self, "rate", checks.real("rate", self.rate, at_least=0, at_most=1))

    @property
    def eta(self) -> float:
        """Chance that one given record is drawn."""
        return self.rate

    @property
    def expected_size(self) -> float:
        """Expected batch size ``n * rate``; the size itself is random."""
        return self.n * self.rate

    def law(self, group: int = 1, tail: float = TAIL) -> MultiplicityLaw:
        """Law of the number of records of the group that are taken."""
        group, tail = self._law_arguments(group, tail)
        if group == 1 and 0.0 < self.rate < 1.0:
            both = frozen(np.array([1.0 - self.rate, self.rate]))
            return MultiplicityLaw(0, both, 0.0, 2.0**-53)
        return as_law(windows.binomial(group, *self.rate.as_integer_ratio(), tail))

    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw the size, then that many records without replacement: the same law, at O(batch)."""
        return draw_poisson(self.n, self.rate, generator(rng))

    def resized(self, n: int) -> Self:
        """The same chance for each of ``n`` records."""
        return replace(self, n=n)

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {"scheme": self.name, "n": self.n, "rate": self.rate}
