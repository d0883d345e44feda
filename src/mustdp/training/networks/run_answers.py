"""What a training run says about itself while it is under way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mustdp.calibration.settle import Spent
from mustdp.ledger.ledger import Ledger
from mustdp.training.budget import Budget
from mustdp.training.networks import run_state
from mustdp.training.networks.clipping import Clipper


class RunAnswers:
    """How far a run is, what it has spent, and how it clips."""

    _model: Any
    _budget: Budget
    _steps: int
    _seeded: bool
    _clipper: Clipper

    @property
    def model(self) -> Any:
        """The model, as it was given."""
        return self._model

    @property
    def budget(self) -> Budget:
        """What the run may spend."""
        return self._budget

    @property
    def steps(self) -> int:
        """Steps made so far."""
        return self._steps

    @property
    def remaining(self) -> int:
        """Steps that are left of the budget."""
        return self.budget.steps - self._steps

    @property
    def ledger(self) -> Ledger:
        """What the steps so far are charged as; an epoch as a whole when it begins.

        Nothing is where the run has a seed, which is an experiment.
        """
        return run_state.charged(self.budget, 0 if self._seeded else self._steps)

    @property
    def privacy(self) -> Spent:
        """What has been spent so far, certified."""
        return replace(self.budget.spent(self.steps), seeded=self._seeded)

    @property
    def method(self) -> str:
        """How gradients are clipped: "book-keeping", or "torch.func" and why."""
        way = self._clipper.way
        return f"{way.name} ({way.reason})" if way.reason else way.name
