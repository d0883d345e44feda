"""The spread of an estimate: known variances are found again, and intervals from it cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.estimation import bag_of_little_bootstraps, double_bootstrap
from mustdp.types import Design
from tests.seams import spread_of

CASES = [
    (Design(md.wor(10_000, 500), 100), 0.5),
    (Design(md.wr(10_000, 500), 100), 1.0),
    (Design(md.must_ow(10_000, 800, 500), 60), 0.5),
    (Design(md.poisson(10_000, 0.05), 100), 0.5),
    (bag_of_little_bootstraps(10_000, b=500, subsets=10, reuse=20), 0.5),
    (double_bootstrap(10_000, b=10_000, m=10_000, subsets=40, reuse=20), 1.0),
]


def simulated(
    design: Design, noise: float, rng: np.random.Generator, influence: float = 1.0
) -> NDArray[np.float64]:
    """Replicates of a mean that is truly zero, with all three sources of error, all normal."""
    size = design.subsets, design.reuse
    data = rng.normal(0.0, math.sqrt(influence / design.n))
    groups = rng.normal(0.0, math.sqrt(design.between * influence), (design.subsets, 1))
    inside = rng.normal(0.0, math.sqrt(design.within * influence), size)
    return np.asarray(data + groups + inside + rng.normal(0.0, noise, size))


@pytest.mark.parametrize(("design", "relative"), CASES)
def test_variance_is_found_and_intervals_cover(design: Design, relative: float) -> None:
    """2000 trials: 95 % coverage is accepted within 4 standard errors, 2 %: not 92.5 %."""
    noise = relative * math.sqrt(design.between + design.within)
    if design.within:
        noise = relative * math.sqrt(design.within)
    rng = np.random.default_rng(11)
    trials, covered, found = 2000, 0, []
    for _ in range(trials):
        replicates = simulated(design, noise, rng)
        spread = spread_of(design, replicates, noise**2)
        error = math.sqrt(spread.variance)
        covered += abs(float(replicates.mean())) <= spread.quantile(0.95) * error
        found.append(spread.variance)
    factor = 1 / design.n + (design.between + design.within / design.reuse) / design.subsets
    truth = factor + noise**2 / design.releases
    assert abs(float(np.mean(found)) / truth - 1) < 0.05
    assert abs(covered / trials - 0.95) < 4 * math.sqrt(0.95 * 0.05 / trials)


def test_forgetting_the_noise_would_be_noticed() -> None:
    """The same replicates judged as if nothing had been added look far more spread out."""
    design, noise = Design(md.wor(10_000, 500), 1000), 0.09
    replicates = simulated(design, noise, np.random.default_rng(2))
    honest = spread_of(design, replicates, noise**2)
    naive = spread_of(design, replicates, 0.0)
    assert naive.sampling > 3 * honest.sampling
    assert honest.noise == pytest.approx(noise**2 / 1000)


def test_drowned_replicates_err_on_the_safe_side() -> None:
    """Noise 20 times the replicates' own spread: intervals must cover more than they promise."""
    design = Design(md.wor(10_000, 500), 100)
    noise, rng = 20 * math.sqrt(design.between), np.random.default_rng(5)
    covered = noise_dominated = 0
    for _ in range(1000):
        replicates = simulated(design, noise, rng)
        spread = spread_of(design, replicates, noise**2)
        noise_dominated += spread.noise_dominated
        radius = spread.quantile(0.95) * math.sqrt(spread.variance)
        covered += abs(float(replicates.mean())) <= radius
    assert covered >= 950
    assert noise_dominated > 500


def test_without_noise_nothing_is_left_to_doubt() -> None:
    design = Design(md.wr(1000, 50), 40)
    spread = spread_of(design, np.zeros((40, 1)), 0.0)
    assert (spread.variance, spread.noise_share) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("design", "named"),
    [
        (Design(md.wr(100, 5), 3), "replicates must be at least 4"),
        (bag_of_little_bootstraps(100, b=10, subsets=1, reuse=50), "subsets must be at least 4"),
        (bag_of_little_bootstraps(100, b=10, subsets=3, reuse=50), "subsets must be at least 4"),
    ],
)
def test_few_independent_subsets_are_refused(design: Design, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        spread_of(design, np.zeros((design.subsets, design.reuse)), 0.0)


def test_whole_data_sets_say_nothing_about_sampling() -> None:
    with pytest.raises(InvalidParameter, match="whole data set"):
        spread_of(Design(md.wor(100, 100), 5), np.zeros((5, 1)), 0.0)
