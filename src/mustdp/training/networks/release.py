"""The one place where noise meets a sum: integers on a lattice before, integers on it after.

A sum is rounded to the lattice step Z, as integers, which add up exactly over processes in any
order. The noise is rounded to the same lattice, so that what is released is a rounding of the sum
plus noise, whatever the sum was (docs/derivations/clipping.md). Everything after that is
post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mustdp.training.networks.randomness import Noise


def on_lattice(sums: Sequence[Tensor], step: float) -> Tensor:
    """All entries in one row, in units of ``step``, a power of two, rounded to the nearest."""
    flat = torch.cat([values.flatten() for values in sums])
    return flat.mul_(1.0 / step).round_().to(torch.int64)


def add_noise(noise: Noise, number: int, sums: Tensor, deviation: float, step: float) -> None:
    """Add the noise of this step, of standard deviation ``deviation``, to integer sums in place."""
    drawn = torch.zeros(sums.shape, dtype=torch.float64, device=sums.device)
    noise.add(number, [drawn], deviation)
    sums += drawn.mul_(1.0 / step).round_().to(torch.int64)


def off_lattice(sums: Tensor, step: float, like: Sequence[Tensor]) -> list[Tensor]:
    """Released integers as numbers again, in the shapes of ``like``."""
    pieces = torch.split(sums.double().mul_(step), [values.numel() for values in like])
    return [piece.view_as(values) for piece, values in zip(pieces, like, strict=True)]
