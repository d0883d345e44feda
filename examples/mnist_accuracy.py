"""MNIST at (3, 1e-5): a linear model on scattering features, or a small network from scratch.

    python examples/mnist_accuracy.py DATA --model scattering
    python examples/mnist_accuracy.py DATA --model cnn

DATA is a folder with MNIST's files in mnist/. The features are those of Tramer & Boneh (2021, arXiv
2011.11660v4): a scattering transform of order two (Mallat 2012), normalised for every picture by
itself, so that nothing of the records is used before the run. The network is that of Papernot et
al. (2020, arXiv 2007.14191v1), with tanh. Random allocation draws the batches and is charged.
"""

from __future__ import annotations

import argparse
import math
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import mustdp as md

SCALES, ANGLES, PADDED = 2, 8, 44


def gabor(scale: float, frequency: float, angle: float, slant: float) -> Tensor:
    """A Gabor function on the padded square, summed over its periods, in Fourier space."""
    axis = torch.arange(PADDED, dtype=torch.float64)
    turned = torch.tensor(
        [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]],
        dtype=torch.float64,
    )
    curve = turned @ torch.diag(torch.tensor([1.0, slant**2], dtype=torch.float64)) @ turned.T
    curve /= 2.0 * scale**2
    found = torch.zeros(PADDED, PADDED, dtype=torch.complex128)
    for right in range(-2, 3):
        for down in range(-2, 3):
            x, y = torch.meshgrid(axis + right * PADDED, axis + down * PADDED, indexing="ij")
            size = curve[0, 0] * x * x + 2 * curve[0, 1] * x * y + curve[1, 1] * y * y
            wave = frequency * (x * math.cos(angle) + y * math.sin(angle))
            found += torch.exp(torch.complex(-size, wave))
    transformed: Tensor = torch.fft.fft2(found * slant / (2.0 * math.pi * scale**2))
    return transformed


def filters() -> tuple[Tensor, list[list[Tensor]]]:
    """The low pass, and a Morlet wavelet for every scale and angle."""
    low = gabor(0.8 * 2 ** (SCALES - 1), 0.0, 0.0, 1.0).real.float()
    waves = []
    for j in range(SCALES):
        width, frequency, slant = 0.8 * 2**j, 0.75 * math.pi / 2**j, 4.0 / ANGLES
        one = []
        for k in range(ANGLES):
            angle = (int(ANGLES - ANGLES / 2 - 1) - k) * math.pi / ANGLES
            wave = gabor(width, frequency, angle, slant)
            flat = gabor(width, 0.0, angle, slant)
            one.append((wave - wave[0, 0] / flat[0, 0] * flat).real.float())
        waves.append(one)
    return low, waves


def scattering(images: Tensor) -> Tensor:
    """81 channels of 7 x 7 numbers for pictures of 28 x 28."""
    low, waves = filters()

    def smoothed(values: Tensor) -> Tensor:
        found: Tensor = torch.fft.ifft2(torch.fft.fft2(values) * low).real[..., 8:36:4, 8:36:4]
        return found

    def of(part: Tensor) -> Tensor:
        given = nn.functional.pad(part, (8, 8, 8, 8), mode="reflect")[:, 0]
        whole = torch.fft.fft2(given)
        found = [smoothed(given)]
        for j in range(SCALES):
            for wave in waves[j]:
                first = torch.fft.ifft2(whole * wave).abs()
                found.append(smoothed(first))
                again = torch.fft.fft2(first)
                found += [
                    smoothed(torch.fft.ifft2(again * other).abs())
                    for scale in waves[j + 1 :]
                    for other in scale
                ]
        # Per picture: three channels together have mean 0 and deviation 1.
        return nn.functional.group_norm(torch.stack(found, 1), 27)

    return torch.cat([of(part) for part in torch.split(images, 1000)]).flatten(1)


def network(model: str) -> nn.Module:
    """The linear model on the features, or the network on the pictures."""
    torch.manual_seed(0)
    if model == "scattering":
        linear = nn.Linear(81 * 49, 10)
        nn.init.zeros_(linear.weight)
        nn.init.zeros_(linear.bias)
        return linear
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


def main() -> None:
    """Train and print test accuracy and price."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--model", choices=("scattering", "cnn"), default="scattering")
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--rate", type=float, default=8.0)
    parser.add_argument("--records", type=int, help="only so many of the records, to try it out")
    asked = parser.parse_args()
    data = md.training.load_data("mnist", asked.data)

    def tensors(rows: object, labels: object) -> tuple[Tensor, Tensor]:
        images = torch.tensor(rows, dtype=torch.float32).view(-1, 1, 28, 28)[: asked.records]
        inputs = scattering(images) if asked.model == "scattering" else images
        return inputs, torch.tensor(labels, dtype=torch.int64)[: asked.records]

    dataset = TensorDataset(*tensors(data.X_train, data.y_train))
    loader = DataLoader(dataset, batch_size=asked.batch, shuffle=True)
    model = network(asked.model)
    budget = md.training.loader_budget(
        loader, epochs=asked.epochs, epsilon=asked.epsilon, delta=1e-5
    )
    started = time.perf_counter()
    trained = md.PrivateTrainer(
        model,
        nn.CrossEntropyLoss(reduction="none"),
        loader,
        budget,
        optimizer=torch.optim.SGD(model.parameters(), lr=asked.rate, momentum=0.9),
        max_grad_norm=0.1,
        ema=0.97,
    ).train()
    seconds = time.perf_counter() - started
    inputs, labels = tensors(data.X_test, data.y_test)
    with torch.no_grad():
        last, averaged = (
            (one(inputs).argmax(1) == labels).float().mean().item()
            for one in (trained.model, trained.averaged)
        )
    print(f"{trained.steps} steps in {seconds:.0f} s, noise {budget.noise_multiplier:.3f}")
    print(f"test accuracy {last:.4f}, of averaged weights {averaged:.4f}")
    print(f"epsilon {trained.privacy.epsilon.upper:.4f} at delta {trained.privacy.delta:g}")


if __name__ == "__main__":
    main()
