"""A run in one file, replaced in one move: the state after a step and the charge for it.

The file is a line that names the format, a line with the SHA-256 of the rest, and the rest as
``torch.save`` writes it. It is read back only if the sum is right, and without running any code
from it. At every moment the path holds either the old state or the new one, complete; what a
killed process leaves beside it is removed by the next.

One run at a time: a lock beside the file is held while the run goes on, and before every write it
is made sure that the lock is still in place and the file is the one this run has written or read
last. So a run that is no longer alone stops, and what it would have shown is not shown.

The file holds which records were drawn and everything about the model: keep it as secret as the
data. It does not hold the noise or anything the noise could be computed from.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mustdp.errors import InvalidParameter
from mustdp.files.envelope import Envelope
from mustdp.files.lock import Lock
from mustdp.files.lock import held as lock_held
from mustdp.files.reading import read_file, read_start
from mustdp.files.replacing import replace_file

_ENVELOPE = Envelope("mustdp training checkpoint", 1, "checkpoint of a training run")


class CheckpointFile:
    """The file of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._last: bytes | None = None
        self._lock: Lock | None = None
        if not self.path.parent.is_dir():
            raise InvalidParameter(
                f"checkpoint must be a file in a folder that exists, got {str(path)!r}"
            )

    def exists(self) -> bool:
        """Whether there is something to go on from, or in the way."""
        return os.path.lexists(self.path)

    def read(self) -> dict[str, Any]:
        """The state; anything unexpected is refused and the file is left alone."""
        try:
            content = read_file(self.path)
        except OSError as problem:
            raise InvalidParameter(f"checkpoint {self.path} cannot be read: {problem}") from None
        body = _ENVELOPE.open_bytes(content, f"checkpoint {self.path}")
        state: dict[str, Any] = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
        self._last = content[: _ENVELOPE.head]
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Replace the file; when this returns, the new state has reached the disk."""
        if self._lock is None:
            with self.held():
                self.write(state)
            return
        buffer = io.BytesIO()
        torch.save(state, buffer)
        head, body = _ENVELOPE.seal_bytes(buffer.getvalue())
        replace_file(self.path, head, body, guard=self._check_alone)
        self._last = head
        self._lock.check()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs away, and refuse to go on from a file that one of them has changed."""
        beside = self.path.with_name(f"{self.path.name}.lock")
        with lock_held(beside, f"checkpoint {self.path}") as self._lock:
            try:
                self._check_alone()
                yield
            finally:
                self._lock = None

    def _check_alone(self) -> None:
        if self._lock is not None:
            self._lock.check()
        found = read_start(self.path, _ENVELOPE.head) if self.exists() else None
        if found != self._last:
            raise InvalidParameter(
                f"checkpoint {self.path} was written by another run in the meantime, or removed; "
                "nothing was changed"
            )
