"""The gradient of a piece of a batch as a sum over records; by ``torch.func`` where no layer is
known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mustdp.errors import MustdpError, NotCovered
from mustdp.training.networks.devices import aligned, shortened
from mustdp.training.networks.layers import Kept, Share, Sizes, total_of
from mustdp.training.networks.loaders import Rows
from mustdp.training.networks.separation import Loss, Unsuitable, line_of, per_record, quiet

# The gradient of a piece of a batch as a sum over its records, ready to be clipped.
#
# A parameter that is used in one place has its share there. One that is used in several (tied
# weights, a layer called twice) has a gradient that is the sum over these places, and the norm of a
# sum is not the sum of the norms: its contributions are written out and added before they are
# measured.


Parameters = Sequence[torch.nn.Parameter]


@dataclass(frozen=True)
class Part:
    """A share, and the parameter that each of its names stands for."""

    share: Share
    parameters: dict[str, torch.nn.Parameter]


class Contributions:
    """Losses and contributions of the records of one piece.

    ``in_full``: what they were computed from before it was cut to float32, where places are tried.
    """

    def __init__(
        self, losses: Tensor, parts: Sequence[Part], in_full: Sequence[Tensor] = ()
    ) -> None:
        self.losses = losses
        self._parts, self._in_full = _with_single_uses(parts), in_full

    @property
    def terms(self) -> int:
        """How many products are added up in one entry of the weighted sum, at most."""
        return max((part.share.terms for part in self._parts), default=0)

    def sizes(self) -> Sizes:
        """How large every record's gradient is, over all parameters, bounded from above."""
        if not self._parts:
            zero = torch.zeros_like(self.losses, dtype=torch.float64)
            return Sizes(zero, zero)
        return total_of([part.share.sizes() for part in self._parts])

    def by_record(self) -> list[Tensor]:
        """All that decides what each record contributes, records first."""
        sizes = self.sizes()
        values = [x for part in self._parts for x in part.share.by_record()]
        return [self.losses, sizes.squares, sizes.absolute, *values, *self._in_full]

    def add_weighted(self, weights: Tensor, sums: dict[int, Tensor]) -> None:
        """Add the weighted sum to ``sums``, which is keyed by the identity of the parameter."""
        for part in self._parts:
            for name, value in part.share.weighted(weights).items():
                key, found = id(part.parameters[name]), value.view_as(part.parameters[name])
                sums[key] = sums[key].add_(found) if key in sums else found


def _joined(calls: list[Part]) -> list[Part]:
    first, *others = calls
    one = first.share.joined([part.share for part in others]) if others else None
    return calls if one is None else [Part(one, first.parameters)]


def _with_single_uses(parts: Sequence[Part]) -> list[Part]:
    """Join all parts that share a parameter into one that has its contributions written out.

    Calls of one layer may have a shorter way.
    """
    calls: dict[tuple[int, ...], list[Part]] = {}
    for part in parts:
        calls.setdefault(tuple(id(p) for p in part.parameters.values()), []).append(part)
    parts = [part for same in calls.values() for part in _joined(same)]
    uses = Counter(id(p) for part in parts for p in part.parameters.values())
    single: list[Part] = []
    shared: list[Part] = []
    for part in parts:
        once = all(uses[id(p)] == 1 for p in part.parameters.values())
        (single if once else shared).append(part)
    if not shared:
        return single
    summed: dict[str, Tensor] = {}
    owners: dict[str, torch.nn.Parameter] = {}
    for part in shared:
        for name, gradient in part.share.each().items():
            key = str(id(part.parameters[name]))
            owners[key] = part.parameters[name]
            summed[key] = summed[key] + gradient if key in summed else gradient
    return [*single, Part(Kept(summed), owners)]


# Contributions by ``torch.func``: every record's gradient, written out.
#
# Slower and larger than book-keeping, but it takes any function: a module for which no rule is
# known is differentiated on its own, given what it was called with; a model that book-keeping
# cannot follow is differentiated as a whole. Each record is passed through alone, so records
# cannot mix.


