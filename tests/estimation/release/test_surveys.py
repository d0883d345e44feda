"""Survey designs: weights, strata and clusters give what their textbook estimators do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md

pytestmark = pytest.mark.filterwarnings("ignore::mustdp.types.SeededRelease")
QUIET: dict[str, Any] = {"noise_multiplier": 1e-4, "delta": 1e-6, "seed": 5}
LIMITS: dict[str, Any] = {"lower": {"y": 0.0}, "upper": {"y": 20.0}}
N = 3000


def sample() -> pd.DataFrame:
    """Records that were drawn with unequal chances: large values more often."""
    rng = np.random.default_rng(8)
    y = rng.gamma(3.0, 2.0, 40_000).clip(0, 20)
    chance = 0.02 + 0.005 * y
    drawn = rng.random(y.size) < chance
    return pd.DataFrame({"y": y[drawn], "w": 1.0 / chance[drawn]})


def test_weighted_means_are_those_of_hajek() -> None:
    frame = sample()
    y, w = frame["y"].to_numpy(), frame["w"].to_numpy()
    found = md.private_release(
        frame,
        ["mean@y", "count", "sum@y", "proportion:>6@y", "median@y", "sd@y"],
        survey=md.types.Survey(weights="w", largest_weight=50.0),
        **LIMITS,
        **QUIET,
    )
    mean = float((w * y).sum() / w.sum())
    assert found["mean y"].value == pytest.approx(mean, rel=1e-3)
    error = math.sqrt(float((w**2 * (y - mean) ** 2).sum())) / w.sum()
    assert found["mean y"].standard_error == pytest.approx(error, rel=0.02)
    assert found["count"].value == pytest.approx(w.sum(), rel=1e-3)
    assert found["sum y"].value == pytest.approx((w * y).sum(), rel=1e-3)
    share = float(w[y > 6].sum() / w.sum())
    assert found["proportion:>6 y"].value == pytest.approx(share, rel=1e-3)
    kish = math.sqrt(share * (1 - share) * float((w**2).sum())) / w.sum()
    assert found["proportion:>6 y"].standard_error == pytest.approx(kish, rel=0.02)
    order = np.argsort(y)
    median = float(y[order][np.searchsorted(np.cumsum(w[order]), 0.5 * w.sum())])
    assert found["median y"].value == pytest.approx(median, abs=0.1)
    spread = float((w * (y - mean) ** 2).sum() / w.sum())
    assert found["sd y"].value == pytest.approx(math.sqrt(spread), rel=1e-3)


def test_weighted_means_cover_where_plain_ones_do_not() -> None:
    truth = float(np.random.default_rng(8).gamma(3.0, 2.0, 40_000).clip(0, 20).mean())
    frame = sample()
    settings: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "seed": 3, **LIMITS}
    weighted = md.private_release(
        frame, "mean@y", survey=md.types.Survey(weights="w", largest_weight=50.0), **settings
    )
    plain = md.private_release(frame, "mean@y", **settings)
    assert weighted.interval[0] < truth < weighted.interval[1]
    assert not plain.interval[0] < truth < plain.interval[1]


def test_strata_are_put_together_with_their_shares() -> None:
    rng = np.random.default_rng(1)
    kind = np.repeat(["a", "b", "c"], [1000, 1000, 50])
    y = np.where(kind == "a", rng.normal(5, 1, kind.size), rng.normal(12, 2, kind.size))
    frame = pd.DataFrame({"y": y, "kind": kind})
    shares = {"a": 0.9, "b": 0.1}
    found = md.private_release(
        frame,
        ["mean@y", "proportion:>10@y"],
        survey=md.types.Survey(strata="kind", stratum_shares=shares),
        **LIMITS,
        **QUIET,
    )
    parts = frame[frame["kind"] != "c"].groupby("kind")["y"]
    expected = 0.9 * parts.mean()["a"] + 0.1 * parts.mean()["b"]
    assert found.estimate == pytest.approx(expected, rel=1e-3)
    error = math.hypot(0.9 * parts.sem()["a"], 0.1 * parts.sem()["b"])
    assert found.standard_error == pytest.approx(error, rel=0.01)
    assert found.estimates[1].value == pytest.approx(
        0.9 * (y[kind == "a"] > 10).mean() + 0.1 * (y[kind == "b"] > 10).mean(), rel=1e-3
    )


def strata() -> tuple[pd.DataFrame, dict[str, float]]:
    """Two strata with unlike laws, one of them drawn nine times as densely."""
    rng = np.random.default_rng(2)
    kind = np.repeat(["a", "b", "c"], [1500, 1500, 40])
    y = np.where(kind == "a", rng.normal(5, 1, kind.size), rng.normal(12, 2, kind.size))
    x = 0.5 * y + rng.normal(0, 1, kind.size)
    return pd.DataFrame({"y": y, "x": x, "kind": kind}), {"a": 0.9, "b": 0.1}


def test_curved_estimates_over_strata_are_those_of_the_population() -> None:
    """Every record of stratum h counts W_h / n_h; errors are around the strata's own centres."""
    frame, shares = strata()
    limits: dict[str, Any] = {"lower": {"y": 0.0, "x": -5.0}, "upper": {"y": 20.0, "x": 15.0}}
    found = md.private_release(
        frame,
        ["variance@y", "sd@y", "correlation@x,y", "regression@x,y", "quantile:0.9@y"],
        survey=md.types.Survey(strata="kind", stratum_shares=shares),
        **limits,
        **QUIET,
    )
    own = frame[frame["kind"] != "c"]
    y, x, kind = own["y"].to_numpy(), own["x"].to_numpy(), own["kind"].to_numpy()
    w = np.where(kind == "a", 0.9, 0.1) / 1500
    mean = float(w @ y)
    spread = float(w @ (y - mean) ** 2)
    assert found["variance y"].value == pytest.approx(spread, rel=1e-3)
    assert found["sd y"].value == pytest.approx(math.sqrt(spread), rel=1e-3)
    psi = (y - mean) ** 2
    error = math.hypot(*(w * psi[kind == h].std() * math.sqrt(1500)
                         for h, w in (("a", 0.9 / 1500), ("b", 0.1 / 1500))))  # fmt: skip
    assert found["variance y"].standard_error == pytest.approx(error, rel=0.02)
    r = float(w @ ((x - w @ x) * (y - mean))) / math.sqrt(spread * float(w @ (x - w @ x) ** 2))
    assert found["correlation x, y"].value == pytest.approx(r, rel=1e-3)
    slope = float(w @ ((x - w @ x) * (y - mean))) / float(w @ (x - w @ x) ** 2)
    assert found["regression x, y: x"].value == pytest.approx(slope, rel=2e-3)
    order = np.argsort(y)
    quantile = float(y[order][np.searchsorted(np.cumsum(w[order]), 0.9)])
    assert found["quantile:0.9 y"].value == pytest.approx(quantile, abs=0.1)
    low, high = found["quantile:0.9 y"].interval
    assert low < quantile < high
    assert high - low < 2.0


