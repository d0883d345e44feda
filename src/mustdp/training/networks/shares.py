"""What each record contributes to the gradient of one layer, without writing it all down.

A layer's gradient is a sum over records. Clipping needs the norm of every summand and then a
weighted sum of them, never the summands themselves ("book-keeping": Bu, Wang, Zha & Karypis 2023,
arXiv 2210.00038v4). Both follow from what the layer was given and from the gradient of the loss
with respect to what it returned. Where they do not, the summands are kept: :class:`Kept`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

#: Rounding of one float32 product, for the norms that are differences of larger numbers.
_ROUNDOFF = 2.0**-22


class Share(ABC):
    """The contributions of the records of one piece to one call of one layer."""

    @abstractmethod
    def squared_norms(self) -> Tensor:
        """Squared norm of every record's contribution, over all parameters of the layer."""

    @abstractmethod
    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """Sum of the contributions, each times its weight, by parameter name."""

    @abstractmethod
    def each(self) -> dict[str, Tensor]:
        """Every record's contribution, by parameter name; records first."""


class Kept(Share):
    """Contributions that are small, or that nothing shorter is known for: kept as they are."""

    def __init__(self, gradients: dict[str, Tensor]) -> None:
        self._gradients = gradients

    def squared_norms(self) -> Tensor:
        """Sum of squares, record by record."""
        return torch.stack([_squares(g.flatten(1)) for g in self._gradients.values()]).sum(0)

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """Weighted sum over the records."""
        return {
            name: torch.mv(g.flatten(1).T, weights.to(g.dtype)).view(g.shape[1:])
            for name, g in self._gradients.items()
        }

    def each(self) -> dict[str, Tensor]:
        """The contributions themselves."""
        return self._gradients


class Products:
    """A weight used at several places t of a record: its gradient is ``sum_t d_t a_t'``.

    ``inputs`` has the shape (records, groups, places, p), ``errors`` (records, groups, places, q).
    With one place the norm is |a| |d|. With more it is read off the Gram matrices of a and d (Bu,
    Mao & Xu 2022, arXiv 2205.10683v3, section 4). That is a difference of large numbers, so its
    rounding is added on: a norm may come out larger than it is, never smaller.
    """

    def __init__(self, layer: nn.Linear | nn.Conv2d, inputs: Tensor, errors: Tensor) -> None:
        self.inputs, self.errors = inputs, errors
        self.weight, self.bias = trains(layer, "weight"), trains(layer, "bias")
        self._shape: torch.Size = layer.weight.shape

    def squared_norms(self, known: Tensor | None = None) -> Tensor:
        """Of weight and bias together; ``known``: the squared norms of the inputs, if at hand."""
        if self.inputs.shape[2] == 1:
            squares = _squares(self.errors)
            if self.weight:
                a = _squares(self.inputs) if known is None else known.view_as(squares)
                squares *= a + float(self.bias)
            return squares.flatten(1).sum(1) if squares.shape[1] > 1 else squares.flatten()
        if not self.bias:
            return self._weight_squares()
        squares = _squares(self.errors.sum(2).flatten(1))
        return squares + self._weight_squares() if self.weight else squares

    def _weight_squares(self) -> Tensor:
        a = self.inputs @ self.inputs.mT
        d = self.errors @ self.errors.mT
        size = (_lengths(self.inputs) * _lengths(self.errors)).sum(2).square().sum(1)
        return (a * d).sum((1, 2, 3)).clamp_min(0) + _ROUNDOFF * size

    def each(self) -> dict[str, Tensor]:
        """Every record's gradient, written out."""
        found: dict[str, Tensor] = {}
        if self.weight:
            found["weight"] = (self.errors.mT @ self.inputs).view(-1, *self._shape)
        if self.bias:
            found["bias"] = self.errors.sum(2).flatten(1)
        return found


def is_kept(places: int, p: int, q: int) -> bool:
    """Whether a weight of p by q used at several places is better written out for every record.

    That is the least work, as nothing has to be computed again for the sum; it takes p q numbers,
    which is no more than twice what goes in.
    """
    return places > 1 and p * q <= 2 * places * (p + q)


def trains(module: nn.Module, name: str) -> bool:
    """Whether the module has a parameter of that name and it is to be trained."""
    parameter = getattr(module, name, None)
    return parameter is not None and bool(parameter.requires_grad)


def wide(values: Tensor) -> Tensor:
    """At least float32: clipping is never done in half precision."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def shortened(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Forward passes in a shorter format; for None they stay as they are."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Products in true float32 on a GPU, where the default may be a shortened format."""
    if device.type != "cuda":
        yield
        return
    matmul: Any = torch.backends.cuda.matmul
    convolution: Any = torch.backends.cudnn
    settings: list[tuple[Any, str, Any]] = [
        (matmul, "allow_tf32", False),
        (convolution, "allow_tf32", False),
    ]
    if hasattr(convolution, "conv"):
        settings = [
            (matmul, "fp32_precision", "ieee"),
            (convolution.conv, "fp32_precision", "ieee"),
        ]
    before = [getattr(place, name) for place, name, _ in settings]
    try:
        for place, name, value in settings:
            setattr(place, name, value)
        yield
    finally:
        for (place, name, _), value in zip(settings, before, strict=True):
            setattr(place, name, value)


def _lengths(vectors: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=-1)
    return lengths


def _squares(vectors: Tensor) -> Tensor:
    return _lengths(vectors).square()
