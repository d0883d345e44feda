"""Checks that a model works on each record separately, as clipping assumes."""

from __future__ import annotations

import copy
import inspect
import math
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch._C import _functorch
from torch.nn.utils import parametrize
from torch.utils import _python_dispatch
from torch.utils._device import DeviceContext

from mustdp.errors import InvalidParameter, MustdpError, NotCovered
from mustdp.numerics import checks
from mustdp.training.networks.devices import as_usual
from mustdp.training.networks.loaders import Rows

# Records must be worked on separately, or clipping one of them does not bound its influence.
#
# A layer that mixes records lets one record change the gradients of all others in the batch, and a
# buffer that the forward pass changes carries data out of the run without any noise. Known layers
# of that kind are refused by name; for the rest the model is tried on a few records, and again on
# the records of a batch now and then.


class Unsuitable(NotCovered):
    """A model that book-keeping cannot follow; it is then worked on record by record."""


def refuse_mixing(modules: Iterable[tuple[str, nn.Module]]) -> None:
    """Refuse layers that are known to mix records or to remember them."""
    for name, module in modules:
        reason = _mixes(module)
        if reason:
            raise NotCovered(f"layer {name or 'model'} ({type(module).__name__}) {reason}")


def _mixes(module: nn.Module) -> str:
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        if module.training or module.running_mean is None:
            return (
                "mixes the records of a batch, so that clipping one record's gradient does not "
                "bound its influence; use GroupNorm or LayerNorm, or eval() it to keep its "
                "statistics fixed"
            )
    elif isinstance(module, nn.modules.instancenorm._InstanceNorm):
        if module.track_running_stats and module.training:
            return (
                "remembers statistics of the records without noise; use track_running_stats=False"
            )
    elif isinstance(module, nn.Embedding | nn.EmbeddingBag):
        if module.max_norm is not None:
            return "changes its table in the forward pass (max_norm), without noise"
        if module.scale_grad_by_freq:
            return "scales gradients by how often an entry is in the batch, which mixes records"
    return ""


#: What is kept of a tensor: under which name it was found, and how often it was written to.
Seen = dict[str, tuple[Tensor, int]]


class Watch:
    """Watches a model while records pass through it: no layer may mix, nothing may change."""

    def __init__(self, model: nn.Module, loss: Any = None) -> None:
        kinds = (
            nn.modules.batchnorm._BatchNorm,
            nn.modules.instancenorm._InstanceNorm,
            nn.Embedding,
            nn.EmbeddingBag,
        )
        self._model, self._loss = model, loss
        modules = list(model.named_modules())
        self._suspects = [(name, m) for name, m in modules if isinstance(m, kinds)]
        self._parameters = list(model.parameters())
        self._trained = [p.requires_grad for p in self._parameters]
        self._built = self._structure()

    def start(self) -> Seen:
        """Refuse layers that mix; name, identity and version of all that may not change."""
        refuse_mixing(self._suspects)
        refuse_modes()
        if [p.requires_grad for p in self._parameters] != self._trained:
            raise InvalidParameter(
                "which parameters are trained must stay the same during a run, as the bound C "
                "holds for all of them together; start another run on the model"
            )
        if self._structure() != self._built:
            raise InvalidParameter(
                "layers, parameters and hooks of model must stay the same during a run, as the "
                "model was tried with these; start another run on the model"
            )
        return self._seen()

    def check(self, before: Seen) -> None:
        """Refuse if something has changed since :meth:`start`."""
        now = self._seen()
        for name in sorted({*before, *now}):
            if name in before and name in now:
                (old, version), (new, written) = before[name], now[name]
                if old is new and version == written:
                    continue
            kind, _, where = name.partition(" ")
            raise NotCovered(
                f"the forward pass changes the {kind} {where}, which would carry what it has seen "
                "of the records out of the run without noise"
                + (
                    ""
                    if kind != "attribute"
                    else "; if it is a table that does not depend on "
                    "them, call the model once before the run"
                )
            )

    def _structure(self) -> list[Any]:
        """Layers, parameters and hooks; the objects themselves, so that none is replaced unseen."""
        found: list[Any] = [*hooks_everywhere()]
        for name, module in self._model.named_modules():
            found += [name, id(module), type(module), vars(module).get("forward")]
            found += [id(p) for p in module._parameters.values()]
            found += [hook for hooks in HOOKS for hook in getattr(module, hooks).values()]
        return found

    def _seen(self) -> Seen:
        found: Seen = {}
        owners: list[tuple[str, Any]] = [
            *self._model.named_modules(),
            *(
                [(f"loss {name}".strip(), m) for name, m in self._loss.named_modules()]
                if isinstance(self._loss, nn.Module)
                else [("loss", self._loss)]
            ),
        ]
        for name, owner in owners:
            for kind, key, value in _kept_by(owner):
                if not isinstance(value, _HOLD_TENSORS):
                    continue
                for place, tensor in _tensors_in(value):
                    found[f"{kind} {name}.{key}{place}"] = tensor, _version(tensor)
        return found


