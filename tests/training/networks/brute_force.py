"""Clipped sums the slow way: one record, one backward pass, at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mustdp.randomness.keys import batch_key
from mustdp.training.networks.clipping import Clipper
from mustdp.training.networks.randomness import Masks
from mustdp.training.networks.records import Records, Rows

Case = tuple[nn.Module, Any, tuple[Tensor, ...], Tensor]


def clipped_sum_one_by_one(case: Case, counts: list[int], clip: float) -> list[Tensor]:
    """The definition, in double precision where it is summed up."""
    model, loss, inputs, target = case
    parameters = [p for p in model.parameters() if p.requires_grad]
    sums = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
    for i, count in enumerate(counts):
        value = loss(model(*(x[i : i + 1] for x in inputs)), target[i : i + 1]).sum()
        found = torch.autograd.grad(value, parameters, allow_unused=True)
        both = zip(parameters, found, strict=True)
        gradients = [torch.zeros_like(p) if g is None else g for p, g in both]
        norm = torch.cat([g.double().flatten() for g in gradients]).norm()
        for total, g in zip(sums, gradients, strict=True):
            total += count * min(1.0, clip / max(float(norm), 1e-300)) * g.double()
    return sums


def clipper(case: Case, clip: float) -> Clipper:
    """Ours, on the same model."""
    model, loss, inputs, target = case
    masks = Masks(batch_key(1), torch.device("cpu"))
    trial = Rows(tuple(x[:4] for x in inputs), target[:4])
    return Clipper(model, loss, clip, trial, lambda: masks(0))


def clipped_sum(found: Clipper, case: Case, counts: list[int], rows: int) -> list[Tensor]:
    """Ours, in pieces of so many rows."""
    _, _, inputs, target = case
    weights = torch.tensor(counts, dtype=torch.float32)
    records = Records((*inputs, target), torch.device("cpu"))
    pieces = (
        (records.take(np.arange(k, min(k + rows, len(target)))), weights[k : k + rows])
        for k in range(0, len(target), rows)
    )
    masks = Masks(batch_key(1), torch.device("cpu"))
    return found.sum(pieces, masks(0)).gradients


def relative_gap(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """Largest difference over the largest entry."""
    size = max(float(t.abs().max()) for t in theirs)
    gap = max(float((o.double() - t).abs().max()) for o, t in zip(ours, theirs, strict=True))
    return gap / size
