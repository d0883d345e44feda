"""Do the intervals of one release cover on real data? Samples of 5000 from the 48,842 of UCI Adult.

The whole file is the population; a sample is drawn without replacement, the statistic released
on it, and its interval compared with what the population gives. Ties, atoms, mass at a bound and
heavy tails are all in there.

    python benchmarks/adult_coverage.py ../shared/data/adult --data-sets 400
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mustdp as md

N, EPSILON, DELTA, LEVEL = 5000, 2.0, 1e-5, 0.95
COLUMNS = {"age": 0, "education": 4, "sex": 9, "gain": 10, "hours": 12}
LOWER = {"age": 0.0, "hours": 0.0, "education": 0.0, "gain": 0.0}
UPPER = {"age": 100.0, "hours": 100.0, "education": 20.0, "gain": 100_000.0}
SINGLE = ("mean", "sum", "variance", "sd", "median", "quantile:0.9")
#: What is asked, one release each.
ASKED = (
    *(f"{statistic}@{column}" for statistic in SINGLE for column in LOWER),
    "count",
    "proportion:=Female@sex",
    "proportion:>40@hours",
    "proportion:>50000@gain",
    "histogram:5@age",
    "contingency@sex,education",
    "covariance@age,hours",
    "correlation@age,hours",
    "correlation@education,gain",
    "regression@age,education,hours",
)


def records(folder: Path) -> Iterator[list[str]]:
    """The fields of all records of the published files."""
    for name in ("adult.data", "adult.test"):
        for line in (folder / name).read_text().splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == 15:
                yield fields


def population(folder: Path) -> pd.DataFrame:
    """The columns that are looked at, of all records."""
    rows = [[fields[at] for at in COLUMNS.values()] for fields in records(folder)]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(LOWER, float))


def truth(estimate: md.types.ReleasedEstimate, people: pd.DataFrame, share: float) -> float:
    """The same of the population; numbers of records and sums as those of N of them.

    ``share`` is the part of the population that ``people`` are.
    """
    name, cell = estimate.statistic, estimate.cell
    columns = [people[column] for column in (estimate.column or "").split(", ") if column]
    if name == "count":
        return N * share * (float(columns[0].notna().mean()) if columns else 1.0)
    first = columns[0]
    if name == "sum":
        return N * share * float(first.fillna(0.0).mean())
    if name in ("histogram", "contingency"):
        return N * share * _in_cells(columns, str(cell))
    if name.startswith("proportion:"):
        sign, limit = name[11], name[12:]
        found = first == limit if sign == "=" else first > float(limit)
        return float(found.mean())
    if name == "median" or name.startswith("quantile:"):
        p = 0.5 if name == "median" else float(name[9:])
        return float(np.quantile(first, p, method="inverted_cdf"))
    if name in ("mean", "variance", "sd"):
        return float(getattr(first, {"mean": "mean", "variance": "var", "sd": "std"}[name])())
    if name in ("covariance", "correlation"):
        both = np.array([column.to_numpy() for column in columns])
        return float((np.cov(both) if name == "covariance" else np.corrcoef(both))[0, 1])
    design = np.column_stack([np.ones(len(people)), *columns[:-1]])
    beta = np.linalg.lstsq(design, columns[-1].to_numpy(), rcond=None)[0]
    terms = ["intercept", *(str(column.name) for column in columns[:-1])]
    return float(beta[terms.index(str(cell))])


def _in_cells(columns: Sequence[pd.Series[Any]], cell: str) -> float:
    """The share of records in a cell such as "[20, 40)" or "Female, [9, 10)"."""
    inside = np.ones(len(columns[0]), dtype=bool)
    for column in columns:
        label, _, cell = cell.partition("), " if cell.startswith("[") else ", ")
        if label.startswith("["):
            low, high = (float(x.strip("[])")) for x in label.split(","))
            inside &= (column >= low) & ((column < high) | label.endswith("]"))
        elif label == "other":
            inside &= ~column.isin(["Female", "Male"])
        else:
            inside &= column == label
    return float(inside.mean())


def with_missing(people: pd.DataFrame) -> pd.DataFrame:
    """A fifth of all numbers is missing, in the population as in its samples."""
    gone = np.random.default_rng(11).random((len(people), len(LOWER))) < 0.2
    numbers = people[list(LOWER)].mask(gone)
    return people.assign(**{name: numbers[name] for name in LOWER})


def in_clusters(people: pd.DataFrame, size: int) -> pd.DataFrame:
    """Clusters of neighbours in age and hours, which have much in common."""
    rng = np.random.default_rng(12)
    order = np.lexsort(
        (rng.random(len(people)), people["hours"] + 5.0 * rng.normal(size=len(people)))
    )
    cluster = np.empty(len(people))
    cluster[order] = np.arange(len(people)) // size
    return people.assign(cluster=cluster)


def drawn(people: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Records without replacement, or whole clusters where there are some."""
    if "cluster" not in people:
        return people.iloc[rng.choice(len(people), N, replace=False)]
    numbers = people["cluster"].to_numpy()
    size = int(np.bincount(numbers.astype(int)).max())
    chosen = rng.choice(int(numbers.max()), max(N // size, 2), replace=False)
    return people[np.isin(numbers, chosen)]


def release(
    sample: pd.DataFrame, asked: str | Sequence[str], seed: int, **settings: Any
) -> md.types.ReleaseResult:
    """One release with the ranges that are taken as public."""
    given = {"epsilon": EPSILON, "delta": DELTA, "level": LEVEL, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", md.types.SeededRelease)
        return md.private_release(
            sample,
            asked,
            lower=LOWER,
            upper=UPPER,
            seed=seed,
            columns=md.types.Columns(categories={"sex": ["Female", "Male"]}),
            **given,
        )


def coverage(
    people: pd.DataFrame, asked: str, data_sets: int, seed: int = 0, **settings: Any
) -> Iterator[dict[str, Any]]:
    """A row for every estimate of one release: how often it covers, and how wide it is."""
    rng = np.random.default_rng([seed, 5])
    begun = time.perf_counter()
    runs = []
    for _ in range(data_sets):
        sample = drawn(people, rng)
        runs.append(release(sample, asked, int(rng.integers(2**31)), **settings).estimates)
    seconds = time.perf_counter() - begun
    for column in zip(*runs, strict=True):
        first = column[0]
        group = people
        if first.group is not None:
            listed = settings["groups"]
            own = people[settings["by"]]
            group = people[~own.isin(listed) if first.group == "other" else own == first.group]
        true = truth(first, group, len(group) / len(people)) if len(group) else 0.0
        covered = [one.interval[0] <= true <= one.interval[1] for one in column]
        yield {
            "statistic": first.label,
            "truth": true,
            "coverage": float(np.mean(covered)),
            "median_width": float(np.median([one.width for one in column])),
            "noise_share": float(np.median([one.noise_share for one in column])),
            "flagged": float(np.mean([bool(one.flags) for one in column])),
            "data_sets": data_sets,
            "seconds": round(seconds, 2),
        }


def table(folder: Path, data_sets: int, only: str = "", seed: int = 0) -> Iterator[dict[str, Any]]:
    """All rows: fixed and private number of records, and groups."""
    people = population(folder)
    designs: dict[str, dict[str, Any]] = {
        "fixed n": {},
        "private n": {"relation": "add_remove"},
        "by sex": {"by": "sex", "groups": ["Female", "Male"]},
    }
    for design, settings in designs.items():
        for asked in ASKED:
            if "sex" in asked and design == "by sex":
                continue
            if only in f"{design}/{asked}":
                for row in coverage(people, asked, data_sets, seed, **settings):
                    yield {"design": design, **row}
    yield from extra(people, data_sets, only, seed)


def extra(
    people: pd.DataFrame, data_sets: int, only: str = "", seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Missing values dropped; 10, 20 and 50 clusters, with next to no noise."""
    for asked in ("count@hours", "sum@hours", "sum@gain", "mean@hours"):
        if only in f"missing/{asked}":
            for row in coverage(with_missing(people), asked, data_sets, seed, missing="drop"):
                yield {"design": "missing", **row}
    for count in (10, 20, 50):
        clustered = in_clusters(people, N // count)
        settings = {
            "survey": md.types.Survey(cluster="cluster", largest_cluster=N // count),
            "epsilon": 200.0,
        }
        for asked in ("mean@age", "mean@gain", "proportion:=Female@sex"):
            if only in f"clusters/{count}/{asked}":
                for row in coverage(clustered, asked, data_sets, seed, **settings):
                    yield {"design": f"{count} clusters", **row}


def line(row: dict[str, Any]) -> str:
    """One row for the eye."""
    return (
        f"{row['design']:>9}  {row['statistic']:<48}  coverage {100 * row['coverage']:5.1f} %"
        f"  width {row['median_width']:<9.4g}  noise {100 * row['noise_share']:3.0f} %"
        f"  flagged {100 * row['flagged']:3.0f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the UCI Adult files")
    parser.add_argument("--data-sets", type=int, default=400)
    parser.add_argument("--only", default="", help="rows whose design/statistic holds this")
    parser.add_argument("--seed", type=int, default=0, help="other samples and other noise")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    for row in table(args.folder, args.data_sets, args.only, args.seed):
        rows.append(row)
        print(line(row), file=sys.stderr if args.json else sys.stdout, flush=True)
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
