"""Clipped sums the slow way: one record, one backward pass, at a time."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import mustdp as md
from mustdp.randomness.keys import batch_key
from mustdp.training.networks.clipping import Bound, Clipper, Trial, Workload, bound_for
from mustdp.training.networks.loaders import Rows, TrainingRecords
from mustdp.training.networks.trainer import Masks

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


def trials(inputs: tuple[Tensor, ...], target: Tensor) -> list[Trial]:
    """The first five and seven records, beside the last ones."""
    found = []
    for size in (5, 7):
        beside = torch.arange(len(target) - size, len(target))
        beside[::2] = torch.arange(0, size, 2)
        first, second = (
            Rows(tuple(x[rows] for x in inputs), target[rows])
            for rows in (torch.arange(size), beside)
        )
        found.append(Trial(first, second))
    return found


def clipper(case: Case) -> Clipper:
    """Ours, on the same model."""
    model, loss, inputs, target = case
    masks = Masks(batch_key(1), torch.device("cpu"))
    return Clipper(model, loss, trials(inputs, target), lambda: masks(0))


def bound(clip: float, copies: int = 100) -> Bound:
    """A bound for the small batches of these tests."""
    return bound_for(clip, clip, Workload(copies, 1 << 20, 100, 1000))


def clipped_sum(
    found: Clipper, case: Case, counts: list[int], rows: int, clip: float
) -> list[Tensor]:
    """Ours, in pieces of so many rows."""
    _, _, inputs, target = case
    weights = torch.tensor(counts, dtype=torch.float64)
    records = TrainingRecords((*inputs, target), torch.device("cpu"))
    pieces = (
        (records.take(np.arange(k, min(k + rows, len(target)))), weights[k : k + rows])
        for k in range(0, len(target), rows)
    )
    masks = Masks(batch_key(1), torch.device("cpu"))
    return found.sum(pieces, masks(0), bound(clip)).gradients


def relative_gap(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """Largest difference over the largest entry."""
    size = max(float(t.abs().max()) for t in theirs)
    gap = max(float((o.double() - t).abs().max()) for o, t in zip(ours, theirs, strict=True))
    return gap / size


def gap_after_training(case: Case, steps: int = 3) -> tuple[float, str]:
    """How far a run with hardly any noise ends from steps made one record at a time.

    Every batch is the whole data set; the gap is relative to how far the steps lead. Also how
    gradients were clipped.
    """
    model, loss, inputs, target = case
    n, clip, rate = len(target), 0.5, 0.05
    other = copy.deepcopy(model)
    trained = [[p for p in one.parameters() if p.requires_grad] for one in (model, other)]
    start = [p.detach().clone() for p in trained[0]]
    budget = md.calibrated_budget(md.wor(n, n), noise_multiplier=1e-3, steps=steps, delta=1e-3)
    trainer = md.PrivateTrainer(
        model, loss, (*inputs, target), budget, max_grad_norm=clip,
        optimizer=torch.optim.SGD(trained[0], lr=rate),
    )  # fmt: skip
    trainer.train()
    for _ in range(steps):
        sums = clipped_sum_one_by_one((other, loss, inputs, target), [1] * n, clip)
        with torch.no_grad():
            for p, total in zip(trained[1], sums, strict=True):
                p.sub_(rate * total / n)
    groups: list[list[Any]] = [*trained, start]
    ours, theirs, before = (torch.cat([p.detach().flatten() for p in one]) for one in groups)
    return float((ours - theirs).norm() / (theirs - before).norm()), trainer.method
