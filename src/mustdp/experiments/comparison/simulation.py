"""Many seeded runs of an experiment, spread over processes, and what they gave.

An experiment says how one job is run (a function from :class:`Job` to :class:`Runs`); jobs are
found again by their keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.experiments.comparison.budgets import Budget, Setting
from mustdp.experiments.frame.items import Settings
from mustdp.experiments.frame.parallel import spread
from mustdp.numerics.arrays import FloatArray
from mustdp.progress import Progress
from mustdp.training.linear.chains import StackedRecords, descend_chains
from mustdp.training.linear.descent import Recipe
from mustdp.training.linear.losses import Loss

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
    done = spread(run, todo, workers=settings.workers, progress=progress, what="simulated")
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
