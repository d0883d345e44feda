"""The coefficient of variation is numpy's, in every setting; what is true of all statistics is
tested in ``test_conformance.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.types import CoefficientOfVariation
from tests.arrays import FloatArray
from tests.seams import subset_schema

LOW, HIGH = 2.0, 50.0
RNG = np.random.default_rng(4)
TABLE = pd.DataFrame(
    {
        "x": RNG.gamma(3.0, 5.0, 3000),
        "group": (np.arange(3000) % 2).astype(str),
        "weight": RNG.uniform(0.2, 2.0, 3000),
        "household": np.arange(3000) // 3,
    }
)
TABLE.loc[TABLE["group"] == "1", "x"] *= 2.0
CLIPPED = TABLE["x"].clip(LOW, HIGH).to_numpy()


def cv(values: FloatArray, weights: FloatArray | None = None) -> float:
    mean = float(np.average(values, weights=weights))
    return math.sqrt(float(np.average((values - mean) ** 2, weights=weights))) / mean


def released(*statistics: str, noise: float = 1e-3, **given: Any) -> Any:
    """With next to no noise."""
    return md.private_release(
        TABLE, statistics, columns=["x"], lower=LOW, upper=HIGH, noise_multiplier=noise,
        delta=1e-6, **given,
    )  # fmt: skip


SHARES = md.types.Survey(strata="group", stratum_shares={"0": 0.9, "1": 0.1})
WEIGHTS = md.types.Survey(weights="weight", largest_weight=2.0)
CLUSTERS = md.types.Survey(cluster="household", largest_cluster=3)
STRATA = np.where(TABLE["group"] == "0", 0.9, 0.1)  # both groups are of one size
SETTINGS: dict[str, tuple[dict[str, Any], float]] = {
    "plain": ({}, cv(CLIPPED)),
    "add-remove": ({"relation": "add_remove"}, cv(CLIPPED)),
    "weights": ({"survey": WEIGHTS}, cv(CLIPPED, TABLE["weight"].to_numpy())),
    "strata": ({"survey": SHARES}, cv(CLIPPED, STRATA)),
    "clusters": ({"survey": CLUSTERS}, cv(CLIPPED)),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_release_has_the_value_of_numpy(setting: str) -> None:
    given, truth = SETTINGS[setting]
    [found] = released("cv", **given).estimates
    assert found.value == pytest.approx(truth, rel=5e-4)  # divisors n - 1 and n


def test_groups_have_their_own() -> None:
    found = released("cv", by="group", groups=["0", "1"]).estimates
    truths = [cv(CLIPPED[TABLE["group"] == one]) for one in "01"]
    assert [one.value for one in found][:2] == pytest.approx(truths, rel=1e-3)


def test_it_is_the_ratio_of_what_is_released_beside_it() -> None:
    mean, sd, found = released("mean", "sd", "cv", noise=20.0).estimates
    assert found.value == pytest.approx(sd.value / mean.value, rel=1e-9)


def test_the_error_is_that_of_the_delta_method() -> None:
    [found] = released("cv").estimates
    mean, c = CLIPPED.mean(), cv(CLIPPED)
    psi = ((CLIPPED - mean) ** 2 / mean**2 - c**2 - 2.0 * c**2 * (CLIPPED - mean) / mean) / (2 * c)
    assert found.standard_error == pytest.approx(psi.std() / math.sqrt(3000), rel=1e-3)


@pytest.mark.parametrize("poisson", [False, True])
def test_a_subset_has_the_value_of_numpy(poisson: bool) -> None:
    values = CLIPPED[:40, None]
    query = CoefficientOfVariation().query(subset_schema([LOW], [HIGH], 40, poisson=poisson))
    found = query.estimate(query.evaluate(values, np.ones(40, dtype=np.int64)))
    assert found == pytest.approx(cv(values[:, 0]), rel=1e-9)


def test_the_range_bounds_it() -> None:
    most = (HIGH - LOW) / (2.0 * math.sqrt(LOW * HIGH))
    for share in np.linspace(0.0, 1.0, 101):
        values, weights = np.array([LOW, HIGH]), np.array([1.0 - share, share])
        assert cv(values, weights) <= most * (1.0 + 1e-12)
    assert cv(np.array([LOW, HIGH]), np.array([HIGH, LOW])) == pytest.approx(most)
    query = CoefficientOfVariation().query(subset_schema([LOW], [HIGH], 40))
    ((low, high),) = query.supports
    assert low == 0.0
    assert high == pytest.approx(most)


def test_a_mean_that_the_noise_hides_leaves_it_open() -> None:
    values = TABLE.assign(x=np.where(np.arange(3000) % 100 == 0, 1.0, 0.0))
    [found] = md.private_release(
        values, "cv", columns=["x"], lower=0.0, upper=50.0, noise_multiplier=200.0, delta=1e-6
    ).estimates
    assert not found.known
    assert found.interval == (0.0, math.inf)
    assert any("mean that is divided by" in flag for flag in found.flags)


def test_ranges_below_zero_are_refused_before_data_are_read() -> None:
    given: dict[str, Any] = {"lower": -1.0, "upper": 5.0, "noise_multiplier": 5.0, "delta": 1e-6}
    with pytest.raises(InvalidParameter, match=r"^lower must be at least 0 for cv, got -1"):
        md.private_release("no such file.csv", "cv", columns=["x"], **given)
    with pytest.raises(InvalidParameter, match=r"^lower must be at least 0 for cv, got -1"):
        md.private_bootstrap(
            "no such file.csv", "cv", columns=["x"], design=md.wor(99, 9), replicates=9, **given
        )
