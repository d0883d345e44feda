"""Recurrent layers, unrolled: in every step of time each of them is two linear layers.

torch runs them in one piece, which does not show what a step was given and which
``torch.func.vmap`` does not take. Here they are written out in time. The linear layers inside leave
notes like any other, one for each call, and the calls of a weight are joined afterwards: its
contributions are sums over time. The equations are those of torch's documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mustdp.errors import NotCovered
from mustdp.training.networks.separation import Unsuitable

#: Applies the weight and the bias of these names, and leaves a note of it.
Affine = Callable[[str, str, Tensor], Tensor]
State = tuple[Tensor, ...]
Step = Callable[[Tensor, Tensor, State], State]


class Inner(nn.Module):  # type: ignore[misc, unused-ignore]
    """A linear layer inside another one, made of the parameters of these names."""

    def __init__(self, module: nn.Module, weight: str, bias: str) -> None:
        super().__init__()
        owner, _, name = weight.rpartition(".")
        inside = module.get_submodule(owner)
        self.weight: nn.Parameter = getattr(inside, name)
        self.bias: nn.Parameter | None = getattr(inside, bias.rpartition(".")[2], None)
        self.out_features, self.in_features = (int(size) for size in self.weight.shape)

    def forward(self, given: Tensor) -> Tensor:
        """As in any linear layer."""
        return functional.linear(given, self.weight, self.bias)


def is_recurrent(module: nn.Module) -> bool:
    """Whether the module is one that can be unrolled; a forward of its own makes it another."""
    return type(module).forward in _FORWARDS and "forward" not in vars(module)


def unrolled(module: nn.Module, affine: Affine) -> Callable[..., Any]:
    """The forward pass of the module, step by step."""

    def forward(given: Any, state: Any = None, hx: Any = None) -> Any:
        state = hx if state is None else state
        if isinstance(module, nn.RNNBase):
            return _layers(module, affine, given, state)
        return _cell(module, affine, given, state)

    return forward


def _layers(module: nn.RNNBase, affine: Affine, given: Any, state: Any) -> Any:
    if not isinstance(given, Tensor):
        raise NotCovered(PACKED)
    if given.ndim != 3:
        raise Unsuitable("a recurrent layer takes sequences without a record dimension")
    x = given if module.batch_first else given.transpose(0, 1)  # records, time, numbers
    sides = 2 if module.bidirectional else 1
    first = _states(module, x, state, module.num_layers * sides)
    last: list[State] = []
    for layer in range(module.num_layers):
        found = []
        for side in range(sides):
            name = f"_l{layer}" + ("_reverse" if side else "")
            values, state = _in_time(module, affine, name, x, first[len(last)], backwards=side == 1)
            found.append(values)
            last.append(state)
        x = torch.cat(found, -1)
        if layer < module.num_layers - 1:
            x = functional.dropout(x, module.dropout, module.training)
    final = tuple(torch.stack(parts) for parts in zip(*last, strict=True))
    return x if module.batch_first else x.transpose(0, 1), final if len(final) > 1 else final[0]


def _in_time(
    module: nn.RNNBase, affine: Affine, name: str, x: Tensor, state: State, backwards: bool
) -> tuple[Tensor, State]:
    """One layer in one direction: all that it returns, and its last state."""
    step, projected = _step(module), bool(module.proj_size)
    from_inputs = affine(f"weight_ih{name}", f"bias_ih{name}", x).unbind(1)
    found = []
    for one in reversed(from_inputs) if backwards else from_inputs:
        state = step(one, affine(f"weight_hh{name}", f"bias_hh{name}", state[0]), state)
        if projected:
            state = (affine(f"weight_hr{name}", "", state[0]), *state[1:])
        found.append(state[0])
    return torch.stack(found[::-1] if backwards else found, 1), state


def _states(module: nn.RNNBase, x: Tensor, state: Any, count: int) -> list[State]:
    """A state for every layer and direction; zeros belong to the record as well."""
    sizes = [module.proj_size or module.hidden_size]
    if isinstance(module, nn.LSTM):
        sizes.append(module.hidden_size)
    zeros = [x.new_zeros(count, len(x), size) for size in sizes]
    if state is None:
        return list(zip(*zeros, strict=True))
    parts = state if isinstance(module, nn.LSTM) else (state,)
    if not all(isinstance(p, Tensor) and p.ndim == 3 for p in parts):
        raise Unsuitable("a recurrent layer takes a state without a record dimension")
    return list(zip(*(p + zero for p, zero in zip(parts, zeros, strict=True)), strict=True))


def _cell(module: Any, affine: Affine, given: Any, state: Any) -> Any:
    """One step of time, called by the model itself."""
    if not isinstance(given, Tensor) or given.ndim != 2:
        raise Unsuitable("a recurrent cell takes vectors without a record dimension")
    several = isinstance(module, nn.LSTMCell)
    zeros = given.new_zeros(len(given), module.hidden_size)
    parts = (zeros, zeros) if several else (zeros,)
    if state is not None:
        parts = tuple(p + zeros for p in (state if several else (state,)))
    from_inputs = affine("weight_ih", "bias_ih", given)
    found = _step(module)(from_inputs, affine("weight_hh", "bias_hh", parts[0]), parts)
    return found if several else found[0]


def _step(module: nn.Module) -> Step:
    if isinstance(module, nn.LSTM | nn.LSTMCell):
        return _lstm
    if isinstance(module, nn.GRU | nn.GRUCell):
        return _gru
    bend = torch.relu if module.nonlinearity == "relu" else torch.tanh
    return lambda a, b, _: (bend(a + b),)


def _lstm(from_inputs: Tensor, from_state: Tensor, state: State) -> State:
    taken, kept, new, shown = (from_inputs + from_state).chunk(4, -1)
    cell = kept.sigmoid() * state[1] + taken.sigmoid() * new.tanh()
    return shown.sigmoid() * cell.tanh(), cell


def _gru(from_inputs: Tensor, from_state: Tensor, state: State) -> State:
    reset, kept, new = from_inputs.chunk(3, -1)
    reset_too, kept_too, new_too = from_state.chunk(3, -1)
    candidate = (new + (reset + reset_too).sigmoid() * new_too).tanh()
    return (candidate + (kept + kept_too).sigmoid() * (state[0] - candidate),)


_FORWARDS: set[Any] = {
    module.forward for module in (nn.RNN, nn.LSTM, nn.GRU, nn.RNNCell, nn.LSTMCell, nn.GRUCell)
}
PACKED = (
    "packed sequences put the steps of several records into one row after another, by the lengths "
    "of all of them; pad the sequences to one length and mask the loss instead"
)
