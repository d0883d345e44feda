"""The layers of a model that book-keeping follows: the outermost modules that own parameters."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn
from torch.nn.utils import parametrize

from mustdp.training.networks.layers import Rule, rule_for
from mustdp.training.networks.record_by_record import trainable


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
        own = any(p.requires_grad for p in module.parameters(recurse=False))
        if own or parametrize.is_parametrized(module):
            found[id(module)] = Layer(name, module, rule_for(module), parameters)
            return
        for child, inner in module.named_children():
            visit(f"{name}.{child}" if name else child, inner)

    visit("", model)
    return list(found.values())
