"""Medians of groups: grids chosen by public sizes, fixed grids, and the exponential mechanism.

Samples of the 48,842 records of UCI Adult, each record in one of the groups by chance, so that the
median of the files is that of every group: 66 groups of 60 records, or groups of four sizes.

    python benchmarks/small_groups.py ../shared/data/adult --data-sets 400
    python benchmarks/small_groups.py ../shared/data/adult --data-sets 400 --mixed
    python benchmarks/small_groups.py ../shared/data/adult --data-sets 400 --exponential

The exponential mechanism (McSherry & Talwar 2007) draws a lower and an upper end of every interval
among G points with chances in proportion to exp(-c |#{<= x} - r|), r a rank below and above the
middle. A replaced record changes two groups, so four draws. The bounded range of each (Dong, Durfee
& Rogers 2019) is from c to 2 c; c is taken. That allows c = epsilon / 4, or the root of 2 rho for a
rho of c^2 / 8 each; the larger one is taken, with the rho of the Gaussian release beside it. Both
choices favour the exponential mechanism. Let B be the number of records that lie below the true
median at the least, by the binomial law. A point above it is drawn with a chance of at most G
exp(-c (B - r)) over that of the best one. Where values are tied the best may be as far as r from
its target ("proved"); "untied" assumes that it is at most a half from it. r is the largest that
leaves the level. Where there is none the end is that of the range.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

import mustdp as md

DELTA, LEVEL = 1e-5, 0.95
EPSILONS = (0.3, 1.0, 5.0)
EVEN = tuple(f"group {k}" for k in range(66))
MIXED = {f"{size} records, {k}": size for size in (60, 200, 600, 2000) for k in range(2)}
GRID = (20, 25, 30, 35, 40, 45, 50, 60)
STATISTICS = ("median", "median:20,25,30,35,40,45,50,60", "median:sizes")


def population(folder: Path) -> pd.DataFrame:
    """All records of the published files."""
    rows = []
    for name in ("adult.data", "adult.test"):
        for line in (folder / name).read_text().splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == 15:
                rows.append((float(fields[0]), float(fields[12])))
    return pd.DataFrame(rows, columns=["age", "hours"])


def noise_multiplier(epsilon: float) -> float:
    """Of one release."""
    return md.private_release(
        np.zeros(4), "mean", lower=0, upper=1, epsilon=epsilon, delta=DELTA, seed=0
    ).privacy.noise_multiplier


def summary(found: Sequence[tuple[float, float]], truth: float) -> dict[str, float]:
    """Coverage, how often anything is known, and the median width."""
    ends = np.array(found)
    return {
        "coverage": float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))),
        "known": float(np.mean((ends[:, 0] > 0.0) | (ends[:, 1] < 100.0))),
        "median width": float(np.median(ends[:, 1] - ends[:, 0])),
    }


def released(
    people: pd.DataFrame, column: str, statistic: str, epsilon: float, sizes: dict[str, int],
    runs: int,
) -> dict[int, dict[str, float]]:  # fmt: skip
    """By size of the groups."""
    rng, noise, n = np.random.default_rng(0), noise_multiplier(epsilon), sum(sizes.values())
    truth = float(np.quantile(people[column], 0.5, method="inverted_cdf"))
    groups = md.types.Groups(list(sizes), complete=True, sizes={"group": sizes})
    shares = np.array(list(sizes.values())) / n
    found: dict[int, list[tuple[float, float]]] = {}
    for run in range(runs):
        sample = people.iloc[rng.choice(len(people), n)]
        sample = sample.assign(group=rng.choice(list(sizes), n, p=shares))
        result = md.private_release(
            sample, statistic, columns=column, lower=0, upper=100, by="group", groups=groups,
            noise_multiplier=noise, delta=DELTA, seed=run,
        )  # fmt: skip
        for one in result.estimates:
            found.setdefault(sizes[str(one.group)], []).append(one.interval)
    return {size: summary(rows, truth) for size, rows in found.items()}


def rank_of_end(size: int, points: int, c: float, tied: bool) -> float:
    """The largest r with a chance of at most half of 1 - LEVEL for an end beyond the median."""
    best, wrong = -math.inf, 0.5 * (1.0 - LEVEL)
    for part in np.linspace(0.02, 0.98, 49):
        least = float(binom.ppf(part * wrong, size, 0.5))
        reach = math.log(points / ((1.0 - part) * wrong)) / c
        best = max(best, 0.5 * (least - reach) if tied else least - reach - 0.5)
    return best


def exponential(
    people: pd.DataFrame, column: str, epsilon: float, size: int, runs: int, *,
    points: Sequence[float], tied: bool,
) -> dict[str, float]:  # fmt: skip
    """Intervals of one group."""
    rng = np.random.default_rng(0)
    truth = float(np.quantile(people[column], 0.5, method="inverted_cdf"))
    c = max(epsilon / 4.0, 2.0 / noise_multiplier(epsilon))
    r = rank_of_end(size, len(points) + 1, c, tied)
    if not r > 0.0:
        return summary([(0.0, 100.0)], truth)
    values, found = people[column].to_numpy(), []
    for _ in range(runs):
        sample = np.sort(values[rng.choice(len(values), size)])
        below = np.array([0, *np.searchsorted(sample, points, side="right")])  # #{<= x}
        above = size - np.array([*np.searchsorted(sample, points, side="left"), size])  # #{>= x}
        ends = []
        for counts, places in ((below, [0.0, *points]), (above, [*points, 100.0])):
            chances = np.exp(-c * (np.abs(counts - r) - np.abs(counts - r).min()))
            ends.append(float(rng.choice(places, p=chances / chances.sum())))
        found.append((min(ends), max(ends)))
    return summary(found, truth)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each budget, method, column and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-sets", type=int, default=400)
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--exponential", action="store_true")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    people = population(given.folder)

    def say(**row: Any) -> None:
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()

    for epsilon in EPSILONS:
        for column in ("age", "hours"):
            if given.exponential:
                for size in (60, 200, 600, 2000):
                    for name, points in (("whole numbers", range(1, 100)), ("8 points", GRID)):
                        for tied in (True, False):
                            row = exponential(
                                people, column, epsilon, size, given.data_sets,
                                points=[float(x) for x in points], tied=tied,
                            )  # fmt: skip
                            said = "proved" if tied else "untied"
                            say(epsilon=epsilon, column=column, size=size, points=name,
                                method=said, **row)  # fmt: skip
                continue
            sizes = MIXED if given.mixed else dict.fromkeys(EVEN, 60)
            for statistic in STATISTICS:
                rows = released(people, column, statistic, epsilon, sizes, given.data_sets)
                for size, row in rows.items():
                    say(epsilon=epsilon, column=column, size=size, statistic=statistic, **row)


if __name__ == "__main__":
    main()
