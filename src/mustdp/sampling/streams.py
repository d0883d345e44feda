"""A stream of batches: decided by one key, restartable, and split over workers at will.

Batch t depends on the key and on t alone (in epochs, batch t is number t % bins of epoch t // bins,
and all batches of an epoch are drawn at once). So any batch can be had without the ones before it,
a stream can go on where it stopped, and workers that share a stream draw, between them, exactly the
batches that one worker alone would have drawn.

A state or a key stands for the batches themselves: keep it as secret as they are. Equal batches
need equal versions of numpy's samplers, which numpy may improve from one release to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import RLock
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.files.reading import digest
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics import checks
from mustdp.randomness.keys import BATCHES, EPOCHS, GROUPS, BatchKey, Substreams, batch_key
from mustdp.sampling.catalogue import EPOCH_NAMES
from mustdp.sampling.epochs import (
    BinRange,
    Epoch,
    RandomAllocation,
    Sampling,
    draw_shuffled,
    epoch_from_description,
    portion_of,
)
from mustdp.sampling.schemes import Batch, Poisson, Scheme, drawn, scheme_from_description

_FORMAT = "mustdp batch stream"
#: Of the stored position of a stream.
_VERSION = 1
_FIELDS = frozenset(
    {"format", "version", "seed", "position", "stride", "stop", "scheme", "checksum"}
)


class BatchStream(Iterator[Batch]):
    """Batches ``position, position + stride, …`` below ``stop`` of the stream of a key.

    Made by :meth:`Scheme.batches` or :meth:`Epoch.batches`, which start at batch 0 with stride 1.
    Threads may draw from one stream: every batch goes to one of them. Drawing moves only this
    object: a stream that was split, saved or copied and is then drawn from as well repeats batches.

    Parameters
    ----------
    scheme : Scheme or Epoch
        How batches are drawn.
    seed : int or BatchKey, default=None
        Decides the batches; None means a secret key, fresh from the operating system.
    position : int, default=0
        Number of the first batch.
    stride : int, default=1
        How many numbers further the next batch is.
    stop : int, default=None
        Only batches below this number are drawn; None means without end.

    Examples
    --------
    >>> import mustdp as md
    >>> stream = md.wor(1000, 10).batches(seed=1, count=5)
    >>> sum(1 for batch in stream)
    5
    >>> stream.remaining
    0
    """

    def __init__(
        self,
        scheme: Sampling,
        seed: int | BatchKey | None = None,
        *,
        position: int = 0,
        stride: int = 1,
        stop: int | None = None,
    ) -> None:
        if not isinstance(scheme, Sampling):
            raise InvalidParameter(f"scheme must be a mustdp scheme, got {scheme!r}")
        self._scheme = scheme
        self._key = batch_key(seed)
        self._position = checks.integer("position", position, 0)
        self._stride = checks.integer("stride", stride, 1)
        self._stop = LARGEST_SIZE if stop is None else checks.integer("stop", stop, 0)
        purpose = EPOCHS if isinstance(scheme, Epoch) else BATCHES
        self._generators = Substreams(self._key, purpose)
        self._epochs: _EpochBatches | None = None
        # One generator serves all batches: two threads in it at once would mix them.
        self._lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has a generator of its own; what was drawn stays here."""
        return _copied, (self._scheme, self._key, self._position, self._stride, self._stop)

    @property
    def scheme(self) -> Sampling:
        """The scheme that every batch is drawn by."""
        return self._scheme

    @property
    def key(self) -> BatchKey:
        """What decides the batches: as secret as they are."""
        return self._key

    @property
    def seed(self) -> int | None:
        """The seed; None where the key is fresh and secret."""
        return self._key.seed

    @property
    def position(self) -> int:
        """Number, in the unsplit stream, of the batch that comes next."""
        return self._position

    @property
    def remaining(self) -> int | None:
        """How many batches are still to come; None for a stream without end."""
        if self._stop == LARGEST_SIZE:
            return None
        return max(0, -(-(self._stop - self._position) // self._stride))

    def batch(self, number: int) -> Batch:
        """One batch of the unsplit stream; the position stays where it is.

        Parameters
        ----------
        number : int
            Which one, from 0 on.

        Returns
        -------
        Batch
            The same as drawing gives when it comes to this number.
        """
        number = checks.integer("number", number, 0, self._stop - 1)
        return self._draw(number)

    def _draw(self, number: int) -> Batch:
        with self._lock:
            if isinstance(self._scheme, Scheme):
                return self._scheme.draw(self._generators.at(number))
            if self._epochs is None:
                self._epochs = _EpochBatches(self._scheme, self._generators)
            return self._epochs.batch(number)

    def __next__(self) -> Batch:
        following = self._following()
        if following is None:
            raise StopIteration
        return following[1]

    def _following(self) -> tuple[int, Batch] | None:
        """The next batch and its number, in one move; None at the end."""
        with self._lock:
            number = self._position
            if number >= self._stop:
                return None
            batch = self._draw(number)
            self._position = min(number + self._stride, LARGEST_SIZE)
            return number, batch

    def numbered(self) -> Iterator[tuple[int, Batch]]:
        """The remaining batches with their numbers in the unsplit stream.

        Yields
        ------
        (number, batch) : int, Batch
            In their order; the position moves along.
        """
        while (following := self._following()) is not None:
            yield following

    def shard(self, worker: int, of: int) -> BatchStream:
        """One worker's share of the remaining batches.

        Parameters
        ----------
        worker : int
            Which share, from 0 to ``of - 1``; it begins with number ``worker`` of the batches.
        of : int
            How many shares there are: every so-manieth batch is in this one.

        Returns
        -------
        BatchStream
            A stream of its own.
        """
        of = checks.integer("of", of, 1)
        worker = checks.integer("worker", worker, 0, of - 1)
        return BatchStream(
            self._scheme,
            self._key,
            position=min(self._position + worker * self._stride, LARGEST_SIZE),
            stride=min(self._stride * of, LARGEST_SIZE),
            stop=self._stop,
        )

    def split(self, workers: int) -> tuple[BatchStream, ...]:
        """Share the remaining batches out.

        Parameters
        ----------
        workers : int
            How many shares, from 1 to 1,000,000.

        Returns
        -------
        tuple of BatchStream
            One stream per worker, each batch in exactly one.
        """
        workers = checks.integer("workers", workers, 1, 1_000_000)
        return tuple(self.shard(worker, workers) for worker in range(workers))

    @property
    def state(self) -> dict[str, Any]:
        """All that is needed to go on from here, as plain values for JSON."""
        body = {
            "format": _FORMAT,
            "version": _VERSION,
            "seed": self._key.text,  # too wide for the numbers of most JSON readers
            "position": self._position,
            "stride": self._stride,
            "stop": None if self._stop == LARGEST_SIZE else self._stop,
            "scheme": self._scheme.describe(),
        }
        return {**body, "checksum": _checksum(body)}

    @classmethod
    def restore(cls, state: object, scheme: Sampling | None = None) -> BatchStream:
        """Go on from a :attr:`state`.

        Parameters
        ----------
        state : dict
            What :attr:`state` gave; as secret as the batches.
        scheme : Scheme or Epoch, default=None
            The scheme that the state must be of; None takes any.

        Returns
        -------
        BatchStream
            It goes on where that one was; a state that is damaged or of another scheme is refused.
        """
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise InvalidParameter(
                f"state must be what BatchStream.state gives, got another {type(state).__name__}"
            )
        version = state.get("version")
        if isinstance(version, bool) or version != _VERSION:
            raise InvalidParameter(f"version of the state must be {_VERSION}, got {version!r}")
        if set(state) != _FIELDS:
            odd = ", ".join(sorted(map(str, _FIELDS ^ set(state))))
            raise InvalidParameter(
                f"state must hold exactly {', '.join(sorted(_FIELDS))}, got a difference in {odd}"
            )
        body = {key: value for key, value in state.items() if key != "checksum"}
        if state["checksum"] != _checksum(body):
            raise InvalidParameter(
                "state must be undamaged: its checksum must be that of its contents, "
                f"got {state['checksum']!r}"
            )
        described = _described(state["scheme"])
        if scheme is not None and described != scheme:
            raise InvalidParameter(f"state must be that of {scheme!r}, got one of {described!r}")
        return cls(
            described,
            BatchKey(state["seed"]),
            position=state["position"],
            stride=state["stride"],
            stop=state["stop"],
        )


def _copied(scheme: Sampling, key: BatchKey, position: int, stride: int, stop: int) -> BatchStream:
    return BatchStream(scheme, key, position=position, stride=stride, stop=stop)


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

    def __reduce__(self) -> tuple[Any, ...]:
        """What was drawn stays here and is drawn again elsewhere."""
        return _EpochBatches, (self._epoch, self._generators)


def _holds(known: BinRange | tuple[Batch, ...], place: int) -> bool:
    return isinstance(known, BinRange) and known.first <= place < known.stop


def _described(description: object) -> Sampling:
    if isinstance(description, dict) and description.get("scheme") in EPOCH_NAMES:
        return epoch_from_description(description)
    return scheme_from_description(description)


def _checksum(body: dict[str, Any]) -> str:
    return digest(body, "state")[:16]


class BatchesInTurn:
    """Batches of groups that take turns: batch t is drawn from group t modulo their number alone.

    Every record is in one group for good, picked at random and independently of all others, so that
    a record more, less or replaced leaves the groups of others as they are. ``scheme`` draws from
    any one group.
    """

    def __init__(self, scheme: Poisson, groups: int, key: BatchKey, stop: int) -> None:
        self._batches, self._groups = BatchStream(scheme, key, stop=stop), groups
        self._group_of = Substreams(key, GROUPS).at(0).integers(groups, size=scheme.n)

    @property
    def key(self) -> BatchKey:
        """What decides the batches: as secret as they are."""
        return self._batches.key

    def batch(self, number: int) -> Batch:
        """Batch ``number``: what is drawn from all records, of which those of the group stay."""
        found = self._batches.batch(number)
        stay = self._group_of[found.indices] == number % self._groups
        return drawn(found.indices[stay], found.counts[stay])
