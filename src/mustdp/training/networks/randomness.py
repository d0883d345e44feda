"""Where the noise and the masks of a run come from.

Everything is a function of a 128-bit key and the number of the step. torch's own generator would
be no place for it: on the CPU it takes 32 bits of seed, few enough to try them all, and its float32
normal numbers end at 5.8 deviations. Noise is drawn in double precision and rounded when it is
added.

The generators are statistical, not cryptographic, and floating-point noise is not protected
against an attacker who reads the last bits of every parameter (Mironov 2012).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from mustdp.randomness.keys import BatchKey
from mustdp.randomness.substreams import Substreams

NOISE = 0x6E6F6973
MASKS = 0x6D61736B


class Noise:
    """Independent Gaussian noise for every step."""

    def __init__(self, key: int) -> None:
        self._key = key
        self._normal = Normal()

    def add(self, step: int, sums: Sequence[Tensor], deviation: float) -> None:
        """Add the noise of a step to every entry, in place."""
        source = np.random.SeedSequence(self._key, spawn_key=(NOISE, step))
        generator = np.random.Generator(np.random.SFC64(source))
        device, sizes = sums[0].device, [values.numel() for values in sums]
        if device.type == "cpu":
            noise = self._normal.draw(generator, sum(sizes), deviation, sums[0].dtype)
        else:
            on_device = torch.Generator(device).manual_seed(int(generator.integers(2**63)))
            noise = torch.randn(sum(sizes), generator=on_device, dtype=torch.float64, device=device)
            noise = noise.mul_(deviation).to(sums[0].dtype)
        parts = zip(torch.split(noise, sizes), sums, strict=True)
        torch._foreach_add_(list(sums), [part.view_as(values) for part, values in parts])


class Normal:
    """Normal numbers by Box & Muller (1958) from 53-bit uniform ones, vectorised.

    The distance from the origin ends at 8.57 deviations; a normal number lies beyond with chance
    1e-17. Room for the numbers is kept from one draw to the next.
    """

    def __init__(self) -> None:
        self._uniform = torch.empty(0, dtype=torch.float64)
        self._room = torch.empty(0)

    def draw(
        self, generator: np.random.Generator, size: int, deviation: float, dtype: torch.dtype
    ) -> Tensor:
        """So many of them, good until the next draw."""
        half = -(-size // 2)
        if len(self._uniform) != half or self._room.dtype != dtype:
            self._uniform = torch.empty(half, dtype=torch.float64)
            self._room = torch.empty(4, half, dtype=dtype)
        uniform, (distance, angle, *_) = self._uniform, self._room
        generator.random(out=uniform.numpy())
        uniform.neg_().add_(1.0).log_().mul_(-2.0 * deviation * deviation).sqrt_()
        distance.copy_(uniform)
        generator.random(out=uniform.numpy())
        angle.copy_(uniform.mul_(2.0 * math.pi))
        normal = self._room[2:]
        torch.cos(angle, out=normal[0])
        torch.sin(angle, out=normal[1])
        return normal.mul_(distance).flatten()[:size]


class Masks:
    """What a model draws itself, such as dropout: fixed by the step, global state untouched."""

    def __init__(self, key: BatchKey, device: torch.device, rank: int = 0) -> None:
        self._generators = Substreams(key, MASKS, (rank,))
        self._device = device

    @contextmanager
    def __call__(self, step: int) -> Iterator[None]:
        """torch's generators, seeded for this step inside and as before afterwards."""
        seed = int(self._generators.at(step).integers(2**63))
        on_gpu = self._device.type == "cuda"
        with torch.random.fork_rng([self._device] if on_gpu else []):
            torch.default_generator.manual_seed(seed)
            if on_gpu:
                torch.cuda.manual_seed(seed)
            yield
