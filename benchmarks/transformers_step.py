"""One training step of GPT-2 small (124 M parameters, tied weights): ours over plain SGD.

    python benchmarks/transformers_step.py [--device cuda] [--rows 64] [--tokens 128] [--layers 12]
    python benchmarks/transformers_step.py --autocast     forward passes of both in bfloat16
    python benchmarks/transformers_step.py --lora 8       adapters of that rank (peft), frozen base

The model is that of the transformers library, with random weights; nothing is downloaded. Both
contenders run in the same process, on the same records, and in true float32 where they are not
told otherwise; they take turns, and on a CPU the processor time of one thread is taken, so that
other programs do not count. Steps 16 to 30 of a run are timed. In the steps 0, 1, 3, 7, 15, 31 and
so on the model is tried again, which takes as long as several steps.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
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


def network(given: Any) -> nn.Module:
    """GPT-2 small, or one with fewer layers or with adapters."""
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        n_layer=given.layers, use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    library: Any = transformers
    model = library.GPT2LMHeadModel(config)
    if given.lora:
        peft: Any = importlib.import_module("peft")
        adapters = peft.LoraConfig(
            r=given.lora, lora_alpha=2 * given.lora, target_modules=["c_attn"], fan_in_fan_out=True
        )
        model = peft.get_peft_model(model, adapters)
    return Logits(model).to(given.device)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """SGD on what is not frozen."""
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)


def loss(outputs: Tensor, target: Tensor) -> Tensor:
    """Mean cross entropy over the words of each record."""
    words = functional.cross_entropy(outputs.flatten(0, 1), target.flatten(), reduction="none")
    return words.view(target.shape).mean(1)


def shorter(given: Any) -> AbstractContextManager[Any]:
    """Forward passes in bfloat16, where they are asked for."""
    return torch.autocast(given.device, torch.bfloat16) if given.autocast else nullcontext()


def plain(given: Any, words: Tensor) -> Callable[[int], object]:
    """Steps of SGD on batches of the same size."""
    model = network(given)
    sgd = optimizer_of(model)

    def steps(count: int) -> None:
        with full_precision(torch.device(given.device)):
            for _ in range(count):
                rows = words[torch.randperm(len(words), device=words.device)[: given.rows]]
                sgd.zero_grad()
                with shorter(given):
                    found: Any = loss(model(rows[:, :-1]), rows[:, 1:]).mean()
                found.backward()
                sgd.step()

    return steps


def ours(given: Any, words: Tensor) -> Callable[[int], object]:
    """Steps of ``PrivateTrainer``."""
    model = network(given)
    sgd = optimizer_of(model)
    scheme = md.wor(len(words), given.rows)
    budget = md.calibrated_budget(scheme, steps=10**5, noise_multiplier=1.0, delta=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = md.PrivateTrainer(
            model, loss, (words[:, :-1], words[:, 1:]), budget, optimizer=sgd, max_grad_norm=1.0,
            compute=md.types.Compute(mixed_precision=torch.bfloat16 if given.autocast else None),
            progress=False,
        )  # fmt: skip
    if not given.json:
        print(f"  clipped by {trainer.method}, {trainer._pieces._rows} rows in a piece", flush=True)
    return trainer.train


def turn(steps: Callable[[int], object], given: Any) -> tuple[float, float]:
    """Seconds of a step, and GiB at most."""
    gpu = given.device == "cuda"
    clock = time.perf_counter if gpu else time.thread_time
    if gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    began = clock()
    steps(given.steps)
    if gpu:
        torch.cuda.synchronize()
    seconds = (clock() - began) / given.steps
    return seconds, torch.cuda.max_memory_allocated() / 2**30 if gpu else 0.0


def measured(given: Any, words: Tensor) -> dict[str, list[tuple[float, float]]]:
    """All turns of both; on a GPU one after the other, so that each has the memory to itself."""
    makers = {"plain SGD": plain, "mustdp": ours}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in makers}
    if given.device == "cuda":
        for name, make in makers.items():
            steps = make(given, words)
            steps(given.warm)
            found[name] = [turn(steps, given) for _ in range(given.turns)]
            del steps
            torch.cuda.empty_cache()
        return found
    made = {name: make(given, words) for name, make in makers.items()}
    for steps in made.values():
        steps(given.warm)
    for _ in range(given.turns):
        for name, steps in made.items():
            found[name].append(turn(steps, given))
    return found


def main() -> None:
    """Print both, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    numbers = {
        "rows": 64,
        "tokens": 128,
        "layers": 12,
        "steps": 15,
        "warm": 16,
        "turns": 1,
        "lora": 0,
    }
    for name, usual in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--autocast", action="store_true", help="forward passes in bfloat16")
    parser.add_argument("--json", action="store_true", help="print one JSON object alone")
    given = parser.parse_args()
    if given.device == "cpu":
        torch.set_num_threads(1)
    library: Any = transformers
    library.logging.set_verbosity_error()
    words = torch.randint(VOCABULARY, (4 * given.rows, given.tokens + 1), device=given.device)
    found = measured(given, words)
    plains, others = found.values()
    ratio = statistics.median(b / a for (a, _), (b, _) in zip(plains, others, strict=True))
    less, more = (max(memory for _, memory in turns) for turns in (plains, others))
    if given.json:
        seconds = {name: [each for each, _ in turns] for name, turns in found.items()}
        memory = {name: max(each for _, each in turns) for name, turns in found.items()}
        row = {"seconds": seconds, "gib": memory, "times": ratio}
        print(json.dumps({"setting": vars(given), **row}))
        return
    for name, turns in found.items():
        took = [each for each, _ in turns]
        print(
            f"{name}: {statistics.median(took):.4f} s a step ({min(took):.4f} to "
            f"{max(took):.4f}), {max(memory for _, memory in turns):.1f} GiB"
        )
    print(f"ratio: {ratio:.2f} in time" + (f", {more / less:.2f} in memory" if less else ""))


if __name__ == "__main__":
    main()