def _kept_by(owner: Any) -> Iterator[tuple[str, str, Any]]:
    """What a module, a function or another object holds on to from one call to the next."""
    if isinstance(owner, nn.Module):
        yield from (("buffer", key, value) for key, value in owner._buffers.items())
        yield from (("parameter", key, value) for key, value in owner._parameters.items())
        own = {"_buffers", "_parameters", "_modules"}
    else:
        own = set()
        cells = getattr(owner, "__closure__", None) or ()
        for number, cell in enumerate(cells):
            with suppress(ValueError):  # still empty
                yield "attribute", f"closure[{number}]", cell.cell_contents
        if hasattr(owner, "__self__"):
            yield from _kept_by(owner.__self__)
    for key, value in getattr(owner, "__dict__", {}).items():
        if key not in own:
            yield "attribute", key, value


_HOLD_TENSORS = (Tensor, dict, list, tuple, set, deque)


def _tensors_in(value: Any, depth: int = 3) -> Iterator[tuple[str, Tensor]]:
    """Tensors in a value, and in lists and dictionaries of them."""
    if isinstance(value, Tensor):
        yield "", value
    elif depth and value and isinstance(value, _HOLD_TENSORS):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            if isinstance(inner, _HOLD_TENSORS):
                for place, tensor in _tensors_in(inner, depth - 1):
                    yield f"[{key}]{place}", tensor


