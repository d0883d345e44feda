"""Many generators from one key: number t is found at once, whoever asks and in whatever order.

A key, the name of a purpose and a path of numbers give the key of a block cipher, and t is written
into the upper half of its counter, so that no two numbers share a block. Setting the counter is far
cheaper than keying a fresh generator for each t. A secret key gives AES keys by HMAC-SHA256, which
tells nothing about one of them from the others. A seed gives Philox (Salmon et al. 2011, "Parallel
random numbers: as easy as 1, 2, 3"), which is no cipher and enough for experiments; its purpose
keeps it apart from the children that ``SeedSequence.spawn`` derives from the same seed.
"""

from __future__ import annotations

import hmac
import secrets
from functools import lru_cache
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.randomness.cipher import KEY_BYTES, aes_counter, refuse_cipher
from mustdp.randomness.keys import BatchKey

BATCHES = 0x6D757374  # the streams of sampling/streams.py
EPOCHS = 0x65706F63  # the epochs of sampling/streams.py
NESTED = 0x6E657374  # the trees of sampling/nested.py


class Substreams:
    """The generators 0, 1, 2, … that belong to a key, a purpose and a path of numbers."""

    def __init__(self, key: BatchKey, purpose: int, path: tuple[int, ...] = ()) -> None:
        self._origin = key, purpose, path
        if key.seed is not None:
            source = np.random.SeedSequence(key.seed, spawn_key=(purpose, *path))
            bits: Any = np.random.Philox(key=source.generate_state(2, np.uint64))
            fresh = bits.state
            self._number = fresh["state"]["counter"][2:3]
        else:
            _check_numbering()
            bits = aes_counter(_derived(key.secret, purpose, path))
            fresh, self._number = _numbered(bits)
        self._fresh = fresh
        self._generator = np.random.Generator(bits)

    def at(self, number: int) -> np.random.Generator:
        """Return generator ``number``; it is the same object each time, so use it up first."""
        self._number[:] = number
        self._generator.bit_generator.state = self._fresh
        return self._generator

    def __reduce__(self) -> tuple[Any, ...]:
        return Substreams, self._origin


def _numbered(bits: Any) -> tuple[dict[str, Any], Any]:
    """The state of a fresh cipher, and the part of it that is the upper half of its counters."""
    fresh = bits.state
    # Four blocks are encrypted at a time, each with a counter of two words.
    return fresh, fresh["s"]["counter"][1::2]


@lru_cache(maxsize=1)
def _check_numbering() -> None:
    """Raise where a counter that is set is not the one that is then encrypted.

    Where it stands in the state is no part of randomgen's documentation: were it elsewhere, all
    batches of a run would be the same.
    """
    key, words = bytes(range(KEY_BYTES)), 20
    bits = aes_counter(key)
    fresh, upper = _numbered(bits)
    for number in (3, 2**63 + 1, 0):
        upper[:] = number
        bits.state = fresh
        expected = aes_counter(key, number << 64).random_raw(words)
        if not np.array_equal(bits.random_raw(words), expected):
            refuse_cipher()


def _derived(secret: bytes, purpose: int, path: tuple[int, ...]) -> bytes:
    """The cipher key of a purpose and a path; their numbers have 64 bits each."""
    numbers = b"".join(number.to_bytes(8, "little") for number in (purpose, len(path), *path))
    return hmac.digest(secret, b"mustdp batches" + numbers, "sha256")[:KEY_BYTES]


def generator(rng: np.random.Generator | None) -> np.random.Generator:
    """Return ``rng``, or for None a cryptographic generator keyed by the operating system."""
    if rng is None:
        return np.random.Generator(aes_counter(secrets.token_bytes(KEY_BYTES)))
    if not isinstance(rng, np.random.Generator):
        raise InvalidParameter(
            f"rng must be a numpy.random.Generator or None (operating system entropy), got {rng!r}"
        )
    return rng
