"""Between sums and what is released: integers on a lattice, which add up exactly in any order.

A sum is rounded to the lattice of multiples of a power of two. Noise that is rounded exactly to the
same lattice is added (``step_noise.py``), so that what is released is a rounding of the sum plus
Gaussian noise in real numbers, whatever the sum was (docs/derivations/clipping.md and noise.md).
Everything after that is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mustdp.errors import NumericalFailure


def on_lattice(sums: Sequence[Tensor], step: float) -> Tensor:
    """All entries in one row, in units of ``step``, a power of two, rounded to the nearest."""
    flat = torch.cat([values.flatten() for values in sums])
    return flat.mul_(1.0 / step).round_().to(torch.int64)


def as_gradients(
    sums: Tensor, step: float, size: float, parameters: Sequence[nn.Parameter]
) -> None:
    """Hand what was released, as numbers again and divided by a public size, to the optimiser."""
    found = sums.double().mul_(step).div_(size)
    if all(parameter.dtype == parameters[0].dtype for parameter in parameters):
        found = found.to(parameters[0].dtype)  # faster than one after the other
    pieces = torch.split(found, [parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view_as(parameter).to(parameter.dtype)


def refuse_not_finite(records: int, step: int) -> None:
    """End a step in which the gradients of so many records are not numbers."""
    if not records == 0:
        raise NumericalFailure(
            f"step {step}: the gradients of some records are not finite; the data holds NaN or "
            "infinity, or the model has diverged (a smaller learning rate helps). Nothing of this "
            "step was released"
        )
