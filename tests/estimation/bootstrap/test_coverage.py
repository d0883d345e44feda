"""Do intervals hold on data that are not kind? Short runs; the long ones are in benchmarks.

Coverage of 95 % intervals in 200 data sets has a standard error of 1.5 %: at least 90 % is asked
for, which 95 % misses with a chance of 1 in 500; the seeds are fixed. Noise is that of a stated
noise multiplier.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.estimation import bag_of_little_bootstraps
from mustdp.estimation.bootstrap import Inference, in_halves, infer, spread_of
from mustdp.estimation.schema import SubsetSchema
from mustdp.estimation.statistics.statistic import Statistic
from mustdp.numerics.arrays import FloatArray
from mustdp.types import (
    Correlation,
    Design,
    Mean,
    Median,
    Proportion,
    Quantile,
    StandardDeviation,
    UserStatistic,
    Variance,
)

#: 95 % of 200 within three standard errors.
ENOUGH = 0.90


def inferred(
    design: Design,
    statistic: Statistic,
    data: FloatArray,
    bounds: tuple[float, float],
    rng: np.random.Generator,
    *,
    z: float = 0.01,
    **given: Any,
) -> Inference:
    """What the private bootstrap infers, without its bookkeeping."""
    values = np.clip(data.reshape(len(data), -1), *bounds)
    low, high = ([end] * values.shape[1] for end in bounds)
    public = SubsetSchema(low, high, design.size, design.poisson, design.repeated_pairs)
    query = statistic.query(public)
    seed = int(rng.integers(2**62))
    rows = []
    for _, batch in design.draws(seed, 0, design.releases):
        own = values[batch.indices]
        halves = in_halves(batch.counts, rng) if query.halved else None
        rows.append(query.restored(query.total(own, batch.counts, halves)))
    deviation = z * np.concatenate([np.full(one.width, one.radius) for one in query.blocks])
    released = np.array(rows) + rng.normal(size=(len(rows), query.width)) * deviation
    return infer(design, query, released, deviation**2, **given)


def coverage(
    draw: Callable[[np.random.Generator], FloatArray],
    truth: float,
    design: Design,
    statistic: Statistic,
    bounds: tuple[float, float],
    *,
    data_sets: int = 200,
    **given: Any,
) -> float:
    rng, hits = np.random.default_rng(21), 0
    for _ in range(data_sets):
        found = inferred(design, statistic, draw(rng), bounds, rng, **given).estimates[-1]
        hits += found.interval[0] <= truth <= found.interval[1]
    return hits / data_sets


N = 2000
PLAIN = Design(md.wor(N, 100), 30)


def correlated(rng: np.random.Generator) -> FloatArray:
    x = rng.normal(size=N)
    return np.column_stack([x, 0.6 * x + 0.8 * rng.normal(size=N)])


@pytest.mark.parametrize("statistic", [Correlation(), Correlation(form="pairs")])
@pytest.mark.parametrize("z", [0.01, 3.0])
def test_correlations_with_wide_bounds(statistic: Statistic, z: float) -> None:
    """Noisy variances near zero: never a point at 1 or -1, and all that is possible if need be."""
    found = coverage(correlated, 0.6, PLAIN, statistic, (-100.0, 100.0), data_sets=100, z=z)
    assert found >= ENOUGH
    rng = np.random.default_rng(4)
    for _ in range(20):
        [one] = inferred(PLAIN, statistic, correlated(rng), (-1e3, 1e3), rng, z=z).estimates
        assert one.width > 0.0
        if math.isnan(one.value):
            assert one.interval == (-1.0, 1.0)
            continue
        assert one.standard_error > 0.0
        assert -1.0 <= one.interval[0] <= one.value <= one.interval[1] <= 1.0


def test_a_correlation_that_the_noise_hides_says_so() -> None:
    rng = np.random.default_rng(4)
    found = inferred(PLAIN, Correlation(), correlated(rng), (-1e3, 1e3), rng, z=3.0)
    assert found.estimates[0].interval == (-1.0, 1.0)
    assert any("the whole possible range" in note for note in found.notes)


@pytest.mark.parametrize("z", [0.01, 3.0])
def test_standard_deviations_with_wide_bounds(z: float) -> None:
    def draw(rng: np.random.Generator) -> FloatArray:
        return rng.normal(size=N)

    assert coverage(draw, 1.0, PLAIN, StandardDeviation(), (-100.0, 100.0), z=z) >= ENOUGH
    rng = np.random.default_rng(5)
    for _ in range(30):
        [one] = inferred(PLAIN, StandardDeviation(), draw(rng), (-1e3, 1e3), rng, z=z).estimates
        assert one.interval[0] < one.interval[1]
        assert one.standard_error > 0.0 or math.isnan(one.value)


def plug_in_variance(values: Any, counts: Any) -> float:
    mean = counts @ values[:, 0] / counts.sum()
    return float(counts @ (values[:, 0] - mean) ** 2 / counts.sum())


@pytest.mark.parametrize("scheme", [md.wor(N, 10), md.must_ow(N, 20, 20)], ids=str)
def test_the_bias_of_a_users_statistic_on_subsets_is_removed(scheme: md.types.Scheme) -> None:
    """On 10 records a plug-in variance is 10 % too small, several standard errors."""
    statistic = UserStatistic(plug_in_variance, lambda m: 64.0 / m)
    design, bounds = Design(scheme, 400), (-4.0, 4.0)

    def draw(rng: np.random.Generator) -> FloatArray:
        return rng.normal(size=N)

    assert coverage(draw, 0.9989, design, statistic, bounds, data_sets=60) >= ENOUGH
    asis = UserStatistic(plug_in_variance, lambda m: 64.0 / m, average=True)
    assert coverage(draw, 0.9989, design, asis, bounds, data_sets=30) < 0.7


def test_an_extreme_is_cautioned_about_and_a_smooth_statistic_is_not() -> None:
    rng = np.random.default_rng(6)
    data, design = rng.exponential(size=N), Design(md.wor(N, 50), 60)
    top = UserStatistic(lambda values, counts: values.max(), lambda m: 20.0)
    smooth = UserStatistic(plug_in_variance, lambda m: 400.0 / m)
    found = inferred(design, top, data, (0.0, 20.0), rng, z=1e-4)
    assert any("cannot be trusted" in note for note in found.notes)
    assert not inferred(design, smooth, rng.normal(10, 1, N), (0.0, 20.0), rng, z=1e-4).notes


def normal_replicates(design: Design, noise: float, rng: np.random.Generator) -> FloatArray:
    """Of a mean that is truly zero, influences of variance one."""
    size = design.subsets, design.reuse
    data = rng.normal(0.0, math.sqrt(1.0 / design.n))
    groups = rng.normal(0.0, math.sqrt(design.between), (design.subsets, 1))
    inside = rng.normal(0.0, math.sqrt(design.within), size)
    return np.asarray(data + groups + inside + rng.normal(0.0, noise, size))


@pytest.mark.parametrize("relative", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("subsets", [4, 6])
def test_few_replicates_cover(subsets: int, relative: float) -> None:
    """2000 trials: 92 % is asked for, which 95 % does not miss; noise need not drown so few."""
    design, rng = Design(md.wor(10_000, 500), subsets), np.random.default_rng(8)
    noise, hits, noise_dominated = relative * math.sqrt(design.between), 0, 0
    for _ in range(2000):
        replicates = normal_replicates(design, noise, rng)
        spread = spread_of(design, replicates, noise**2)
        radius = spread.quantile(0.95) * math.sqrt(spread.variance)
        hits += abs(float(replicates.mean())) <= radius
        noise_dominated += spread.noise_dominated
    assert hits >= 0.92 * 2000
    assert noise_dominated < 0.6 * 2000


def test_the_note_on_drowning_is_true_where_it_appears_only_sometimes() -> None:
    """Noise and data about equal: given the note, intervals cover at least as they say."""
    design, rng = Design(md.wor(10_000, 2500), 30), np.random.default_rng(9)
    noise, hits, noted = 1.2 * math.sqrt(design.between), 0, 0
    for _ in range(4000):
        replicates = normal_replicates(design, noise, rng)
        spread = spread_of(design, replicates, noise**2)
        if not spread.noise_dominated:
            continue
        noted += 1
        radius = spread.quantile(0.95) * math.sqrt(spread.variance)
        hits += abs(float(replicates.mean())) <= radius
    assert 100 < noted < 2000
    assert hits >= 0.92 * noted


def test_the_note_advises_what_helps() -> None:
    rng = np.random.default_rng(10)
    [note] = inferred(PLAIN, Variance(), rng.normal(size=N), (-4.0, 4.0), rng, z=500.0).notes
    assert "larger epsilon" in note
    assert "fewer" not in note


def test_little_bootstraps_with_few_first_stages() -> None:
    """With heavy tails every first stage has a variance of its own, which its second stages tell.

    2000 trials: 92 % is asked for; with the variances inside it would be 82 %.
    """
    design = bag_of_little_bootstraps(10_000, b=100, subsets=5, reuse=40)
    rng, hits = np.random.default_rng(17), 0
    for _ in range(2000):
        centre = rng.normal(0.0, math.sqrt(1.0 / design.n))
        groups = centre + rng.normal(0.0, math.sqrt(design.between), (5, 1))
        own = np.sqrt(design.within * rng.gamma(0.2, 5.0, (5, 1)))
        replicates = groups + own * rng.normal(size=(5, 40))
        spread = spread_of(design, replicates, 0.0)
        radius = spread.quantile(0.95) * math.sqrt(spread.variance)
        hits += abs(float(replicates.mean())) <= radius
    assert hits >= 0.92 * 2000


def test_standard_errors_of_a_deviation_on_poisson_subsets() -> None:
    """sigma / sqrt(2 n) and what resampling adds: a step of one error gave 1.25 times as much."""
    design, rng = Design(md.poisson(N, 0.05), 100), np.random.default_rng(11)
    found = [
        inferred(design, StandardDeviation(), rng.normal(size=N), (-10.0, 10.0), rng)
        .estimates[0]
        .standard_error
        for _ in range(15)
    ]
    factor = 1.0 / N + design.between / 100
    assert float(np.median(found)) == pytest.approx(math.sqrt(0.5 * factor), rel=0.1)


def hours(rng: np.random.Generator) -> FloatArray:
    """Many at 40, the others at whole numbers around."""
    return np.where(rng.random(N) < 0.46, 40.0, np.rint(rng.normal(41.0, 14.0, N)))


def gain(rng: np.random.Generator) -> FloatArray:
    """Nine in ten have none."""
    return np.where(rng.random(N) < 0.92, 0.0, np.rint(rng.lognormal(8.5, 1.0, N)))


@pytest.mark.parametrize(
    ("draw", "bounds", "p", "truth"),
    [
        (hours, (0.0, 100.0), 0.5, 40.0),
        (gain, (0.0, 100_000.0), 0.5, 0.0),
        (gain, (0.0, 100_000.0), 0.9, 0.0),
    ],
)
def test_quantiles_of_data_with_ties(
    draw: Callable[[np.random.Generator], FloatArray],
    bounds: tuple[float, float],
    p: float,
    truth: float,
) -> None:
    found = coverage(draw, truth, PLAIN, Quantile(p), bounds, data_sets=100, z=0.5)
    assert found >= ENOUGH
    rng = np.random.default_rng(12)
    [one] = inferred(PLAIN, Median(), hours(rng), (0.0, 100.0), rng).estimates
    assert one.value == 40.0
    assert one.width <= 2.0


@pytest.mark.parametrize("z", [0.01, 2.0])
def test_what_is_impossible_is_in_no_interval(z: float) -> None:
    rng = np.random.default_rng(13)
    constant, rare = np.full(N, 3.0), np.zeros(N)
    for _ in range(10):
        share = inferred(PLAIN, Proportion(above=0.5), rare, (0.0, 1.0), rng, z=z).estimates[0]
        assert 0.0 <= share.interval[0] <= share.value <= share.interval[1] <= 1.0
        assert share.interval[1] > 0.0
        flat = inferred(PLAIN, Variance(), constant, (0.0, 6.0), rng, z=z).estimates[0]
        assert 0.0 == flat.interval[0] < flat.interval[1] <= 9.0
        low = inferred(PLAIN, Mean(), rare, (0.0, 1.0), rng, z=z).estimates[0]
        assert 0.0 <= low.interval[0] <= low.interval[1] <= 1.0


def test_rare_shares_cover() -> None:
    def draw(rng: np.random.Generator) -> FloatArray:
        return (rng.random(N) < 0.003).astype(np.float64)

    statistic = Proportion(above=0.5)
    assert coverage(draw, 0.003, PLAIN, statistic, (0.0, 1.0)) >= ENOUGH


def test_a_large_part_of_a_finite_population() -> None:
    """Samples of 82 %: without the correction standard errors are much too large."""
    rng = np.random.default_rng(14)
    people = rng.exponential(size=2440)
    truth, bounds = float(np.clip(people, 0.0, 10.0).mean()), (0.0, 10.0)
    design = Design(md.wor(N, 500), 200)

    def draw(own: np.random.Generator) -> FloatArray:
        return own.choice(people, N, replace=False)

    given: dict[str, Any] = {"population": 2440, "data_sets": 100}
    assert coverage(draw, truth, design, Mean(), bounds, **given) >= ENOUGH
    plain = inferred(design, Mean(), draw(rng), bounds, rng).estimates[0]
    finite = inferred(design, Mean(), draw(rng), bounds, rng, population=2440).estimates[0]
    expected = math.sqrt((0.18 / N + design.between / 200) / (1.0 / N + design.between / 200))
    assert finite.standard_error / plain.standard_error == pytest.approx(expected, rel=0.1)


def test_released_squares_make_means_narrower_where_noise_is_large() -> None:
    rng, widths = np.random.default_rng(15), []
    design, bounds = Design(md.wor(N, 500), 50), (0.0, 10.0)

    def draw(own: np.random.Generator) -> FloatArray:
        return own.exponential(size=N)

    for statistic in (Mean(), Mean(squares=False)):
        found = [
            inferred(design, statistic, draw(rng), bounds, rng, z=20.0).estimates[0].width
            for _ in range(20)
        ]
        widths.append(float(np.median(found)))
    assert widths[0] < 0.9 * widths[1]
    assert coverage(draw, 1.0, design, Mean(), bounds, z=20.0, data_sets=100) >= ENOUGH


def test_intervals_that_hold_together() -> None:
    rng = np.random.default_rng(16)
    data = correlated(rng)
    design = Design(md.wor(N, 100), 400)
    asked = md.types.LinearRegression()
    alone = inferred(design, asked, data, (-5.0, 5.0), np.random.default_rng(1))
    together = inferred(
        design, asked, data, (-5.0, 5.0), np.random.default_rng(1), simultaneous=True
    )
    for one, other in zip(alone.estimates, together.estimates, strict=True):
        assert other.width / one.width == pytest.approx(2.2414 / 1.95996, rel=0.01)
