"""The geometric mean is scipy's, in every setting; what is true of all statistics is tested in
``test_conformance.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gmean

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.types import GeometricMean
from tests.seams import subset_schema

LOW, HIGH = 3.0, 70.0
RNG = np.random.default_rng(3)
TABLE = pd.DataFrame(
    {
        "x": np.exp(RNG.normal(2.5, 0.9, 3000)),
        "group": np.arange(3000) % 2,
        "weight": RNG.uniform(0.2, 2.0, 3000),
        "household": np.arange(3000) // 3,
    }
).astype({"group": str})
TABLE.loc[TABLE["group"] == "1", "x"] *= 2.0
CLIPPED = TABLE["x"].clip(LOW, HIGH)


def released(*statistics: str, **given: Any) -> Any:
    """With next to no noise."""
    return md.private_release(
        TABLE, statistics, columns=["x"], lower=LOW, upper=HIGH, noise_multiplier=1e-3, delta=1e-6,
        **given,
    )  # fmt: skip


def strata() -> float:
    first, second = (gmean(CLIPPED[TABLE["group"] == one]) for one in "01")
    return float(first**0.9 * second**0.1)


SHARES = {"survey": md.types.Survey(strata="group", stratum_shares={"0": 0.9, "1": 0.1})}
WEIGHTS = {"survey": md.types.Survey(weights="weight", largest_weight=2.0)}
SETTINGS: dict[str, tuple[dict[str, Any], float]] = {
    "plain": ({}, gmean(CLIPPED)),
    "add-remove": ({"relation": "add_remove"}, gmean(CLIPPED)),
    "weights": (WEIGHTS, gmean(CLIPPED, weights=TABLE["weight"])),
    "strata": (SHARES, strata()),
    "clusters": (
        {"survey": md.types.Survey(cluster="household", largest_cluster=3)},
        gmean(CLIPPED),
    ),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_release_has_the_value_of_scipy(setting: str) -> None:
    given, truth = SETTINGS[setting]
    [found] = released("geometric-mean", **given).estimates
    assert found.value == pytest.approx(truth, rel=1e-4)


def test_it_is_not_mixed_up_with_moments_of_the_same_column() -> None:
    found = [one.value for one in released("mean", "geometric-mean", "sd").estimates]
    assert found == pytest.approx([CLIPPED.mean(), gmean(CLIPPED), CLIPPED.std()], rel=1e-3)


def test_the_error_is_that_of_the_delta_method() -> None:
    [found] = released("geometric-mean").estimates
    error = gmean(CLIPPED) * np.log(CLIPPED).std() / math.sqrt(len(CLIPPED))
    assert found.standard_error == pytest.approx(error, rel=1e-3)


@pytest.mark.parametrize("poisson", [False, True])
def test_a_subset_has_the_value_of_scipy(poisson: bool) -> None:
    values = CLIPPED.to_numpy()[:40, None]
    query = GeometricMean().query(subset_schema([LOW], [HIGH], 40, poisson=poisson))
    found = query.estimate(query.evaluate(values, np.ones(40, dtype=np.int64)))
    assert found == pytest.approx(gmean(values), rel=1e-12)


def test_where_nothing_is_known_the_interval_is_the_range_itself() -> None:
    [found] = md.private_release(
        TABLE[:3], "geometric-mean", columns=["x"], lower=10.0, upper=HIGH, relation="add_remove",
        noise_multiplier=50.0, delta=1e-6,
    ).estimates  # fmt: skip
    assert not found.known
    assert found.interval == (10.0, HIGH)  # exp(log(10)) is above 10


@pytest.mark.parametrize("columns", [["x"], None])
def test_ranges_are_refused_before_data_are_read(columns: list[str] | None) -> None:
    class Unread:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError

    given: dict[str, Any] = {"lower": 0.0, "upper": HIGH, "noise_multiplier": 5.0, "delta": 1e-6}
    with pytest.raises(InvalidParameter, match=r"^lower must be above 0 for geometric-mean, got 0"):
        md.private_bootstrap(
            Unread(), "geometric-mean", columns=columns, design=md.wor(99, 9), replicates=9, **given
        )
    if columns is not None:  # else the names of the columns are asked of the data
        with pytest.raises(InvalidParameter, match=r"^lower must be above 0 for geometric-mean"):
            md.private_release("no such file.csv", "geometric-mean", columns=columns, **given)
    with pytest.raises(InvalidParameter, match="must be farther apart in proportion"):
        GeometricMean().query(subset_schema([1e15], [1e15 + 1.0], 40))
