"""Functions of a distribution: values and errors against other routes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mustdp as md

pytestmark = pytest.mark.filterwarnings("ignore::mustdp.types.SeededRelease")

NAMES = ("gini", "trimmed-mean:0.1", "winsorised-mean:0.05", "quantile-ratio:0.9/0.1")


def by_sorting(name: str, values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """The same from sorted values, without any distribution function."""
    x = np.sort(values)
    n, ranks = len(x), np.arange(len(x))

    def quantile(p: float) -> float:
        return float(x[math.ceil(p * n - 1e-9) - 1])

    if name == "gini":
        return float(np.abs(x[:, None] - x).mean() / (2.0 * x.mean()))
    if name == "trimmed-mean:0.1":
        weights = np.clip(np.minimum(ranks + 1 - 0.1 * n, 0.9 * n - ranks), 0.0, 1.0)
        return float(weights @ x / weights.sum())
    if name == "winsorised-mean:0.05":
        return float(np.clip(x, quantile(0.05), quantile(0.95)).mean())
    return quantile(0.9) / quantile(0.1)


def released(
    name: str, values: np.ndarray[Any, np.dtype[np.float64]], epsilon: float, seed: int, **more: Any
) -> md.types.ReleasedEstimate:
    arguments = {"lower": 0.0, "upper": 100.0, "delta": 1e-6, **more}
    return md.private_release(values, [name], epsilon=epsilon, seed=seed, **arguments).estimates[0]


@pytest.mark.parametrize("name", NAMES)
def test_with_hardly_any_noise_it_is_the_value_of_the_sorted_records(name: str) -> None:
    values = np.random.default_rng(4).gamma(4.0, 8.0, 1500).round().clip(1.0, 100.0)
    found = released(name, values, 500.0, 1)
    assert found.value == pytest.approx(by_sorting(name, values), rel=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_values_between_grid_points_are_placed_in_the_middle(name: str) -> None:
    values = np.random.default_rng(4).gamma(4.0, 900.0, 1500).clip(0.0, 12345.0)
    found = released(name, values, 500.0, 1, upper=12345.0)
    # The winsorised mean and the ratio take quantiles, which are looked at in steps of 12.
    assert found.value == pytest.approx(by_sorting(name, values), rel=5e-3)


@pytest.mark.parametrize("name", NAMES[:2])
@pytest.mark.parametrize("missing", [False, True])
def test_the_error_of_the_noise_is_that_of_repeated_releases(name: str, missing: bool) -> None:
    """At level 1e-3: a standard deviation of 60 values is within 30 % of the truth."""
    values = np.random.default_rng(4).gamma(4.0, 8.0, 800).round().clip(0.0, 100.0)
    if missing:
        values[::7] = np.nan
    many = [
        released(name, values, 1.0, seed, missing="drop", columns=md.types.Columns(whole="0"))
        for seed in range(60)
    ]
    spread = float(np.std([one.value for one in many], ddof=1))
    said = float(np.median([one.standard_error * math.sqrt(one.noise_share) for one in many]))
    assert spread == pytest.approx(said, rel=0.3)


@pytest.mark.parametrize("name", NAMES[:2])
def test_the_error_of_sampling_is_that_of_repeated_samples(name: str) -> None:
    rng = np.random.default_rng(4)
    many = [
        released(
            name,
            rng.gamma(4.0, 8.0, 600).round().clip(0.0, 100.0),
            500.0,
            1,
            columns=md.types.Columns(whole="0"),
        )
        for _ in range(60)
    ]
    spread = float(np.std([one.value for one in many], ddof=1))
    assert spread == pytest.approx(float(np.median([one.standard_error for one in many])), rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [0.3, 5.0])
def test_intervals_cover(name: str, epsilon: float) -> None:
    """At least 47 of 60: an interval of 93 % has fewer with a chance of 1e-4."""
    rng = np.random.default_rng(8)
    people = rng.gamma(4.0, 8.0, 3000).round().clip(1.0, 100.0)
    true, hits = by_sorting(name, people), 0
    for seed in range(60):
        low, high = released(name, rng.choice(people, 1500), epsilon, seed).interval
        hits += low <= true <= high
    assert hits >= 47


def test_an_interval_does_not_shrink_to_a_point_beside_the_truth() -> None:
    values = np.zeros(2000)
    values[:60] = 80.0
    low, high = released("trimmed-mean:0.1", values, 5.0, 2).interval
    assert low <= 0.0 <= high


def test_they_share_one_curve_with_quantiles() -> None:
    values = np.random.default_rng(4).gamma(4.0, 8.0, 800).round().clip(1.0, 100.0)
    arguments: dict[str, Any] = {
        "lower": 0.0, "upper": 100.0, "epsilon": 1.0, "delta": 1e-6, "seed": 3,
    }  # fmt: skip
    alone = md.private_release(values, ["gini"], **arguments).estimates[0]
    both = md.private_release(values, ["gini", "trimmed-mean:0.1"], **arguments).estimates[0]
    assert both == alone


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("trimmed-mean:0.5", "must be"),
        ("trimmed-mean:nan", "must have a number"),
        ("winsorised-mean", "must be one of"),
        ("quantile-ratio:0.1/0.9", "upper must be"),
        ("quantile-ratio:0.9", "must be one of"),
    ],
)
def test_bad_shares_are_refused(name: str, said: str) -> None:
    with pytest.raises(md.InvalidParameter, match=said):
        released(name, np.ones(10), 1.0, 1)


@pytest.mark.parametrize("name", ["gini", "quantile-ratio:0.9/0.1"])
def test_ranges_below_zero_are_refused(name: str) -> None:
    with pytest.raises(md.InvalidParameter, match="lower must be at least 0"):
        released(name, np.ones(10), 1.0, 1, lower=-1.0)


def test_designs_without_proven_errors_are_refused() -> None:
    values = np.ones((40, 2))
    with pytest.raises(md.InvalidParameter, match="clusters"):
        md.private_release(
            values,
            ["gini@0"],
            lower=0.0,
            upper=1.0,
            epsilon=1.0,
            delta=1e-6,
            survey=md.types.Survey(cluster="1", largest_cluster=3),
        )
