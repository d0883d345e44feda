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

from mustdp.numerics.arrays import FloatArray
from mustdp.progress import Progress
from mustdp.reproduction.budgets import Setting
from mustdp.reproduction.cells import NAMES, Cell, Settings, Table, judge
from mustdp.reproduction.runner import run_jobs
from mustdp.training.budget import Budget
from mustdp.training.linear.descent import Loss, Recipe
from mustdp.training.linear.simulation import StackedRecords, descend_chains

# Measures of simulated runs: their mean over the runs and its standard error.


ACCURACY = "test accuracy, %"
#: Standard deviation of the accuracy of one run, in points, where a single one was made.
_ONE_RUN = 2.0
#: Half of the last digit that the paper prints of an accuracy.
_HALF_OF_PRINTED = 0.005


@dataclass(frozen=True)
class Measured:
    """One measure of settled runs: its mean over them and its standard error, if any."""

    column: str
    value: float
    error: float | None = None


def mean_of(column: str, values: FloatArray) -> Measured:
    """The mean of independent values."""
    return Measured(column, float(values.mean()), standard_error(values))


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
) -> Cell:
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
) -> list[Cell]:
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
) -> Table:
    """Time of every scheme over that of Poisson sampling; ``measured`` holds repeated times."""
    cells: list[Cell] = []
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
    return Table(
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


# Many seeded runs of an experiment, spread over processes, and what they gave.
#
# An experiment says how one job is run (a function from :class:`Job` to :class:`Runs`); jobs are
# found again by their keys.


#: What sets one job of an experiment apart from the others.
Key = tuple[Any, ...]
#: The way of :mod:`mustdp.training`; experiments have further ones under their own names.
PRIVATE = "private"


@dataclass(frozen=True)
class Job:
    """Runs of one budget, one per seed, with the data in ``folder``.

    ``way`` says how a run is made; ``curve`` keeps what happens on the way of the first one.
    """

    key: Key
    budget: Budget
    seeds: range
    folder: Path | None = None
    way: str = PRIVATE
    curve: bool = True

    def one_by_one(self) -> list[Job]:
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
    run: Callable[[Job], Runs], jobs: Iterable[Job], settings: Settings, progress: Progress
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
    one step. ``mustdp.training.linear.simulation.fit_chains`` does the same for an estimator and
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
