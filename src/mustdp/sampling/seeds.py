"""Many generators from one seed: number t is found at once, whoever asks and in whatever order.

A seed and the name of a purpose give a Philox key, and t is written into the counter of that key
(Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). Setting the counter is about
eight times cheaper than seeding a fresh generator for each t, and no two numbers share a block.
The purpose keeps these generators apart from the children that ``SeedSequence.spawn`` derives from
the same seed, which a caller may use for noise.
"""

from __future__ import annotations

import secrets

import numpy as np

from mustdp.numerics import checks

LARGEST_SEED = 2**128 - 1

BATCHES = 0x6D757374  # the streams of streams.py
NESTED = 0x6E657374  # the trees of nested.py


def read_seed(seed: int | None) -> int:
    """Return ``seed``, or 128 fresh bits from the operating system for None."""
    if seed is None:
        return secrets.randbits(128)
    return checks.integer("seed", seed, 0, LARGEST_SEED)


class Substreams:
    """The generators 0, 1, 2, … that belong to a seed, a purpose and a path of numbers."""

    def __init__(self, seed: int, purpose: int, path: tuple[int, ...] = ()) -> None:
        source = np.random.SeedSequence(seed, spawn_key=(purpose, *path))
        self._generator = np.random.Generator(
            np.random.Philox(key=source.generate_state(2, np.uint64))
        )
        self._fresh = self._generator.bit_generator.state

    def at(self, number: int) -> np.random.Generator:
        """Return generator ``number``; it is the same object each time, so use it up first."""
        self._fresh["state"]["counter"][2] = number
        self._generator.bit_generator.state = self._fresh
        return self._generator
