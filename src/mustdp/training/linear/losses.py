"""Losses of linear models, as functions of the scores.

The score of a record x is its K linear predictors, W x + c. With r the gradient of its loss in the
scores, the gradient in (W, c) is the outer product of r and (x, 1), and its norm factors:
|r| * |(x, 1)|. So clipping never needs a gradient per record, only the rows r.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray


class Loss(Protocol):
    """Gradient and value of a loss for scores (K, records) or (chains, K, records).

    Records lie along the last axis, so that everything done per record runs over long rows.
    """

    @property
    def outputs(self) -> int:
        """K, the number of scores of a record."""
        ...

    def evaluate(self, scores: FloatArray, targets: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Gradient in the scores (of their shape) and value (..., records)."""
        ...


class SquaredError:
    """(score - y)^2, with the gradient 2 (score - y): the squared loss without a factor 1/2."""

    outputs = 1

    def evaluate(self, scores: FloatArray, targets: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Gradient and value for real targets."""
        residual = scores - targets[..., None, :]
        return 2.0 * residual, np.square(residual[..., 0, :])


class LogisticLoss:
    """Cross entropy of one score against targets 0 and 1."""

    outputs = 1

    def evaluate(self, scores: FloatArray, targets: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Gradient and value for targets 0.0 and 1.0."""
        score = scores[..., 0, :]
        small = np.exp(-np.abs(score))
        value = np.log(1.0 + small) + np.maximum(score, 0.0) - targets * score
        chance = np.where(score >= 0.0, 1.0, small) / (1.0 + small)
        return (chance - targets)[..., None, :], value


class MultinomialLoss:
    """Cross entropy of K scores against a class number from 0 to K - 1."""

    def __init__(self, classes: int) -> None:
        if not classes >= 2:
            raise InvalidParameter(f"classes must be at least 2, got {classes!r}")
        self.outputs = classes

    def evaluate(self, scores: FloatArray, targets: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Gradient and value for class numbers as targets."""
        shifted = scores - scores.max(axis=-2, keepdims=True)
        own = _own_scores(shifted.shape, targets)
        value = -shifted.reshape(-1)[own]
        gradient = np.exp(shifted, out=shifted)
        total = gradient.sum(axis=-2)
        value += np.log(total)
        gradient /= total[..., None, :]
        gradient.reshape(-1)[own] -= 1.0
        return gradient, value


def _own_scores(shape: tuple[int, ...], targets: NDArray[Any]) -> NDArray[Any]:
    """Where, in scores of this shape laid out flat, each record has the score of its own class."""
    *leading, classes, records = shape
    places = targets * records + np.arange(records)
    if leading:
        places += (np.arange(leading[0]) * (classes * records))[:, None]
    return places


def sigmoid(scores: FloatArray) -> FloatArray:
    """1 / (1 + exp(-score)), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * scores))


def softmax(scores: FloatArray) -> FloatArray:
    """Chances proportional to exp(score), along the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
