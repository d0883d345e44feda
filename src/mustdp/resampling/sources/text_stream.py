"""The bytes of a file of text in blocks of whole lines, with limits: a hostile one costs no more.

Time and memory are linear in what is read. A line, or a record of several, longer than
``LONGEST_RECORD`` bytes is refused before more of it is read, so that a few megabytes packed cannot
fill the memory.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mustdp.errors import InvalidParameter
from mustdp.resampling.sources.reading import STANDARD_INPUT, Reading
from mustdp.resampling.unquoted import unquoted

#: Longest line, and longest record where quoted fields have line ends in them, in bytes.
LONGEST_RECORD = 2**24
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PACKED = b"\x1f\x8b"
_BLOCK = 2**22


@dataclass(frozen=True)
class TextFile:
    """A file of text, or standard input: where it is and what separates its fields."""

    path: Path | None
    where: str
    delimiter: str
    header: bool | None

    @classmethod
    def of(cls, reading: Reading) -> TextFile:
        """The file of a reading, whose data are an absolute path or the sign of standard input."""
        if reading.data == STANDARD_INPUT:
            return cls(None, "standard input", reading.delimiter or ",", reading.header)
        path = Path(reading.data)
        tabs = ".tsv" in path.name.lower()[-len(".tsv.gz") :]
        delimiter = reading.delimiter or ("\t" if tabs else ",")
        return cls(path, str(path), delimiter, reading.header)

    def opened(self) -> AbstractContextManager[Any]:
        """Its bytes, unpacked if the name ends in .gz, or if standard input is packed."""
        if self.path is None:
            refusal = f"{self.where} must be readable"
            stream: Any = unquoted(lambda: sys.stdin.buffer, refusal)
            packed = unquoted(lambda: stream.peek(2)[:2] == _PACKED, refusal)
            return nullcontext(gzip.GzipFile(fileobj=stream) if packed else stream)
        path = self.path
        packed_file = path.name.lower().endswith(".gz")
        return closing(
            unquoted(
                lambda: gzip.open(path) if packed_file else path.open("rb"),
                f"{path} must be readable",
            )
        )

    def state(self) -> tuple[int, int] | None:
        """Something that is not the same after the file was written to."""
        if self.path is None:
            return None
        status = unquoted(self.path.stat, f"{self.path} must be readable")
        return status.st_size, status.st_mtime_ns


def blocks(stream: IO[bytes], where: str) -> Iterator[bytes]:
    """A stream in blocks of whole lines, each with its end; without a byte order mark in front."""
    unfinished: list[bytes] = []
    length = lines = 0
    read = _reader(stream, where)
    more = read().removeprefix(BYTE_ORDER_MARK)
    while more:
        first = more.find(b"\n")
        if length + (first if first >= 0 else len(more)) > LONGEST_RECORD:
            refuse_long_record(lines + 1, where)
        cut = more.rfind(b"\n") + 1
        if cut:
            block = b"".join([*unfinished, more[:cut]])
            lines += block.count(b"\n")
            yield block
            unfinished, length = [], 0
        unfinished.append(more[cut:])
        length += len(more) - cut
        more = read()
    if length:
        yield b"".join([*unfinished, b"\n"])


def refuse_long_record(line: int, where: str) -> None:
    """Refuse a record that does not end."""
    raise InvalidParameter(
        f"line {line} of {where} must belong to a record of at most {LONGEST_RECORD} bytes, got "
        "a longer one (without line ends, or with a quotation mark that is not closed)"
    )


def _reader(stream: IO[bytes], where: str) -> Callable[[], bytes]:
    refusal = f"{where} must be readable and undamaged"
    return lambda: unquoted(lambda: stream.read(_BLOCK), refusal)


class Lines:
    """The lines of blocks one at a time as text, or what is left of a block at once."""

    def __init__(self, stream: IO[bytes], where: str) -> None:
        self._blocks = blocks(stream, where)
        self._where = where
        self._block, self._at = b"", 0
        self._record = 0
        #: Number of the line that was given last.
        self.number = 0

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        if self._at >= len(self._block):
            self._block, self._at = next(self._blocks), 0
        end = self._block.index(b"\n", self._at) + 1
        line = self._block[self._at : end]
        self._at = end
        self.number += 1
        self._record += len(line)
        if self._record > LONGEST_RECORD + 1:
            refuse_long_record(self.number, self._where)
        # Bytes that are not UTF-8 do no harm in columns that are not read.
        return line.decode("utf-8", "surrogateescape")

    @property
    def at_end_of_block(self) -> bool:
        """Whether nothing is left of the last block."""
        return self._at >= len(self._block)

    def record_ends(self) -> None:
        """Say that what comes is another record."""
        self._record = 0

    def rest(self) -> bytes | None:
        """What is left of this block, or the next one; it stays there. None at the end."""
        if self.at_end_of_block:
            self._block, self._at = next(self._blocks, b""), 0
        return self._block[self._at :] or None

    def skip(self) -> None:
        """Go behind the block, which somebody else has read."""
        self.number += self._block.count(b"\n", self._at)
        self._at = len(self._block)
