"""The clipped sum of one piece as a CUDA graph, so that small models do not wait for Python.

A graph runs the kernels again that it was captured from, on the same memory. It takes no notice of
what Python would decide anew, so only models are captured that consist of torch's own modules, and
a graph is used as long as everything that could decide is what it was (:func:`settings_of`). It
keeps what each record's contribution is made of, so that places are tried on the graph itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mustdp.training.networks.bookkeeping import Contributions
from mustdp.training.networks.devices import full_precision, precision_settings
from mustdp.training.networks.loaders import Rows

#: Bytes that a graph may keep of what contributions are made of.
_MOST_KEPT = 1 << 28
#: Runs before the capture, in which libraries set up what they need.
_WARM = 2


@dataclass
class Totals:
    """What is added up over the pieces of a batch; ``sums`` by the parameters' identity."""

    sums: dict[int, Tensor]
    loss: Tensor
    bad: Tensor
    numbers: Tensor

    @classmethod
    def empty(cls, device: torch.device, numbers: int) -> Totals:
        """Nothing yet."""
        zero = torch.zeros(1 + numbers, dtype=torch.float64, device=device)
        bad = torch.zeros((), dtype=torch.int64, device=device)
        return cls({}, zero[0], bad, zero[1:])


#: Adds the contributions of a piece, with their counts, to totals.
Add = Callable[[Rows, Tensor, Totals], Contributions]


class PieceGraph:
    """Adds a piece of one shape to totals of its own."""

    def __init__(
        self, add: Add, rows: Rows, parameters: list[nn.Parameter], settings: Callable[[], Any]
    ) -> None:
        device = rows.target.device
        self._rows = rows.copied()
        self._counts = torch.ones(len(rows.target), dtype=torch.float64, device=device)
        self._flat = torch.zeros(
            sum(p.numel() for p in parameters) + 1, dtype=torch.float64, device=device
        )
        *parts, loss = torch.split(self._flat, [*(p.numel() for p in parameters), 1])
        sums = {id(p): part.view_as(p) for p, part in zip(parameters, parts, strict=True)}
        bad = torch.zeros((), dtype=torch.int64, device=device)
        self.totals = Totals(sums, loss[0], bad, self._flat[:0])
        self._settings, self._as_captured = settings, settings()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            found = add(self._rows, self._counts, self.totals)
            with torch.no_grad(), full_precision(device):
                self._results = found.by_record()
        self.terms = found.terms

    def begin(self) -> None:
        """Nothing is added up yet."""
        self._flat.zero_()
        self.totals.bad.zero_()

    def takes(self, rows: Rows) -> bool:
        """Whether this piece has the shape, and all settings are as they were."""
        same: bool = _shapes(rows) == _shapes(self._rows)
        return same and bool(self._settings() == self._as_captured)

    def add(self, rows: Rows, counts: Tensor) -> None:
        """Add a piece to the totals."""
        for own, given in zip(_tensors(self._rows), _tensors(rows), strict=True):
            own.copy_(given)
        self._counts.copy_(counts)
        self._graph.replay()

    def results(self, rows: Rows) -> list[Tensor]:
        """All that decides what these records contribute, records first; totals stay."""
        kept, bad = self._flat.clone(), self.totals.bad.clone()
        self.add(rows, torch.ones_like(self._counts))
        self._flat.copy_(kept)
        self.totals.bad.copy_(bad)
        return self._results


def captured(
    add: Add, rows: Rows, parameters: list[nn.Parameter], settings: Callable[[], Any]
) -> PieceGraph | None:
    """The graph of pieces like this one; None where it would keep too much, or cannot be made."""
    device = rows.target.device
    counts = torch.ones(len(rows.target), dtype=torch.float64, device=device)
    cuda: Any = torch.cuda
    stream = cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    kept = 0
    with torch.cuda.stream(stream):
        for _ in range(_WARM):
            found = add(rows.copied(), counts, Totals.empty(device, 0))
            with torch.no_grad(), full_precision(device):
                kept = sum(x.numel() * x.element_size() for x in found.by_record())
            del found
            if kept > _MOST_KEPT:
                break
    torch.cuda.current_stream(device).wait_stream(stream)
    if kept > _MOST_KEPT:
        return None
    try:
        return PieceGraph(add, rows, parameters, settings)
    except RuntimeError:  # something in it waits for the GPU
        torch.cuda.synchronize(device)
        return None


#: Attributes of a module that are compared by what they are.
_PLAIN = (bool, int, float, str, tuple, type(None))


def settings_of(model: nn.Module, loss: Any) -> Any:
    """What decides which kernels run, beside shapes: modules, tensors and torch's own settings."""
    modules = [*model.modules(), *(loss.modules() if isinstance(loss, nn.Module) else ())]
    attributes = [
        (type(m), type(m).forward, [(k, v) for k, v in vars(m).items() if isinstance(v, _PLAIN)])
        for m in modules
    ]
    tensors = [
        (x.data_ptr(), x.dtype, x.shape, x.stride(), x.requires_grad)
        for m in modules
        for x in (*m._parameters.values(), *m._buffers.values())
        if x is not None
    ]
    return attributes, tensors, precision_settings()


def _tensors(rows: Rows) -> tuple[Tensor, ...]:
    return (*rows.inputs, rows.target)


def _shapes(rows: Rows) -> Any:
    kinds = [(x.shape, x.dtype, x.device) for x in _tensors(rows)]
    return kinds, rows.names, rows.weights is None
