"""What noise leaves unknown is written as NA and flagged, in every form; no number is made up."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from mustdp.numerics.formatting import latex_text
from tests.cli.running import Run, runner
from tests.estimation.release.simulated import public, released

pytestmark = pytest.mark.filterwarnings("ignore::mustdp.types.SeededRelease")
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {"x": RNG.uniform(0, 10, 1000), "y": RNG.uniform(0, 10, 1000), "kind": ["a"] * 1000}
)
AVERAGES = ("mean@x", "sd@x", "median@x", "proportion:>5@x", "correlation@x,y", "regression@x,y")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def grouped(relation: str, *asked: str) -> md.types.ReleaseResult:
    return md.private_release(
        PEOPLE, asked, columns=["x", "y"], lower=0, upper=10, by="kind", groups=["a", "empty"],
        relation=relation, seed=3, **BUDGET,
    )  # fmt: skip


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_empty_groups_have_no_estimate_in_any_form(relation: str) -> None:
    found = grouped(relation, *AVERAGES)
    rows = list(csv.DictReader(io.StringIO(found.as_csv())))
    text, latex = str(found).splitlines(), found.as_latex().splitlines()
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))["estimates"]
    for one, row, data, line in zip(found.estimates, rows, plain, latex[4:], strict=False):
        assert one.known == math.isfinite(one.value) == (data["estimate"] is not None)
        assert (row["estimate"] == "NA") == (not one.known)
        assert (" & NA* & " in line) == (not one.known)
        assert all(f"{{* {latex_text(flag)}}}" in found.as_latex() for flag in one.flags)
        if one.group != "a":
            assert not one.known
            assert math.isnan(one.standard_error)
            assert data["standard_error"] is None
            assert row["standard_error"] == "NA"
            assert one.flags
            assert row["flags"]
            assert any(one.label in shown and "NA" in shown for shown in text)
    assert found["mean x (a)"].known
    assert found["mean x (empty)"].interval == (0.0, 10.0)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_counts_and_sums_of_empty_groups_are_at_their_end_with_room(relation: str) -> None:
    """No [0, 0] beside a standard error: the interval holds as much as the noise can hide."""
    given: dict[str, Any] = {"by": "kind", "groups": ["a", "empty"], "relation": relation}
    schema = public(**given)
    below = 0
    for seed in range(60):
        for one in released(schema, np.full(300, 0.5), ["count", "sum"], 6.0, [seed, 1]):
            low, high = one.interval
            assert math.isfinite(one.value)
            assert low <= one.value <= high
            assert high - low >= 1.9 * one.standard_error > 0
            below += one.value == 0.0
    assert below > 30


def test_a_correlation_and_slopes_that_noise_hides_are_not_known() -> None:
    narrow = np.column_stack([PEOPLE["x"], PEOPLE["x"] + PEOPLE["y"]])
    for seed in range(5):
        found = md.private_release(
            narrow, ["correlation", "regression"], lower=-5000, upper=5000, seed=seed, **BUDGET
        )
        assert not any(one.known for one in found.estimates)
        assert all(one.flags for one in found.estimates)
        json.dumps(found.as_dict(), allow_nan=False)


def test_the_quantile_of_hardly_any_records_is_not_the_middle_of_its_range() -> None:
    for seed in range(10):
        (found,) = md.private_release(
            np.full(12, 3.0), "median", lower=0, upper=10, seed=seed, epsilon=0.2, delta=1e-6
        ).estimates
        assert found.interval != (0.0, 10.0) or (not found.known and found.flags)


def test_pages_pictures_and_commands_show_na(run: Run, tmp_path: Path) -> None:
    path, page = tmp_path / "people.csv", tmp_path / "page.html"
    PEOPLE.to_csv(path, index=False)
    asked = (
        f"--column x --lower 0 --upper 10 --statistic mean --by kind --groups a,empty --epsilon 1 "
        f"--delta 1e-6 --seed 3 --report {page}"
    )
    outcome = run("release", path, *asked.split())
    assert outcome.status == 0, outcome.err
    (line,) = (line for line in outcome.out.splitlines() if line.startswith("mean x (empty)"))
    assert "NA" in line.split()
    assert ">NA<" in page.read_text()
    plain = run("release", path, *asked.split(), "--json")
    empty = json.loads(plain.out)["estimates"][1]
    assert empty["estimate"] is None
    assert empty["flags"]


@pytest.mark.filterwarnings("ignore::mustdp.types.InferenceNote")
def test_a_bootstrap_makes_up_no_numbers_either() -> None:
    x = PEOPLE["x"].to_numpy()
    given: dict[str, Any] = {
        "lower": -5000, "upper": 5000, "design": md.wor(1000, 100), "replicates": 20,
        "epsilon": 0.5, "delta": 1e-6,
    }  # fmt: skip
    found = md.private_bootstrap(np.column_stack([x, x]), "correlation", seed=1, **given)
    assert math.isnan(found.estimate)
    assert math.isnan(found.standard_error)
    assert found.interval == (-1.0, 1.0)
    assert found.notes
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["estimate"] is None
    assert " NA " in str(found)
    assert found.plot() is not None
    for seed in range(20):
        for statistic in ("sd", "median", "mean"):
            one = md.private_bootstrap(x, statistic, seed=seed, **given).estimates[0]
            low, high = one.interval
            assert math.isnan(one.value) or high - low >= 0.9 * one.standard_error > 0, one
