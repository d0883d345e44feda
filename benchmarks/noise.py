"""Exact noise against plain double-precision noise, on one core and in the same run.

    python -P benchmarks/noise.py            a table
    python -P benchmarks/noise.py --json     one JSON object

What is timed is what a release needs: a million values drawn from the operating system's key on,
rounded exactly. torch's normal numbers are neither exact nor from a cryptographic generator.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import importlib
import json
import platform
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mustdp.noise import fused
from mustdp.noise.exact import GAUSSIAN, LAPLACE, noise_for, release, rounded
from mustdp.randomness.keys import NoiseSource

VALUES = 1_000_000
REPEATS = 25

Draw = Callable[[], object]


def milliseconds(draws: dict[str, Draw]) -> dict[str, list[float]]:
    """Processor time of each draw, all of them in turn, so that a busy machine slows all alike."""
    found: dict[str, list[float]] = {name: [] for name in draws}
    for repeat in range(REPEATS + 2):
        for name, draw in draws.items():
            start = time.process_time()
            draw()
            if repeat >= 2:
                found[name].append(1e3 * (time.process_time() - start))
    return found


def draws() -> dict[str, Draw]:
    source, rng = NoiseSource(), np.random.default_rng(1)
    gaussian = noise_for(1.7, reach=1.0, records=1000)
    laplace = noise_for(1.7, reach=1.0, records=1000, law="laplace")
    sums = rng.integers(-(2**35), 2**35, VALUES)
    found: dict[str, Draw] = {
        "exact gaussian": lambda: gaussian.draw(VALUES, source),
        "exact laplace": lambda: laplace.draw(VALUES, source),
        "release of a million sums": lambda: release(sums, gaussian, source),
        "numpy standard_normal": lambda: rng.standard_normal(VALUES),
    }
    if fused.is_available():
        values, out = [rng.normal(size=VALUES)], [np.empty(VALUES, dtype=np.float32)]
        found["a step's release, fused"] = lambda: fused.release(
            values, gaussian.lattice.step, gaussian.ratio, source, out
        )
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return found
    torch.set_num_threads(1)
    training: Any = importlib.import_module("mustdp.training.networks.noise")
    found["a step's noise, without numba"] = lambda: training.central_noise(
        gaussian.ratio, VALUES, source
    )
    found["torch.randn, double"] = lambda: torch.randn(VALUES, dtype=torch.float64)
    return found


def undecided() -> dict[str, float]:
    """How many in a million values need more bits, on the finest lattice that is used."""
    words, many = NoiseSource().words(4 * VALUES), 2.0**27
    return {law.name: len(rounded(law, words, many)[1]) / 4 for law in (GAUSSIAN, LAPLACE)}


def measure() -> dict[str, Any]:
    """All figures, as plain values."""
    took = milliseconds(draws())
    figures: dict[str, Any] = {
        "versions": versions(),
        "milliseconds": {name: statistics.median(times) for name, times in took.items()},
        "undecided_per_million": undecided(),
    }
    if peer := took.get("torch.randn, double"):
        pairs = zip(took["exact gaussian"], peer, strict=True)
        figures["exact_gaussian_over_torch"] = statistics.median(a / b for a, b in pairs)
    return figures


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("numpy", "scipy", "randomgen", "torch", "numba"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def show(figures: dict[str, Any]) -> None:
    """Print the table."""
    console = Console()
    table = Table("", "milliseconds", title=f"{VALUES:,} values on one core")
    for name, took in figures["milliseconds"].items():
        table.add_row(name, f"{took:.1f}")
    console.print(table)
    for name, many in figures["undecided_per_million"].items():
        console.print(f"{name}: {many:g} in a million values need more bits")
    if "exact_gaussian_over_torch" in figures:
        console.print(f"exact gaussian / torch.randn: {figures['exact_gaussian_over_torch']:.2f}")
    console.print(", ".join(f"{name} {version}" for name, version in figures["versions"].items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object and no table")
    figures = measure()
    if parser.parse_args().json:
        print(json.dumps(figures))
    else:
        show(figures)


if __name__ == "__main__":
    main()
