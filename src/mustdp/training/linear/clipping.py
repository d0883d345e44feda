"""The clipped sum of a batch: every distinct record once, weighted by its count, in one pass.

The rows of a batch are fetched in blocks that fit the processor's cache. In each block the scores,
the clipping and the weighted product follow one another before the next block is fetched, so a row
is read from memory once, and no gradient per record is ever formed. Products of a block are made in
slices, small enough for the kernels that BLAS keeps for thin matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.sampling.batch import Batch
from mustdp.training.linear.losses import FloatArray, Loss

#: Bytes of rows in one block, and multiplications in one slice of a product.
_BLOCK = 3 << 19
_SLICE = 1 << 19
_FEWEST_ROWS = 32


class Records:
    """Records of a linear model: rows, targets, and the norms that clipping needs.

    ``rows`` (n, d) may be double or single precision; products are made in that precision and
    everything else in double. Rows are finite; that is checked where data come in.
    """

    def __init__(
        self, rows: NDArray[Any], targets: NDArray[Any], loss: Loss, fit_intercept: bool
    ) -> None:
        self.rows = np.ascontiguousarray(rows)
        self.targets = targets
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.norms = row_norms(self.rows, fit_intercept)
        features = max(1, self.rows.shape[1])
        self._block = max(_FEWEST_ROWS, _BLOCK // (features * self.rows.itemsize))
        self._slice = max(_FEWEST_ROWS, _SLICE // (features * loss.outputs))
        self._fetched = np.empty((min(self._block, len(self.rows)), features), self.rows.dtype)

    @property
    def width(self) -> int:
        """Parameters per score: the features, and the intercept where there is one."""
        return int(self.rows.shape[1]) + self.fit_intercept

    def clipped_sum(
        self, weights: FloatArray, batch: Batch, clip: float
    ) -> tuple[FloatArray, float]:
        """Sum of count * clipped gradient, of the shape (K, width) of ``weights``, and mean loss.

        The intercept, if any, is the last column. The mean loss of an empty batch is NaN.
        """
        features = self.rows.shape[1]
        coefficients = weights[:, :features].T.astype(self.rows.dtype, order="C")
        total, losses = np.zeros_like(weights), 0.0
        for begin in range(0, batch.distinct, self._block):
            indices = batch.indices[begin : begin + self._block]
            counts = batch.counts[begin : begin + self._block]
            rows = self._fetched[: indices.size]
            self.rows.take(indices, axis=0, out=rows, mode="clip")
            scores = self._scores(rows, coefficients)
            if self.fit_intercept:
                scores += weights[:, features, None]
            gradient, values = self.loss.evaluate(scores, self.targets[indices])
            clip_gradient(gradient, self.norms[indices], counts, clip, self.rows.dtype)
            self._add_products(total[:, :features], gradient, rows)
            if self.fit_intercept:
                total[:, features] += gradient.sum(axis=-1)
            losses += float(values @ counts)
        return total, losses / batch.size if batch.distinct else np.nan

    def _scores(self, rows: NDArray[Any], coefficients: NDArray[Any]) -> FloatArray:
        scores = np.empty((len(rows), coefficients.shape[1]), rows.dtype)
        for begin in range(0, len(rows), self._slice):
            part = slice(begin, begin + self._slice)
            np.matmul(rows[part], coefficients, out=scores[part])
        return scores.T.astype(np.float64, order="C")

    def _add_products(self, total: FloatArray, gradient: FloatArray, rows: NDArray[Any]) -> None:
        weighted = gradient.astype(rows.dtype, copy=False)
        for begin in range(0, len(rows), self._slice):
            part = slice(begin, begin + self._slice)
            total += weighted[:, part] @ rows[part]


def clip_gradient(
    gradient: FloatArray,
    norms: FloatArray,
    counts: NDArray[Any],
    clip: float,
    precision: np.dtype[Any],
) -> None:
    """Scale each column r of ``gradient``, in place, by count * min(1, clip / (|r| * norm)).

    The bound is shaved by the rounding of ``precision``, so that no contribution exceeds ``clip``
    because of it; entries too small to keep their digits in that precision become zero. A column
    that is not finite contributes nothing. So whatever a record holds, it moves the sum by at most
    ``clip`` per copy.
    """
    limits = np.finfo(precision)
    bound = clip * (1.0 - 8.0 * float(limits.eps))
    lengths = np.sqrt(np.square(gradient).sum(axis=-2))
    lengths *= norms
    gradient *= (counts * (bound / np.maximum(lengths, bound)))[..., None, :]
    if precision != np.float64:
        gradient[np.abs(gradient) < float(limits.tiny)] = 0.0
    finite = np.isfinite(gradient)
    if not finite.all():
        np.copyto(gradient, 0.0, where=~finite.all(axis=-2, keepdims=True))


def row_norms(rows: NDArray[Any], fit_intercept: bool) -> FloatArray:
    """The norm of every row in double precision, the 1 of the intercept included."""
    squares = np.empty(len(rows))
    piece = max(1, (1 << 22) // max(1, rows.shape[1]))
    for begin in range(0, len(rows), piece):
        part = rows[begin : begin + piece].astype(np.float64, copy=False)
        squares[begin : begin + piece] = np.einsum("ij,ij->i", part, part)
    return np.sqrt(squares + fit_intercept)
