"""Contributions by ``torch.func``: every record's gradient, written out.

Slower and larger than book-keeping, but it takes any function: a module for which no rule is known
is differentiated on its own, given what it was called with; a model that book-keeping cannot follow
is differentiated as a whole. Each record is passed through alone, so records cannot mix.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from mustdp.errors import MustdpError, NotCovered
from mustdp.training.networks.alignment import aligned
from mustdp.training.networks.alone import Loss, line_of, quiet
from mustdp.training.networks.contributions import Contributions, Part
from mustdp.training.networks.precision import shortened
from mustdp.training.networks.records import Rows
from mustdp.training.networks.separate import Unsuitable, per_record
from mustdp.training.networks.shares import Kept, Share

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
        return Kept(found)
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
        return Contributions(losses.detach(), [Part(Kept(gradients), parameters)])

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
