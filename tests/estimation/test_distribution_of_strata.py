"""Gini's coefficient, means without tails and ratios of quantiles over strata, and in groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from tests.estimation.release.simulated import accepted

RNG = np.random.default_rng(0)
SIZE = 20_000
PEOPLE = pd.DataFrame({"stratum": RNG.choice(["a", "b"], SIZE, p=[0.8, 0.2])})
SMALL = PEOPLE["stratum"] == "b"
PEOPLE["sex"] = np.where(RNG.random(SIZE) < np.where(SMALL, 0.8, 0.4), "F", "M")
PEOPLE["x"] = np.round(np.clip(RNG.gamma(4, np.where(SMALL, 11, 7), SIZE), 0, 100))
SHARES: Any = PEOPLE["stratum"].value_counts(normalize=True).to_dict()
BY: dict[str, Any] = {"by": "sex", "groups": md.types.Groups(["F", "M"], complete=True)}
GIVEN: dict[str, Any] = {
    "columns": md.types.Columns(["x"], whole=["x"]),
    "lower": 0,
    "upper": 100,
    "population": SIZE,
    "delta": 1e-6,
}
ASKED = ("gini", "trimmed-mean:0.1", "winsorised-mean:0.1", "quantile-ratio:0.8/0.2")
pytestmark = pytest.mark.filterwarnings("ignore")


def truth(x: Any) -> dict[str, float]:
    values = np.sort(np.asarray(x, dtype=float))
    n = len(values)
    low, high = (np.quantile(values, p, method="inverted_cdf") for p in (0.1, 0.9))
    top, bottom = (np.quantile(values, p, method="inverted_cdf") for p in (0.8, 0.2))
    rank = np.arange(1, n + 1)
    return {
        "gini": float(((2 * rank - n - 1) @ values) / (n * values.sum())),
        "trimmed-mean:0.1": float(values[int(0.1 * n) : n - int(0.1 * n)].mean()),
        "winsorised-mean:0.1": float(np.clip(values, low, high).mean()),
        "quantile-ratio:0.8/0.2": float(top / bottom),
    }


def sample(rng: np.random.Generator) -> pd.DataFrame:
    """As many of each stratum, so that shares of the sample are not those of the population."""
    each = (
        own.iloc[rng.choice(len(own), 600, replace=False)] for _, own in PEOPLE.groupby("stratum")
    )
    drawn = pd.concat(each)
    return drawn.assign(w=rng.choice([1.0, 2.0], len(drawn)))


def released(frame: pd.DataFrame, noise: float, seed: int, weighted: bool, by: Any) -> Any:
    more: dict[str, Any] = {"weights": "w", "largest_weight": 2.0} if weighted else {}
    survey = md.types.Survey(strata="stratum", stratum_shares=SHARES, **more)
    result = md.private_release(
        frame, ASKED, noise_multiplier=noise, seed=seed, survey=survey, **GIVEN, **by
    )
    return [one for one in result.estimates if one.group in (None, "F")]


@pytest.mark.parametrize("by", [{}, BY], ids=["strata", "groups"])
@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_those_of_sampling(weighted: bool, by: dict[str, Any]) -> None:
    expected = truth(PEOPLE["x"][PEOPLE["sex"] == "F"] if by else PEOPLE["x"])
    rng, runs = np.random.default_rng(2), 120
    found = [released(sample(rng), 1e-3, 1, weighted, by) for _ in range(runs)]
    for k, (name, value) in enumerate(expected.items()):
        values = np.array([row[k].value for row in found])
        errors = np.array([row[k].standard_error for row in found])
        assert values.mean() == pytest.approx(value, rel=0.02), name
        if name.startswith("quantile"):
            continue  # between grid points: wider than sampling makes it
        # The errors of both cuts are added to those of a winsorised mean, whatever they share.
        most = 1.4 if name.startswith("winsorised") else 1.2
        assert 0.86 < errors.mean() / values.std() < most, name


@pytest.mark.parametrize("by", [{}, BY], ids=["strata", "groups"])
def test_intervals_cover(by: dict[str, Any]) -> None:
    expected = truth(PEOPLE["x"][PEOPLE["sex"] == "F"] if by else PEOPLE["x"])
    rng, runs = np.random.default_rng(3), 120
    hits, wrong = np.zeros(len(ASKED)), np.zeros(len(ASKED))
    for seed in range(runs):
        for k, one in enumerate(released(sample(rng), 3.0, seed, False, by)):
            value = expected[one.statistic]
            hits[k] += one.interval[0] <= value <= one.interval[1]
            far = value + 4.5 * one.standard_error
            wrong[k] += one.interval[0] <= far <= one.interval[1]
    assert all(accepted(int(one), runs) or one >= 0.95 * runs for one in hits), hits
    assert (wrong < 0.1 * runs).all(), wrong


def test_noise_is_in_the_errors() -> None:
    """The same records again and again: what is left is the noise."""
    frame, runs = sample(np.random.default_rng(1)), 150
    for by in ({}, BY):
        found = [released(frame, 6.0, seed, False, by) for seed in range(runs)]
        for k in range(3):
            values = np.array([row[k].value for row in found])
            noise = np.array([row[k].standard_error ** 2 * row[k].noise_share for row in found])
            most = 1.8 if k == 2 else 1.35
            assert 0.75 < np.sqrt(np.nanmedian(noise)) / np.nanstd(values) < most, ASKED[k]


@pytest.mark.parametrize("statistic", ASKED[:3])
def test_clusters_are_refused(statistic: str) -> None:
    survey = md.types.Survey(cluster="sex", largest_cluster=3)
    with pytest.raises(InvalidParameter, match="with clusters"):
        md.private_release(PEOPLE, statistic, noise_multiplier=1.0, survey=survey, **GIVEN)
