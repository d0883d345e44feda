"""Survey designs: weights, strata and clusters give what their textbook estimators do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md

pytestmark = pytest.mark.filterwarnings("ignore::mustdp.SeededRelease")
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
        frame, ["mean@y", "count", "sum@y", "proportion:>6@y", "median@y", "sd@y"],
        weights="w", largest_weight=50.0, **LIMITS, **QUIET,
    )  # fmt: skip
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
    weighted = md.private_release(frame, "mean@y", weights="w", largest_weight=50.0, **settings)
    plain = md.private_release(frame, "mean@y", **settings)
    assert weighted.interval[0] < truth < weighted.interval[1]
    assert not plain.interval[0] < truth < plain.interval[1]