def test_totals_over_strata_are_those_of_the_population() -> None:
    frame, shares = strata()
    settings: dict[str, Any] = {
        "survey": md.types.Survey(strata="kind", stratum_shares=shares),
        **LIMITS,
        **QUIET,
    }
    asked = ["mean@y", "sum@y", "histogram:2@y", "proportion:>=10@y"]
    found = md.private_release(frame, asked, population=20_000, columns=["y"], **settings)
    assert found["sum y"].value == pytest.approx(20_000 * found["mean y"].value, rel=1e-9)
    above = found["proportion:>=10 y"].value
    assert found["histogram y: [10, 20]"].value == pytest.approx(20_000 * above, rel=1e-3)
    assert "population of 20000, over 2 strata" in found["sum y"].description
    # Of 1500 out of 18,000 and of 1500 out of 2000, each with its own correction.
    parts = frame.groupby("kind")["y"].sem()
    error = math.hypot(0.9 * parts["a"] * math.sqrt(1 - 1500 / 18_000),
                       0.1 * parts["b"] * math.sqrt(1 - 1500 / 2000))  # fmt: skip
    assert found["mean y"].standard_error == pytest.approx(error, rel=0.01)
    for statistic, said in (("sum@y", "population must be a number"), ("count", "are public")):
        with pytest.raises(md.InvalidParameter, match=said):
            md.private_release(frame, statistic, columns=["y"], **settings)


