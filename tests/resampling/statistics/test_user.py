"""Statistics of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mustdp.errors import InvalidParameter, NotCovered
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.user import UserStatistic

ONES = np.ones(3, dtype=np.int64)
VALUES = np.array([[1.0], [2.0], [6.0]])


def average(values: Any, counts: Any) -> Any:
    return counts @ values[:, 0] / counts.sum()


def test_the_reach_is_half_of_the_stated_sensitivity() -> None:
    query = UserStatistic(average, sensitivity=0.5).query(Public([0.0], [9.0], 3))
    assert query.blocks[0].reach == 0.25
    assert query.evaluate(VALUES, ONES) == pytest.approx([3.0])
    assert query.estimate(np.array([[1.0], [2.0]])).tolist() == [[1.0], [2.0]]
    shrinking = UserStatistic(average, sensitivity=lambda m: 9.0 / m)
    assert shrinking.query(Public([0.0], [9.0], 18)).blocks[0].reach == pytest.approx(0.25)


def test_vectors_have_a_number_for_each_label() -> None:
    both = UserStatistic(
        lambda values, counts: [values.min(), values.max()], 13.0, labels=("low", "high")
    )
    query = both.query(Public([0.0], [9.0], 3))
    assert query.labels == ("low", "high")
    assert query.width == 2
    assert query.evaluate(VALUES, ONES).tolist() == [1.0, 6.0]


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, float("nan"), float("inf"), "1", True])
def test_sensitivities_that_protect_nobody(sensitivity: Any) -> None:
    with pytest.raises(InvalidParameter, match="sensitivity must be a finite number > 0"):
        UserStatistic(average, sensitivity)
    late = UserStatistic(average, lambda m: sensitivity)
    with pytest.raises(InvalidParameter, match="sensitivity must be a finite number > 0"):
        late.query(Public([0.0], [9.0], 3))


def test_what_else_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="sensitivity must be given"):
        UserStatistic(average)
    with pytest.raises(InvalidParameter, match="function must be callable"):
        UserStatistic(3.0, 1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="labels must"):
        UserStatistic(average, 1.0, labels=())
    with pytest.raises(NotCovered, match="fixed size"):
        UserStatistic(average, 1.0).query(Public([0.0], [9.0], 3, poisson=True))
    with pytest.raises(InvalidParameter, match="lower must be below upper"):
        UserStatistic(average, 1.0).query(Public([9.0], [0.0], 3))


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
    query = UserStatistic(function, 1.0).query(Public([0.0], [9.0], 3))
    with pytest.raises(InvalidParameter, match=words):
        query.evaluate(VALUES, ONES)
