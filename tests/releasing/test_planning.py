"""Plans promise the widths that releases on such data have, and read no data for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md

pytestmark = pytest.mark.filterwarnings("ignore::mustdp.SeededRelease")
N = 20_000
LIMITS: dict[str, Any] = {"lower": {"x": 0, "y": 0}, "upper": {"x": 60, "y": 60}}
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("by", [None, "kind"])
def test_widths_come_true(relation: str, by: str | None) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(30, 10, (2, N)).clip(0, 60)
    frame = pd.DataFrame({"x": x, "y": y, "kind": rng.choice(["a", "b"], N)})
    asked = ["mean@x", "sd@x", "median@x", "correlation@x,y", "proportion:>30@y", "regression@x,y"]
    groups: dict[str, Any] = {} if by is None else {"by": by, "groups": ["a", "b"]}
    expected = md.expected_widths(
        asked, n=N, columns=["x", "y"], relation=relation, **LIMITS, **BUDGET, **groups
    )
    found = md.private_release(
        frame, asked, relation=relation, seed=4, **LIMITS, **BUDGET, **groups
    )
    assert [one.label for one in expected] == [one.label for one in found.estimates]
    for plan, real in zip(expected, found.estimates, strict=True):
        if real.group != "other":
            step = 0.25 if "median" in plan.label else 0.0  # of the grid, at either end
            assert plan.width == pytest.approx(real.width, rel=0.25, abs=0.3 + step), plan.label


def test_the_smallest_epsilon_for_a_width() -> None:
    settings: dict[str, Any] = {"n": 10_000, "lower": 0, "upper": 1, "delta": 1e-6}
    epsilon, (mean,) = md.smallest_epsilon(0.008, "mean", **settings)
    assert 0.0077 < mean.width <= 0.008
    (less,) = md.expected_widths("mean", epsilon=0.95 * epsilon, **settings)
    assert less.width > 0.008
    with pytest.raises(md.InvalidParameter, match="width must be at least"):
        md.smallest_epsilon(1e-5, "mean", **settings)
