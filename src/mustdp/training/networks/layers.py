"""The layers whose contributions are known in short form: Linear, Embedding, LayerNorm, GroupNorm.

Each rule takes the layer, what it was given and the gradient of the loss with respect to what it
returned, records first, and answers with their :class:`~mustdp.training.networks.shares.Share`.
Conv2d has a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mustdp.training.networks.convolution import convolution
from mustdp.training.networks.recurrent import Inner
from mustdp.training.networks.rounding import (
    row_squares,
    single,
    upward,
    weighted_product,
    weighted_rows,
)
from mustdp.training.networks.separate import Unsuitable
from mustdp.training.networks.shares import Kept, Products, Share, Sizes, is_kept, trains

#: Layer, what it was given, errors of what it returned.
Rule = Callable[[Any, Tensor, Tensor], Share]


def linear(layer: nn.Linear | Inner, given: Tensor, errors: Tensor) -> Share:
    """Dimensions between the first and the last are places at which the weight is used."""
    return _shorter(Dense(layer, given, errors))


def _shorter(share: Dense) -> Share:
    return Kept(share.each()) if is_kept(*share.extent) else share


class Dense(Share):
    """A Linear layer: norms from inputs and errors, then one matrix product."""

    def __init__(self, layer: nn.Linear | Inner, given: Tensor, errors: Tensor) -> None:
        if given.ndim < 2:
            raise Unsuitable(
                f"a Linear layer takes vectors without a record dimension: {given.shape}"
            )
        self._layer, self._rows = layer, len(given)
        self._given = single(given).reshape(self._rows, -1, layer.in_features)
        self._errors = single(errors).reshape(self._rows, -1, layer.out_features)
        one = self._errors.shape[1] == 1
        self._biases = self._errors[:, 0] if one else self._errors.sum(1)

    @property
    def terms(self) -> int:
        """One for each record and place."""
        return self._rows * self._errors.shape[1]

    @property
    def extent(self) -> tuple[int, int, int]:
        """Places, and the numbers that come in and go out at each."""
        return self._errors.shape[1], self._layer.in_features, self._layer.out_features

    def joined(self, others: Sequence[Share]) -> Share | None:
        """Calls are places: the weight's contribution is the sum over all of them."""
        calls = [self, *(other for other in others if isinstance(other, Dense))]
        if len(calls) <= len(others):
            return None
        given, errors = ([getattr(call, name) for call in calls] for name in ("_given", "_errors"))
        return _shorter(Dense(self._layer, torch.cat(given, 1), torch.cat(errors, 1)))

    def sizes(self) -> Sizes:
        """From the inputs and errors alone."""
        return self._products().sizes()

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """One matrix product for all records and places."""
        found: dict[str, Tensor] = {}
        places, bias = self._errors.shape[1], trains(self._layer, "bias")
        if trains(self._layer, "weight"):
            spread = weights if places == 1 else weights.repeat_interleave(places)
            left, right = self._errors.flatten(0, 1), self._given.flatten(0, 1)
            # On a GPU one pass over the errors alone is faster; over places they are summed up.
            with_bias = bias and places == 1 and not left.is_cuda
            alone = weights.new_zeros(left.shape[1]) if with_bias else None
            found["weight"] = weighted_product(spread, left, right, alone)
            if alone is not None:
                found["bias"] = alone
        if bias and "bias" not in found:
            found["bias"] = weighted_rows(weights, self._biases)
        return found

    def each(self) -> dict[str, Tensor]:
        """Every record's gradient, written out."""
        return self._products().each()

    def by_record(self) -> list[Tensor]:
        """Inputs and errors."""
        return [self._given, self._errors, self._biases]

    def _products(self) -> Products:
        return Products(self._layer, self._given[:, None], self._errors[:, None], self._biases)


class Table(Share):
    """An embedding: errors that belong to the same row of the table are a record's contribution.

    They are added up in float32, record by record, before anything else is done with them.
    """

    def __init__(self, layer: nn.Embedding, given: Tensor, errors: Tensor) -> None:
        self._layer, self._rows = layer, len(given)
        table, width = layer.num_embeddings, layer.embedding_dim
        entries = given.reshape(self._rows, -1)
        self._places = entries.shape[1]
        record = torch.arange(self._rows, device=entries.device)[:, None].expand_as(entries)
        flat = single(errors).reshape(-1, width)
        if layer.padding_idx is not None:
            flat = flat * (entries.reshape(-1, 1) != layer.padding_idx)
        keys, place = torch.unique(record * table + entries, return_inverse=True)
        self._summed = _added(flat.new_zeros(len(keys), width), place.flatten(), flat)
        self._records, self._entries = keys // table, keys % table

    @property
    def terms(self) -> int:
        """One for each record."""
        return self._rows

    def sizes(self) -> Sizes:
        """Sums of squares; every entry that occurs in a record counts once."""
        squares = row_squares(self._summed)
        found = _added(squares.new_zeros(self._rows), self._records, squares)
        found *= upward(self._places)
        return Sizes(found, found)

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """One pass over the entries that occurred."""
        scaled = self._summed * weights[self._records][:, None]
        table = scaled.new_zeros(self._layer.num_embeddings, self._layer.embedding_dim)
        return {"weight": table.index_add_(0, self._entries, scaled)}

    def each(self) -> dict[str, Tensor]:
        """A whole table for every record."""
        size = self._rows, self._layer.num_embeddings, self._layer.embedding_dim
        tables = self._summed.new_zeros(size)
        tables[self._records, self._entries] = self._summed
        return {"weight": tables}

    def by_record(self) -> list[Tensor]:
        """The entries that occur in each record and their sums; zeros beyond these."""
        first = torch.searchsorted(self._records, torch.arange(self._rows).to(self._records))
        place = torch.arange(len(self._records)).to(first) - first[self._records]
        size = self._rows, self._places
        entries, sums = (
            self._entries.new_zeros(size),
            self._summed.new_zeros(*size, self._summed.shape[1]),
        )
        entries[self._records, place], sums[self._records, place] = self._entries, self._summed
        return [entries, sums]


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
    nn.Embedding.forward: Table,
    nn.LayerNorm.forward: layer_norm,
    nn.GroupNorm.forward: group_norm,
}


def rule_for(module: nn.Module) -> Rule | None:
    """The rule of this layer, or None where none is known."""
    usual = set(dict(module.named_parameters(recurse=False))) <= {"weight", "bias"}
    alone = not any(True for _ in module.children())
    return _RULES.get(type(module).forward) if usual and alone else None
