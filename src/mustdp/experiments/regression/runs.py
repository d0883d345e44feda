"""Experiment 2 of the paper, simulated: linear regression by noisy gradient descent.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389: n = 1000, y = 1 + 0.5 x1 + 0.2 x2 + N(0, 1), x from
N(0, 1), T = 200 steps, m = 100, b = 200, C = 3, learning rate 0.04, all weights start at -1. The
authors' program ("lm experiment.R" of github.com/zhao-xingyuan/Hsubsampling, commit 66414c2) draws
a new data set for every run and scheme; here all schemes see the same data sets, so that they can
be compared with less noise. The error of a run is the root of the mean of the loss over all
records, averaged over the last 16 steps, as in that program.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from mustdp.experiments.comparison.budgets import Setting, noiseless
from mustdp.experiments.comparison.simulation import Job, Runs, run_chains
from mustdp.experiments.frame.published import NON_PRIVATE
from mustdp.numerics.arrays import FloatArray
from mustdp.training.linear.losses import SquaredError

REGRESSION = Setting(
    "tables-4-s2", "Linear regression", sizes=(1000, 200, 100), steps=200, clip=3.0, rate=0.04,
    start=-1.0, primes=(0.01, 0.001), formula="classical",
)  # fmt: skip
TRUTH = (1.0, 0.5, 0.2)
#: The way of the run that does not clip either.
UNCLIPPED = "unclipped"
#: Steps at the end over which the loss is averaged.
_LAST = 16
#: A bound that no gradient reaches, and noise of a hundred-millionth of it: no privacy at all.
_NO_CLIP, _NO_NOISE = 1e4, 1e-8


def deviations(runs: Runs) -> FloatArray:
    """Weights minus the true ones, (R, 3)."""
    return np.asarray(runs.values[:, 1:] - np.array(TRUTH))


@lru_cache(maxsize=2)
def data_sets(count: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Rows (count, n, 2) and targets (count, n)."""
    n = REGRESSION.n
    rng = np.random.default_rng((seed, 2))
    X = rng.normal(size=(count, n, 2))
    y = TRUTH[0] + X @ np.array(TRUTH[1:]) + rng.normal(size=(count, n))
    return X, y


def run_job(job: Job) -> Runs:
    """One chain per data set: residual error and the three weights of each."""
    X, y = data_sets(len(job.seeds), job.seeds[0])
    setting = replace(REGRESSION, clip=_NO_CLIP) if job.way == UNCLIPPED else REGRESSION
    weights, path, seconds = run_chains(
        (X, y), SquaredError(), setting, job.budget, job.seeds, keep_path=True
    )
    if path is None:
        raise RuntimeError("the chains were run without their path")
    losses = mean_losses(X, y, path)
    residual = np.sqrt(losses[:, -_LAST:].mean(axis=1))
    return Runs(
        np.column_stack([residual, weights[:, [2, 0, 1]]]), np.array([seconds]),
        tuple(float(v) for v in losses[0]),
    )  # fmt: skip


def mean_losses(X: FloatArray, y: FloatArray, path: FloatArray) -> FloatArray:
    """Mean squared residual over all records, for weights (R, steps, 3) with the intercept last."""
    rows = np.concatenate([X, np.ones((*y.shape, 1))], axis=2)
    squares = np.einsum("rni,rnj->rij", rows, rows) / y.shape[1]
    mixed = np.einsum("rni,rn->ri", rows, y) / y.shape[1]
    level = np.mean(y * y, axis=1)
    quadratic = np.einsum("rti,rij,rtj->rt", path, squares, path, optimize=True)
    linear = np.einsum("rti,ri->rt", path, mixed)
    losses: FloatArray = quadratic - 2.0 * linear + level[:, None]
    return losses


def non_private(seeds: range) -> Job:
    """The run that neither clips nor adds noise worth the name."""
    scheme = REGRESSION.scheme("Poisson")
    budget = noiseless(scheme, _NO_NOISE, REGRESSION.steps, 1 / REGRESSION.n)
    return Job((NON_PRIVATE,), budget, seeds, way=UNCLIPPED)
