"""What each record contributes to a gradient: by book-keeping, or by ``torch.func``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils import parametrize
from torch.utils._pytree import tree_flatten, tree_unflatten

from mustdp.errors import MustdpError, NotCovered
from mustdp.training.networks.attention import attention, is_attention
from mustdp.training.networks.devices import (
    aligned,
    full_precision,
    plain_attention,
    shortened,
)
from mustdp.training.networks.layers import (
    SLOTS_ARE_PLACES,
    EmbeddingShare,
    Kept,
    Rule,
    Share,
    Sizes,
    linear,
    rule_for,
    total_of,
    transposed,
)
from mustdp.training.networks.loaders import Rows
from mustdp.training.networks.recurrent import Affine, Inner, is_recurrent, unrolled
from mustdp.training.networks.separation import (
    MIXED,
    REORDERED,
    Behind,
    Loss,
    Unsuitable,
    behind,
    check_finite,
    check_scaling,
    check_separate,
    is_batched,
    keeps_apart,
    line_of,
    losses_alone,
    losses_of,
    per_record,
    place_of,
    quiet,
    records_first,
    traced,
)

# The gradient of a piece of a batch as a sum over its records, ready to be clipped.
#
# A parameter that is used in one place has its share there. One that is used in several (tied
# weights, a layer called twice) has a gradient that is the sum over these places, and the norm of a
# sum is not the sum of the norms: its contributions are written out and added before they are
# measured.


Parameters = Sequence[torch.nn.Parameter]


@dataclass(frozen=True, eq=False)
class LayerShare:
    """A share, and the parameter that each of its names stands for."""

    share: Share
    parameters: dict[str, torch.nn.Parameter]


class Contributions:
    """Losses and contributions of the records of one piece.

    ``in_full``: what they were computed from before it was cut to float32, where places are tried.
    """

    def __init__(
        self, losses: Tensor, parts: Sequence[LayerShare], in_full: Sequence[Tensor] = ()
    ) -> None:
        self.losses = losses
        self.parts, self._in_full = _with_single_uses(parts), in_full
        self._sizes: Sizes | None = None

    @property
    def terms(self) -> int:
        """How many products are added up in one entry of the weighted sum, at most."""
        return max((part.share.terms for part in self.parts), default=0)

    def sizes(self) -> Sizes:
        """How large every record's gradient is, over all parameters, bounded from above."""
        if self._sizes is None:
            if self.parts:
                self._sizes = total_of([part.share.sizes() for part in self.parts])
            else:
                zero = torch.zeros_like(self.losses, dtype=torch.float64)
                self._sizes = Sizes(zero, zero)
        return self._sizes

    def split(self, groups: dict[int, int]) -> list[int]:
        """Cut parts that belong to several groups of parameters; the group of every part."""
        parts, found = [], []
        for part in self.parts:
            owners = {name: groups[id(p)] for name, p in part.parameters.items()}
            for group in dict.fromkeys(owners.values()):
                mine = {name: p for name, p in part.parameters.items() if owners[name] == group}
                whole = len(mine) == len(owners)
                share = part.share if whole else Kept({n: part.share.each()[n] for n in mine})
                parts.append(LayerShare(share, mine))
                found.append(group)
        self.parts = parts
        return found

    def sizes_of(self, groups: Sequence[int]) -> dict[int, Sizes]:
        """How large the part of each group is, for the groups of all parts in their order."""
        each = [(group, part.share.sizes()) for group, part in zip(groups, self.parts, strict=True)]
        return {
            group: total_of([sizes for other, sizes in each if other == group])
            for group in dict.fromkeys(groups)
        }

    def by_record(self) -> list[Tensor]:
        """All that decides what each record contributes, records first."""
        sizes = self.sizes()
        values = [x for part in self.parts for x in part.share.by_record()]
        return [self.losses, sizes.squares, sizes.absolute, *values, *self._in_full]

    def add_weighted(
        self, weights: Sequence[Tensor], sums: dict[int, Tensor], block: int = 0
    ) -> None:
        """Add the sum, weighted part by part, to ``sums``, keyed by the parameters' identity.

        ``block`` rows may be added up in float32, 0 for none; a sum of one block is float32.
        """
        for part, own in zip(self.parts, weights, strict=True):
            part.share.block = block
            for name, value in part.share.weighted(own).items():
                key, found = id(part.parameters[name]), value.view_as(part.parameters[name])
                sums[key] = sums[key].double().add_(found) if key in sums else found


