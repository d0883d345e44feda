"""Intervals cover what they are said to be of: missing values, few clusters, strata with clusters.

A few hundred simulated data sets each, with noise. Every check accepts the truth, at a coverage of
at least 93 %, and rejects a value that is one and a half standard errors off.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import mustdp as md
from mustdp.estimation.result import fieller_interval, released_spread, satterthwaite
from mustdp.types import ReleasedEstimate
from tests.estimation.release.simulated import accepted, covered, public, released

pytestmark = pytest.mark.filterwarnings("ignore::mustdp.types.SeededRelease")
RUNS, OFF = 400, 1.5
N, KEPT = 400, 0.8


def column(seed: int) -> Any:
    """Values between 1/2 and 1, a fifth of them missing."""
    rng = np.random.default_rng([seed, 1])
    return np.where(rng.random(N) < KEPT, rng.uniform(0.5, 1.0, N), np.nan)


def check(one: Any, truth: float) -> None:
    right, wrong = covered(RUNS, one, truth, OFF)
    assert accepted(right, RUNS), right
    assert not accepted(wrong, RUNS), wrong


@pytest.mark.parametrize("noise", [0.5, 8.0])
@pytest.mark.parametrize("asked", ["count", "sum"])
def test_missing_values_were_sampled_too(asked: str, noise: float) -> None:
    schema = public(dropped=True)

    def one(seed: int) -> ReleasedEstimate:
        return released(schema, column(seed), [asked], noise, [seed, 2])[0]

    check(one, N * KEPT * (0.75 if asked == "sum" else 1.0))


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("kept", [0.8, 1.0])
def test_the_count_at_hand_is_within_the_noise(relation: str, kept: float) -> None:
    """Also where nothing is missing: the share of all records is no certain one."""
    schema, hits = public(dropped=True, relation=relation), 0
    for seed in range(RUNS):
        rng = np.random.default_rng([seed, 3])
        x = np.where(rng.random(N) < kept, 0.5, np.nan)
        (found,) = released(schema, x, ["count"], 8.0, [seed, 4])
        here = float(np.isfinite(x).sum())
        hits += found.interval[0] <= here <= found.interval[1]
        if relation == "replace_one":
            assert 0.0 <= found.interval[0] <= found.value <= found.interval[1] <= N
    assert accepted(hits, RUNS, 0.945)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_numbers_of_groups_are_within_the_noise(relation: str) -> None:
    """Of an empty group and of one that holds all records, where a binomial law has no variance."""
    groups: dict[str, Any] = {"by": "kind", "groups": ["all", "none"], "relation": relation}
    schema, hits = public(**groups), np.zeros(2)
    for seed in range(RUNS):
        found = released(schema, np.full(N, 0.5), ["count"], 8.0, [seed, 5])
        for k, here in enumerate((N, 0)):
            low, high = found[k].interval
            hits[k] += low <= here <= high
            assert high - low > found[k].standard_error
            noise = math.sqrt(found[k].noise_share) * found[k].standard_error
            most = N if relation == "replace_one" else math.inf
            assert high >= min(found[k].value + 1.95 * noise, most)
            assert low <= max(found[k].value - 1.95 * noise, 0.0)
    assert all(accepted(int(own), RUNS, 0.945) for own in hits), hits


def clustered_values(seed: int, clusters: int, size: int) -> tuple[Any, Any]:
    """Records of a cluster have one centre."""
    rng = np.random.default_rng([seed, clusters, 6])
    homes = np.repeat(np.arange(clusters), size)
    return (0.5 + 0.1 * rng.normal(size=clusters))[homes] + 0.03 * rng.normal(
        size=len(homes)
    ), homes


@pytest.mark.parametrize("unit", ["record", "cluster"])
@pytest.mark.parametrize(("clusters", "asked", "truth"), [
    (8, "mean", 0.5), (8, "sum", 200.0), (12, "proportion:>0.5", 0.5), (12, "histogram:2", 300.0),
])  # fmt: skip
def test_few_clusters(unit: str, clusters: int, asked: str, truth: float) -> None:
    """With normal quantiles 8 clusters cover in 88 to 90 % of all data sets."""
    schema = public(largest_cluster=50, whole_clusters=unit == "cluster")

    def one(seed: int) -> ReleasedEstimate:
        x, homes = clustered_values(seed, clusters, 50)
        return released(schema, x, [asked], 0.01, [seed, 7], clusters=homes)[0]

    check(one, truth)


@pytest.mark.parametrize("asked", ["mean", "proportion:>0.5", "sd"])
def test_strata_with_few_clusters(asked: str) -> None:
    """Four clusters in each of two strata; shares of the strata are public."""
    schema = public(
        largest_cluster=50, by="kind", groups=["a", "b"], shares=(0.5, 0.5), population=None
    )
    truth = {"mean": 0.5, "proportion:>0.5": 0.5, "sd": math.hypot(0.1, 0.03)}[asked]
    per = 16 if asked == "sd" else 5

    def one(seed: int) -> ReleasedEstimate:
        x, homes = clustered_values(seed, 2 * per, 50)
        slots = (homes >= per).astype(np.int64)
        return released(schema, x, [asked], 0.01, [seed, 8], slots=slots, clusters=homes)[0]

    right, wrong = covered(RUNS, one, truth, OFF)
    assert accepted(right, RUNS, 0.92), right
    assert not accepted(wrong, RUNS), wrong


def test_degrees_of_freedom_are_those_of_clusters_less_the_noise() -> None:
    """Few clusters say little about sampling; where noise is most of it that matters little."""
    schema = public(largest_cluster=50)
    x, homes = clustered_values(0, 12, 50)
    for found in released(schema, x, ["mean", "sum"], 0.001, [1, 9], clusters=homes):
        half = 0.5 * found.width / found.standard_error
        assert half == pytest.approx(2.201, rel=0.02)  # t of 11
    for noise, quantile in ((0.0, 2.201), (1.0, 2.015), (99.0, 1.960)):
        judge = released_spread(1.0, 0.0, noise, doubt=2.0 / 11.0)
        assert judge.quantile(0.95) == pytest.approx(quantile, abs=0.001)
    assert satterthwaite([(1.0, 5.0), (1.0, 5.0), (0.0, 1.0)]) == pytest.approx(10.0)
    assert satterthwaite([(1.0, math.inf)]) == math.inf


@pytest.mark.parametrize("unit", ["record", "cluster"])
def test_shares_of_few_clusters_take_the_quantile_of_t(unit: str) -> None:
    """Wilson's interval of as many independent records as tell as much, with 11 degrees."""
    schema = public(largest_cluster=50, whole_clusters=unit == "cluster")
    x, homes = clustered_values(3, 12, 50)
    (found,) = released(schema, x, ["proportion:>0.5"], 0.01, [1, 10], clusters=homes)
    p, effective = found.value, found.value * (1.0 - found.value) / found.standard_error**2
    share = np.bincount(homes, x > 0.5) / 50
    assert found.standard_error == pytest.approx(share.std(ddof=1) / math.sqrt(12), rel=0.02)
    square = 2.201**2 / effective
    half = math.sqrt(square * p * (1.0 - p) + 0.25 * square**2) / (1.0 + square)
    assert found.width == pytest.approx(2.0 * half, rel=0.02)


