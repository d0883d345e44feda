"""What a run hands out while it runs, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from mustdp.calibration.settle import Spent
from mustdp.ledger.ledger import Ledger
from mustdp.training.budget import Budget


@dataclass(frozen=True)
class Released:
    """Steps that were charged and may now be seen; callbacks are called with it.

    Attributes
    ----------
    model : torch.nn.Module
        The model, as it stands after ``steps`` steps.
    steps : int
        Steps made so far.
    losses_not_private : tuple of float
        Where they were asked for, the mean losses of the batches since the last release. They are
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
    >>> budget = md.settle(md.wor(50, 5), noise_multiplier=2.0, steps=3, delta=1e-5)
    >>> event = md.Released(model=None, steps=2, losses_not_private=(), budget=budget)
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

    def spent(self) -> Spent:
        """What the steps so far cost, certified.

        Returns
        -------
        Spent
            Bounds of epsilon at the budget's delta.
        """
        return replace(self.budget.spent(self.steps), seeded=self.seeded)

    def stop(self) -> None:
        """End the run here. Deciding that by looking at data is a release of its own."""
        object.__setattr__(self, "stopped", True)


Callback = Callable[[Released], None]


@dataclass(frozen=True)
class Trained:
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
        Where they were asked for, the mean loss of every step this process made, computed from the
        data without noise. It is not printed.
    seeded : bool
        Whether the run is an experiment with a seed.

    Examples
    --------
    >>> import mustdp as md
    >>> import torch
    >>> budget = md.settle(md.wor(50, 5), noise_multiplier=2.0, steps=3, delta=1e-5)
    >>> model, data = torch.nn.Linear(2, 1), (torch.randn(50, 2), torch.randn(50, 1))
    >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> squared = lambda outputs, target: (outputs - target).square().sum(1)
    >>> trainer = md.PrivateTrainer(model, squared, data, budget, optimizer=sgd, clip=1.0)
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

    @property
    def privacy(self) -> Spent:
        """What the run cost, certified; nothing is where it was seeded, which is an experiment."""
        return replace(self.budget.spent(self.steps), seeded=self.seeded)
