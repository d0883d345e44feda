"""Small tensors between a CPU and a GPU, which nobody waits for.

A plain copy makes the CPU wait until the GPU has done all it was told before. Copies from and to
page-locked memory take their place in the queue instead.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sent(values: Tensor, device: torch.device) -> Tensor:
    """On the device, in time for whatever it is told to do next."""
    if device.type != "cuda" or values.is_cuda:
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def fetched(values: Tensor) -> Tensor:
    """On the CPU, complete when an event that is recorded after this has come."""
    if not values.is_cuda:
        return values
    room = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    return room.copy_(values, non_blocking=True)
