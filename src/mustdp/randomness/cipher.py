"""AES-128 in counter mode (FIPS 197, SP 800-38A) as a bit generator of numpy.

randomgen's ``AESCounter`` takes the cipher's key as it is and its counter can be set, so that the
published vectors can be checked, and numpy's ``Generator`` draws batches from it. With it alone one
dependency does both jobs; the ciphers of ``cryptography`` are no bit generators, and randomgen's
``ChaCha`` counts otherwise than RFC 8439 and takes six times as long. The counter is read with its
lowest byte first; word t of the stream is half of the block that encrypts counter t // 2.

Another build of randomgen, or another processor, could do otherwise in silence, and the bits would
not be secret or would come twice. So the cipher is tried once in every process, before its first
bit is used: on blocks that the standards print, and on whether a stream is made of the blocks of
its counters (``substreams.py`` does the same for counters that it sets).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn

import numpy as np
from randomgen.aes import AESCounter

from mustdp.errors import InvalidParameter, NumericalFailure

KEY_BYTES = 16

#: Key, block and encrypted block: FIPS 197 (2001), appendices C.1 and B, and SP 800-38A (2001),
#: section F.5.1, the first and the last counter.
_KNOWN = (
    ("000102030405060708090a0b0c0d0e0f", "00112233445566778899aabbccddeeff",
     "69c4e0d86a7b0430d8cdb78070b4c55a"),
    ("2b7e151628aed2a6abf7158809cf4f3c", "3243f6a8885a308d313198a2e0370734",
     "3925841d02dc09fbdc118597196a0b32"),
    ("2b7e151628aed2a6abf7158809cf4f3c", "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
     "ec8cdf7398607cb0f2d21675ea9ea1e4"),
    ("2b7e151628aed2a6abf7158809cf4f3c", "f0f1f2f3f4f5f6f7f8f9fafbfcfdff02",
     "e89c399ff0f198c6d40a31db156cabfe"),
)  # fmt: skip
#: A stream is compared over so many blocks: more than are encrypted at a time.
_BLOCKS = 9


def aes_counter(key: bytes, counter: int = 0) -> AESCounter:
    """The stream of 64-bit words that the cipher gives under ``key`` from ``counter`` on."""
    if len(key) != KEY_BYTES:
        raise InvalidParameter(f"key must be {KEY_BYTES} bytes long, got {len(key)}")
    check_cipher()
    return _stream(key, counter)


@lru_cache(maxsize=1)
def check_cipher() -> None:
    """Raise where the cipher of this process is not the one that is published."""
    for key, block, encrypted in _KNOWN:
        counter = int.from_bytes(bytes.fromhex(block), "little")
        if _words(bytes.fromhex(key), counter, 2) != bytes.fromhex(encrypted):
            refuse_cipher()
    secret, start = bytes.fromhex(_KNOWN[0][0]), 2**64 - 4  # across the middle of the counter
    single = b"".join(_words(secret, start + k, 2) for k in range(_BLOCKS))
    if _words(secret, start, 2 * _BLOCKS) != single:
        refuse_cipher()


def refuse_cipher() -> NoReturn:
    """Draw nothing."""
    raise NumericalFailure(
        "the AES of randomgen does not give what FIPS 197 and SP 800-38A print; nothing was drawn"
    )


def _words(key: bytes, counter: int, count: int) -> bytes:
    return np.asarray(_stream(key, counter).random_raw(count)).astype("<u8").tobytes()


def _stream(key: bytes, counter: int) -> AESCounter:
    return AESCounter(key=int.from_bytes(key, "little"), counter=counter)
