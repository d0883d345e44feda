"""Logistic regression on Adult as the authors' program runs it, in numpy.

It differs from what the paper describes in where noise is added: to the clipped gradient of every
distinct record of the batch, before they are averaged. The mean then carries noise of deviation
sigma sqrt(sum of squared counts)/m, which is about sigma/sqrt(m): ten times less than stated for
m = 100. The run without privacy neither clips nor adds noise. Nothing here is private. (The program
is "logistic regression experiment.R" of github.com/zhao-xingyuan/Hsubsampling, commit 4cffd27.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.scheme import Scheme
from mustdp.training.data.dataset import DataSet
from mustdp.training.linear.losses import LogisticLoss, sigmoid

Noise = Literal["mean", "record", "none"]

CLIP, RATE, START = 1.5, 0.4, 1.0


@dataclass(frozen=True)
class Trained:
    """Test accuracy of a run and the mean training loss after every step."""

    accuracy: float
    losses: tuple[float, ...]


def with_intercept(rows: FloatArray) -> FloatArray:
    """Rows with a column of ones in front."""
    return np.column_stack([np.ones(len(rows)), rows])


def train(
    data: DataSet, scheme: Scheme, sigma: float, noise: Noise, steps: int, seed: int
) -> Trained:
    """One run; ``noise`` says whether sigma goes on the mean, on every record, or nowhere."""
    rng = np.random.default_rng((seed, 3))
    X, y = with_intercept(data.X_train), data.y_train.astype(np.float64)
    weights = np.full(X.shape[1], START)
    losses = []
    for _ in range(steps):
        batch = scheme.draw(rng)
        rows = X[batch.indices]
        gradients = (sigmoid(rows @ weights) - y[batch.indices])[:, None] * rows
        if noise != "none":
            norms = np.linalg.norm(gradients, axis=1, keepdims=True)
            gradients *= np.minimum(1.0, CLIP / np.maximum(norms, 1e-300))
        if noise == "record":
            gradients += sigma * rng.standard_normal(gradients.shape)
        mean = batch.counts @ gradients / max(1, batch.size)
        if noise == "mean":
            mean += sigma * rng.standard_normal(mean.shape)
        weights -= RATE * mean
        losses.append(float(LogisticLoss().evaluate((X @ weights)[None], y)[1].mean()))
    right = (with_intercept(data.X_test) @ weights > 0) == (data.y_test == 1)
    return Trained(float(right.mean()), tuple(losses))
