"""Medians, quantiles and modes in survey designs: do their intervals cover on real data?

The population are the 48,842 records of UCI Adult. Its clusters are made: triples of neighbours in
the order of age with an error of a year, so that ages within a cluster are alike. Drawn are 1300
clusters, as many in each stratum as it has of the population; groups are sexes, strata two kinds of
races. Beside the widths are those with next to no noise.

    python benchmarks/designs.py ../shared/data/adult --data-sets 400
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mustdp as md

DELTA, DRAWN, MOST = 1e-5, 1300, 3
EPSILONS = (0.3, 1.0, 5.0)
MARITAL = ["married", "never", "divorced", "widowed"]
STATISTICS = ("median@age", "quantile:0.9@age", "mode@marital", "mean@age")
CLUSTERS: dict[str, Any] = {"cluster": "cluster", "largest_cluster": MOST}
BY: dict[str, Any] = {"by": "sex", "groups": md.types.Groups(["Female", "Male"], complete=True)}


def population(folder: Path) -> pd.DataFrame:
    """All records of the published files, in clusters."""
    rows = []
    for name in ("adult.data", "adult.test"):
        for line in (folder / name).read_text().splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == 15:
                rows.append((float(fields[0]), fields[9], fields[8] == "White", fields[5].lower()))
    found = pd.DataFrame(rows, columns=["age", "sex", "white", "marital"])
    found["stratum"] = np.where(found["white"], "white", "others")
    found["marital"] = found["marital"].str.split("-").str[0]
    rng = np.random.default_rng(0)
    found["order"] = found["age"] + rng.normal(0, 1, len(found))
    found = found.sort_values(["stratum", "order"]).reset_index(drop=True)
    return found.assign(cluster=np.arange(len(found)) // MOST)


def designs(people: pd.DataFrame) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Survey and groups by name."""
    shares = people["stratum"].value_counts(normalize=True).to_dict()
    strata = {"strata": "stratum", "stratum_shares": shares}
    return {
        "clusters": (CLUSTERS, {}),
        "clusters, by sex": (CLUSTERS, BY),
        "strata and clusters": ({**CLUSTERS, **strata}, {}),
        "strata and clusters, by sex": ({**CLUSTERS, **strata}, BY),
    }


def truth(inside: pd.DataFrame) -> dict[str, tuple[float, str]]:
    """The values of the population, and its mode."""
    shares = inside["marital"].value_counts(normalize=True)
    median, high = (np.quantile(inside["age"], p, method="inverted_cdf") for p in (0.5, 0.9))
    return {
        "median": (float(median), ""),
        "quantile:0.9": (float(high), ""),
        "mean": (float(inside["age"].mean()), ""),
        "mode": (float(shares.iloc[0]), str(shares.index[0])),
    }


def measured(
    people: pd.DataFrame, design: tuple[dict[str, Any], dict[str, Any]], noise: float, runs: int
) -> dict[str, dict[str, float]]:
    """Coverage, how often anything is known, and the median width, by estimate."""
    survey, by = design
    rng = np.random.default_rng(0)
    found: dict[str, list[tuple[bool, bool, float]]] = {}
    rows = people.groupby("cluster").indices
    homes = people["cluster"].unique()
    truths = {None: truth(people), "total": truth(people)}
    truths |= {str(sex): truth(own) for sex, own in people.groupby("sex")}
    for run in range(runs):
        kept = rng.choice(homes, DRAWN, replace=False)
        sample = people.iloc[np.concatenate([rows[one] for one in kept])]
        result = md.private_release(
            sample, STATISTICS, lower={"age": 0}, upper={"age": 100},
            columns=md.types.Columns(["age", "marital"], {"marital": MARITAL}),
            survey=md.types.Survey(**survey), population=len(people), noise_multiplier=noise,
            delta=DELTA, seed=run, **by,
        )  # fmt: skip
        for one in result.estimates:
            value, mode = truths[one.group][one.statistic]
            low, high = one.interval
            right = not mode or mode in one.candidates
            name = f"{one.statistic} ({one.group})" if one.group else one.statistic
            found.setdefault(name, []).append(
                (low <= value <= high and right, one.known, high - low)
            )
    return {
        name: {
            "coverage": float(np.mean([one[0] for one in each])),
            "known": float(np.mean([one[1] for one in each])),
            "median width": float(np.median([one[2] for one in each])),
        }
        for name, each in found.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each budget, design and estimate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-sets", type=int, default=400)
    parser.add_argument("--only", help="one of the designs, by name")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    people = population(given.folder)
    for name, design in designs(people).items():
        if given.only not in (None, name):
            continue
        bare = measured(people, design, 1e-3, max(given.data_sets // 10, 3))
        for epsilon in EPSILONS:
            noise = md.private_release(
                np.zeros(4), "mean", lower=0, upper=1, epsilon=epsilon, delta=DELTA, seed=0
            ).privacy.noise_multiplier
            for estimate, row in measured(people, design, noise, given.data_sets).items():
                without = bare[estimate]["median width"]
                said = {"epsilon": epsilon, "design": name, "estimate": estimate}
                sys.stdout.write(json.dumps({**said, **row, "without noise": without}) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
