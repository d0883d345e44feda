"""Book-keeping: one forward, one backward, then norms and weighted sums layer by layer.

Every layer with parameters to train leaves a note: what it was given, and where its output stands
in the graph. One backward pass then gives the gradients of the losses with respect to those
outputs, and nothing else; no gradient of a parameter is computed that would be thrown away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.utils import parametrize

from mustdp.training.networks.contributions import Contributions, Part
from mustdp.training.networks.layers import Rule, rule_for
from mustdp.training.networks.record_by_record import (
    Loss,
    module_share,
    rows_that_fit,
    trainable,
)
from mustdp.training.networks.records import Rows
from mustdp.training.networks.separate import Unsuitable, check_finite, check_separate, per_record
from mustdp.training.networks.shares import Share, full_precision, shortened

Masks = Callable[[], AbstractContextManager[None]]
#: How far, on average over its entries, the two ways to a gradient of the trial may differ,
#: relative to the largest entry of all.
_TRIAL_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Layer:
    """A module that is followed as one piece; without a rule it is differentiated on its own."""

    name: str
    module: nn.Module
    rule: Rule | None
    parameters: dict[str, nn.Parameter]


@dataclass(frozen=True)
class Note:
    """One call of a layer."""

    layer: Layer
    given: tuple[Tensor, ...]
    versions: tuple[int, ...]
    edge: GradientEdge


def layers_of(model: nn.Module) -> list[Layer]:
    """The outermost modules that own parameters to train."""
    found: dict[int, Layer] = {}

    def visit(name: str, module: nn.Module) -> None:
        parameters = trainable(module)
        if not parameters or id(module) in found:
            return
        own = any(p.requires_grad for p in module.parameters(recurse=False))
        if own or parametrize.is_parametrized(module):
            found[id(module)] = Layer(name, module, rule_for(module), parameters)
            return
        for child, inner in module.named_children():
            visit(f"{name}.{child}" if name else child, inner)

    visit("", model)
    return list(found.values())


class Bookkeeping:
    """Follows a model layer by layer."""

    def __init__(self, model: nn.Module, loss: Loss, mixed: torch.dtype | None = None) -> None:
        self.name, self.reason, self.most_rows = "book-keeping", "", 1 << 62
        self._model, self._loss, self._mixed = model, loss, mixed
        self._layers = layers_of(model)
        if any(layer.module is model and layer.rule is None for layer in self._layers):
            raise Unsuitable("the model itself owns parameters")

    def contributions(self, rows: Rows) -> Contributions:
        """Losses and gradients of these records."""
        losses, notes = self._forward(rows, self._mixed)
        return self._backward(rows, losses, notes)

    def try_out(self, rows: Rows, masks: Masks) -> None:
        """Check on a few records that the notes explain the whole gradient, record by record.

        Raises :class:`Unsuitable` where they do not, as for a parameter that is used outside its
        own layer, and refuses a model that mixes records.
        """
        parameters = list(trainable(self._model).values())
        with full_precision(rows.target.device):
            with masks():
                losses, notes = self._forward(rows, None)
            check_finite(losses)
            if losses.requires_grad and len(losses) > 1:
                check_separate(losses, [note.edge for note in notes])
            sums: dict[int, Tensor] = {}
            self._backward(rows, losses, notes).add_weighted(torch.ones_like(losses), sums)
            with masks():
                total = self._loss(self._model(*rows.inputs), rows.target).sum()
            usual = torch.autograd.grad(total, parameters, allow_unused=True)
        size = max((float(g.abs().max()) for g in usual if g is not None and g.numel()), default=0)
        for parameter, gradient in zip(parameters, usual, strict=True):
            expected = torch.zeros_like(parameter) if gradient is None else gradient
            found = sums.get(id(parameter), torch.zeros_like(parameter))
            gap = float((found - expected).abs().sum())
            if not gap <= _TRIAL_TOLERANCE * size * max(1, parameter.numel()):
                raise Unsuitable("a parameter is used outside the layer that owns it")
        self.most_rows = rows_that_fit(_numbers_kept(notes))

    def _forward(self, rows: Rows, mixed: torch.dtype | None) -> tuple[Tensor, list[Note]]:
        size = len(rows.target)
        with self._noting(size) as notes, shortened(rows.target.device, mixed):
            losses = self._loss(self._model(*rows.inputs), rows.target)
        return per_record(losses, size), notes

    def _backward(self, rows: Rows, losses: Tensor, notes: list[Note]) -> Contributions:
        found: tuple[Tensor | None, ...] = ()
        if losses.requires_grad:
            edges = [note.edge for note in notes]
            found = torch.autograd.grad(losses.sum(), edges, allow_unused=True)
        with full_precision(losses.device):
            parts = [
                Part(_share(note, errors, rows), note.layer.parameters)
                for note, errors in zip(notes, found, strict=False)
                if errors is not None
            ]
            return Contributions(losses.detach(), parts)

    @contextmanager
    def _noting(self, rows: int) -> Iterator[list[Note]]:
        notes: list[Note] = []
        with ExitStack() as hooks:
            for layer in self._layers:
                handle = layer.module.register_forward_hook(
                    _note_taker(layer, rows, notes), with_kwargs=True
                )
                hooks.callback(handle.remove)
            yield notes


def _numbers_kept(notes: list[Note]) -> int:
    """How many numbers are written out for each record: parameters without a shorter way."""
    uses = Counter(id(p) for note in notes for p in note.layer.parameters.values())
    kept = {
        id(p): p.numel()
        for note in notes
        for p in note.layer.parameters.values()
        if note.layer.rule is None or uses[id(p)] > 1
    }
    return sum(kept.values())


def _note_taker(layer: Layer, rows: int, notes: list[Note]) -> Any:
    def take(_: nn.Module, given: Any, named: dict[str, Any], output: Any) -> None:
        if not torch.is_grad_enabled():
            raise Unsuitable(f"layer {layer.name} runs without gradients")
        tensors = [*given, *named.values(), output]
        if not all(isinstance(x, Tensor) and x.ndim and len(x) == rows for x in tensors):
            raise Unsuitable(f"layer {layer.name} takes or returns more than one row per record")
        if named or (layer.rule is not None and len(given) != 1):
            raise Unsuitable(f"layer {layer.name} is called with named arguments")
        kept = tuple(x.detach() for x in given)
        versions = tuple(x._version for x in given)
        notes.append(Note(layer, kept, versions, get_gradient_edge(output)))

    return take


def _share(note: Note, errors: Tensor, rows: Rows) -> Share:
    if tuple(x._version for x in note.given) != note.versions:
        raise Unsuitable(
            f"what layer {note.layer.name} was given has been overwritten in place since"
        )
    if note.layer.rule is None:
        return module_share(note.layer.module, note.given, errors)
    given = note.given[0]
    return note.layer.rule(note.layer.module, given, errors, rows.squares_of(given))
