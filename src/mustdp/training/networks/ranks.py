"""Several processes, one run: each clips its part of the multiset, the noise is added once.

All processes draw the same batch and take every ``size``-th record of it. The first one adds the
noise to its own sum; then the sums are added up, so that no process holds the sum without noise
and all of them make the same update.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed

from mustdp.sampling.batch import Batch, drawn


class Ranks:
    """The processes of ``torch.distributed``, or this one alone where that is not in use."""

    def __init__(self) -> None:
        joined = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if joined else 0
        self.size = distributed.get_world_size() if joined else 1

    @property
    def first(self) -> bool:
        """Whether this process adds the noise and writes the checkpoints."""
        return self.rank == 0

    def part(self, batch: Batch) -> Batch:
        """This process's share of the distinct records, each with its count."""
        if self.size == 1:
            return batch
        mine = slice(self.rank, None, self.size)
        return drawn(batch.indices[mine].copy(), batch.counts[mine].copy())

    def add_up(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The sums over all processes, of tensors of one kind; exact for integers."""
        if self.size == 1:
            return list(values)
        flat = torch.cat([value.flatten() for value in values])
        distributed.all_reduce(flat)
        pieces = torch.split(flat, [value.numel() for value in values])
        return [piece.view_as(value) for piece, value in zip(pieces, values, strict=True)]

    def agree(self, value: Any) -> Any:
        """The first process's value, on all of them."""
        if self.size == 1:
            return value
        held = [value]
        distributed.broadcast_object_list(held)
        return held[0]

    def agree_on(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors by those of the first process."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, 0)

    def wait(self) -> None:
        """Until all have come here."""
        if self.size > 1:
            distributed.barrier()
