"""Risk beside riskcal, in one run: what an attacker achieves, and noise for a target.

    python benchmarks/risk.py            tables
    python benchmarks/risk.py --json     one JSON object
    python benchmarks/risk.py --all      riskcal's noise for a true-positive rate too (slow)

riskcal (Kulynych et al. 2024, arXiv 2407.02191) answers for DP-SGD with Poisson batches under
add_remove, so that is what is compared. Both sides are asked in turn.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

from rich.console import Console
from rich.table import Table

import mustdp as md

#: (rate, noise multiplier, steps) of Poisson sampling.
SETTINGS = ((0.01, 1.0, 1000), (0.02, 4.0, 1000))
FPR = (0.001, 0.01, 0.1)
#: (rate, steps, target) of calibrations.
TARGETS: tuple[tuple[float, int, dict[str, float]], ...] = (
    (0.01, 1000, {"advantage": 0.1}),
    (0.01, 1000, {"tpr": 0.05, "fpr": 0.01}),
)
RECORDS = 60_000


def timed(task: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = task()
    return found, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--all", action="store_true")
    asked = parser.parse_args()
    try:
        peer: Any = importlib.import_module("riskcal.calibration.dpsgd")
        version = metadata.version("riskcal")
    except ImportError:
        peer, version = None, "not installed"
    rows = [*rates(peer), *noises(peer, asked.all)]
    if asked.json:
        print(json.dumps({"riskcal": version, "rows": rows}))
        return
    table = Table(title=f"riskcal {version}")
    for name in ("question", "lower", "upper", "seconds", "riskcal", "its seconds"):
        table.add_column(name, justify="left" if name == "question" else "right")
    for row in rows:
        table.add_row(*(f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row))
    Console().print(table)


Row = tuple[str, float, float, float, float | str, float | str]


def asked_of(peer: Any, name: str, **question: float) -> tuple[float | str, float | str]:
    """The peer's answer and its seconds; nothing where it is not installed."""
    if peer is None:
        return "", ""
    found, seconds = timed(partial(getattr(peer, name), **question))
    return float(found), seconds


def rates(peer: Any) -> list[Row]:
    """Advantage and true-positive rates; ours with both bounds."""
    rows: list[Row] = []
    for rate, noise, steps in SETTINGS:
        step = md.subsample(md.poisson(RECORDS, rate), md.gaussian(noise_multiplier=noise))
        named = f"q = {rate:.4g}, z = {noise:g}, k = {steps}"
        found, seconds = timed(partial(our_risk, md.repeat(steps, step)))
        shared = {"noise_multiplier": noise, "sample_rate": rate, "num_steps": steps}
        theirs = asked_of(peer, "get_advantage_for_dpsgd", **shared)
        both = found.advantage
        rows.append((f"advantage: {named}", both.lower, both.upper, seconds, *theirs))
        for fpr, one in zip(found.fpr, found.tpr, strict=True):
            beta, spent = asked_of(peer, "get_beta_for_dpsgd", alpha=fpr, **shared)
            tpr = beta if isinstance(beta, str) else 1.0 - beta
            rows.append((f"tpr at {fpr:g}: {named}", one.lower, one.upper, seconds, tpr, spent))
    return rows


def our_risk(plan: md.types.Plan) -> md.types.Risk:
    return md.account(plan).risk(FPR)


def noises(peer: Any, everything: bool) -> list[Row]:
    """The noise multiplier for a target."""
    rows: list[Row] = []
    for rate, steps, target in TARGETS:
        scheme = md.poisson(RECORDS, rate)
        calibration, seconds = timed(partial(md.calibrate, scheme, steps=steps, **target))
        found = calibration.noise_multiplier
        shared = {"sample_rate": rate, "num_steps": steps}
        if "advantage" in target:
            theirs = asked_of(peer, "find_noise_multiplier_for_advantage", **target, **shared)
        else:
            wanted = {"alpha": target["fpr"], "beta": 1.0 - target["tpr"]}
            name = "find_noise_multiplier_for_err_rates"
            theirs = asked_of(peer if everything else None, name, **wanted, **shared)
        told = ", ".join(f"{name} {value:g}" for name, value in target.items())
        named = f"noise for {told}: q = {rate:.4g}, k = {steps}"
        rows.append((named, found, found, seconds, *theirs))
    return rows


if __name__ == "__main__":
    main()
