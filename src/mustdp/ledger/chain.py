"""Hashes that tie every entry to all before it: SHA-256, or HMAC-SHA-256 with a key.

Without a key they find accidents, and tampering by people who do not know how the file is made:
whoever may write the file could write all hashes anew. With a key that is kept elsewhere nobody
else can. Neither notices that the whole file was put back to an older state; only whoever
remembers a later head can (:meth:`LedgerFile.verify` takes one).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass

from mustdp.errors import InvalidParameter

_SHORTEST_KEY = 16


@dataclass(frozen=True)
class Chain:
    """How this ledger's hashes are made."""

    key: bytes | None

    def __post_init__(self) -> None:
        if self.key is None:
            return
        if not isinstance(self.key, bytes) or len(self.key) < _SHORTEST_KEY:
            got = f"{len(self.key)} bytes" if isinstance(self.key, bytes) else "something else"
            raise InvalidParameter.refusing(
                "key", f"must be at least {_SHORTEST_KEY} bytes, kept apart from the ledger", got
            )

    def header(self, text: str) -> bytes:
        """The hash of the header, which the first entry is tied to."""
        return self._hash(b"header", text)

    def link(self, before: bytes, fields: Sequence[object]) -> bytes:
        """The hash of an entry that comes after the one with the hash ``before``."""
        return self._hash(b"entry" + before, _text(fields))

    def seal(self, header: bytes, fields: Sequence[object]) -> bytes:
        """The hash of the head: how many entries there are, the last of them, and the sums."""
        return self._hash(b"head" + header, _text(fields))

    def _hash(self, start: bytes, text: str) -> bytes:
        content = start + text.encode("ascii")
        if self.key is None:
            return hashlib.sha256(content).digest()
        return hmac.digest(self.key, content, "sha256")


def _text(fields: Sequence[object]) -> str:
    """The fields as JSON; what a damaged file has in their place is like nothing ever written."""
    return json.dumps(fields, separators=(",", ":"), default=lambda value: [repr(value)])


def same(one: object, other: bytes) -> bool:
    """Whether two hashes are equal, in a time that does not tell where they differ."""
    return isinstance(one, bytes) and hmac.compare_digest(one, other)
