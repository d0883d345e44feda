"""Layers whose per-record contributions are known in short form, with bounds on their rounding."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from mustdp.errors import NotCovered
from mustdp.training.networks.devices import as_convolutions, kernels_for
from mustdp.training.networks.recurrent import Inner
from mustdp.training.networks.separation import Unsuitable
from mustdp.training.networks.single_precision import (
    blockwise_product,
    fits,
)

# What rounding in double precision can do to sums and products, as numbers that bound it.
#
# Every tensor that enters a norm or a sum holds float32 values (or half precision ones), whose
# products are exact in double precision and lie between 2^-298 and 2^256 or are zero: nothing here
# underflows, and what overflows is refused as not finite. So each operation has a relative error
# of at most u = 2^-53, and k of them in any order one of at most gamma_k = k u / (1 - k u) (Higham
# 2002, "Accuracy and Stability of Numerical Algorithms", 2nd edition, lemma 3.1 and section 4.2).
# The bounds built from these are derived in docs/derivations/clipping.md.


#: The unit roundoff u of double precision.
UNIT = 2.0**-53
#: Operations behind one number, at most: up to here gamma_k <= k u (1 + 2^-12).
_MOST_OPERATIONS = 1 << 40
#: Operations that the bounds themselves take; covered by every factor below.
_OPERATIONS_OF_BOUNDS = 16
#: Numbers that are converted at a time: they stay in the cache of a CPU.
_CONVERTED_ON_CPU, _CONVERTED_ON_GPU = 1 << 17, 1 << 26
#: Numbers that a GPU multiplies by a vector of weights and adds up in two passes. Its product of a
#: vector and a matrix takes many times as long where the matrix has many more rows than columns.
_FEW_ON_GPU = 1 << 22
#: Rows that one thread of a GPU adds up, if the others come in as many.
_ROWS_PER_THREAD = 64
#: Numbers that are squared and added up in float32, at the cost of 2^-14 of their norm.
_SEGMENT = 1024


def gamma(operations: int) -> float:
    """Relative error of this number of operations in any order, at most."""
    return (_counted(operations) + _OPERATIONS_OF_BOUNDS) * UNIT * (1.0 + 2.0**-11)


def upward(operations: int) -> float:
    """A factor that makes a computed sum of non-negative numbers at least the true one.

    With k operations behind it the true value is at most the computed one over 1 - gamma_k, and
    (1 + 2 (k + 16) u) (1 - gamma_k) (1 - u)^8 > 1.
    """
    return 1.0 + 2.0 * (_counted(operations) + _OPERATIONS_OF_BOUNDS) * UNIT


def single(values: Tensor) -> Tensor:
    """As float32, the longest format whose products are exact in double precision."""
    return values if values.dtype == torch.float32 else values.float()


def shortest(values: Tensor) -> Tensor:
    """As float32, but half precision as it is on a GPU: its products are exact there as well."""
    short = values.is_cuda and values.dtype in (torch.bfloat16, torch.float16)
    return values if short else single(values)


def row_squares(rows: Tensor) -> Tensor:
    """Sums of the squares along the last dimension of float32 or shorter values, rounded up.

    On a GPU they are computed in double precision, where the squares are exact. Otherwise segments
    of a row are added up in float32, with the bound for that: a relative error of 2^-24 for each
    operation, and for each an absolute one of 2^-126 where numbers are too small for it.
    """
    size, kernels = rows.shape[-1], kernels_for(rows.device)
    if kernels is not None and rows.is_contiguous():
        found: Tensor = kernels.row_squares(rows, _counted(size) + _OPERATIONS_OF_BOUNDS)
        return found
    rows = single(rows)
    whole = size // _SEGMENT * _SEGMENT
    found = _norms(rows[..., whole:]).square_()
    if whole:
        segments = torch.unflatten(rows[..., :whole], -1, (-1, _SEGMENT))
        found += _norms(segments).square_().sum(-1)
    up = 1.0 + 2.0 * (min(size, _SEGMENT) + _OPERATIONS_OF_BOUNDS) * 2.0**-24
    return found.mul_(up).add_(2.0**-124 * size)


def weighted_product(
    weights: Tensor, left: Tensor, right: Tensor, alone: Tensor | None = None
) -> Tensor:
    """``left' diag(weights) right`` of float32 values in double precision, a few rows at a time.

    To ``alone``, where it is given, ``left' weights`` is added on the way.
    """
    if left.is_cuda and alone is None:
        return _weighted_product_on_gpu(weights, left, right)
    total = weights.new_zeros(left.shape[1], right.shape[1])
    buffers: list[Tensor] = []
    most = _at_once(right, left.shape[1], least=64)
    parts = zip(*(torch.split(x, most) for x in (weights, left, right)), strict=True)
    for w, a, b in parts:
        if not (buffers and buffers[0].shape == a.shape):
            buffers = [weights.new_empty(a.shape), weights.new_empty(b.shape)]
        scaled = buffers[0].copy_(a)
        if alone is not None:
            alone.addmv_(scaled.T, w)
        total.addmm_(scaled.mul_(w[:, None]).T, buffers[1].copy_(b))
    return total


def _weighted_product_on_gpu(weights: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The same: factors are lengthened and multiplied by the weights in one pass."""
    total: Tensor | None = None
    most = _at_once(left if left.shape[1] > right.shape[1] else right, least=64)
    parts = zip(*(torch.split(x, most) for x in (weights[:, None], left, right)), strict=True)
    for w, a, b in parts:
        scaled, other = (a * w).T, b.double()
        total = scaled @ other if total is None else total.addmm_(scaled, other)
    return weights.new_zeros(left.shape[1], right.shape[1]) if total is None else total


