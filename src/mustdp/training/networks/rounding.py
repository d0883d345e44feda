"""What rounding in double precision can do to sums and products, as numbers that bound it.

Every tensor that enters a norm or a sum holds float32 values (or half precision ones), whose
products are exact in double precision and lie between 2^-298 and 2^256 or are zero: nothing here
underflows, and what overflows is refused as not finite. So each operation has a relative error of
at most u = 2^-53, and k of them in any order one of at most gamma_k = k u / (1 - k u) (Higham 2002,
"Accuracy and Stability of Numerical Algorithms", 2nd edition, lemma 3.1 and section 4.2). The
bounds built from these are derived in docs/derivations/clipping.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import cast

import torch
from torch import Tensor

from mustdp.errors import NotCovered

UNIT = 2.0**-53
#: Operations behind one number, at most: up to here gamma_k <= k u (1 + 2^-12).
_MOST = 1 << 40
#: Operations that the bounds themselves take; covered by every factor below.
_OWN = 16
#: Numbers that are converted at a time: they stay in the cache of a CPU.
_ON_CPU, _ON_GPU = 1 << 17, 1 << 26
#: Rows that one thread of a GPU adds up, if the others come in as many.
_IN_ONE_GO = 64
#: Numbers that are squared and added up in float32, at the cost of 2^-14 of their norm.
_SEGMENT = 1024


def gamma(operations: int) -> float:
    """Relative error of so many operations in any order, at most."""
    return (_counted(operations) + _OWN) * UNIT * (1.0 + 2.0**-11)


def upward(operations: int) -> float:
    """A factor that makes a computed sum of non-negative numbers at least the true one.

    With k operations behind it the true value is at most the computed one over 1 - gamma_k, and
    (1 + 2 (k + 16) u) (1 - gamma_k) (1 - u)^8 > 1.
    """
    return 1.0 + 2.0 * (_counted(operations) + _OWN) * UNIT


def single(values: Tensor) -> Tensor:
    """As float32, the longest format whose products are exact in double precision."""
    return values if values.dtype == torch.float32 else values.float()


def row_squares(rows: Tensor) -> Tensor:
    """Sums of the squares along the last dimension of float32 values, rounded up.

    Segments of a row are added up in float32, with the bound for that: a relative error of 2^-24
    for each operation, and for each an absolute one of 2^-126 where numbers are too small for it.
    """
    size = rows.shape[-1]
    whole = size // _SEGMENT * _SEGMENT
    found = _norms(rows[..., whole:]).square_()
    if whole:
        segments = torch.unflatten(rows[..., :whole], -1, (-1, _SEGMENT))
        found += _norms(segments).square_().sum(-1)
    up = 1.0 + 2.0 * (min(size, _SEGMENT) + _OWN) * 2.0**-24
    return found.mul_(up).add_(2.0**-124 * size)


def weighted_product(
    weights: Tensor, left: Tensor, right: Tensor, alone: Tensor | None = None
) -> Tensor:
    """``left' diag(weights) right`` of float32 values in double precision, a few rows at a time.

    To ``alone``, where it is given, ``left' weights`` is added on the way.
    """
    total = weights.new_zeros(left.shape[1], right.shape[1])
    room: list[Tensor] = []
    most = _at_once(right, left.shape[1], least=64)
    parts = zip(*(torch.split(x, most) for x in (weights, left, right)), strict=True)
    for w, a, b in parts:
        if not (room and room[0].shape == a.shape):
            room = [weights.new_empty(a.shape), weights.new_empty(b.shape)]
        scaled = room[0].copy_(a)
        if alone is not None:
            alone.addmv_(scaled.T, w)
        total.addmm_(scaled.mul_(w[:, None]).T, room[1].copy_(b))
    return total


def weighted_rows(weights: Tensor, values: Tensor) -> Tensor:
    """``weights' values`` for a vector of weights, likewise."""
    if values.is_cuda:
        together = math.gcd(len(values), _IN_ONE_GO)
        parts = values.view(-1, together, values.shape[1])
        return _compiled()(weights.view(-1, together, 1), parts).sum(0)
    total = weights.new_zeros(values.shape[1])
    most = _at_once(values)
    for w, part in zip(torch.split(weights, most), torch.split(values, most), strict=True):
        total.addmv_(part.double().T, w)
    return total


def _weighted_rows(weights: Tensor, values: Tensor) -> Tensor:
    return (weights * values).sum(1)


@cache
def _compiled() -> Callable[[Tensor, Tensor], Tensor]:
    """One pass over the values, which are lengthened on the way and not written out."""
    compiled = torch.compile(_weighted_rows, dynamic=True)
    return cast("Callable[[Tensor, Tensor], Tensor]", compiled)


def _counted(operations: int) -> int:
    if not 0 <= operations <= _MOST:
        raise NotCovered(
            f"sums of more than {_MOST} terms are not covered, {operations} are needed; max_rows "
            "makes the pieces smaller that a batch is worked on in"
        )
    return operations


def _at_once(values: Tensor, beside: int = 0, least: int = 1) -> int:
    """Rows that are lengthened at a time, with as many numbers ``beside`` those of each."""
    one = max(1, values.shape[1] + beside)
    return max(least, (_ON_GPU if values.is_cuda else _ON_CPU) // one)


def _norms(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1)
    return norms.double()
