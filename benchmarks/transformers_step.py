"""One training step of GPT-2 small (124 M parameters, tied weights): ours over plain SGD.

    python benchmarks/transformers_step.py [--device cuda] [--rows 64] [--tokens 128] [--layers 12]

The model is that of the transformers library, with random weights; nothing is downloaded. Both
contenders run in the same process, on the same records and in true float32.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

import mustdp as md
from mustdp.training.networks.devices import full_precision

VOCABULARY = 50_257


class Logits(nn.Module):  # type: ignore[misc, unused-ignore]
    """The logits of a language model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: Tensor) -> Tensor:
        """One row of logits per word."""
        found: Tensor = self.model(input_ids=words).logits
        return found


def network(layers: int, device: str) -> nn.Module:
    """GPT-2 small, or one with fewer layers."""
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        n_layer=layers, use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    library: Any = transformers
    return Logits(library.GPT2LMHeadModel(config)).to(device)


def loss(outputs: Tensor, target: Tensor) -> Tensor:
    """Mean cross entropy over the words of each record."""
    return functional.cross_entropy(outputs.mT, target, reduction="none").mean(1)


def plain(given: Any, words: Tensor) -> Callable[[int], object]:
    """Steps of SGD on batches of the same size."""
    model = network(given.layers, given.device)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)

    def steps(count: int) -> None:
        with full_precision(torch.device(given.device)):
            for _ in range(count):
                rows = words[torch.randperm(len(words), device=words.device)[: given.rows]]
                sgd.zero_grad()
                found: Any = loss(model(rows[:, :-1]), rows[:, 1:]).mean()
                found.backward()
                sgd.step()

    return steps


def ours(given: Any, words: Tensor) -> Callable[[int], object]:
    """Steps of ``PrivateTrainer``."""
    model = network(given.layers, given.device)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
    scheme = md.wor(len(words), given.rows)
    budget = md.calibrated_budget(scheme, steps=10**5, noise_multiplier=1.0, delta=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = md.PrivateTrainer(
            model, loss, (words[:, :-1], words[:, 1:]), budget, optimizer=sgd, max_grad_norm=1.0,
            progress=False,
        )  # fmt: skip
    print(f"  clipped by {trainer.method}, {trainer._pieces._rows} rows in a piece", flush=True)
    return trainer.train


def measured(steps: Callable[[int], object], given: Any) -> tuple[float, float]:
    """Seconds of a step, and GiB at most."""
    gpu = given.device == "cuda"
    steps(given.warm)
    if gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    steps(given.steps)
    if gpu:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - began) / given.steps
    return seconds, torch.cuda.max_memory_allocated() / 2**30 if gpu else 0.0


def main() -> None:
    """Print both, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, usual in (("rows", 64), ("tokens", 128), ("layers", 12), ("steps", 8), ("warm", 4)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    library: Any = transformers
    library.logging.set_verbosity_error()
    words = torch.randint(VOCABULARY, (4 * given.rows, given.tokens + 1), device=given.device)
    found = {}
    for name, make in (("plain SGD", plain), ("mustdp", ours)):
        steps = make(given, words)
        found[name] = measured(steps, given)
        print(f"{name}: {found[name][0]:.4f} s a step, {found[name][1]:.1f} GiB", flush=True)
        del steps
        if given.device == "cuda":
            torch.cuda.empty_cache()
    (one, less), (other, more) = found.values()
    print(f"ratio: {other / one:.2f} in time" + (f", {more / less:.2f} in memory" if less else ""))


if __name__ == "__main__":
    main()