@pytest.mark.parametrize("asked", ["mean", "sum", "proportion:>0.5"])
def test_strata_of_few_clusters_take_the_quantile_of_t(asked: str) -> None:
    schema = public(largest_cluster=50, by="kind", groups=["a", "b"], shares=(0.5, 0.5),
                    population=10**9)  # fmt: skip
    x, homes = clustered_values(5, 12, 50)
    slots = (homes >= 6).astype(np.int64)
    (found,) = released(schema, x, [asked], 0.001, [1, 11], slots=slots, clusters=homes)
    values = (x > 0.5).astype(float) if "proportion" in asked else x
    parts = [np.bincount(homes, values)[k : k + 6] / 50 for k in (0, 6)]
    scale = 1e9 if asked == "sum" else 1.0
    variances = [0.25 * part.var(ddof=1) / 6 for part in parts]
    assert found.standard_error == pytest.approx(scale * math.sqrt(sum(variances)), rel=0.02)
    freedom = sum(variances) ** 2 / sum(own**2 / 5 for own in variances)
    quantile = float(stats.t.ppf(0.975, freedom))
    assert found.width / (2.0 * found.standard_error) == pytest.approx(quantile, rel=0.02)


@pytest.mark.parametrize(("top", "ends"), [(-50.0, (0.0, 0.196)), (140.0, (0.804, 1.0))])
def test_a_ratio_beyond_what_is_possible_is_judged_from_the_end(
    top: float, ends: tuple[float, float]
) -> None:
    """As it stands it would leave an interval of no width beside its standard error."""
    noise = np.array([[0.0, 0.0], [0.0, 100.0]])
    found = fieller_interval(
        top, 100.0, variance=(0.0, 0.0, 0.0), noise=noise, level=0.95, support=(0.0, 1.0)
    )
    assert found.ends == pytest.approx(ends, abs=1e-3)
    assert found.standard_error == pytest.approx(0.1)


def test_results_say_what_counts_and_sums_are_of() -> None:
    x = np.array([[0.5], [np.nan]] * 200)
    given: dict[str, Any] = {"lower": 0, "upper": 1, "noise_multiplier": 2.0, "delta": 1e-6}
    found = md.private_release(x, ["count", "sum"], missing="drop", seed=1, **given)
    assert found["count 0"].description == (
        "number of records that have 0 among 400 records drawn from the population"
    )
    assert found["sum 0"].description == (
        "sum of 0 clipped to [0, 1] among 400 records drawn from the population that have a value"
    )
    census = md.private_release(
        x, ["count", "sum"], missing="drop", seed=1, population="census", **given
    )
    assert census["count 0"].description == "number of records that have 0 at hand"
    assert census["count 0"].width < found["count 0"].width
    private = md.private_release(x, "count", missing="drop", relation="add_remove", seed=1, **given)
    assert private.estimates[0].description == "number of records that have 0 at hand"
