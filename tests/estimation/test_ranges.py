"""Ranges that are found privately: their cost, how far one record moves them, what they gain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.estimation import release
from mustdp.estimation.queries import JointSums
from mustdp.estimation.release import RangeRequest, grid_of
from mustdp.estimation.schema import Column, PublicSchema, Range
from mustdp.types import Relation
from tests.estimation.release.swapping import allowed, movements

pytestmark = pytest.mark.filterwarnings("ignore")


def incomes(n: int, seed: int) -> Any:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    x = np.exp(rng.normal(7.5, 1.0, n))
    return pandas.DataFrame({"x": x, "loss": -x, "g": rng.choice(["a", "b"], n)})


def released(n: int, drawn: int, column: str = "x", **more: Any) -> Any:
    ends = {"x": (0.0, 1e9), "loss": (-1e9, 1e9)}[column]
    settings: dict[str, Any] = {
        "columns": column,
        "lower": ends[0],
        "upper": ends[1],
        "noise_multiplier": 5.0,
        "delta": 1e-6,
        "seed": drawn,
        "ranges": md.types.Ranges(find=column),
        **more,
    }
    return md.private_release(incomes(n, drawn), settings.pop("statistics", "mean"), **settings)


@pytest.mark.parametrize(
    ("own", "low", "high", "count"),
    [((0.0, 8.0), 8.0 * 0.5**39, 4.0, 39), ((1.0, 8.0), 2.0, 4.0, 2), ((-8.0, 8.0), -4.0, 4.0, 79)],
)
def test_the_grid_is_public(own: tuple[float, float], low: float, high: float, count: int) -> None:
    grid = grid_of(Range(*own))
    assert (grid[0], grid[-1], len(grid)) == (low, high, count)
    assert list(grid) == sorted(set(grid))


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_REMOVE])
@pytest.mark.parametrize("ends", [(0.0, 1e6), (-1e6, 1e6), (2.0, 1e6)])
def test_no_record_moves_the_counts_farther_than_their_noise_allows(
    ends: tuple[float, float], relation: Relation
) -> None:
    n = 50 if relation == Relation.REPLACE_ONE else None
    schema = PublicSchema((Column("x", Range(*ends)),), relation, n)
    joint = JointSums(schema, (RangeRequest(schema, (0,), 5.0).sums,), noise_multiplier=2.0)
    records = [[x] for x in (*ends, *grid_of(Range(*ends)), 3.3, 1e5 + 0.1)]
    assert 0.9 * allowed(joint) < movements(joint, records) <= allowed(joint)


def test_both_steps_cost_what_is_charged_and_are_charged_before_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger, steps = md.Ledger(), list[tuple[float, int, Any]]()
    plain = release.run_rounds

    def watched(schema: Any, pieces: Any, requests: Any, noise: float, **more: Any) -> Any:
        steps.append((noise, ledger.steps, more["source"]))
        return plain(schema, pieces, requests, noise, **more)

    monkeypatch.setattr(release, "run_rounds", watched)
    result = released(1000, 1, ledger=ledger, seed=None, ranges=md.types.Ranges("x", 0.2))
    (first, before, source), (second, after, again) = steps
    assert (before, after, ledger.steps) == (0, 1, 1)
    assert source is again  # one stream of noise, never the same bits twice
    whole = result.privacy.noise_multiplier**-2
    assert first**-2 + second**-2 <= whole
    assert first**-2 == pytest.approx(0.2 * whole)
    assert second**-2 == pytest.approx(0.8 * whole)


def test_the_range_that_is_found_is_narrow_said_and_used() -> None:
    result = released(4000, 2)
    low, high = result.ranges["x"]
    assert low == 0.0
    assert 5_000 < high < 500_000
    assert result.as_dict()["ranges"] == {"x": [low, high]}
    assert f"{high:g}" in result.notes[0]
    assert f"clipped to [0, {high:g}]" in result.estimates[0].description
    assert [one.statistic for one in result.estimates] == ["mean", "clipping", "clipping"]
    wide = released(4000, 2, ranges=None).estimates[0]
    assert result.estimates[0].width < wide.width / 1000
    low, high = released(4000, 2, "loss").ranges["loss"]
    assert low < -5_000
    assert high < 10_000
    grouped = released(4000, 2, by="g", groups=md.types.Groups(["a", "b"], complete=True))
    assert len([one for one in grouped.estimates if one.statistic == "mean"]) == 2


def test_intervals_cover_the_mean_of_the_clipped_values() -> None:
    population = np.exp(np.random.default_rng(9).normal(7.5, 1.0, 400_000))
    hits = []
    for seed in range(150):
        result = released(3000, seed)
        truth = np.minimum(population, result.ranges["x"][1]).mean()
        low, high = result.estimates[0].interval
        hits.append(low <= truth <= high)
    assert np.mean(hits) > 0.88


@pytest.mark.parametrize("share", [0.9, 0.0, float("nan")])
def test_shares_of_the_budget_are_checked(share: float) -> None:
    with pytest.raises(InvalidParameter, match="share must be"):
        md.types.Ranges("x", share)
    if share != 0.9:
        with pytest.raises(InvalidParameter, match="report_clipping must be"):
            md.types.Ranges("x", report_clipping=share)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ranges": md.types.Ranges(find="other")}, "find must name columns among x"),
        ({"ranges": "x"}, "ranges must be a Ranges, got str"),
        ({"statistics": "proportion:>1000"}, "limit|between|range|must"),
        (
            {"survey": md.types.Survey(cluster="g", largest_cluster=3)},
            "must not be given with clusters",
        ),
        ({"lower": 4.0, "upper": 5.0}, "whose range can be halved"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_spent(
    more: dict[str, Any], message: str
) -> None:
    ledger = md.Ledger()
    with pytest.raises(InvalidParameter, match=message):
        released(100, 1, ledger=ledger, **{"seed": None, **more})
    assert ledger.steps == 0
