"""Linear regression from released moments."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mustdp.estimation.schema import SubsetSchema
from mustdp.estimation.statistics.moments import LEAST_EIGENVALUE, MomentQuery
from mustdp.types import LinearRegression

FloatArray = NDArray[np.float64]
LOWER, UPPER = [10.0, -2.0, 0.0, -40.0], [20.0, 2.0, 1.0, 60.0]


def problem(regressors: int, seed: int = 8) -> FloatArray:
    rng = np.random.default_rng(seed)
    x = rng.uniform(LOWER[:regressors], UPPER[:regressors], size=(60, regressors))
    y = 2.0 + x @ np.array([1.5, -4.0, 3.0])[:regressors] + rng.normal(scale=3.0, size=60)
    assert (y > LOWER[3]).all()
    assert (y < UPPER[3]).all()
    return np.column_stack([x, y])


def query_of(regressors: int, size: float, poisson: bool = False) -> MomentQuery:
    lower, upper = [*LOWER[:regressors], LOWER[3]], [*UPPER[:regressors], UPPER[3]]
    query = LinearRegression().query(SubsetSchema(lower, upper, size, poisson=poisson))
    assert isinstance(query, MomentQuery)
    return query


def floored(query: MomentQuery, vectors: FloatArray) -> NDArray[np.bool_]:
    assert isinstance(query.statistic, LinearRegression)
    return query.statistic.floored(query.averages(vectors))


@pytest.mark.parametrize("poisson", [False, True])
@pytest.mark.parametrize("regressors", [1, 2, 3])
def test_without_noise_it_is_least_squares(regressors: int, poisson: bool) -> None:
    values = problem(regressors)
    counts = np.random.default_rng(9).integers(1, 4, 60)
    rows = np.repeat(values, counts, axis=0)
    design = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    expected = np.linalg.lstsq(design, rows[:, -1], rcond=None)[0]
    query = query_of(regressors, 100.0 if poisson else len(rows), poisson)
    vector = query.evaluate(values, counts)
    assert query.labels == ("intercept", *(f"slope {i + 1}" for i in range(regressors)))
    assert query.estimate(vector) == pytest.approx(expected, rel=1e-9)
    assert not floored(query, vector)


def test_the_square_of_the_response_is_not_released() -> None:
    query = query_of(2, 10)
    assert [(block.label, block.width) for block in query.blocks] == [
        ("means", 3),
        ("squares", 2),
        ("products", 3),
    ]
    second = query.averages(np.zeros(query.width)).second
    assert np.isnan(second[2, 2])
    assert np.isnan(second).sum() == 1


def test_a_matrix_that_noise_made_singular_is_raised_to_the_floor() -> None:
    query = query_of(1, 50)
    flat = np.array([0.0, 0.0, -0.2, 0.3])  # means 0, "square" -0.2, product 0.3
    sound = np.array([0.0, 0.0, 0.25, 0.1])
    assert floored(query, np.stack([flat, sound])).tolist() == [True, False]
    slopes = query.estimate(np.stack([flat, sound]))[:, 1] / (50.0 / 5.0)
    assert slopes == pytest.approx([0.3 / LEAST_EIGENVALUE, 0.4])


def test_the_floor_leaves_other_directions_alone() -> None:
    values = problem(2)
    values[:, 1] = 0.5  # a constant regressor
    query = query_of(2, 60)
    vector = query.evaluate(values, np.ones(60, dtype=np.int64))
    assert floored(query, vector)
    slope = np.polyfit(values[:, 0], values[:, 2], 1)[0]
    assert query.estimate(vector)[1:] == pytest.approx([slope, 0.0], rel=1e-8, abs=1e-8)
