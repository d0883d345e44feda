"""Quantiles on public grids of the user's: their sensitivity, their intervals, what they gain."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import JointSums
from mustdp.estimation.schema import Column, PublicSchema, Range
from mustdp.estimation.statistics.statistic import read_statistic
from mustdp.types import Relation
from tests.cli.running import answer, check_refused, runner
from tests.estimation.release.swapping import allowed, movements

pytestmark = pytest.mark.filterwarnings("ignore")
GRID = (20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 60.0)
NAMES = [f"g{k}" for k in range(40)]
SCHEMA = PublicSchema((Column("x", Range(0.0, 100.0)),), Relation.REPLACE_ONE, 50)


def people(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = np.clip(rng.gamma(9.0, 4.3, 2400), 17, 90).round()
    return pd.DataFrame({"x": x, "g": rng.choice(NAMES, 2400)})


TRUTH = float(np.median(np.clip(np.random.default_rng(5).gamma(9.0, 4.3, 10**6), 17, 90).round()))


def released(seed: int, statistic: Any, noise: float = 7.5) -> tuple[Any, ...]:
    found = md.private_release(
        people(seed),
        statistic,
        columns="x",
        lower=0,
        upper=100,
        by="g",
        groups=md.types.Groups(NAMES, complete=True),
        noise_multiplier=noise,
        delta=1e-5,
        seed=seed,
    )
    return tuple(found.estimates)


@pytest.mark.parametrize(
    "written", ["median:20.0,25.0", "median:8", "quantile:0.9:5", "quantile:0.25:0.0,2.5", "median"]
)
def test_grids_are_written_as_they_are_read(written: str) -> None:
    assert read_statistic(written).written == written
    assert read_statistic(f"{written}@x").columns == ("x",)


@pytest.mark.parametrize(
    "written",
    ["median:", "median:a", "median:3,2", "median:0", "median:nan", "median:5000", "quantile:0.5:",
     "quantile:0.5:1:2", "median:20,20"],
)  # fmt: skip
def test_what_is_no_grid_is_refused(written: str) -> None:
    with pytest.raises(InvalidParameter):
        read_statistic(written)


@pytest.mark.parametrize("written", ["median:-5,20", "median:20,100", "median:20,1e300"])
def test_a_grid_outside_of_the_range_is_refused_before_anything_is_spent(written: str) -> None:
    ledger = md.Ledger()
    with pytest.raises(InvalidParameter, match="grid must lie within"):
        md.private_release(
            people(1), written, columns="x", lower=0, upper=100, noise_multiplier=3.0, delta=1e-6,
            ledger=ledger,
        )  # fmt: skip
    assert ledger.steps == 0


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        replace(SCHEMA, dropped=True),
        replace(SCHEMA, groups=("p", "q", "other"), by="k"),
        replace(SCHEMA, largest_weight=2.0),
        PublicSchema(SCHEMA.columns, Relation.ADD_REMOVE, None),
    ],
    ids=["plain", "dropped", "groups", "weights", "add-remove"],
)
@pytest.mark.parametrize("grid", [GRID, (0.0,), (40.0,), (0.0, 1e-9, 99.0), 3])
def test_no_record_moves_the_counts_farther_than_their_noise_allows(
    grid: Any, schema: PublicSchema
) -> None:
    (request,) = md.types.Median(grid=grid).requests(schema)
    assert request.sums is not None
    joint = JointSums(schema, (request.sums,), noise_multiplier=2.0)
    points = [0.0, 100.0, 1e-10, 20.0, 24.9, 25.0, 33.3, 40.0, 60.0, 60.1, 99.0]
    missing = [[np.nan]] if schema.dropped else []
    weights = (0.0, 0.4, 1.0) if schema.weighted else (1.0,)
    moved = movements(joint, [[x] for x in points] + missing, weights)
    assert 0.5 * allowed(joint) < moved <= allowed(joint)


def test_a_short_grid_tells_of_small_groups_what_a_long_one_cannot() -> None:
    short, long = (
        [one for seed in range(5) for one in released(seed, statistic)]
        for statistic in (md.types.Median(grid=GRID), "median")
    )
    assert np.mean([one.known for one in long]) < 0.5
    assert np.mean([one.known for one in short]) > 0.95
    assert np.median([one.width for one in short]) < 50
    ends = {0.0, 100.0, *GRID}
    assert all({*one.interval} <= ends for one in short)


def test_intervals_of_small_groups_cover() -> None:
    found = [one for seed in range(30) for one in released(seed, md.types.Median(grid=GRID))]
    hits = [one.interval[0] <= TRUTH <= one.interval[1] for one in found]
    assert len(hits) == 1200
    assert np.mean(hits) >= 0.93
    exact = released(3, md.types.Median(grid=GRID), noise=1e-4)
    own = people(3).groupby("g")["x"].median()
    assert all(one.interval[0] <= own[one.group] <= one.interval[1] for one in exact)


def test_the_command_line_takes_grids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, path = runner(capsys), tmp_path / "people.csv"
    people(1).to_csv(path, index=False)
    line = f"release {path} --column x --lower 0 --upper 100 --noise-multiplier 3 --delta 1e-6"
    (found,) = answer(run, f"{line} --statistic median:20,30,40,50")["estimates"]
    assert set(found["interval"]) <= {0, 20, 30, 40, 50, 100}
    check_refused(run(*shlex.split(f"{line} --statistic median:20,130")), "grid")
    plan = "plan -n 60 --column x --lower 0 --upper 100 --epsilon 1 --delta 1e-6 --statistic"
    short, long = (
        answer(run, f"{plan} {one}")["rows"][0] for one in ("median:30,40,50,60", "median")
    )
    assert short != long
