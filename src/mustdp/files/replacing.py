"""Files that appear or change in one move, through part files that a killed process may leave
behind; and locks that one process holds at a time.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mustdp.errors import InvalidParameter
from mustdp.extras import installed

# Part files: new content on its way into place, and what a killed process left of it.
#
# A part is named after its target with 128 random bits between, ``.NAME.<32 digits>.part``, and is
# created exclusively: no file or link can be put in its place beforehand, and if something is
# there all the same it is refused. While it is written its descriptor is locked.
#
# What a killed process leaves behind blocks no other. The next writer of the same target
# removes it, but only what is provably such a rest: it has the name of a part of this very target,
# is a plain file with this one name, belongs to this user, cannot be written by others, and is not
# locked, so its writer is gone. Everything else stays where it is. Where there are no such locks
# (Windows), nothing is removed.


#: None on Windows.
_FCNTL = installed("fcntl")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL
#: What Windows and Unix add, each where it exists: links, pipes and line ends as they are.
PLAINLY = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))
#: A part that was taken for a rest, or a lock's file that was removed, in the moment before it was
#: locked is made again so often.
_ATTEMPTS = 20


def open_new(path: Path, mode: int) -> int:
    """Create a file that must not be there, not even as a link, and return its descriptor."""
    try:
        return os.open(path, _NEW | PLAINLY, mode)
    except FileExistsError:
        raise InvalidParameter(
            f"{path} must not be there yet, got a file or link that somebody else has made"
        ) from None


class NewFile:
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

    A file system without locks lets a writer go on (no other process takes its part for a remnant
    there),
    but not, with ``surely``, anyone who wants to remove something.
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


# Replace a whole file in one move, with one policy of what has reached the disk when.
#
# The new content goes to a part file in the same folder; that is flushed to the disk (``fsync``),
# takes the target's place (``rename``), and then the folder is flushed. So anyone who reads the
# target, now or after a crash, finds the old content or the new one, complete; and when the call
# returns, the new one stays. If anything fails before the move, the part is removed and the target
# is untouched. If flushing the folder fails, the new content is in place but may not outlast a
# power cut: that raises too.


#: Who may use a new file: its owner, or everybody whom the process's umask lets.
PRIVATE, SHARED = 0o600, 0o666
#: What file systems answer that cannot flush a folder.
_NO_FLUSHING = (errno.EBADF, errno.EINVAL)

Guard = Callable[[], None]


def replace_file(
    path: str | os.PathLike[str],
    *pieces: bytes,
    mode: int = PRIVATE,
    guard: Guard | None = None,
) -> Path:
    """Make ``pieces``, joined, the content of a file; its folder must exist.

    ``guard`` is called before anything is written and again right before the move; if it raises
    (:meth:`mustdp.files.replacing.Lock.check`, say), the file stays as it was.
    """
    target = Path(path)
    refuse_other_than_files(target)
    if guard is not None:
        guard()
    sweep(target)
    part = NewFile(target)
    try:
        part.open(mode)
        for piece in pieces:
            _write(part.handle, piece)
        os.fsync(part.handle)
        if guard is not None:
            guard()
        part.move()
    except BaseException:
        part.discard()
        raise
    finally:
        part.close()
    flush_folder(target.parent)
    return target


def refuse_other_than_files(path: Path) -> None:
    """Refuse what is there if it is a link, a folder or a device; nothing may be there."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise InvalidParameter(f"{path} must be a file or not be there yet, got {kind(mode)}")


def kind(mode: int) -> str:
    """What a mode of ``lstat`` stands for, in words."""
    if stat.S_ISLNK(mode):
        return "a link, and links are not followed"
    return "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"


def _write(handle: int, piece: bytes) -> None:
    rest = memoryview(piece).cast("B")
    while rest:
        rest = rest[os.write(handle, rest) :]


def flush_folder(folder: Path) -> None:
    """Make the names in a folder reach the disk."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows, which keeps names without being asked
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in _NO_FLUSHING:
            raise
    finally:
        os.close(handle)


# A new file that appears complete, or not at all, for contents that somebody else writes.
#
# The content goes to a part file of the same folder, which is filled by its name (a database, say,
# that a library writes) and then linked to the target: that fails if anything is there by now, so
# nothing is ever replaced. What a killed process left is removed by the next one, the second name
# of a file that it had just put in place included.


def create_file(path: str | os.PathLike[str], fill: Callable[[Path], None]) -> bool:
    """Make a private file of what ``fill`` writes into the (empty) file it is given.

    False if a file was there or came first: then that one is left as it is.
    """
    target = Path(path)
    refuse_other_than_files(target)
    if target.exists():
        return False
    sweep(target)
    part = NewFile(target)
    try:
        part.open(PRIVATE)
        fill(part.path)
        os.fsync(part.handle)
        os.link(part.path, target, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        part.discard()
        part.close()
    flush_folder(target.parent)
    return True


def drop_second_names(path: str | os.PathLike[str]) -> None:
    """Remove the names of parts that lead to the file itself."""
    target = Path(path)
    with suppress(OSError):
        here = os.lstat(target)
        if here.st_nlink < 2:
            return
        for each in target.parent.glob(f".{target.name}.*.part"):
            if os.path.samestat(here, os.lstat(each)):
                os.unlink(each)


# A lock beside a file: one process at a time, for as long as the descriptor is open.
#
# The lock is on an open descriptor (``flock``), so it ends with its process, however that ends,
# and there is no stale lock. The file it is on stays for ever: removing it would let two
# processes lock two different files of the same name. If somebody removes or replaces it all the
# same, the holder notices by :meth:`Lock.check`, which belongs before every write.
#
# Windows has no ``flock``: there a lock is refused, and so is whatever needs one.


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
