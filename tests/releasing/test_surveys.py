"""Survey designs: weights, strata and clusters give what their textbook estimators do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from mustdp.mechanisms.relation import Relation
from mustdp.releasing.ground import Column, Ground
from mustdp.releasing.influence import Influences
from mustdp.releasing.moments import Moments
from mustdp.releasing.parts import Piece
from mustdp.releasing.records import clustered
from mustdp.releasing.stack import Stack
from mustdp.resampling.statistics.public import Range
from tests.releasing.swapping import allowed

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


def test_strata_are_put_together_with_their_shares() -> None:
    rng = np.random.default_rng(1)
    kind = np.repeat(["a", "b", "c"], [1000, 1000, 50])
    y = np.where(kind == "a", rng.normal(5, 1, kind.size), rng.normal(12, 2, kind.size))
    frame = pd.DataFrame({"y": y, "kind": kind})
    shares = {"a": 9.0, "b": 1.0}
    found = md.private_release(
        frame, ["mean@y", "proportion:>10@y"], strata="kind", stratum_shares=shares,
        **LIMITS, **QUIET,
    )  # fmt: skip
    parts = frame[frame["kind"] != "c"].groupby("kind")["y"]
    expected = 0.9 * parts.mean()["a"] + 0.1 * parts.mean()["b"]
    assert found.estimate == pytest.approx(expected, rel=1e-3)
    error = math.hypot(0.9 * parts.sem()["a"], 0.1 * parts.sem()["b"])
    assert found.standard_error == pytest.approx(error, rel=0.01)
    assert found.estimates[1].value == pytest.approx(
        0.9 * (y[kind == "a"] > 10).mean() + 0.1 * (y[kind == "b"] > 10).mean(), rel=1e-3
    )
    with pytest.raises(md.InvalidParameter, match="means and proportions"):
        md.private_release(frame, "sd@y", strata="kind", stratum_shares=shares, **LIMITS, **QUIET)


def households() -> pd.DataFrame:
    """Clusters of four with equal values: a quarter of the records would tell as much."""
    rng = np.random.default_rng(6)
    y = rng.normal(10, 2, 700).clip(0, 20)
    frame = pd.DataFrame({"y": np.repeat(y, 4), "home": np.repeat(np.arange(700), 4)})
    return frame.sample(frac=1, random_state=1)


@pytest.mark.parametrize("unit", ["record", "cluster"])
def test_errors_are_those_of_clusters(unit: str) -> None:
    frame = households()
    found = md.private_release(
        frame, ["mean@y", "sd@y"], cluster="home", largest_cluster=4, unit=unit, **LIMITS, **QUIET
    )
    assert found.estimate == pytest.approx(frame["y"].mean(), rel=1e-3)
    plain = float(frame["y"].to_numpy().std(ddof=1)) / math.sqrt(len(frame))
    assert found.standard_error == pytest.approx(2.0 * plain, rel=0.01)


def test_a_whole_cluster_costs_more_noise() -> None:
    frame = households()
    settings: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "seed": 2, "population": "census"}
    one, whole = (
        md.private_release(
            frame, "mean@y", cluster="home", largest_cluster=4, unit=unit, **LIMITS, **settings
        )
        for unit in ("record", "cluster")
    )
    assert whole.standard_error > 3.0 * one.standard_error


@pytest.mark.parametrize("unit", ["record", "cluster"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_no_cluster_and_no_record_in_one_moves_a_release_too_far(unit: str, relation: str) -> None:
    """Random small tables of clusters, one record or one whole cluster changed."""
    ground = Ground(
        (Column("y", Range(0.0, 20.0)),), Relation.read(relation), 20,
        largest_cluster=3, whole_clusters=unit == "cluster",
    )  # fmt: skip
    moments = Moments(ground, (0,))
    squares = Influences(moments, np.array([[[1.0, -0.5]]]), np.array([[0.1, 0.4]]))
    rng = np.random.default_rng(4)
    farthest = 0.0
    for part in (moments, squares):
        stack = Stack(ground, (part,), noise_multiplier=2.0)
        for _ in range(300):
            values = rng.choice([0.0, 3.0, 20.0], 8)
            homes = rng.integers(0, 4, 8)
            before, after = (values, homes), _changed(values, homes, unit, relation, rng)
            first, second = (
                stack.totals([clustered([_piece(y)], h.astype(float), ground)])[0]
                for y, h in (before, after)
            )
            moved = float(np.linalg.norm(first - second)) * stack.noise.lattice.step
            assert moved <= allowed(stack)
            farthest = max(farthest, moved / allowed(stack))
    assert farthest > 0.45


def _piece(values: Any) -> Piece:
    return Piece(values[:, None], np.zeros(len(values), dtype=np.int64))


def _changed(
    values: Any, homes: Any, unit: str, relation: str, rng: np.random.Generator
) -> tuple[Any, Any]:
    """A neighbour of a table."""
    if unit == "record":
        if relation == "add_remove":
            return values[1:], homes[1:]
        other = values.copy(), homes.copy()
        other[0][0], other[1][0] = rng.choice([0.0, 20.0]), rng.integers(0, 4)
        return other
    kept = homes != homes[0]
    if relation == "add_remove":
        return values[kept], homes[kept]
    size = int(rng.integers(1, 6))
    fresh = rng.choice([0.0, 20.0], size)
    return np.append(values[kept], fresh), np.append(homes[kept], np.full(size, 9))
