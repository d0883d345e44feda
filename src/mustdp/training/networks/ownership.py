"""A run belongs to one trainer, in one process, and is made by one thread at a time.

A copy of a trainer, a fork of its process or a second thread would draw the same batches again
under other noise, or release steps that nothing was charged for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from weakref import ref

from torch import nn

from mustdp.errors import InvalidParameter

_taking = threading.Lock()
#: The parameters that a run is working on at the moment, by their identity.
_in_use: set[int] = set()


@contextmanager
def exclusive(model: nn.Module) -> Iterator[None]:
    """Keep other trainers away from the parameters of a model."""
    mine = {id(p) for p in model.parameters()}
    with _taking:
        if mine & _in_use:
            raise InvalidParameter(
                "model must not be trained by two runs at the same time, got one that another "
                "run is working on"
            )
        _in_use.update(mine)
    try:
        yield
    finally:
        with _taking:
            _in_use.difference_update(mine)


class Ownership:
    """Who may go on with a run."""

    def __init__(self, owner: object) -> None:
        self._owner, self._process = ref(owner), os.getpid()
        self._running = threading.Lock()

    @contextmanager
    def held(self, by: object, model: nn.Module) -> Iterator[None]:
        """Make steps of the run inside; a copy, another process and a second thread are refused."""
        if by is not self._owner():
            raise InvalidParameter(COPIED)
        if os.getpid() != self._process:
            raise InvalidParameter(
                "a run must go on in the process that began it: in two, the same batches would be "
                "released twice and charged once"
            )
        if not self._running.acquire(blocking=False):
            raise InvalidParameter(
                "train must not be called while the run is under way, in another thread or from a "
                "callback"
            )
        try:
            with exclusive(model):
                yield
        finally:
            self._running.release()


COPIED = (
    "a trainer must not be copied or pickled: the copy would release steps of the same batches "
    "that nothing was charged for; a checkpoint carries a run to another process"
)


class NotCopied:
    """Refuses ``copy``, ``deepcopy`` and ``pickle``."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InvalidParameter(COPIED)