def test_all_intervals_over_strata_hold_together_on_request() -> None:
    frame, shares = strata()
    settings: dict[str, Any] = {
        "survey": md.types.Survey(strata="kind", stratum_shares=shares),
        **LIMITS,
        **QUIET,
    }
    alone, together = (
        md.private_release(frame, ["mean@y", "sd@y"], simultaneous=both, **settings).estimates[0]
        for both in (False, True)
    )
    assert together.width > 1.1 * alone.width
    clipped = md.private_release(
        frame, "mean@y", ranges=md.types.Ranges(report_clipping=0.1), **settings
    )
    assert [one.label for one in clipped.estimates[1:]] == [
        "clipping y: below",
        "clipping y: above",
    ]


def households() -> pd.DataFrame:
    """Clusters of four with equal values: a quarter of the records would tell as much."""
    rng = np.random.default_rng(6)
    y = rng.normal(10, 2, 700).clip(0, 20)
    frame = pd.DataFrame({"y": np.repeat(y, 4), "home": np.repeat(np.arange(700), 4)})
    return frame.sample(frac=1, random_state=1)


@pytest.mark.parametrize("unit", ["record", "cluster"])
def test_errors_are_those_of_clusters(unit: str) -> None:
    frame = households()
    found = md.private_release(
        frame,
        ["mean@y", "sd@y"],
        survey=md.types.Survey(cluster="home", largest_cluster=4, unit=unit),
        **LIMITS,
        **QUIET,
    )
    assert found.estimate == pytest.approx(frame["y"].mean(), rel=1e-3)
    plain = float(frame["y"].to_numpy().std(ddof=1)) / math.sqrt(len(frame))
    assert found.standard_error == pytest.approx(2.0 * plain, rel=0.01)


def test_a_whole_cluster_costs_more_noise() -> None:
    frame = households()
    settings: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "seed": 2, "population": "census"}
    one, whole = (
        md.private_release(
            frame,
            "mean@y",
            survey=md.types.Survey(cluster="home", largest_cluster=4, unit=unit),
            **LIMITS,
            **settings,
        )
        for unit in ("record", "cluster")
    )
    assert whole.standard_error > 3.0 * one.standard_error