def _joined(calls: list[LayerShare]) -> list[LayerShare]:
    first, *others = calls
    one = first.share.joined([part.share for part in others]) if others else None
    return calls if one is None else [LayerShare(one, first.parameters)]


def _tied(parts: list[LayerShare]) -> list[LayerShare]:
    """Two layers that share their weight and nothing else become one part, where they can."""
    users: dict[int, list[LayerShare]] = {}
    for part in parts:
        for parameter in part.parameters.values():
            users.setdefault(id(parameter), []).append(part)
    found = list(parts)
    for same in users.values():
        if len(same) != 2 or not all(part in found for part in same):
            continue
        one, other = same
        if one.parameters.get("weight") is not other.parameters.get("weight"):
            continue
        if len({id(p) for part in same for p in part.parameters.values()}) + 1 != sum(
            len(part.parameters) for part in same
        ):
            continue
        share = one.share.tied(other.share)
        if share is not None:
            # Of the two only the linear layer may have more than the weight.
            names = max((part.parameters for part in same), key=len)
            found = [part for part in found if part not in same] + [LayerShare(share, names)]
    return found


def _with_single_uses(parts: Sequence[LayerShare]) -> list[LayerShare]:
    """Join all parts that share a parameter into one that has its contributions written out.

    Calls of one layer may have a shorter way.
    """
    calls: dict[tuple[int, ...], list[LayerShare]] = {}
    for part in parts:
        calls.setdefault(tuple(id(p) for p in part.parameters.values()), []).append(part)
    parts = _tied([part for same in calls.values() for part in _joined(same)])
    uses = Counter(id(p) for part in parts for p in part.parameters.values())
    single: list[LayerShare] = []
    shared: list[LayerShare] = []
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
    return [*single, LayerShare(Kept(summed), owners)]


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


