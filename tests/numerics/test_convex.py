"""Lower hulls, and reading convex functions off their chords: never below the function."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mustdp.numerics.convex import chord, hull_slopes, lower_hull
from tests.arrays import FloatArray

points = st.lists(
    st.tuples(st.integers(-50, 50), st.integers(-50, 50)),
    min_size=2,
    max_size=12,
    unique_by=lambda point: point[0],
)


@given(points)
def test_the_hull_lies_below_all_points_and_is_convex(chosen: list[tuple[int, int]]) -> None:
    chosen.sort()
    x, y = (np.array(column, dtype=np.float64) for column in zip(*chosen, strict=True))
    hull = lower_hull(x, y)
    assert hull[0] == 0
    assert hull[-1] == x.size - 1
    assert np.all(np.interp(x, x[hull], y[hull]) <= y + 1e-9)
    slopes = [
        Fraction(chosen[b][1] - chosen[a][1], chosen[b][0] - chosen[a][0])
        for a, b in pairwise(hull)
    ]
    assert slopes == sorted(set(slopes))


def test_hull_slopes_are_those_of_a_convex_function() -> None:
    epsilon = np.linspace(0.0, 3.0, 400)
    value = 0.25 * np.exp(-epsilon)  # 1/(4 alpha), slope -1/(4 alpha^2)
    slopes = hull_slopes(epsilon, value)
    assert np.allclose(slopes[1:-1], 0.25 * np.exp(-2.0 * epsilon[1:-1]), rtol=0.02)
    assert np.all(np.diff(slopes) <= 0)


@given(st.floats(0.0, 30.0), st.integers(0, 2**32))
def test_chords_are_never_below_a_convex_decreasing_function(at: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = np.concatenate([[0.0], np.sort(rng.uniform(0.01, 20.0, 12))])

    def function(epsilon: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-1.5 * epsilon))  # alpha^(-3/2)

    found = chord(grid, function(grid), np.array([at]))
    assert found[0] >= function(np.minimum(at, grid[-1])) * (1.0 - 1e-14)
    assert found[0] >= function(grid)[-1]


def test_beyond_the_grid_the_last_value_is_held_exactly() -> None:
    """Adding the difference of two values to the first would round the last one away to zero."""
    grid, value = np.array([0.0, 1.0, 2.0]), np.array([0.3, 1e-3, 1e-36])
    assert chord(grid, value, np.array([2.0, 5.0, 1e3])).tolist() == [1e-36] * 3
    assert chord(grid, value, grid).tolist() == value.tolist()
    assert chord(grid, value, np.array([np.nextafter(2.0, 0.0)]))[0] >= 1e-36


def test_wide_grids_do_not_overflow() -> None:
    found = chord(np.array([0.0, 1500.0]), np.array([0.5, 0.0]), np.array([700.0, 1499.0]))
    assert found[0] == 0.5
    assert found[1] <= 0.5
