"""The clipped sum of a batch: every distinct record once, weighted by its count, in one pass.

The rows of a batch are fetched in blocks that fit the processor's cache. In each block the scores,
the clipping and the weighted product follow one another before the next block is fetched, so a row
is read from memory once, and no gradient per record is ever formed. Products of a block are made in
slices, small enough for the kernels that BLAS keeps for thin matrices.

What a record contributes is a function of that record and of the released weights alone, to the
last bit, wherever it stands in a batch and whatever stands beside it: scores and norms are exact
(``exact_scores.py``), and all else until the weighted product is done entry by entry. The error of
that product is part of what a record may move (``perturbing.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.sampling.batch import Batch
from mustdp.training.linear.exact_scores import Grid
from mustdp.training.linear.losses import Loss, sum_of_scores

#: Bytes of rows in one block, in double precision, and multiplications in one slice of a product.
_BLOCK = 3 << 19
_SLICE = 1 << 19
_FEWEST_ROWS = 32
#: Norms of rows are taken as at least, and at most, this, so that no square leaves floating point.
_SHORTEST, _LONGEST = 1e-100, 1e100
#: Bounds on a record's gradient for which rounding, and those limits, are safe.
SMALLEST_CLIP, LARGEST_CLIP = 1e-30, 1e9


def check_clip(clip: object) -> float:
    """The bound on a record's gradient, as a number in the range where it can be kept."""
    return checks.real("clip", clip, at_least=SMALLEST_CLIP, at_most=LARGEST_CLIP)


class Records:
    """Records of a linear model: rows, targets, and the norms that clipping needs.

    ``rows`` (n, d) may be double or single precision; they are kept on a grid, in that precision,
    and everything is computed in double. Rows are finite; that is checked where data come in.
    """

    def __init__(
        self, rows: NDArray[Any], targets: NDArray[Any], loss: Loss, fit_intercept: bool
    ) -> None:
        self.grid = Grid.of(rows.shape[1])
        self.grid.try_product(loss.outputs)
        self.rows, self.norms = rows_and_norms(rows, self.grid, fit_intercept)
        self.targets = targets
        self.loss = loss
        self.fit_intercept = fit_intercept
        features = max(1, self.rows.shape[1])
        self._block = max(_FEWEST_ROWS, _BLOCK // (features * 8))
        self._slice = max(_FEWEST_ROWS, _SLICE // (features * loss.outputs))
        self._fetched = np.empty((min(self._block, len(self.rows)), features), self.rows.dtype)

    @property
    def width(self) -> int:
        """Parameters per score: the features, and the intercept where there is one."""
        return int(self.rows.shape[1]) + self.fit_intercept

    def additions(self, records: int) -> int:
        """The most that are made, one after another, for a sum over so many distinct records."""
        blocks = -(-records // self._block)
        return int(self._block + blocks * (2 + -(-self._block // self._slice)))

    def clipped_sum(
        self, weights: FloatArray, batch: Batch, bound: float
    ) -> tuple[FloatArray, float]:
        """Sum of count * clipped gradient, of the shape (K, width) of ``weights``, and mean loss.

        The intercept, if any, is the last column. The mean loss of an empty batch is NaN.
        """
        features = self.rows.shape[1]
        coefficients = np.ascontiguousarray(self.grid.weights(weights[:, :features]).T)
        total, losses = np.zeros_like(weights), 0.0
        for begin in range(0, batch.distinct, self._block):
            indices = batch.indices[begin : begin + self._block]
            counts = batch.counts[begin : begin + self._block]
            rows = self._fetched[: indices.size]
            self.rows.take(indices, axis=0, out=rows, mode="clip")
            rows = rows.astype(np.float64, copy=False)
            scores = self._scores(rows, coefficients)
            if self.fit_intercept:
                scores += weights[:, features, None]
            gradient, values = self.loss.evaluate(scores, self.targets[indices])
            clip_gradient(gradient, self.norms[indices], counts, bound, features)
            self._add_products(total[:, :features], gradient, rows)
            if self.fit_intercept:
                total[:, features] += gradient.sum(axis=-1)
            losses += float(values @ counts)
        return total, losses / batch.size if batch.distinct else np.nan

    def _scores(self, rows: NDArray[Any], coefficients: FloatArray) -> FloatArray:
        """Scores (K, rows) without the intercept: exact, as all of it is on the grid."""
        scores = np.empty((len(rows), coefficients.shape[1]))
        for begin in range(0, len(rows), self._slice):
            part = slice(begin, begin + self._slice)
            np.matmul(rows[part].astype(np.float64, copy=False), coefficients, out=scores[part])
        return np.ascontiguousarray(scores.T)

    def _add_products(self, total: FloatArray, gradient: FloatArray, rows: FloatArray) -> None:
        for begin in range(0, len(rows), self._slice):
            part = slice(begin, begin + self._slice)
            total += gradient[:, part] @ rows[part]


def clip_gradient(
    gradient: FloatArray,
    norms: FloatArray,
    counts: NDArray[Any],
    bound: float,
    features: int,
) -> None:
    """Scale each column r of ``gradient``, in place, by count * min(1, bound / (|r| * norm)).

    The K squares of r and the ``features`` + 1 of a row are added up with a relative error of at
    most K u and (features + 1) u, roots halve it, and six operations follow; with twice as much
    taken off the bound, no contribution exceeds it because of rounding. Where squares underflow,
    |r| is below 2^-510, and times a norm of at most 1e100 far below any clip. A column that is not
    finite contributes nothing. So whatever a record holds, it moves the sum by at most ``bound``
    per copy.
    """
    bound = bound * (1.0 - (gradient.shape[-2] + features + 32) * ROUNDOFF)
    lengths = np.sqrt(sum_of_scores(np.square(gradient)))
    lengths *= norms
    gradient *= (counts * (bound / np.maximum(lengths, bound)))[..., None, :]
    finite = np.isfinite(gradient)
    if not finite.all():
        np.copyto(gradient, 0.0, where=~finite.all(axis=-2, keepdims=True))


def rows_and_norms(
    rows: NDArray[Any], grid: Grid, fit_intercept: bool
) -> tuple[NDArray[Any], FloatArray]:
    """Rows on the grid, and their norms in double precision, the 1 of the intercept included.

    Norms are rounded up to 1e-100, which clips a little more, and to infinity above 1e100, which
    leaves the row out: the product of a norm and a gradient's length is then always meaningful.
    Squares on the grid add up exactly, so that a norm depends on its row alone.
    """
    rows, short = grid.rows(rows)
    squares = np.empty(len(rows))
    piece = max(1, (1 << 22) // max(1, rows.shape[1]))
    for begin in range(0, len(rows), piece):
        part = rows[begin : begin + piece].astype(np.float64, copy=False)
        squares[begin : begin + piece] = np.einsum("ij,ij->i", part, part)
    norms = np.maximum(np.sqrt(squares + fit_intercept), _SHORTEST)
    norms[~short | (norms > _LONGEST)] = np.inf
    return rows, norms
