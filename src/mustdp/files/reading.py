"""Read a whole plain file up to a stated size; JSON that means one thing; checksums around both."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
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


# Format, version and checksum around what is stored, so that nothing else is read as it.
#
# As text: one JSON object with "format" and "version", the body's own entries, and "checksum",
# the SHA-256 of the canonical text of all the others. Spaces and line ends are free, so people
# can read it; values are not. As bytes: a line "FORMAT VERSION", a line with the SHA-256 of the
# rest, and the rest. Whatever is not exactly that is refused: another format or version, a wrong
# or missing checksum, a byte missing or added, more bytes than ``largest``.

_RESERVED = frozenset({"format", "version", "checksum"})
#: Digits of a SHA-256.
_DIGEST = 64


@dataclass(frozen=True)
class Envelope:
    """What one kind of file is sealed in; ``called`` is its name in errors ("ledger").

    >>> envelope = Envelope("example", 1, "example")
    >>> envelope.open_text(envelope.seal_text({"answer": 42}), "here")
    {'answer': 42}
    >>> envelope.open_bytes(b"".join(envelope.seal_bytes(b"42")), "here")
    b'42'
    """

    format: str
    version: int
    called: str
    largest: int | None = None

    def seal_text(self, body: Mapping[str, Any], *, indent: int | None = 1) -> str:
        """The body, sealed, as readable JSON."""
        if _RESERVED & body.keys():
            raise InvalidParameter(
                f"the body of a {self.called} must leave {', '.join(sorted(_RESERVED))} free"
            )
        whole = {"format": self.format, "version": self.version, **body}
        whole["checksum"] = digest(whole, f"a {self.called}")
        text = json.dumps(whole, indent=indent, allow_nan=False)
        if self.largest is not None and len(text) > self.largest:
            raise too_large(f"a {self.called}", self.largest)
        return text

    def open_text(self, content: str | bytes, where: str) -> dict[str, Any]:
        """The body of a sealed text; ``where`` says in errors where that came from."""
        whole = read_json(content, where, self.largest)
        if not isinstance(whole, dict) or whole.get("format") != self.format:
            raise self._foreign(where)
        version = whole.get("version")
        if type(version) is not int or version != self.version:
            raise self._outdated(where, repr(version))
        checksum = whole.pop("checksum", None)
        if not isinstance(checksum, str) or checksum != digest(whole, where):
            raise self._damaged(where)
        del whole["format"], whole["version"]
        return whole

    def seal_bytes(self, body: bytes) -> tuple[bytes, bytes]:
        """The two pieces, head and body, that make the sealed file."""
        sealed = self._line + hashlib.sha256(body).hexdigest().encode("ascii") + b"\n", body
        if self.largest is not None and sum(map(len, sealed)) > self.largest:
            raise too_large(f"a {self.called}", self.largest)
        return sealed

    def open_bytes(self, content: bytes, where: str) -> bytes:
        """The body of sealed bytes."""
        if self.largest is not None and len(content) > self.largest:
            raise too_large(where, self.largest)
        if not content.startswith(self._line):
            raise self._other_line(content, where)
        body = content[self.head :]
        if content[: self.head] != self.seal_bytes(body)[0]:
            raise self._damaged(where)
        return body

    @property
    def head(self) -> int:
        """How many bytes stand before the body; they differ between any two bodies."""
        return len(self._line) + _DIGEST + 1

    @property
    def _line(self) -> bytes:
        return f"{self.format} {self.version}\n".encode()

    def _other_line(self, content: bytes, where: str) -> InvalidParameter:
        name, _, version = content[: len(self._line) + 20].partition(b"\n")[0].rpartition(b" ")
        if name == self.format.encode() and version.isdigit():
            return self._outdated(where, version.decode("ascii"))
        return self._foreign(where)

    def _foreign(self, where: str) -> InvalidParameter:
        return InvalidParameter(f"{where} is no {self.called}: its format must be {self.format!r}")

    def _outdated(self, where: str, got: str) -> InvalidParameter:
        return InvalidParameter(
            f"{where} must be a {self.called} of version {self.version}, got version {got}"
        )

    def _damaged(self, where: str) -> InvalidParameter:
        return InvalidParameter(
            f"{where} is damaged: the checksum of a {self.called} must be that of its contents"
        )
