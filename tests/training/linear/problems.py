"""Small problems for the tests of the linear models."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import mustdp as md
from mustdp.training.linear.descent import (
    LinearRecords,
    LogisticLoss,
    Loss,
    MultinomialLoss,
    SquaredError,
)
from mustdp.types import Batch, Budget, Relation

KINDS = ("squared", "logistic", "multinomial")
CLASSES = 4


def loss_of(kind: str) -> Loss:
    losses: dict[str, Loss] = {
        "squared": SquaredError(),
        "logistic": LogisticLoss(),
        "multinomial": MultinomialLoss(CLASSES),
    }
    return losses[kind]


def batch_of(**counts: int) -> Batch:
    """``batch_of(r3=2)``: record 3, twice."""
    return Batch(
        np.array([int(name[1:]) for name in counts], dtype=np.int64),
        np.array(list(counts.values()), dtype=np.int64),
    )


def targets_of(kind: str, n: int, rng: np.random.Generator) -> NDArray[Any]:
    if kind == "squared":
        return rng.normal(size=n) * 2
    if kind == "logistic":
        return rng.integers(0, 2, n).astype(np.float64)
    return rng.integers(0, CLASSES, n)


def records_of(
    kind: str, n: int, d: int, rng: np.random.Generator, fit_intercept: bool = True
) -> LinearRecords:
    return LinearRecords(
        rng.normal(size=(n, d)), targets_of(kind, n, rng), loss_of(kind), fit_intercept
    )


def budget_of(scheme: md.types.Scheme, steps: int, noise_multiplier: float) -> Budget:
    """A budget whose cost nobody asks for."""
    return Budget(scheme, noise_multiplier, steps, 1e-5, Relation.REPLACE_ONE, "test")
