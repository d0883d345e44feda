"""What a run reports while it runs, what it returns, and its progress line."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from mustdp.calibration.budget import Budget, PrivacySpent
from mustdp.errors import InvalidParameter
from mustdp.ledger.ledger import Ledger
from mustdp.numerics import checks
from mustdp.numerics.formatting import as_stated, csv_table, readable

# What a run hands out while it runs, and what it returns.


@dataclass(frozen=True)
class StepEvent:
    """Steps that were charged and may now be seen; callbacks are called with it.

    Attributes
    ----------
    model : torch.nn.Module
        The model, as it stands after ``steps`` steps.
    steps : int
        Steps made so far.
    losses_not_private : tuple of float
        With ``losses=True``, the mean losses of the batches since the last release. They are
        computed from the data without noise: for the person who may see the data, not for
        publication. They are not printed.
    budget : Budget
        What the run may spend.
    seeded : bool
        Whether the run is an experiment with a seed.
    stopped : bool
        Whether :meth:`stop` was called.

    Examples
    --------
    >>> import mustdp as md
    >>> budget = md.calibrated_budget(md.wor(50, 5), noise_multiplier=2.0, steps=3, delta=1e-5)
    >>> event = md.types.StepEvent(model=None, steps=2, losses_not_private=(), budget=budget)
    >>> event.stop()
    >>> event.stopped, event.steps
    (True, 2)
    """

    model: Any
    steps: int
    losses_not_private: tuple[float, ...] = field(repr=False)
    budget: Budget
    seeded: bool = False
    stopped: bool = field(default=False, init=False)

    def spent(self) -> PrivacySpent:
        """What the steps so far cost, certified.

        Returns
        -------
        PrivacySpent
            Bounds of epsilon at the budget's delta.
        """
        return replace(self.budget.spent(self.steps), seeded=self.seeded)

    def stop(self) -> None:
        """End the run here. Deciding that by looking at data is a release of its own."""
        object.__setattr__(self, "stopped", True)


Callback = Callable[[StepEvent], None]


@dataclass(frozen=True)
class TrainingResult:
    """A trained model, what it cost, and the ledger that says so.

    Attributes
    ----------
    model : torch.nn.Module
        The model, as it stands after ``steps`` steps.
    steps : int
        Steps made so far.
    budget : Budget
        What the run may spend.
    ledger : Ledger
        What the steps so far are charged as.
    losses_not_private : tuple of float
        With ``losses=True``, the mean loss of every step this process made, computed from the
        data without noise. It is not printed.
    seeded : bool
        Whether the run is an experiment with a seed.
    averaged : torch.nn.Module or None
        With ``ema``, a copy of the model with the moving average of the weights.

    Examples
    --------
    >>> import mustdp as md
    >>> import torch
    >>> budget = md.calibrated_budget(md.wor(50, 5), noise_multiplier=2.0, steps=3, delta=1e-5)
    >>> model, data = torch.nn.Linear(2, 1), (torch.randn(50, 2), torch.randn(50, 1))
    >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> squared = lambda outputs, target: (outputs - target).square().sum(1)
    >>> trainer = md.PrivateTrainer(model, squared, data, budget, optimizer=sgd, max_grad_norm=1.0)
    >>> trained = trainer.train(2)
    >>> trained.steps, trained.ledger.steps, trained.privacy.certified
    (2, 2, True)
    """

    model: Any
    steps: int
    budget: Budget
    ledger: Ledger
    losses_not_private: tuple[float, ...] = field(default=(), repr=False)
    seeded: bool = False
    averaged: Any = field(default=None, repr=False)

    @property
    def privacy(self) -> PrivacySpent:
        """What the run cost, certified; nothing is where it was seeded, which is an experiment."""
        return replace(self.budget.spent(self.steps), seeded=self.seeded)


@dataclass(frozen=True)
class RunPrivacy:
    """What a run may spend in all and what it has spent so far.

    Attributes
    ----------
    spent : PrivacySpent
        What the steps so far cost; an epoch as a whole when it begins.
    planned : PrivacySpent
        What all steps of the budget cost, which a ledger is charged for.

    Examples
    --------
    >>> import mustdp as md
    >>> budget = md.calibrated_budget(md.wor(50, 5), noise_multiplier=2.0, steps=3, delta=1e-5)
    >>> privacy = md.types.RunPrivacy(budget.spent(1), budget.spent())
    >>> privacy.spent.epsilon.upper < privacy.planned.epsilon.upper
    True
    """

    spent: PrivacySpent
    planned: PrivacySpent

    def __str__(self) -> str:
        steps = f"after {self.spent.steps} of {self.planned.steps} steps"
        if self.planned.seeded:
            return f"an experiment with a seed, not private, {steps}"
        spent, planned = (
            readable(one.epsilon.upper, "up", 4) if math.isfinite(one.epsilon.upper) else "infinite"
            for one in (self.spent, self.planned)
        )
        delta = as_stated(self.planned.delta)
        return f"epsilon {spent} of {planned} at delta {delta}, {steps}"


# Callbacks that write what may be seen.


def _row(event: StepEvent) -> dict[str, float]:
    """What an event says, by name; losses only where the run hands them out."""
    spent = event.spent()
    epsilon = {} if spent.seeded else {"epsilon": spent.epsilon.upper}
    losses = event.losses_not_private
    mean = {"loss_not_private": sum(losses) / len(losses)} if losses else {}
    return {"step": event.steps, **epsilon, **mean}


@dataclass(frozen=True)
class CsvLog:
    """A callback that appends a row to a CSV file: step, certified epsilon, loss if handed out.

    Attributes
    ----------
    path : str or path
        The file; a header is written where it is new.
    every : int, default=1
        After how many releases a row is written. Every row takes an account, which may be slow.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.CsvLog("run.csv", every=10).every
    10
    """

    path: str | Path
    every: int = 1

    def __post_init__(self) -> None:
        checks.integer("every", self.every, 1)

    def __call__(self, event: StepEvent) -> None:
        """Write a row.

        Parameters
        ----------
        event : StepEvent
            What was released.
        """
        if event.steps % self.every and event.steps < event.budget.steps:
            return
        row = _row(event)
        with Path(self.path).open("a", newline="", encoding="utf-8") as file:
            names = () if file.tell() else (list(row),)
            file.write(csv_table((*names, list(row.values()))))


@dataclass(frozen=True)
class TensorBoardLog:
    """A callback that writes scalars for TensorBoard.

    Attributes
    ----------
    writer : torch.utils.tensorboard.SummaryWriter
        Anything with ``add_scalar(name, value, step)``.
    every : int, default=1
        After how many steps; every time takes an account, which may be slow.

    Examples
    --------
    >>> import mustdp as md
    >>> class Writer:
    ...     def add_scalar(self, name, value, step): print(name, step)
    >>> budget = md.calibrated_budget(md.wor(50, 5), noise_multiplier=2.0, steps=3, delta=1e-5)
    >>> event = md.types.StepEvent(model=None, steps=2, losses_not_private=(), budget=budget)
    >>> md.types.TensorBoardLog(Writer())(event)
    privacy/epsilon 2
    """

    writer: Any
    every: int = 1

    def __post_init__(self) -> None:
        checks.integer("every", self.every, 1)
        if not hasattr(self.writer, "add_scalar"):
            raise InvalidParameter(f"writer must have add_scalar, got {type(self.writer).__name__}")

    def __call__(self, event: StepEvent) -> None:
        """Write the scalars.

        Parameters
        ----------
        event : StepEvent
            What was released.
        """
        if event.steps % self.every and event.steps < event.budget.steps:
            return
        names = {"epsilon": "privacy/epsilon", "loss_not_private": "train/loss_not_private"}
        for name, value in _row(event).items():
            if name in names:
                self.writer.add_scalar(names[name], value, event.steps)


# A line on the terminal: steps, what has been spent so far, and losses if they are shown.
#
# The epsilon shown is that of a step a little ahead, so that it is never too small and need not be
# computed anew at every step.


#: How many times in a run the epsilon shown is computed, at most.
_MILESTONES = 10


class TrainingBar:
    """Shows how far a run is; without a terminal it shows nothing."""

    def __init__(self, budget: Budget, done: int, show: bool | None, seeded: bool = False) -> None:
        self._budget, self._done, self._seeded = budget, done, seeded
        self._shown = sys.stderr.isatty() if show is None else show
        self._bar: Any = None
        self._milestone, self._epsilon = 0, 0.0

    def __enter__(self) -> TrainingBar:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("training"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.description}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=self._budget.steps, completed=self._done)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, done: int, loss: float | None) -> None:
        """Show that ``done`` steps are made; a loss is not private."""
        if self._bar is None:
            return
        if done > self._milestone:
            # Epochs take seconds to account for: of them what the whole run may cost is shown.
            times = 1 if self._budget.epochs is not None else _MILESTONES
            stride = math.ceil(self._budget.steps / times)
            self._milestone = min(self._budget.steps, math.ceil(done / stride) * stride)
            self._epsilon = self._budget.spent(self._milestone).epsilon.upper
        text = "no finite epsilon"
        if self._seeded:
            text = "an experiment with a seed, not private"
        elif math.isfinite(self._epsilon):
            text = f"epsilon <= {readable(self._epsilon, 'up', 4)}"
        if loss is not None:
            text = f"loss {loss:.4f} (not private), {text}"
        self._bar.update(self._task, completed=done, description=text)
