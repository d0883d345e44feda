"""Groups within strata: values by the formulas of survey sampling, and coverage."""

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
PEOPLE["x"] = np.clip(
    40 + 10 * SMALL + 5 * (PEOPLE["sex"] == "M") + RNG.normal(0, 10, SIZE), 0, 100
)
SHARES = PEOPLE["stratum"].value_counts(normalize=True).to_dict()
GIVEN: dict[str, Any] = {
    "columns": ["x"], "lower": 0, "upper": 100, "strata": "stratum", "stratum_shares": SHARES,
    "population": SIZE, "by": "sex", "groups": ["M", "F"], "complete": True, "delta": 1e-6,
}  # fmt: skip
ASKED = ("mean", "count", "sum", "proportion:>50")


def sample(rng: np.random.Generator) -> pd.DataFrame:
    """As many of each stratum, so that shares of the sample are not those of the population."""
    each = (
        own.iloc[rng.choice(len(own), 600, replace=False)] for _, own in PEOPLE.groupby("stratum")
    )
    return pd.concat(each)


def released(frame: pd.DataFrame, noise: float, seed: int, **more: Any) -> Any:
    with pytest.warns(md.types.SeededRelease):
        return md.private_release(
            frame, ASKED, noise_multiplier=noise, seed=seed, **{**GIVEN, **more}
        )


def test_values_are_those_of_survey_sampling() -> None:
    frame = sample(np.random.default_rng(1))
    result = released(frame, 1e-4, 1, total=True)
    weight = frame["stratum"].map(SHARES) * SIZE / 600
    women = frame["sex"] == "F"
    total = float((weight * women).sum())
    summed = float((weight * women * frame["x"]).sum())
    assert result["count (F)"].value == pytest.approx(total, rel=1e-4)
    assert result["sum x (F)"].value == pytest.approx(summed, rel=1e-4)
    assert result["mean x (F)"].value == pytest.approx(summed / total, rel=1e-4)
    above = float((weight * women * (frame["x"] > 50)).sum()) / total
    assert result["proportion:>50 x (F)"].value == pytest.approx(above, abs=1e-4)
    # The variance of a domain's mean, by the influences of all records of the strata.
    z = np.where(women, frame["x"] - summed / total, 0.0) * SIZE / total
    parts = [
        SHARES[one] ** 2 * (1 - 600 / (SHARES[one] * SIZE)) * own.var() / 600
        for one, own in pd.Series(z).groupby(frame["stratum"].to_numpy())
    ]
    assert result["mean x (F)"].standard_error == pytest.approx(np.sqrt(sum(parts)), rel=2e-3)
    assert result["count (total)"].value == SIZE
    everybody = float((weight * frame["x"]).sum()) / SIZE
    assert result["mean x (total)"].value == pytest.approx(everybody, rel=1e-4)


def test_intervals_cover() -> None:
    women = PEOPLE[PEOPLE["sex"] == "F"]
    truths = {
        "mean x (F)": women["x"].mean(),
        "count (F)": len(women),
        "sum x (F)": women["x"].sum(),
        "proportion:>50 x (F)": (women["x"] > 50).mean(),
    }
    rng, runs = np.random.default_rng(5), 150
    hits, wrong = dict.fromkeys(truths, 0), dict.fromkeys(truths, 0)
    for seed in range(runs):
        result = released(sample(rng), 6.0, seed)
        for label, truth in truths.items():
            one = result[label]
            hits[label] += one.interval[0] <= truth <= one.interval[1]
            far = truth + 4.0 * one.standard_error
            wrong[label] += one.interval[0] <= far <= one.interval[1]
    assert all(accepted(one, runs) for one in hits.values()), hits
    assert all(one < 0.1 * runs for one in wrong.values()), wrong


def test_comparisons_take_the_worst() -> None:
    result = released(sample(np.random.default_rng(1)), 3.0, 1)
    one, other = (result[f"mean x ({sex})"] for sex in ("F", "M"))
    found = result.contrast("F", "M", statistic="mean")
    assert found.value == one.value - other.value
    assert found.standard_error > np.hypot(one.standard_error, other.standard_error)
    assert np.isnan(result.covariance("mean")[0, 1])


def test_small_groups_are_not_known() -> None:
    frame = sample(np.random.default_rng(1))
    result = released(frame, 5000.0, 1)
    assert not result["mean x (F)"].known


@pytest.mark.parametrize(
    ("statistic", "more", "match"),
    [
        ("median", {}, "for groups within strata"),
        ("sd", {}, "for groups within strata"),
        ("mean", {"consistent": True}, "must not be given with consistent"),
        ("mean", {"by": "stratum", "groups": ["a"]}, "another column than strata"),
        ("count", {"population": None}, "population must be a number"),
    ],
)
def test_bad_input(statistic: str, more: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidParameter, match=match):
        md.private_release(PEOPLE, statistic, noise_multiplier=3.0, **{**GIVEN, **more})
