"""Epochs: one pass over the data in many batches, by random allocation or by shuffling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import IntArray
from mustdp.randomness.keys import EPOCHS as EPOCH_STREAMS
from mustdp.randomness.keys import BatchKey, Substreams, generator
from mustdp.sampling.catalogue import EPOCHS
from mustdp.sampling.schemes import Batch, BatchStream, Scheme, check_held, drawn

# How the batches of an epoch are drawn: once per epoch, in time that follows n.
#
# Random allocation: the bin of every record is an exactly uniform number from the epoch's stream of
# bits (numpy's rejection method, Lemire 2019, arXiv 1805.10941), records in their order. So nothing
# has to be kept to know it again: epochs with more records than are held at a time are drawn in
# *portions* of neighbouring bins, each by running through the same bits and keeping the records of
# those bins. No permutation is ever made, and n = 10^9 takes the memory of one portion.
#
# A record in t distinct bins: Floyd's algorithm (Bentley & Floyd 1987, CACM 30(9), 754-757). For j
# = M - t, ..., M - 1 a uniform number up to j is drawn, and j itself is taken where the record has
# that number already: every set of t bins is equally likely, after t draws. One bin is t = 1.
#
# Shuffling: numpy's permutation of all records, held for as long as the epoch lasts.


#: Entries of batches that one portion of an epoch may hold.
HELD = 1 << 26
#: Entries that are drawn in one go. The draw depends on it: it must never change.
_RUN = 1 << 20
#: From this many bins per record on, those it has are looked up in a table instead of compared; it
#: has at most this many places for the records that are drawn in one go. The draw depends on both.
_LOOKED_UP, _PLACES = 65, 1 << 26


def draw_allocation(n: int, bins: int, times: int, rng: np.random.Generator) -> tuple[Batch, ...]:
    """All batches of one epoch of random allocation, every record in ``times`` of the bins."""
    check_held(n * times, n * times)
    return BinRange(n, bins, times, 0, bins, lambda: rng).batches


def distinct_bins(
    count: int, bins: int, times: int, rng: np.random.Generator
) -> NDArray[np.uint32]:
    """``times`` distinct bins for each of ``count`` records: one row for each record."""
    chosen = np.empty((times, count), dtype=np.uint32)
    table = np.zeros((count, bins), dtype=bool) if times >= _LOOKED_UP else None
    every = np.arange(count) if times >= _LOOKED_UP else None
    for row, last in enumerate(range(bins - times, bins)):
        place = rng.integers(last + 1, size=count, dtype=np.uint32)
        if row:
            known = np.any(chosen[:row] == place, axis=0) if table is None else table[every, place]
            place = np.where(known, np.uint32(last), place)
        chosen[row] = place
        if table is not None:
            table[every, place] = True
    return chosen.T


def _in_one_go(bins: int, times: int) -> int:
    """For how many records bins are drawn at a time."""
    run = _RUN // times if times < _LOOKED_UP else min(_RUN // times, _PLACES // bins)
    return max(1, run)


def draw_shuffled(n: int, m: int, rng: np.random.Generator) -> tuple[Batch, ...]:
    """All batches of one shuffled epoch."""
    check_held(n, n)
    order = rng.permutation(n)
    return tuple(_once(order[start : start + m]) for start in range(0, n, m))


class BinRange:
    """The batches of bins ``first`` to ``stop`` - 1 of one epoch of random allocation."""

    def __init__(
        self, n: int, bins: int, times: int, first: int, stop: int,
        fresh: Callable[[], np.random.Generator],
    ) -> None:  # fmt: skip
        rng = fresh()
        records, places = [], []
        kind = np.uint16 if bins <= 1 << 16 else np.uint32
        run = _in_one_go(bins, times)
        for start in range(0, n, run):
            chosen = distinct_bins(min(run, n - start), bins, times, rng).ravel()
            if stop - first < bins or times > 1:
                kept = np.flatnonzero((chosen >= first) & (chosen < stop))
                records.append(kept // times + start)
                chosen = chosen[kept]
            places.append((chosen - np.uint32(first)).astype(kind))
        place = np.concatenate(places)
        # Numbers of 16 bits are sorted in linear time.
        order = np.argsort(place, kind="stable")
        self._records = np.concatenate(records)[order] if records else order.astype(np.int64)
        ends = np.cumsum(np.bincount(place, minlength=stop - first))
        self._ends = np.concatenate([[0], ends])
        self.first, self.stop = first, stop

    def batch(self, number: int) -> Batch:
        """The batch of one bin, its records in increasing order."""
        place = number - self.first
        return _once(self._records[self._ends[place] : self._ends[place + 1]].copy())

    @property
    def batches(self) -> tuple[Batch, ...]:
        """All batches of the portion."""
        return tuple(self.batch(number) for number in range(self.first, self.stop))


def portion_of(entries: int, bins: int, number: int, held: int = HELD) -> tuple[int, int]:
    """The bins that are drawn together with bin ``number``: first, and one past the last."""
    portions = min(bins, -(-entries // held))
    size = -(-bins // portions)
    first = number // size * size
    return first, min(first + size, bins)


def _once(indices: IntArray) -> Batch:
    return drawn(indices.astype(np.int64, copy=False), np.ones(indices.size, dtype=np.int64))


# What every epoch can do: draw its batches, end early, describe itself.


class Epoch(ABC):
    """A random rule that shares ``n`` records out over batches, no record twice in one of them.

    Attributes
    ----------
    n : int
        Number of records, at least 1.
    bins : int
        Number of batches of a whole epoch.
    steps : int
        Number of batches that are released, from the first on.
    times : int
        Number of batches of a whole epoch that every record is in.

    Examples
    --------
    >>> import mustdp as md
    >>> epoch = md.shuffle(1000, 300)
    >>> isinstance(epoch, md.types.Epoch), epoch.bins, epoch.eta
    (True, 4, 0.3)
    """

    #: The rule's name on the command line.
    name: ClassVar[str]
    #: Whether every batch has the same size.
    fixed_size: ClassVar[bool]
    #: Whether a record that is not there leaves its place empty.
    leaves_empty: ClassVar[bool] = True
    #: The purpose of the random numbers of a stream (``randomness/keys.py``).
    _purpose: ClassVar[int] = EPOCH_STREAMS

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
            The same bins for ``n`` records.

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
        stop = None if epochs is None else checks.integer("epochs", epochs, 0) * self.bins
        return BatchStream(self, seed, stop=stop)

    def _numbered_draws(self, generators: Substreams) -> Callable[[int], Batch]:
        """What draws the batches of a stream by their numbers, epoch after epoch."""
        return _EpochBatches(self, generators).batch


# Epochs: one pass over the data in many batches, every record in one of them or in a few.
#
# Random allocation puts each record into one of the bins, or into a set of ``times`` of them,
# uniformly and independently of the others, so that batches have random sizes. Shuffling cuts a
# random order into batches of a fixed size. An epoch is described once; the same object draws its
# batches and is charged for them. A run that ends early is an epoch of which only the first
# ``steps`` batches are released.


@dataclass(frozen=True)
class RandomAllocation(Epoch):
    """Every record goes to ``times`` distinct ones of ``bins`` batches, uniformly, independently.

    The other parameters are those of :func:`random_allocation`, which makes it.

    Parameters
    ----------
    steps : int, default=0
        How many batches are released, from the first on; 0 means all of them.

    Examples
    --------
    >>> import mustdp as md
    >>> epoch = md.types.RandomAllocation(1000, bins=10)
    >>> len(epoch.draw()), epoch.expected_size
    (10, 100.0)
    >>> epoch.first(3).steps
    3
    """

    name: ClassVar[str] = "allocation"
    fixed_size: ClassVar[bool] = False

    n: int
    bins: int
    steps: int = 0  # all of them
    times: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.integer("n", self.n, 1))
        bins = checks.integer("bins", self.bins, 1, 2**31 - 1)
        object.__setattr__(self, "bins", bins)
        steps = checks.integer("steps", self.steps or bins, 1, bins)
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "times", checks.integer("times", self.times, 1, bins))

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON; ``times`` is in it where it is not 1."""
        return {**super().describe(), **({"times": self.times} if self.times > 1 else {})}

    @property
    def expected_size(self) -> float:
        """Expected batch size ``times n / bins``; the size itself is random."""
        return self.n * self.times / self.bins

    def resized(self, n: int) -> Self:
        """The same bins for ``n`` records."""
        return replace(self, n=n)

    def draw(self, rng: np.random.Generator | None = None) -> tuple[Batch, ...]:
        """All batches of one epoch."""
        return draw_allocation(self.n, self.bins, self.times, generator(rng))[: self.steps]