@pytest.mark.parametrize("unit", ["record", "cluster"])
def test_totals_and_shares_of_clusters(unit: str) -> None:
    """Four equal records tell what one does: errors are twice those of independent ones."""
    frame = households()
    frame["kind"] = np.where(frame["y"] > 11, "a", "b")
    settings: dict[str, Any] = {
        "survey": md.types.Survey(cluster="home", largest_cluster=4, unit=unit)
    }
    asked = ["count", "sum@y", "proportion:>11@y", "histogram:4@y", "clipping@y"]
    found = md.private_release(
        frame, asked, columns=["y"], lower=4.0, upper=16.0, **settings, **QUIET
    )
    n, y = len(frame), frame["y"].clip(4, 16)
    assert found["count"].value == pytest.approx(n, abs=0.5)
    assert found["sum y"].value == pytest.approx(y.sum(), rel=1e-3)
    assert found["sum y"].standard_error == pytest.approx(2 * math.sqrt(n) * y.std(), rel=0.02)
    for row, scale, inside in (
        (found["proportion:>11 y"], 1.0, y > 11),
        (found["histogram y: [10, 13)"], float(n), (y >= 10) & (y < 13)),
        (found["clipping y: above"], 1.0, frame["y"] > 16),
    ):
        p = float(inside.mean())
        assert row.value == pytest.approx(scale * p, rel=1e-3)
        error = scale * 2 * math.sqrt(p * (1 - p) / n)
        assert row.standard_error == pytest.approx(error, rel=0.05), row.label
    grouped = md.private_release(
        frame,
        ["mean@y", "proportion:>12@y"],
        by="kind",
        groups=["a"],
        **settings,
        **LIMITS,
        **QUIET,
    )
    own = frame["y"][frame["kind"] == "a"]
    assert grouped["mean y (a)"].value == pytest.approx(own.mean(), rel=1e-3)
    expected = 2 * own.std() / math.sqrt(len(own))
    assert grouped["mean y (a)"].standard_error == pytest.approx(expected, rel=0.02)
    p = float((own > 12).mean())
    expected = 2 * math.sqrt(p * (1 - p) / len(own))
    assert grouped["proportion:>12 y (a)"].standard_error == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("statistic", "more", "said"),
    [
        ("gini@y", {}, "with clusters"),
        (
            "sum@y",
            {"survey": {"weights": "w", "largest_weight": 2.0}},
            "means and proportions",
        ),
        ("count", {"by": "kind", "groups": ["a"]}, "contingency table"),
    ],
)
def test_what_clusters_have_no_errors_for_is_refused(
    statistic: str, more: dict[str, Any], said: str
) -> None:
    frame = households().assign(w=1.0, kind="a")
    given = dict(more)
    survey = md.types.Survey(cluster="home", largest_cluster=4, **given.pop("survey", {}))
    with pytest.raises(md.InvalidParameter, match=said):
        md.private_release(frame, statistic, survey=survey, **given, **LIMITS, **QUIET)


def test_missing_weights_are_dropped_and_missing_clusters_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("y,w,home\n" + "2,1,1\n4,1,2\n" * 500 + "19,,\n")
    reading = md.types.Reading(path, missing="drop")
    found = md.private_release(
        reading,
        "mean",
        columns="y",
        survey=md.types.Survey(weights="w", largest_weight=2.0),
        **LIMITS,
        **QUIET,
    )
    assert found.estimate == pytest.approx(3.0, rel=1e-3)
    table = tmp_path / "people.parquet"
    pd.read_csv(path).to_parquet(table)
    for data in (reading, md.types.Reading(table, missing="drop")):
        # No word about missing values, which could not help.
        with pytest.raises(
            md.InvalidParameter, match=r"home.* needs the number of a cluster"
        ) as no:
            md.private_release(
                data,
                "mean",
                columns="y",
                survey=md.types.Survey(cluster="home", largest_cluster=600),
                **LIMITS,
                **QUIET,
            )
        assert "missing=" not in str(no.value)


@pytest.mark.parametrize("unit", ["record", "cluster"])
def test_shares_of_clusters_cover_with_noise(unit: str) -> None:
    """40 data sets: at 95 % fewer than 33 cover with a chance of 0.0006, at 70 % with 0.92."""
    hits = np.zeros(3)
    for seed in range(40):
        rng = np.random.default_rng([seed, 9])
        homes = np.repeat(np.arange(800), 3)
        y = (rng.normal(10, 2, 800)[homes] + rng.normal(0, 0.1, 2400)).clip(0, 20)
        found = md.private_release(
            pd.DataFrame({"y": y, "home": homes}),
            ["proportion:>10@y", "sum@y", "histogram:2@y"],
            survey=md.types.Survey(cluster="home", largest_cluster=3, unit=unit),
            noise_multiplier=4.0,
            delta=1e-6,
            seed=seed,
            **LIMITS,
        ).estimates
        truths = (0.5, 24_000.0, 1200.0)
        hits += [low <= t <= high for t, (low, high) in
                 zip(truths, (one.interval for one in found), strict=False)]  # fmt: skip
    assert np.all(hits >= 33), hits


