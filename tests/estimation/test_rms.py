"""The root mean square is numpy's, in every setting; what is true of all statistics is tested in
``test_conformance.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from mustdp.types import RootMeanSquare
from tests.arrays import FloatArray
from tests.seams import subset_schema

LOW, HIGH = -20.0, 50.0
RNG = np.random.default_rng(8)
TABLE = pd.DataFrame(
    {
        "x": RNG.normal(4.0, 15.0, 3000),
        "group": (np.arange(3000) % 2).astype(str),
        "weight": RNG.uniform(0.2, 2.0, 3000),
        "household": np.arange(3000) // 3,
    }
)
TABLE.loc[TABLE["group"] == "1", "x"] += 9.0
CLIPPED = TABLE["x"].clip(LOW, HIGH).to_numpy()


def rms(values: FloatArray, weights: FloatArray | None = None) -> float:
    return math.sqrt(float(np.average(values**2, weights=weights)))


def released(*statistics: str, noise: float = 1e-3, **given: Any) -> Any:
    """With next to no noise."""
    return md.private_release(
        TABLE, statistics, columns=["x"], lower=LOW, upper=HIGH, noise_multiplier=noise,
        delta=1e-6, **given,
    )  # fmt: skip


STRATA = np.where(TABLE["group"] == "0", 0.9, 0.1)  # both groups are of one size
SETTINGS: dict[str, tuple[dict[str, Any], float]] = {
    "plain": ({}, rms(CLIPPED)),
    "add-remove": ({"relation": "add_remove"}, rms(CLIPPED)),
    "weights": (
        {"survey": md.types.Survey(weights="weight", largest_weight=2.0)},
        rms(CLIPPED, TABLE["weight"].to_numpy()),
    ),
    "strata": (
        {"survey": md.types.Survey(strata="group", stratum_shares={"0": 0.9, "1": 0.1})},
        rms(CLIPPED, STRATA),
    ),
    "clusters": (
        {"survey": md.types.Survey(cluster="household", largest_cluster=3)},
        rms(CLIPPED),
    ),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_release_has_the_value_of_numpy(setting: str) -> None:
    given, truth = SETTINGS[setting]
    [found] = released("rms", **given).estimates
    assert found.value == pytest.approx(truth, rel=5e-5)


def test_groups_have_their_own() -> None:
    found = released("rms", by="group", groups=["0", "1"]).estimates
    truths = [rms(CLIPPED[TABLE["group"] == one]) for one in "01"]
    assert [one.value for one in found][:2] == pytest.approx(truths, rel=1e-4)


def test_it_fits_the_mean_and_the_variance_that_are_released_beside_it() -> None:
    mean, variance, found = released("mean", "variance", "rms", noise=20.0).estimates
    square = mean.value**2 + variance.value * 2999 / 3000
    assert found.value == pytest.approx(math.sqrt(square), rel=1e-9)


def test_the_error_is_that_of_the_delta_method() -> None:
    [found] = released("rms").estimates
    psi = (CLIPPED**2 - rms(CLIPPED) ** 2) / (2.0 * rms(CLIPPED))
    assert found.standard_error == pytest.approx(psi.std() / math.sqrt(3000), rel=1e-3)


@pytest.mark.parametrize("poisson", [False, True])
def test_a_subset_has_the_value_of_numpy(poisson: bool) -> None:
    values = CLIPPED[:40, None]
    query = RootMeanSquare().query(subset_schema([LOW], [HIGH], 40, poisson=poisson))
    found = query.estimate(query.evaluate(values, np.ones(40, dtype=np.int64)))
    assert found == pytest.approx(rms(values[:, 0]), rel=1e-9)


@pytest.mark.parametrize(("low", "high"), [(-3.0, 2.0), (1.0, 2.0), (-5.0, -4.0), (0.0, 2.0)])
def test_the_range_bounds_it(low: float, high: float) -> None:
    ((least, most),) = RootMeanSquare().query(subset_schema([low], [high], 40)).supports
    values = np.abs(np.linspace(low, high, 1001))
    assert (least, most) == pytest.approx((values.min(), values.max()), abs=1e-9)