def rows_that_fit(numbers: int, slots: int) -> int:
    """How many records can have that many numbers written out for each of their slots."""
    return max(1, LARGEST_KEPT // max(1, numbers * slots))


def folded(gradients: dict[str, Tensor], slots: int) -> dict[str, Tensor]:
    """Gradients of slots, added up for each unit."""
    if slots == 1:
        return gradients
    return {name: torch.unflatten(g, 0, (-1, slots)).sum(1) for name, g in gradients.items()}


def _per_unit(losses: Tensor, slots: int) -> Tensor:
    return losses if slots == 1 else torch.unflatten(losses, 0, (-1, slots)).sum(1)


def module_share(note: Note, errors: Tensor, randomness: str = "different") -> Share:
    """Every record's gradient of one module, by its vector-Jacobian product."""
    module, given = note.layer.module, note.given
    values = {name: _lengthened(p.detach()) for name, p in trainable(module).items()}

    def one(parameters: dict[str, Tensor], error: Tensor, *inputs: Tensor) -> dict[str, Tensor]:
        arguments, named = note.call(tuple(x[None] for x in inputs))

        def run(changed: dict[str, Tensor]) -> Any:
            return torch.func.functional_call(module, changed, arguments, named)

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
        self,
        model: nn.Module,
        loss: Loss,
        mixed: torch.dtype | None = None,
        reason: str = "",
        slots: int = 1,
    ) -> None:
        self.name, self.reason = "torch.func", reason
        self._model, self._loss, self._mixed = model, loss, mixed
        self._randomness = "different"
        self.most_rows = rows_that_fit(sum(p.numel() for p in trainable(model).values()), slots)

    def contributions(self, units: Rows, _: Tensor | None = None) -> Contributions:
        """Losses and gradients of these records."""
        rows, weights, slots = units.joined(), units.weights, units.slots
        given, device = (*rows.inputs, rows.target), rows.target.device
        parameters = trainable(self._model)
        values = {name: p.detach() for name, p in parameters.items()}

        def one(changed: dict[str, Tensor], *record: Tensor) -> Tensor:
            def run(*arguments: Any, **named: Any) -> Any:
                return torch.func.functional_call(self._model, changed, arguments, named)

            alone = [x[None] for x in record]
            return per_record(losses_of(self._model, self._loss, rows, alone, run), 1)[0]

        in_dims: tuple[int | None, ...] = (None, *(0 for _ in given))
        mapped = torch.func.vmap(
            torch.func.grad_and_value(one), in_dims=in_dims, randomness=self._randomness
        )
        try:
            with (
                quiet(),
                traced(),
                self._without_cudnn(),
                shortened(device, self._mixed),
                plain_attention(device),
            ):
                gradients, losses = aligned(device, lambda: mapped(values, *given))
        except MustdpError:
            raise
        except Exception as problem:
            said = line_of(problem)
            further = bool(self.reason) and said not in self.reason
            raise NotCovered(
                f"torch.func cannot run this model one record at a time: {said}"
                + place_of(problem, self._model, self._loss)
                + (f"; book-keeping cannot either: {self.reason}" if further else "")
            ) from problem
        if weights is not None:
            losses = losses * weights.flatten().to(losses)
            gradients = {
                name: g.mul_(weights.flatten().to(g).view(-1, *([1] * (g.ndim - 1))))
                for name, g in gradients.items()
            }
        kept = Kept(folded(gradients, slots), in_full=self._randomness == "same")
        return Contributions(_per_unit(losses.detach(), slots), [LayerShare(kept, parameters)])

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


# The layers of a model that book-keeping follows: the outermost modules that own parameters.


@dataclass(frozen=True)
class Layer:
    """A module that is followed as one piece; without a rule it is differentiated on its own."""

    name: str
    module: nn.Module
    rule: Rule | None
    parameters: dict[str, nn.Parameter]


def layers_of(model: nn.Module) -> list[Layer]:
    """The outermost modules that own parameters to train."""
    found: dict[int, Layer] = {}

    def visit(name: str, module: nn.Module) -> None:
        parameters = trainable(module)
        if not parameters or id(module) in found:
            return
        # What a child holds as well, as the head of a BERT does its bias, is used there.
        below = {id(p) for child in module.children() for p in child.parameters()}
        own = any(p.requires_grad and id(p) not in below for p in module.parameters(recurse=False))
        if own or parametrize.is_parametrized(module):
            found[id(module)] = Layer(name, module, rule_for(module), parameters)
            return
        for child, inner in module.named_children():
            visit(f"{name}.{child}" if name else child, inner)

    visit("", model)
    return list(found.values())


# Book-keeping: the passes over the model. Every layer with parameters to train leaves a note: what
# it was given, and where its output stands in the graph. One backward pass then gives the gradients
# of the losses with respect to those outputs, and nothing else; no gradient of a parameter is
# computed that would be thrown away.


MaskContext = Callable[[], AbstractContextManager[None]]
#: How far, on average over its entries, the two ways to a gradient of the trial may differ,
#: relative to the largest entry of all.
_TRIAL_TOLERANCE = 1e-5
#: How far a record's values may differ, relative to the largest, when others beside it change.
_SAME_TOLERANCE = 1e-4


#: From the tensors that a layer was given to all of its arguments, by place and by name.
Call = Callable[[tuple[Tensor, ...]], tuple[tuple[Any, ...], dict[str, Any]]]


