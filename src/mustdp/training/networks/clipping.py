"""The sum of clipped gradients over a multiset: the only thing noise is added to.

Each distinct record is computed once. Its gradient is scaled down to norm C if it is longer and
then counted as often as the record was drawn. A batch may be worked on in pieces; sums add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from mustdp.training.networks.bookkeeping import Bookkeeping, Masks
from mustdp.training.networks.contributions import Contributions
from mustdp.training.networks.record_by_record import Loss, RecordByRecord, trainable
from mustdp.training.networks.records import Rows
from mustdp.training.networks.separate import Unsuitable, Watch
from mustdp.training.networks.shares import full_precision

#: Clipped gradients are made shorter than C by this factor, which covers float32 rounding.
_INSIDE = 1.0 - 2.0**-20

#: Records, and how often each of them was drawn.
Piece = tuple[Rows, Tensor]


class Way(Protocol):
    """A way to the contributions of the records of a piece."""

    name: str
    reason: str
    most_rows: int

    def contributions(self, rows: Rows) -> Contributions:
        """Losses and gradients of these records."""


@dataclass
class ClippedSum:
    """Sum of clipped gradients, in the order of the parameters, and what came with it.

    ``loss`` is the sum of the losses over the multiset; it is not private. ``not_finite`` counts
    records whose gradient is not a number or infinite: if there are any the sum is worthless.
    """

    gradients: list[Tensor]
    loss: Tensor
    not_finite: Tensor


class Clipper:
    """Clips the gradients of a model; how they are found is decided once, on a few records."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        clip: float,
        trial: Rows,
        masks: Masks,
        mixed: torch.dtype | None = None,
    ) -> None:
        self._model, self._clip = model, clip
        self.parameters = list(trainable(model).values())
        self._watch = Watch(model)
        with torch.enable_grad():
            self.way = self._decide(loss, trial, masks, mixed)

    def _decide(self, loss: Loss, trial: Rows, masks: Masks, mixed: torch.dtype | None) -> Way:
        before = self._watch.start()
        reason = ""
        try:
            way = Bookkeeping(self._model, loss, mixed)
            way.try_out(trial, masks)
            self._watch.check(before)
            return way
        except Unsuitable as problem:
            reason = str(problem)
        self._watch.check(before)
        slow = RecordByRecord(self._model, loss, mixed, reason)
        with masks():
            slow.contributions(trial)
        self._watch.check(before)
        return slow

    def sum(self, pieces: Iterable[Piece], masks: AbstractContextManager[None]) -> ClippedSum:
        """Clip and add up; no piece at all is an empty batch, whose sum is zero."""
        before = self._watch.start()
        sums: dict[int, Tensor] = {}
        device = self.parameters[0].device
        loss = torch.zeros((), device=device)
        bad = torch.zeros((), device=device)
        with torch.enable_grad(), masks:
            for rows, counts in pieces:
                found = self.way.contributions(rows)
                with torch.no_grad(), full_precision(device):
                    norms = found.norms()
                    factors = (self._clip * _INSIDE / norms).clamp_(max=1.0)
                    found.add_weighted(factors.mul_(counts), sums)
                    loss += found.losses @ counts.to(found.losses.dtype)
                    bad += norms.isfinite().logical_not_().sum()
                del found
        self._watch.check(before)
        for p in self.parameters:
            if id(p) not in sums:
                sums[id(p)] = torch.zeros_like(p, dtype=_wide(p.dtype))
        return ClippedSum([sums[id(p)] for p in self.parameters], loss, bad)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
