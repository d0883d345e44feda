"""What each record contributes to the gradient of one layer, without writing it all down.

A layer's gradient is a sum over records. Clipping needs the norm of every summand and then a
weighted sum of them, never the summands themselves ("book-keeping": Bu, Wang, Zha & Karypis 2023,
arXiv 2210.00038v4). Both follow from what the layer was given and from the gradient of the loss
with respect to what it returned. Where they do not, the summands are kept: :class:`Kept`.

A contribution is what real arithmetic makes of these float32 values. Norms are bounds from above,
and sums come with the numbers that bound their error (docs/derivations/clipping.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mustdp.training.networks.recurrent import Inner
from mustdp.training.networks.rounding import (
    gamma,
    row_squares,
    single,
    upward,
    weighted_rows,
)


@dataclass(frozen=True)
class Sizes:
    """Bounds from above, in double precision, one for each record.

    ``squares`` is the squared norm of the contribution. ``absolute`` is the squared norm of what
    it would be if no two of its terms cancelled, which is what the rounding of sums is relative
    to; at least ``squares``.
    """

    squares: Tensor
    absolute: Tensor


class Share(ABC):
    """The contributions of the records of one piece to one call of one layer."""

    @property
    @abstractmethod
    def terms(self) -> int:
        """How many products are added up in one entry of the weighted sum, at most."""

    @abstractmethod
    def sizes(self) -> Sizes:
        """How large every record's contribution is, over all parameters of the layer."""

    @abstractmethod
    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """Sum of the contributions, each times its weight, by parameter name; all double."""

    @abstractmethod
    def each(self) -> dict[str, Tensor]:
        """Every record's contribution, by parameter name; records first, float32."""

    @abstractmethod
    def by_record(self) -> list[Tensor]:
        """What the contributions are computed from, records first."""

    def joined(self, others: Sequence[Share]) -> Share | None:
        """One share for several calls of a layer, where that is shorter than :meth:`each`."""
        return None


class Kept(Share):
    """Contributions that are small, or that nothing shorter is known for: kept as they are."""

    def __init__(self, gradients: dict[str, Tensor]) -> None:
        self._gradients = {name: single(g) for name, g in gradients.items()}

    @property
    def terms(self) -> int:
        """One for each record."""
        return max((len(g) for g in self._gradients.values()), default=0)

    def sizes(self) -> Sizes:
        """Sum of squares, record by record; one term only, so that nothing cancels."""
        found = torch.stack([row_squares(g.flatten(1)) for g in self._gradients.values()]).sum(0)
        found *= upward(len(self._gradients))
        return Sizes(found, found)

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """Weighted sum over the records."""
        return {
            name: weighted_rows(weights, g.flatten(1)).view(g.shape[1:])
            for name, g in self._gradients.items()
        }

    def each(self) -> dict[str, Tensor]:
        """The contributions themselves."""
        return self._gradients

    def by_record(self) -> list[Tensor]:
        """The contributions themselves."""
        return list(self._gradients.values())


class Products:
    """A weight used at several places t of a record: its gradient is ``sum_t d_t a_t'``.

    ``inputs`` has the shape (records, groups, places, p), ``errors`` (records, groups, places, q).
    With one place the norm is |a| |d|. With more it is read off the Gram matrices of a and d (Bu,
    Mao & Xu 2022, arXiv 2205.10683v3, section 4). That is a difference of large numbers, so the
    bound of its rounding is added on. ``biases`` is what each record contributes to the bias.
    """

    def __init__(
        self, layer: nn.Linear | nn.Conv2d | Inner, inputs: Tensor, errors: Tensor, biases: Tensor
    ) -> None:
        self.inputs, self.errors, self.biases = inputs, errors, biases
        self.weight, self.bias = trains(layer, "weight"), trains(layer, "bias")
        self._shape: torch.Size = layer.weight.shape

    def sizes(self) -> Sizes:
        """Of weight and bias together."""
        groups = self.inputs.shape[1]
        if self.inputs.shape[2] == 1:
            squares = row_squares(self.errors)
            if self.weight:
                squares = squares * (row_squares(self.inputs) + float(self.bias))
            total = squares.flatten(1).sum(1) * upward(groups + 2)
            return Sizes(total, total)
        found: list[Sizes] = []
        if self.bias:
            of_bias = row_squares(self.biases)
            found.append(Sizes(of_bias, of_bias))
        if self.weight:
            found.append(self._weight_sizes())
        return total_of(found)

    def _weight_sizes(self) -> Sizes:
        """The value of the Gram form is off by gamma_k R^2 at most, with k = p + q + all terms."""
        _, groups, places, p = self.inputs.shape
        terms = groups * places * places
        a = row_squares(self.inputs).mul_(row_squares(self.errors)).sqrt_()
        absolute = a.sum(2).square_().sum(1).mul_(upward(2 * (places + groups) + 8))
        value = torch.empty_like(absolute)
        most = max(1, _GRAM // (groups * places * max(places, p, self.errors.shape[-1])))
        for start in range(0, len(value), most):
            rows = slice(start, start + most)
            inputs, errors = self.inputs[rows].double(), self.errors[rows].double()
            value[rows] = (inputs @ inputs.mT).mul_(errors @ errors.mT).sum((1, 2, 3))
        slack = gamma(p + self.errors.shape[-1] + terms) * absolute
        squares = value.clamp_min_(0).add_(slack).mul_(upward(4))
        return Sizes(torch.minimum(squares, absolute), absolute)

    def each(self) -> dict[str, Tensor]:
        """Every record's gradient, written out."""
        found: dict[str, Tensor] = {}
        if self.weight:
            found["weight"] = (self.errors.mT @ self.inputs).view(-1, *self._shape)
        if self.bias:
            found["bias"] = self.biases
        return found


#: Numbers of the Gram matrices and of what they are made of that are written out at a time.
_GRAM = 1 << 22


def total_of(sizes: list[Sizes]) -> Sizes:
    """The sizes of several contributions of the same records, taken together."""
    up = upward(len(sizes))
    squares = torch.stack([size.squares for size in sizes]).sum(0).mul_(up)
    if all(size.absolute is size.squares for size in sizes):
        return Sizes(squares, squares)
    return Sizes(squares, torch.stack([size.absolute for size in sizes]).sum(0).mul_(up))


def is_kept(places: int, p: int, q: int) -> bool:
    """Whether a weight of p by q used at several places is better written out for every record.

    That is the least work, as nothing has to be computed again for the sum; it takes p q numbers,
    which is no more than twice what goes in.
    """
    return places > 1 and p * q <= 2 * places * (p + q)


def trains(module: nn.Module | Inner, name: str) -> bool:
    """Whether the module has a parameter of that name and it is to be trained."""
    parameter = getattr(module, name, None)
    return parameter is not None and bool(parameter.requires_grad)
