"""Many seeded runs of an experiment, their measures and times."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.calibration.budget import Budget, PrivacySpent
from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.progress import Progress
from mustdp.randomness.keys import noise_generator, read_seed
from mustdp.reproduction.budgets import Setting
from mustdp.reproduction.cells import NAMES, PaperCell, PaperTable, Settings, judge
from mustdp.reproduction.runner import run_jobs
from mustdp.sampling.schemes import Batch, BatchStream
from mustdp.training.linear.descent import (
    Descent,
    EntryBits,
    Loss,
    OnStep,
    Recipe,
    check_converged,
    clip_gradient,
    read_recipe,
    rows_and_norms,
)
from mustdp.training.linear.models import PrivateLinearModel, checked, split_weights

# Measures of simulated runs: their mean over the runs and its standard error.


ACCURACY = "test accuracy, %"
#: Standard deviation of the accuracy of one run, in points, where a single one was made.
_ONE_RUN = 2.0
#: Half of the last digit that the paper prints of an accuracy.
_HALF_OF_PRINTED = 0.005


@dataclass(frozen=True)
class RunMeasure:
    """One measure of settled runs: its mean over them and its standard error, if any."""

    column: str
    value: float
    error: float | None = None


def mean_of(column: str, values: FloatArray) -> RunMeasure:
    """The mean of independent values."""
    return RunMeasure(column, float(values.mean()), standard_error(values))


def deviation(values: FloatArray) -> float:
    """Standard deviation of one run; of a single one it is not known and taken to be two points."""
    return float(values.std(ddof=1)) if values.size > 1 else _ONE_RUN


def standard_error(values: FloatArray) -> float:
    """Standard error of the mean."""
    return deviation(values) / math.sqrt(values.size)


def root_mean(squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Roots of the means over the first axis, and their standard errors (delta method)."""
    root = np.sqrt(squares.mean(axis=0))
    error = squares.std(axis=0, ddof=1) / math.sqrt(len(squares)) / (2.0 * root)
    return np.asarray(root), np.asarray(error)


def accuracy_cell(
    row: str, column: str, printed: float, values: FloatArray, reason: str = ""
) -> PaperCell:
    """The paper's accuracy, of one run, against the mean of ours."""
    return judge(
        row, column, printed, float(values.mean()), half_unit=_HALF_OF_PRINTED,
        error=standard_error(values), paper_error=deviation(values), reason=reason,
    )  # fmt: skip


def moment_cells(
    row: str,
    columns: tuple[str, str],
    printed: Sequence[float | None],
    values: FloatArray,
    *,
    half_unit: float,
    sets: int,
    lost: int = 0,
    reason: str = "",
) -> list[PaperCell]:
    """Mean and standard deviation over data sets, against the paper's over ``sets`` of them.

    ``half_unit`` is of the mean; a deviation is printed to three decimals. ``lost`` are the degrees
    of freedom that an error of the deviation leaves out.
    """
    mean, theirs = printed[0], printed[1] or 0.0
    ours, count = float(values.std(ddof=1)), values.size
    return [
        judge(row, columns[0], mean, float(values.mean()), half_unit=half_unit, reason=reason,
              error=ours / math.sqrt(count), paper_error=theirs / math.sqrt(sets)),
        judge(row, columns[1], printed[1], ours, half_unit=0.0005, reason=reason,
              error=ours / math.sqrt(2 * (count - lost)),
              paper_error=theirs / math.sqrt(2 * (sets - lost))),
    ]  # fmt: skip


# Times of the paper's Table 7, as ratios: machines differ, proportions should not.


#: The scheme whose time is one.
UNIT = "Poisson"


def time_table(
    name: str,
    title: str,
    printed: Mapping[str, float],
    measured: Mapping[str, NDArray[np.float64]],
    reason: str,
    note: str = "",
) -> PaperTable:
    """Time of every scheme over that of Poisson sampling; ``measured`` holds repeated times."""
    cells: list[PaperCell] = []
    unit = measured[UNIT]
    for scheme in NAMES:
        if scheme == UNIT or scheme not in measured:
            continue
        paper = printed[scheme] / printed[UNIT]
        ours = float(measured[scheme].mean() / unit.mean())
        error = ours * math.hypot(_relative_error(measured[scheme]), _relative_error(unit))
        rounding = paper * _HALF_OF_PRINTED * (1 / printed[scheme] + 1 / printed[UNIT])
        cells.append(
            judge(scheme, "time over Poisson's", paper, ours, half_unit=rounding, error=error,
                  reason=reason)
        )  # fmt: skip
    return PaperTable(
        name,
        title,
        tuple(cells),
        "paper",
        note or "CPU time of one core; each distinct record is computed once.",
    )


