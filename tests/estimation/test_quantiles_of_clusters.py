"""Quantiles where records come in clusters: Woodruff's intervals, and coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from tests.estimation.release.simulated import accepted

RNG = np.random.default_rng(0)
HOMES = np.repeat(np.arange(6000), 4)
SIZE = len(HOMES)
PEOPLE = pd.DataFrame(
    {
        "home": HOMES,
        "sex": RNG.choice(["F", "M"], SIZE),
        "stratum": RNG.choice(["a", "b"], 6000, p=[0.8, 0.2])[HOMES],
    }
)
# Members of a household are alike.
PEOPLE["x"] = np.clip(
    40
    + 8 * (PEOPLE["stratum"] == "b")
    + 9 * RNG.normal(size=6000)[HOMES]
    + 4 * RNG.normal(size=SIZE),
    0,
    100,
)
SHARES: Any = PEOPLE["stratum"].value_counts(normalize=True).to_dict()
CLUSTERS: dict[str, Any] = {"cluster": "home", "largest_cluster": 4}
STRATA: dict[str, Any] = {"strata": "stratum", "stratum_shares": SHARES}
BY: dict[str, Any] = {"by": "sex", "groups": md.types.Groups(["F", "M"], complete=True)}
GIVEN: dict[str, Any] = {"columns": ["x"], "lower": 0, "upper": 100, "delta": 1e-6}
DESIGNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "clusters": (CLUSTERS, {}),
    "groups": (CLUSTERS, BY),
    "units": ({**CLUSTERS, "unit": "cluster"}, {}),
    "strata": ({**CLUSTERS, **STRATA}, {}),
    "domains": ({**CLUSTERS, **STRATA}, BY),
    "domains with weights": ({**CLUSTERS, **STRATA, "weights": "w", "largest_weight": 2.0}, BY),
}
pytestmark = pytest.mark.filterwarnings("ignore")


def sample(rng: np.random.Generator, homes: int = 400) -> pd.DataFrame:
    kept = rng.choice(6000, homes, replace=False)
    drawn = PEOPLE[PEOPLE["home"].isin(kept)]
    return drawn.assign(w=rng.choice([1.0, 2.0], len(drawn)))


def released(frame: pd.DataFrame, name: str, seed: int, noise: float, statistic: Any) -> Any:
    survey, by = DESIGNS[name]
    return md.private_release(
        frame, statistic, survey=md.types.Survey(**survey), noise_multiplier=noise, seed=seed,
        **by, **GIVEN,
    )  # fmt: skip


@pytest.mark.parametrize("p", [0.5, 0.8])
@pytest.mark.parametrize("name", DESIGNS)
def test_without_noise_intervals_are_those_of_woodruff(name: str, p: float) -> None:
    frame = sample(np.random.default_rng(1), 3000)
    design, by = DESIGNS[name]
    weight = frame["w"] if "weights" in design else pd.Series(1.0, index=frame.index)
    if "strata" in design:
        weight = weight * frame["stratum"].map(SHARES)
        weight /= weight.groupby(frame["stratum"]).transform("sum") / frame["stratum"].map(SHARES)
    inside = frame["sex"] == "F" if by else pd.Series(True, index=frame.index)
    own = frame[inside].assign(a=weight[inside] / weight[inside].sum()).sort_values("x")
    running = own["a"].cumsum().to_numpy()

    def at(share: float) -> float:
        return float(own["x"].to_numpy()[np.searchsorted(running, share)])

    share = weight[inside].sum()
    z = inside * weight * ((frame["x"] <= at(p)) - p) / share
    within = z.groupby([frame["stratum"], frame["home"]]).sum()
    if "strata" in design:
        centred = within - within.groupby(level=0).transform("mean")
        counts = within.groupby(level=0).transform("count")
        error = float(np.sqrt((centred**2 * counts / (counts - 1)).sum()))
    else:
        error = float(np.sqrt((within**2).sum()))
    statistic = ["median", f"quantile:{p}"] if p != 0.5 else "median"
    found = released(frame, name, 1, 1e-3, statistic).estimates
    one = [each for each in found if each.group in (None, "F")][-1]
    assert one.interval[0] == pytest.approx(at(p - 1.97 * error), abs=0.8)
    assert one.interval[1] == pytest.approx(at(p + 1.97 * error), abs=0.8)
    plain = 1.96 * np.sqrt(p * (1 - p) * float((own["a"] ** 2).sum()))
    if not by:  # members of a household count for less than so many records
        assert one.width > 1.25 * (at(p + plain) - at(p - plain))


@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_cover(name: str) -> None:
    inside = PEOPLE[PEOPLE["sex"] == "F"] if DESIGNS[name][1] else PEOPLE
    truth, rng, runs = float(inside["x"].median()), np.random.default_rng(7), 80
    hits = wrong = 0
    for seed in range(runs):
        one = released(sample(rng), name, seed, 3.0, "median").estimates[0]
        hits += one.interval[0] <= truth <= one.interval[1]
        wrong += one.interval[0] <= truth + 2.5 * one.width <= one.interval[1]
        assert one.width < 40
    assert accepted(hits, runs) or hits >= 0.95 * runs
    assert wrong < 0.1 * runs


def test_without_clusters_they_would_miss() -> None:
    """The test above can fail: the same households, as if their members were drawn one by one."""
    rng, runs, hits = np.random.default_rng(7), 80, 0
    truth = float(PEOPLE["x"].median())
    for seed in range(runs):
        found = md.private_release(
            sample(rng, 1500), "median", noise_multiplier=0.5, seed=seed, **GIVEN
        )
        hits += found.interval[0] <= truth <= found.interval[1]
    assert not accepted(hits, runs)
    assert hits < 0.93 * runs


def test_where_noise_hides_clusters_their_largest_size_is_taken() -> None:
    frame = sample(np.random.default_rng(1), 1500)
    weak, strong = (
        released(frame, "clusters", 1, noise, "median").estimates[0] for noise in (1e-3, 150.0)
    )
    assert strong.width > 3.0 * weak.width
    assert any("hides the sampling variance" in flag for flag in strong.flags)


def test_data_that_can_be_read_once_are_refused() -> None:
    with pytest.raises(md.errors.InvalidParameter, match="read twice"):
        md.private_release(
            "-", "median", survey=md.types.Survey(**CLUSTERS), noise_multiplier=3.0, **GIVEN
        )
