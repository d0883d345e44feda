"""Conv2d: a linear layer on the patches of an image, one place for every patch.

Patches are many times larger than the image, so they are written out for a few records at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from mustdp.training.networks.separate import Unsuitable
from mustdp.training.networks.shares import Kept, Products, Share, is_kept, trains, wide

#: Numbers written out at a time: the patches, and what is computed from them.
_ON_CPU, _ON_GPU = 1 << 21, 1 << 28


def convolution(layer: nn.Conv2d, given: Tensor, errors: Tensor, _: object) -> Share:
    """The share of a Conv2d layer."""
    share = Patches(layer, given, errors)
    q = layer.out_channels // layer.groups
    out = is_kept(errors[0, 0].numel(), layer.weight[0].numel(), q)
    return Kept(share.each()) if out else share


class Patches(Share):
    """A convolution with many weights and few places: norms first, then the usual gradient."""

    def __init__(self, layer: nn.Conv2d, given: Tensor, errors: Tensor) -> None:
        if given.ndim != 4:
            raise Unsuitable(
                f"a Conv2d layer takes images without a record dimension: {given.shape}"
            )
        self._layer, self._errors = layer, wide(errors)
        around, mode = layer._reversed_padding_repeated_twice, layer.padding_mode
        self._given = functional.pad(wide(given), around, "constant" if mode == "zeros" else mode)

    def squared_norms(self) -> Tensor:
        """A few records at a time."""
        return torch.cat([part.squared_norms() for part in self._parts()])

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """The gradient that torch computes anyway, of scaled errors."""
        layer = self._layer
        scaled = self._errors * weights.to(self._errors.dtype)[:, None, None, None]
        wanted = [False, trains(layer, "weight"), trains(layer, "bias")]
        _, weight, bias = torch.ops.aten.convolution_backward(
            scaled, self._given, layer.weight.detach().to(scaled.dtype), [layer.out_channels],
            layer.stride, [0, 0], layer.dilation, False, [0, 0], layer.groups, wanted,
        )  # fmt: skip
        found = {"weight": weight, "bias": bias}
        return {name: found[name] for name in found if trains(layer, name)}

    def each(self) -> dict[str, Tensor]:
        """Every record's gradient, written out."""
        found = [part.each() for part in self._parts()]
        if len(found) == 1:
            return found[0]
        return {name: torch.cat([part[name] for part in found]) for name in found[0]}

    def _parts(self) -> Iterator[Products]:
        weight, groups = self._layer.weight, self._layer.groups
        one = weight[0].numel() * groups * self._errors[0, 0].numel() + weight.numel()
        most = max(1, (_ON_GPU if self._errors.is_cuda else _ON_CPU) // one)
        for start in range(0, len(self._errors), most):
            rows = slice(start, start + most)
            errors = self._errors[rows]
            errors = errors.reshape(len(errors), groups, -1, errors[0, 0].numel())
            yield Products(self._layer, self._patches(rows).mT, errors.mT)

    def _patches(self, rows: slice) -> Tensor:
        """(records, groups, p, places): every patch as a view, then written out in one go.

        ``functional.unfold`` does the same several times slower, and record by record on a GPU.
        """
        layer, images = self._layer, self._given[rows]
        record, channel, down, right = images.stride()
        size = (*images.shape[:2], *layer.kernel_size, *self._errors.shape[2:])
        (by, bx), (dy, dx) = layer.stride, layer.dilation
        steps = (record, channel, down * dy, right * dx, down * by, right * bx)
        patches = images.as_strided(size, steps)
        return patches.reshape(len(images), layer.groups, -1, self._errors[0, 0].numel())
