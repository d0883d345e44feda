"""First and second moments of one or more columns, released together, and their joint reach.

Every column is scaled to [-1, 1] by its public range. For the d scaled columns u of a record the
release holds the averages of u_i (*means*), of u_i^2 for the columns in ``squares``, and of u_i
u_j, i < j (*products*). Everything else (variance, covariance, correlation, regression) is read
off these. Averages of records, not of pairs: where a multiset holds copies nothing has to be
corrected.

**Multisets of fixed size m.** Swapping one entry, u for v, changes the sums by ``Dmeans = u -
v``, ``Dsquares = (u_i^2 - v_i^2)``, ``Dproducts = (u_i u_j - v_i v_j)``. Let w = (1, u), t = (1,
v), D = d + 1. The matrix ww' - tt' holds Dmeans and Dproducts twice and Dsquares once, so

    2|Dmeans|^2 + |Dsquares|^2 + 2|Dproducts|^2 = |ww' - tt'|_F^2 = |w|^4 + |t|^4 - 2(w.t)^2.

Write a_i = 1 - u_i^2 and b_i = 1 - v_i^2, both in [0, 1], A = sum a_i, B = sum b_i, both <= d < D.
Then |w|^4 = (D - A)^2 <= D^2 - D A, and the same for t. And |u_i^2 - v_i^2|^2 = (a_i - b_i)^2
<= |a_i - b_i| <= a_i + b_i, so D |Dsquares|^2 <= D (A + B). Adding the two,

    2|Dmeans|^2 + (D + 1)|Dsquares|^2 + 2|Dproducts|^2 <= 2 D^2.

So with reaches ``D/(2m)`` for means and products and ``D/(m sqrt(2(D + 1)))`` for squares the
condition (*) of ``sharing.py``, sum of (change / (2 reach))^2 <= 1, holds for the vector as a
whole. It is attained for odd d by orthogonal w, t of signs; leaving squares out only lowers the
left side.

*One column* (d = 1) has a better balance: ``|u - v|^2 + (11/4)(u^2 - v^2)^2 <= 4``. With s = |u +
v|, |u - v| <= 2 - s, this follows from (2 - s)^2 (1 + (11/4) s^2) <= 4, that is, for s > 0, from
11/4 <= (4 - s) / (s (2 - s)^2), whose minimum over (0, 2) is (11 + 5 sqrt 5)/8 = 2.77 at s = 3 -
sqrt 5. So the reaches are 1/m for the mean and 2/(m sqrt 11) for the square: the mean costs what
it costs alone.

Squares are added up as u_i^2 - 1/2, in [-1/2, 1/2], and on multisets of fixed size the 1/2 is given
back after the noise.

**Poisson subsets of expected size M.** Sums are divided by M, and the size is released too
(*count*). One copy adds to 2 count^2 + 2|means|^2 +
4|squares|^2 + 2|products|^2 at most 2 + 2d + q + d(d - 1) =: R^2, with q squares. So the reaches
are R/(M sqrt 2) for count, means and products, and R/(2M) for squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mustdp.numerics.arrays import FloatArray
from mustdp.resampling.statistics.average import LEAST_SHARE
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.query import Block, LinearQuery
from mustdp.resampling.statistics.sharing import block, check_held


@dataclass(frozen=True)
class MomentQuery(LinearQuery):
    """Moments of all columns, squares of some of them; subclasses say what to read off them."""

    public: Public
    squares: tuple[int, ...]
    labels: tuple[str, ...]
    blocks: tuple[Block, ...] = field(init=False)
    _mids: FloatArray = field(init=False, repr=False, compare=False)
    _scales: FloatArray = field(init=False, repr=False, compare=False)
    _rows: NDArray[np.intp] = field(init=False, repr=False, compare=False)
    _columns: NDArray[np.intp] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ranges = self.public.ranges
        blocks = moment_blocks(self.public, len(self.squares))
        check_held("columns", sum(one.width for one in blocks), 1)
        rows, columns = np.triu_indices(len(ranges), 1)
        setting = {
            "_mids": np.array([one.mid for one in ranges]),
            "_scales": np.array([1.0 / one.half for one in ranges]),
            "_rows": np.concatenate([np.array(self.squares, dtype=np.intp), rows]),
            "_columns": np.concatenate([np.array(self.squares, dtype=np.intp), columns]),
            "blocks": blocks,
        }
        for name, value in setting.items():
            object.__setattr__(self, name, value)

    @property
    def within_reach(self) -> bool:
        """On Poisson subsets alone: with a fixed size, distances are bounded more tightly."""
        return self.public.poisson

    def contributions(self, values: FloatArray) -> FloatArray:
        """(1 on Poisson subsets,) the scaled columns, their squares less 1/2, their products."""
        found = np.ones((self.width, len(values)))  # a coordinate is a row here: that is faster
        start = int(self.public.poisson)
        end = start + len(self.public.ranges)
        scaled, second = found[start:end], found[end:]
        np.multiply(values.T - self._mids[:, None], self._scales[:, None], out=scaled)
        scaled.clip(-1.0, 1.0, out=scaled)  # the scale is a rounded number
        for row, first, other in zip(second, self._rows, self._columns, strict=True):
            np.multiply(scaled[first], scaled[other], out=row)
        second[: len(self.squares)] -= 0.5
        return found.T

    def moments(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means ``(..., d)`` and second moments ``(..., d, d)`` of the scaled columns.

        Squares that are not released are NaN. On Poisson subsets everything is divided by the noisy
        size; one below ``LEAST_SHARE`` of the expected size is taken to be that share of it.
        """
        columns, poisson = len(self.public.ranges), self.public.poisson
        if poisson:
            vectors = vectors[..., 1:] / np.maximum(vectors[..., :1], LEAST_SHARE)
        first, second = vectors[..., :columns], vectors[..., columns:]
        if poisson:
            second = second + np.repeat(
                [0.5, 0.0], [len(self.squares), len(self._rows) - len(self.squares)]
            )
        matrix = np.full((*vectors.shape[:-1], columns, columns), np.nan)
        matrix[..., self._rows, self._columns] = second
        matrix[..., self._columns, self._rows] = second
        return first, matrix

    def covariances(self, vectors: FloatArray) -> FloatArray:
        """Covariance matrices ``(..., d, d)`` of the scaled columns, with divisor n."""
        means, second = self.moments(vectors)
        return np.asarray(second - means[..., :, None] * means[..., None, :])


def moment_blocks(public: Public, squares: int) -> tuple[Block, ...]:
    """The blocks of ``MomentQuery``, with the reaches proved above."""
    columns, size = len(public.ranges), public.size
    products = columns * (columns - 1) // 2
    if public.poisson:
        joint = math.sqrt(2 + 2 * columns + squares + columns * (columns - 1))
        mixed, square = joint / math.sqrt(2.0), 0.5 * joint
    elif columns == 1:
        mixed, square = 1.0, 2.0 / math.sqrt(11.0)
    else:
        joint = columns + 1
        mixed, square = 0.5 * joint, joint / math.sqrt(2.0 * (joint + 1))
    found = [
        ("count", int(public.poisson), mixed, 0.0),
        ("means", columns, mixed, 0.0),
        ("squares", squares, square, 0.0 if public.poisson else 0.5),
        ("products", products, mixed, 0.0),
    ]
    return tuple(
        block(label, width, reach / size, size, shift)
        for label, width, reach, shift in found
        if width
    )