@dataclass(frozen=True)
class Note:
    """One call of a layer."""

    layer: Layer
    given: tuple[Tensor, ...]
    versions: tuple[int, ...]
    edge: GradientEdge
    #: The dimension that counts the records in what the layer returned, where they are alone.
    place: int | None
    call: Call
    #: What the layer returned, records first: kept where places are tried.
    returned: Tensor | None = None


@dataclass
class Notes:
    """The notes of one forward pass.

    A layer may be called once for all records, as with the positions of a sequence, which are the
    same for each. Where records are alone, what it returns is expanded to one row per record by
    adding the ``zero`` that every record has, so that its errors are those of each record. Where
    they are not, such ``calls`` (a layer and the number of its call) leave no note. ``in_full``
    keeps what layers return.
    """

    rows: int
    alone: bool
    in_full: bool
    calls: set[tuple[str, int]] = field(default_factory=set)
    zero: Tensor | None = None
    made: list[Note] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)

    def begin(self, zero: Tensor) -> None:
        """A record is alone from here on; all of them are, at once."""
        self.zero = zero


class Bookkeeping:
    """Follows a model layer by layer."""

    def __init__(
        self, model: nn.Module, loss: Loss, mixed: torch.dtype | None = None, slots: int = 1
    ) -> None:
        self.name, self.reason, self.most_rows, self._slots = "book-keeping", "", 1 << 62, slots
        self._model, self._loss, self._mixed = model, loss, mixed
        self._layers = layers_of(model)
        self._randomness = "different"
        #: The calls of layers that are made once for all records.
        self._once: set[tuple[str, int]] = set()
        #: Whether every record is passed through alone, as the model is not known to keep records
        #: apart.
        self.alone = not keeps_apart(model, loss)
        if any(layer.module is model and layer.rule is None for layer in self._layers):
            raise Unsuitable("the model itself owns parameters")

    def contributions(self, rows: Rows, scales: Tensor | None = None) -> Contributions:
        """Losses and gradients of these records; with ``scales``, also check them for separation.

        Scales are powers of two, one for each record. The errors that a layer has for a record
        must then scale with that record's loss, which holds to the last bit if no other has a
        part in them.
        """
        losses, notes = self._forward(rows.joined(), self._mixed, self.alone)
        if scales is not None and losses.requires_grad and not self.alone:
            each = scales.repeat_interleave(rows.slots)
            check_scaling(losses, [note.edge for note in notes], each)
        if rows.weights is not None:
            losses = losses * rows.weights.flatten().to(losses)
        return self._backward(losses, notes, rows.slots)

    @contextmanager
    def alike(self, loss: Loss | None = None) -> Iterator[None]:
        """All records draw the same inside, or nothing."""
        usual = self._loss
        quiet = [m for m in self._model.modules() if isinstance(m, _DropoutNd) and m.training]
        try:
            self._randomness, self._loss = "same", loss or usual
            if not self.alone:
                for module in quiet:
                    module.training = False
            yield
        finally:
            self._randomness, self._loss = "different", usual
            for module in quiet:
                module.training = True

    def try_out(self, rows: Rows, other: Rows, masks: MaskContext) -> int:
        """Check on a few records that the notes explain the whole gradient, record by record.

        Raises :class:`Unsuitable` where they do not, as for a parameter that is used outside its
        own layer, and refuses a model that mixes records. Returns the number of terms in a sum
        over these records.
        """
        if self.alone:
            # Which calls are made once for all records; what cannot be run shows itself again.
            with suppress(Unsuitable), full_precision(rows.target.device), masks():
                self._forward(rows.copied(), None, alone=True)
        if self._loss is not None:  # a model's own loss is one value for all records, or alone
            self.compare(rows, other, masks)
        with full_precision(rows.target.device):
            with masks():
                losses, notes = self._forward(rows.copied(), None, self._loss is None)
            check_finite(losses)
            if self._loss is not None and losses.requires_grad and len(losses) > 1:
                check_separate(losses, [note.edge for note in notes])
            if self.alone:
                with masks():
                    losses, notes = self._forward(rows.copied(), None, alone=True)
            self._check_whole(losses, notes)
            found = self._backward(losses, notes)
        self.most_rows = rows_that_fit(_numbers_kept(notes, self._slots), self._slots)
        return found.terms

    def _check_whole(self, losses: Tensor, notes: list[Note]) -> None:
        """The contributions of all notes must add up to the gradient that torch computes."""
        parameters = list(trainable(self._model).values())
        usual: tuple[Tensor | None, ...] = (None,) * len(parameters)
        if losses.requires_grad:
            total = losses.sum()
            usual = torch.autograd.grad(total, parameters, allow_unused=True, retain_graph=True)
        sums: dict[int, Tensor] = {}
        ones = torch.ones_like(losses, dtype=torch.float64)
        found = self._backward(losses, notes, again=True)
        found.add_weighted([ones] * len(found.parts), sums)
        size = max((float(g.abs().max()) for g in usual if g is not None and g.numel()), default=0)
        for parameter, gradient in zip(parameters, usual, strict=True):
            expected = torch.zeros_like(parameter) if gradient is None else gradient
            added = sums.get(id(parameter), torch.zeros_like(parameter))
            gap = float((added - expected).abs().sum())
            if not gap <= _TRIAL_TOLERANCE * size * max(1, parameter.numel()):
                raise Unsuitable("a parameter is used outside the layer that owns it")

    def compare(self, rows: Rows, other: Rows, masks: MaskContext) -> None:
        """Run the same records among different ones, which may not change what comes out.

        ``other`` has the records of ``rows`` in every second place. Where their losses differ
        the model mixes records; where only what a layer was given differs it reorders them.
        """
        found = []
        with full_precision(rows.target.device):
            for tried in (rows, other):
                with masks():
                    losses, notes = self._forward(tried.copied(), None)
                named = [(note.layer.name, x) for note in notes for x in note.given]
                found.append((losses.detach(), named))
        (losses, given), (others, given_others) = found
        differ = [
            name
            for (name, x), (_, y) in zip(given, given_others, strict=False)
            if not _same(x[::2], y[::2])
        ]
        if not _same(losses[::2], others[::2]):
            where = (
                f"before layer {differ[0]}" if differ else "after the last layer, or in the loss"
            )
            raise NotCovered(f"{MIXED}; they mix {where}")
        if len(given) != len(given_others) or differ:
            raise Unsuitable(REORDERED)

    def _forward(
        self, rows: Rows, mixed: torch.dtype | None, alone: bool = False
    ) -> tuple[Tensor, list[Note]]:
        once = set[tuple[str, int]]() if alone else self._once
        notes = Notes(len(rows.target), alone, self._trying_places, once)
        hooks, forwards = [], []
        for layer in self._layers:
            opened = _written_out(layer.module)
            if opened is None:
                hooks.append((layer.module, _note_taker(layer, notes)))
            else:
                forwards.append((layer.module, opened(layer.module, _inside(layer, notes))))
        # Written out, and cleaned up twice, so that Ctrl-C leaves no hook behind wherever it comes:
        # while hooks are registered, or during the first cleaning.
        try:
            try:
                for module, taker in hooks:
                    module.register_forward_hook(taker, with_kwargs=True)
                for module, forward in forwards:
                    module.forward = forward
                device = rows.target.device
                with shortened(device, mixed), plain_attention(device):
                    losses = aligned(device, partial(self._losses, rows, notes))
            finally:
                _remove(hooks + forwards)
        finally:
            _remove(hooks + forwards)
        if alone:
            self._once = notes.calls
        return per_record(losses, notes.rows), notes.made

    def _losses(self, rows: Rows, notes: Notes) -> Tensor:
        if notes.alone:
            return losses_alone(self._model, self._loss, rows, self._randomness, notes.begin)
        return losses_of(self._model, self._loss, rows, (*rows.inputs, rows.target))

    def _backward(
        self, losses: Tensor, notes: list[Note], slots: int = 1, again: bool = False
    ) -> Contributions:
        found: tuple[Tensor | None, ...] = ()
        if losses.requires_grad:
            edges = [note.edge for note in notes]
            found = torch.autograd.grad(losses.sum(), edges, allow_unused=True, retain_graph=again)
        parts = [
            LayerShare(_share(note, errors, self._randomness, slots), note.layer.parameters)
            for note, errors in zip(notes, found, strict=False)
            if errors is not None
        ]
        in_full = [torch.unflatten(x, 0, (-1, slots)) for x in self._in_full(notes, found)]
        return Contributions(_per_unit(losses.detach(), slots), parts, in_full)

    def _in_full(self, notes: list[Note], found: tuple[Tensor | None, ...]) -> list[Tensor]:
        """Where places are tried: what a later layer or a cut to float32 may hide of them."""
        if not self._trying_places:
            return []
        longer = [x for note in notes for x in note.given]
        longer += [
            _records_first(note, errors)
            for note, errors in zip(notes, found, strict=False)
            if errors is not None
        ]
        returned = [note.returned for note in notes if note.returned is not None]
        return returned + [x for x in longer if x.dtype == torch.float64]

    @property
    def _trying_places(self) -> bool:
        return self._randomness == "same"


