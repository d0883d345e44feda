"""Accuracy at a certified (3, 1e-5): a linear model on scattering features, or a small network.

    python examples/mnist_accuracy.py DATA --model scattering
    python examples/mnist_accuracy.py DATA --model cnn
    python examples/mnist_accuracy.py DATA --dataset cifar10 --batch 8192

DATA is a folder with the files of MNIST in mnist/, of Fashion-MNIST in fashion-mnist/ (the same
four names) or of CIFAR-10 in cifar-10-batches-bin/ (the binary version). The features are those of
Tramer & Boneh (2021, arXiv 2011.11660v4): a scattering transform of order two (Mallat 2012),
normalised for every picture by itself. Their mean is released once, with noise, and taken off; mean
and training are one plan, calibrated and charged together. The network is that of Papernot et al.
(2020, arXiv 2007.14191v1), with tanh, on pictures that are standardised one by one. The scheme that
draws the batches is the one that is charged.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import mustdp as md

SCALES, ANGLES, MARGIN = 2, 8, 8


def gabor(side: int, scale: float, frequency: float, angle: float, slant: float) -> Tensor:
    """A Gabor function on a square, summed over its periods, in Fourier space."""
    axis = torch.arange(side, dtype=torch.float64)
    turned = torch.tensor(
        [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]],
        dtype=torch.float64,
    )
    curve = turned @ torch.diag(torch.tensor([1.0, slant**2], dtype=torch.float64)) @ turned.T
    curve /= 2.0 * scale**2
    found = torch.zeros(side, side, dtype=torch.complex128)
    for right in range(-2, 3):
        for down in range(-2, 3):
            x, y = torch.meshgrid(axis + right * side, axis + down * side, indexing="ij")
            size = curve[0, 0] * x * x + 2 * curve[0, 1] * x * y + curve[1, 1] * y * y
            wave = frequency * (x * math.cos(angle) + y * math.sin(angle))
            found += torch.exp(torch.complex(-size, wave))
    transformed: Tensor = torch.fft.fft2(found * slant / (2.0 * math.pi * scale**2))
    return transformed


def filters(side: int) -> tuple[Tensor, list[list[Tensor]]]:
    """The low pass, and a Morlet wavelet for every scale and angle."""
    low = gabor(side, 0.8 * 2 ** (SCALES - 1), 0.0, 0.0, 1.0).real.float()
    waves = []
    for j in range(SCALES):
        width, frequency, slant = 0.8 * 2**j, 0.75 * math.pi / 2**j, 4.0 / ANGLES
        one = []
        for k in range(ANGLES):
            angle = (int(ANGLES - ANGLES / 2 - 1) - k) * math.pi / ANGLES
            wave = gabor(side, width, frequency, angle, slant)
            flat = gabor(side, width, 0.0, angle, slant)
            one.append((wave - wave[0, 0] / flat[0, 0] * flat).real.float())
        waves.append(one)
    return low, waves


def scattering(images: Tensor) -> Tensor:
    """81 channels for every colour, each of a sixteenth of the pixels."""
    side = images.shape[-1]
    low, waves = filters(side + 2 * MARGIN)

    def smoothed(values: Tensor) -> Tensor:
        kept = slice(MARGIN, MARGIN + side, 2**SCALES)
        found: Tensor = torch.fft.ifft2(torch.fft.fft2(values) * low).real[..., kept, kept]
        return found

    def of(part: Tensor) -> Tensor:
        given = nn.functional.pad(part, (MARGIN,) * 4, mode="reflect")
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
        channels = torch.stack(found, 2).flatten(1, 2)
        return nn.functional.group_norm(channels, channels.shape[1] // 3)

    return torch.cat([of(part) for part in torch.split(images, 500)]).flatten(1)


def standardised(images: Tensor) -> Tensor:
    """Every picture with mean 0 and deviation 1, from its own pixels alone."""
    return nn.functional.layer_norm(images, images.shape[1:])


def network(model: str, inputs: Tensor) -> nn.Module:
    """The linear model on the features, or the network on the pictures."""
    if model == "scattering":
        linear = nn.Linear(inputs.shape[1], 10)
        nn.init.zeros_(linear.weight)
        nn.init.zeros_(linear.bias)
        return linear
    before = nn.Sequential(
        nn.Conv2d(inputs.shape[1], 16, 8, 2, padding=2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Flatten(),
    )  # fmt: skip
    width = before(inputs[:1]).shape[1]
    return nn.Sequential(*before, nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, 10))


def pictures(dataset: str, folder: Path) -> list[Tensor]:
    """Pictures and labels, to train on and to test with."""
    if dataset == "cifar10":

        def read(names: list[str]) -> list[Tensor]:
            at = folder / "cifar-10-batches-bin"
            rows = np.concatenate([np.fromfile(at / name, np.uint8) for name in names])
            rows = rows.reshape(-1, 3073)
            images = torch.from_numpy(rows[:, 1:].astype(np.float32) / 255)
            return [images.view(-1, 3, 32, 32), torch.from_numpy(rows[:, 0].astype(np.int64))]

        return [*read([f"data_batch_{k}.bin" for k in range(1, 6)]), *read(["test_batch.bin"])]
    data = md.training.load_data("mnist", str(folder if dataset == "mnist" else folder / dataset))
    return [
        torch.tensor(data.X_train, dtype=torch.float32).view(-1, 1, 28, 28),
        torch.tensor(data.y_train, dtype=torch.int64),
        torch.tensor(data.X_test, dtype=torch.float32).view(-1, 1, 28, 28),
        torch.tensor(data.y_test, dtype=torch.int64),
    ]


def features(images: Tensor, cache: Path | None) -> Tensor:
    """Scattering features, read from a file where it exists; the file is as secret as the data."""
    if cache is not None and cache.exists():
        found: Tensor = torch.from_numpy(np.load(cache))
        return found
    found = scattering(images)
    if cache is not None:
        with open(os.open(cache, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            np.save(file, found.numpy())
    return found


def first_entry(outputs: Tensor, labels: Tensor) -> Tensor:
    """A loss whose gradient in the weights of a linear layer is the record itself."""
    return outputs[:, 0]


def private_mean(inputs: Tensor, budget: md.types.Budget, ledger: md.Ledger) -> Tensor:
    """The mean of the features with noise: one step of gradient descent on the whole data set."""
    width = inputs.shape[1]
    line = nn.Linear(width, 1, bias=False)
    nn.init.zeros_(line.weight)
    md.PrivateTrainer(
        line,
        first_entry,
        (inputs, torch.zeros(len(inputs))),
        budget,
        optimizer=torch.optim.SGD(line.parameters(), lr=1.0),
        max_grad_norm=math.sqrt(width),  # groups of variance 1 are no longer than this
        ledger=ledger,
    ).train()
    return -line.weight.detach()[0]


def main() -> None:
    """Train and print test accuracy and price."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    names = ("mnist", "fashion-mnist", "cifar10")
    parser.add_argument("--dataset", choices=names, default="mnist")
    parser.add_argument("--model", choices=("scattering", "cnn"), default="scattering")
    parser.add_argument("--scheme", choices=("allocation", "poisson", "wor"), default="allocation")
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--epochs", type=int, help="default: 20, or 40 with --model cnn")
    parser.add_argument("--batch", type=int, help="default: 4096, or 2048 with --model cnn")
    parser.add_argument("--rate", type=float, help="default: 16, or 4 with --model cnn")
    parser.add_argument("--ema", type=float, help="default: 0.95, or 0.98 with --model cnn")
    parser.add_argument("--mean-noise", type=float, default=16.0, help="noise of the mean")
    parser.add_argument("--records", type=int, help="only so many of the records, to try it out")
    parser.add_argument("--hold-out", type=int, default=0, help="test on so many training records")
    parser.add_argument("--cache", type=Path, help="a folder that keeps the features")
    asked = parser.parse_args()
    by_features = asked.model == "scattering"
    epochs = asked.epochs or (20 if by_features else 40)
    batch = asked.batch or (4096 if by_features else 2048)
    rate = asked.rate or (16.0 if by_features else 4.0)
    ema = asked.ema or (0.95 if by_features else 0.98)

    inputs, labels, tests, answers = (
        part[: asked.records] for part in pictures(asked.dataset, asked.data)
    )
    if by_features:

        def kept(part: str) -> Path | None:
            name = f"{asked.dataset}-{part}-{asked.records or 'all'}.npy"
            return asked.cache / name if asked.cache else None

        inputs = features(inputs, kept("train"))
        tests = features(tests, kept("test"))
    else:
        inputs, tests = standardised(inputs), standardised(tests)
    if asked.hold_out:
        tests, answers = inputs[: asked.hold_out], labels[: asked.hold_out]
        inputs, labels = inputs[asked.hold_out :], labels[asked.hold_out :]

    n = len(inputs)
    bins = max(2, math.ceil(n / batch))
    relation = "replace_one" if asked.scheme == "wor" else "add_remove"
    schemes: dict[str, Any] = {
        "allocation": md.random_allocation(n, bins),
        "poisson": md.poisson(n, 1 / bins),
        "wor": md.wor(n, n // bins),
    }
    scheme = schemes[asked.scheme]
    everything = md.calibrated_budget(
        md.poisson(n, 1.0), steps=1, noise_multiplier=asked.mean_noise, delta=1e-5,
        relation=relation,
    )  # fmt: skip

    def training(noise_multiplier: float) -> md.types.Budget:
        return md.calibrated_budget(
            scheme, steps=bins * epochs, noise_multiplier=noise_multiplier, delta=1e-5,
            relation=relation,
        )  # fmt: skip

    def whole(noise: Any) -> md.types.Plan:
        one = training(noise.noise_multiplier).plan()
        return md.sequence(everything.plan(), one) if by_features else one

    found = md.calibration.calibrate_plan(
        whole, epsilon=asked.epsilon, delta=1e-5, relation=relation
    )
    mechanism: Any = found.mechanism
    budget = training(mechanism.noise_multiplier)
    ledger = md.Ledger(relation)
    started = time.perf_counter()
    if by_features:
        centre = private_mean(inputs, everything, ledger)
        inputs, tests = inputs - centre, tests - centre
    model = network(asked.model, inputs)
    trained = md.PrivateTrainer(
        model,
        nn.CrossEntropyLoss(reduction="none"),
        (inputs, labels),
        budget,
        optimizer=torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9),
        max_grad_norm=0.1,
        ema=ema,
        ledger=ledger,
    ).train()
    seconds = time.perf_counter() - started
    with torch.no_grad():
        last, averaged = (
            (one(tests).argmax(1) == answers).float().mean().item()
            for one in (trained.model, trained.averaged)
        )
    kind = "held-out" if asked.hold_out else "test"
    print(f"{trained.steps} steps in {seconds:.0f} s, noise {budget.noise_multiplier:.4f}")
    print(f"{kind} accuracy {last:.4f}, of averaged weights {averaged:.4f}")
    print(f"{asked.scheme}, {relation}: epsilon {ledger.epsilon(1e-5).upper:.4f} at delta 1e-05")


if __name__ == "__main__":
    main()
