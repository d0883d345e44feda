"""What every epoch can do: draw its batches, end early, describe itself.

The epochs themselves are in ``epochs.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.sampling.batch import Batch
from mustdp.sampling.catalogue import EPOCHS

if TYPE_CHECKING:
    from mustdp.randomness.keys import BatchKey
    from mustdp.sampling.streams import BatchStream


class Epoch(ABC):
    """A random rule that shares ``n`` records out over batches, no record twice in one of them.

    Attributes
    ----------
    n : int
        Number of records, at least 1.
    bins : int
        Number of batches of a whole epoch.
    steps : int
        Number of batches that are released: the first so many.
    times : int
        Number of batches of a whole epoch that every record is in.

    Examples
    --------
    >>> import mustdp as md
    >>> epoch = md.shuffle(1000, 300)
    >>> isinstance(epoch, md.Epoch), epoch.bins, epoch.eta
    (True, 4, 0.3)
    """

    #: The rule's name on the command line.
    name: ClassVar[str]
    #: Whether every batch has the same size.
    fixed_size: ClassVar[bool]
    #: Whether a record that is not there leaves its place empty.
    leaves_empty: ClassVar[bool] = True

    n: int
    bins: int
    steps: int
    times: int

    def first(self, steps: int) -> Self:
        """The same rule, of which only the first batches are released.

        Parameters
        ----------
        steps : int
            How many batches, from 1 to ``bins``.

        Returns
        -------
        Epoch
            What is drawn and charged where a run ends early.
        """
        steps = checks.integer("steps", steps, 1, self.bins)
        return replace(self, steps=steps)  # type: ignore[type-var]

    @abstractmethod
    def draw(self, rng: np.random.Generator | None = None) -> tuple[Batch, ...]:
        """Draw all batches of one epoch.

        Parameters
        ----------
        rng : numpy.random.Generator, default=None
            Where randomness comes from; None means the operating system's entropy.

        Returns
        -------
        tuple of Batch
            Every record in at most ``times`` of them, and in none twice.
        """

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON; ``epoch_from_description`` reads it back.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        sizes = {size: getattr(self, size) for size in EPOCHS[self.name].sizes}
        partly = {"steps": self.steps} if self.steps < self.bins else {}
        return {"scheme": self.name, **sizes, **partly}

    def resized(self, n: int) -> Self:
        """The same rule for another number of records.

        Parameters
        ----------
        n : int
            Number of records, at least 1.

        Returns
        -------
        Epoch
            The same bins for so many records.

        Raises
        ------
        InvalidParameter
            The rule depends on the number of records, as shuffling does.
        """
        raise InvalidParameter(f"a shuffled epoch is one of n = {self.n} records, not {n}")

    @property
    def eta(self) -> float:
        """Chance that one given record is in a given batch (the first, where they differ)."""
        return self.expected_size / self.n

    @property
    @abstractmethod
    def expected_size(self) -> float:
        """Expected number of records in a batch."""

    @property
    def expected_distinct(self) -> float:
        """Expected number of distinct records in a batch: all of them are."""
        return self.expected_size

    @property
    def everywhere(self) -> bool:
        """Whether every batch holds all records, so that nothing is hidden."""
        return self.times == self.bins

    def batches(self, seed: int | BatchKey | None = None, epochs: int | None = None) -> BatchStream:
        """Stream of the batches of several epochs, one after another.

        Batch t is number t % bins of epoch t // bins.

        Parameters
        ----------
        seed : int or BatchKey, default=None
            Decides the batches; None means a secret key, fresh from the operating system.
        epochs : int, default=None
            Number of epochs; None means without end.

        Returns
        -------
        BatchStream
            The batches, in their order.
        """
        from mustdp.sampling.streams import BatchStream  # streams are made of epochs

        stop = None if epochs is None else checks.integer("epochs", epochs, 0) * self.bins
        return BatchStream(self, seed, stop=stop)
