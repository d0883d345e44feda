"""Logistic regression on Adult as the authors' program runs it, in numpy.

It differs from what the paper describes in where noise is added: to the clipped gradient of every
distinct record of the batch, before they are averaged. The mean then carries noise of deviation
sigma sqrt(sum of squared counts)/m, which is about sigma/sqrt(m): ten times less than stated for
m = 100. The run without privacy neither clips nor adds noise. Nothing here is private. (The program
is "logistic regression experiment.R" of github.com/zhao-xingyuan/Hsubsampling, commit 4cffd27.)
"""

from __future__ import annotations

import numpy as np

from mustdp.experiments.comparison.budgets import Setting
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.scheme import Scheme
from mustdp.training.data.dataset import DataSet
from mustdp.training.linear.losses import LogisticLoss, sigmoid

ADULT = Setting(
    "adult", "Adult", sizes=(30_969, 200, 100), steps=15, clip=1.5, rate=0.4, start=1.0,
    primes=(5e-5,), formula="analytic",
)  # fmt: skip
#: Where sigma goes: on the mean, on the gradient of every record, or nowhere.
NOISES = MEAN, RECORD, NONE = "mean", "record", "none"


def with_intercept(rows: FloatArray) -> FloatArray:
    """Rows with a column of ones in front."""
    return np.column_stack([np.ones(len(rows)), rows])


def train(
    data: DataSet, scheme: Scheme, sigma: float, noise: str, steps: int, seed: int
) -> tuple[float, tuple[float, ...]]:
    """Test accuracy of a run and the mean training loss after every step.

    ``noise`` says where sigma goes.
    """
    checks.choice("noise", noise, NOISES)
    rng = np.random.default_rng((seed, 3))
    X, y = with_intercept(data.X_train), data.y_train.astype(np.float64)
    weights = np.full(X.shape[1], ADULT.start)
    losses = []
    for _ in range(steps):
        batch = scheme.draw(rng)
        rows = X[batch.indices]
        gradients = (sigmoid(rows @ weights) - y[batch.indices])[:, None] * rows
        if noise != NONE:
            norms = np.linalg.norm(gradients, axis=1, keepdims=True)
            gradients *= np.minimum(1.0, ADULT.clip / np.maximum(norms, 1e-300))
        if noise == RECORD:
            gradients += sigma * rng.standard_normal(gradients.shape)
        mean = batch.counts @ gradients / max(1, batch.size)
        if noise == MEAN:
            mean += sigma * rng.standard_normal(mean.shape)
        weights -= ADULT.rate * mean
        losses.append(float(LogisticLoss().evaluate((X @ weights)[None], y)[1].mean()))
    right = (with_intercept(data.X_test) @ weights > 0) == (data.y_test == 1)
    return float(right.mean()), tuple(losses)