#: Numbers that the gradients of one piece may take: half a gigabyte of float32.
LARGEST_KEPT = 1 << 27


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters to be trained, each under its first name."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def rows_that_fit(numbers: int) -> int:
    """How many records can have that many numbers written out for each."""
    return max(1, LARGEST_KEPT // max(1, numbers))


def module_share(
    module: nn.Module, given: tuple[Tensor, ...], errors: Tensor, randomness: str = "different"
) -> Share:
    """Every record's gradient of one module, by its vector-Jacobian product."""
    values = {name: _lengthened(p.detach()) for name, p in trainable(module).items()}

    def one(parameters: dict[str, Tensor], error: Tensor, *inputs: Tensor) -> dict[str, Tensor]:
        alone = tuple(x[None] for x in inputs)

        def run(changed: dict[str, Tensor]) -> Any:
            return torch.func.functional_call(module, changed, alone)

        _, pull, *_ = torch.func.vjp(run, parameters)
        gradients: dict[str, Tensor] = pull(error[None])[0]
        return gradients

    floating = tuple(_lengthened(x) for x in given)
    in_dims: tuple[int | None, ...] = (None, 0, *(0 for _ in floating))
    mapped = torch.func.vmap(one, in_dims=in_dims, randomness=randomness)
    try:
        with quiet():
            found = aligned(errors.device, lambda: mapped(values, _lengthened(errors), *floating))
        return Kept(found, in_full=randomness == "same")
    except Exception as problem:
        name = type(module).__name__
        raise Unsuitable(
            f"torch.func cannot run a {name} on its own: {line_of(problem)}"
        ) from problem


class RecordByRecord:
    """The whole model, one record at a time, in one vectorised call."""

    def __init__(
        self, model: nn.Module, loss: Loss, mixed: torch.dtype | None = None, reason: str = ""
    ) -> None:
        self.name, self.reason = "torch.func", reason
        self._model, self._loss, self._mixed = model, loss, mixed
        self._randomness = "different"
        self.most_rows = rows_that_fit(sum(p.numel() for p in trainable(model).values()))

    def contributions(self, rows: Rows, _: Tensor | None = None) -> Contributions:
        """Losses and gradients of these records."""
        inputs, target = rows.inputs, rows.target
        parameters = trainable(self._model)
        values = {name: p.detach() for name, p in parameters.items()}

        def one(changed: dict[str, Tensor], label: Tensor, *record: Tensor) -> Tensor:
            alone = tuple(x[None] for x in record)
            outputs = torch.func.functional_call(self._model, changed, alone)
            return per_record(self._loss(outputs, label[None]), 1)[0]

        in_dims: tuple[int | None, ...] = (None, 0, *(0 for _ in inputs))
        mapped = torch.func.vmap(
            torch.func.grad_and_value(one), in_dims=in_dims, randomness=self._randomness
        )
        try:
            with quiet(), self._without_cudnn(), shortened(target.device, self._mixed):
                gradients, losses = aligned(target.device, lambda: mapped(values, target, *inputs))
        except MustdpError:
            raise
        except Exception as problem:
            raise NotCovered(
                "torch.func cannot run this model one record at a time "
                f"({line_of(problem)})"
                + (f"; book-keeping cannot either: {self.reason}" if self.reason else "")
            ) from problem
        kept = Kept(gradients, in_full=self._randomness == "same")
        return Contributions(losses.detach(), [Part(kept, parameters)])

    @contextmanager
    def alike(self, loss: Loss | None = None) -> Iterator[None]:
        """All records draw the same inside."""
        usual = self._loss
        try:
            self._randomness, self._loss = "same", loss or usual
            yield
        finally:
            self._randomness, self._loss = "different", usual

    @contextmanager
    def _without_cudnn(self) -> Iterator[None]:
        """cuDNN's recurrent layers cannot be run record by record; torch's own can."""
        if not any(isinstance(module, nn.RNNBase) for module in self._model.modules()):
            yield
            return
        before = torch.backends.cudnn.enabled
        torch.backends.cudnn.enabled = False
        try:
            yield
        finally:
            torch.backends.cudnn.enabled = before


def _lengthened(values: Tensor) -> Tensor:
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