def _remove(takers: list[tuple[nn.Module, Any]]) -> None:
    """Take hooks off their modules, found by what they are: a handle may never have come back."""
    for module, taker in takers:
        if vars(module).get("forward") is taker:
            del module.forward
        for key in [key for key, hook in module._forward_hooks.items() if hook is taker]:
            module._forward_hooks_with_kwargs.pop(key, None)
            module._forward_hooks.pop(key, None)


def _written_out(module: nn.Module) -> Callable[[nn.Module, Affine], Callable[..., Any]] | None:
    """What takes the place of the forward pass of a layer that has linear layers inside."""
    if is_recurrent(module):
        return unrolled
    return attention if is_attention(module) else None


def _inside(layer: Layer, notes: Notes) -> Affine:
    """Applies the linear layers inside another one and notes them."""

    @cache
    def part(weight: str, bias: str) -> Layer:
        one = Inner(layer.module, weight, bias)
        return Layer(f"{layer.name}.{weight}", one, linear, trainable(one))

    def apply(weight: str, bias: str, given: Tensor) -> Tensor:
        one = part(weight, bias)
        output: Tensor = one.module(given)
        if one.parameters:
            expanded = _note_taker(one, notes)(one.module, (given,), {}, output)
            output = output if expanded is None else expanded
        return output

    return apply


