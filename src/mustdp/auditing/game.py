"""The game of an audit: canaries that pull in directions of their own, and what every step shows.

Canary i is a record that moves parameter i of a linear model alone, ten times harder than the clip
allows. The loss is linear, so what a step releases does not depend on the steps before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.numerics.arrays import FloatArray
from mustdp.training.budget import Budget

if TYPE_CHECKING:
    from torch import Tensor, nn, optim

#: How much harder than the clip a canary pulls.
_PULL = 10.0


@dataclass(frozen=True, eq=False)
class Game:
    """What a trainer is to train: model, loss, data and optimiser of the game.

    Attributes
    ----------
    model : torch.nn.Module
        A linear model with a parameter for every canary.
    loss : callable
        From outputs and targets to one value per record.
    data : tuple of Tensor
        The canaries and their targets.
    optimizer : torch.optim.Optimizer
        That of the model.

    Examples
    --------
    >>> import mustdp as md
    >>> from dataclasses import fields
    >>> [field.name for field in fields(md.Game)]
    ['model', 'loss', 'data', 'optimizer']
    """

    model: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    data: tuple[Tensor, Tensor]
    optimizer: optim.Optimizer


def played(
    trainer: Callable[[Game], Any], pulls: FloatArray, budget: Budget, clip: float
) -> FloatArray:
    """What every step released in the direction of every canary, in units of the clip."""
    torch: Any = required("torch", "an audit")
    n = len(pulls)
    rows = torch.diag(torch.tensor(_PULL * clip * pulls, dtype=torch.float32))
    model = torch.nn.Linear(n, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    # One step of descent with this rate and a linear loss adds the noisy mean of the gradients.
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    game = Game(model, _pulled, (rows, torch.zeros(n)), optimizer)
    made = trainer(game)
    seen = np.empty((budget.steps, n))
    before = np.zeros(n)
    for step in range(budget.steps):
        made.train(1)
        # A copy: the weights of a model in double precision would change under our hands.
        after = np.array(model.weight.detach().cpu().numpy()[0], dtype=np.float64)
        seen[step] = (after - before) * (budget.scheme.expected_size / clip)
        before = after
    if not np.isfinite(seen).all():
        raise InvalidParameter("trainer must leave a finite model behind, got another")
    return seen


def _pulled(outputs: Tensor, target: Tensor) -> Tensor:
    """A loss whose gradient with respect to the weights is minus the record itself."""
    return -outputs.flatten(1).sum(1) - 0.0 * target
