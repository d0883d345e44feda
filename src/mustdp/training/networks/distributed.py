"""Several processes, one run: each clips its part of the multiset, the noise is added once.

All processes draw the same batch and take every ``size``-th record of it. The first one adds the
noise to its own sum; then the sums are added up, so that no process holds the sum without noise
and all of them make the same update.

What a process does by itself stands in ``with ranks.together():``. At its end they tell each other
whether all went well, so that one that fails does not let the others wait, and they go no further.
One that neither fails nor answers is waited for as long as the trainer was told to; the exchanges
have a group of their own for that, whose time-out does not affect the rest of the program.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, distributed

from mustdp.errors import ClusterLost, InvalidParameter, MustdpError
from mustdp.limits import LONGEST_WAIT
from mustdp.numerics import checks
from mustdp.sampling.schemes import Batch, drawn

#: What is compared but never shown: it is private, or may be.
RECORDS = "records"
_LONGEST = 160
#: The groups that were made beside the program's own, by their time-outs in seconds.
_groups: WeakKeyDictionary[Any, dict[float, Any]] = WeakKeyDictionary()


class Ranks:
    """The processes of ``torch.distributed``, or this one alone where that is not in use."""

    def __init__(self, timeout: float = 600.0) -> None:
        self._timeout = checks.real("timeout", timeout, above=0, at_most=LONGEST_WAIT)
        joined = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if joined else 0
        self.size = distributed.get_world_size() if joined else 1
        #: Whether the others know why the run has ended, or cannot be reached.
        self._told = False
        #: Whether Ctrl-C was pressed.
        self._pressed = False
        #: Where flags have to be for the processes to exchange them.
        self._device = "cuda" if joined and distributed.get_backend() == "nccl" else "cpu"
        self._group = self._made() if self.size > 1 else None

    @property
    def first(self) -> bool:
        """Whether this process adds the noise, charges the ledger and writes the checkpoints."""
        return self.rank == 0

    def part(self, batch: Batch) -> Batch:
        """This process's share of the distinct records, each with its count."""
        if self.size == 1:
            return batch
        mine = slice(self.rank, None, self.size)
        return drawn(batch.indices[mine].copy(), batch.counts[mine].copy())

    @contextmanager
    def together(self) -> Iterator[None]:
        """What every process does by itself; if one of them fails, all raise, with its reason."""
        if self.size == 1:
            yield
            return
        problem: BaseException | None = None
        try:
            yield
        except BaseException as found:
            problem = found
        if problem is None and self._pressed:
            self._pressed, problem = False, KeyboardInterrupt()
        self._tell(problem)

    def leave(self, problem: BaseException) -> None:
        """Tell the others, who are about to ask whether all is well, unless they know."""
        if self.size > 1 and not self._told:
            with suppress(BaseException):
                self._tell(problem)
        self._told = False

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Note Ctrl-C and raise it where all processes can be told; the second one at once."""
        own = threading.current_thread() is threading.main_thread()
        usual = own and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self.size == 1 or not usual:
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            if self._pressed:
                signal.default_int_handler(number, frame)
            self._pressed = True

        signal.signal(signal.SIGINT, note)
        try:
            yield
            if self._pressed:
                raise KeyboardInterrupt
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._pressed = False

    def same(self, facts: Mapping[str, str]) -> None:
        """Refuse, on all processes, to go on if they do not have the same facts, by name."""
        for rank, theirs in enumerate(self._gathered(dict(facts))):
            for name, here in facts.items():
                if theirs.get(name) != here:
                    there = _short(str(theirs.get(name)))
                    shown = f"rank {self.rank} has {_short(here)}, rank {rank} {there}"
                    raise InvalidParameter(
                        f"all processes must have the same {name}, as one guarantee is stated for "
                        "what they release together: "
                        + (f"rank {rank} has others" if name == RECORDS else shown)
                    )

    def add_up(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The sums over all processes, of tensors of one kind; exact for integers."""
        if self.size == 1:
            return list(values)
        flat = torch.cat([value.flatten() for value in values])
        with self._exchange():
            distributed.all_reduce(flat, group=self._group)
        pieces = torch.split(flat, [value.numel() for value in values])
        return [piece.view_as(value) for piece, value in zip(pieces, values, strict=True)]

    def agree(self, value: Any) -> Any:
        """The first process's value, on all of them."""
        if self.size == 1:
            return value
        held = [value]
        with self._exchange():
            distributed.broadcast_object_list(held, group=self._group)
        return held[0]

    def each(self, value: Any) -> list[Any]:
        """The values of all processes, on all of them."""
        return self._gathered(value)

    def agree_on(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors by those of the first process."""
        if self.size > 1:
            with self._exchange():
                for tensor in tensors:  # the same storage
                    distributed.broadcast(tensor.detach(), 0, group=self._group)

    def _gathered(self, value: Any) -> list[Any]:
        if self.size == 1:
            return [value]
        held: list[Any] = [None] * self.size
        with self._exchange():
            distributed.all_gather_object(held, value, group=self._group)
        return held

    def _made(self) -> Any:
        """All processes with this time-out; made once, as it keeps connections open."""
        known = _groups.setdefault(distributed.group.WORLD, {})
        if self._timeout not in known:
            with self._exchange():
                known[self._timeout] = distributed.new_group(
                    timeout=timedelta(seconds=self._timeout)
                )
        return known[self._timeout]

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """After an exchange that fails the other processes cannot be told."""
        try:
            yield
        except RuntimeError as problem:  # all that torch raises here is one
            self._told = True
            raise ClusterLost(
                f"rank {self.rank} of {self.size} does not hear from the others: one has ended, "
                f"or did not answer for {self._timeout:g} seconds (timeout). Steps that were shown "
                "are charged, no others are kept. End all processes and start them again; a run "
                "with a checkpoint goes on from there. Where such waits are usual, raise timeout"
            ) from problem
        except BaseException:
            self._told = True
            raise

    def _tell(self, problem: BaseException | None) -> None:
        """Say whether all is well here; if it is not everywhere, raise the reason.

        That is this process's own problem, or that of the first one that has any. Of errors that
        are not this package's only the kind is passed on: they may quote data.
        """
        [failed] = self.add_up([torch.tensor([int(problem is not None)], device=self._device)])
        if not int(failed):
            return
        told = problem
        if problem is not None and not isinstance(problem, MustdpError):
            kind = type(problem).__name__
            told = MustdpError(f"rank {self.rank} failed with a {kind}; no rank goes any further")
        reasons = self._gathered(told)
        self._told = True
        if problem is not None:
            raise problem
        raise next(reason for reason in reasons if reason is not None)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
