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

    Attributes
    ----------
    n : int
        Number of records, at least 1.
    fixed_size : bool
        Whether every batch has the same size, so that another record takes a missing one's place.
    leaves_empty : bool
        Whether a record that is not there leaves its place empty.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.must_ow(1000, 50, 10)
    >>> scheme.draw().size, round(scheme.expected_distinct, 2)
    (10, 9.15)
    """

    n: int
    fixed_size: ClassVar[bool] = True
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
        """Law of the copies of given records in one draw, with the mass that was cut.

        Parameters
        ----------
        group : int, default=1
            How many given records are counted together, from 1 to n.
        tail : float, default=1e-300
            Mass that may be cut off, from 0 to below 1.

        Returns
        -------
        MultiplicityLaw
            Probabilities of the numbers of copies.
        """

    @abstractmethod
    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw one batch.

        Parameters
        ----------
        rng : numpy.random.Generator, default=None
            Where randomness comes from; None means the operating system's entropy.

        Returns
        -------
        Batch
            The records drawn, and how often each.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON; ``scheme_from_description`` reads it back.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """

    def resized(self, n: int) -> Self:
        """The same rule for another number of records.

        Parameters
        ----------
        n : int
            Number of records, at least 1.

        Returns
        -------
        Scheme
            The rule for so many records.

        Raises
        ------
        InvalidParameter
            The rule depends on the number of records, as it does where batches have a fixed size.
        """
        raise InvalidParameter(f"a scheme of fixed size is one for n = {self.n} records, not {n}")

    @property
    def expected_distinct(self) -> float:
        """Expected number of distinct records in one draw: exactly ``n * eta``."""
        return self.n * self.eta

    def multiplicity(self, group: int = 1) -> FloatArray:
        """Probabilities ``p_0, p_1, …`` of the copies of given records in one draw.

        Parameters
        ----------
        group : int, default=1
            How many given records are counted together, from 1 to n.

        Returns
        -------
        ndarray
            The probabilities, read-only.
        """
        return self.law(group).dense()

    def batches(self, seed: int | BatchKey | None = None, count: int | None = None) -> BatchStream:
        """Stream of independent batches that a seed or a key decides.

        Parameters
        ----------
        seed : int or BatchKey, default=None
            Decides the batches; None means a secret key, fresh from the operating system.
        count : int, default=None
            Number of batches; None means without end.

        Returns
        -------
        BatchStream
            The batches, in their order.
        """
        from mustdp.sampling.streams import BatchStream  # streams are made of schemes

        stop = None if count is None else checks.integer("count", count, 0)
        return BatchStream(self, seed, stop=stop)

    def _law_arguments(self, group: int, tail: float) -> tuple[int, float]:
        return (
            checks.integer("group", group, 1, self.n),
            checks.real("tail", tail, at_least=0, below=1),
        )
