"""With next to no noise a release gives what numpy and scipy do, with their textbook errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import mustdp as md

pytestmark = pytest.mark.filterwarnings("ignore::mustdp.types.SeededRelease")
N = 4000
LIMITS: dict[str, Any] = {
    "lower": {"x": 0.0, "y": -40.0, "whole": 0.0},
    "upper": {"x": 10.0, "y": 40.0, "whole": 20.0},
}
#: So little noise that it does not show in five digits.
QUIET: dict[str, Any] = {"noise_multiplier": 1e-4, "delta": 1e-6, "seed": 5}


def people() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    x = rng.gamma(3.0, 1.0, N).clip(0, 10)
    frame = pd.DataFrame({"x": x, "y": 2.0 * x - 4.0 + rng.normal(0, 3, N)})
    frame["whole"] = rng.integers(3, 12, N)
    frame["kind"] = rng.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
    return frame


FRAME = people()


def quiet(*statistics: str, **settings: Any) -> md.types.ReleaseResult:
    given = {
        **LIMITS,
        **QUIET,
        "columns": md.types.Columns(categories={"kind": ["a", "b"]}),
        **settings,
    }
    return md.private_release(FRAME, statistics, **given)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
class TestAlone:
    def test_mean_and_sum(self, relation: str) -> None:
        found = quiet("mean@x", "sum@x", relation=relation)
        x = FRAME["x"]
        assert found["mean x"].value == pytest.approx(x.mean(), rel=1e-4)
        assert found["mean x"].standard_error == pytest.approx(stats.sem(x), rel=1e-3)
        assert found["sum x"].value == pytest.approx(x.sum(), rel=1e-4)
        assert found["sum x"].standard_error == pytest.approx(N * stats.sem(x), rel=1e-3)

    def test_share(self, relation: str) -> None:
        found = quiet("proportion:>2@x", "proportion:=b@kind", relation=relation)
        inside = int((FRAME["x"] > 2).sum())
        low, high = stats.binomtest(inside, N).proportion_ci(0.95, method="wilson")
        assert found.estimate == pytest.approx(inside / N, rel=1e-4)
        assert found.interval == pytest.approx((low, high), rel=1e-4)
        assert found.estimates[1].value == pytest.approx((FRAME["kind"] == "b").mean(), rel=1e-4)

    def test_variance_and_sd(self, relation: str) -> None:
        found = quiet("variance@x", "sd@x", relation=relation)
        x = FRAME["x"].to_numpy()
        spread = float(np.var(x, ddof=1))
        fourth = float(np.mean((x - x.mean()) ** 4))
        assert found.estimate == pytest.approx(spread, rel=1e-3)
        assert found.standard_error == pytest.approx(math.sqrt((fourth - spread**2) / N), rel=0.01)
        assert found.estimates[1].value == pytest.approx(math.sqrt(spread), rel=1e-3)

    def test_covariance_and_correlation(self, relation: str) -> None:
        found = quiet("covariance@x,y", "correlation@x,y", relation=relation)
        x, y = FRAME["x"].to_numpy(), FRAME["y"].to_numpy()
        assert found.estimate == pytest.approx(np.cov(x, y)[0, 1], rel=1e-3)
        r = float(np.corrcoef(x, y)[0, 1])
        assert found.estimates[1].value == pytest.approx(r, rel=1e-3)
        u, v = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
        influence = u * v - 0.5 * r * (u**2 + v**2)
        expected = influence.std() / math.sqrt(N)
        assert found.estimates[1].standard_error == pytest.approx(expected, rel=0.01)

    def test_regression_with_errors_of_white(self, relation: str) -> None:
        found = quiet("regression@x,whole,y", relation=relation)
        design = np.column_stack([np.ones(N), FRAME["x"], FRAME["whole"]])
        beta, *_ = np.linalg.lstsq(design, FRAME["y"].to_numpy(), rcond=None)
        residuals = FRAME["y"].to_numpy() - design @ beta
        bread = np.linalg.inv(design.T @ design)
        meat = (design * residuals[:, None] ** 2).T @ design
        errors = np.sqrt(np.diagonal(bread @ meat @ bread))
        assert [one.cell for one in found.estimates] == ["intercept", "x", "whole"]
        for one, value, error in zip(found.estimates, beta, errors, strict=True):
            assert one.value == pytest.approx(value, abs=0.05 * error)
            assert one.standard_error == pytest.approx(error, rel=0.02)

    def test_quantiles(self, relation: str) -> None:
        found = quiet("median@whole", "quantile:0.9@x", relation=relation)
        truth = float(np.quantile(FRAME["whole"], 0.5, method="inverted_cdf"))
        assert found.estimate == truth
        low, high = found.interval
        assert low < found.estimate <= high
        truth = float(np.quantile(FRAME["x"], 0.9))
        assert found.estimates[1].value == pytest.approx(truth, abs=0.07)
        assert found.estimates[1].interval[0] < truth < found.estimates[1].interval[1]

    def test_tables(self, relation: str) -> None:
        found = quiet("histogram:4@whole", "contingency@kind,whole", relation=relation)
        counts, _ = np.histogram(FRAME["whole"], bins=4, range=(0, 20))
        assert [one.value for one in found.estimates[:4]] == pytest.approx(counts, abs=0.05)
        row = found["contingency kind, whole: a, [8, 9)"]
        assert row.value == pytest.approx(
            ((FRAME["kind"] == "a") & (FRAME["whole"] == 8)).sum(), abs=0.05
        )
        other = sum(
            one.value for one in found.estimates if one.cell and one.cell.startswith("other")
        )
        assert other == pytest.approx((FRAME["kind"] == "c").sum(), abs=0.5)


def test_moments_of_more_columns_serve_those_of_fewer() -> None:
    found = quiet("regression@whole,x,y", "correlation@y,x", "mean@x", "sd@y")
    assert found["mean x"].value == pytest.approx(FRAME["x"].mean(), rel=1e-4)
    assert found["sd y"].value == pytest.approx(FRAME["y"].std(), rel=1e-3)
    r = float(np.corrcoef(FRAME["x"], FRAME["y"])[0, 1])
    assert found["correlation y, x"].value == pytest.approx(r, rel=1e-3)
    alone = quiet("mean@x", noise_multiplier=50.0)["mean x"]
    merged = quiet("mean@x", "correlation@x,y", noise_multiplier=50.0)["mean x"]
    assert merged.standard_error < 2.0 * alone.standard_error


def test_groups_are_released_side_by_side() -> None:
    found = quiet("count", "mean@x", "sd@x", by="kind", groups=["a", "b"])
    means = FRAME.groupby("kind")["x"].agg(["mean", "sem", "size", "std"])
    for group, kind in (("a", "a"), ("b", "b"), ("other", "c")):
        assert found[f"count ({group})"].value == pytest.approx(means["size"][kind], abs=0.1)
        mean = found[f"mean x ({group})"]
        assert mean.value == pytest.approx(means["mean"][kind], rel=1e-3)
        assert mean.standard_error == pytest.approx(means["sem"][kind], rel=1e-2)
        assert found[f"sd x ({group})"].value == pytest.approx(means["std"][kind], rel=1e-3)


def test_missing_values_are_refused_dropped_or_filled() -> None:
    frame = FRAME.copy()
    frame.loc[::7, "x"] = np.nan
    here = frame["x"].dropna()
    with pytest.raises(md.InvalidParameter, match="must hold finite numbers only"):
        md.private_release(frame, "mean@x", **LIMITS, **QUIET)
    dropped = md.private_release(frame, ["mean@x", "count@x"], missing="drop", **LIMITS, **QUIET)
    assert dropped.estimate == pytest.approx(here.mean(), rel=1e-3)
    assert dropped.standard_error == pytest.approx(stats.sem(here), rel=1e-2)
    assert dropped.estimates[1].value == pytest.approx(len(here), abs=0.5)
    filled = md.private_release(frame, "mean@x", missing=1.0, **LIMITS, **QUIET)
    assert filled.estimate == pytest.approx(frame["x"].fillna(1.0).mean(), rel=1e-4)


def test_finite_populations_and_a_census() -> None:
    plain, half = quiet("mean@x"), quiet("mean@x", population=2 * N)
    assert half.standard_error == pytest.approx(plain.standard_error / math.sqrt(2), rel=1e-3)
    whole = quiet("mean@x", population="census")
    assert whole.estimates[0].noise_share == pytest.approx(1.0)
    assert whole.standard_error < 1e-3 * plain.standard_error


def test_clipping_is_reported_for_a_share_of_the_budget() -> None:
    settings: dict[str, Any] = {
        "lower": {"x": 1.0},
        "upper": {"x": 4.0},
        "columns": None,
    }
    found = quiet("mean@x", ranges=md.types.Ranges(report_clipping=0.1), **settings)
    assert found["clipping x: below"].value == pytest.approx((FRAME["x"] < 1).mean(), abs=1e-3)
    assert found["clipping x: above"].value == pytest.approx((FRAME["x"] > 4).mean(), abs=1e-3)
    assert found["mean x"].value == pytest.approx(FRAME["x"].clip(1, 4).mean(), rel=1e-3)
    plain, clipped = (
        md.private_release(
            FRAME, "mean@x", lower={"x": 1.0}, upper={"x": 4.0}, population="census",
            noise_multiplier=1.0, delta=1e-6, seed=1, ranges=md.types.Ranges(report_clipping=share),
        )
        for share in (None, 0.19)
    )  # fmt: skip
    more = clipped.standard_error / plain.standard_error
    assert more == pytest.approx(1.0 / math.sqrt(0.81), rel=1e-6)


def test_statistics_of_the_bootstrap_will_do() -> None:
    wanted = [
        md.types.Mean(columns=("x",)),
        md.types.Quantile(0.9, columns=("x",)),
        md.types.Proportion(above=2.0),
    ]
    found = md.private_release(FRAME[["x"]], wanted, lower=0, upper=10, **QUIET)
    names = [one.statistic for one in found.estimates]
    assert names == ["mean", "quantile:0.9", "proportion:>2"]
    on_a_grid = md.private_release(FRAME, md.types.Quantile(0.9, grid=7), **LIMITS, **QUIET)
    assert {one.statistic for one in on_a_grid.estimates} == {"quantile:0.9"}


def test_what_was_estimated_is_said() -> None:
    found = quiet("mean@x", by="kind", groups=["a"])
    assert found.estimates[0].description == "mean of x clipped to [0, 10] where kind is a"
