"""Experiment 3a of the paper, simulated: logistic regression on Adult with calibrated noise.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389: 30,969 training records with 13 features and an intercept,
m = 100, b = 200, C = 1.5, learning rate 0.4, T = 15 steps, all weights start at 1, epsilon' = 5e-5
of one step, delta = 1/n, exact Gaussian calibration with sensitivity C/n.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from mustdp.experiments.adult_program import CLIP, RATE, START, Noise, train
from mustdp.experiments.chains import run_chains
from mustdp.experiments.schemes import scheme_called
from mustdp.numerics.arrays import FloatArray
from mustdp.training.budget import Budget, settle
from mustdp.training.data.dataset import DataSet
from mustdp.training.data.named import load_data
from mustdp.training.linear.losses import LogisticLoss

SIZES = N, B, M = 30_969, 200, 100
STEPS, EPSILON_PRIME = 15, 5e-5
#: Runs whose time is measured together.
_BLOCK = 20


@dataclass(frozen=True)
class Job:
    """So many runs of one budget, seeded from ``seed`` on, with the data in ``folder``.

    ``program`` runs the authors' program instead, with its noise where it says.
    """

    row: str
    budget: Budget
    runs: int
    seed: int
    folder: Path | None
    program: Noise | None = None


@dataclass(frozen=True)
class Runs:
    """Test accuracies of all runs, the loss curve of the first, CPU seconds of a step by block."""

    row: str
    accuracy: FloatArray
    curve: tuple[float, ...]
    seconds_per_step: FloatArray


@lru_cache(maxsize=1)
def adult(folder: Path | None) -> DataSet:
    """The data set, read once by every process."""
    return load_data("adult", folder)


def paper_budget(name: str) -> Budget:
    """The noise of the paper."""
    return settle(
        scheme_called(name, *SIZES), steps=STEPS, epsilon_prime=EPSILON_PRIME,
        delta=1 / SIZES[0], paper_noise="analytic", relation="replace_one",
    )  # fmt: skip


def paper_sigma(budget: Budget) -> float:
    """The deviation of the noise on the mean of the clipped gradients."""
    return budget.noise_multiplier * CLIP / M


def simulate(job: Job) -> Runs:
    """Make the runs of a job."""
    return _program(job) if job.program is not None else _private(job)


def _program(job: Job) -> Runs:
    data, sigma = adult(job.folder), paper_sigma(job.budget)
    steps, noise = job.budget.steps, job.program or "none"
    done = [
        train(data, job.budget.scheme, sigma, noise, steps, seed)
        for seed in range(job.seed, job.seed + job.runs)
    ]
    return Runs(job.row, np.array([run.accuracy for run in done]), done[0].losses, np.zeros(0))


def _private(job: Job) -> Runs:
    data, budget = adult(job.folder), job.budget
    records = (data.X_train, data.y_train.astype(np.float64))
    accuracy, times = [], []
    for first in range(job.seed, job.seed + job.runs, _BLOCK):
        seeds = range(first, min(first + _BLOCK, job.seed + job.runs))
        done = run_chains(
            records, LogisticLoss(), budget, clip=CLIP, rate=RATE, start=START, seeds=seeds
        )
        times.append(done.seconds_per_step)
        scores = done.weights[:, :-1] @ data.X_test.T + done.weights[:, -1:]
        accuracy.append(np.mean((scores > 0) == (data.y_test == 1), axis=1))
    return Runs(job.row, np.concatenate(accuracy), (), np.array(times))
