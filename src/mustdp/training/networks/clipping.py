"""The sum of clipped gradients over a multiset: the only thing noise is added to.

Each distinct record is computed once. Its gradient is scaled down to norm C if it is longer and
then counted as often as the record was drawn. A batch may be worked on in pieces; sums add up.

In floating point "to norm C" means: a bound from above of the norm, a weight rounded down, and a
little less than C, so that the rounding of the sum fits in between (``sensitivity.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from mustdp.errors import NotCovered
from mustdp.training.networks.alone import Loss
from mustdp.training.networks.bookkeeping import Bookkeeping, Masks
from mustdp.training.networks.contributions import Contributions
from mustdp.training.networks.precision import full_precision
from mustdp.training.networks.record_by_record import RecordByRecord, trainable
from mustdp.training.networks.records import Rows
from mustdp.training.networks.sensitivity import Bound
from mustdp.training.networks.separate import Unsuitable, Watch
from mustdp.training.networks.shares import Sizes

#: Records, and how often each of them was drawn.
Piece = tuple[Rows, Tensor]
#: A factor that covers the square root, the product and the quotient that make a weight.
_DOWN = 1.0 - 2.0**-48


Scales = Callable[[int], Tensor]


@dataclass(frozen=True)
class Trial:
    """A few records, and the same in every second place among others."""

    rows: Rows
    other: Rows


class Way(Protocol):
    """A way to the contributions of the records of a piece."""

    name: str
    reason: str
    most_rows: int

    def contributions(self, rows: Rows, scales: Tensor | None = None) -> Contributions:
        """Losses and gradients of these records; with ``scales``, checked for separation."""

    def alike(self, loss: Loss | None = None) -> AbstractContextManager[None]:
        """Inside, what is drawn at random is the same for all records; ``loss`` if it is given."""


@dataclass
class ClippedSum:
    """Sum of clipped gradients, in the order of the parameters, and what came with it.

    ``loss`` is the sum of the losses over the multiset; it is not private. ``not_finite`` counts
    records whose gradient is not a number or infinite: if there are any the sum is worthless.
    """

    gradients: list[Tensor]
    loss: Tensor
    not_finite: Tensor


def weights_for(sizes: Sizes, bound: Bound) -> Tensor:
    """Weights w <= 1 with w |g| <= C' and w R <= rho C' in real arithmetic, for every record."""
    longest = torch.maximum(sizes.squares.sqrt(), sizes.absolute.sqrt() / bound.cancellation)
    return (bound.inner * _DOWN / longest).clamp_(max=1.0)


class Clipper:
    """Clips the gradients of a model; how they are found is decided once, on a few records."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        trials: Sequence[Trial],
        masks: Masks,
        mixed: torch.dtype | None = None,
    ) -> None:
        self._model = model
        self.parameters = list(trainable(model).values())
        self._watch = Watch(model, loss)
        with torch.enable_grad():
            self.way, self.places = self._decide(loss, trials, masks, mixed)

    def _decide(
        self, loss: Loss, trials: Sequence[Trial], masks: Masks, mixed: torch.dtype | None
    ) -> tuple[Way, int]:
        """Follow the model layer by layer if that works for all trials, else as a whole.

        With trials of several sizes a layer whose first dimension is not the record shows itself
        in one of them, even if it looks like a model that mixes records in another.
        """
        before = self._watch.start()
        problems: list[NotCovered] = []
        try:
            way = Bookkeeping(self._model, loss, mixed)
        except Unsuitable as problem:
            problems.append(problem)
        else:
            places = 1
            for trial in trials:
                try:
                    terms = way.try_out(trial.rows, trial.other, masks)
                    places = max(places, -(-terms // len(trial.rows.target)))
                except NotCovered as problem:
                    problems.append(problem)
                self._watch.check(before)
            if not problems:
                return way, places
        reasons = [str(problem) for problem in problems if isinstance(problem, Unsuitable)]
        if not reasons:
            raise problems[0]
        self._watch.check(before)
        slow = RecordByRecord(self._model, loss, mixed, reasons[0])
        for trial in trials:
            with masks():
                slow.contributions(trial.rows.copied())
        self._watch.check(before)
        return slow, 1

    def try_again(self, trial: Trial, masks: Masks) -> None:
        """Try a few records of a batch, unless they are alone; what is found now ends the run."""
        self._watch.start()
        if isinstance(self.way, Bookkeeping) and not self.way.alone:
            try:
                self.way.compare(trial.rows, trial.other, masks)
            except Unsuitable as problem:
                raise NotCovered(str(problem)) from None

    def results(self, rows: Rows) -> list[Tensor]:
        """All that decides what these records contribute to a sum, records first."""
        found = self.way.contributions(rows)
        with torch.no_grad(), full_precision(rows.target.device):
            return found.by_record()

    def sum(
        self,
        pieces: Iterable[Piece],
        masks: AbstractContextManager[None],
        bound: Bound,
        scales: Scales | None = None,
    ) -> ClippedSum:
        """Clip and add up; no piece at all is an empty batch, whose sum is zero.

        With ``scales`` the records of every piece are checked for separation on the way.
        """
        before = self._watch.start()
        sums: dict[int, Tensor] = {}
        device = self.parameters[0].device
        loss = torch.zeros((), device=device, dtype=torch.float64)
        bad = torch.zeros((), device=device, dtype=torch.int64)
        terms = number = 0
        with torch.enable_grad(), masks:
            for rows, counts in pieces:
                tried = None if scales is None else scales(len(rows.target)).to(device)
                found = self.way.contributions(rows, tried)
                with torch.no_grad(), full_precision(device):
                    sizes, counts = found.sizes(), counts.double()
                    found.add_weighted(weights_for(sizes, bound).mul_(counts), sums)
                    loss += found.losses.double() @ counts
                    bad += (sizes.squares + sizes.absolute).isfinite().logical_not_().sum()
                terms, number = max(terms, found.terms), number + 1
                del found
        self._watch.check(before)
        bound.check(terms, number)
        for p in self.parameters:
            if id(p) not in sums:
                sums[id(p)] = torch.zeros_like(p, dtype=torch.float64)
        return ClippedSum([sums[id(p)] for p in self.parameters], loss, bad)
