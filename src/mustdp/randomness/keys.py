"""The key of the batches of one run: secret, or a seed that repeats them.

A secret key is 256 fresh bits of the operating system. It stands for the batches themselves: it
travels to the workers that draw them, is written into checkpoints, and is to be kept as secret as
they are. The noise has a source of its own (``noise_bits.py``) that shares nothing with it.
"""

from __future__ import annotations

import re
import secrets
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.randomness.cipher import KEY_BYTES, aes_counter
from mustdp.randomness.seeds import SeededRelease, read_seed

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
        """Whether this is a seed, so that the batches can be repeated by whoever knows it."""
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
