"""Width and coverage of 90 % intervals beside those of Wang, Cheng & Awan (arXiv 2210.06140).

Their setting: the mean of n = 10,000 numbers from a normal law around 0.5 with standard deviation
1, clamped to [0, 1]. They release bootstrap replicates with mu-Gaussian privacy, mu = 1, 0.3 and
0.1, which is epsilon 4.377, 1.132 and 0.341 at delta = 1e-5; widths and coverage of theirs are
those that they report. Ours are certified for the same epsilon and delta with one record replaced:
one release on all records, and subsampling of a quarter of them.

    python benchmarks/wang_cheng_awan.py --data-sets 1000
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import mustdp as md
from mustdp.numerics.arrays import FloatArray

N, DELTA, LEVEL, TRUTH = 10_000, 1e-5, 0.9, 0.5
#: epsilon: mu, the number of their replicates, their width and coverage.
THEIRS = {
    4.377: (1.0, 2000, 0.0139, 0.896),
    1.132: (0.3, 180, 0.0145, 0.901),
    0.341: (0.1, 20, 0.0203, 0.962),
}
REPLICATES = 50


def records(rng: np.random.Generator) -> FloatArray:
    """One data set."""
    return np.clip(rng.normal(0.5, 1.0, N), 0.0, 1.0)


def release(epsilon: float) -> Callable[[FloatArray, int], tuple[float, float]]:
    """One release on all records."""

    def interval(data: FloatArray, seed: int) -> tuple[float, float]:
        return md.private_release(
            data, "mean", lower=0, upper=1, epsilon=epsilon, delta=DELTA, level=LEVEL, seed=seed
        ).interval

    return interval


def subsampling(epsilon: float) -> Callable[[FloatArray, int], tuple[float, float]]:
    """Subsets of a quarter of the records; the noise is calibrated once."""
    design, noise = md.wor(N, N // 4), math.nan

    def interval(data: FloatArray, seed: int) -> tuple[float, float]:
        nonlocal noise
        budget: dict[str, Any] = (
            {"epsilon": epsilon} if math.isnan(noise) else {"noise_multiplier": noise}
        )
        found = md.private_bootstrap(
            data, "mean", lower=0, upper=1, design=design, replicates=REPLICATES, delta=DELTA,
            level=LEVEL, relation="replace_one", seed=seed, execution=md.types.Execution(workers=1),
            **budget,
        )  # fmt: skip
        noise = found.privacy.noise_multiplier
        return found.interval

    return interval


def measured(
    interval: Callable[[FloatArray, int], tuple[float, float]], data_sets: int
) -> tuple[float, float]:
    """Mean width, and the share of intervals that hold the truth."""
    rng = np.random.default_rng(2210)
    found = [interval(records(rng), seed) for seed in range(data_sets)]
    widths = [high - low for low, high in found]
    return float(np.mean(widths)), float(np.mean([a <= TRUTH <= b for a, b in found]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=1000)
    parser.add_argument("--subsampled", type=int, default=200, help="data sets for subsampling")
    parser.add_argument("--json", action="store_true", help="a JSON object in each line")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # seeded on purpose
    for epsilon, (mu, replicates, width, coverage) in THEIRS.items():
        theirs = f"theirs with {replicates} replicates"
        if args.json:
            row = {"epsilon": epsilon, "way": theirs, "width": width, "coverage": coverage}
            print(json.dumps(row), flush=True)
        else:
            print(f"epsilon {epsilon} (mu {mu:g}), {theirs}: {width} at {coverage:.3f}", flush=True)
        for name, way, count in (
            ("one release", release, args.data_sets),
            (f"subsampling, {REPLICATES} replicates", subsampling, args.subsampled),
        ):
            if count:
                ours, covered = measured(way(epsilon), count)
                error = math.sqrt(covered * (1.0 - covered) / count)
                if args.json:
                    row = {"epsilon": epsilon, "way": name, "width": ours, "coverage": covered}
                    print(json.dumps(row), flush=True)
                    continue
                print(f"    {name}: {ours:.4f} at {covered:.3f} +- {error:.3f}", flush=True)


if __name__ == "__main__":
    main()
