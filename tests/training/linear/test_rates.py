"""Learning rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mustdp import InvalidParameter
from mustdp.training.linear.descent import SCHEDULES, learning_rates


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_start_at_the_rate_and_never_rise(schedule: str) -> None:
    rates = learning_rates(0.7, schedule, 50)
    assert rates[0] == 0.7
    assert (np.diff(rates) <= 0).all()
    assert (rates > 0).all()


def test_a_function_of_the_step() -> None:
    assert learning_rates(lambda step: 2.0 * step, "constant", 3).tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("rate", "schedule", "named"),
    [
        (0.0, "constant", "learning_rate"),
        (-1.0, "constant", "learning_rate"),
        (float("nan"), "constant", "learning_rate"),
        ("fast", "constant", "learning_rate"),
        (0.1, "steep", "schedule"),
        (lambda step: 0.1, "cosine", "schedule"),
        (lambda step: float("nan"), "constant", r"learning_rate\(0\)"),
        (lambda step: 1.0 - step, "constant", r"learning_rate\(2\)"),
    ],
)
def test_rates_that_make_no_sense(rate: Any, schedule: str, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        learning_rates(rate, schedule, 5)
