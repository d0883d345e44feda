"""Numbers of records by sex and schooling from other libraries, at the same (epsilon, delta).

Run in an environment that has one of them; ``mustdp`` itself makes the same tables, for comparison:

    python benchmarks/other_libraries.py mustdp ../shared/data/adult --data-sets 100
    python -m venv sn && sn/bin/pip install smartnoise-sql
    sn/bin/python benchmarks/other_libraries.py smartnoise ../shared/data/adult --data-sets 50
    python -m venv tm && tm/bin/pip install tmlt.analytics  # and Java 17
    tm/bin/python benchmarks/other_libraries.py tumult ../shared/data/adult --data-sets 20

Samples of 4000 of UCI Adult. Cells, sex and schooling are three queries with a third of epsilon and
of delta each (zCDP in Tumult Analytics, where the whole budget is the largest rho that gives
epsilon at delta). The neighbours of both libraries differ in one record added or removed, which is
the weaker guarantee; those of ``benchmarks/tables.py`` differ in one record replaced.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

N, DELTA = 4000, 1e-5
EPSILONS = (0.3, 1.0, 5.0)
SEX = ("Female", "Male")
#: Years of schooling, as their number begins.
BREAKS = (1, 9, 10, 13, 14)
KINDS = {"cell": ["sex", "education"], "sex": ["sex"], "education": ["education"]}


def population(folder: Path) -> pd.DataFrame:
    """All records of the published files, schooling in groups."""
    rows = []
    for name in ("adult.data", "adult.test"):
        for line in (folder / name).read_text().splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) == 15:
                group = int(np.searchsorted(BREAKS, float(fields[4]), side="right")) - 1
                rows.append((fields[9], f"g{group}"))
    return pd.DataFrame(rows, columns=["sex", "education"])


Counter = Callable[[pd.DataFrame, float], dict[str, dict[Any, float]]]


def smartnoise() -> Counter:
    """Three queries with the counts of SmartNoise SQL; groups are public."""
    import snsql  # type: ignore[import-not-found]

    def counts(sample: pd.DataFrame, epsilon: float) -> dict[str, dict[Any, float]]:
        columns = {one: {"type": "string"} for one in sample.columns}
        table = {"row_privacy": True, "rows": len(sample), "censor_dims": False, **columns}
        found = {}
        for kind, by in KINDS.items():
            privacy = snsql.Privacy(epsilon=epsilon / 3, delta=DELTA / 3)
            reader = snsql.from_df(
                sample, privacy=privacy, metadata={"": {"db": {"people": table}}}
            )
            names = ", ".join(by)
            rows = reader.execute(f"SELECT {names}, COUNT(*) FROM db.people GROUP BY {names}")
            found[kind] = {tuple(row[:-1]): float(row[-1]) for row in rows[1:]}
        return found

    return counts


def tumult() -> Counter:
    """Three queries of one session of Tumult Analytics, under zCDP."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # its own processes need the library
    from pyspark.sql import SparkSession
    from tmlt.analytics import (  # type: ignore[import-not-found]
        AddOneRow,
        KeySet,
        QueryBuilder,
        RhoZCDPBudget,
        Session,
    )

    spark = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", 1)
    engine = spark.config("spark.ui.enabled", "false").getOrCreate()
    engine.sparkContext.setLogLevel("ERROR")
    values = {"sex": list(SEX), "education": [f"g{k}" for k in range(len(BREAKS))]}

    def counts(sample: pd.DataFrame, epsilon: float) -> dict[str, dict[Any, float]]:
        rho = largest_rho(epsilon, DELTA)
        session = Session.from_dataframe(
            RhoZCDPBudget(rho), "people", engine.createDataFrame(sample),
            protected_change=AddOneRow(),
        )  # fmt: skip
        found = {}
        for kind, by in KINDS.items():
            keys = KeySet.from_dict({one: values[one] for one in by})
            query = QueryBuilder("people").groupby(keys).count()
            rows = session.evaluate(query, RhoZCDPBudget(rho / 3)).collect()
            found[kind] = {tuple(row[one] for one in by): float(row["count"]) for row in rows}
        return found

    return counts


def ours() -> Counter:
    """One consistent release, neighbours as those of the others."""
    import mustdp as md

    def counts(sample: pd.DataFrame, epsilon: float) -> dict[str, dict[Any, float]]:
        groups = {"sex": SEX, "education": [f"g{k}" for k in range(len(BREAKS))]}
        result = md.private_release(
            sample,
            "count",
            columns=[],
            by=["sex", "education"],
            groups=md.types.Groups(groups, complete=True),
            total=True,
            consistent=True,
            relation="add_remove",
            epsilon=epsilon,
            delta=DELTA,
        )
        found: dict[str, dict[Any, float]] = {kind: {} for kind in KINDS}
        for one in result.estimates:
            columns = [column for column, _ in one.groups]
            kind = next((kind for kind, by in KINDS.items() if by == columns), None)
            if kind is not None:
                found[kind][tuple(group for _, group in one.groups)] = one.value
        return found

    return counts


def largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho of which rho + 2 sqrt(rho log(1/delta)) is at most epsilon."""
    log = math.log(1.0 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def main() -> None:
    """Print root mean squared errors of the numbers at hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=("smartnoise", "tumult", "mustdp"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-sets", type=int, default=20)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    counts = {"smartnoise": smartnoise, "tumult": tumult, "mustdp": ours}[given.library]()
    people, rng = population(given.folder), np.random.default_rng(0)
    for epsilon in EPSILONS:
        squares: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _ in range(given.data_sets):
            sample = people.iloc[rng.choice(len(people), N, replace=False)].reset_index(drop=True)
            found = counts(sample, epsilon)
            for kind, by in KINDS.items():
                truth = sample.groupby(by).size()
                for key, number in truth.items():
                    own = key if isinstance(key, tuple) else (key,)
                    squares[kind].append((found[kind].get(own, 0.0) - float(number)) ** 2)
        errors = {kind: round(math.sqrt(float(np.mean(own))), 3) for kind, own in squares.items()}
        row = {"library": given.library, "epsilon": epsilon, "data_sets": given.data_sets, **errors}
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
