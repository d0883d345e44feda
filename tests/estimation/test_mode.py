"""The mode: which category, which it may be, and its share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter

LEVELS = ["a", "b", "c", "d"]


def released(shares: list[float], n: int, noise: float, seed: int, **more: Any) -> Any:
    pandas = pytest.importorskip("pandas")
    drawn = np.random.default_rng(seed).choice([*LEVELS, "e"], n, p=shares)
    return md.private_release(
        pandas.DataFrame({"g": drawn}),
        "mode",
        columns=md.types.Columns(["g"], categories={"g": LEVELS}),
        noise_multiplier=noise,
        delta=1e-6,
        seed=seed,
        **more,
    ).estimates[0]


pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_clear_mode_is_the_only_candidate() -> None:
    found = released([0.6, 0.2, 0.1, 0.05, 0.05], 2000, 1.0, 1)
    assert (found.cell, found.candidates, found.flags) == ("a", ("a",), ())
    assert found.value == pytest.approx(0.6, abs=0.05)
    assert found.as_dict()["candidates"] == ["a"]


@pytest.mark.parametrize("shares", [[0.3, 0.28, 0.22, 0.1, 0.1], [0.26, 0.26, 0.24, 0.14, 0.1]])
def test_the_mode_is_a_candidate_and_its_share_is_covered(shares: list[float]) -> None:
    found = [released(shares, 600, 6.0, seed) for seed in range(300)]
    assert np.mean(["a" in one.candidates for one in found]) >= 0.93
    assert np.mean([one.interval[0] <= max(shares) <= one.interval[1] for one in found]) >= 0.93
    assert np.mean([len(one.candidates) for one in found]) < 4


def test_what_is_not_listed_is_no_candidate_but_said() -> None:
    found = released([0.2, 0.1, 0.1, 0.1, 0.5], 2000, 1.0, 1)
    assert found.cell == "a"
    assert any("not listed" in flag for flag in found.flags)


def test_where_nothing_is_known_everything_is_possible() -> None:
    found = released([0.6, 0.2, 0.1, 0.05, 0.05], 20, 1000.0, 1, relation="add_remove")
    assert not found.known
    assert found.candidates == tuple(LEVELS)


def test_survey_designs_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="mode with clusters"):
        released(
            [0.6, 0.2, 0.1, 0.05, 0.05],
            20,
            1.0,
            1,
            survey=md.types.Survey(cluster="k", largest_cluster=2),
        )
