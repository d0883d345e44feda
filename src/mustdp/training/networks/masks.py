"""What a model draws itself, such as dropout: a function of the run's key and the step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mustdp.randomness.keys import BatchKey, Substreams

MASKS = 0x6D61736B


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
