"""The compact encoding of Thrift, as far as the footer of a Parquet file needs it.

pyarrow ends the whole process where the numbers of a damaged footer contradict each other (its
accessors of column chunks let C++ exceptions through), so what statistics say is read here.
Format: Apache Thrift, thrift-compact-protocol.md; fields are those of parquet.thrift.
"""

from __future__ import annotations

import struct
from typing import Any

#: Structures inside of structures; a footer has about seven.
_DEEPEST = 32
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


def decode(content: bytes) -> dict[int, Any]:
    """One structure as its fields by number; raises ValueError or IndexError for what is none.

    >>> decode(bytes([0x15, 0x04, 0x28, 0x01, 0x78, 0x00]))
    {1: 2, 3: b'x'}
    """
    return _Decoder(content).structure(0)


class _Decoder:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def structure(self, depth: int) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("too deep")
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self._zigzag()
            if kind in (_TRUE, _FALSE):
                found[field] = kind == _TRUE
            else:
                found[field] = self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _STRUCT:
            return self.structure(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth + 1)
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        raise ValueError("no such type")  # maps are not in a footer

    def _list(self, depth: int) -> list[Any]:
        if depth > _DEEPEST:
            raise ValueError("too deep")
        head = self._byte()
        count, kind = head >> 4, head & 15
        count = self._varint() if count == 15 else count
        if count > len(self._content) - self._at:  # every element takes a byte at least
            raise ValueError("too long")
        return [self._value(kind, depth) for _ in range(count)]

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._content):
            raise ValueError("too short")
        return self._content[self._at - count : self._at]

    def _varint(self) -> int:
        found = shift = 0
        while shift < 70:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
        raise ValueError("too large")

    def _zigzag(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
