"""Experiment 3b of the paper, run: a network on MNIST, privately and as the authors' program does.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389: n = 60,000, b = 3000, m = 2000, C = 2, rate 0.3, epsilon'
= 1e-5 of one step, delta = 1/n, exact Gaussian calibration with sensitivity C/n, 300 steps (the
text says 100; the authors' log and times are of 300).
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from mustdp.experiments.comparison.simulation import PRIVATE, Job, Runs
from mustdp.experiments.mnist.program import MNIST, SILENT, train
from mustdp.training.classify import train_classifier
from mustdp.training.data.dataset import DataSet
from mustdp.training.data.named import load_data

#: The test accuracy is looked at after so many steps where a curve is kept.
_CURVE_EVERY = 10


@lru_cache(maxsize=1)
def mnist(folder: Path | None) -> DataSet:
    """The data set with pixels in [-1, 1], read once by every process."""
    return load_data("mnist", folder, pixels="centred")


def run_job(job: Job) -> Runs:
    """Train and test one seed: by this package, or as the program does in the way named."""
    data, budget, (seed,) = mnist(job.folder), job.budget, job.seeds
    if job.way == PRIVATE:
        budget.spent()  # looked up once in a process, outside of the time that is measured
    began = time.process_time()
    if job.way == PRIVATE:
        trial = train_classifier(
            data, budget, model="mlp", clip=MNIST.clip, learning_rate=MNIST.rate, seed=seed
        )
        return _runs(trial.test_accuracy, time.process_time() - began, budget.steps)
    sigma = 0.0 if job.way == SILENT else MNIST.paper_sigma(budget)
    every = _CURVE_EVERY if job.curve else 0
    done = train(
        data, budget.fresh_draws, sigma, job.way, steps=budget.steps, seed=seed, check_every=every
    )
    found = _runs(done.accuracy, time.process_time() - began, budget.steps)
    return replace(found, losses=done.losses, checked=done.checked)


def _runs(accuracy: float, seconds: float, steps: int) -> Runs:
    """One run: test accuracy in percent."""
    return Runs(np.array([[100 * accuracy]]), np.array([seconds / steps]))
