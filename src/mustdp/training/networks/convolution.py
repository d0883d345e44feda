"""Conv2d: a linear layer on the patches of an image, one place for every patch.

Patches are many times larger than the image, so they are written out for a few records at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from mustdp.training.networks.precision import as_convolutions
from mustdp.training.networks.rounding import single, weighted_rows
from mustdp.training.networks.separate import Unsuitable
from mustdp.training.networks.shares import Kept, Products, Share, Sizes, is_kept, trains

#: Numbers written out at a time: the patches, and what is computed from them.
_ON_CPU, _ON_GPU = 1 << 21, 1 << 28


def convolution(layer: nn.Conv2d, given: Tensor, errors: Tensor) -> Share:
    """The share of a Conv2d layer."""
    share = Patches(layer, given, errors)
    q = layer.out_channels // layer.groups
    out = is_kept(errors[0, 0].numel(), layer.weight[0].numel(), q)
    return Kept(share.each()) if out else share


class Patches(Share):
    """A convolution with many weights and few places: norms first, then one matrix product."""

    def __init__(self, layer: nn.Conv2d, given: Tensor, errors: Tensor) -> None:
        if given.ndim != 4:
            raise Unsuitable(
                f"a Conv2d layer takes images without a record dimension: {given.shape}"
            )
        self._layer, self._errors = layer, single(errors)
        self._biases = self._errors.flatten(2).sum(2)
        around, mode = layer._reversed_padding_repeated_twice, layer.padding_mode
        self._given = functional.pad(single(given), around, "constant" if mode == "zeros" else mode)

    @property
    def terms(self) -> int:
        """One for each record and place."""
        return len(self._errors) * self._errors[0, 0].numel()

    def sizes(self) -> Sizes:
        """A few records at a time."""
        found = [part.sizes() for _, part in self._parts()]
        return Sizes(*(torch.cat([getattr(s, n) for s in found]) for n in ("squares", "absolute")))

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """Products of patches and scaled errors, a few records at a time.

        torch's own gradient of a convolution may be computed by transforms, whose rounding is not
        bounded term by term.
        """
        found: dict[str, Tensor] = {}
        layer = self._layer
        if trains(layer, "weight"):
            p, q = layer.weight[0].numel(), layer.out_channels // layer.groups
            total = weights.new_zeros(layer.groups, q, p)
            for rows, part in self._parts():
                scaled = part.errors * weights[rows, None, None, None]
                left = scaled.permute(1, 3, 0, 2).flatten(2)
                total.baddbmm_(left, part.inputs.permute(1, 0, 2, 3).flatten(1, 2).double())
            found["weight"] = total
        if trains(layer, "bias"):
            found["bias"] = weighted_rows(weights, self._biases)
        return found

    def each(self) -> dict[str, Tensor]:
        """Every record's gradient, written out."""
        layer, found = self._layer, {}
        if trains(layer, "weight"):
            records, groups = len(self._errors), layer.groups
            p, q = layer.weight[0].numel(), layer.out_channels // groups
            total = self._errors.new_empty(records, groups, q, p)
            with as_convolutions(total.device):
                for rows, part in self._parts():
                    left, right = part.errors.mT.flatten(0, 1), part.inputs.flatten(0, 1)
                    torch.bmm(left, right, out=total[rows].flatten(0, 1))
            found["weight"] = total.view(records, *layer.weight.shape)
        if trains(layer, "bias"):
            found["bias"] = self._biases
        return found

    def by_record(self) -> list[Tensor]:
        """Images and errors."""
        return [self._given, self._errors, self._biases]

    def _parts(self) -> Iterator[tuple[slice, Products]]:
        weight, groups = self._layer.weight, self._layer.groups
        one = weight[0].numel() * groups * self._errors[0, 0].numel() + weight.numel()
        most = max(1, (_ON_GPU if self._errors.is_cuda else _ON_CPU) // one)
        for start in range(0, len(self._errors), most):
            rows = slice(start, start + most)
            errors = self._errors[rows]
            errors = errors.reshape(len(errors), groups, -1, errors[0, 0].numel())
            yield rows, Products(self._layer, self._patches(rows).mT, errors.mT, self._biases[rows])

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
