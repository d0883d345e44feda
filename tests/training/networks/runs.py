"""A small run that tests vary: 60 records, a perceptron, a few steps."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

import mustdp as md
from mustdp import PrivateTrainer, calibrated_budget
from mustdp.types import Budget, SeededRelease

N = 60
LOSS = nn.CrossEntropyLoss(reduction="none")


def data(n: int = N) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return (
        torch.randn(n, 6, generator=generator),
        torch.randint(3, (n,), generator=generator),
    )


def model() -> nn.Sequential:
    with torch.random.fork_rng([]):
        torch.manual_seed(7)
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


def budget(steps: int = 6, scheme: Any = None, z: float = 1.5) -> Budget:
    return calibrated_budget(
        scheme or md.must_ow(N, 30, 20), steps=steps, noise_multiplier=z, delta=1e-3
    )


def trainer(network: nn.Module | None = None, **options: Any) -> PrivateTrainer:
    """A trainer; everything can be given, nothing has to be. Seeds do not warn here."""
    network = model() if network is None else network
    given: dict[str, Any] = {
        "loss": LOSS,
        "data": data(),
        "budget": budget(),
        "max_grad_norm": 1.0,
        "progress": False,
        **options,
    }
    if "optimizer" not in given:
        chosen = [p for p in network.parameters() if p.requires_grad]
        given["optimizer"] = torch.optim.Adam(chosen, lr=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededRelease)
        return PrivateTrainer(network, **given)


def weights(network: Any) -> Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])