def weighted_rows(weights: Tensor, values: Tensor) -> Tensor:
    """``weights' values`` for a vector of weights, likewise."""
    if values.is_cuda and values.numel() <= _FEW_ON_GPU:
        return (weights[:, None] * values).sum(0)
    if values.is_cuda:
        together = math.gcd(len(values), _ROWS_PER_THREAD)
        parts = values.view(-1, together, values.shape[1])
        return _compiled_weighted_rows()(weights.view(-1, together, 1), parts).sum(0)
    total = weights.new_zeros(values.shape[1])
    most = _at_once(values)
    for w, part in zip(torch.split(weights, most), torch.split(values, most), strict=True):
        total.addmv_(part.double().T, w)
    return total


def _weighted_rows(weights: Tensor, values: Tensor) -> Tensor:
    return (weights * values).sum(1)


@cache
def _compiled_weighted_rows() -> Callable[[Tensor, Tensor], Tensor]:
    """One pass over the values, which are lengthened on the way and not written out."""
    compiled = torch.compile(_weighted_rows, dynamic=True)
    return cast("Callable[[Tensor, Tensor], Tensor]", compiled)


def _counted(operations: int) -> int:
    if not 0 <= operations <= _MOST_OPERATIONS:
        raise NotCovered(
            f"sums of more than {_MOST_OPERATIONS} terms are not covered, {operations} are needed; "
            "max_rows makes the pieces smaller that a batch is worked on in"
        )
    return operations


