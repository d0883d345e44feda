"""What a run hands out while it runs, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mustdp.calibration.settle import Spent
from mustdp.ledger.ledger import Ledger
from mustdp.training.budget import Budget


@dataclass
class Released:
    """Steps that were charged and may now be seen: the model stands after ``steps`` steps.

    ``losses`` are those of the steps since the last release, each the mean over its batch. They are
    computed from the data without noise and are **not private**: for the person who may see the
    data, not for publication.
    """

    model: Any
    steps: int
    losses: tuple[float, ...]
    budget: Budget
    stopped: bool = field(default=False, init=False)

    def spent(self) -> Spent:
        """What the steps so far cost, certified."""
        return self.budget.spent(self.steps)

    def stop(self) -> None:
        """End the run here. Deciding that by looking at data is a release of its own."""
        self.stopped = True


Callback = Callable[[Released], None]


@dataclass(frozen=True)
class Trained:
    """A trained model, what it cost, and the ledger that says so.

    ``losses`` has the mean loss of every step this process made; it is **not private**.
    """

    model: Any
    steps: int
    budget: Budget
    ledger: Ledger
    losses: tuple[float, ...]

    @property
    def privacy(self) -> Spent:
        """What the run cost, certified."""
        return self.budget.spent(self.steps)
