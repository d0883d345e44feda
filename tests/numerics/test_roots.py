"""Roots of many increasing functions at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mustdp.numerics.convex import increasing_root
from tests.arrays import FloatArray


@given(st.lists(st.floats(-20.0, 20.0), min_size=1, max_size=8))
def test_roots_of_a_steep_function_are_found_row_by_row(goals: list[float]) -> None:
    goal = np.array(goals)

    def excess(x: FloatArray, rows: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        return np.sinh(x) - np.sinh(goal[rows]), np.cosh(x)

    found = increasing_root(excess, np.full(goal.size, -30.0), np.full(goal.size, 30.0))
    assert np.allclose(found, goal, rtol=1e-11, atol=1e-11)


def test_without_a_sign_change_the_nearer_end_is_returned() -> None:
    low, high = np.array([1.0, 1.0]), np.array([2.0, 2.0])
    offset = np.array([10.0, -10.0])
    found = increasing_root(lambda x, rows: (x + offset[rows], np.ones_like(x)), low, high)
    assert found == pytest.approx([1.0, 2.0], abs=1e-12)


def test_a_flat_function_and_an_empty_problem_end() -> None:
    flat = increasing_root(lambda x, _: (0.0 * x - 1.0, 0.0 * x), np.zeros(1), np.ones(1))
    assert flat.tolist() == [1.0]
    empty = increasing_root(lambda x, _: (x, np.ones_like(x)), np.zeros(0), np.zeros(0))
    assert empty.size == 0


def test_brackets_of_any_scale_converge() -> None:
    goal = np.array([1e-9, 1.0, 6e11])
    found = increasing_root(
        lambda x, rows: (x - goal[rows], np.full_like(x, 1e-30)), np.zeros(3), 10.0 * goal
    )
    assert np.allclose(found, goal, rtol=1e-12, atol=1e-12)


def test_the_arguments_are_left_alone() -> None:
    low, high = np.zeros(2), np.ones(2)
    increasing_root(lambda x, _: (x - 0.5, np.ones_like(x)), low, high)
    assert low.tolist() == [0.0, 0.0]
    assert high.tolist() == [1.0, 1.0]
