"""What every scheme can do: draw, know its law, describe itself.

The schemes themselves are in ``scheme.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.batch import Batch
from mustdp.sampling.law import TAIL, MultiplicityLaw

if TYPE_CHECKING:
    from mustdp.randomness.keys import BatchKey
    from mustdp.sampling.streams import BatchStream


class Scheme(ABC):
    """A random rule that turns ``n`` records into a multiset of draws.

    >>> import mustdp as md
    >>> scheme = md.must_ow(1000, 50, 10)
    >>> scheme.draw().size, round(scheme.expected_distinct, 2)
    (10, 9.15)
    """

    n: int
    #: Whether every batch has the same size, so that another record takes a missing one's place.
    fixed_size: ClassVar[bool] = True
    #: Whether a record that is not there leaves its place empty.
    leaves_empty: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The scheme's name on the command line."""

    @property
    @abstractmethod
    def eta(self) -> float:
        """Chance that one given record is drawn at least once."""

    @property
    @abstractmethod
    def expected_size(self) -> float:
        """Expected number of draws, copies counted (the fixed batch size where it is fixed)."""

    @abstractmethod
    def law(self, group: int = 1, tail: float = TAIL) -> MultiplicityLaw:
        """Law of the copies of ``group`` given records in one draw, with the mass that was cut."""

    @abstractmethod
    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw one batch; without ``rng`` from the operating system's entropy."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON; ``scheme_from_description`` reads it back."""

    def resized(self, n: int) -> Self:
        """The same rule for ``n`` records, where the rule does not depend on their number."""
        raise InvalidParameter(f"a scheme of fixed size is one for n = {self.n} records, not {n}")

    @property
    def expected_distinct(self) -> float:
        """Expected number of distinct records in one draw: exactly ``n * eta``."""
        return self.n * self.eta

    def multiplicity(self, group: int = 1) -> FloatArray:
        """Probabilities ``p_0, p_1, …`` of the copies of ``group`` given records in one draw."""
        return self.law(group).dense()

    def batches(self, seed: int | BatchKey | None = None, count: int | None = None) -> BatchStream:
        """Stream of ``count`` batches (without end for None) that a seed or a key decides.

        Without one, the key is secret and fresh from the operating system.
        """
        from mustdp.sampling.streams import BatchStream  # streams are made of schemes

        stop = None if count is None else checks.integer("count", count, 0)
        return BatchStream(self, seed, stop=stop)

    def _law_arguments(self, group: int, tail: float) -> tuple[int, float]:
        return (
            checks.integer("group", group, 1, self.n),
            checks.real("tail", tail, at_least=0, below=1),
        )
