"""A line on the terminal: steps, what has been spent so far, and losses if asked for.

The epsilon shown is that of a step a little ahead, so that it is never too small and need not be
computed anew at every step.
"""

from __future__ import annotations

import math
import sys
from types import TracebackType
from typing import Any

from mustdp.numerics.decimals import readable
from mustdp.training.budget import Budget

#: The epsilon shown is computed so many times in a run, at most.
_MILESTONES = 10


class Progress:
    """Shows how far a run is; without a terminal it shows nothing."""

    def __init__(self, budget: Budget, done: int, show: bool | None, seeded: bool = False) -> None:
        self._budget, self._done, self._seeded = budget, done, seeded
        self._shown = sys.stderr.isatty() if show is None else show
        self._bar: Any = None
        self._milestone, self._epsilon = 0, 0.0

    def __enter__(self) -> Progress:
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
        """Show that so many steps are done; a loss is not private."""
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
