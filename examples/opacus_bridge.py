"""Opacus with batches of a fixed size, charged as what they are: two lines change.

Opacus knows Poisson sampling only. Here its data loader draws by the MUST scheme "without, then
with replacement", and its privacy engine asks mustdp for the price. Run with mustdp[bench].
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import TensorDataset

import mustdp as md
from mustdp.interop import opacus

RECORDS, FIRST, BATCH, EPOCHS = 2000, 300, 200, 5
DELTA = 1e-4


def records(generator: torch.Generator) -> TensorDataset:
    """Two clouds of points in ten dimensions."""
    labels = torch.randint(2, (RECORDS,), generator=generator)
    points = torch.randn(RECORDS, 10, generator=generator) + 1.5 * labels[:, None] - 0.75
    return TensorDataset(points, labels)


def train(noise_multiplier: float = 6.0) -> tuple[float, Any]:
    """Accuracy on the training records, and the bounds of epsilon."""
    dataset = records(torch.Generator().manual_seed(1))
    scheme = md.must_ow(RECORDS, FIRST, BATCH)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    loader = opacus.multiset_loader(dataset, scheme)  # was: DataLoader(dataset, batch_size=200)
    engine = PrivacyEngine(accountant=opacus.charged_to(loader))  # was: PrivacyEngine()
    private, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=noise_multiplier,
        max_grad_norm=1.0,
        poisson_sampling=False,  # the loader stays as it is
    )

    loss = nn.CrossEntropyLoss()
    for _ in range(EPOCHS):
        for points, labels in loader:
            optimizer.zero_grad()
            loss(private(points), labels).backward()
            optimizer.step()
    points, labels = dataset.tensors
    with torch.no_grad():
        right = (private(points).argmax(1) == labels).float().mean()
    return float(right), engine.accountant.bounds(DELTA)


def main() -> None:
    """Train and print what it cost."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks of Opacus on secure random numbers and on hooks
        right, epsilon = train()
    print(f"accuracy on the training records {right:.3f} (not private)")
    print(f"epsilon at delta = {DELTA:g}: {epsilon}")


if __name__ == "__main__":
    main()