@pytest.mark.parametrize("shares", [{"a": 9.0, "b": 1.0}, {"a": 0.5, "b": 0.3}, {"other": 1.0}])
def test_shares_that_leave_something_out_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(md.InvalidParameter, match="stratum_shares must"):
        md.types.Survey(strata="kind", stratum_shares=shares)


def test_records_of_other_strata_are_a_stratum_or_are_told_of() -> None:
    frame, _ = strata()
    settings: dict[str, Any] = {**LIMITS, **QUIET}
    asked = ["mean@y", "sd@y", "quantile:0.9@y", "proportion:>10@y"]
    partly = md.private_release(
        frame,
        asked,
        survey=md.types.Survey(strata="kind", stratum_shares={"a": 0.9, "b": 0.1}),
        **settings,
    )
    assert all("in no listed stratum" in one.flags[-1] for one in partly.estimates)
    shares = {"other": 0.1, "a": 0.8, "b": 0.1}
    found = md.private_release(
        frame, asked, survey=md.types.Survey(strata="kind", stratum_shares=shares), **settings
    )
    assert not any(one.flags for one in found.estimates)
    means = frame.groupby("kind")["y"].mean()
    expected = 0.8 * means["a"] + 0.1 * means["b"] + 0.1 * means["c"]
    assert found["mean y"].value == pytest.approx(expected, rel=1e-3)
    within = frame[frame["kind"] != "c"]
    listed = md.private_release(
        within,
        asked,
        survey=md.types.Survey(strata="kind", stratum_shares={"a": 0.9, "b": 0.1}),
        **settings,
    )
    assert not any(one.flags for one in listed.estimates)


def test_a_small_stratum_that_is_not_known_widens_by_its_share() -> None:
    """The truth is covered wherever that stratum is; a large one leaves no estimate."""
    frame, _ = strata()
    own = frame[frame["kind"] != "c"]
    settings: dict[str, Any] = {
        "noise_multiplier": 4.0,
        "delta": 1e-6,
        **LIMITS,
    }
    asked = ["mean@y", "quantile:0.9@y", "sum@y"]
    for share in (0.05, 0.3):
        shares = {"a": 0.6, "b": 0.4 - share, "nobody": share}
        found = md.private_release(
            own,
            asked,
            survey=md.types.Survey(strata="kind", stratum_shares=shares),
            seed=1,
            population=10_000,
            **settings,
        )
        assert all(any("nobody" in flag for flag in one.flags) or share > 0.1
                   for one in found.estimates)  # fmt: skip
        assert [one.known for one in found.estimates] == [share < 0.1] * 3
        if share < 0.1:
            mean = found["mean y"]
            ends = [0.6 * 5 + (0.4 - share) * 12 + share * end for end in (0.0, 20.0)]
            assert mean.interval[0] < ends[0] < ends[1] < mean.interval[1]
            assert mean.standard_error >= share * 10


def test_a_quantile_with_a_stratum_that_is_not_known_covers_wherever_that_is() -> None:
    frame, _ = strata()
    own = frame[frame["kind"] != "c"]
    shares = {"a": 0.6, "b": 0.35, "nobody": 0.05}
    (found,) = md.private_release(
        own,
        "quantile:0.9@y",
        survey=md.types.Survey(strata="kind", stratum_shares=shares),
        **LIMITS,
        **QUIET,
    ).estimates
    y, kind = own["y"].to_numpy(), own["kind"].to_numpy()
    order, weights = np.argsort(y), np.where(kind == "a", 0.6, 0.35) / 1500
    curve = np.cumsum(weights[order])
    low, high = (float(y[order][np.searchsorted(curve, p)]) for p in (0.85, 0.8999))
    assert found.interval[0] <= low < high <= found.interval[1]
    assert found.flags == ("nobody: too few records for the noise: the interval is the whole "
                           "possible range",)  # fmt: skip
