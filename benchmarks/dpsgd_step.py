"""One DP-SGD step: ours against plain SGD and Opacus ghost clipping, measured in the same run.

    python -P benchmarks/dpsgd_step.py                            a table
    python -P benchmarks/dpsgd_step.py --json                     one JSON object
    python -P benchmarks/dpsgd_step.py --net wide                 4.2 M parameters, batches of 100
    python -P benchmarks/dpsgd_step.py --net conv --device cuda   32x32x3 images, batches of 4096

Every step draws its batch, gathers the rows, and updates the model. Ours is ``PrivateTrainer``
itself: draw, clip, noise, update, ledger. No data are read. Opacus is left out by name where it is
not installed. On the CPU one thread is used, and each memory figure comes from a process of its
own. -P keeps this folder out of the way of libraries that have modules of the same names.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

import mustdp as md
from mustdp.calibration.budget import calibrated_budget
from mustdp.training.networks.devices import full_precision
from mustdp.training.networks.trainer import PrivateTrainer

CLIP, NOISE, RATE = 2.0, 1.0, 0.1
#: What is measured: n, first stage b, rows per batch m, per kind of network.
SIZES = {
    "mlp": (60_000, 3000, 2000),
    "wide": (60_000, 150, 100),
    "conv": (50_000, 6144, 4096),
}
CONTENDERS = ("plain sgd", "mustdp wor", "mustdp must-ow", "opacus ghost")
#: On a GPU torch shortens the products of convolutions to 10 bits by default; clipping does not.
ON_GPU_TOO = ("plain sgd, 24 bits",)
#: Steps that a contender makes before it is the next one's turn.
TURN = 10
Steps = Callable[[int], object]


def network(kind: str) -> nn.Module:
    if kind == "mlp":
        return nn.Sequential(
            nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
        )
    if kind == "wide":  # 4.2 million parameters
        return nn.Sequential(
            nn.Linear(784, 1700), nn.ReLU(), nn.Linear(1700, 1700), nn.ReLU(), nn.Linear(1700, 10)
        )
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 128), nn.ReLU(), nn.Linear(128, 10))


def data(kind: str, n: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (3, 32, 32) if kind == "conv" else (784,)
    generator = torch.Generator(device).manual_seed(2312)
    return (
        torch.randn(n, *shape, generator=generator, device=device),
        torch.randint(10, (n,), generator=generator, device=device),
    )


class Setting:
    """Network, sizes and data that all contenders share."""

    def __init__(self, kind: str, device: str, rows: int | None) -> None:
        self.kind, self.device = kind, device
        n, b, m = SIZES[kind]
        self.m = m if rows is None else rows
        self.n, self.b = n, round(b * self.m / m)
        self.data = data(kind, n, device)

    def contender(self, name: str) -> Steps | str:
        """A function that makes so many steps, or why there is none."""
        if name.startswith("plain sgd"):
            return self._plain(exact=name != "plain sgd")
        if name == "mustdp wor":
            return self._ours(md.wor(self.n, self.m))
        if name == "mustdp must-ow":
            return self._ours(md.must_ow(self.n, self.b, self.m))
        return self._ghost()

    def _model(self) -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(1)
        model = network(self.kind).to(self.device)
        return model, torch.optim.SGD(model.parameters(), lr=RATE)

    def _ours(self, scheme: md.types.Scheme) -> Steps:
        model, optimizer = self._model()
        budget = calibrated_budget(scheme, steps=10**6, noise_multiplier=NOISE, delta=1e-6)
        loss = nn.CrossEntropyLoss(reduction="none")
        trainer = PrivateTrainer(
            model, loss, self.data, budget, optimizer=optimizer, max_grad_norm=CLIP, progress=False
        )
        return trainer.train

    def _batch(self, batches: Any) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.tensor(next(batches).indices).to(self.device)
        inputs, target = self.data
        return inputs.index_select(0, rows), target.index_select(0, rows)

    def _plain(self, exact: bool) -> Steps:
        model, optimizer = self._model()
        loss, batches = nn.CrossEntropyLoss(), md.wor(self.n, self.m).batches()
        precision = full_precision if exact else nullcontext

        def steps(count: int) -> None:
            with precision(torch.device(self.device)):
                for _ in range(count):
                    inputs, target = self._batch(batches)
                    optimizer.zero_grad()
                    found = loss(model(inputs), target)
                    found.backward()
                    optimizer.step()
                    found.item()

        return steps

    def _ghost(self) -> Steps | str:
        try:
            opacus = importlib.import_module("opacus")
        except ImportError:
            return "opacus is not installed"
        model, optimizer = self._model()
        records = torch.utils.data.TensorDataset(*self.data)
        private, dp_optimizer, loss, _ = opacus.PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            criterion=nn.CrossEntropyLoss(),
            data_loader=torch.utils.data.DataLoader(records, batch_size=self.m),
            noise_multiplier=NOISE,
            max_grad_norm=CLIP,
            poisson_sampling=False,
            grad_sample_mode="ghost",
        )
        batches = md.wor(self.n, self.m).batches()

        def steps(count: int) -> None:
            for _ in range(count):
                inputs, target = self._batch(batches)
                dp_optimizer.zero_grad()
                found = loss(private(inputs), target)
                found.backward()
                dp_optimizer.step()
                found.item()

        return steps


def finish(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def milliseconds(contenders: dict[str, Steps], device: str, repeats: int) -> dict[str, list[float]]:
    """Per step; contenders take turns, so that a busy machine slows them all.

    On the CPU, where one thread does all the work, its own time is taken: what other processes
    take of the machine does not count.
    """
    clock = time.perf_counter if device.startswith("cuda") else time.thread_time
    for steps in contenders.values():
        steps(TURN)
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, steps in contenders.items():
            finish(device)
            start = clock()
            steps(TURN)
            finish(device)
            found[name].append(1e3 * (clock() - start) / TURN)
    return found


def times_as_long(found: dict[str, list[float]], name: str, other: str) -> float | None:
    """Median over the turns of the ratio within a turn."""
    if name not in found or other not in found:
        return None
    return statistics.median(a / b for a, b in zip(found[name], found[other], strict=True))


def peak_here(setting: Setting, name: str) -> float | None:
    """MiB that three steps take beyond what was there before them."""
    steps = setting.contender(name)
    if isinstance(steps, str):
        return None
    if setting.device.startswith("cuda"):
        steps(1)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        steps(3)
        return float(torch.cuda.max_memory_allocated() - before) / 2**20
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    at_first = resident("VmRSS")
    steps(3)
    return (resident("VmHWM") - at_first) / 2**10


def resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return float(next(line for line in lines if line.startswith(field)).split()[1])


def peaks(setting: Setting, names: list[str], rows: int | None) -> dict[str, float | None]:
    if setting.device.startswith("cuda"):
        return {name: peak_here(setting, name) for name in names}
    if not Path("/proc/self/clear_refs").exists():
        return dict.fromkeys(names)
    found: dict[str, float | None] = {}
    for name in names:
        command = [sys.executable, "-P", __file__, "--net", setting.kind, "--peak-of", name]
        command += [] if rows is None else ["--rows", str(rows)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        found[name] = json.loads(answer.stdout)
    return found


def measure(kind: str, device: str, rows: int | None, repeats: int) -> dict[str, Any]:
    setting = Setting(kind, device, rows)
    names = CONTENDERS + (ON_GPU_TOO if device.startswith("cuda") else ())
    given = {name: setting.contender(name) for name in names}
    contenders = {name: steps for name, steps in given.items() if not isinstance(steps, str)}
    left_out = [f"{name}: {why}" for name, why in given.items() if isinstance(why, str)]
    found = milliseconds(contenders, device, repeats)
    medians = {name: statistics.median(times) for name, times in found.items()}
    del contenders, given
    return {
        "versions": versions(),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu, 1 thread",
        "net": kind,
        "n": setting.n,
        "b": setting.b,
        "rows": setting.m,
        "distinct_rows_must_ow": md.must_ow(setting.n, setting.b, setting.m).expected_distinct,
        "speedup_over_opacus_ghost": times_as_long(found, "opacus ghost", "mustdp wor"),
        "over_plain_sgd": times_as_long(found, "mustdp wor", "plain sgd"),
        "distinct_over_all_rows": times_as_long(found, "mustdp must-ow", "mustdp wor"),
        "milliseconds_per_step": medians,
        "rows_per_second": {name: 1e3 * setting.m / value for name, value in medians.items()},
        "peak_mib_of_a_step": peaks(setting, list(found), rows),
        "left_out": left_out,
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("mustdp", "numpy", "torch", "opacus", "numba"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def show(figures: dict[str, Any]) -> None:
    print(f"{figures['net']}, {figures['rows']} rows, {figures['device']}")
    print(f"{'':20}{'ms per step':>14}{'rows per s':>14}{'peak MiB':>12}")
    for name, took in figures["milliseconds_per_step"].items():
        peak = figures["peak_mib_of_a_step"][name]
        shown = "-" if peak is None else f"{peak:,.0f}"
        speed = figures["rows_per_second"][name]
        print(f"{name:20}{took:14,.2f}{speed:14,.0f}{shown:>12}")
    for name in ("speedup_over_opacus_ghost", "over_plain_sgd", "distinct_over_all_rows"):
        value = figures[name]
        print(f"{name}: " + ("not measured" if value is None else f"{value:.2f}"))
    for line in figures["left_out"]:
        print(f"left out: {line}")
    print(", ".join(f"{name} {version}" for name, version in figures["versions"].items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object and no table")
    parser.add_argument("--net", choices=tuple(SIZES), default="mlp")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--rows", type=int, help="rows per batch, copies counted")
    parser.add_argument("--repeats", type=int, default=15, help="turns of ten steps each")
    parser.add_argument("--peak-of", choices=CONTENDERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # remarks of Opacus and of torch's hooks
    if given.device == "cpu":
        torch.set_num_threads(1)
    if given.peak_of:
        setting = Setting(given.net, given.device, given.rows)
        print(json.dumps(peak_here(setting, given.peak_of)))
        return
    figures = measure(given.net, given.device, given.rows, given.repeats)
    if given.json:
        print(json.dumps(figures))
    else:
        show(figures)


if __name__ == "__main__":
    main()