def _relative_error(times: NDArray[np.float64]) -> float:
    if times.size < 2:
        return 0.0
    return float(times.std(ddof=1) / math.sqrt(times.size) / times.mean())


# Many independent runs side by side, for simulations: the same results as one after another.
#
# Chain number r is decided by seed number r alone. It draws the batches that a single run with that
# seed would draw, and noise in floating point, which is fast but no release; the arithmetic of all
# chains is done at once.


#: Entries of gathered rows that are worked on at once.
_GATHERED = 1 << 17


class StackedRecords:
    """The records of R chains: one data set for all of them, or one each (R, n, d)."""

    def __init__(
        self,
        rows: NDArray[Any],
        targets: NDArray[Any],
        loss: Loss,
        fit_intercept: bool,
        chains: int,
    ) -> None:
        own = rows.ndim == 3
        self.loss, self.fit_intercept = loss, fit_intercept
        self.grid = EntryBits.of(rows.shape[-1])
        self.rows, self.norms = rows_and_norms(
            rows.reshape(-1, rows.shape[-1]), self.grid, fit_intercept
        )
        own_targets = targets.ndim == 2
        self.targets = np.ascontiguousarray(targets.reshape(-1))
        each = np.arange(chains, dtype=np.int64) * rows.shape[-2]
        self._row_offset = each if own else np.zeros_like(each)
        self._target_offset = each if own_targets else np.zeros_like(each)
        self.chains = chains

    @property
    def width(self) -> int:
        """Parameters per score: the features, and the intercept where there is one."""
        return int(self.rows.shape[1]) + self.fit_intercept

    def clipped_sums(
        self, weights: FloatArray, batches: Sequence[Batch], bound: float
    ) -> tuple[FloatArray, FloatArray]:
        """What ``Records.clipped_sum`` gives, for every chain: (R, K, width) and (R,)."""
        indices, counts = _padded(batches)
        totals, losses = np.empty_like(weights), np.full(self.chains, np.nan)
        together = max(1, _GATHERED // max(1, indices.shape[1] * self.rows.shape[1]))
        for begin in range(0, self.chains, together):
            part = slice(begin, begin + together)
            totals[part], losses[part] = self._some(
                weights[part], indices[part], counts[part], bound, part
            )
        return totals, losses

    def _some(
        self, weights: FloatArray, indices: IntArray, counts: FloatArray, bound: float, part: slice
    ) -> tuple[FloatArray, FloatArray]:
        features = self.rows.shape[1]
        places = indices + self._row_offset[part, None]
        rows = self.rows[places].astype(np.float64, copy=False)
        scores = self.grid.weights(weights[:, :, :features]) @ rows.swapaxes(1, 2)
        if self.fit_intercept:
            scores += weights[:, :, features, None]
        targets = self.targets[indices + self._target_offset[part, None]]
        gradient, values = self.loss.evaluate(scores, targets)
        clip_gradient(gradient, self.norms[places], counts, bound, features)
        totals = np.empty_like(weights)
        totals[:, :, :features] = gradient @ rows
        if self.fit_intercept:
            totals[:, :, features] = gradient.sum(axis=-1)
        return totals, np.einsum("rk,rk->r", values, counts) / counts.sum(axis=1)


def descend_chains(
    records: StackedRecords,
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    keep_path: bool = False,
    on_step: OnStep | None = None,
) -> Descent:
    """Run one chain per seed; chain r is what ``descend`` gives for it with simulated noise.

    Weights are (R, K, width), losses (R, steps) and all weights, if they are kept, (R, steps, K,
    width).
    """
    steps, scheme = recipe.budget.steps, recipe.budget.scheme
    weights = np.full((len(seeds), records.loss.outputs, records.width), recipe.start)
    streams = [BatchStream(scheme, seed, stop=steps) for seed in seeds]
    noises = [noise_generator(seed) for seed in seeds]
    drawn, losses = np.empty_like(weights), np.empty((len(seeds), steps))
    path = np.empty((steps, *weights.shape)) if keep_path else None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for step, size in enumerate(recipe.step_sizes):
            batches = [next(stream) for stream in streams]
            totals, losses[:, step] = records.clipped_sums(weights, batches, recipe.max_grad_norm)
            for noise, own in zip(noises, drawn, strict=True):
                noise.standard_normal(out=own)
            totals += recipe.deviation * drawn
            weights -= size * totals
            if path is not None:
                path[step] = weights
            if on_step is not None:
                on_step(step + 1)
    check_converged(weights, recipe.rates)
    return Descent(
        frozen(weights), frozen(losses), None if path is None else frozen(path.swapaxes(0, 1))
    )


def _padded(batches: Sequence[Batch]) -> tuple[IntArray, FloatArray]:
    """Indices and counts of all batches as two tables; entries beyond a batch count zero."""
    sizes = np.array([batch.distinct for batch in batches])
    held = np.arange(max(1, int(sizes.max()))) < sizes[:, None]
    indices, counts = np.zeros(held.shape, dtype=np.int64), np.zeros(held.shape)
    indices[held] = np.concatenate([batch.indices for batch in batches])
    counts[held] = np.concatenate([batch.counts for batch in batches])
    return indices, counts


# The same for an estimator of the user's own.


@dataclass(frozen=True)
class Chains:
    """R fitted chains. All of it is simulation output: seeded, and so not a private release.

    Attributes
    ----------
    coefficients : ndarray
        (R, K, d): weights of each chain; K is 1 but for three classes or more.
    intercepts : ndarray
        (R, K): intercepts of each chain.
    losses : ndarray
        (R, steps): mean loss of every batch, without noise.
    privacy : PrivacySpent
        What *one* chain would cost; chains on the same records would add up.
    coefficient_path : ndarray or None
        (R, steps, K, d): the weights after every step, with ``keep_path=True``.
    intercept_path : ndarray or None
        (R, steps, K): the intercepts after every step, with ``keep_path=True``.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    >>> model = md.DPLinearRegression(m=20, steps=5, noise_multiplier=2.0, delta=1e-5)
    >>> chains = md.reproduction.fit_chains(model, X, X[:, 0], seeds=range(4))
    >>> chains.coefficients.shape, chains.privacy.seeded
    ((4, 1, 1), True)
    """

    coefficients: FloatArray
    intercepts: FloatArray
    losses: FloatArray
    privacy: PrivacySpent
    coefficient_path: FloatArray | None
    intercept_path: FloatArray | None


def fit_chains(
    model: PrivateLinearModel, X: Any, y: Any, seeds: Iterable[int], *, keep_path: bool = False
) -> Chains:
    """Fit a model once for every seed, in one batched run; ``model`` itself is not changed.

    Chain r has the weights that ``model`` would have after ``fit`` with ``random_state=seeds[r]``
    on its data set.

    Parameters
    ----------
    model : DPLinearRegression or DPLogisticRegression
        The model, with ``random_state=None``.
    X : array_like
        Rows (n, d) of one data set, or (R, n, d) of one per seed.
    y : array_like
        Targets (n,) or (R, n).
    seeds : iterable of int
        One for each chain.
    keep_path : bool, default=False
        Whether to keep the weights after every step.

    Returns
    -------
    Chains
        The fitted weights of all chains.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    >>> model = md.DPLinearRegression(m=20, steps=5, noise_multiplier=2.0, delta=1e-5)
    >>> md.reproduction.fit_chains(model, X, X[:, 0], seeds=[1, 2, 3]).intercepts.shape
    (3, 1)
    """
    if not isinstance(model, PrivateLinearModel):
        raise InvalidParameter(f"model must be a private linear model of mustdp, got {model!r}")
    if model.random_state is not None:
        raise InvalidParameter(
            f"random_state of the model must be None here, seeds say it all; "
            f"got {model.random_state!r}"
        )
    listed = [read_seed(seed, "seeds") for seed in seeds]
    if not listed:
        raise InvalidParameter("seeds must hold at least one seed, got none")
    rows, flat = _read_data(X, y, len(listed))
    loss, targets, _ = checked(model._read_targets, flat.reshape(-1))
    recipe = read_recipe(model, rows.shape[-2])
    records = StackedRecords(
        rows, targets.reshape(flat.shape), loss, bool(model.fit_intercept), len(listed)
    )
    privacy = replace(recipe.budget.spent(), seeded=True)
    done = descend_chains(records, recipe, listed, keep_path=keep_path, on_step=model.on_step)
    last = split_weights(done.weights, records.fit_intercept)
    path = (None, None) if done.path is None else split_weights(done.path, records.fit_intercept)
    return Chains(frozen(last[0]), frozen(last[1]), done.losses, privacy, *path)


def _read_data(X: Any, y: Any, chains: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rows, targets = checked(np.asarray, X), checked(np.asarray, y)
    if rows.dtype.kind == "c" or targets.dtype.kind == "c":
        raise InvalidParameter("X and y must be real: Complex data not supported")
    if rows.dtype != np.float32:
        rows = checked(rows.astype, np.float64, copy=False)
    if rows.ndim not in (2, 3) or rows.size == 0:
        raise InvalidParameter(f"X must have the shape (n, d) or (chains, n, d), got {rows.shape}")
    if rows.ndim == 3 and len(rows) != chains:
        raise InvalidParameter(
            f"X must hold one data set for each of the {chains} seeds, got {len(rows)}"
        )
    n = rows.shape[-2]
    if targets.shape not in ((n,), (chains, n)):
        raise InvalidParameter(
            f"y must have the shape ({n},) or ({chains}, {n}), got {targets.shape}"
        )
    if not np.isfinite(rows).all():
        raise InvalidParameter("X must be finite, got NaN or infinity")
    if targets.dtype.kind == "f" and not np.isfinite(targets).all():
        raise InvalidParameter("y must be finite, got NaN or infinity")
    return rows, targets


# Many seeded runs of an experiment, spread over processes, and what they gave.
#
# An experiment says how one job is run (a function from :class:`SimulationJob` to :class:`Runs`);
# jobs are found again by their keys.


#: What sets one job of an experiment apart from the others.
Key = tuple[Any, ...]
#: The way of :mod:`mustdp.training`; experiments have further ones under their own names.
PRIVATE = "private"


@dataclass(frozen=True)
class SimulationJob:
    """Runs of one budget, one per seed, with the data in ``folder``.

    ``way`` says how a run is made; ``curve`` keeps what happens on the way of the first one.
    """

    key: Key
    budget: Budget
    seeds: range
    folder: Path | None = None
    way: str = PRIVATE
    curve: bool = True

    def one_by_one(self) -> list[SimulationJob]:
        """A job for every single run."""
        return [
            replace(self, seeds=range(seed, seed + 1), curve=self.curve and seed == self.seeds[0])
            for seed in self.seeds
        ]


@dataclass(frozen=True)
class Runs:
    """What a job gave: measures of every run (R, k), CPU seconds of a step by run or by block.

    ``losses`` are those of the first run after every step, ``checked`` its test accuracy after some
    of the steps; empty where they were not kept.
    """

    values: FloatArray
    seconds: FloatArray
    losses: tuple[float, ...] = ()
    checked: tuple[tuple[int, float], ...] = ()

    @property
    def first(self) -> FloatArray:
        """The first measure of every run, which is the accuracy where there is one."""
        return self.values[:, 0]

    def joined(self, more: Runs) -> Runs:
        """These runs and further ones of the same job."""
        return replace(
            self,
            values=np.concatenate([self.values, more.values]),
            seconds=np.concatenate([self.seconds, more.seconds]),
        )


#: What all jobs of an experiment gave, by their keys.
Found = Mapping[Key, Runs]


def simulate(
    run: Callable[[SimulationJob], Runs],
    jobs: Iterable[SimulationJob],
    settings: Settings,
    progress: Progress,
) -> Found:
    """Make the runs of all jobs; jobs of the same key are parts of one."""
    todo = list(jobs)
    done = run_jobs(run, todo, workers=settings.workers, progress=progress, what="simulated")
    found: dict[Key, Runs] = {}
    for job, runs in zip(todo, done, strict=True):
        found[job.key] = found[job.key].joined(runs) if job.key in found else runs
    return found


def run_chains(
    records: tuple[NDArray[Any], NDArray[Any]],
    loss: Loss,
    setting: Setting,
    budget: Budget,
    seeds: range,
    *,
    keep_path: bool = False,
) -> tuple[FloatArray, FloatArray | None, float]:
    """Runs of a linear model with one score and an intercept, all at once.

    Gives weights (R, width) with the intercept last, their path if it is kept, and CPU seconds of
    one step. :func:`fit_chains` does the same for an estimator and
    accounts for it every time; an experiment knows its budgets, and times the runs alone.
    """
    rows, targets = records
    stacked = StackedRecords(rows, targets, loss, True, len(seeds))
    rates = np.full(budget.steps, setting.rate)
    recipe = Recipe(budget, setting.clip, rates, setting.start)
    began = time.process_time()
    done = descend_chains(stacked, recipe, seeds, keep_path=keep_path)
    spent = (time.process_time() - began) / (len(seeds) * budget.steps)
    path = None if done.path is None else done.path[:, :, 0]
    return done.weights[:, 0], path, spent
