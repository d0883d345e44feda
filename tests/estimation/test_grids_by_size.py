"""Grids of quantiles that are chosen by public sizes of groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from mustdp.cli.main import main
from mustdp.errors import InvalidParameter
from mustdp.estimation import expected_widths
from mustdp.types import Groups, Median, Quantile, SeededRelease
from tests.estimation.release.simulated import accepted

SIZES = {"small": 60, "middle": 200, "large": 3000}
N = sum(SIZES.values())
GROUPS = Groups(list(SIZES), complete=True, sizes={"kind": SIZES})
GIVEN: dict[str, Any] = {
    "columns": "x", "lower": 0, "upper": 100, "by": "kind", "groups": GROUPS, "delta": 1e-5,
}  # fmt: skip
NOISE = 7.46  # epsilon 1


def people(rng: np.random.Generator) -> pd.DataFrame:
    """Every group from the same skewed law, with the median 30."""
    kind = np.repeat(list(SIZES), list(SIZES.values()))
    return pd.DataFrame({"x": np.clip(30 * rng.lognormal(0, 0.5, N), 0, 100), "kind": kind})


def released(frame: Any, statistic: Any, seed: int, **more: Any) -> Any:
    with pytest.warns(SeededRelease):
        return md.private_release(
            frame, statistic, seed=seed, **{**GIVEN, "noise_multiplier": NOISE, **more}
        )


def points(result: Any) -> list[int]:
    """Numbers of grid points of the groups."""
    return [len(own) for own in result.families[0].request.own]


def test_small_groups_get_few_points_and_large_ones_the_default() -> None:
    found = points(released(people(np.random.default_rng(0)), "median:sizes", 0))
    assert 1 <= found[0] <= found[1] < found[2] == 200
    assert found[0] <= 16
    with_less_noise = released(people(np.random.default_rng(0)), Median("sizes"), 0,
                               noise_multiplier=0.5)  # fmt: skip
    assert points(with_less_noise)[0] > found[0]
    assert f"{found[0]} to 200 points" in " ".join(
        released(people(np.random.default_rng(0)), "median:sizes", 0).notes
    )


@pytest.mark.parametrize("statistic", ["median", "quantile:0.25"])
def test_intervals_cover_and_are_narrower_than_on_one_grid(statistic: str) -> None:
    rng, runs = np.random.default_rng(3), 60
    truth = {"median": 30.0, "quantile:0.25": 30 * np.exp(-0.5 * 0.6744898)}[statistic]
    widths: dict[str, list[list[float]]] = {}
    for grid in (":sizes", "", ":8"):
        hits = np.zeros(3)
        for seed in range(runs):
            result = released(people(rng), statistic + grid, seed)
            ends = [one.interval for one in result.estimates]
            hits += [low <= truth <= high for low, high in ends]
            widths.setdefault(grid, []).append([high - low for low, high in ends])
        assert all(accepted(int(one), runs) or one == runs for one in hits), hits
    sized, fine, coarse = (np.log(widths[grid]).mean(axis=0) for grid in (":sizes", "", ":8"))
    assert sized[0] < fine[0] - 0.3  # the small group: few points
    assert sized[2] < coarse[2] - 0.7  # the large one: many
    assert sized[2] < fine[2] + 0.1


def test_wrong_sizes_cost_width_alone() -> None:
    wrong = Groups(list(SIZES), complete=True, sizes={"kind": {"small": 5000, "large": 10}})
    rng, runs, hits = np.random.default_rng(4), 60, np.zeros(3)
    for seed in range(runs):
        result = released(people(rng), "median:sizes", seed, groups=wrong)
        hits += [one.interval[0] <= 30 <= one.interval[1] for one in result.estimates]
    assert all(accepted(int(one), runs) or one == runs for one in hits), hits


def test_nothing_is_said_of_groups_too_small() -> None:
    result = released(people(np.random.default_rng(0)), "median:sizes", 0, noise_multiplier=60.0)
    assert not result["median x (small)"].known
    assert result["median x (small)"].interval == (0.0, 100.0)
    assert result["median x (large)"].known


def test_values_are_those_of_the_groups() -> None:
    frame = people(np.random.default_rng(0))
    result = released(frame, ["median:sizes", "quantile:0.9:sizes"], 0, noise_multiplier=1e-4)
    for kind, own in frame.groupby("kind"):
        for name, p in (("median", 0.5), ("quantile:0.9", 0.9)):
            found = result[f"{name} x ({kind})"]
            assert found.interval[0] <= np.quantile(own["x"], p) <= found.interval[1]
            assert found.value == pytest.approx(np.quantile(own["x"], p), abs=0.6)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_with_weights_missing_values_margins_and_several_columns(relation: str) -> None:
    rng = np.random.default_rng(0)
    frame = people(rng).assign(w=rng.choice([1.0, 2.0], N), sex=rng.choice(["F", "M"], N))
    frame.loc[::50, "x"] = np.nan
    groups = Groups(
        {"kind": list(SIZES), "sex": ["F", "M"]}, complete=["sex"], sizes={"kind": SIZES}
    )
    result = released(
        frame, "median:sizes", 0, by=["kind", "sex"], groups=groups, total=True, missing="drop",
        survey=md.types.Survey(weights="w", largest_weight=2.0), relation=relation,
    )  # fmt: skip
    assert abs(result["median x (total)"].value - 30) < 3
    assert abs(result["median x (large, F)"].value - 30) < 5
    found = dict(zip(result.families[0].request.schema.groups, points(result), strict=True))
    assert found["small, F"] < 60 < min(found["large, M"], found["total"])


def test_groupings_that_agree_share_a_grid() -> None:
    frame = people(np.random.default_rng(0))
    result = released(frame, "median:sizes", 0, total=True, consistent=True)
    assert points(result) == []
    assert 1 <= len(result.families[0].request.grid) <= 200


def test_engines_release_the_same() -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = people(np.random.default_rng(0))
    relation = duckdb.sql("SELECT * FROM frame")
    here, there = (
        released(one, "median:sizes", 5, total=True).estimates for one in (frame, relation)
    )
    assert [one.interval for one in here] == [one.interval for one in there]
    assert [one.value for one in here] == [one.value for one in there]


def test_plans_assume_the_sizes() -> None:
    given = {**GIVEN, "n": N, "noise_multiplier": NOISE}
    sized, fine = (expected_widths(one, **given) for one in ("median:sizes", "median"))
    assert sized[0].width < 60 < fine[0].width
    assert sized[2].width == pytest.approx(fine[2].width, rel=0.2)
    [small, _, large] = expected_widths("mean", **given)
    assert small.width > 10 * large.width


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "people.csv", tmp_path / "page.html"
    people(np.random.default_rng(0)).to_csv(path, index=False)
    options = [
        "--column", "x", "--lower", "0", "--upper", "100", "--statistic", "median:sizes",
        "--by", "kind", "--groups", "small,middle,large", "--complete",
        "--sizes", "kind=small:60,middle:200,large:3000", "--epsilon", "1", "--delta", "1e-5",
    ]  # fmt: skip
    assert main(["release", str(path), *options, "--seed", "1", "--report", str(page)]) == 0
    assert "chosen by public sizes of groups" in capsys.readouterr().out
    assert "chosen by public sizes of groups" in page.read_text()
    assert main(["plan", "-n", str(N), *options, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows[0]["width"] > 5 * rows[2]["width"]


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"groups": Groups(list(SIZES))}, "without sizes of groups"),
        ({"by": None, "groups": None}, "without sizes of groups"),
        ({"ranges": md.types.Ranges(find="x")}, "where the range is"),
        (
            {"survey": md.types.Survey(strata="s", stratum_shares={"a": 1.0})},
            "with strata",
        ),
        ({"groups": Groups(list(SIZES), sizes={"x": {"a": 1}})}, "by column of by"),
        ({"groups": Groups(list(SIZES), sizes={"kind": {"tiny": 1}})}, "groups that are listed"),
        ({"groups": Groups(list(SIZES), sizes={"kind": {"small": 0}})}, "in some group"),
        ({"by": None, "groups": Groups(sizes={"kind": SIZES})}, "together with by"),
    ],
)
def test_bad_input_is_refused_before_a_charge(more: dict[str, Any], match: str) -> None:
    frame = people(np.random.default_rng(0)).assign(s="a")
    ledger = md.Ledger()
    with pytest.raises(InvalidParameter, match=match):
        md.private_release(
            frame, "median:sizes", noise_multiplier=3.0, ledger=ledger, **{**GIVEN, **more}
        )
    assert ledger.steps == 0


def test_the_bootstrap_has_no_sizes() -> None:
    with pytest.raises(InvalidParameter, match="grid other than 'sizes'"):
        Quantile(0.9, grid="sizes").check_bootstrap()
    assert Quantile(0.9, grid="sizes").written == "quantile:0.9:sizes"
