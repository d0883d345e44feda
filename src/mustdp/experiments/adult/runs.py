"""Experiment 3a of the paper, simulated: logistic regression on Adult with calibrated noise.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389: 30,969 training records with 13 features and an intercept,
m = 100, b = 200, C = 1.5, learning rate 0.4, T = 15 steps, all weights start at 1, epsilon' = 5e-5
of one step, delta = 1/n, exact Gaussian calibration with sensitivity C/n.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from mustdp.experiments.adult.program import ADULT, train
from mustdp.experiments.comparison.simulation import PRIVATE, Job, Runs, run_chains
from mustdp.training.data.dataset import DataSet
from mustdp.training.data.named import load_data
from mustdp.training.linear.losses import LogisticLoss

#: Runs whose time is measured together.
_BLOCK = 20


@lru_cache(maxsize=1)
def adult(folder: Path | None) -> DataSet:
    """The data set, read once by every process."""
    return load_data("adult", folder)


def run_job(job: Job) -> Runs:
    """Test accuracies in percent; by the authors' program if ``way`` says where its noise is."""
    return _private(job) if job.way == PRIVATE else _program(job)


def _program(job: Job) -> Runs:
    data, budget = adult(job.folder), job.budget
    sigma = ADULT.paper_sigma(budget)
    done = [
        train(data, budget.fresh_draws, sigma, job.way, budget.steps, seed) for seed in job.seeds
    ]
    accuracy = np.array([[100 * accuracy] for accuracy, _ in done])
    return Runs(accuracy, np.zeros(0), done[0][1])


def _private(job: Job) -> Runs:
    data = adult(job.folder)
    records = (data.X_train, data.y_train.astype(np.float64))
    accuracy, times = [], []
    for k in range(0, len(job.seeds), _BLOCK):
        weights, _, seconds = run_chains(
            records, LogisticLoss(), ADULT, job.budget, job.seeds[k : k + _BLOCK]
        )
        times.append(seconds)
        scores = weights[:, :-1] @ data.X_test.T + weights[:, -1:]
        accuracy.append(100 * np.mean((scores > 0) == (data.y_test == 1), axis=1))
    return Runs(np.concatenate(accuracy)[:, None], np.array(times))
