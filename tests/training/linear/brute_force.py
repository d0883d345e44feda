"""The clipped sum, one record at a time and straight from the definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.types import Batch

FloatArray = NDArray[np.float64]


def record_gradient(kind: str, weights: FloatArray, x: FloatArray, y: Any) -> FloatArray:
    """Gradient of one record's loss in the weights (K, width), written out entry by entry."""
    scores = [math.fsum(w * value for w, value in zip(row, x, strict=True)) for row in weights]
    if kind == "squared":
        residuals = [2 * (scores[0] - y)]
    elif kind == "logistic":
        residuals = [1 / (1 + math.exp(-scores[0])) - y]
    else:
        powers = [math.exp(score) for score in scores]
        residuals = [p / sum(powers) - (k == y) for k, p in enumerate(powers)]
    return np.array([[r * value for value in x] for r in residuals])


def clipped_sum(
    kind: str,
    weights: FloatArray,
    X: FloatArray,
    y: NDArray[Any],
    batch: Batch,
    clip: float,
    fit_intercept: bool,
) -> FloatArray:
    """Every copy of every record on its own: gradient, clip, add."""
    total = np.zeros_like(weights)
    for row in batch.rows():
        x = np.append(X[row], 1.0) if fit_intercept else X[row]
        gradient = record_gradient(kind, weights, x, y[row])
        total += gradient * min(1.0, clip / max(float(np.linalg.norm(gradient)), 1e-300))
    return total
