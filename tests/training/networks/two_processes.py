"""What each of several processes does in a run that they make together."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

import mustdp as md
from mustdp.types import SeededRelease
from tests.training.networks import loader_run, runs

#: Batches of few records, so that a process may have nothing to do.
SCHEMES = (
    *(md.must_ow(60, 30, 20), md.poisson(60, 0.02)),
    *(md.random_allocation(60, 5, times=2), md.random_allocation(60, 4)),
)


def network(start: int) -> nn.Sequential:
    torch.manual_seed(start)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def alone() -> list[torch.Tensor]:
    """The same runs in one process."""
    return [
        runs.weights(runs.trainer(network(3), budget=runs.budget(scheme=s), seed=6).train().model)
        for s in SCHEMES
    ]


def join(rank: int, size: int, folder: str) -> None:
    """Meet the other processes."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size,
        timeout=datetime.timedelta(seconds=60),
    )  # fmt: skip


def together(rank: int, size: int, folder: str) -> None:
    """Run, stop, go on, and write down what this process ended with."""
    warnings.simplefilter("ignore", SeededRelease)
    join(rank, size, folder)
    found: dict[str, Any] = {"weights": [], "fresh": None, "shown": []}
    for number, scheme in enumerate(SCHEMES):
        for steps in (2, None):  # the second trainer goes on where the first one stopped
            model: nn.Module = network(3 + rank)  # the first process's weights are everybody's
            if number:
                model = nn.parallel.DistributedDataParallel(model)
            run = runs.trainer(
                model,
                budget=runs.budget(scheme=scheme),
                seed=6,
                checkpoint=Path(folder) / f"run{number}.pt",
                callbacks=[lambda event: found["shown"].append(event.steps)],
            )
            done = run.train(steps)
        found["weights"].append(runs.weights(done.model))
    found["privacy"] = done.privacy.as_dict()
    for steps in (3, None):  # within the first epoch
        of_loader = loader_run.trainer(checkpoint=Path(folder) / "loader.pt").train(steps)
    found["loader"] = runs.weights(of_loader.model)
    fresh = runs.trainer(network(3), budget=runs.budget(3)).train(1)
    found["fresh"] = runs.weights(fresh.model)
    torch.save(found, Path(folder) / f"rank{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()
