"""Format, version and checksum around what is stored, so that nothing else is read as it.

As text: one JSON object with "format" and "version", the body's own entries, and "checksum", the
SHA-256 of the canonical text of all the others. Spaces and line ends are free, so people can read
it; values are not. As bytes: a line "FORMAT VERSION", a line with the SHA-256 of the rest, and the
rest. Whatever is not exactly that is refused: another format or version, a wrong or missing
checksum, a byte missing or added, more bytes than ``largest``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.files.reading import digest, read_json, too_large

_RESERVED = frozenset({"format", "version", "checksum"})
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
