"""The MNIST network as the authors' program trains it, in numpy, and the same clipped by record.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389, experiment 3b: 784-128-10 with ReLU, pixels in [-1, 1],
plain gradient descent with rate 0.3, 300 steps. The authors' program ("MUST_MNIST.ipynb" of
github.com/zhao-xingyuan/Hsubsampling, commit 4cffd27) walks through the distinct records of a batch
in the order of their numbers and never resets the gradient in between, so that record i adds the
gradients of all records up to i, times its count. The first records count most:

    g = (1/m) sum_i (c_i + c_{i+1} + ...) grad_i

Then the whole of g is scaled down to norm C = 2, which its norm of several hundred always exceeds,
and noise is added; in the run without privacy too, with sigma 0. One record can turn that direction
and so move the result by up to 2 C, not 2 C/m: the guarantee is lost. The way ``record`` clips
every record's gradient instead, as the paper describes and as :mod:`mustdp.training` does; it is
here for its curves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.experiments.comparison.budgets import Setting
from mustdp.numerics import checks
from mustdp.sampling.batch import Batch
from mustdp.sampling.scheme import Scheme
from mustdp.training.data.dataset import DataSet

Floats = NDArray[np.float32]

MNIST = Setting(
    "mnist", "MNIST", sizes=(60_000, 3000, 2000), steps=300, clip=2.0, rate=0.3, primes=(1e-5,),
    formula="analytic",
)  # fmt: skip
#: What is clipped: the gradient of the whole batch (``silent``: and no noise), or every record's.
WAYS = AGGREGATE, SILENT, RECORD = "aggregate", "silent", "record"
HIDDEN = 128


@dataclass(frozen=True)
class Trained:
    """Test accuracy at the end, loss of every batch, test accuracy after some of the steps."""

    accuracy: float
    losses: tuple[float, ...]
    checked: tuple[tuple[int, float], ...]


class Network:
    """Weights and biases of two layers, from the same law as torch's own start."""

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        shapes = ((inputs, HIDDEN), (HIDDEN,), (HIDDEN, outputs), (outputs,))
        self.parts: list[Floats] = []
        for entering, shape in zip((inputs, inputs, HIDDEN, HIDDEN), shapes, strict=True):
            reach = entering**-0.5
            self.parts.append(rng.uniform(-reach, reach, shape).astype(np.float32))

    def scores(self, rows: Floats) -> tuple[Floats, Floats]:
        """What the hidden layer gives, and the scores of all classes."""
        first, shift, second, level = self.parts
        hidden = np.maximum(rows @ first + shift, np.float32(0.0))
        return hidden, hidden @ second + level

    def errors(
        self, rows: Floats, labels: NDArray[np.int64]
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Loss of every record, and its gradient in the hidden layer's input and in the scores."""
        hidden, scores = self.scores(rows)
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        total = chances.sum(axis=1, keepdims=True)
        own = np.arange(len(labels))
        losses = np.log(total[:, 0]) - scores[own, labels]
        chances /= total
        chances[own, labels] -= 1.0
        inner = chances @ self.parts[2].T
        inner *= hidden > 0
        return losses, hidden, inner, chances

    def accuracy(self, rows: Floats, labels: NDArray[np.int64]) -> float:
        """Share of records whose class has the largest score."""
        return float(np.mean(self.scores(rows)[1].argmax(axis=1) == labels))


def batch_gradient(
    network: Network, rows: Floats, labels: NDArray[np.int64], counts: NDArray[Any],
    way: str, size: float,
) -> tuple[list[Floats], float]:  # fmt: skip
    """The clipped gradient that noise is added to, and the mean loss of the distinct records."""
    losses, hidden, inner, outer = network.errors(rows, labels)
    if way == RECORD:
        squares = np.square(outer).sum(axis=1) * (np.square(hidden).sum(axis=1) + 1.0)
        squares += np.square(inner).sum(axis=1) * (np.square(rows).sum(axis=1) + 1.0)
        weights = counts * np.minimum(1.0, MNIST.clip / np.sqrt(np.maximum(squares, 1e-30)))
    else:
        weights = np.cumsum(counts[::-1])[::-1]
    weights = (weights / size).astype(np.float32)[:, None]
    inner, outer = inner * weights, outer * weights
    parts = [rows.T @ inner, inner.sum(axis=0), hidden.T @ outer, outer.sum(axis=0)]
    if way != RECORD:
        norm = np.sqrt(sum(float(np.square(part).sum(dtype=np.float64)) for part in parts))
        scale = np.float32(min(1.0, MNIST.clip / max(norm, 1e-30)))
        parts = [part * scale for part in parts]
    return parts, float(losses.mean())


def train(
    data: DataSet,
    scheme: Scheme,
    sigma: float,
    way: str,
    *,
    steps: int,
    seed: int,
    check_every: int = 0,
) -> Trained:
    """One run; ``check_every`` so many steps the test accuracy is looked at (0: at the end)."""
    checks.choice("way", way, WAYS)
    rng = np.random.default_rng((seed, 4))
    network = Network(len(data.features), len(data.classes), rng)
    losses, checked = [], []
    for step in range(1, steps + 1):
        batch = in_order(scheme.draw(rng))
        size = float(batch.counts.sum()) if way != RECORD else scheme.expected_size
        parts, loss = batch_gradient(
            network, data.X_train[batch.indices], data.y_train[batch.indices], batch.counts,
            way, size,
        )  # fmt: skip
        losses.append(loss)
        for weights, part in zip(network.parts, parts, strict=True):
            noise = rng.standard_normal(part.shape, dtype=np.float32)
            weights -= np.float32(MNIST.rate) * (part + np.float32(sigma) * noise)
        if check_every and step % check_every == 0:
            checked.append((step, network.accuracy(data.X_test, data.y_test)))
    final = network.accuracy(data.X_test, data.y_test)
    return Trained(final, tuple(losses), tuple(checked))


def in_order(batch: Batch) -> Batch:
    """The same batch with its records in the order of their numbers."""
    order = np.argsort(batch.indices)
    return Batch(batch.indices[order], batch.counts[order])
