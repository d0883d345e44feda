"""The mode: which category, which it may be, and its share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mustdp as md

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


HOMES = np.repeat(np.arange(5000), 4)
DRAWN = np.random.default_rng(3)
KIND = DRAWN.choice(["a", "b"], 5000, p=[0.7, 0.3])[HOMES]
LEVEL = np.where(
    DRAWN.random(20_000) < 0.6,
    DRAWN.choice(LEVELS, 5000, p=[0.36, 0.3, 0.24, 0.1])[HOMES],
    DRAWN.choice(LEVELS, 20_000, p=[0.36, 0.3, 0.24, 0.1]),
)
SEX = DRAWN.choice(["F", "M"], 20_000)
STRATA: dict[str, Any] = {"strata": "kind", "stratum_shares": {
    one: KIND.tolist().count(one) / 20_000 for one in ("a", "b")
}}  # fmt: skip
CLUSTERS: dict[str, Any] = {"cluster": "home", "largest_cluster": 4}
BY: dict[str, Any] = {"by": "sex", "groups": md.types.Groups(["F", "M"], complete=True)}


@pytest.mark.parametrize(
    ("design", "by"),
    [(STRATA, {}), (CLUSTERS, {}), (CLUSTERS, BY), (STRATA, BY), ({**STRATA, **CLUSTERS}, BY)],
    ids=["strata", "clusters", "groups of clusters", "domains", "domains with clusters"],
)
def test_in_survey_designs_the_mode_is_a_candidate(
    design: dict[str, Any], by: dict[str, Any]
) -> None:
    pandas = pytest.importorskip("pandas")
    everybody = pandas.DataFrame({"g": LEVEL, "kind": KIND, "sex": SEX, "home": HOMES})
    inside = everybody[everybody["sex"] == "F"] if by else everybody
    shares = inside["g"].value_counts(normalize=True)
    rng, hits, covered, several, runs = np.random.default_rng(1), 0, 0, 0, 60
    for seed in range(runs):
        kept = rng.choice(5000, 400, replace=False)
        sample = everybody[everybody["home"].isin(kept)]
        found = md.private_release(
            sample,
            "mode",
            columns=md.types.Columns(["g"], categories={"g": LEVELS}),
            survey=md.types.Survey(**design),
            noise_multiplier=4.0,
            delta=1e-6,
            seed=seed,
            **by,
        ).estimates[0]
        hits += shares.index[0] in found.candidates
        covered += found.interval[0] <= shares.iloc[0] <= found.interval[1]
        several += len(found.candidates) < len(LEVELS)
        assert abs(found.value - shares.iloc[0]) < 0.15
    assert min(hits, covered) >= 0.93 * runs
    assert several > 0.2 * runs  # and not everything is possible


def test_a_clear_mode_in_a_survey_design_is_the_only_candidate() -> None:
    pandas = pytest.importorskip("pandas")
    level = np.where(DRAWN.random(20_000) < 0.7, "b", LEVEL)
    frame = pandas.DataFrame({"g": level, "kind": KIND, "sex": SEX, "home": HOMES})
    found = md.private_release(
        frame, "mode", columns=md.types.Columns(["g"], categories={"g": LEVELS}),
        survey=md.types.Survey(**STRATA, **CLUSTERS), noise_multiplier=2.0, delta=1e-6, seed=1,
        **BY,
    ).estimates[0]  # fmt: skip
    assert (found.cell, found.candidates) == ("b", ("b",))
    assert found.value == pytest.approx(float(np.mean(level[SEX == "F"] == "b")), abs=0.03)
    weak = md.private_release(
        frame, "mode", columns=md.types.Columns(["g"], categories={"g": LEVELS}),
        survey=md.types.Survey(**STRATA), noise_multiplier=20_000.0, delta=1e-6, seed=1,
    ).estimates[0]  # fmt: skip
    assert not weak.known
    assert weak.candidates == tuple(LEVELS)
