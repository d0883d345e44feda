"""AES-128 in counter mode (FIPS 197, SP 800-38A) as a bit generator of numpy.

randomgen's ``AESCounter`` takes the cipher's key as it is and its counter can be set, so that the
published vectors can be checked, and numpy's ``Generator`` draws batches from it. With it alone one
dependency does both jobs; the ciphers of ``cryptography`` are no bit generators, and randomgen's
``ChaCha`` counts otherwise than RFC 8439 and takes six times as long. The counter is read with its
lowest byte first; word t of the stream is half of the block that encrypts counter t // 2.
"""

from __future__ import annotations

from randomgen.aes import AESCounter

from mustdp.errors import InvalidParameter

KEY_BYTES = 16


def aes_counter(key: bytes, counter: int = 0) -> AESCounter:
    """The stream of 64-bit words that the cipher gives under ``key`` from ``counter`` on."""
    if len(key) != KEY_BYTES:
        raise InvalidParameter(f"key must be {KEY_BYTES} bytes long, got {len(key)}")
    return AESCounter(key=int.from_bytes(key, "little"), counter=counter)
