"""Where noise comes from: secret bits that stay in the process that made their key.

The key is drawn from the operating system when a source is made, is derived from nothing, and is
shown and written nowhere. A source cannot be pickled or copied, so that it reaches no worker; a
child that ``os.fork`` makes draws a key of its own before its first bit (a seeded one repeats, as
seeds do). What is not covered is a whole machine that is copied while it runs.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.randomness.cipher import KEY_BYTES, aes_counter
from mustdp.randomness.keys import read_seed

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
