"""Plans promise the widths that releases on such data have, and read no data for it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from tests.cli.running import runner

pytestmark = pytest.mark.filterwarnings("ignore::mustdp.types.SeededRelease")
N = 20_000
LIMITS: dict[str, Any] = {"lower": {"x": 0, "y": 0}, "upper": {"x": 60, "y": 60}}
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("by", [None, "kind"])
def test_widths_come_true(relation: str, by: str | None) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(30, 10, (2, N)).clip(0, 60)
    frame = pd.DataFrame({"x": x, "y": y, "kind": rng.choice(["a", "b"], N)})
    asked = ["mean@x", "sd@x", "median@x", "correlation@x,y", "proportion:>30@y", "regression@x,y"]
    groups: dict[str, Any] = {} if by is None else {"by": by, "groups": ["a", "b"]}
    expected = md.estimation.expected_widths(
        asked, n=N, columns=["x", "y"], relation=relation, **LIMITS, **BUDGET, **groups
    )
    found = md.private_release(
        frame, asked, relation=relation, seed=4, **LIMITS, **BUDGET, **groups
    )
    assert [one.label for one in expected] == [one.label for one in found.estimates]
    for plan, real in zip(expected, found.estimates, strict=True):
        if real.group != "other":
            step = 0.25 if "median" in plan.label else 0.0  # of the grid, at either end
            assert plan.width == pytest.approx(real.width, rel=0.25, abs=0.3 + step), plan.label


def test_the_smallest_epsilon_for_a_width() -> None:
    settings: dict[str, Any] = {"n": 10_000, "lower": 0, "upper": 1, "delta": 1e-6}
    epsilon, (mean,) = md.estimation.smallest_epsilon(0.008, "mean", **settings)
    assert 0.0077 < mean.width <= 0.008
    (less,) = md.estimation.expected_widths("mean", epsilon=0.95 * epsilon, **settings)
    assert less.width > 0.008
    with pytest.raises(md.InvalidParameter, match="width must be at least"):
        md.estimation.smallest_epsilon(1e-5, "mean", **settings)


def test_a_width_is_found_for_groups_although_nobody_is_expected_in_any_other() -> None:
    settings: dict[str, Any] = {
        "n": 10_000, "lower": 0, "upper": 1, "delta": 1e-6, "by": "kind", "groups": ["a", "b"],
    }  # fmt: skip
    for asked in ("mean", ["mean", "median", "count"]):
        widest = {"mean": 0.05}.get(str(asked), 400.0)
        epsilon, found = md.estimation.smallest_epsilon(widest, asked, **settings)
        listed = [one for one in found if one.group != "other"]
        assert max(one.width for one in listed) <= widest
        assert 0 < epsilon < 20
        less = md.estimation.expected_widths(asked, epsilon=0.95 * epsilon, **settings)
        assert max(one.width for one in less if one.group != "other") > widest


def test_plans_of_groups_are_plain_json(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (
        "--column x --lower 0 --upper 1 --statistic mean --by kind --groups a,b --delta 1e-6 "
        "-n 10000 --width 0.05"
    )
    run = runner(capsys)
    plain = run("plan", *asked.split(), "--json")
    assert plain.status == 0, plain.err
    rows = json.loads(plain.out)["rows"]
    assert [row["standard_error"] is None for row in rows] == [False, False, True]
    shown = run("plan", *asked.split())
    assert "unknown" in shown.out


# Survey designs, relative widths, several releases.


DESIGNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "weights": (
        {"weights": (1.0, 4.0)},
        {"survey": md.types.Survey("weight", 4.0)},
    ),
    "strata": (
        {"stratum_shares": {"a": 0.7, "b": 0.3}, "stratum_sizes": {"a": 0.5, "b": 0.5}},
        {"survey": md.types.Survey(strata="stratum", stratum_shares={"a": 0.7, "b": 0.3})},
    ),
    "clusters": (
        {"cluster_size": 4, "cluster_correlation": 0.25},
        {"survey": md.types.Survey(cluster="home", largest_cluster=4)},
    ),
    "missing": ({"missing_share": 0.3}, {"missing": "drop"}),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_designs_are_planned_as_they_are_released(design: str) -> None:
    """Against a release on data that are as the plan takes them to be."""
    n, rng = 8000, np.random.default_rng(3)
    x = np.clip(rng.normal(0.5, 1 / 6, n), 0, 1)
    home = np.arange(n) // 4
    frame = pd.DataFrame(
        {
            "x": x,
            "weight": rng.uniform(1, 4, n),
            "stratum": np.where(np.arange(n) % 2, "a", "b"),
            "home": home,
        }
    )
    if design == "clusters":
        frame["x"] = np.where(rng.random(n) < 0.5, x[home * 4], x)
    if design == "missing":
        frame.loc[rng.random(n) < 0.3, "x"] = np.nan
    planned, given = DESIGNS[design]
    limits: dict[str, Any] = {"lower": 0, "upper": 1, "noise_multiplier": 20.0, "delta": 1e-6}
    [expected] = md.estimation.expected_widths(
        "mean", n=n, columns="x", survey=md.types.PlannedSurvey(**planned), **limits
    )
    widths = []
    for seed in range(5):
        with pytest.warns(md.types.SeededRelease):
            result = md.private_release(frame, "mean", columns=["x"], seed=seed, **limits, **given)
        widths.append(result.estimates[0].width)
    assert expected.width == pytest.approx(np.mean(widths), rel=0.1)


def test_releases_that_share_a_budget() -> None:
    limits: dict[str, Any] = {"n": 5000, "lower": 0, "upper": 1, "delta": 1e-6}
    [one] = md.estimation.expected_widths("mean", noise_multiplier=5.0 * np.sqrt(12.0), **limits)
    [twelve] = md.estimation.expected_widths("mean", noise_multiplier=5.0, releases=12, **limits)
    assert twelve == one
    # Twelve releases with that noise cost what one with a twelfth of its variance does.
    several = md.account(md.repeat(12, md.gaussian(noise_multiplier=5.0 * np.sqrt(12.0))))
    single = md.account(md.gaussian(noise_multiplier=5.0))
    assert several.epsilon(delta=1e-6).upper == pytest.approx(
        single.epsilon(delta=1e-6).upper, rel=1e-3
    )


def test_relative_widths() -> None:
    limits: dict[str, Any] = {"n": 5000, "lower": 0, "upper": 10, "delta": 1e-6}
    epsilon, [found] = md.estimation.smallest_epsilon(0.05, "mean", relative=True, **limits)
    assert found.relative_width <= 0.05
    assert found.width == pytest.approx(5.0 * found.relative_width, rel=0.01)
    _, [narrower] = md.estimation.smallest_epsilon(0.04, "mean", relative=True, **limits)
    assert narrower.relative_width <= 0.04
    assert epsilon > 0


@pytest.mark.parametrize(
    "given",
    [
        {"missing_share": 1.0},
        {"cluster_size": 1},
        {"cluster_correlation": -0.1},
        {"weights": (2.0, 1.0)},
        {"stratum_shares": {"a": 1.0}, "stratum_sizes": {"b": 1.0}},
    ],
)
def test_surveys_that_cannot_be(given: dict[str, Any]) -> None:
    with pytest.raises(md.InvalidParameter):
        md.types.PlannedSurvey(**given)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"relation": "add_remove"}, "where the number of records is public"),
        ({"n": 401}, "must add up to the number of records, 401, got 400"),
        ({"survey": {}}, "survey must be a PlannedSurvey, got dict"),
        ({"columns": md.types.Columns()}, "columns must be named"),
    ],
)
def test_plans_of_what_cannot_be_released(given: dict[str, Any], match: str) -> None:
    groups = md.types.Groups(["a", "b"], complete=True, public_totals={"g": {"a": 150, "b": 250}})
    settings: dict[str, Any] = {
        "n": 400, "lower": 0, "upper": 1, "by": "g", "groups": groups, "consistent": True,
        "epsilon": 2.0, "delta": 1e-6,
    }  # fmt: skip
    assert len(md.estimation.expected_widths("mean", **settings)) == 2
    with pytest.raises(md.InvalidParameter, match=match):
        md.estimation.expected_widths("mean", **{**settings, **given})
