"""Conv2d: a linear layer on the patches of an image, one place for every patch.

Patches are many times larger than the image, so norms are taken a few records at a time. The
weighted sum is the gradient that torch computes anyway, with the errors scaled beforehand.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from mustdp.training.networks.separate import Unsuitable
from mustdp.training.networks.shares import Products, Share, trains, wide

#: Numbers written out at a time: the patches, and what is computed from them.
_ON_CPU, _ON_GPU = 1 << 21, 1 << 28


class Patches(Share):
    """The contributions of the records to a convolution."""

    def __init__(self, layer: nn.Conv2d, given: Tensor, errors: Tensor) -> None:
        if given.ndim != 4:
            raise Unsuitable(
                f"a Conv2d layer takes images without a record dimension: {given.shape}"
            )
        self._layer, self._errors = layer, wide(errors)
        self._given, self._padding = wide(given), (0, 0)
        if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
            mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
            around = layer._reversed_padding_repeated_twice
            self._given = functional.pad(self._given, around, mode)
        else:
            self._padding = (int(layer.padding[0]), int(layer.padding[1]))

    def squared_norms(self) -> Tensor:
        """A few records at a time."""
        weight = self._layer.weight
        one = weight[0].numel() * self._layer.groups * self._errors[0, 0].numel() + weight.numel()
        most = max(1, (_ON_GPU if self._errors.is_cuda else _ON_CPU) // one)
        starts = range(0, len(self._errors), most)
        return torch.cat([self._products(slice(k, k + most)).squared_norms() for k in starts])

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """The usual gradient of a convolution, of scaled errors."""
        layer = self._layer
        scaled = self._errors * weights.to(self._errors.dtype)[:, None, None, None]
        wanted = [False, trains(layer, "weight"), trains(layer, "bias")]
        _, weight, bias = torch.ops.aten.convolution_backward(
            scaled, self._given, layer.weight.detach().to(scaled.dtype), [layer.out_channels],
            layer.stride, self._padding, layer.dilation, False, [0, 0], layer.groups, wanted,
        )  # fmt: skip
        found = {"weight": weight, "bias": bias}
        return {name: found[name] for name in found if trains(layer, name)}

    def each(self) -> dict[str, Tensor]:
        """Every record's gradient, written out."""
        return self._products(slice(None)).each()

    def _products(self, rows: slice) -> Products:
        layer, errors = self._layer, self._errors[rows]
        patches = functional.unfold(
            self._given[rows], layer.kernel_size, layer.dilation, self._padding, layer.stride
        )
        grouped = patches.view(len(errors), layer.groups, -1, patches.shape[2])
        return Products(
            layer, grouped.mT, errors.reshape(*grouped.shape[:2], -1, grouped.shape[3]).mT
        )


def convolution(layer: nn.Conv2d, given: Tensor, errors: Tensor, _: object) -> Share:
    """The share of a Conv2d layer."""
    return Patches(layer, given, errors)
