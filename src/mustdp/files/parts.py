"""Part files: new content on its way into place, and what a killed process left of it.

A part is named after its target with 128 random bits between, ``.NAME.<32 digits>.part``, and is
created exclusively: nobody can put a file or a link in its place beforehand, and if something is
there all the same it is refused. While it is written its descriptor is locked.

What is left behind when a process is killed blocks nobody. The next writer of the same target
removes it, but only what is provably such a rest: it has the name of a part of this very target, is
a plain file with this one name, belongs to this user, cannot be written by others, and is not
locked, so its writer is gone. Everything else stays where it is. Where there are no such locks
(Windows), nothing is removed.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from mustdp.errors import InvalidParameter
from mustdp.extras import installed

#: None on Windows.
_FCNTL = installed("fcntl")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL
#: What Windows and Unix add, each where it exists: links, pipes and line ends as they are.
PLAINLY = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))
#: A part that was taken for a rest in the moment before it was locked is made again so often.
_ATTEMPTS = 20


def open_new(path: Path, mode: int) -> int:
    """Create a file that must not be there, not even as a link, and return its descriptor."""
    try:
        return os.open(path, _NEW | PLAINLY, mode)
    except FileExistsError:
        raise InvalidParameter(
            f"{path} must not be there yet, got a file or link that somebody else has made"
        ) from None


class Part:
    """The part that ``target`` is made of; nothing is on disk before :meth:`open`."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.path = target
        self.handle = -1

    def open(self, mode: int) -> None:
        """Create the part; its descriptor, which holds the lock on it, is ``handle``."""
        for _ in range(_ATTEMPTS):
            name = f".{self._target.name}.{secrets.token_hex(16)}.part"
            self.path = self._target.with_name(name)
            try:
                self.handle = open_new(self.path, mode)
            except InvalidParameter:
                self.path = self._target  # somebody else's: not to be discarded
                raise
            if _locked(self.handle) and leads_to(self.path, self.handle):
                return
            self.close()  # taken for a rest, and removed, before it was locked
        raise OSError(f"no part of {self._target} stayed in place: something removes new files")

    def move(self) -> None:
        """Put the part in the target's place."""
        if _FCNTL is None:
            self.close()  # Windows does not move open files
        os.replace(self.path, self._target)

    def close(self) -> None:
        """Close the descriptor, which ends the lock."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            os.close(handle)

    def discard(self) -> None:
        """Remove the part if it is there; failing does no further harm."""
        if self.path != self._target:
            with suppress(OSError):
                os.unlink(self.path)


def sweep(target: Path) -> None:
    """Remove what killed processes have left of ``target``; see above."""
    if _FCNTL is None:
        return
    pattern = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{32}\.part")
    with suppress(OSError):
        for name in os.listdir(target.parent):
            if name.endswith(".part") and pattern.fullmatch(name):
                _remove_rest(target.with_name(name))


def leads_to(path: Path, handle: int) -> bool:
    """Whether the path, without following links, is still the file of the descriptor."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _remove_rest(part: Path) -> None:
    with suppress(OSError):
        handle = os.open(part, os.O_RDWR | os.O_NONBLOCK | PLAINLY)
        try:
            ours = _may_be_removed(os.fstat(handle))
            if ours and _locked(handle, surely=True) and leads_to(part, handle):
                os.unlink(part)
        finally:
            os.close(handle)


def _may_be_removed(found: os.stat_result) -> bool:
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_uid == os.geteuid()
        and found.st_nlink == 1
        and not found.st_mode & 0o022
    )


def _locked(handle: int, surely: bool = False) -> bool:
    """Lock the descriptor; False if somebody else has.

    A file system without locks lets a writer go on (nobody can take its part for a rest there),
    but not, with ``surely``, whoever wants to remove something.
    """
    if _FCNTL is None:
        return not surely
    try:
        _FCNTL.flock(handle, _FCNTL.LOCK_EX | _FCNTL.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return not surely
    return True