def _version(tensor: Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # made in inference mode, where nothing is counted
        return 0


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def hooks_everywhere() -> list[Any]:
    """Hooks that torch calls for every module of the process."""
    module: Any = nn.modules.module
    return [hook for name in HOOKS for hook in getattr(module, f"_global{name}").values()]


def refuse_modes() -> None:
    """Refuse code that torch calls for every operation, or for what a backward pass keeps.

    It sees all records side by side, and may mix them where no layer does.
    """
    as_usual()
    overrides: Any = torch.overrides
    functions = [
        mode
        for mode in overrides._get_current_function_mode_stack()
        if type(mode) is not DeviceContext  # torch.set_default_device
    ]
    autograd: Any = torch._C._autograd
    saved = getattr(autograd, "_top_saved_tensors_default_hooks", lambda _: None)(False)
    found = [*functions, *_python_dispatch._get_current_dispatch_mode_stack()]
    if found or saved is not None:
        name = type(found[0]).__name__ if found else "saved_tensors_hooks"
        raise NotCovered(
            f"{name} is active around the run and may mix the records of a batch; leave it out"
        )


@contextmanager
def no_activation_checkpoints(model: nn.Module) -> Iterator[None]:
    """Refuse a forward pass that throws activations away to compute them again.

    Models of transformers say so before they are run; what they put around a pass fails without
    naming it.
    """

    def refuse(*_: Any, **__: Any) -> Any:
        raise NotCovered(
            "the model uses activation checkpointing (torch.utils.checkpoint), which hides what "
            "its layers compute: leave it out (gradient_checkpointing_disable() in transformers); "
            "compute=Compute(max_rows=...) keeps memory small instead"
        )

    if any(getattr(module, "gradient_checkpointing", False) is True for module in model.modules()):
        refuse()

    class Refused:
        apply = staticmethod(refuse)

    module: Any = torch.utils.checkpoint
    kept = module._checkpoint_without_reentrant_generator, module.CheckpointFunction
    try:
        module._checkpoint_without_reentrant_generator, module.CheckpointFunction = refuse, Refused
        yield
    finally:
        module._checkpoint_without_reentrant_generator, module.CheckpointFunction = kept


@contextmanager
def as_before(model: nn.Module) -> Iterator[None]:
    """Put buffers and attributes back if the model turns out to be one that is refused."""
    kept = [(buffer, buffer.clone()) for buffer in model.buffers()]
    held = [(module, dict(vars(module))) for module in model.modules()]
    try:
        yield
    except BaseException:
        for module, attributes in held:
            for name in [
                name for name, value in vars(module).items() if _is_new(value, attributes.get(name))
            ]:
                if name in attributes:
                    vars(module)[name] = attributes[name]
                else:
                    del vars(module)[name]
        with torch.no_grad():
            for buffer, before in kept:
                buffer.copy_(before)
        raise


def _is_new(value: Any, before: Any) -> bool:
    """Whether tensors were put where there were others, or none."""
    return value is not before and any(True for _ in _tensors_in(value))


def check_finite(losses: Tensor) -> None:
    """Refuse if the trial already fails on numbers."""
    if not bool(torch.isfinite(losses).all()):
        raise InvalidParameter(
            "the loss must be finite, on the first records of the data it is not; look for NaN "
            "or infinity in the data and in the model's parameters"
        )


def check_separate(losses: Tensor, edges: list[torch.autograd.graph.GradientEdge]) -> None:
    """Refuse if the loss of a record depends on what a layer computed for another.

    A layer that has one row for each record, but in an order of its own, is only unsuitable.
    """
    for record in range(len(losses)):
        found = torch.autograd.grad(losses[record], edges, allow_unused=True, retain_graph=True)
        for errors in found:
            if errors is None:
                continue
            rows = errors.flatten(1).count_nonzero(1).nonzero().flatten().tolist()
            if len(rows) > 1:
                raise NotCovered(MIXED)
            if rows not in ([], [record]):
                raise Unsuitable(REORDERED)


def check_scaling(
    losses: Tensor, edges: list[torch.autograd.graph.GradientEdge], scales: Tensor
) -> None:
    """Refuse if the errors of a layer's rows do not scale with the losses of their records."""
    scales = scales.to(losses.dtype)
    plain = torch.autograd.grad(losses.sum(), edges, allow_unused=True, retain_graph=True)
    total = (losses * scales).sum()
    scaled = torch.autograd.grad(total, edges, allow_unused=True, retain_graph=True)
    for one, other in zip(plain, scaled, strict=True):
        if one is None or other is None:
            continue
        expected = one.flatten(1) * scales.to(one.dtype)[:, None]
        gap = (other.flatten(1) - expected).abs().amax(1)
        if bool((gap > _SCALING * expected.abs().amax(1) + _FLUSHED).any()):
            raise NotCovered(MIXED)


#: By how much a row of errors may miss its scale, relative to its largest entry.
_SCALING = 2.0**-10
#: Errors below this are zero to some processors and not to others: float32 ends at 2^-126, and
#: up to eight times that is compared with it. No clipping norm is that small.
_FLUSHED = 2.0**-120
MIXED = (
    "the loss of one record depends on other records of the batch; the first dimension of every "
    "layer's output must be the record, and no operation may mix records"
)
REORDERED = "a layer sees the records of a batch in another order than they came"


def per_record(losses: Tensor, rows: int) -> Tensor:
    """Check that the loss has one value for every record."""
    if not isinstance(losses, Tensor) or losses.shape != (rows,):
        got = (
            f"shape {tuple(losses.shape)}"
            if isinstance(losses, Tensor)
            else f"a {type(losses).__name__}"
        )
        raise InvalidParameter(
            f"loss must return one value per record (reduction='none', then a sum or mean over "
            f"each record's own dimensions): shape ({rows},), got {got}"
        )
    return losses


# Modules and losses that are known to work on each record by itself.
#
# Whatever is not listed here (a forward of the user's own, a hook, a softmax over the first
# dimension) may look at other records in ways that a trial does not show. A model with such a part
# is run by ``torch.func.vmap``, in which every record is alone by construction.


_MODULES: tuple[type[nn.Module], ...] = (
    nn.Sequential, nn.Identity, nn.Linear, nn.Conv2d, nn.Embedding, nn.LayerNorm, nn.GroupNorm,
    nn.RMSNorm, nn.Dropout, nn.AlphaDropout, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU,
    nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Sigmoid, nn.LogSigmoid, nn.Tanh, nn.Softplus,
    nn.Softsign, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.PReLU, nn.MaxPool2d, nn.AvgPool2d,
    nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.ZeroPad2d, nn.BatchNorm1d, nn.BatchNorm2d,
    nn.BatchNorm3d,
)  # fmt: skip
_FORWARDS: set[Any] = {module.forward for module in _MODULES}
#: What a class may have of its own without running differently.
_HARMLESS = {
    "__init__", "__module__", "__qualname__", "__doc__", "__annotations__", "__parameters__",
    "__firstlineno__", "__static_attributes__", "__annotate__", "__annotate_func__",
    "__annotations_cache__", "__orig_bases__", "__constants__",
}  # fmt: skip
#: Each returns one value per record, from that record's outputs and target.
_LOSSES = (
    nn.CrossEntropyLoss, nn.NLLLoss, nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss,
    nn.BCELoss, nn.BCEWithLogitsLoss,
)  # fmt: skip


def keeps_apart(model: nn.Module, loss: Any) -> bool:
    """Whether every module of the model, and the loss, is known to keep records apart.

    BatchNorm is listed for its fixed statistics; while it trains it is refused elsewhere.
    """
    if hooks_everywhere():
        return False
    return _known(loss, _LOSSES) and all(_separate(module) for module in model.modules())


def _separate(module: nn.Module) -> bool:
    if any(getattr(module, hooks) for hooks in HOOKS) or not _as_torch_made_it(module):
        return False
    if parametrize.is_parametrized(module):
        return False
    if type(module).forward is nn.Flatten.forward:
        return int(getattr(module, "start_dim", 0)) >= 1
    return type(module).forward in _FORWARDS


def _known(loss: Any, kinds: tuple[type[Any], ...]) -> bool:
    return (
        type(loss) in kinds
        and not any(getattr(loss, hooks) for hooks in HOOKS)
        and _as_torch_made_it(loss)
    )


def _as_torch_made_it(module: nn.Module) -> bool:
    """Whether nothing but torch's own code runs in a call of this module.

    Neither the module nor a class of its own may replace a method or an attribute; a class that
    is only made in another way is the one it comes from.
    """
    own = type(module).__mro__[: type(module).__mro__.index(_torchs(type(module)))]
    values = [*module._parameters.values(), *module._buffers.values()]
    return (
        not any(callable(value) for value in vars(module).values())
        and all(set(vars(kind)) <= _HARMLESS for kind in own)
        and all(type(x) in (nn.Parameter, Tensor, type(None)) for x in values)
    )


def _torchs(kind: type[nn.Module]) -> type[nn.Module]:
    """The class of torch that this one is, or comes from first."""
    return next(base for base in kind.__mro__ if base.__module__.startswith("torch."))


# Every record alone, all at once: a forward pass under ``torch.func.vmap``, followed from outside.
#
# Inside, the model sees one record; it cannot see another, whatever it does. The tensors behind it
# hold all records, and torch's ordinary graph runs through them, so that errors of layers can be
# computed as in any other backward pass.


#: From outputs and targets, or from outputs and a dictionary, to one value per record; None for the
#: loss that the model returns itself.
Loss = Callable[[Any, Any], Tensor] | None


def losses_of(
    model: nn.Module,
    loss: Loss,
    rows: Rows,
    values: Sequence[Tensor],
    run: Callable[..., Any] | None = None,
) -> Tensor:
    """The losses of records like ``rows`` with these values, inputs first and the target last.

    Dictionaries are given to the model by name, as far as it takes their entries; ``run`` is
    called in its place. A loss of torch is given the logits where a model returns an object.
    """
    run = model if run is None else run
    batch = rows.batch(values) if rows.names else {}
    torchs = type(loss) in _LOSSES
    if batch:
        labels = batch.get("labels")
        if torchs and labels is None:
            raise InvalidParameter("loss must be a function of (outputs, batch) without 'labels'")
        known = inspect.signature(model.forward).parameters
        every = any(one.kind is one.VAR_KEYWORD for one in known.values())
        outputs = run(
            **{
                name: value
                for name, value in batch.items()
                if (every or name in known) and not (torchs and name == "labels")
            }
        )
    else:
        *inputs, labels = values
        outputs = run(*inputs)
    if loss is None:
        return _own_loss(outputs)
    if torchs:
        logits = outputs if isinstance(outputs, Tensor) else getattr(outputs, "logits", outputs)
        return loss(logits, labels)
    return loss(outputs, batch or labels)


def _own_loss(outputs: Any) -> Tensor:
    """The loss in what a model has returned for one record."""
    found = getattr(outputs, "loss", None)
    if not isinstance(found, Tensor) or found.numel() != 1:
        raise InvalidParameter(
            "model must return an object with a loss where loss is None: give it dictionaries with "
            "'labels', or state a loss"
        )
    return found.reshape(1)


def losses_alone(
    model: nn.Module,
    loss: Loss,
    rows: Rows,
    randomness: str = "different",
    begin: Callable[[Tensor], object] = lambda zero: None,
) -> Tensor:
    """The loss of every record, each computed as if there were no other.

    ``begin`` is called inside, with a zero that every record has of its own.
    """

    def one(zero: Tensor, *record: Tensor) -> Tensor:
        begin(zero)
        return per_record(losses_of(model, loss, rows, [x[None] for x in record]), 1)[0]

    zeros = torch.zeros(len(rows.target), device=rows.target.device)
    mapped = torch.func.vmap(one, randomness=randomness)
    try:
        with quiet(), traced():
            found: Tensor = mapped(zeros, *rows.inputs, rows.target)
    except MustdpError:
        raise
    except Exception as problem:
        raise Unsuitable(
            "torch.func cannot run the model one record at a time: "
            + line_of(problem)
            + place_of(problem, model, loss)
        ) from problem
    return found


@dataclass(frozen=True)
class Behind:
    """What a tensor inside holds for all records, and the dimension that counts them.

    Inside it has one row, that of the record which is alone there.
    """

    values: Tensor
    place: int


def records_first(values: Tensor, place: int) -> Tensor:
    """Values like those behind a tensor, with one row for each record."""
    return values.movedim(place, 0).squeeze(1)


def is_batched(value: Tensor) -> bool:
    """Whether a tensor inside is one for each record, or one for all."""
    functorch: Any = _functorch
    return bool(functorch.is_batchedtensor(value))


def behind(value: Tensor, *, whole: bool = False) -> Behind | None:
    """Look behind a tensor; None if it does not have exactly one row for every record.

    If it is ``whole``, all of it belongs to the record, however many rows it has.
    """
    functorch: Any = _functorch
    if not is_batched(value) or (len(value) != 1 and not whole):
        return None
    values: Tensor = functorch.get_unwrapped(value)
    return None if functorch.is_batchedtensor(values) else Behind(values, _place(value))


def _place(value: Tensor) -> int:
    functorch: Any = _functorch
    place: int = functorch.maybe_get_bdim(value)
    return place


#: Modules of transformers that ask, by ``is_tracing``, whether a tensor's values may be looked at.
_ASKING = ("transformers.masking_utils", "transformers.modeling_attn_mask_utils")


@contextmanager
def traced() -> Iterator[None]:
    """Let transformers know that values inside cannot be looked at.

    It leaves out a mask that hides nothing, which is a decision by values. While another library
    traces a model it keeps the mask, and so it does here.
    """
    loaded: list[Any] = [sys.modules.get(name) for name in _ASKING]
    asking = [module for module in loaded if hasattr(module, "is_tracing")]
    usual = [(module, module.is_tracing) for module in asking]

    def replaced(own: Any) -> Any:
        return lambda tensor=None: (tensor is not None and is_batched(tensor)) or own(tensor)

    try:
        for module, own in usual:
            module.is_tracing = replaced(own)
        yield
    finally:
        for module, own in usual:
            module.is_tracing = own


@contextmanager
def quiet() -> Iterator[None]:
    """Without torch's remarks on operations that it runs record by record itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop")
        yield


#: What torch calls the things that it cannot run for one record at a time, and what to write.
_INSTEAD = (
    (
        "calling .item()",
        "the code reads a number off a tensor (.item(), float or int of a tensor); keep it a "
        "tensor, and write torch.where(condition, one, other) where it decides something",
    ),
    (
        "control flow",
        "the code decides by the values of a record (if, while); write "
        "torch.where(condition, one, other)",
    ),
    (
        "dynamic shape",
        "the shape of a result depends on the values of a record (nonzero, x[mask]); multiply by "
        "the mask, or write torch.where(mask, x, 0)",
    ),
)


def line_of(problem: Exception) -> str:
    """What torch says, in one line; of other errors, which may quote data, only the kind."""
    said = " ".join(str(problem).split())
    if not (isinstance(problem, RuntimeError) and "vmap" in said):
        return type(problem).__name__
    return next((instead for part, instead in _INSTEAD if part in said), said[:300])


def place_of(problem: BaseException, model: nn.Module, loss: Any = None) -> str:
    """The innermost layer that failed, and the last line that is not torch's: no value of either.

    Empty where neither is known.
    """
    names = {id(module): f"layer {name or 'model'}" for name, module in model.named_modules()}
    names[id(loss)] = "the loss"
    layer = line = ""
    for frame, number in traceback.walk_tb(problem.__traceback__):
        owner = frame.f_locals.get("self")
        if owner is not None and id(owner) in names:
            layer = f", in {names[id(owner)]} ({type(owner).__name__})"
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in ("torch", "mustdp"):
            line = f", line {number} of {Path(frame.f_code.co_filename).name}"
    return layer + line


# BatchNorm mixes the records of a batch; GroupNorm does the same work for each record alone.


def replace_batchnorm(model: nn.Module, groups: int = 32) -> nn.Module:
    """A copy of a model with a GroupNorm in the place of every BatchNorm.

    Scale and offset are kept; statistics of earlier data are forgotten. A layer of c channels gets
    the largest number of groups that divides both c and ``groups``.

    Parameters
    ----------
    model : torch.nn.Module
        The model, which is left as it is.
    groups : int, default=32
        The number of groups of a layer is the largest that divides this and its channels.

    Returns
    -------
    torch.nn.Module
        The copy.

    Raises
    ------
    NotCovered
        A lazy layer does not know its channels yet.

    Examples
    --------
    >>> replace_batchnorm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))[1].num_groups
    8
    """
    groups = checks.integer("groups", groups, 1)
    changed = copy.deepcopy(model)
    if isinstance(changed, nn.modules.batchnorm._BatchNorm):
        return _group_norm("model", changed, groups)
    for name, parent in list(changed.named_modules()):
        for child, module in list(parent.named_children()):
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                whole = f"{name}.{child}" if name else child
                setattr(parent, child, _group_norm(whole, module, groups))
    return changed


def _group_norm(name: str, layer: Any, groups: int) -> nn.GroupNorm:
    if not int(layer.num_features) > 0:  # a lazy layer
        raise NotCovered(f"layer {name} does not know its channels yet; run the model once")
    channels = int(layer.num_features)
    found = nn.GroupNorm(math.gcd(channels, groups), channels, layer.eps, affine=layer.affine)
    if layer.affine:
        found.weight, found.bias = layer.weight, layer.bias
    return found.train(layer.training)
