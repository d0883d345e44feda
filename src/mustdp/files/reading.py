"""Read a whole plain file up to a stated size; JSON that means one thing."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.files.replacing import PLAINLY, kind
from mustdp.limits import DEEPEST_JSON

# Read a whole file, or its beginning: a plain file and nothing else, up to a stated size.


def read_file(path: str | os.PathLike[str], largest: int | None = None) -> bytes:
    """The content of a file of at most ``largest`` bytes; a longer one is refused unread."""
    content, more = _read(Path(path), largest)
    if more:
        raise too_large(str(path), largest)
    return content


def read_start(path: str | os.PathLike[str], size: int) -> bytes:
    """The first ``size`` bytes of a file, or all of a shorter one."""
    return _read(Path(path), size)[0]


def read_end(path: str | os.PathLike[str], size: int) -> bytes:
    """The last ``size`` bytes of a file, or all of a shorter one."""
    handle, length = _opened(Path(path))
    with os.fdopen(handle, "rb") as stream:
        stream.seek(max(0, length - size))
        return stream.read(size)


def too_large(what: str, largest: int | None) -> InvalidParameter:
    """The refusal of something longer than ``largest`` bytes."""
    return InvalidParameter(f"{what} must be at most {largest} bytes long, got more")


def _read(path: Path, most: int | None) -> tuple[bytes, bool]:
    """The first ``most`` bytes of the file, and whether it is longer."""
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


# Plain JSON that means one thing: read strictly, and written canonically for checksums.
#
# Read: UTF-8, no name twice in an object, no NaN or infinity, nested at most ``DEEPEST_JSON``
# deep, not longer than stated. Canonical: names sorted, no spaces, ASCII; equal texts stand for
# equal values and, numbers being written with all their digits, the other way round. What would be
# refused when read is refused when written.


def read_json(content: str | bytes, what: str, largest: int | None = None) -> Any:
    """The value of a JSON text; ``what`` names it where it is refused."""
    if not isinstance(content, str | bytes):
        raise InvalidParameter(f"{what} must be text, got {type(content).__name__}")
    if largest is not None and len(content) > largest:
        raise too_large(what, largest)
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError as problem:
        raise InvalidParameter(
            f"{what} must be text in UTF-8, got other bytes at {problem.start}"
        ) from None
    except RecursionError:
        raise _too_deep(what) from None
    except ValueError as problem:
        raise InvalidParameter(f"{what} must be valid JSON: {problem}") from None
    check_plain(value, what)
    return value


def canonical(value: object, what: str) -> str:
    """The canonical text of a value of plain JSON."""
    check_plain(value, what)
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as problem:  # whole numbers of thousands of digits
        raise InvalidParameter(f"{what} must be plain JSON: {problem}") from None


def digest(value: object, what: str) -> str:
    """SHA-256 of the canonical text, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value, what).encode("ascii")).hexdigest()


def check_plain(value: object, what: str) -> None:
    """Refuse what JSON cannot hold, and what is nested too deeply to be read back."""
    level: list[object] = [value]
    for _ in range(DEEPEST_JSON):
        below: list[object] = []
        for each in level:
            if isinstance(each, dict):
                if not all(isinstance(name, str) for name in each):
                    raise InvalidParameter(f"{what} must be plain JSON: names must be text")
                below.extend(each.values())
            elif isinstance(each, list | tuple):
                below.extend(each)
            elif isinstance(each, float):
                if not math.isfinite(each):
                    raise InvalidParameter(f"{what} must be plain JSON: numbers must be finite")
            elif not (each is None or isinstance(each, str | int)):
                raise InvalidParameter(f"{what} must be plain JSON, got a {type(each).__name__}")
        if not below:
            return
        level = below
    raise _too_deep(what)


def _too_deep(what: str) -> InvalidParameter:
    return InvalidParameter(f"{what} must be nested at most {DEEPEST_JSON} deep, got more")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