def _numbers_kept(notes: list[Note], slots: int) -> int:
    """How many numbers are written out for each slot: parameters without a shorter way."""
    ways: dict[int, set[tuple[int, ...]]] = {}
    for note in notes:
        parameters = note.layer.parameters.values()
        joined = note.layer.rule is linear
        way = tuple(id(p) for p in parameters) if joined else (id(note),)
        if note.layer.rule is EmbeddingShare and _is_tied(note, notes):
            continue
        for p in parameters:
            ways.setdefault(id(p), set()).add(way)
    kept = {
        id(p): p.numel()
        for note in notes
        for p in note.layer.parameters.values()
        if note.layer.rule is None
        or (slots > 1 and note.layer.rule not in SLOTS_ARE_PLACES)
        or len(ways.get(id(p), ())) > 1
    }
    return sum(kept.values())


def _is_tied(table: Note, notes: list[Note]) -> bool:
    """Whether an embedding is used once, and its table once more by a linear layer."""
    weight = table.layer.parameters.get("weight")
    others = [n for n in notes if n is not table and n.layer.parameters.get("weight") is weight]
    return bool(others) and all(n.layer.rule is linear for n in others)


#: What a layer may be given beside tensors.
_PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device)


def _note_taker(layer: Layer, notes: Notes) -> Any:
    several = f"layer {layer.name} takes or returns more than one row per record"

    def take(_: nn.Module, given: Any, named: dict[str, Any], output: Any) -> Tensor | None:
        if not torch.is_grad_enabled():
            raise Unsuitable(f"layer {layer.name} runs without gradients")
        number = notes.counted[layer.name]
        notes.counted[layer.name] += 1
        if (layer.name, number) in notes.calls:
            return None
        leaves, tree = tree_flatten((given, named))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        tensors = tuple(leaves[place] for place in places)
        plain = all(isinstance(leaf, (Tensor, *_PLAIN)) for leaf in leaves)
        if not plain or not all(isinstance(x, Tensor) and x.ndim for x in (*tensors, output)):
            raise Unsuitable(f"layer {layer.name} takes or returns something else than tensors")
        if layer.rule is not None and len(leaves) != 1:
            raise Unsuitable(f"layer {layer.name} is called with more than one argument")

        def call(changed: tuple[Tensor, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            filled = list(leaves)
            for place, value in zip(places, changed, strict=True):
                filled[place] = value
            found: tuple[tuple[Any, ...], dict[str, Any]] = tree_unflatten(filled, tree)
            return found

        layout: Behind | None = None
        expanded: Tensor | None = None
        if not notes.alone:
            if not all(len(x) == notes.rows for x in (*tensors, output)):
                raise Unsuitable(several)
        elif layer.rule in (EmbeddingShare, linear, transposed) and not is_batched(tensors[0]):
            if notes.zero is None or is_batched(output):
                raise Unsuitable(several)
            notes.calls.add((layer.name, number))
            expanded = output + notes.zero.to(output.dtype)
            layout = behind(expanded, whole=True)
            once = tensors[0][0] if len(tensors[0]) == 1 else tensors[0]
            tensors = (once.detach().expand(notes.rows, *once.shape),)
        else:
            found = [behind(x) for x in (*tensors, output)]
            if any(x is None for x in found):
                raise Unsuitable(several)
            *kept, layout = (x for x in found if x is not None)
            tensors = tuple(records_first(x.values, x.place) for x in kept)
        values = output if layout is None else layout.values
        versions = tuple(x._version for x in tensors)
        edge = get_gradient_edge(values)
        returned = None
        if notes.in_full:  # a copy: the model may write into it afterwards
            returned = values.detach().clone()
            returned = returned if layout is None else records_first(returned, layout.place)
        inputs = tuple(x.detach() for x in tensors)
        place = None if layout is None else layout.place  # what it returned is not kept
        notes.made.append(Note(layer, inputs, versions, edge, place, call, returned))
        return expanded

    return take


def _records_first(note: Note, errors: Tensor) -> Tensor:
    return errors if note.place is None else records_first(errors, note.place)


def _share(note: Note, errors: Tensor, randomness: str, slots: int) -> Share:
    errors = _records_first(note, errors)
    if tuple(x._version for x in note.given) != note.versions:
        raise Unsuitable(
            f"what layer {note.layer.name} was given has been overwritten in place since"
        )
    rule, module = note.layer.rule, note.layer.module
    if slots > 1 and rule in SLOTS_ARE_PLACES:
        given = torch.unflatten(note.given[0], 0, (-1, slots))
        return rule(module, given, torch.unflatten(errors, 0, (-1, slots)))
    if rule is None:
        share = module_share(note, errors, randomness)
    else:
        share = rule(module, note.given[0], errors)
    return share if slots == 1 else Kept(folded(share.each(), slots))


def _same(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or not one.is_floating_point():
        return torch.equal(one, other)
    if not one.numel():
        return True
    size = max(float(one.abs().max()), float(other.abs().max()))
    return not float((one - other).abs().max()) > _SAME_TOLERANCE * size
