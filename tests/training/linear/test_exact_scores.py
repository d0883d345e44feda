"""Scores and squares on the grid are exact: compared with rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustdp import InvalidParameter, NumericalFailure
from mustdp.training.linear.descent import EntryBits, LinearRecords, SquaredError, exp_of_negative
from tests.training.linear.problems import batch_of


def exact_products(rows: Any, weights: Any) -> list[Fraction]:
    return [
        sum((Fraction(float(x)) * Fraction(float(w)) for x, w in zip(row, weights, strict=True)),
            Fraction(0))
        for row in rows
    ]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 300),
    st.floats(-320, 99),
    st.floats(-320, 150),
    st.sampled_from([0.0, 6.0, 40.0]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_scores_and_norms_are_exact(
    d: int, size: float, weight: float, spread: float, single: bool, seed: int
) -> None:
    """Magnitudes from the smallest to where rows are left out, within a row as well."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        rows = rng.normal(size=(9, d)) * 10.0 ** (size - rng.uniform(0, spread, (9, d)))
        if single:
            rows = np.clip(rows, -3.4e38, 3.4e38).astype(np.float32)
        weights = rng.normal(size=(1, d)) * 10.0 ** (weight - rng.uniform(0, spread, (1, d)))
    records = LinearRecords(rows, np.zeros(9), SquaredError(), True)
    rounded = records.grid.weights(weights)
    found = records._scores(records.rows, np.ascontiguousarray(rounded.T))[0]
    assert [Fraction(float(x)) for x in found] == exact_products(records.rows, rounded[0])
    for row, norm in zip(records.rows, records.norms, strict=True):
        square = exact_products([row], row)[0] + 1
        if math.isfinite(norm):
            assert abs(Fraction(float(norm)) ** 2 / square - 1) < 1e-15


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 784, 785, 1024, 1025, 10**6])
def test_bits_are_as_many_as_stay_exact(d: int) -> None:
    grid = EntryBits.of(d)
    assert d * 2 ** (grid.row_bits + grid.weight_bits) <= 2**53
    assert d * 2 ** (2 * grid.row_bits) <= 2**53
    assert d * 2 ** (grid.row_bits + grid.weight_bits + 1) > 2**53 or d & (d - 1)
    for more in ((1, 0), (0, 2), (2, 0)):
        with pytest.raises(NumericalFailure, match="not exact"):
            EntryBits(2 * d, grid.row_bits + more[0], grid.weight_bits + more[1])


def test_too_many_columns_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"X must have at most 2\^29 columns"):
        EntryBits.of(2**29 + 1)
    assert EntryBits.of(2**29).row_bits == 12


def test_a_library_that_rounds_is_found_out() -> None:
    """More bits than are exact stand for a product in another precision."""
    grid = EntryBits.of(3)
    grid.try_product(2)
    object.__setattr__(grid, "row_bits", 30)
    object.__setattr__(grid, "weight_bits", 30)
    with pytest.raises(NumericalFailure, match="not exact"):
        grid.try_product(2)
    coarse = EntryBits.of(3)
    object.__setattr__(coarse, "row_bits", 28)
    object.__setattr__(coarse, "weight_bits", 10)
    with pytest.raises(NumericalFailure, match="not exact"):  # squares are tried too
        coarse.try_product(2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1e-30, 1.0, 3e38])
def test_rows_change_by_less_than_a_unit_and_are_never_longer(dtype: Any, size: float) -> None:
    rng = np.random.default_rng(1)
    rows = (rng.uniform(-1, 1, (50, 20)) * size).astype(dtype)
    rows[0] = np.finfo(np.float32).max
    grid = EntryBits.of(20)
    kept, short = grid.rows(rows)
    assert kept.dtype == dtype
    assert short.all()
    assert np.all(np.abs(kept) <= np.abs(rows))
    largest = np.abs(rows).max(axis=1, keepdims=True).astype(np.float64)
    assert np.all(np.abs(kept.astype(np.float64) - rows) <= largest * 2.0 ** (1 - grid.row_bits))
    assert np.array_equal(grid.rows(kept)[0], kept)


@pytest.mark.parametrize("entry", [1e101, -1e300, np.inf, np.nan])
def test_rows_beyond_the_range_contribute_nothing(entry: float) -> None:
    rows = np.array([[1.0, entry], [1.0, 2.0]])
    records = LinearRecords(rows, np.full(2, 5.0), SquaredError(), True)
    assert not records.rows[0].any()
    assert records.norms[0] == np.inf
    total, _ = records.clipped_sum(np.zeros((1, 3)), batch_of(r0=1), 1.0)
    assert not total.any()
    assert records.clipped_sum(np.zeros((1, 3)), batch_of(r1=1), 1.0)[0].any()


@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf, 1e200])
def test_weights_beyond_the_range_are_refused(weight: float) -> None:
    with pytest.raises(NumericalFailure, match="learning rate"):
        EntryBits.of(2).weights(np.array([[1.0, weight]]))


def test_powers_are_accurate_and_the_same_at_every_place() -> None:
    values = -np.random.default_rng(2).exponential(40.0, 300)
    values[:4] = 0.0, -0.0, -1e-300, -707.9
    found = exp_of_negative(values)
    expected = np.array([math.exp(x) for x in values])
    assert np.max(np.abs(found / expected - 1)) < 5e-16
    for begin in range(70):
        for end in (begin + 1, 2 * begin + 3, 300):
            assert np.array_equal(exp_of_negative(values[begin:end]), found[begin:end])
    assert exp_of_negative(np.array([-np.inf, -1e300])).max() < 1e-300
    assert np.isnan(exp_of_negative(np.array([np.nan, -1.0]))).tolist() == [True, False]
