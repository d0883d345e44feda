"""Statistics of the user's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mustdp.errors import InvalidParameter, NotCovered
from mustdp.types import UserStatistic
from tests.estimation.bootstrap.statistics.swaps import moved
from tests.seams import in_halves, subset_schema

ONES = np.ones(3, dtype=np.int64)
VALUES = np.array([[1.0], [2.0], [6.0]])


def average(values: Any, counts: Any) -> Any:
    return counts @ values[:, 0] / counts.sum()


def test_the_reach_is_half_of_the_stated_sensitivity() -> None:
    query = UserStatistic(average, sensitivity=0.5, average=True).query(
        subset_schema([0.0], [9.0], 3)
    )
    assert query.blocks[0].radius == 0.25
    assert query.evaluate(VALUES, ONES) == pytest.approx([3.0])
    assert query.estimate(np.array([[1.0], [2.0]])).tolist() == [[1.0], [2.0]]
    shrinking = UserStatistic(average, sensitivity=lambda m: 9.0 / m, average=True)
    assert shrinking.query(subset_schema([0.0], [9.0], 18)).blocks[0].radius == pytest.approx(0.25)


def test_vectors_have_a_number_for_each_label() -> None:
    both = UserStatistic(
        lambda values, counts: [values.min(), values.max()],
        13.0,
        labels=("low", "high"),
        average=True,
    )
    query = both.query(subset_schema([0.0], [9.0], 3))
    assert query.labels == ("low", "high")
    assert query.width == 2
    assert query.evaluate(VALUES, ONES).tolist() == [1.0, 6.0]


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, float("nan"), float("inf"), "1", True])
def test_sensitivities_that_protect_nobody(sensitivity: Any) -> None:
    with pytest.raises(InvalidParameter, match="sensitivity must be a finite number > 0"):
        UserStatistic(average, sensitivity)
    late = UserStatistic(average, lambda m: sensitivity)
    with pytest.raises(InvalidParameter, match="sensitivity must be a finite number > 0"):
        late.query(subset_schema([0.0], [9.0], 3))


def variance(values: Any, counts: Any) -> Any:
    mean = counts @ values[:, 0] / counts.sum()
    return counts @ (values[:, 0] - mean) ** 2 / counts.sum()


@pytest.mark.parametrize(("size", "rho"), [(6, 0.0), (7, 0.0), (6, 0.1)])
def test_halves_take_the_bias_out_of_a_variance_exactly(size: int, rho: float) -> None:
    """Over all subsets of a size and all halves of them, the mean is the variance itself."""
    query = UserStatistic(variance, lambda m: 81.0 / m).query(
        subset_schema([0.0], [9.0], size, repeated_pairs=rho)
    )
    assert query.halved
    sigma2 = 4.0
    beta = [1.0 - (1.0 - 1.0 / m) * (1.0 - rho) for m in (size, size // 2)]
    expected = np.array([sigma2 * (1.0 - one) for one in beta])
    assert query.estimate(expected) == pytest.approx([sigma2])


def test_no_swap_moves_whole_and_halves_farther_than_stated() -> None:
    """Brute force over multisets of 4 entries on a grid, all cuts in half, all swaps."""
    exact = UserStatistic(variance, lambda m: 81.0 * (m - 1) / m**2)
    query = exact.query(subset_schema([0.0], [9.0], 4))
    ones = np.ones(4, dtype=np.int64)
    worst = 0.0
    for rows in itertools.product((0.0, 4.0, 9.0), repeat=4):
        for cut in itertools.combinations(range(4), 2):
            first = np.array([int(k in cut) for k in range(4)])
            vectors = []
            for end in (0.0, 4.0, 9.0):
                values = np.array([[end], *([x] for x in rows[1:])])
                vectors.append(query.total(values, ones, (first, 1 - first)))
            for one, other in itertools.combinations(vectors, 2):
                worst = max(worst, moved(query, one - other, copies=2))
    assert 0.99 < worst <= 1.0 + 1e-9


def test_halves_are_cut_with_equal_chances() -> None:
    """All 10 ways to take 2 of 5 entries, in 5000 cuts: chi-square at 1 in 1000."""
    rng = np.random.default_rng(3)
    seen = np.zeros((5, 5))
    for _ in range(5000):
        first, second = in_halves(np.ones(5, dtype=np.int64), rng)
        assert first.sum() == second.sum() == 2
        seen[tuple(np.flatnonzero(first))] += 1
    found = seen[np.triu_indices(5, 1)]
    assert float(((found - 500) ** 2 / 500).sum()) < stats.chi2.ppf(0.999, 9)


def test_what_else_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="sensitivity must be a function of m, unless"):
        UserStatistic(average, 1.0)
    with pytest.raises(InvalidParameter, match="average must be True or False"):
        UserStatistic(average, 1.0, average="yes")  # type: ignore[arg-type]
    halved = UserStatistic(average, lambda m: 9.0 / m).query(subset_schema([0.0], [9.0], 3))
    with pytest.raises(InvalidParameter, match="halves must be given"):
        halved.evaluate(VALUES, ONES)
    with pytest.raises(InvalidParameter, match="halves must be those"):
        halved.total(VALUES, ONES, (ONES, ONES))
    with pytest.raises(InvalidParameter, match="size must be a whole number from 2"):
        UserStatistic(average, lambda m: 9.0 / m).query(subset_schema([0.0], [9.0], 1))
    with pytest.raises(InvalidParameter, match="sensitivity must be given"):
        UserStatistic(average)
    with pytest.raises(InvalidParameter, match="function must be callable"):
        UserStatistic(3.0, 1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="labels must"):
        UserStatistic(average, 1.0, labels=(), average=True)
    with pytest.raises(NotCovered, match="fixed size"):
        UserStatistic(average, 1.0, average=True).query(
            subset_schema([0.0], [9.0], 3, poisson=True)
        )
    with pytest.raises(InvalidParameter, match="lower must be below upper"):
        UserStatistic(average, 1.0, average=True).query(subset_schema([9.0], [0.0], 3))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda values, counts: float("nan"), "finite"),
        (lambda values, counts: np.inf, "finite"),
        (lambda values, counts: [1.0, 2.0], "one for each label"),
        (lambda values, counts: [[1.0]], "one for each label"),
        (lambda values, counts: "many", "number"),
        (lambda values, counts: None, "number|finite"),
    ],
)
def test_what_the_function_must_not_return(function: Callable[..., Any], words: str) -> None:
    query = UserStatistic(function, 1.0, average=True).query(subset_schema([0.0], [9.0], 3))
    with pytest.raises(InvalidParameter, match=words):
        query.evaluate(VALUES, ONES)
