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


def off_lattice(sums: Tensor, step: float, like: Sequence[Tensor]) -> list[Tensor]:
    """Released integers as numbers again, in the shapes of ``like``."""
    pieces = torch.split(sums.double().mul_(step), [values.numel() for values in like])
    return [piece.view_as(values) for piece, values in zip(pieces, like, strict=True)]


def as_gradients(sums: list[Tensor], size: float, parameters: Sequence[nn.Parameter]) -> None:
    """Hand what was released, divided by a public size, to the optimiser."""
    torch._foreach_div_(sums, size)
    for parameter, total in zip(parameters, sums, strict=True):
        parameter.grad = total.to(parameter.dtype)


def refuse_not_finite(records: int, step: int) -> None:
    """End a step in which the gradients of so many records are not numbers."""
    if not records == 0:
        raise NumericalFailure(
            f"step {step}: the gradients of some records are not finite; the data holds NaN or "
            "infinity, or the model has diverged (a smaller learning rate helps). Nothing of this "
            "step was released"
        )
