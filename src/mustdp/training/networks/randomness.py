"""Where the noise and the masks of a run come from.

Everything is a function of a 128-bit key and the number of the step (Philox counters, see
:mod:`mustdp.sampling.seeds`). torch's own generator would be no place for it: on the CPU it
takes 32 bits of seed, few enough to try them all, and its float32 normal numbers end at 5.8
deviations. Noise is drawn in double precision and rounded when it is added.

The generators are statistical, not cryptographic, and floating-point noise is not protected
against an attacker who reads the last bits of every parameter (Mironov 2012).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from mustdp.sampling.seeds import Substreams

NOISE = 0x6E6F6973
MASKS = 0x6D61736B


class Noise:
    """Independent Gaussian noise for every step."""

    def __init__(self, key: int) -> None:
        self._generators = Substreams(key, NOISE)

    def add(self, step: int, sums: Sequence[Tensor], deviation: float) -> None:
        """Add the noise of a step to every entry, in place."""
        generator = self._generators.at(step)
        for values in sums:
            if values.device.type == "cpu":
                noise = torch.from_numpy(generator.standard_normal(values.numel()))
            else:
                on_device = torch.Generator(values.device)
                on_device.manual_seed(int(generator.integers(2**63)))
                noise = torch.randn(
                    values.numel(),
                    generator=on_device,
                    dtype=torch.float64,
                    device=values.device,
                )
            values.add_(noise.view_as(values), alpha=deviation)


class Masks:
    """What a model draws itself, such as dropout: fixed by the step, global state untouched."""

    def __init__(self, key: int, device: torch.device, rank: int = 0) -> None:
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