@dataclass(frozen=True)
class Shuffle(Epoch):
    """A random order of the records, cut into batches of ``m``; the last one may be smaller.

    Made by :func:`shuffle`; the other parameters are those of :func:`wor`.

    Parameters
    ----------
    steps : int, default=0
        How many batches are released, from the first on; 0 means all of them.

    Examples
    --------
    >>> import mustdp as md
    >>> [batch.size for batch in md.types.Shuffle(10, 4).draw()]
    [4, 4, 2]
    """

    name: ClassVar[str] = "shuffle"
    fixed_size: ClassVar[bool] = True

    n: int
    m: int
    steps: int = 0  # all of them
    bins: int = field(init=False, repr=False)
    times: int = field(init=False, repr=False, default=1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.integer("n", self.n, 1))
        object.__setattr__(self, "m", checks.integer("m", self.m, 1, self.n))
        object.__setattr__(self, "bins", -(-self.n // self.m))
        steps = checks.integer("steps", self.steps or self.bins, 1, self.bins)
        object.__setattr__(self, "steps", steps)

    @property
    def expected_size(self) -> float:
        """The batch size."""
        return float(self.m)

    def draw(self, rng: np.random.Generator | None = None) -> tuple[Batch, ...]:
        """All batches of one epoch."""
        return draw_shuffled(self.n, self.m, generator(rng))[: self.steps]


#: Whatever draws batches: one at a time, or those of an epoch.
Sampling: TypeAlias = Scheme | Epoch


def random_allocation(n: int, bins: int, times: int = 1) -> RandomAllocation:
    """One epoch: every one of ``n`` records in exactly one of ``bins`` batches, independently.

    With ``times``, in that many distinct ones, every set of them being equally likely.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    bins : int
        Number of batches of an epoch, from 1 to 2**31 - 1.
    times : int, default=1
        How many distinct batches every record is in, from 1 to ``bins``.

    Returns
    -------
    RandomAllocation
        What is drawn and charged.

    Examples
    --------
    >>> sum(batch.size for batch in random_allocation(1000, 10).batches(epochs=1))
    1000
    >>> sum(batch.size for batch in random_allocation(1000, 10, times=3).batches(epochs=1))
    3000
    """
    return RandomAllocation(n, bins, times=times)


def shuffle(n: int, m: int) -> Shuffle:
    """One epoch of a shuffled loader: ``n`` records in random order, in batches of ``m``.

    The parameters are those of :func:`wor`.

    Returns
    -------
    Shuffle
        What is drawn and charged.

    Examples
    --------
    >>> [batch.size for batch in shuffle(1000, 300).batches(epochs=1)]
    [300, 300, 300, 100]
    """
    return Shuffle(n, m)


def epoch_from_description(description: object) -> Epoch:
    """Rebuild an epoch from what :meth:`Epoch.describe` gave; anything else is refused."""
    if isinstance(description, dict) and all(description.values()):
        given = {key: value for key, value in description.items() if key != "scheme"}
        name = description.get("scheme")
        entry = EPOCHS.get(name) if isinstance(name, str) else None
        if entry is not None and set(given) - {"steps", *entry.optional} == set(entry.sizes):
            steps = given.pop("steps", None)
            epoch = cast("Epoch", entry.build(**given))
            return epoch if steps is None else epoch.first(steps)
    raise InvalidParameter(f"description must be what Epoch.describe() gives, got {description!r}")


class _EpochBatches:
    """The batches of epochs by number; the portion that was drawn last is kept."""

    def __init__(self, epoch: Epoch, generators: Substreams) -> None:
        self._epoch, self._generators = epoch, generators
        self._known: tuple[int, BinRange | tuple[Batch, ...]] | None = None

    def batch(self, number: int) -> Batch:
        """Batch ``number`` of the unsplit stream."""
        epoch, place = divmod(number, self._epoch.bins)
        if place >= self._epoch.steps:
            raise InvalidParameter(
                f"number must be that of one of the first {self._epoch.steps} batches of an epoch, "
                f"got batch {place} of epoch {epoch}"
            )
        known = self._known
        if isinstance(self._epoch, RandomAllocation):
            n, bins, times = self._epoch.n, self._epoch.bins, self._epoch.times
            if known is None or known[0] != epoch or not _holds(known[1], place):
                ends = portion_of(n * times, bins, place)
                found = BinRange(n, bins, times, *ends, lambda: self._generators.at(epoch))
                known = self._known = epoch, found
        elif known is None or known[0] != epoch:
            m = round(self._epoch.expected_size)
            known = self._known = epoch, draw_shuffled(self._epoch.n, m, self._generators.at(epoch))
        batches = known[1]
        return batches.batch(place) if isinstance(batches, BinRange) else batches[place]


def _holds(known: BinRange | tuple[Batch, ...], place: int) -> bool:
    return isinstance(known, BinRange) and known.first <= place < known.stop
