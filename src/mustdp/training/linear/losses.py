"""Losses of linear models, as functions of the scores.

The score of a record x is its K linear predictors, W x + c. With r the gradient of its loss in the
scores, the gradient in (W, c) is the outer product of r and (x, 1), and its norm factors:
|r| * |(x, 1)|. So clipping never needs a gradient per record, only the rows r.

The gradient of a record must not depend on where the record stands, to the last bit. Operations of
IEEE 754 on single entries give the same everywhere. Sums along an axis do not, as numpy chooses
their order by the shape, and no standard says what ``exp`` gives, which has one routine for most
entries and may have another for the last ones. So gradients are computed without either.
"""

from __future__ import annotations

import math
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
        small = exp_of_negative(-np.abs(score))
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
        gradient = exp_of_negative(shifted)
        total = sum_of_scores(gradient)
        value += np.log(total)
        gradient /= total[..., None, :]
        gradient.reshape(-1)[own] -= 1.0
        return gradient, value


def sum_of_scores(values: FloatArray) -> FloatArray:
    """The sum over the K scores of each record, always from the first to the last."""
    total = values[..., 0, :].copy()
    for score in range(1, values.shape[-2]):
        total += values[..., score, :]
    return total


#: log 2 in two parts, the first so short that its products with exponents are exact.
_LOG2_HIGH, _LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
#: Below this the power would leave the normal numbers.
_SMALLEST_EXPONENT = -708.0
_TERMS = 13


def exp_of_negative(values: FloatArray) -> FloatArray:
    """exp of values <= 0, the same bits at every place; exp(-708) (about 3e-308) below -708.

    exp(x) = 2^k exp(r) with k = round(x / log 2) and |r| < 0.347, and the Taylor series of exp(r)
    to r^13, whose rest is below 2^-57. NaN stays NaN.
    """
    values = np.maximum(values, _SMALLEST_EXPONENT)
    whole = np.rint(values * (1.0 / math.log(2.0)))
    rest = values - whole * _LOG2_HIGH
    rest -= whole * _LOG2_LOW
    series = np.full_like(rest, 1.0 / math.factorial(_TERMS))
    for term in range(_TERMS - 1, -1, -1):
        series *= rest
        series += 1.0 / math.factorial(term)
    # 2^k, written as the bits of a double; a NaN has its way whatever k is.
    powers = np.nan_to_num(whole, copy=False).astype(np.int64)
    powers += 1023
    powers <<= 52
    series *= powers.view(np.float64)
    return series


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
