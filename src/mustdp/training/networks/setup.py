"""What a trainer is given, checked in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mustdp.errors import InvalidParameter, MustdpError, NotCovered
from mustdp.numerics import checks
from mustdp.sampling.epochs import Epoch, Sampling
from mustdp.training.networks.alone import Loss
from mustdp.training.networks.bookkeeping import Masks
from mustdp.training.networks.clipping import Clipper, Trial
from mustdp.training.networks.record_by_record import trainable
from mustdp.training.networks.separate import as_before, refuse_mixing

_CLASSIFIES = (functional.cross_entropy, functional.nll_loss)


def bare(model: Any) -> nn.Module:
    """The model itself; the wrapper of DistributedDataParallel has no part in a private run."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        model = model.module
    if not isinstance(model, nn.Module):
        raise InvalidParameter(f"model must be a torch module, got {type(model).__name__}")
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise InvalidParameter(f"parameter {name} of the model has no shape yet: call it once")
    if not trainable(model):
        raise InvalidParameter("model must have parameters to train, all of them are frozen")
    return model


def read_device(device: Any, model: nn.Module) -> torch.device:
    """The device asked for, or the one the model is on."""
    if device is None:
        return next(model.parameters()).device
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise InvalidParameter(f"device must be one that torch knows, got {device!r}") from None
    if found.type == "cuda" and found.index is None:
        if not torch.cuda.is_available():
            raise InvalidParameter("device is 'cuda', but torch finds no such device here")
        found = torch.device("cuda", torch.cuda.current_device())
    return found


def read_mixed(dtype: Any) -> torch.dtype | None:
    """The format of mixed precision; float16 would need its losses scaled, which is not done."""
    if dtype is not None and dtype != torch.bfloat16:
        raise InvalidParameter(f"mixed_precision must be None or torch.bfloat16, got {dtype!r}")
    return torch.bfloat16 if dtype is not None else None


def read_schedule(every: str, scheme: Sampling) -> int:
    """After how many steps a learning-rate schedule moves on."""
    if checks.choice("scheduler_every", every, ("step", "epoch")) == "step":
        return 1
    if not isinstance(scheme, Epoch):
        raise InvalidParameter(
            "scheduler_every must be 'step' for a scheme that draws every batch anew, got 'epoch'"
        )
    return scheme.bins


def steps_left(steps: int | None, left: int, planned: int) -> int:
    """How many steps are to be made, all that are ``left`` for None; never more than these."""
    if steps is None:
        if not left:
            raise InvalidParameter(
                f"the budget is used up: all of its {planned} steps are made, and the model is "
                "the trained one; more steps need a budget of their own"
            )
        return left
    wanted = checks.integer("steps", steps, 0)
    if wanted > left:
        allowed = f"must be at most {left}, which is left of the {planned} steps of the budget"
        raise InvalidParameter.refusing("steps", allowed, wanted)
    return wanted


def check_optimizer(optimizer: Any, model: nn.Module) -> None:
    """An optimiser of this model's parameters, all of them, that takes one gradient a step."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidParameter(
            f"optimizer must be a torch.optim optimiser, got {type(optimizer).__name__}"
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise NotCovered("LBFGS asks for several gradients in one step, each of them a release")
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not held <= {id(p) for p in model.parameters()}:
        raise InvalidParameter("optimizer must hold parameters of the model only")
    for name, parameter in trainable(model).items():
        if id(parameter) not in held:
            raise InvalidParameter(
                f"optimizer must hold every parameter that is to be trained, {name} is missing; "
                "freeze it with requires_grad_(False) or add it"
            )


def check_targets(
    model: nn.Module, loss: Any, inputs: tuple[Tensor, ...], target: Tensor | None
) -> None:
    """Class labels must be below the number of outputs, all of them, before the first step."""
    known = isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss) or loss in _CLASSIFIES
    if not known or target is None or target.is_floating_point():
        return
    with torch.no_grad():
        outputs = model(*inputs)
    if not isinstance(outputs, Tensor) or outputs.ndim < 2:
        return
    classes = outputs.shape[1]
    counted = target[target != getattr(loss, "ignore_index", -100)]
    if counted.numel() and not (int(counted.min()) >= 0 and int(counted.max()) < classes):
        raise InvalidParameter(
            f"targets must be from 0 to {classes - 1}, as the model has {classes} outputs, got "
            "others"
        )


def try_out(
    model: nn.Module,
    loss: Loss,
    trials: Sequence[Trial],
    target: Tensor | None,
    masks: Masks,
    mixed: torch.dtype | None,
) -> Clipper:
    """What clips the gradients of the model, tried on a few records; it is left as it was."""
    refuse_mixing(model.named_modules())
    try:
        with as_before(model):
            with masks():
                check_targets(model, loss, trials[0].rows.copied().inputs, target)
            return Clipper(model, loss, trials, masks, mixed)
    except MustdpError:
        raise
    except (RuntimeError, IndexError, TypeError, ValueError) as problem:
        raise InvalidParameter(
            "model and loss fail on the first records of the data that they are tried on, "
            f"with a {type(problem).__name__}"
        ) from problem
