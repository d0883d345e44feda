"""Many seeded runs of a linear model at once, with a budget that has been accounted for already.

``mustdp.training.linear.simulation.fit_chains`` does the same for an estimator and accounts for it
every time; an experiment knows its budgets, and times the runs alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.numerics.arrays import FloatArray
from mustdp.training.budget import Budget
from mustdp.training.linear.chains import StackedRecords, descend_chains
from mustdp.training.linear.descent import Recipe
from mustdp.training.linear.losses import Loss


@dataclass(frozen=True)
class Chained:
    """Weights (R, width) with the intercept last, their path if kept, CPU seconds of one step."""

    weights: FloatArray
    path: FloatArray | None
    seconds_per_step: float


def run_chains(
    records: tuple[NDArray[Any], NDArray[Any]],
    loss: Loss,
    budget: Budget,
    *,
    clip: float,
    rate: float,
    start: float,
    seeds: Sequence[int],
    keep_path: bool = False,
) -> Chained:
    """One run per seed, of a model with one score and an intercept."""
    rows, targets = records
    stacked = StackedRecords(rows, targets, loss, True, len(seeds))
    recipe = Recipe(budget, clip, np.full(budget.steps, rate), start)
    began = time.process_time()
    done = descend_chains(stacked, recipe, seeds, keep_path=keep_path)
    spent = (time.process_time() - began) / (len(seeds) * budget.steps)
    path = None if done.path is None else done.path[:, :, 0]
    return Chained(done.weights[:, 0], path, spent)
