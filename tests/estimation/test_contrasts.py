"""Contrasts: their errors by simulation, their tests by their level, and bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import mustdp as md
from mustdp.errors import InvalidParameter
from tests.estimation.release.simulated import accepted

SEX, REGION = ["Male", "Female"], ["north", "south"]
GROUPS: dict[str, Any] = {
    "by": ["sex", "region"],
    "groups": md.types.Groups({"sex": SEX, "region": REGION}, complete=True),
    "total": True,
}


def people(rng: np.random.Generator, n: int = 900, apart: float = 3.0) -> pd.DataFrame:
    sex = rng.choice(SEX, n, p=[0.6, 0.4])
    hours = rng.normal(np.where(sex == "Male", 40.0 + apart, 40.0), 10.0)
    return pd.DataFrame(
        {"sex": sex, "region": rng.choice(REGION, n), "hours": np.clip(hours, 0, 80)}
    )


def released(
    frame: pd.DataFrame, seed: int, *statistics: str, noise: float = 8.0, **more: Any
) -> Any:
    with pytest.warns(md.types.SeededRelease):
        return md.private_release(
            frame, statistics or ("mean",), columns=["hours"], lower=0, upper=80,
            noise_multiplier=noise, delta=1e-6, seed=seed, **{**GROUPS, **more},
        )  # fmt: skip


def test_without_noise_it_is_the_usual_test() -> None:
    frame = people(np.random.default_rng(1))
    found = released(frame, 1, noise=1e-4).contrast("Male", "Female", statistic="mean")
    apart = [frame.loc[frame["sex"] == one, "hours"] for one in SEX]
    usual = stats.ttest_ind(*apart, equal_var=False)
    assert found.value == pytest.approx(apart[0].mean() - apart[1].mean(), abs=1e-3)
    assert found.standard_error == pytest.approx(
        math.sqrt(sum(one.var() / len(one) for one in apart)), rel=1e-3
    )
    assert found.p_value == pytest.approx(usual.pvalue, rel=0.2)
    ratio = released(frame, 1, noise=1e-4).contrast("Male", "Female", kind="ratio")
    assert ratio.value == pytest.approx(apart[0].mean() / apart[1].mean(), abs=1e-4)
    assert ratio.interval[0] < ratio.value < ratio.interval[1]


@pytest.mark.parametrize("consistent", [False, True])
def test_contrasts_cover_and_tests_keep_their_level(consistent: bool) -> None:
    """Cells, margins and a part against the whole; wrong values are refuted."""
    rng, runs, rejected, power = np.random.default_rng(4), 120, 0, 0
    pairs = {("Male", "Female"): 3.0, ("Male, north", "Female, north"): 3.0,
             ("Male", "total"): 1.2, ("north", "south"): 0.0}  # fmt: skip
    hits = dict.fromkeys(pairs, 0)
    wrong = 0
    for seed in range(runs):
        result = released(people(rng), seed, noise=4.0, consistent=consistent)
        for pair, truth in pairs.items():
            found = result.contrast(*pair, statistic="mean")
            hits[pair] += found.interval[0] <= truth <= found.interval[1]
            wrong += found.interval[0] <= truth + 4.5 * found.standard_error <= found.interval[1]
        rejected += result.contrast("north", "south").p_value < 0.05
        power += result.contrast("Male", "Female").p_value < 0.05
    assert all(accepted(one, runs) for one in hits.values()), hits
    assert stats.binom.sf(rejected - 1, runs, 0.05) > 1e-4
    assert power > 0.5 * runs
    assert wrong < 0.05 * runs


def test_errors_of_differences_are_those_that_occur() -> None:
    """Of the noise alone, which agreement makes correlated: one data set, many releases."""
    frame = people(np.random.default_rng(7))
    pairs = [("Male, north", "Female, north"), ("Male, north", "Male"), ("Male", "total")]
    differences: dict[Any, list[float]] = {pair: [] for pair in pairs}
    errors: dict[Any, list[float]] = {pair: [] for pair in pairs}
    for seed in range(300):
        result = released(frame, seed, "sum", noise=20.0, consistent=True)
        for pair in pairs:
            one = result.contrast(*pair)
            differences[pair].append(one.value)
            errors[pair].append(one.standard_error * math.sqrt(one.noise_share))
    for pair in pairs:
        # A variance of 300 normal numbers is within a quarter of the truth, by far.
        assert np.std(differences[pair]) == pytest.approx(np.mean(errors[pair]), rel=0.15), pair


def test_covariances_are_those_that_occur() -> None:
    rng = np.random.default_rng(9)
    found, said = [], []
    for seed in range(300):
        result = released(people(rng, 400), seed, "count", noise=15.0, consistent=True)
        found.append([one.value for one in result.estimates])
        said.append(result.covariance("count"))
    measured, stated = np.cov(np.array(found).T), np.mean(said, axis=0)
    known = np.isfinite(stated)
    scale = np.sqrt(np.outer(np.diag(measured), np.diag(measured)))
    # Correlations are within five of their errors of 1 / sqrt(300).
    off = np.abs(measured - stated)[known] / np.maximum(scale[known], 1e-9)
    assert off[scale[known] > 1e-6].max() < 0.3
    assert known[:8, :8].sum() >= 40


def test_several_tests_are_adjusted() -> None:
    result = released(people(np.random.default_rng(2)), 3)
    pairs = [("Male", "Female"), ("north", "south"), ("Male, north", "Female, north")]
    plain = result.contrasts(pairs, adjust="none")
    holm, bonferroni = (result.contrasts(pairs, adjust=how) for how in ("holm", "bonferroni"))
    for one, other, last in zip(plain, holm, bonferroni, strict=True):
        assert one.p_value <= other.p_value <= last.p_value == min(1.0, 3 * one.p_value)
        assert one.width < other.width == last.width
    assert plain[0] == result.contrast("Male", "Female")


def test_changes_between_releases() -> None:
    rng = np.random.default_rng(6)
    early, late = released(people(rng), 1), released(people(rng, apart=6.0), 2)
    found = late.change(early, "Male", statistic="mean")
    one, other = (each["mean hours (Male)"] for each in (late, early))
    assert found.value == one.value - other.value
    assert found.standard_error == pytest.approx(
        math.hypot(one.standard_error, other.standard_error)
    )
    overlapping = late.change(early, "Male", same_people=True)
    assert overlapping.standard_error > found.standard_error
    assert late.change(early, {"sex": "Male"}, kind="ratio").value == one.value / other.value


def test_quantiles_and_clusters_take_the_worst() -> None:
    frame = people(np.random.default_rng(8))
    result = released(frame, 1, "median", consistent=True)
    found = result.contrast("Male", "Female")
    one, other = (result[f"median hours ({sex})"] for sex in SEX)
    least = math.hypot(one.standard_error, other.standard_error)
    assert least < found.standard_error <= one.standard_error + other.standard_error
    frame["home"] = np.arange(len(frame)) // 2
    result = released(frame, 1, survey=md.types.Survey(cluster="home", largest_cluster=2))
    found = result.contrast("Male", "Female")
    one, other = (result[f"mean hours ({sex})"] for sex in SEX)
    assert found.standard_error > math.hypot(one.standard_error, other.standard_error)


def test_bad_input() -> None:
    result = released(people(np.random.default_rng(8)), 1, "mean", "sd")
    for given, match in (
        ({"first": "Nobody", "statistic": "mean"}, "group must be one of"),
        ({}, "statistic must name one of"),
        ({"statistic": "median"}, "statistic must name one of"),
        ({"second": "Male", "statistic": "mean"}, "must be another group"),
        ({"second": "north", "statistic": "mean"}, "overlap in part"),
        ({"statistic": "mean", "kind": "product"}, "kind"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            result.contrast(**{"first": "Male", "second": "Female", **given})
    with pytest.raises(InvalidParameter, match="at least one pair"):
        result.contrasts([], statistic="mean")


def test_quantiles_of_a_part_and_the_whole_vary_nearly_apart() -> None:
    """All of the part is below the quantile of the whole, so that both are independent."""
    rng, missed = np.random.default_rng(3), 0
    for seed in range(60):
        inside = rng.random(1000) < 0.85
        hours = np.where(inside, rng.uniform(0, 40, 1000), rng.uniform(48, 53.5, 1000))
        frame = pd.DataFrame({"sex": np.where(inside, *SEX), "hours": hours})
        result = released(frame, seed, "quantile:0.9", noise=1e-3, by="sex", groups={"sex": SEX})
        low, high = result.contrast("Male", "total").interval
        missed += not low <= 36.0 - (48.0 + 5.5 / 3.0) <= high
    assert missed <= 9  # by chance once in a thousand at the stated level; 26 with n_t / n_s


@pytest.mark.parametrize("statistic", ["variance", "gini", "quantile:0.5"])
def test_a_part_of_the_whole_is_not_taken_for_a_mean(statistic: str) -> None:
    """Only for averages the errors of the part take off those of the whole."""
    result = released(people(np.random.default_rng(4)), 5, statistic)
    part, whole = (
        next(one for one in result.estimates if one.group == group) for group in ("Male", "total")
    )
    found = result.contrast("Male", "total").standard_error
    assert found >= math.hypot(part.standard_error, whole.standard_error) * (1 - 1e-9)


@pytest.mark.filterwarnings("ignore")
def test_no_p_value_is_0() -> None:
    frame = pd.DataFrame(
        {"x": np.r_[np.zeros(5000), np.ones(5000)], "g": ["a"] * 5000 + ["b"] * 5000}
    )
    result = md.private_release(
        frame, "mean", columns="x", lower=0, upper=1, by="g", groups=["a", "b"],
        noise_multiplier=1.0, delta=1e-6, seed=1,
    )  # fmt: skip
    assert 0.0 < result.contrast("a", "b").p_value < 1e-300
