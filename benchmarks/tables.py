"""Tables that agree: do their intervals cover on real data, and how large are their errors?

Samples of 4000 from the 48,842 records of UCI Adult: numbers of records and mean hours by sex and
education, with margins and total. At the same budget the numbers of records are compared with

- cells, margins and total measured apart, each grouping with the same share, as independent queries
  of other libraries are;
- cells alone, of which margins are added up;
- top-down fitting: total, then sex, then cells, each level with the same share and each fitted to
  the one above it without negative numbers.

    python benchmarks/tables.py ../shared/data/adult --data-sets 400 --json
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

import mustdp as md
from mustdp.numerics.arrays import FloatArray

N, DELTA = 4000, 1e-5
EPSILONS = (0.3, 1.0, 5.0)
SEX = ("Female", "Male")
#: Years of schooling, as their number begins.
BREAKS = (1, 9, 10, 13, 14)


def population(folder: Path) -> pd.DataFrame:
    """All records of the published files."""
    rows = []
    for name in ("adult.data", "adult.test"):
        for line in (folder / name).read_text().splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == 15:
                rows.append((fields[9], float(fields[4]), float(fields[12])))
    return pd.DataFrame(rows, columns=["sex", "education", "hours"])


def released(
    sample: pd.DataFrame,
    statistics: Sequence[str],
    noise_multiplier: float,
    seed: int,
    whole_counts: bool = False,
    **more: Any,
) -> Any:
    """A table of one sample."""
    return md.private_release(
        sample,
        statistics,
        columns=["hours"],
        by=["sex", "education"],
        groups=md.types.Groups(
            {"sex": SEX}, {"education": BREAKS}, complete=True, whole_counts=whole_counts
        ),
        total=True,
        lower=0,
        upper=100,
        noise_multiplier=noise_multiplier,
        delta=DELTA,
        population=48_842,
        seed=seed,
        **more,
    )


def inside(people: pd.DataFrame, groups: Sequence[tuple[str, str]]) -> Any:
    """Which records are in the groups of an estimate."""
    found = np.ones(len(people), dtype=bool)
    for column, label in groups:
        if column == "sex":
            found &= (people["sex"] == label).to_numpy()
            continue
        low, _, high = label.removesuffix("+").partition("-")
        last = math.inf if label.endswith("+") else float(high or low)
        found &= ((people["education"] >= float(low)) & (people["education"] <= last)).to_numpy()
    return found


def levels_of(one: Any) -> str:
    """What kind of slot an estimate is of."""
    return ("total", "margin", "cell")[len(one.groups)]


# Other ways to make the numbers of records, at the same budget.


def table_of(sample: pd.DataFrame) -> FloatArray:
    """The numbers of records, (sex, education)."""
    at = np.searchsorted(BREAKS, sample["education"], side="right") - 1
    found = np.zeros((len(SEX), len(BREAKS)))
    np.add.at(found, ((sample["sex"] == SEX[1]).to_numpy().astype(int), at), 1.0)
    return found


def apart(table: FloatArray, sigma: float, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Every grouping for itself, a third of the budget each; the total is public."""
    own = sigma * math.sqrt(3.0)
    return {
        "cell": table + rng.normal(size=table.shape) * own,
        "sex": table.sum(axis=1) + rng.normal(size=len(SEX)) * own,
        "education": table.sum(axis=0) + rng.normal(size=len(BREAKS)) * own,
    }


def summed(table: FloatArray, sigma: float, rng: np.random.Generator) -> dict[str, FloatArray]:
    """All of the budget for the cells."""
    cells = table + rng.normal(size=table.shape) * sigma
    return {"cell": cells, "sex": cells.sum(axis=1), "education": cells.sum(axis=0)}


def top_down(table: FloatArray, sigma: float, rng: np.random.Generator) -> dict[str, FloatArray]:
    """The public total, sex fitted to it, then cells to each sex; half of the budget each."""
    own = sigma * math.sqrt(2.0)
    sex = onto_simplex(table.sum(axis=1) + rng.normal(size=len(SEX)) * own, float(table.sum()))
    noisy = table + rng.normal(size=table.shape) * own
    cells = np.array([onto_simplex(row, whole) for row, whole in zip(noisy, sex, strict=True)])
    return {"cell": cells, "sex": sex, "education": cells.sum(axis=0)}


