"""What is refused, and that the refusal names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation.queries import block
from mustdp.estimation.schema import Range, SubsetSchema
from mustdp.types import (
    Correlation,
    Covariance,
    LinearRegression,
    Mean,
    Median,
    Proportion,
    Quantile,
    StandardDeviation,
    Variance,
)
from tests.estimation.bootstrap.statistics.swaps import CASES, Case

NAN, INF = float("nan"), float("inf")

BAD_STATISTICS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Quantile(0.0), "p must"),
    (lambda: Quantile(1.0), "p must"),
    (lambda: Quantile(NAN), "p must"),
    (lambda: Quantile("0.5"), "p must"),  # type: ignore[arg-type]
    (lambda: Quantile(0.5, grid=0), "grid must"),
    (lambda: Quantile(0.5, grid=1025), "grid must"),
    (lambda: Quantile(0.5, grid=2.5), "grid must"),  # type: ignore[arg-type]
    (lambda: Quantile(0.5, grid=()), "grid must"),
    (lambda: Quantile(0.5, grid=(1.0, 1.0)), "grid must"),
    (lambda: Quantile(0.5, grid=(2.0, 1.0)), "grid must"),
    (lambda: Quantile(0.5, grid=(1.0, NAN)), "grid must"),
    (lambda: Median(grid=tuple(range(2000))), "grid must"),
    (lambda: Variance(form="both"), "form must"),
    (lambda: Correlation(form=""), "form must"),
    (lambda: Proportion(), "proportion must"),
    (lambda: Proportion(above=1.0, at_least=1.0), "proportion must"),
    (lambda: Proportion(below=1.0, equal=1.0), "proportion must"),
    (lambda: Proportion(above=NAN), "above must"),
    (lambda: Proportion(at_most=INF), "at_most must"),
    (lambda: Proportion(above=2.0, below=2.0), "limits"),
    (lambda: Proportion(at_least=3.0, at_most=2.0), "limits"),
    (lambda: Mean(columns=()), "columns of mean must be 1 column, got 0"),
    (lambda: Mean(columns=(True,)), "columns must"),
    (lambda: Mean(columns=(1.5,)), "columns must"),  # type: ignore[arg-type]
    (lambda: Covariance(form="pairs", columns=("a", "a")), "columns must differ"),
    (lambda: LinearRegression(columns=("a",)), "columns of regression must be at least 2"),
]


@pytest.mark.parametrize(("make", "words"), BAD_STATISTICS)
def test_statistics_that_make_no_sense(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        make()


@pytest.mark.parametrize("poisson", [False, True])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("lower", "upper", "size", "words"),
    [
        (NAN, 1.0, 5, "lower must"),
        (0.0, NAN, 5, "upper must"),
        (-INF, 1.0, 5, "lower must"),
        (0.0, INF, 5, "upper must"),
        (1.0, 1.0, 5, "lower must be below upper"),
        (2.0, 1.0, 5, "lower must be below upper"),
        (-1.5e308, 1.5e308, 5, "apart"),
        (0.0, 1.0, NAN, "size must"),
        (0.0, 1.0, INF, "size must"),
        (0.0, 1.0, 0, "size must"),
        (0.0, 1.0, -3, "size must"),
        (0.0, 1.0, 1e17, "size must"),
        (0.0, 1.0, "5", "size must"),
    ],
)
def test_ranges_and_sizes(
    name: str, poisson: bool, lower: float, upper: float, size: float, words: str
) -> None:
    case = CASES[name]
    statistic = case.statistic
    if isinstance(statistic, Proportion):
        statistic = Proportion(above=0.5)
    if isinstance(statistic, Quantile):
        statistic = Median(grid=3)
    good_lower, good_upper = [0.0] * case.columns, [1.0] * case.columns
    good_lower[-1], good_upper[-1] = lower, upper
    with pytest.raises(InvalidParameter, match=words):
        statistic.query(SubsetSchema(good_lower, good_upper, size, poisson=poisson))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_numbers_of_columns(case: Case) -> None:
    for count in (0, case.columns - 1, case.columns + 1):
        if case.statistic.name == "regression" and count >= 2:
            continue
        with pytest.raises(InvalidParameter, match=r"columns|lower must"):
            case.statistic.query(SubsetSchema([0.0] * count, [1.0] * count, 5))
    with pytest.raises(InvalidParameter, match="upper must have one entry"):
        case.statistic.query(SubsetSchema([0.0] * case.columns, [1.0] * (case.columns + 1), 5))


def test_sizes_of_multisets_are_whole_and_pairs_need_two() -> None:
    for case in CASES.values():
        with pytest.raises(InvalidParameter, match="size must be a whole number"):
            case.query(5.5)
    for statistic in (Variance(form="pairs"), StandardDeviation(form="pairs")):
        with pytest.raises(InvalidParameter, match="size must be a whole number from 2"):
            statistic.query(SubsetSchema([0.0], [1.0], 1))
    for both in (Covariance(form="pairs"), Correlation(form="pairs")):
        with pytest.raises(InvalidParameter, match="size must be a whole number from 2"):
            both.query(SubsetSchema([0.0] * 2, [1.0] * 2, 1))
    assert Variance(form="moments").query(SubsetSchema([0.0], [1.0], 1)).width == 2


def test_a_multiset_of_another_size_than_the_bound_is_for() -> None:
    for case in CASES.values():
        values, counts = case.points(2)[:2], np.array([2, 2])
        with pytest.raises(InvalidParameter, match="counts must add up to size=5, got 4"):
            case.query(5).evaluate(values, counts)


def test_ranges_whose_square_vanishes_or_overflows_get_no_sensitivity_of_zero() -> None:
    for high in (1e-320, 1e-200, 1e200):
        for statistic in (Variance(form="pairs"), Variance(form="moments")):
            with pytest.raises(InvalidParameter, match="apart by"):
                statistic.query(SubsetSchema([0.0], [high], 5))
        with pytest.raises(InvalidParameter, match="apart by"):
            Correlation(form="pairs").query(SubsetSchema([0.0, 0.0], [1.0, high], 5))
    with pytest.raises(InvalidParameter, match="apart by"):
        Mean().query(SubsetSchema([1.0], [float(np.nextafter(1.0, 2.0))], 5))
    with pytest.raises(NumericalFailure, match="sensitivity of mean came out as 0"):
        block("mean", 1, 0.0)
    assert (
        Variance(form="pairs").query(SubsetSchema([0.0], [1e-100], 2**53)).blocks[0].radius > 1e-217
    )


def test_a_midpoint_that_is_rounded_leaves_no_value_farther_away_than_half() -> None:
    step = float(np.spacing(1.0))
    narrow = Range(1.0, 1.0 + 3.0 * step)
    assert narrow.half == max(narrow.upper - narrow.mid, narrow.mid - narrow.lower) == 2.0 * step


def test_limits_and_grids_outside_the_range() -> None:
    for statistic in (Proportion(above=7.0), Proportion(equal=-1.0), Proportion(at_most=6.1)):
        with pytest.raises(InvalidParameter, match="must have limits from 0 to 6"):
            statistic.query(SubsetSchema([0.0], [6.0], 5))
    for grid in ((-1.0, 1.0), (1.0, 6.0), (7.0,)):
        with pytest.raises(InvalidParameter, match="grid must lie within"):
            Quantile(0.5, grid=grid).query(SubsetSchema([0.0], [6.0], 5))
    with pytest.raises(InvalidParameter, match="grid must lie within"):
        Quantile(0.5, grid=1000).query(SubsetSchema([1.0], [1.0 + 1e-14], 5))
