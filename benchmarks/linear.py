"""What a step of the private linear models costs, against the bare numpy matrix products.

    OPENBLAS_NUM_THREADS=1 python benchmarks/linear.py [--json]

Per setting, in microseconds per step and measured in turns within one run:

    products   the two products of a step, rows @ W and R @ rows, on rows that already lie together
    fetched    the same, with the rows fetched from the data first, as any step on a batch must
    step       a private step as it runs: draw, fetch, products, clipping, noise, update

``over_bare_products`` is step / products and ``over_fetched_products`` step / fetched. For 64
chains ``chains_speedup`` is the time of 64 single runs over that of one batched run.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import mustdp as md
from mustdp.calibration.budget import Budget
from mustdp.reproduction.simulation import StackedRecords, descend_chains
from mustdp.training.linear.descent import (
    LinearRecords,
    LogisticLoss,
    Loss,
    MultinomialLoss,
    Recipe,
    SquaredError,
    descend,
    learning_rates,
)

STEPS = 16
ROUNDS = 15
CHAINS = 64


class Setting(NamedTuple):
    name: str
    n: int
    features: int
    classes: int
    b: int
    m: int
    precision: Any


SETTINGS = (
    Setting("mnist, single precision", 60_000, 784, 10, 3_000, 2_000, np.float32),
    Setting("mnist, double precision", 60_000, 784, 10, 3_000, 2_000, np.float64),
    Setting("wide binary", 30_000, 1_000, 2, 3_000, 2_000, np.float64),
    Setting("digits", 1_347, 64, 10, 300, 200, np.float64),
    Setting("adult", 30_969, 13, 2, 3_000, 2_000, np.float64),
    Setting("adult, the paper's batch", 30_969, 13, 2, 200, 100, np.float64),
)
HEADLINE = SETTINGS[0].name


def recipe_of(scheme: md.types.Scheme, steps: int) -> Recipe:
    budget = Budget(scheme, 4.0, steps, 1e-5, md.types.Relation.REPLACE_ONE, "benchmark")
    return Recipe(budget, 1.0, learning_rates(0.1, "constant", steps), 0.0)


def measure_setting(setting: Setting, rng: np.random.Generator) -> dict[str, Any]:
    scores = 1 if setting.classes == 2 else setting.classes
    loss: Loss = LogisticLoss() if scores == 1 else MultinomialLoss(scores)
    rows = rng.standard_normal((setting.n, setting.features)).astype(setting.precision)
    labels = rng.integers(0, setting.classes, setting.n)
    scheme = md.must_ow(setting.n, setting.b, setting.m)
    records = LinearRecords(rows, labels.astype(float) if scores == 1 else labels, loss, True)
    recipe = recipe_of(scheme, STEPS)
    batches = list(scheme.batches(1, count=STEPS))
    together = [rows[batch.indices] for batch in batches]
    weights = rng.standard_normal((setting.features, scores)).astype(setting.precision)
    residuals = [
        rng.standard_normal((scores, batch.distinct)).astype(setting.precision) for batch in batches
    ]

    def products() -> None:
        for part, residual in zip(together, residuals, strict=True):
            part @ weights
            residual @ part

    def fetched() -> None:
        for batch, residual in zip(batches, residuals, strict=True):
            part = rows[batch.indices]
            part @ weights
            residual @ part

    def steps() -> None:
        descend(records, recipe, 1)

    took = in_turns([products, fetched, steps])
    bare, fetch, step = (1e6 * seconds / STEPS for seconds in took)
    return {
        "setting": setting.name,
        **{key: getattr(setting, key) for key in ("n", "features", "classes", "b", "m")},
        "products_us": bare,
        "fetched_us": fetch,
        "step_us": step,
        "over_bare_products": step / bare,
        "over_fetched_products": step / fetch,
    }


def measure_chains(rng: np.random.Generator) -> dict[str, float]:
    """Experiment 2 of the MUST paper: n = 1000, two features, b = 200, m = 100."""
    X = rng.standard_normal((CHAINS, 1000, 2))
    y = X @ np.array([0.5, 0.2]) + rng.standard_normal((CHAINS, 1000))
    recipe = recipe_of(md.must_ow(1000, 200, 100), STEPS)
    seeds = range(CHAINS)
    stacked = StackedRecords(X, y, SquaredError(), True, CHAINS)
    single = [LinearRecords(X[k], y[k], SquaredError(), True) for k in seeds]
    streams = [recipe.budget.scheme.batches(seed) for seed in seeds]

    def together() -> None:
        descend_chains(stacked, recipe, seeds)

    def one_by_one() -> None:
        for seed in seeds:
            descend(single[seed], recipe, seed)

    def only_draws() -> None:
        for stream in streams:
            for number in range(STEPS):
                stream.batch(number)

    batched, alone, draws = in_turns([together, one_by_one, only_draws])
    per_step = 1e6 / (STEPS * CHAINS)
    return {
        "chains": CHAINS,
        "batched_us_per_chain_step": batched * per_step,
        "single_us_per_chain_step": alone * per_step,
        "draws_alone_us_per_chain_step": draws * per_step,
        "chains_speedup": alone / batched,
        "chains_speedup_without_draws": (alone - draws) / (batched - draws),
    }


def in_turns(actions: Sequence[Callable[[], None]]) -> list[float]:
    """Seconds of each action: the fastest of several rounds in which they take turns."""
    best = [float("inf")] * len(actions)
    for action in actions:
        action()
    for _ in range(ROUNDS):
        for place, action in enumerate(actions):
            start = time.perf_counter()
            action()
            best[place] = min(best[place], time.perf_counter() - start)
    return best


def measure(report: Callable[[str], None]) -> dict[str, Any]:
    rng, rows = np.random.default_rng(2312), []
    for setting in SETTINGS:
        report(setting.name)
        rows.append(measure_setting(setting, rng))
    report("chains")
    chains = measure_chains(rng)
    headline = next(row for row in rows if row["setting"] == HEADLINE)
    return {
        "over_bare_products": headline["over_bare_products"],
        "over_fetched_products": headline["over_fetched_products"],
        "headline": HEADLINE,
        "settings": rows,
        "chains": chains,
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("mustdp", "numpy")},
        },
    }


def show(figures: dict[str, Any]) -> None:
    table = Table(
        "", "products", "fetched", "step", "over bare", "over fetched", title="Microseconds"
    )
    for row in figures["settings"]:
        table.add_row(
            row["setting"],
            *(f"{row[key]:,.0f}" for key in ("products_us", "fetched_us", "step_us")),
            *(f"{row[key]:.2f}" for key in ("over_bare_products", "over_fetched_products")),
        )
    console = Console()
    console.print(table)
    for name, value in figures["chains"].items():
        console.print(f"{name}: {value:.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object and no table")
    arguments = parser.parse_args()

    def report(step: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{step}", end="", file=sys.stderr, flush=True)

    figures = measure(report)
    report("")
    if arguments.json:
        print(json.dumps(figures))
    else:
        show(figures)


if __name__ == "__main__":
    main()
