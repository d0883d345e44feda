"""Read a whole file, or its beginning: a plain file and nothing else, up to a stated size."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from mustdp.errors import InvalidParameter
from mustdp.files.parts import PLAINLY
from mustdp.files.replacing import kind


def read_file(path: str | os.PathLike[str], largest: int | None = None) -> bytes:
    """The content of a file of at most ``largest`` bytes; a longer one is refused unread."""
    content, more = _read(Path(path), largest)
    if more:
        raise too_large(str(path), largest)
    return content


def read_start(path: str | os.PathLike[str], size: int) -> bytes:
    """The first ``size`` bytes of a file, or all of a shorter one."""
    return _read(Path(path), size)[0]


def too_large(what: str, largest: int | None) -> InvalidParameter:
    """The refusal of something longer than ``largest`` bytes."""
    return InvalidParameter(f"{what} must be at most {largest} bytes long, got more")


def _read(path: Path, most: int | None) -> tuple[bytes, bool]:
    """At most so many bytes of the file as long as it is now, and whether it is longer."""
    handle, length = _opened(path)
    with os.fdopen(handle, "rb") as stream:
        size = length if most is None else min(length, most)
        return stream.read(size), length > size


def _opened(path: Path) -> tuple[int, int]:
    """Descriptor and length of a plain file."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | PLAINLY)
    except OSError as problem:
        if problem.errno == errno.ELOOP and path.is_symlink():
            raise _refused(path, os.lstat(path)) from None
        raise
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise _refused(path, found)
    return handle, found.st_size


def _refused(path: Path, found: os.stat_result) -> InvalidParameter:
    return InvalidParameter(f"{path} must be a file, got {kind(found.st_mode)}")
