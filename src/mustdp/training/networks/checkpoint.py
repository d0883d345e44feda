"""A run in one file, replaced in one move: the state after a step and the charge for it.

The file is a line that names the format, a line with the SHA-256 of the rest, and the rest as
``torch.save`` writes it. It is read back only if the sum is right, and without running any code
from it. At every moment the path holds either the old state or the new one, complete; what a
killed process leaves beside it (``.part``) is overwritten by the next.

The file holds which records were drawn and everything about the model: keep it as secret as the
data. It does not hold the noise or anything the noise could be computed from.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mustdp.errors import InvalidParameter

_FORMAT = b"mustdp training checkpoint 1\n"
_DIGEST = 65


class CheckpointFile:
    """The file of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._last: bytes | None = None
        if not self.path.parent.is_dir():
            raise InvalidParameter(
                f"checkpoint must be a file in a folder that exists, got {str(path)!r}"
            )

    def exists(self) -> bool:
        """Whether there is something to go on from."""
        return self.path.exists()

    def read(self) -> dict[str, Any]:
        """The state; anything unexpected is refused and the file is left alone."""
        try:
            content = self.path.read_bytes()
        except OSError as problem:
            raise InvalidParameter(f"checkpoint {self.path} cannot be read: {problem}") from None
        start = len(_FORMAT)
        if not content.startswith(_FORMAT):
            raise InvalidParameter(f"{self.path} is no checkpoint of a training run")
        digest, body = content[start : start + _DIGEST], content[start + _DIGEST :]
        if digest != _digest(body):
            raise InvalidParameter(
                f"checkpoint {self.path} is damaged: its checksum does not match; nothing was "
                "changed"
            )
        state: dict[str, Any] = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
        self._last = digest
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Replace the file; when this returns, the new state has reached the disk."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        body = buffer.getvalue()
        digest = _digest(body)
        part = self._beside(".part")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(_FORMAT + digest)
            stream.write(body)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._last = digest

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs away, and refuse to go on from a file that one of them has changed."""
        handle = os.open(self._beside(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InvalidParameter(f"checkpoint {self.path} is in use by another run") from None
            self._check_unchanged()
            yield
        finally:
            os.close(handle)

    def _check_unchanged(self) -> None:
        found: bytes | None = None
        if self.exists():
            with self.path.open("rb") as stream:
                found = stream.read(len(_FORMAT) + _DIGEST)[len(_FORMAT) :]
        if found != self._last:
            raise InvalidParameter(
                f"checkpoint {self.path} was written by another run in the meantime; nothing was "
                "changed"
            )

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode() + b"\n"
