"""Weighted sums of float32 products, a block of rows at a time, and the bound of their rounding.

A block is multiplied in float32, and the blocks are added up in double precision. The bound grows
with the rows of a block and the copies in a batch alone, so it is known before the first step and
taken off the clipping norm (docs/derivations/clipping.md, "Blocks in single precision").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: The relative error of one operation in float32.
SINGLE_UNIT = 2.0**-24
#: Share of the clipping norm that the rounding of blocks may take, at most.
_MOST_OF_NORM = 2.0**-7
#: Rows of a block; with fewer, adding up costs what multiplying saves, and more save nothing.
_FEWEST_ROWS, _MOST_ROWS, _MULTIPLE = 48, 128, 8
#: Operations behind a term beside those for each row: weight, two products, and one to spare.
_FURTHER_OPERATIONS = 4
#: Where no layer has as many weights, blocks are not worth a part of the clipping norm.
FEWEST_WEIGHTS = 1 << 13
#: Squared norms of what is multiplied, at most, and the weights that are not zero: between these
#: nothing overflows, and what underflows is covered by ``_UNDERFLOW``.
LARGEST_SQUARE = 2.0**60
_SMALLEST_WEIGHT, _LARGEST_WEIGHT = 2.0**-60, 2.0**30
#: What underflow takes of one entry for each of its terms, at most.
_UNDERFLOW = 2.0**-95


def rows_of_blocks(copies: int) -> int:
    """Rows of a block with which batches of so many records stay within the bound; 0 for none."""
    rows = int(_MOST_OF_NORM / SINGLE_UNIT / (1.0 + 2.0**-10)) // max(1, copies)
    rows = min(_MOST_ROWS, (rows - _FURTHER_OPERATIONS) // _MULTIPLE * _MULTIPLE)
    return rows if rows >= _FEWEST_ROWS else 0


def relative_error(rows: int) -> float:
    """gamma_k of float32 with the operations of a block: k u / (1 - k u) <= k u (1 + 2^-10)."""
    return (rows + _FURTHER_OPERATIONS) * SINGLE_UNIT * (1.0 + 2.0**-10)


def underflow(terms: int, pieces: int, parameters: int) -> float:
    """The norm of what underflow can take of a sum, at most."""
    return terms * pieces * math.sqrt(parameters) * _UNDERFLOW


def fits(weights: Tensor, largest_square: float) -> bool:
    """Whether weights, and rows with squared norms up to this, are in the range of the bound.

    Where they are not the sum is made in double precision. Both ways are within the bound, so that
    it does not matter which records decide it.
    """
    if not (largest_square <= LARGEST_SQUARE and _multiplies_in_full()):
        return False
    values = weights.numpy()
    used = (values >= _SMALLEST_WEIGHT) & (values <= _LARGEST_WEIGHT)
    return bool((used | (values == 0.0)).all())


def blockwise_product(
    weights: Tensor, left: Tensor, right: Tensor, rows: int, alone: bool = False
) -> tuple[Tensor, Tensor | None]:
    """``left' diag(weights) right`` on a CPU: float32 for one block, double where there are more.

    The weights are in double precision and the others in float32. With ``alone`` also
    ``left' weights``: what the product with a column of ones would be.
    """
    scaled = left * weights.float()[:, None]
    if len(left) <= rows:
        return scaled.T @ right, scaled.sum(0) if alone else None
    add = _add_kernel()
    block = right.new_empty(left.shape[1], right.shape[1])
    total = torch.zeros(block.shape, dtype=torch.float64)
    sums, values = total.view(-1).numpy(), block.view(-1).numpy()
    for one, other in zip(torch.split(scaled, rows), torch.split(right, rows), strict=True):
        torch.mm(one.T, other, out=block)
        if add is None:
            total.add_(block)
        else:
            add(sums, values)
    return total, _blockwise_sum(scaled, rows) if alone else None


def _blockwise_sum(scaled: Tensor, rows: int) -> Tensor:
    """Sums of the columns, so many rows at a time in float32."""
    whole = len(scaled) // rows * rows
    blocks = torch.unflatten(scaled[:whole], 0, (-1, rows)).sum(1)
    return blocks.sum(0, dtype=torch.float64).add_(scaled[whole:].sum(0))


def _multiplies_in_full() -> bool:
    """Whether this machine's float32 products are what the bound is derived for, as it is set."""
    setting = getattr(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision", "none")
    exact = torch.get_float32_matmul_precision() == "highest" and setting in ("none", "ieee")
    return exact and _multiplies_exactly()


@cache
def _multiplies_exactly() -> bool:
    """Products of whole numbers whose sums have just 24 bits: float32 has them all, and exactly.

    Shortened formats, and sums in parts of another format, do not give these.
    """
    rng = np.random.default_rng(24)
    for rows, p, q in ((48, 96, 64), (64, 784, 128), (128, 256, 256)):
        bits = (24 - math.ceil(math.log2(rows))) // 2
        left, right = (rng.integers(-(2**bits), 2**bits, (rows, k)) for k in (q, p))
        expected = left.T @ right
        a, b = (torch.tensor(x, dtype=torch.float32) for x in (left, right))
        ones = torch.ones(rows, dtype=torch.float64)
        for block in (_MOST_ROWS, rows // 2):  # in one block, and in two
            found, _ = blockwise_product(ones, a, b, block)
            if not np.array_equal(found.numpy(), expected):
                return False
        full = rng.integers(2**23, 2**24, (rows, q))
        one = torch.zeros(rows, p)
        one[0] = 1.0
        if not torch.equal((torch.tensor(full, dtype=torch.float32).T @ one)[:, 0],
                           torch.tensor(full[0], dtype=torch.float32)):  # fmt: skip
            return False
    return True


@cache
def _add_kernel() -> Callable[[NDArray[np.float64], NDArray[np.float32]], None] | None:
    """Adds float32 values to double ones in one pass, where numba is there."""
    if find_spec("numba") is None:
        return None
    try:
        numba: Any = import_module("numba")
        found = numba.njit(_add, cache=True, nogil=True)
        found(np.zeros(1), np.zeros(1, dtype=np.float32))
    except Exception:  # whatever keeps it from loading or compiling: torch adds up
        return None
    return cast("Callable[[NDArray[np.float64], NDArray[np.float32]], None]", found)


def _add(total: NDArray[np.float64], values: NDArray[np.float32]) -> None:
    for i in range(len(total)):
        total[i] += values[i]
