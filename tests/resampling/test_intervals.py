"""Intervals: shapes, scalings and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.resampling.designs import Design, double_bootstrap
from mustdp.resampling.inference import _covariance, infer
from mustdp.resampling.intervals import bootstrap_t, check_kind, percentile, t_quantile
from mustdp.resampling.spread import Spread, spread_of
from mustdp.resampling.statistics.mean import Mean
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.variance import Variance


def spread(sampling: float, resampling: float, noise: float, freedom: float = 1e9) -> Spread:
    return Spread(sampling, resampling, noise, freedom, False)


def test_percentiles_of_normal_replicates_are_the_normal_interval() -> None:
    centres = 5.0 + stats.norm.ppf((np.arange(4000) + 0.5) / 4000) * 0.3
    low, high = percentile(5.0, centres, spread(0.09, 0.04, 0.03), 0.95)
    half = stats.norm.ppf(0.975) * math.sqrt(0.16)
    assert (low, high) == pytest.approx((5 - half, 5 + half), rel=1e-3)


def test_percentiles_keep_the_skew_and_widen_with_doubt() -> None:
    centres = np.random.default_rng(1).exponential(size=5000) - 1.0
    low, high = percentile(0.0, centres, spread(1.0, 0.0, 0.01), 0.9)
    assert high > 1.5 * -low
    doubtful = percentile(0.0, centres, spread(1.0, 0.0, 0.01, freedom=5.0), 0.9)
    assert doubtful[1] - doubtful[0] > 1.15 * (high - low)


def test_percentiles_without_noise_are_quantiles() -> None:
    centres = np.arange(99.0)
    assert percentile(49.0, centres, spread(1.0, 0.0, 0.0), 0.9) == pytest.approx((4.0, 94.0))


def test_bootstrap_t_needs_groups_that_can_be_told_from_noise() -> None:
    design = double_bootstrap(1000, b=200, m=200, subsets=2000, reuse=20)
    rng = np.random.default_rng(3)
    groups = rng.normal(0, math.sqrt(design.between), (2000, 1)) + rng.normal(
        0, math.sqrt(design.within), (2000, 20)
    )
    whole = spread(1e-3, 1e-4, 0.0)
    ends = bootstrap_t(0.0, groups, 0.0, design, whole, 0.9)
    assert ends is not None
    half = stats.norm.ppf(0.95) * math.sqrt(1.1e-3)
    assert ends == pytest.approx((-half, half), rel=0.15)
    drowned = groups + rng.normal(0, 1.0, groups.shape)
    assert bootstrap_t(0.0, drowned, 1.0, design, whole, 0.9) is None


def test_t_quantiles_grow_where_little_is_known() -> None:
    assert t_quantile(0.95, spread(1, 0, 0)) == pytest.approx(stats.norm.ppf(0.975), rel=1e-6)
    assert t_quantile(0.95, spread(1, 0, 0, freedom=3.0)) == pytest.approx(stats.t.ppf(0.975, 3))
    assert t_quantile(0.95, spread(1, 0, 0, freedom=0.01)) == pytest.approx(stats.t.ppf(0.975, 1))


@pytest.mark.parametrize(
    ("kind", "design", "named"),
    [
        ("percentile", Design(md.wor(100, 10), 38), "at least 39 replicates"),
        ("bootstrap-t", Design(md.wor(100, 10), 100), "nested design"),
        ("bootstrap-t", Design(md.must_ww(100, 10, 10), 20, 5), "at least 39 subsets"),
        ("bootstrap-t", Design(md.must_ww(100, 10, 10), 50, 2), "3 times or more"),
    ],
)
def test_too_few_replicates(kind: str, design: Design, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        check_kind(kind, 0.95, design)  # type: ignore[arg-type]
    check_kind("normal", 0.95, design)


def test_the_m_out_of_n_scaling() -> None:
    """Replicates of 50 of 1000 vary 20 times as much as the estimate from all 1000 does."""
    design, rng = Design(md.wr(1000, 50), 4000), np.random.default_rng(5)
    query = Mean().query(Public([-10.0], [10.0], 50))
    released = 1.0 + rng.normal(0, 1 / math.sqrt(50), (4000, 1))
    found = infer(design, query, released, np.zeros(1)).estimates[0]
    assert found.standard_error == pytest.approx(math.sqrt(1 / 1000 + 1 / 50 / 4000), rel=0.05)
    assert found.standard_error < 0.5 * float(released.std())


def test_repeated_records_bias_variances_and_are_corrected() -> None:
    """MUSTow with b = 10: sample variances are 10 % too small, as the paper's Table 3 shows."""
    design = Design(md.must_ow(1000, 10, 30), 3000)
    query = Variance(form="pairs").query(Public([-4.0], [4.0], 30))
    data = np.random.default_rng(6).normal(size=(1000, 1))
    released = np.array(
        [query.evaluate(data[b.indices], b.counts) for _, b in design.draws(1, 0, 3000)]
    )
    truth, error = data.var(ddof=1), 0.01
    plain = infer(design, query, released, np.zeros(1), correct=False)
    corrected = infer(design, query, released, np.zeros(1))
    assert plain.estimates[0].value == pytest.approx(0.9 * truth, abs=2.5 * error)
    assert corrected.estimates[0].value == pytest.approx(truth, abs=2.5 * error)
    assert plain.notes == ()
    assert "corrected" in corrected.notes[0]
    assert "0.1," in corrected.notes[0]


def test_a_variance_of_one_record_is_refused() -> None:
    design = Design(md.must_ow(100, 1, 10), 5)
    query = Variance(form="pairs").query(Public([-4.0], [4.0], 10))
    with pytest.raises(InvalidParameter, match="more than one distinct record"):
        infer(design, query, np.zeros((5, 1)), np.ones(1))


def test_noise_does_not_correlate_what_the_data_do() -> None:
    """Two coordinates that the data move together, with noise as large as the data's part.

    Half way between them the data's part counts in full and the noise by half.
    """
    rng = np.random.default_rng(7)
    design = Design(md.wor(10_000, 100), 4000)
    data = rng.normal(0, math.sqrt(design.between), (4000, 1))
    noise = np.full(2, design.between)
    vectors = data + rng.normal(0, math.sqrt(design.between), (4000, 2))
    own = [spread_of(design, vectors[:, [k]], float(noise[k])) for k in range(2)]
    found = _covariance(vectors, noise, own)
    half = np.array([0.5, 0.5])
    expected = own[0].sampling + own[0].resampling + 0.5 * own[0].noise
    assert float(half @ found @ half) == pytest.approx(expected, rel=0.05)
    assert (
        float(stats.pearsonr(*vectors.T).statistic) < 0.6
    )  # what noisy replicates themselves would say
