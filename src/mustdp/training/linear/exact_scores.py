"""Features and weights on grids so coarse that scores are exact, in whatever order they are added.

A matrix product in floating point gives a row other last bits at another place of a batch: kernels
for the last rows of a block add up in another order. Where the terms of a score cancel, those bits
decide the sign of a whole clipped gradient, so that one record could move all others. On a grid
there is nothing to round. Let d be the number of columns, and D >= d a power of two.

- A row becomes multiples of 2^(e - p), where 2^e exceeds its largest entry: integers of at most p
  bits, cut off towards zero. e depends on the row alone.
- The weights of a score become multiples of 2^(f - q), where 2^f exceeds the largest of them:
  integers of at most q bits. Weights are released, so f is public.

With p + q <= 53 - log2 D every partial sum of a score is an integer of at most 2^53 units of
2^(e - p + f - q), and with 2 p <= 53 - log2 D so is every partial sum of a row's squares: both are
exact in double precision, fused or not, in any order. Exponents are kept in a range where no unit
underflows and no sum overflows. The rounding is part of the model: it changes which function of a
record is clipped, never that it is a function of the record alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics.arrays import FloatArray

#: Integers up to 2^53 are exact in double precision.
_EXACT_BITS = 53
#: Fewer bits than this would be felt.
_FEWEST_BITS = 12
#: Exponents of the largest entry of a row, and of the largest weight of a score. Units are then at
#: least 2^-853, and scores below 2^1000.
_LOWEST = -400
_HIGHEST_ROW, _HIGHEST_WEIGHT = 333, 600
#: Entries that are rounded at once, and entries of the product that is tried.
_PIECE = 1 << 18
_TRIED = 1 << 15


@dataclass(frozen=True)
class Grid:
    """How many bits entries of rows and weights have for a number of columns.

    >>> Grid.of(784)
    Grid(columns=784, row_bits=21, weight_bits=22)
    """

    columns: int
    row_bits: int
    weight_bits: int

    def __post_init__(self) -> None:
        largest = 1 << _EXACT_BITS
        for bits in (self.row_bits + self.weight_bits, 2 * self.row_bits):
            if not self.columns << bits <= largest:
                raise NumericalFailure(
                    f"sums of {self.columns} products of {bits} bits are not exact in double "
                    "precision"
                )

    @classmethod
    def of(cls, columns: int) -> Grid:
        """The finest grid for a number of columns."""
        bits = _EXACT_BITS - max(0, columns - 1).bit_length()
        if not bits >= 2 * _FEWEST_BITS:
            raise InvalidParameter.refusing(
                "X",
                f"must have at most 2^{_EXACT_BITS - 2 * _FEWEST_BITS} columns",
                repr(columns),
            )
        return cls(max(1, columns), bits // 2, bits - bits // 2)

    def rows(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Rows (n, d) on the grid, in the precision they came in, and which are short enough.

        Rows with an entry of 2^333 (about 1e100) or more, or one that is not finite, become zero.
        """
        kept = np.empty(rows.shape, rows.dtype)
        short = np.empty(len(rows), dtype=np.bool_)
        piece = max(1, _PIECE // self.columns)
        for begin in range(0, len(rows), piece):
            part = rows[begin : begin + piece].astype(np.float64)
            largest = np.abs(part).max(axis=1, initial=0.0)
            within = largest < 2.0**_HIGHEST_ROW
            part[~within] = 0.0
            _to_multiples(part, np.where(within, largest, 0.0), self.row_bits, np.trunc)
            # What is cut off leaves no more digits than there were: single precision holds it.
            kept[begin : begin + piece] = part
            short[begin : begin + piece] = within
        return kept, short

    def weights(self, weights: FloatArray) -> FloatArray:
        """Weights (..., K, d) on the grid; weights that allow no score are refused."""
        found = np.array(weights, dtype=np.float64)
        largest = np.abs(found).max(axis=-1, initial=0.0)
        if not np.all(largest < 2.0**_HIGHEST_WEIGHT):
            raise NumericalFailure(
                "the weights are no longer finite, or too large to compute scores with: the "
                "learning rate is too large for this clip and noise"
            )
        _to_multiples(found, largest, self.weight_bits, np.rint)
        return found

    def try_product(self, outputs: int) -> None:
        """Compare a product of the largest integers that can occur with one in whole numbers.

        A library that does not multiply in double precision is found out here, before any step.
        """
        count = min(37, max(5, _TRIED // (self.columns * outputs)))
        rows = _alternating((count, self.columns), self.row_bits)
        weights = _alternating((outputs, self.columns), self.weight_bits)
        exact = rows @ weights.T
        found = rows.astype(np.float64) @ weights.T.astype(np.float64, order="C")
        squares = np.einsum("ij,ij->i", *[rows.astype(np.float64)] * 2)
        if not (np.array_equal(found, exact) and np.array_equal(squares, (rows * rows).sum(1))):
            raise NumericalFailure(
                "a matrix product of small whole numbers is not exact: the linear algebra library "
                "of this numpy does not compute in double precision"
            )


def _to_multiples(values: FloatArray, largest: FloatArray, bits: int, whole: Any) -> None:
    """Bring the last axis to multiples of 2^(e - bits), in place, with 2^e above ``largest``."""
    exponents = np.maximum(np.frexp(largest)[1], _LOWEST)[..., None]
    # Powers of two change no digit; what underflows is far below a unit.
    with np.errstate(under="ignore"):
        values *= np.ldexp(1.0, bits - exponents)
        whole(values, out=values)
        values *= np.ldexp(1.0, exponents - bits)


def _alternating(shape: tuple[int, int], bits: int) -> NDArray[np.int64]:
    """Odd integers close to 2^bits whose signs and last digits change from place to place."""
    places = np.arange(shape[0] * shape[1], dtype=np.int64)
    sizes = (1 << bits) - 1 - 2 * (places * 40503 % (1 << (bits // 2)))
    signs = 1 - 2 * (places * 2654435761 >> 13 & 1)
    return (sizes * signs).reshape(shape)
