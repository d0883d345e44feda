"""A CNN on MNIST by epochs, from a plain shuffling DataLoader, on whatever device there is.

    python examples/mnist_by_epochs.py FOLDER                      MNIST's four files are in FOLDER
    python examples/mnist_by_epochs.py FOLDER --checkpoint run.pt  goes on from there if it exists
    torchrun --nproc-per-node 2 examples/mnist_by_epochs.py FOLDER two processes, one run

With --seed the run can be repeated, bit by bit; it is an experiment then, not a private release.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import mustdp as md


def images(pixels: object, labels: object) -> tuple[Tensor, Tensor]:
    """Tensors as a convolution takes them."""
    rows = torch.as_tensor(pixels, dtype=torch.float32).view(-1, 1, 28, 28)
    return rows, torch.as_tensor(labels, dtype=torch.int64)


def network(device: str) -> nn.Module:
    """Two convolutions and two linear layers, the same at every start."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    ).to(device)  # fmt: skip


def main() -> None:
    """Train, and say how well and at what price."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--noise-multiplier", type=float, default=1.0)
    parser.add_argument("--checkpoint")
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args()
    if "RANK" in os.environ:  # started by torchrun
        torch.distributed.init_process_group("gloo")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = md.training.load_data("mnist", asked.folder)
    model = network(device)

    loader = DataLoader(
        TensorDataset(*images(data.X_train, data.y_train)), batch_size=1024, shuffle=True
    )
    started = time.perf_counter()
    budget = md.training.loader_budget(
        loader, epochs=asked.epochs, noise_multiplier=asked.noise_multiplier, delta=1e-5
    )
    saved = None if asked.checkpoint is None else md.types.Checkpoint(asked.checkpoint, every=50)
    trained = md.PrivateTrainer(
        model,
        nn.CrossEntropyLoss(reduction="none"),
        loader,
        budget,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9),
        max_grad_norm=1.0,
        seed=asked.seed,
        checkpoint=saved,
    ).train()
    seconds = time.perf_counter() - started

    pixels, labels = images(data.X_test, data.y_test)
    with torch.no_grad():
        right = (model(pixels.to(device)).argmax(1).cpu() == labels).float().mean().item()
    weights = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
    print(f"{trained.steps} steps in {seconds:.0f} s on {device}: test accuracy {right:.4f}")
    print(f"weights {hashlib.sha256(weights).hexdigest()[:12]}; {trained.privacy}")


if __name__ == "__main__":
    main()
