"""How a run is computed, saved and scheduled: the trainer's grouped arguments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.sampling.epochs import Epoch, Sampling

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Compute:
    """Where and in which format a run computes.

    Attributes
    ----------
    device : torch.device or str, default=None
        Where to compute; None means where the model is.
    max_rows : int, default=None
        Works on larger batches in pieces of at most this many records, with the same result.
    mixed_precision : torch.dtype, default=None
        ``torch.bfloat16``, or None for the precision of the model.
    timeout : float, default=600.0
        Seconds that the processes of ``torch.distributed`` wait for each other at most.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Compute(device="cpu", max_rows=512).timeout
    600.0
    """

    device: Any = None
    max_rows: int | None = None
    mixed_precision: torch.dtype | None = None
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if self.max_rows is not None:
            checks.integer("max_rows", self.max_rows, 1)
        # float16 would need its losses scaled, which is not done.
        if self.mixed_precision not in (None, torch.bfloat16):
            raise InvalidParameter(
                f"mixed_precision must be None or torch.bfloat16, got {self.mixed_precision!r}"
            )

    def device_for(self, model: nn.Module) -> torch.device:
        """The requested device, or the one the model is on.

        Parameters
        ----------
        model : torch.nn.Module
            The model.

        Returns
        -------
        torch.device
            With its number, where it is a GPU.
        """
        if self.device is None:
            return next(model.parameters()).device
        try:
            found = torch.device(self.device)
        except (RuntimeError, TypeError):
            raise InvalidParameter(
                f"device must be one that torch knows, got {self.device!r}"
            ) from None
        if found.type == "cuda" and found.index is None:
            if not torch.cuda.is_available():
                raise InvalidParameter("device is 'cuda', but torch finds no such device here")
            found = torch.device("cuda", torch.cuda.current_device())
        return found


@dataclass(frozen=True)
class Checkpoint:
    """A file that a run is saved in and goes on from.

    Attributes
    ----------
    path : str or path
        The file; if it exists the run goes on from it.
    every : int, default=1
        After how many steps it is written; steps are released then.
    resume : bool, default=True
        Whether a run may go on from a file that exists; it is refused otherwise.
    extra : object, default=None
        Something of the user's with ``state_dict()`` and ``load_state_dict(state)``, such as
        counters or a metric: saved and put back with the run. Its state must be plain values and
        tensors.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Checkpoint("run.pt", every=50).resume
    True
    """

    path: str | Path
    every: int = 1
    resume: bool = True
    extra: Any = None

    def __post_init__(self) -> None:
        checks.integer("every", self.every, 1)
        if self.extra is not None and not (
            hasattr(self.extra, "state_dict") and hasattr(self.extra, "load_state_dict")
        ):
            raise InvalidParameter(
                "extra must have state_dict() and load_state_dict(), got "
                f"{type(self.extra).__name__}"
            )


@dataclass(frozen=True)
class Schedule:
    """When a learning-rate scheduler moves on, and what it is told.

    Attributes
    ----------
    scheduler : torch.optim.lr_scheduler.LRScheduler
        Moves the learning rate.
    every : {"step", "epoch"}, default="step"
        After what it does so.
    metric : callable, default=None
        From the model to the number that a ``ReduceLROnPlateau`` is given, which needs one. It is
        to be computed from public data: what it says of the records is not covered by the budget.
        It is called before the next step, when the model has been released: with a checkpoint the
        run is saved then, too.

    Examples
    --------
    >>> import mustdp as md
    >>> import torch
    >>> sgd = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    >>> md.types.Schedule(torch.optim.lr_scheduler.StepLR(sgd, 5), every="epoch").every
    'epoch'
    """

    scheduler: Any
    every: str = "step"
    metric: Callable[[Any], float] | None = None

    def __post_init__(self) -> None:
        checks.choice("every", self.every, ("step", "epoch"))
        plateau = isinstance(self.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
        if plateau != (self.metric is not None):
            raise InvalidParameter(
                "metric must be given for a ReduceLROnPlateau, as "
                "Schedule(scheduler, metric=lambda model: ...), and left out otherwise"
            )

    def steps(self, scheme: Sampling) -> int:
        """After how many steps of a scheme the scheduler moves on.

        Parameters
        ----------
        scheme : Scheme or Epoch
            How batches are drawn.

        Returns
        -------
        int
            One, or the batches of an epoch.
        """
        if self.every == "step":
            return 1
        if not isinstance(scheme, Epoch):
            raise InvalidParameter(
                "every must be 'step' for a scheme that draws every batch anew, got 'epoch'"
            )
        return scheme.bins

    def move(self, model: nn.Module) -> None:
        """Move the learning rate on.

        Parameters
        ----------
        model : torch.nn.Module
            What the metric is computed from.
        """
        if self.metric is None:
            self.scheduler.step()
        else:
            self.scheduler.step(checks.real("metric", self.metric(model)))
