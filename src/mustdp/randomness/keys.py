"""Keys and the bits that follow from them: the cipher, the key of a run's batches, secret noise.

Batches and noise never share a key. That of the batches may be handed to workers; that of the
noise stays in the process that made it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from randomgen.aes import AESCounter

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics import checks

# AES-128 in counter mode (FIPS 197, SP 800-38A) as a bit generator of numpy.
#
# randomgen's ``AESCounter`` takes the cipher's key as it is and its counter can be set, so that the
# published vectors can be checked, and numpy's ``Generator`` draws batches from it. With it alone
# one dependency does both jobs; the ciphers of ``cryptography`` are no bit generators, and
# randomgen's ``ChaCha`` counts otherwise than RFC 8439 and takes six times as long. The counter is
# read with its lowest byte first; word t of the stream is half of the block that encrypts counter t
# // 2.
#
# Another build of randomgen, or another processor, could do otherwise in silence, and the bits
# would not be secret or would come twice. So the cipher is tried once in every process, before its
# first bit is used: on blocks that the standards print, and on whether a stream is made of the
# blocks of its counters (:class:`Substreams` does the same for counters that it sets).


#: AES-128.
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
#: Number of blocks over which a stream is compared: more than are encrypted at a time.
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


# The key of a run's batches: secret, or a seed that repeats an experiment.


# Seeds: numbers that repeat a run, and a loud word where one is used.
#
# Anyone who knows the seed of a run can subtract its noise. A seeded run is an experiment, never a
# private release; without a seed every key is fresh from the operating system (``keys.py``).


#: A seed has 128 bits.
LARGEST_SEED = 2**128 - 1
#: What stands in every file that a run with a seed writes.
SEEDED = "made with a seed: an experiment, not a private release"


class SeededRelease(UserWarning):
    """A run whose noise can be repeated: for experiments only, with no privacy at all.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.types.SeededRelease, Warning)
    True
    """


def read_seed(given: Any, name: str = "seed") -> int:
    """The seed that an integer is, or that a numpy ``Generator`` or ``RandomState`` draws."""
    if isinstance(given, np.random.Generator | np.random.RandomState):
        return int.from_bytes(given.bytes(16), "little")
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return checks.integer(name, given, 0, LARGEST_SEED)
    raise InvalidParameter(
        f"{name} must be an integer from 0 to 2**128 - 1, a numpy Generator or RandomState, or "
        f"where nothing is to be repeated None, got {given!r}"
    )


# The key of the batches of one run: secret, or a seed that repeats them.
#
# A secret key is 256 fresh bits of the operating system. It stands for the batches themselves: it
# travels to the workers that draw them, is written into checkpoints, and is to be kept as secret as
# they are. The noise has a source of its own (:class:`NoiseSource`) that shares nothing with it.


#: Hexadecimal digits of a seed, 128 bits, and of a secret key, 256 bits.
_SEED_DIGITS, _SECRET_DIGITS = 32, 64


@dataclass(frozen=True, repr=False)
class BatchKey:
    """What decides all batches of a run; made by :func:`batch_key`, and never shown.

    ``text`` is 32 hexadecimal digits for a seed and 64 for a secret key.
    """

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        digits = f"[0-9a-f]{{{_SEED_DIGITS}}}|[0-9a-f]{{{_SECRET_DIGITS}}}"
        if not (isinstance(self.text, str) and re.fullmatch(digits, self.text)):
            got = f"{len(self.text)} others" if isinstance(self.text, str) else repr(self.text)
            raise InvalidParameter(
                f"seed of the state must be {_SEED_DIGITS} hexadecimal digits from 0 to f, or "
                f"{_SECRET_DIGITS} for a secret key, got {got}"
            )

    @property
    def seeded(self) -> bool:
        """Whether this is a seed, so that the batches can be repeated by anyone who knows it."""
        return len(self.text) == _SEED_DIGITS

    @property
    def seed(self) -> int | None:
        """The seed; None for a secret key."""
        return int(self.text, 16) if self.seeded else None

    @property
    def secret(self) -> bytes:
        """The 32 bytes of a secret key."""
        if self.seeded:
            raise InvalidParameter("key must be a secret one, got one that a seed gave")
        return bytes.fromhex(self.text)

    def __repr__(self) -> str:
        return f"<{'seeded' if self.seeded else 'secret'} batch key>"


def batch_key(given: Any = None, name: str = "seed") -> BatchKey:
    """A fresh secret key for None; the key of a seed; a key as it is."""
    if isinstance(given, BatchKey):
        return given
    if given is None:
        return BatchKey(secrets.token_hex(_SECRET_DIGITS // 2))
    return BatchKey(f"{read_seed(given, name):0{_SEED_DIGITS}x}")


def release_key(random_state: Any, *, name: str = "random_state") -> BatchKey:
    """The key of one run's batches; anything but None warns with :class:`SeededRelease`.

    ``random_state`` is None (fresh bits of the operating system), an integer, or a numpy
    ``Generator`` or ``RandomState``, from which the seed is then drawn.
    """
    if random_state is None:
        return batch_key()
    key = BatchKey(f"{read_seed(random_state, name):0{_SEED_DIGITS}x}")
    warnings.warn(
        f"{name} is set: the noise of this run can be repeated and subtracted by anybody who knows "
        "it. Seeded runs are for experiments only; a private release needs "
        f"{name}=None, which takes fresh entropy from the operating system.",
        SeededRelease,
        stacklevel=3,
    )
    return key


def noise_generator(key: BatchKey | int) -> np.random.Generator:
    """A generator for the noise of a run in floating point.

    A child of the seed, apart from its batches, for a seeded key; for a secret one a fresh key of
    its own, which the batches' key does not tell.
    """
    seed = key.seed if isinstance(key, BatchKey) else key
    if seed is None:
        return np.random.Generator(aes_counter(secrets.token_bytes(KEY_BYTES)))
    return np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])


# Many generators from one key: number t is found at once, anyone who asks and in whatever order.
#
# A key, the name of a purpose and a path of numbers give the key of a block cipher, and t is
# written into the upper half of its counter, so that no two numbers share a block. Setting the
# counter is far cheaper than keying a fresh generator for each t. A secret key gives AES keys by
# HMAC-SHA256, which tells nothing about one of them from the others. A seed gives Philox (Salmon
# et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), which is no cipher and enough for
# experiments; its purpose keeps it apart from the children that ``SeedSequence.spawn`` derives
# from the same seed.


BATCHES = 0x6D757374  # streams of schemes (sampling/schemes.py)
EPOCHS = 0x65706F63  # streams of epochs (sampling/epochs.py)
GROUPS = 0x67727073  # the groups that take turns, of sampling/schemes.py
NESTED = 0x6E657374  # the trees of estimation/designs.py


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


# Where noise comes from: secret bits that stay in the process that made their key.
#
# The key is drawn from the operating system when a source is made, is derived from nothing, and is
# shown and written nowhere. A source cannot be pickled or copied, so that it reaches no worker; a
# child that ``os.fork`` makes draws a key of its own before its first bit (a seeded one repeats, as
# seeds do). What is not covered is a whole machine that is copied while it runs.


_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _process() -> tuple[int, int]:
    """What differs in a child; the number of forks too, since process numbers come again."""
    return os.getpid(), _forks


class NoiseSource:
    """A stream of random 64-bit words for noise.

    Without a seed it is secret. With ``seed`` it can be repeated, is marked ``seeded`` and is for
    experiments only; ``path`` names one of many streams of that seed, such as the number of a step.

    >>> NoiseSource()
    <noise source>
    >>> NoiseSource(7, path=(3,)).seeded
    True
    """

    __slots__ = ("_bits", "_process", "_seeded")

    def __init__(self, seed: int | None = None, *, path: tuple[int, ...] = ()) -> None:
        self._seeded = seed is not None
        if seed is None:
            if path:
                raise InvalidParameter("path must be left out where no seed is given")
            self._renew()
        else:
            words = ",".join(str(number) for number in (read_seed(seed), *path))
            digest = hashlib.sha256(f"mustdp seeded noise {words}".encode()).digest()
            self._bits = aes_counter(digest[:KEY_BYTES])
            self._process = _process()

    @property
    def seeded(self) -> bool:
        """Whether anyone who knows the seed can subtract the noise."""
        return self._seeded

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words of the stream."""
        if self._process != _process() and not self._seeded:
            self._renew()
        found: NDArray[np.uint64] = self._bits.random_raw(count)
        return found

    def _renew(self) -> None:
        self._bits = aes_counter(secrets.token_bytes(KEY_BYTES))
        self._process = _process()

    def __repr__(self) -> str:
        return "<seeded noise source>" if self.seeded else "<noise source>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a noise source stays in the process that made it: it is never copied")
