"""What a record contributes and what a sum is, in rational numbers: no rounding at all."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from mustdp.training.networks.layers import (
    Dense,
    EmbeddingShare,
    Kept,
    Share,
    Tied,
    convolution,
    group_norm,
    layer_norm,
    linear,
)

Numbers = list[Fraction]
#: A share, and what each of its records contributes, parameter by parameter in one row.
Known = tuple[Share, list[Numbers]]


def rational(values: Tensor) -> Numbers:
    """The entries, exactly; they must be finite."""
    return [Fraction(float(x)) for x in values.double().flatten()]


def kept(share: Share) -> Known:
    """Contributions that are written out are what is written."""
    each = share.each()
    rows = len(next(iter(each.values())))
    return share, [[x for g in each.values() for x in rational(g[i])] for i in range(rows)]


def outer(a: list[Numbers], d: list[Numbers]) -> Numbers:
    """``sum_t d_t a_t'``, row by row."""
    p, q = len(a[0]), len(d[0])
    return [
        sum((s[j] * t[k] for t, s in zip(a, d, strict=True)), Fraction(0))
        for j in range(q)
        for k in range(p)
    ]


def dense(given: Tensor, errors: Tensor, bias: bool) -> Known:
    """A Linear layer at several places, (records, places, p) and (records, places, q)."""
    layer = nn.Linear(given.shape[-1], errors.shape[-1], bias=bias)
    share = Dense(layer, given, errors)
    found = []
    for record in range(len(given)):
        a, d = ([rational(t) for t in x[record]] for x in (given, errors))
        own = outer(a, d)
        if bias:
            own += rational(share.each()["bias"][record])
        found.append(own)
    return share, found


def linear_as_chosen(given: Tensor, errors: Tensor) -> Known:
    """The same layer in the form that is chosen for its sizes."""
    share = linear(nn.Linear(given.shape[-1], errors.shape[-1]), given, errors)
    return kept(share) if isinstance(share, Kept) else dense(given, errors, True)


def patches(given: Tensor, out: int, groups: int, errors: Any) -> Known:
    """A convolution with kernels of two by two; ``errors`` makes them for a shape."""
    layer = nn.Conv2d(given.shape[1], out, 2, groups=groups)
    d = errors(layer(given).shape)
    share = convolution(layer, given, d)
    if isinstance(share, Kept):
        return kept(share)
    columns = nn.functional.unfold(given.double(), 2).mT  # exact: entries are only copied
    found = []
    for record in range(len(given)):
        own: Numbers = []
        for group in range(groups):
            p, q = columns.shape[-1] // groups, out // groups
            a = columns[record][:, group * p : (group + 1) * p]
            e = d[record].flatten(1).mT[:, group * q : (group + 1) * q]
            own += outer([rational(t) for t in a], [rational(t) for t in e])
        found.append(own + rational(d[record].flatten(1).sum(1)))
    return share, found


def table(entries: Tensor, errors: Tensor, size: int) -> Known:
    """An embedding; what a record contributes to an entry is a float32 sum of its errors."""
    layer = nn.Embedding(size, errors.shape[-1], padding_idx=0)
    return kept(EmbeddingShare(layer, entries, errors))


def tied(entries: Tensor, below: Tensor, given: Tensor, errors: Tensor, bias: bool) -> Known:
    """An embedding, with errors ``below``, and a Linear layer that have one weight."""
    size, width = errors.shape[-1], given.shape[-1]
    own = EmbeddingShare(nn.Embedding(size, width), entries, below)
    share = Dense(nn.Linear(width, size, bias=bias), given, errors).tied(own)
    assert isinstance(share, Tied)
    both = zip(dense(given, errors, bias)[1], kept(own)[1], strict=True)
    return share, [[x + (y[k] if k < len(y) else 0) for k, x in enumerate(one)] for one, y in both]


def norms(given: Tensor, errors: Tensor) -> list[Known]:
    """LayerNorm over the last dimension, GroupNorm over the second."""
    return [
        kept(layer_norm(nn.LayerNorm(given.shape[-1]), given, errors)),
        kept(group_norm(nn.GroupNorm(1, given.shape[1]), given, errors)),
    ]


def flat(sums: dict[str, Tensor]) -> Numbers:
    """A weighted sum in one row, in the order of the parameters."""
    return [x for value in sums.values() for x in rational(value)]


def square(values: Numbers) -> Fraction:
    """Squared norm."""
    return sum((x * x for x in values), Fraction(0))


def random(generator: torch.Generator, *shape: int) -> Tensor:
    """Normal numbers, float32."""
    return torch.randn(*shape, generator=generator)
