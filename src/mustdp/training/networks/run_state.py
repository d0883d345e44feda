"""What makes a run this run, and its state as plain values and tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mustdp.accounting.plan_descriptions import describe
from mustdp.errors import InvalidParameter
from mustdp.ledger.ledger import Ledger
from mustdp.sampling.streams import BatchStream
from mustdp.training.budget import Budget
from mustdp.training.networks.ranks import RECORDS
from mustdp.training.networks.records import Records
from mustdp.version import __version__

_FIELDS = {"run", "model", "optimizer", "scheduler", "batches", "ledger"}


def description(
    budget: Budget, clip: float, model: nn.Module, optimizer: torch.optim.Optimizer, seeded: bool
) -> dict[str, str]:
    """Everything that must not change while a run is interrupted, as text by name."""
    shapes = {
        name: [list(p.shape), str(p.dtype), p.requires_grad] for name, p in model.named_parameters()
    }
    found = {
        "plan": describe(budget.plan()),
        "relation": budget.relation,
        "clip": clip,
        "model": {"class": type(model).__name__, "parameters": shapes},
        "optimizer": type(optimizer).__name__,
        "seed": "given" if seeded else "none",
    }
    return {name: json.dumps(value, sort_keys=True) for name, value in found.items()}


def facts(
    run: dict[str, str], budget: Budget, records: Records, scheduler: Any, ledger: str | None
) -> dict[str, str]:
    """Everything that processes which make one run together must have in common, by name."""
    return {
        "version": __version__,
        **run,
        "delta": repr(budget.delta),
        RECORDS: records.fingerprint(),
        "scheduler": "none" if scheduler is None else type(scheduler).__name__,
        "ledger": str(ledger),
    }


def charged(budget: Budget, steps: int) -> Ledger:
    """The ledger of the first steps of a budget; of epochs, all that were begun."""
    ledger = Ledger(budget.relation)
    if steps:
        ledger.step(budget.plan(steps))
    return ledger


def state_of(
    run: dict[str, str],
    batches: BatchStream,
    ledger: Ledger,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: Any,
) -> dict[str, Any]:
    """The state, for :meth:`CheckpointFile.write`."""
    return {
        "run": run,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": None if scheduler is None else scheduler.state_dict(),
        "batches": batches.state,
        "ledger": ledger.to_json(),
    }


def check_state(
    state: dict[str, Any], run: dict[str, str], budget: Budget, path: Path | None
) -> BatchStream:
    """Batches, at the step reached, of a state that belongs to this run; any other is refused."""
    refused = f"checkpoint {path} belongs to another run, nothing was changed: "
    if not isinstance(state, dict) or set(state) - {"charge"} != _FIELDS:
        raise InvalidParameter(f"{path} is no checkpoint of a training run")
    for name, here in run.items():
        there = state["run"].get(name)
        if there != here:
            raise InvalidParameter(f"{refused}its {name} is {_short(there)}, here {_short(here)}")
    batches = BatchStream.restore(state["batches"], budget.scheme)
    steps = batches.position
    ledger = Ledger.from_json(state["ledger"])
    if steps > budget.steps or ledger.to_json() != charged(budget, steps).to_json():
        raise InvalidParameter(f"{refused}its ledger does not hold the steps that were drawn")
    return batches


def restore(
    state: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer, scheduler: Any
) -> None:
    """Put model, optimiser and schedule back where the state was taken."""
    if (scheduler is None) != (state["scheduler"] is None):
        raise InvalidParameter("the checkpoint and this run must both have a scheduler, or neither")
    try:
        optimizer.load_state_dict(state["optimizer"])
    except ValueError as problem:
        raise InvalidParameter(f"the optimiser does not fit the checkpoint: {problem}") from None
    model.load_state_dict(state["model"])
    if scheduler is not None:
        scheduler.load_state_dict(state["scheduler"])


def _short(text: str | None) -> str:
    shown = "missing" if text is None else text
    return shown if len(shown) <= 160 else f"{shown[:157]}..."
