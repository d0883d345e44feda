"""A lock beside a file: one process at a time, for as long as the descriptor is open.

The lock is on an open descriptor (``flock``), so it ends with its process, however that ends, and
there is no stale lock. The file it is on stays for ever: removing it would let two processes lock
two different files of the same name. If somebody removes or replaces it all the same, the holder
notices by :meth:`Lock.check`, which belongs before every write.

Windows has no ``flock``: there a lock is refused, and so is whatever needs one.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mustdp.errors import InvalidParameter
from mustdp.extras import installed
from mustdp.files.replacing import PLAINLY, kind, leads_to, refuse_other_than_files

#: None on Windows.
_FCNTL = installed("fcntl")
#: The file may be removed between being opened and being locked; then it is made again.
_ATTEMPTS = 20


class Lock:
    """The lock on ``path``, held by this process from its making until :meth:`release`.

    ``what`` names in errors what the lock is for. Somebody else's lock is an error at once, or with
    ``wait`` is waited for. A child process that is forked meanwhile does not hold it.
    """

    def __init__(self, path: str | os.PathLike[str], what: str, *, wait: bool = False) -> None:
        self.path = Path(path)
        self.what = what
        self._process = os.getpid()
        self._handle = self._taken(wait)

    def check(self) -> None:
        """Refuse to go on unless the lock is still held and still is the one at its path."""
        if self._handle < 0 or os.getpid() != self._process:
            raise InvalidParameter(f"{self.what} must be locked by this process, got no lock")
        if not leads_to(self.path, self._handle):
            raise InvalidParameter(
                f"{self.path} must stay in place while {self.what} is in use, but was removed or "
                "replaced: another run may be writing the same file. This one goes no further"
            )

    def release(self) -> None:
        """Let others in; a second call does nothing."""
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        try:
            if _FCNTL is not None and os.getpid() == self._process:
                _FCNTL.flock(handle, _FCNTL.LOCK_UN)  # forked children may have it open still
        finally:
            os.close(handle)

    def _taken(self, wait: bool) -> int:
        if _FCNTL is None:
            raise InvalidParameter(
                f"{self.what} must be on a system with file locks (flock), got {sys.platform}"
            )
        for _ in range(_ATTEMPTS):
            handle = self._opened()
            try:
                _FCNTL.flock(handle, _FCNTL.LOCK_EX | (0 if wait else _FCNTL.LOCK_NB))
                if leads_to(self.path, handle):
                    return handle
            except BlockingIOError:
                os.close(handle)
                raise InvalidParameter(
                    f"{self.what} is in use by another run, which has locked {self.path}"
                ) from None
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
        raise OSError(f"{self.path} could not be locked: it is removed again and again")

    def _opened(self) -> int:
        refuse_other_than_files(self.path)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | PLAINLY, 0o600)
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            os.close(handle)
            raise InvalidParameter(f"{self.path} must be a file, got {kind(mode)}")
        return handle


@contextmanager
def held(path: str | os.PathLike[str], what: str, *, wait: bool = False) -> Iterator[Lock]:
    """Hold the lock on ``path`` for the body of a ``with``."""
    lock = Lock(path, what, wait=wait)
    try:
        yield lock
    finally:
        lock.release()
