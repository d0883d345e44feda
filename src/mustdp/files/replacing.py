"""Replace a whole file in one move, with one policy of what has reached the disk when.

The new content goes to a part file in the same folder; that is flushed to the disk (``fsync``),
takes the target's place (``rename``), and then the folder is flushed. So whoever reads the target,
now or after a crash, finds the old content or the new one, complete; and when the call returns, the
new one stays. If anything fails before the move, the part is removed and the target is untouched.
If flushing the folder fails, the new content is in place but may not outlast a power cut: that
raises too.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from mustdp.errors import InvalidParameter
from mustdp.files.parts import Part, sweep

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
    (:meth:`mustdp.files.lock.Lock.check`, say), the file stays as it was.
    """
    target = Path(path)
    refuse_other_than_files(target)
    if guard is not None:
        guard()
    sweep(target)
    part = Part(target)
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
