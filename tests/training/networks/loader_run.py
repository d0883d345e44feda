"""A small CNN that trains by epochs from a plain ``DataLoader``, and may be killed on its way.

    python -m tests.training.networks.loader_run CHECKPOINT STEP

makes the run and kills itself when the step is shown.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import mustdp as md

N, BATCH, EPOCHS = 200, 64, 2
BINS = 4


@cache
def images() -> tuple[Tensor, Tensor]:
    """The first records of digits."""
    data = md.training.load_data("digits")
    rows = torch.tensor(data.X_train[:N], dtype=torch.float32).view(-1, 1, 8, 8)
    return rows, torch.tensor(data.y_train[:N], dtype=torch.int64)


class Images(Dataset[tuple[Tensor, int]]):
    """The same, record by record."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        inputs, labels = images()
        return inputs[number], int(labels[number])


def network(start: int = 3) -> nn.Sequential:
    with torch.random.fork_rng([]):
        torch.manual_seed(start)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 10)
        )


def loader(dataset: Any = None, **options: Any) -> DataLoader[Any]:
    dataset = TensorDataset(*images()) if dataset is None else dataset
    return DataLoader(dataset, **{"batch_size": BATCH, "shuffle": True, **options})


def trainer(model: nn.Module | None = None, data: Any = None, **options: Any) -> md.PrivateTrainer:
    """The run; what it says about its loader and its seed is not wanted here."""
    model = network() if model is None else model
    data = loader() if data is None else data
    terms = {
        name: options.pop(name, default)
        for name, default in {"epochs": EPOCHS, "noise_multiplier": 1.0, "delta": 1e-3, "n": None,
                              "epsilon": None}.items()
    }  # fmt: skip
    given = {"seed": 5, "progress": False, "max_grad_norm": 1.0, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if "budget" not in given:
            given["budget"] = md.training.loader_budget(data, **terms)
        return md.PrivateTrainer(
            model,
            nn.CrossEntropyLoss(reduction="none"),
            data,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9),
            **given,
        )


def main(checkpoint: str, step: str) -> None:
    def killed(event: md.types.StepEvent) -> None:
        if event.steps == int(step):
            os.kill(os.getpid(), signal.SIGKILL)

    torch.set_num_threads(1)
    trainer(checkpoint=checkpoint, callbacks=[killed]).train()


if __name__ == "__main__":
    main(*sys.argv[1:])
