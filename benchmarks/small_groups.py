"""Medians of small groups: what a short public grid gains.

Samples of 4000 from the 48,842 records of UCI Adult, each record in one of 66 groups of about 60 by
chance, so that the median of the files is that of every group.

    python benchmarks/small_groups.py ../shared/data/adult --data-sets 400
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import mustdp as md

N, DELTA = 4000, 1e-5
EPSILONS = (0.3, 1.0, 5.0)
GROUPS = tuple(f"group {k}" for k in range(66))
STATISTICS = ("median", "median:20,25,30,35,40,45,50,60")


def population(folder: Path) -> pd.DataFrame:
    """All records of the published files."""
    rows = []
    for name in ("adult.data", "adult.test"):
        for line in (folder / name).read_text().splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == 15:
                rows.append((float(fields[0]), float(fields[12])))
    return pd.DataFrame(rows, columns=["age", "hours"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each budget, statistic and column."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-sets", type=int, default=400)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    people, rng = population(given.folder), np.random.default_rng(0)
    for epsilon in EPSILONS:
        noise = md.private_release(
            np.zeros(4), "mean", lower=0, upper=1, epsilon=epsilon, delta=DELTA, seed=0
        ).privacy.noise_multiplier
        for statistic in STATISTICS:
            for column in ("age", "hours"):
                truth = float(np.quantile(people[column], 0.5, method="inverted_cdf"))
                found: list[md.types.ReleasedEstimate] = []
                for run in range(given.data_sets):
                    sample = people.iloc[rng.choice(len(people), N)]
                    sample = sample.assign(group=rng.choice(GROUPS, N))
                    result = md.private_release(
                        sample,
                        statistic,
                        columns=column,
                        lower=0,
                        upper=100,
                        by="group",
                        groups=md.types.Groups(GROUPS, complete=True),
                        noise_multiplier=noise,
                        delta=DELTA,
                        seed=run,
                    )
                    found += result.estimates
                row = {
                    "epsilon": epsilon,
                    "statistic": statistic,
                    "column": column,
                    "coverage": float(np.mean(
                        [one.interval[0] <= truth <= one.interval[1] for one in found]
                    )),
                    "known": float(np.mean([one.known for one in found])),
                    "median width": float(np.median([one.width for one in found])),
                }  # fmt: skip
                sys.stdout.write(json.dumps(row) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
