"""The one refinement loop: how far it goes at once, when it stops, and what it says then."""

from __future__ import annotations

import math

import pytest

from mustdp import NumericalFailure
from mustdp.accounting.certify import Fractions, GridAnswer, refine

BRIEF = Fractions(first=1.0, finest=1 / 64, boldness=0.9)


@pytest.mark.parametrize(
    ("excess", "halvings"), [(1.01, 1), (3.0, 1), (4.0, 1), (5.0, 2), (16.0, 2), (1000.0, 5)]
)
def test_errors_fall_with_the_square_of_the_spacing(excess: float, halvings: int) -> None:
    assert BRIEF.after(1.0, excess) == 0.5**halvings


def test_an_error_of_unknown_size_is_followed_one_step_at_a_time() -> None:
    assert BRIEF.after(1.0, math.inf) == 0.5


def test_what_would_need_more_than_the_finest_is_not_tried_unless_asked_for() -> None:
    thorough = Fractions(first=1.0, finest=1 / 64, boldness=0.9, last_look=True)
    assert BRIEF.after(0.5, 1e9) is None
    assert thorough.after(0.5, 1e9) == 1 / 64
    assert thorough.after(1 / 64, 2.0) is None


def test_the_loop_ends_with_the_first_good_answer() -> None:
    seen: list[float] = []

    def look_at(fraction: float) -> GridAnswer[float]:
        seen.append(fraction)
        error = 10.0 * fraction**2
        return GridAnswer(fraction, good_enough=error <= 1.0, excess=error)

    assert refine(look_at, BRIEF) == 0.25
    assert seen == [1.0, 0.25]


@pytest.mark.parametrize("finest", [False, True])
def test_an_answer_that_is_not_good_enough_is_never_returned(finest: bool) -> None:
    seen: list[float] = []

    def look_at(fraction: float) -> GridAnswer[float]:
        seen.append(fraction)
        return GridAnswer(
            fraction, good_enough=False, excess=2.0, finest=finest, shortfall="too rough"
        )

    with pytest.raises(NumericalFailure, match="too rough"):
        refine(look_at, BRIEF)
    assert len(seen) == (1 if finest else 7)
