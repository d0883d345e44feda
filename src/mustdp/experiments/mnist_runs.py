"""Experiment 3b of the paper, run: a network on MNIST, privately and as the authors' program does.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389: n = 60,000, b = 3000, m = 2000, C = 2, rate 0.3, epsilon'
= 1e-5 of one step, delta = 1/n, exact Gaussian calibration with sensitivity C/n, 300 steps (the
text says 100; the authors' log and times are of 300).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from mustdp.experiments.mnist_program import CLIP, RATE, Clipping, train
from mustdp.experiments.schemes import scheme_called
from mustdp.training.budget import Budget, settle
from mustdp.training.classify import train_classifier
from mustdp.training.data.dataset import DataSet
from mustdp.training.data.named import load_data

SIZES = N, B, M = 60_000, 3000, 2000
STEPS, EPSILON_PRIME = 300, 1e-5
#: Noise of a millionth of what a record may add: none.
NO_NOISE = 1e-6
_CURVE_EVERY = 10


@dataclass(frozen=True)
class Job:
    """One run, seeded, with the data in ``folder``.

    ``how`` is ``private`` for :func:`mustdp.training.classify.train_classifier`, otherwise the
    clipping of the authors' program; ``curve`` keeps the test accuracy of every tenth step.
    """

    row: str
    budget: Budget
    seed: int
    folder: Path | None
    how: Literal["private"] | Clipping = "private"
    noisy: bool = True
    curve: bool = False


@dataclass(frozen=True)
class Run:
    """What a run gave; losses and accuracies on the way where the program made it."""

    row: str
    accuracy: float
    seconds: float
    losses: tuple[float, ...] = ()
    checked_at: tuple[int, ...] = ()
    checked: tuple[float, ...] = ()


@lru_cache(maxsize=1)
def mnist(folder: Path | None) -> DataSet:
    """The data set with pixels in [-1, 1], read once by every process."""
    return load_data("mnist", folder, pixels="centred")


def paper_budget(name: str) -> Budget:
    """The noise of the paper."""
    return settle(
        scheme_called(name, *SIZES), steps=STEPS, epsilon_prime=EPSILON_PRIME,
        delta=1 / SIZES[0], paper_noise="analytic", relation="replace_one",
    )  # fmt: skip


def paper_sigma(budget: Budget) -> float:
    """The deviation of the noise on the mean of the clipped gradients."""
    return budget.noise_multiplier * CLIP / M


def run_job(job: Job) -> Run:
    """Train once and test."""
    data, budget = mnist(job.folder), job.budget
    if job.how == "private":
        budget.spent()  # looked up once in a process, outside of the time that is measured
        began = time.process_time()
        trial = train_classifier(
            data, budget, model="mlp", clip=CLIP, learning_rate=RATE, seed=job.seed
        )
        return Run(job.row, trial.test_accuracy, time.process_time() - began)
    began = time.process_time()
    done = train(
        data, budget.scheme, paper_sigma(budget) if job.noisy else 0.0, job.how,
        steps=budget.steps, seed=job.seed, check_every=_CURVE_EVERY if job.curve else 0,
    )  # fmt: skip
    return Run(
        job.row, done.accuracy, time.process_time() - began, done.losses, done.checked_at,
        done.checked,
    )  # fmt: skip