def onto_simplex(values: FloatArray, total: float) -> FloatArray:
    """The nearest numbers above 0 that add up to ``total``."""
    ordered = -np.sort(-values)
    levels = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = int((ordered > levels).sum()) - 1
    found: FloatArray = np.maximum(values - levels[max(last, 0)], 0.0)
    return found


def errors(found: dict[str, FloatArray], table: FloatArray) -> dict[str, float]:
    """Mean squared errors by kind of number."""
    sexes = (found["sex"] - table.sum(axis=1)) ** 2
    education = (found["education"] - table.sum(axis=0)) ** 2
    return {
        "cell": float(((found["cell"] - table) ** 2).mean()),
        "sex": float(sexes.mean()),
        "education": float(education.mean()),
    }


def ours(result: Any) -> dict[str, FloatArray]:
    """The numbers of records of a release in the same form."""
    named = {one.groups: one.value for one in result.estimates if one.statistic == "count"}
    education = list(dict.fromkeys(own["education"] for own in map(dict, named) if len(own) == 2))
    return {
        "cell": np.array(
            [[named[("sex", sex), ("education", one)] for one in education] for sex in SEX]
        ),
        "sex": np.array([named[(("sex", sex),)] for sex in SEX]),
        "education": np.array([named[(("education", one),)] for one in education]),
    }


def measured(people: pd.DataFrame, epsilon: float, data_sets: int, seed: int) -> dict[str, Any]:
    """Coverage, widths and errors at one budget."""
    noise = md.private_release(
        np.zeros(4), "mean", lower=0, upper=1, epsilon=epsilon, delta=DELTA, seed=0
    ).privacy.noise_multiplier
    rng = np.random.default_rng((seed, int(100 * epsilon)))
    truths: dict[tuple[str, Any], float] = {}
    hits: dict[tuple[str, str], list[bool]] = {}
    widths: dict[tuple[str, str], list[float]] = {}
    squares: dict[str, list[dict[str, float]]] = {}
    difference: list[bool] = []
    women, men = (people.loc[people["sex"] == sex, "hours"].mean() for sex in SEX)
    for run in range(data_sets):
        sample = people.iloc[rng.choice(len(people), N, replace=False)]
        result = released(sample, ("count", "mean"), noise, run, consistent=True)
        for one in result.estimates:
            key = one.statistic, one.groups
            if key not in truths:
                own = inside(people, one.groups)
                mean = float(people.loc[own, "hours"].mean())
                truths[key] = N * float(own.mean()) if one.statistic == "count" else mean
            kind = one.statistic, levels_of(one)
            low, high = one.interval
            hits.setdefault(kind, []).append(low <= truths[key] <= high)
            widths.setdefault(kind, []).append(one.width)
        compared = result.contrast("Female", "Male", statistic="mean")
        difference.append(compared.interval[0] <= women - men <= compared.interval[1])
        table = table_of(sample)
        # Noise of a grouping that gets all of the budget: a record changes two numbers by one.
        sigma = 0.5 * noise * math.sqrt(2.0)
        ways = {
            "consistent": ours(released(sample, ("count",), noise, run, consistent=True)),
            "whole and consistent": ours(
                released(
                    sample,
                    ("count",),
                    noise,
                    run,
                    consistent=True,
                    whole_counts=True,
                )
            ),
            "independent groupings": apart(table, sigma, rng),
            "cells added up": summed(table, sigma, rng),
            "top-down": top_down(table, sigma, rng),
        }
        for way, found in ways.items():
            squares.setdefault(way, []).append(errors(found, table))
    return {
        "epsilon": epsilon,
        "data_sets": data_sets,
        "coverage": {f"{a}, {b}": float(np.mean(own)) for (a, b), own in hits.items()},
        "coverage of the difference of means by sex": float(np.mean(difference)),
        "median width": {f"{a}, {b}": float(np.median(own)) for (a, b), own in widths.items()},
        "root mean squared error of counts": {
            way: {
                kind: math.sqrt(float(np.mean([one[kind] for one in own])))
                for kind in ("cell", "sex", "education")
            }
            for way, own in squares.items()
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-sets", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    people = population(given.folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [measured(people, one, given.data_sets, given.seed) for one in EPSILONS]
    if given.json:
        json.dump({"rows": rows}, sys.stdout, indent=1)
        return
    for row in rows:
        sys.stdout.write(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