def _at_once(values: Tensor, beside: int = 0, least: int = 1) -> int:
    """Rows that are lengthened at a time, with as many numbers ``beside`` those of each."""
    one = max(1, values.shape[1] + beside)
    return max(least, (_CONVERTED_ON_GPU if values.is_cuda else _CONVERTED_ON_CPU) // one)


def _equally(rows: int, most: int) -> int:
    """Records at a time, at most this many, in parts of one size.

    With another number of records a product may be rounded in another way.
    """
    return next(k for k in range(max(1, min(rows, most)), 0, -1) if rows % k == 0)


def _norms(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1)
    return norms.double()


# What each record contributes to the gradient of one layer, without writing it all down.
#
# A layer's gradient is a sum over records. Clipping needs the norm of every summand and then a
# weighted sum of them, never the summands themselves ("book-keeping": Bu, Wang, Zha & Karypis 2023,
# arXiv 2210.00038v4). Both follow from what the layer was given and from the gradient of the loss
# with respect to what it returned. Where they do not, the summands are kept: :class:`Kept`.
#
# A contribution is what real arithmetic makes of these float32 values. Norms are bounds from above,
# and sums come with the numbers that bound their error (docs/derivations/clipping.md).


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

    #: Rows whose products may be added up in float32; 0 where all is in double precision.
    block = 0

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

    def tied(self, other: Share) -> Share | None:
        """One share for two layers with the same weight, likewise."""
        return None


class Kept(Share):
    """Contributions that are small, or that nothing shorter is known for: kept as they are."""

    def __init__(self, gradients: dict[str, Tensor], *, in_full: bool = False) -> None:
        """With ``in_full``, places are compared before anything is cut to float32."""
        self._gradients = {name: single(g) for name, g in gradients.items()}
        self._compared = list((gradients if in_full else self._gradients).values())

    @property
    def terms(self) -> int:
        """One for each record."""
        return max((len(g) for g in self._gradients.values()), default=0)

    def sizes(self) -> Sizes:
        """Sum of squares, record by record; one term only, so that nothing cancels."""
        first, *others = [row_squares(g.flatten(1)) for g in self._gradients.values()]
        for other in others:
            first += other
        first *= upward(len(self._gradients))
        return Sizes(first, first)

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
        return self._compared


class Products:
    """A weight used at several places t of a record: its gradient is ``sum_t d_t a_t'``.

    ``inputs`` has the shape (records, groups, places, p), ``errors`` (records, groups, places, q).
    With one place the norm is |a| |d|. With more it is read off the Gram matrices of a and d (Bu,
    Mao & Xu 2022, arXiv 2205.10683v3, section 4). That is a difference of large numbers, so the
    bound of its rounding is added on. ``biases`` is what each record contributes to the bias.
    """

    def __init__(
        self, layer: nn.Module, shape: Sequence[int], inputs: Tensor, errors: Tensor, biases: Tensor
    ) -> None:
        self.inputs, self.errors, self.biases = inputs, errors, biases
        self.weight, self.bias = trains(layer, "weight"), trains(layer, "bias")
        self._shape = shape
        #: With one place, the largest squared norm of what is multiplied.
        self.largest: Tensor | None = None

    def sizes(self) -> Sizes:
        """Of weight and bias together."""
        groups = self.inputs.shape[1]
        if self.inputs.shape[2] == 1:
            squares = row_squares(self.errors)
            if self.weight:
                of_inputs = row_squares(self.inputs)
                self.largest = torch.stack([squares.max(), of_inputs.max()]).max()
                squares = squares * (of_inputs + float(self.bias))
            total = squares.flatten(1).sum(1) * upward(groups + 2)
            return Sizes(total, total)
        kernels = kernels_for(self.inputs.device)
        if kernels is not None and self.weight and groups == 1:
            return self._sizes_on_gpu(kernels)
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
        found = []
        numbers = _GRAM_ON_GPU if self.errors.is_cuda else _GRAM_ON_CPU
        one = groups * places * max(places, p, self.errors.shape[-1])
        most = _equally(len(absolute), numbers // one)
        for start in range(0, len(absolute), most):
            rows = slice(start, start + most)
            inputs, errors = self.inputs[rows].double(), self.errors[rows].double()
            found.append((inputs @ inputs.mT).mul_(errors @ errors.mT).sum((1, 2, 3)))
        value = found[0] if len(found) == 1 else torch.cat(found)
        slack = gamma(p + self.errors.shape[-1] + terms)
        squares = value.clamp_min_(0).add_(absolute, alpha=slack).mul_(upward(4))
        return Sizes(torch.minimum(squares, absolute), absolute)

    def _sizes_on_gpu(self, kernels: Any) -> Sizes:
        """The same, of weight and bias, in fewer kernels."""
        records, _, places, p = self.inputs.shape
        operations = _counted(p + self.errors.shape[-1] + places * places)
        a, d = row_squares(self.inputs), row_squares(self.errors)
        biases = row_squares(self.biases) if self.bias else None
        squares, absolute = a.new_empty(2, records)
        most = _equally(records, _GRAM_ON_GPU // (places * max(places, p, self.errors.shape[-1])))
        for start in range(0, records, most):
            rows = slice(start, start + most)
            inputs, errors = self.inputs[rows, 0].double(), self.errors[rows, 0].double()
            kernels.product_sizes(
                inputs @ inputs.mT, errors @ errors.mT, a[rows], d[rows],
                None if biases is None else biases[rows], operations,
                squares[rows], absolute[rows],
            )  # fmt: skip
        return Sizes(squares, absolute)

    def each(self) -> dict[str, Tensor]:
        """Every record's gradient, written out."""
        found: dict[str, Tensor] = {}
        if self.weight:
            found["weight"] = (single(self.errors).mT @ single(self.inputs)).view(-1, *self._shape)
        if self.bias:
            found["bias"] = self.biases
        return found


#: Numbers of the Gram matrices and of what they are made of that are written out at a time.
_GRAM_ON_CPU, _GRAM_ON_GPU = 1 << 22, 1 << 26


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


# Conv2d: a linear layer on the patches of an image, one place for every patch.
#
# Patches are many times larger than the image, so they are written out for a few records at a time.


#: Numbers written out at a time: the patches, and what is computed from them.
_PATCHES_ON_CPU, _PATCHES_ON_GPU = 1 << 21, 1 << 28


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
        most = max(1, (_PATCHES_ON_GPU if self._errors.is_cuda else _PATCHES_ON_CPU) // one)
        for start in range(0, len(self._errors), most):
            rows = slice(start, start + most)
            errors = self._errors[rows]
            errors = errors.reshape(len(errors), groups, -1, errors[0, 0].numel())
            yield (
                rows,
                Products(
                    self._layer, weight.shape, self._patches(rows).mT, errors.mT, self._biases[rows]
                ),
            )

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


# The layers whose contributions are known in short form: Linear, Embedding, LayerNorm, GroupNorm.
#
# Each rule takes the layer, what it was given and the gradient of the loss with respect to what it
# returned, records first, and answers with their :class:`Share`. The rule of Conv2d is above.


#: Layer, what it was given, errors of what it returned.
Rule = Callable[[Any, Tensor, Tensor], Share]


def linear(layer: nn.Linear | Inner, given: Tensor, errors: Tensor) -> Share:
    """Dimensions between the first and the last are places at which the weight is used."""
    return _shorter(Dense(layer, given, errors))


def transposed(layer: nn.Module, given: Tensor, errors: Tensor) -> Share:
    """A linear layer whose weight has a row for every input, as transformers' ``Conv1D`` has."""
    return _shorter(Dense(layer, given, errors, transposed=True))


def _shorter(share: Dense) -> Share:
    return Kept(share.each()) if is_kept(*share.extent) else share


class Dense(Share):
    """A Linear layer: norms from inputs and errors, then one matrix product."""

    def __init__(
        self, layer: Any, given: Tensor, errors: Tensor, *, transposed: bool = False
    ) -> None:
        if given.ndim < 2:
            raise Unsuitable(
                f"a Linear layer takes vectors without a record dimension: {given.shape}"
            )
        self._layer, self._rows, self._transposed = layer, len(given), transposed
        out, into = reversed(layer.weight.shape) if transposed else layer.weight.shape
        # In one piece of memory: of products of turned matrices, equal ones may differ in their
        # last bits from place to place.
        self._given = shortest(given).reshape(self._rows, -1, into).contiguous()
        self._errors = shortest(errors).reshape(self._rows, -1, out).contiguous()
        one = self._errors.shape[1] == 1
        self._biases = single(self._errors[:, 0]) if one else self._sum_of_errors()
        self._largest: Tensor | None = None

    @property
    def terms(self) -> int:
        """One for each record and place."""
        return self._rows * self._errors.shape[1]

    def _sum_of_errors(self) -> Tensor:
        if not trains(self._layer, "bias"):
            return self._errors.new_zeros(self._rows, 0, dtype=torch.float32)
        return self._errors.sum(1, dtype=torch.float32)

    @property
    def extent(self) -> tuple[int, int, int]:
        """Places, and the numbers that come in and go out at each."""
        return self._errors.shape[1], self._given.shape[2], self._errors.shape[2]

    def joined(self, others: Sequence[Share]) -> Share | None:
        """Calls are places: the weight's contribution is the sum over all of them."""
        calls = [self, *(other for other in others if isinstance(other, Dense))]
        if len(calls) <= len(others):
            return None
        given, errors = ([getattr(call, name) for call in calls] for name in ("_given", "_errors"))
        both = torch.cat(given, 1), torch.cat(errors, 1)
        return _shorter(Dense(self._layer, *both, transposed=self._transposed))

    def tied(self, other: Share) -> Share | None:
        """With the embedding whose table is this layer's weight."""
        return (
            Tied(other, self)
            if isinstance(other, EmbeddingShare) and not self._transposed
            else None
        )

    def cross(self, entries: Tensor, sums: Tensor) -> tuple[Tensor, int]:
        """Products of this weight's contributions with others that have a few rows each.

        Row ``entries[i, k]`` of record i's other contribution is ``sums[i, k]``; rows may be given
        several times if all but one of them are zero. Also the number of operations behind each.
        """
        places, width = self._given.shape[1:]
        found = sums.new_empty(self._rows, dtype=torch.float64)
        numbers = _GRAM_ON_GPU if sums.is_cuda else _GRAM_ON_CPU
        one = max(width, places) * (entries.shape[1] + places)
        most = _equally(self._rows, numbers // one)
        for start in range(0, self._rows, most):
            rows = slice(start, start + most)
            which = entries[rows, None].expand(-1, places, -1)
            errors = self._errors[rows].gather(2, which).double()
            products = self._given[rows].double() @ sums[rows].double().mT
            found[rows] = products.mul_(errors).sum((1, 2))
        return found, width + places * entries.shape[1] + 1

    def sizes(self) -> Sizes:
        """From the inputs and errors alone."""
        products = self._products()
        found = products.sizes()
        self._largest = products.largest
        return found

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """One matrix product for all records and places."""
        found: dict[str, Tensor] = {}
        places, bias = self._errors.shape[1], trains(self._layer, "bias")
        if trains(self._layer, "weight"):
            spread = weights if places == 1 else weights.repeat_interleave(places)
            left, right = self._errors.flatten(0, 1), self._given.flatten(0, 1)
            if self._in_blocks(spread):
                total, summed = blockwise_product(spread, left, right, self.block, bias)
                found["weight"] = total.T if self._transposed else total
                if summed is not None:
                    found["bias"] = summed
                return found
            # On a GPU one pass over the errors alone is faster; over places they are summed up.
            with_bias = bias and places == 1 and not left.is_cuda
            alone = weights.new_zeros(left.shape[1]) if with_bias else None
            total = weighted_product(spread, left, right, alone)
            found["weight"] = total.T if self._transposed else total
            if alone is not None:
                found["bias"] = alone
        if bias and "bias" not in found:
            found["bias"] = weighted_rows(weights, self._biases)
        return found

    def each(self) -> dict[str, Tensor]:
        """Every record's gradient, written out."""
        found = self._products().each()
        if self._transposed and "weight" in found:
            found["weight"] = found["weight"].mT
        return found

    def by_record(self) -> list[Tensor]:
        """Inputs and errors."""
        return [self._given, self._errors, self._biases]

    def _in_blocks(self, weights: Tensor) -> bool:
        """Whether products may be added up in float32: at one place, where no terms cancel."""
        if not self.block or self._largest is None or self._errors.is_cuda:
            return False
        return fits(weights, float(self._largest))

    def _products(self) -> Products:
        shape = self._errors.shape[2], self._given.shape[2]
        inputs, errors = self._given[:, None], self._errors[:, None]
        return Products(self._layer, shape, inputs, errors, self._biases)


class EmbeddingShare(Share):
    """An embedding: errors that belong to the same row of the table are a record's contribution.

    They are added up in float32, record by record, before anything else is done with them.
    """

    def __init__(self, layer: nn.Embedding, given: Tensor, errors: Tensor) -> None:
        self._layer, self._rows = layer, len(given)
        width = layer.embedding_dim
        entries = given.reshape(self._rows, -1)
        self._places = entries.shape[1]
        flat = single(errors).reshape(-1, width)
        if layer.padding_idx is not None:
            flat = flat * (entries.reshape(-1, 1) != layer.padding_idx)
        # The sum of a record's k-th smallest entry stands in row k. How many there are is not asked
        # for, as a GPU would be waited for: what is beyond them is entry 0 with a sum of zero.
        ordered, turned = entries.sort(dim=1, stable=True)
        number = torch.zeros_like(ordered)
        number[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).cumsum(1)
        rank = torch.empty_like(number).scatter_(1, turned, number)
        record = torch.arange(self._rows, device=entries.device)[:, None]
        summed = flat.new_zeros(self._rows * self._places, width)
        _added(summed, (record * self._places + rank).flatten(), flat)
        self._entries = torch.zeros_like(ordered).scatter_(1, number, ordered)
        self._sums = torch.unflatten(summed, 0, (self._rows, self._places))

    @property
    def terms(self) -> int:
        """One for each record."""
        return self._rows

    def sizes(self) -> Sizes:
        """Sums of squares; every entry that occurs in a record counts once."""
        found = row_squares(self._sums).sum(1).mul_(upward(self._places))
        return Sizes(found, found)

    def tied(self, other: Share) -> Share | None:
        """With the linear layer whose weight is this table."""
        return other.tied(self) if isinstance(other, Dense) else None

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """One pass over the entries that occurred."""
        table = weights.new_zeros(self._layer.num_embeddings, self._layer.embedding_dim)
        return {"weight": self.add_weighted(weights, table)}

    def add_weighted(self, weights: Tensor, table: Tensor) -> Tensor:
        """The same, added to a table."""
        scaled = self._sums * weights[:, None, None]
        return table.index_add_(0, self._entries.flatten(), scaled.flatten(0, 1))

    def each(self) -> dict[str, Tensor]:
        """A whole table for every record."""
        entries, width = self._layer.num_embeddings, self._layer.embedding_dim
        tables = self._sums.new_zeros(self._rows * entries, width)
        record = torch.arange(self._rows, device=self._entries.device)[:, None]
        _added(tables, (record * entries + self._entries).flatten(), self._sums.flatten(0, 1))
        return {"weight": torch.unflatten(tables, 0, (self._rows, entries))}

    def by_record(self) -> list[Tensor]:
        """The entries that occur in each record and their sums; zeros beyond these."""
        return [self._entries, self._sums]


class Tied(Share):
    """An embedding and a linear layer with one weight, as the two ends of a language model.

    Of a record they contribute g_e + g_o, and |g_e + g_o|^2 = |g_e|^2 + |g_o|^2 + 2 <g_e, g_o>. The
    embedding has the summed errors s_u for the entries u that occur, the linear layer inputs h_r
    and errors p_r at its places r, so that <g_e, g_o> = sum_{u, r} <s_u, h_r> p_r[u]: nothing is
    written out. Its k operations are off by at most gamma_k |s| sum_r |h_r| |p_r| (Cauchy-Schwarz,
    twice), and 2 x y <= (x + y)^2, which is ``absolute`` for the roots x and y of the two parts'
    own: if no two terms cancelled, a sum would be no longer than both lengths together.
    """

    def __init__(self, table: EmbeddingShare, dense: Dense) -> None:
        self._table, self._dense = table, dense

    @property
    def terms(self) -> int:
        """Those of both."""
        return self._table.terms + self._dense.terms

    def sizes(self) -> Sizes:
        """The square of a sum, from both squares and the product."""
        one, other = self._table.sizes(), self._dense.sizes()
        absolute = one.absolute.sqrt().add_(other.absolute.sqrt()).square_().mul_(upward(8))
        value, operations = self._dense.cross(*self._table.by_record())
        value = value.mul_(2.0).add_(one.squares).add_(other.squares)
        # A few more for the sum of the three, none of which exceeds ``absolute``.
        slack = gamma(operations + 16) * absolute
        squares = value.clamp_min_(0).add_(slack).mul_(upward(4))
        return Sizes(torch.minimum(squares, absolute), absolute)

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """The sum of both."""
        found = self._dense.weighted(weights)
        self._table.add_weighted(weights, found["weight"])
        return found

    def each(self) -> dict[str, Tensor]:
        """Every record's gradient, written out."""
        found = self._dense.each()
        found["weight"] = found["weight"] + self._table.each()["weight"]
        return found

    def by_record(self) -> list[Tensor]:
        """Those of both."""
        return [*self._table.by_record(), *self._dense.by_record()]


def _added(totals: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Values added to the totals of their places, always in the same order."""
    if totals.is_cuda:  # index_add_ does it there as the threads happen to come
        return totals.index_put_((places,), values, accumulate=True)
    return totals.index_add_(0, places, values)


def layer_norm(layer: nn.LayerNorm, given: Tensor, errors: Tensor) -> Share:
    """Scale and offset act entry by entry: sums over the dimensions before them."""
    standard = functional.layer_norm(single(given), layer.normalized_shape, eps=layer.eps)
    keep = len(layer.normalized_shape)
    return _entrywise(layer, standard, single(errors), tuple(range(1, given.ndim - keep)))


def rms_norm(layer: nn.RMSNorm, given: Tensor, errors: Tensor) -> Share:
    """The same without an offset."""
    standard = functional.rms_norm(single(given), layer.normalized_shape, eps=layer.eps)
    keep = len(layer.normalized_shape)
    return _entrywise(layer, standard, single(errors), tuple(range(1, given.ndim - keep)))


def group_norm(layer: nn.GroupNorm, given: Tensor, errors: Tensor) -> Share:
    """Scale and offset act channel by channel: sums over the dimensions after them."""
    standard = functional.group_norm(single(given), layer.num_groups, eps=layer.eps)
    return _entrywise(layer, standard, single(errors), tuple(range(2, given.ndim)))


def _entrywise(layer: nn.Module, standard: Tensor, errors: Tensor, over: tuple[int, ...]) -> Share:
    found: dict[str, Tensor] = {}
    if trains(layer, "weight"):
        scaled = errors * standard
        found["weight"] = scaled.sum(over) if over else scaled
    if trains(layer, "bias"):
        found["bias"] = errors.sum(over) if over else errors
    return Kept(found)


#: A layer is known by the forward that it runs: a subclass with its own is another layer.
_RULES: dict[Any, Rule] = {
    nn.Linear.forward: linear,
    nn.Conv2d.forward: convolution,
    nn.Embedding.forward: EmbeddingShare,
    nn.LayerNorm.forward: layer_norm,
    nn.RMSNorm.forward: rms_norm,
    nn.GroupNorm.forward: group_norm,
}


#: Rules for which several rows of a record are more places of one: a sum over them is a record's.
SLOTS_ARE_PLACES: tuple[Rule, ...] = (linear, transposed, EmbeddingShare, layer_norm, rms_norm)


def rule_for(module: nn.Module) -> Rule | None:
    """The rule of this layer, or None where none is known."""
    usual = set(dict(module.named_parameters(recurse=False))) <= {"weight", "bias"}
    alone = not any(True for _ in module.children())
    return _rules().get(type(module).forward) if usual and alone else None


def _rules() -> dict[Any, Rule]:
    """The rules above, and those of layers in libraries that are in use."""
    library = sys.modules.get("transformers.pytorch_utils")
    return _RULES if library is None else {**_RULES, library.Conv1D.forward: transposed}
