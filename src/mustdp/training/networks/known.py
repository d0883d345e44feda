"""Modules and losses that are known to work on each record by itself.

Whatever is not listed here (a forward written by somebody else, a hook, a softmax over the first
dimension) may look at other records in ways that a trial does not show. A model with such a part
is run by ``torch.func.vmap``, in which every record is alone by construction.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.utils import parametrize

from mustdp.training.networks.separate import HOOKS, hooks_everywhere

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
