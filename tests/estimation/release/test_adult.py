"""Intervals cover on real data: ties, atoms, mass at a bound, heavy tails, groups.

A short version of ``benchmarks/adult_coverage.py``. With 40 data sets, at least 33 have to be
covered: at a true coverage of 95 % fewer come up with a chance of 0.0006, at 70 % with 0.92.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.training.data.places import SHARED, needs_adult

pytestmark = needs_adult
BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "adult_coverage.py"
DATA_SETS, LEAST = 40, 33


@cache
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("adult_coverage", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def people() -> Any:
    return benchmark().population(SHARED / "adult")


ASKED = [
    "mean@gain",
    "sd@gain",
    "median@hours",
    "proportion:>50000@gain",
    "correlation@age,hours",
    *(
        pytest.param(asked, marks=pytest.mark.slow)
        for asked in (
            "sum@hours",
            "median@gain",
            "quantile:0.9@gain",
            "quantile:0.9@education",
            "regression@age,education,hours",
        )
    ),
]


@pytest.mark.parametrize("asked", ASKED)
def test_intervals_cover(asked: str) -> None:
    for row in benchmark().coverage(people(), asked, DATA_SETS):
        assert row["coverage"] * DATA_SETS >= LEAST, row


@pytest.mark.parametrize("asked", ["mean@age", "count", "median@hours"])
def test_intervals_of_groups_cover(asked: str) -> None:
    groups = {"by": "sex", "groups": ["Female", "Nobody"], "relation": "add_remove"}
    for row in benchmark().coverage(people(), asked, DATA_SETS, **groups):
        if "Nobody" in row["statistic"] and asked != "count":
            assert row["flagged"] == 1.0
        else:
            assert row["coverage"] * DATA_SETS >= LEAST, row


def test_the_median_of_whole_numbers_is_one_of_them() -> None:
    (row,) = benchmark().coverage(people(), "median@hours", 5)
    assert row["coverage"] == 1.0
    assert row["median_width"] <= 1.0


@pytest.mark.parametrize("asked", ["count@hours", "sum@hours"])
def test_counts_and_sums_with_missing_values_cover(asked: str) -> None:
    whole = benchmark().with_missing(people())
    (row,) = benchmark().coverage(whole, asked, DATA_SETS, missing="drop")
    assert row["coverage"] * DATA_SETS >= LEAST, row


@pytest.mark.parametrize("asked", ["mean@age", "proportion:=Female@sex"])
def test_ten_clusters_cover(asked: str) -> None:
    rows = list(benchmark().extra(people(), DATA_SETS, f"clusters/10/{asked}"))
    assert len(rows) == 1
    assert rows[0]["coverage"] * DATA_SETS >= LEAST, rows
