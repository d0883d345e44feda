"""Without noise the queries are the statistics that everybody knows."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mustdp.types import Correlation, Covariance, Mean, Proportion, StandardDeviation, Variance
from tests.estimation.bootstrap.statistics.swaps import CASES, LOWER, UPPER
from tests.seams import subset_schema

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def subset(columns: int = 1, seed: int = 1) -> tuple[FloatArray, IntArray, FloatArray]:
    """Distinct records, counts, and the multiset written out."""
    rng = np.random.default_rng(seed)
    shares = rng.uniform(size=(25, columns))
    shares[:, -1] = 0.5 * (shares[:, -1] + shares[:, 0])
    low, high = np.array(LOWER[:columns]), np.array(UPPER[:columns])
    values = low + shares * (high - low)
    counts = rng.integers(1, 4, 25)
    return values, counts, np.repeat(values, counts, axis=0)


@pytest.mark.parametrize("poisson", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_counts_are_rows_written_out(name: str, poisson: bool) -> None:
    case = CASES[name]
    values, counts, rows = subset(case.columns)
    query = case.query(len(rows), poisson)
    found = query.evaluate(values, counts)
    assert found.shape == (query.width,)
    assert len(query.paired) == query.width
    ones = np.ones(len(rows), dtype=np.int64)
    assert found == pytest.approx(query.evaluate(rows, ones), rel=1e-12, abs=1e-13)
    assert query.evaluate(values[::-1], counts[::-1]) == pytest.approx(found, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("poisson", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_estimates_go_over_leading_axes_and_queries_travel(name: str, poisson: bool) -> None:
    case = CASES[name]
    values, counts, rows = subset(case.columns)
    query = case.query(len(rows), poisson)
    vectors = query.evaluate(values, counts) + np.random.default_rng(2).normal(
        scale=0.01, size=(2, 3, query.width)
    )
    kept = vectors.copy()
    found = query.estimate(vectors)
    assert found.shape == (2, 3, len(query.labels))
    assert found[1, 2] == pytest.approx(query.estimate(vectors[1, 2]), rel=1e-12)
    assert np.array_equal(vectors, kept)
    other = pickle.loads(pickle.dumps(query))
    assert other == query
    assert np.array_equal(other.evaluate(values, counts), query.evaluate(values, counts))
    assert np.array_equal(other.estimate(vectors), found)
    assert hash(case.statistic) == hash(pickle.loads(pickle.dumps(case.statistic)))


def value(statistic: Any, columns: int, *, poisson: bool = False, over: float = 1.0) -> FloatArray:
    """Estimate on the subset above; ``over`` makes the expected size differ from the actual one."""
    values, counts, rows = subset(columns)
    lower, upper = LOWER[:columns], UPPER[:columns]
    query = statistic.query(subset_schema(lower, upper, over * len(rows), poisson=poisson))
    found: FloatArray = query.estimate(query.evaluate(values, counts))
    return found


def test_mean_and_proportion() -> None:
    _, _, rows = subset()
    x = rows[:, 0]
    assert value(Mean(), 1) == pytest.approx([x.mean()])
    assert value(Mean(), 1, poisson=True, over=1.3) == pytest.approx([x.mean()])
    for statistic, share in [
        (Proportion(above=1.0), np.mean(x > 1.0)),
        (Proportion(at_least=0.0, below=2.0), np.mean((x >= 0.0) & (x < 2.0))),
        (Proportion(equal=float(x[0])), np.mean(x == x[0])),
        (Proportion(at_most=float(x[0])), np.mean(x <= x[0])),
        (Proportion(below=float(x[0])), np.mean(x < x[0])),
    ]:
        assert 0.0 < share < 1.0
        assert value(statistic, 1) == pytest.approx([share])
        assert value(statistic, 1, poisson=True, over=0.8) == pytest.approx([share])


def test_variance_and_standard_deviation() -> None:
    _, _, rows = subset()
    x = rows[:, 0]
    assert value(Variance(form="pairs"), 1) == pytest.approx([np.var(x, ddof=1)])
    assert value(StandardDeviation(form="pairs"), 1) == pytest.approx([np.std(x, ddof=1)])
    for statistic in (Variance(form="moments"), Variance(form="pairs")):
        poisson = statistic.form == "pairs"
        assert value(statistic, 1, poisson=poisson) == pytest.approx([np.var(x)])
    assert value(StandardDeviation(form="pairs"), 1, poisson=True, over=1.5) == pytest.approx(
        [np.std(x)]
    )


def test_covariance_and_correlation() -> None:
    _, _, rows = subset(2)
    sample, whole = np.cov(rows.T), np.cov(rows.T, ddof=0)
    r = sample[0, 1] / np.sqrt(sample[0, 0] * sample[1, 1])
    assert 0.3 < r < 0.95
    assert value(Covariance(form="pairs"), 2) == pytest.approx([sample[0, 1]])
    assert value(Covariance(form="moments"), 2) == pytest.approx([whole[0, 1]])
    assert value(Covariance(form="pairs"), 2, poisson=True, over=0.7) == pytest.approx(
        [whole[0, 1]]
    )
    for statistic in (Correlation(form="pairs"), Correlation(form="moments")):
        assert value(statistic, 2) == pytest.approx([r])
        assert value(statistic, 2, poisson=True, over=1.2) == pytest.approx([r])
    query = Correlation(form="pairs").query(subset_schema(LOWER[:2], UPPER[:2], len(rows)))
    values, counts, _ = subset(2)
    assert query.evaluate(values, counts) == pytest.approx(sample[[0, 0, 1], [0, 1, 1]])


def test_pairs_are_marked_and_moments_are_not() -> None:
    for name, paired in [("variance", True), ("covariance", True), ("correlation", True)]:
        assert set(CASES[name].query(9).paired) == {paired}
        assert set(CASES[f"{name} by moments"].query(9).paired) == {not paired}
        assert set(CASES[name].query(9, poisson=True).paired) == {not paired}
    assert set(CASES["mean"].query(9).paired) == {False}


def test_numbers_far_from_zero_keep_their_digits() -> None:
    rng = np.random.default_rng(3)
    offsets = rng.uniform(-1.0, 1.0, size=(40, 2))
    near = 1e9 + offsets
    exact = near - 1e9
    counts = np.ones(40, dtype=np.int64)
    low, high = [1e9 - 1.0] * 2, [1e9 + 1.0] * 2
    found = (
        Variance(form="pairs")
        .query(subset_schema(low[:1], high[:1], 40))
        .evaluate(near[:, :1], counts)
    )
    assert found == pytest.approx([np.var(exact[:, 0], ddof=1)], rel=1e-12)
    both = Covariance(form="pairs").query(subset_schema(low, high, 40)).evaluate(near, counts)
    assert both == pytest.approx([np.cov(exact.T)[0, 1]], rel=1e-12)
    moments = Variance(form="moments").query(subset_schema(low[:1], high[:1], 40))
    again = moments.estimate(moments.evaluate(near[:, :1], counts))
    assert again == pytest.approx([np.var(exact[:, 0])], rel=1e-12)


def test_noise_that_makes_no_sense_is_brought_back_to_what_can_be() -> None:
    sd = StandardDeviation(form="pairs").query(subset_schema([0.0], [1.0], 5))
    assert sd.estimate(np.array([[-0.1], [0.04]])) == pytest.approx(np.array([[0.0], [0.2]]))
    r = Correlation(form="pairs").query(subset_schema([0.0, 0.0], [1.0, 1.0], 5))
    wild = r.estimate(np.array([[0.1, 5.0, 0.1], [-0.1, -0.2, 0.1], [0.1, 0.05, 0.1]]))
    assert wild == pytest.approx(np.array([[1.0], [-1.0], [0.5]]))
    mean = Mean().query(subset_schema([0.0], [2.0], 5.0, poisson=True))
    assert mean.estimate(np.array([0.1, -3.0])) == pytest.approx([1.0 + 0.1 / 0.25])


def test_an_empty_poisson_subset_is_a_subset() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    for case in CASES.values():
        query = case.query(3.0, poisson=True)
        assert not query.evaluate(np.zeros((0, case.columns)), nothing).any()
        assert np.isfinite(query.estimate(np.zeros(query.width))).all()


@pytest.mark.parametrize("far", [0.0, 0.2])
def test_moments_carry_less_noise_than_pairs(far: float) -> None:
    # Delta method: 2 against sqrt(4/11 + 4 far^2); 20 000 draws know the ratio to 1.5 per cent.
    rng = np.random.default_rng(4)
    pairs = Variance(form="pairs").query(subset_schema([-1.0], [1.0], 1000))
    moments = Variance(form="moments").query(subset_schema([-1.0], [1.0], 1000))
    exact = np.array([far, far**2 + 0.1])
    noise = np.array([block.radius for block in moments.blocks])
    found = moments.estimate(exact + noise * rng.normal(size=(20_000, 2)))
    ratio = pairs.blocks[0].radius / np.std(found)
    claimed = 2.0 / np.sqrt(4.0 / 11.0 + 4.0 * far**2)
    assert ratio == pytest.approx(claimed, rel=0.03)
    assert ratio > 2.7
