"""Where the randomness of a private run comes from, and a loud word when it can be repeated.

One number of 128 bits decides a run: the batches come from the stream of that seed and the noise
from a child of it, so the two never share a block. Without a seed the number is fresh entropy of
the operating system and is kept nowhere. Whoever knows the seed can subtract the noise; a seeded
run is an experiment, never a private release.
"""

from __future__ import annotations

import secrets
import warnings
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.sampling.seeds import LARGEST_SEED


class SeededRelease(UserWarning):
    """A run whose noise can be repeated: for experiments only, with no privacy at all."""


def release_seed(random_state: Any, *, name: str = "random_state") -> int:
    """The 128-bit seed of one run; anything but None warns with :class:`SeededRelease`.

    ``random_state`` is None (the operating system's entropy), an integer, or a numpy
    ``Generator`` or ``RandomState``, from which the seed is then drawn.
    """
    if random_state is None:
        return secrets.randbits(128)
    seed = read_seed(random_state, name)
    warnings.warn(
        f"{name} is set: the noise of this run can be repeated and subtracted by anybody who knows "
        "it. Seeded runs are for experiments only; a private release needs "
        f"{name}=None, which takes fresh entropy from the operating system.",
        SeededRelease,
        stacklevel=3,
    )
    return seed


def read_seed(random_state: Any, name: str = "random_state") -> int:
    """The seed that an integer is, or that a generator draws; no warning."""
    if isinstance(random_state, np.random.Generator):
        return int.from_bytes(random_state.bytes(16), "little")
    if isinstance(random_state, np.random.RandomState):
        return int.from_bytes(random_state.bytes(16), "little")
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return checks.integer(name, random_state, 0, LARGEST_SEED)
    raise InvalidParameter(
        f"{name} must be None, an integer from 0 to 2**128 - 1, or a numpy Generator or "
        f"RandomState, got {random_state!r}"
    )


def noise_generator(seed: int) -> np.random.Generator:
    """The generator of a run's noise: a child of the seed, apart from the stream of batches."""
    return np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
