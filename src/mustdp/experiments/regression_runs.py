"""Experiment 2 of the paper, simulated: linear regression by noisy gradient descent.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389: n = 1000, y = 1 + 0.5 x1 + 0.2 x2 + N(0, 1), x from
N(0, 1), T = 200 steps, m = 100, b = 200, C = 3, learning rate 0.04, all weights start at -1. The
authors' program ("lm experiment.R" of github.com/zhao-xingyuan/Hsubsampling, commit 66414c2) draws
a new data set for every run and scheme; here all schemes see the same data sets, so that they can
be compared with less noise. The error of a run is the root of the mean of the loss over all
records, averaged over the last 16 steps, as in that program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from mustdp.experiments.chains import run_chains
from mustdp.experiments.schemes import scheme_called
from mustdp.mechanisms.gaussian_sigma import classical_sigma
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.scheme import Scheme, must_wo
from mustdp.training.budget import Budget, settle
from mustdp.training.linear.losses import SquaredError

SIZES = N, B, M = 1000, 200, 100
STEPS, CLIP, RATE, START = 200, 3.0, 0.04, -1.0
TRUTH = (1.0, 0.5, 0.2)
#: Steps at the end over which the loss is averaged.
_LAST = 16
#: A bound that no gradient reaches, and noise of a hundred-millionth of it: no privacy at all.
_NO_CLIP, _NO_NOISE = 1e4, 1e-8
NON_PRIVATE = "non-private Poisson"


@dataclass(frozen=True)
class Job:
    """One scheme with the noise of a budget, on the first ``data_sets`` data sets of a seed.

    The batches come from ``scheme``, which is the budget's own but where a mistake is repeated.
    """

    row: str
    scheme: Scheme
    budget: Budget
    data_sets: int
    seed: int
    clipped: bool = True


@dataclass(frozen=True)
class Runs:
    """What one job found: residual errors (R,), weights (R, 3), the loss curve of data set 0."""

    row: str
    residual: FloatArray
    weights: FloatArray
    curve: tuple[float, ...]
    seconds_per_step: float

    @property
    def deviations(self) -> FloatArray:
        """Weights minus the true ones."""
        off: FloatArray = self.weights - np.array(TRUTH)
        return off


def paper_scheme(name: str) -> Scheme:
    """A scheme of the experiment, MUSTwo included."""
    return must_wo(*SIZES) if name == "MUSTwo" else scheme_called(name, *SIZES)


def paper_budget(name: str, epsilon_prime: float) -> Budget:
    """The noise of the paper for ``epsilon_prime`` of one step: classical formula, delta 1/n."""
    return settle(
        paper_scheme(name), steps=STEPS, epsilon_prime=epsilon_prime, delta=1 / N,
        paper_noise="classical", relation="replace_one",
    )  # fmt: skip


def paper_sigma(budget: Budget) -> float:
    """The deviation of the noise on the *mean* of the clipped gradients, as the paper prints it."""
    return budget.noise_multiplier * CLIP / M


def classical_shift(epsilon: float, *, sensitivity: float) -> float:
    """Sensitivity over the paper's sigma for a base epsilon."""
    return sensitivity / classical_sigma(epsilon, 1 / N, CLIP / N, beyond_proof=True)


@lru_cache(maxsize=2)
def data_sets(count: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Rows (count, n, 2) and targets (count, n)."""
    rng = np.random.default_rng((seed, 2))
    X = rng.normal(size=(count, N, 2))
    y = TRUTH[0] + X @ np.array(TRUTH[1:]) + rng.normal(size=(count, N))
    return X, y


def simulate(job: Job) -> Runs:
    """Run one chain per data set."""
    X, y = data_sets(job.data_sets, job.seed)
    done = run_chains(
        (X, y), SquaredError(), replace(job.budget, scheme=job.scheme),
        clip=CLIP if job.clipped else _NO_CLIP, rate=RATE, start=START,
        seeds=range(job.seed, job.seed + job.data_sets), keep_path=True,
    )  # fmt: skip
    if done.path is None:
        raise RuntimeError("the chains were run without their path")
    losses = mean_losses(X, y, done.path)
    return Runs(
        job.row, np.sqrt(losses[:, -_LAST:].mean(axis=1)), done.weights[:, [2, 0, 1]],
        tuple(float(v) for v in losses[0]), done.seconds_per_step,
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


def non_private(count: int, seed: int) -> Job:
    """The run that neither clips nor adds noise worth the name."""
    scheme = paper_scheme("Poisson")
    budget = Budget(scheme, _NO_NOISE, STEPS, 1 / N, Relation.REPLACE_ONE, "no privacy")
    return Job(NON_PRIVATE, scheme, budget, count, seed, clipped=False)
