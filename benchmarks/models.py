"""Linear and logistic models by formula: do their intervals cover on real data?

Samples of 4000 from the 48,842 records of UCI Adult, drawn with replacement, so that the files are
the population. Beside the widths of logistic models are those of 95 % intervals without noise, and
those that noise on the score alone would leave: all of the budget, none for the curvature, for
standard errors or for getting near, and the population's curvature known. That is to first order
the error of objective perturbation (Redberg, Koskela & Wang 2023, arXiv 2401.00583), of which no
intervals are known.

    python benchmarks/models.py ../shared/data/adult --data-sets 400
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mustdp as md
from mustdp.estimation.schema import read_schema
from mustdp.estimation.statistics.logistic_model import FirstScores
from mustdp.types import Columns, LogisticModel, Relation, Survey

ADULT: Any = importlib.import_module("adult_coverage")

N, DELTA = 4000, 1e-5
EPSILONS = (0.3, 1.0, 5.0)
CATEGORIES = {"sex": ["Female", "Male"], "marital": ["never", "married", "other status"]}
LOWER = {"age": 17, "education": 1, "hours": 0, "rich": 0}
UPPER = {"age": 90, "education": 16, "hours": 100, "rich": 1}
STATISTICS = (
    "linear-model:hours ~ age + C(sex)",
    "linear-model:hours ~ education*C(sex)",
    "linear-model:hours ~ age + education + C(sex) + C(marital)",
    "logistic-model:rich ~ age + C(sex)",
    "logistic-model:rich ~ education*C(sex)",
    "logistic-model:rich ~ age + education + C(sex) + C(marital)",
)


def population(folder: Path) -> pd.DataFrame:
    """All records of the published files."""
    rows = []
    for fields in ADULT.records(folder):
        numbers = [float(fields[k]) for k in (0, 4, 12)]
        rows.append((*numbers, fields[9], fields[5], float(">50K" in fields[14])))
    found = pd.DataFrame(rows, columns=["age", "education", "hours", "sex", "marital", "rich"])
    married, never = (found["marital"].str.startswith(one) for one in ("Married", "Never"))
    found["marital"] = np.where(married, "married", np.where(never, "never", "other status"))
    return found


def released(sample: pd.DataFrame, statistic: str, seed: int, **budget: Any) -> Any:
    """One statistic of one sample."""
    return md.private_release(
        sample,
        statistic,
        columns=md.types.Columns([*LOWER, *CATEGORIES], categories=CATEGORIES),
        lower=LOWER,
        upper=UPPER,
        delta=DELTA,
        seed=seed,
        **budget,
    )


def measured(people: pd.DataFrame, statistic: str, epsilon: float, runs: int) -> dict[str, Any]:
    """Coverage, median widths, and how often anything is known, by cell."""
    truths = {
        one.label: one.value
        for one in released(people, statistic, 0, noise_multiplier=1e-4).estimates
    }
    noise = released(people, statistic, 0, epsilon=epsilon).privacy.noise_multiplier
    rng = np.random.default_rng(int(100 * epsilon))
    found: dict[str, list[Any]] = {label: [] for label in truths}
    for run in range(runs):
        sample = people.iloc[rng.choice(len(people), N)]
        for one in released(sample, statistic, run, noise_multiplier=noise).estimates:
            found[one.label].append(one)
    beside = alone(people, statistic, noise) if statistic.startswith("logistic") else {}
    return {
        label: {
            **beside.get(label.rpartition(": ")[2], {}),
            "coverage": float(np.mean(
                [one.interval[0] <= truths[label] <= one.interval[1] for one in rows]
            )),
            "known": float(np.mean([one.known for one in rows])),
            "median width": float(np.median([one.width for one in rows])),
        }
        for label, rows in found.items()
    }  # fmt: skip


def alone(people: pd.DataFrame, statistic: str, noise_multiplier: float) -> dict[str, Any]:
    """Widths without noise, and with noise on the score alone, by term of a logistic model."""
    columns = Columns([*LOWER, *CATEGORIES], categories=CATEGORIES)
    schema = read_schema(
        columns, columns.names or (), lower=LOWER, upper=UPPER, grouping=None, survey=Survey(),
        dropped=False, relation=Relation.REPLACE_ONE, population=None,
    )  # fmt: skip
    (request,) = LogisticModel(statistic.partition(":")[2]).requests(schema)
    if not isinstance(request.sums, FirstScores):
        raise TypeError("a logistic model must begin with scores")
    design = request.sums.design
    values = np.column_stack([
        people[one.name] if one.range else people[one.name].map(one.categories.index)
        for one in (schema.columns[k] for k in request.columns)
    ]).astype(np.float64)  # fmt: skip
    span, back = np.linalg.qr(design.matrix)
    x, y = design.features(values) @ span, 0.5 + 0.5 * design.response(values)
    theta = np.zeros(x.shape[1])
    for _ in range(40):
        p = 1.0 / (1.0 + np.exp(-x @ theta))
        curvature = (x * (p * (1.0 - p))[:, None]).T @ x
        theta = theta + np.linalg.solve(curvature, x.T @ (y - p))
    part = N / len(people)
    outward = np.linalg.inv(back) @ np.linalg.inv(curvature * part)
    squares = (x * ((y - p) ** 2)[:, None]).T @ x * part
    farthest = float((design.active @ np.abs(span @ theta)).max())
    noise = noise_multiplier**2 * design.most_active / (1.0 + np.exp(-farthest)) ** 2
    return {
        name: {"no noise": 3.92 * own**0.5, "score alone": 3.92 * both**0.5}
        for name, own, both in zip(
            design.names,
            np.diag(outward @ squares @ outward.T),
            np.diag(outward @ (squares + noise * np.eye(len(theta))) @ outward.T),
            strict=True,
        )
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-sets", type=int, default=400)
    parser.add_argument("--only", default="", help="models whose name holds this")
    given = parser.parse_args(arguments)
    people = population(given.folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epsilon in EPSILONS:
            for statistic in (one for one in STATISTICS if given.only in one):
                row = measured(people, statistic, epsilon, given.data_sets)
                sys.stdout.write(json.dumps({"epsilon": epsilon, **row}, indent=1) + "\n")


if __name__ == "__main__":
    main()
