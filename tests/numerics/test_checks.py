"""Validators: NaN fails everywhere, and the message names the argument, the value, the limits."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mustdp import InvalidParameter
from mustdp.numerics import checks

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("value", [NAN, INF, -INF, -1e-300, "1", b"1", True, np.True_, None, [1.0]])
def test_real_refuses_what_is_no_finite_number_in_range(value: Any) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        checks.real("sigma", value, at_least=0.0)
    assert "sigma must be a finite number >= 0" in str(refusal.value)
    assert repr(value) in str(refusal.value)


@pytest.mark.parametrize("value", [NAN, 0.0, 1.0, -1.0, 1 + 1j])
def test_real_excludes_open_ends(value: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"delta must be a finite number > 0 and < 1"):
        checks.real("delta", value, above=0, below=1)


def test_real_takes_whatever_is_a_number() -> None:
    for value in (2, 2.0, np.float32(2), np.int64(2), Fraction(2), Decimal(2)):
        found = checks.real("x", value, at_least=2, at_most=2)
        assert found == 2.0
        assert type(found) is float


def test_real_refuses_an_integer_beyond_double_precision() -> None:
    with pytest.raises(InvalidParameter, match="x must be a finite number"):
        checks.real("x", 10**400)


@pytest.mark.parametrize("value", [NAN, 1.0, 2.5, "3", True, np.False_, None, 0, -1, 2**53 + 1])
def test_integer_refuses_floats_booleans_and_what_is_out_of_range(value: Any) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        checks.integer("steps", value, 1)
    assert "steps must be an integer from 1 to" in str(refusal.value)
    assert str(value) in str(refusal.value)


def test_integer_takes_numpy_integers() -> None:
    assert checks.integer("m", np.int64(7), 1) == 7
    assert type(checks.integer("m", np.uint8(7), 1)) is int


@pytest.mark.parametrize(
    "values",
    [
        [],
        [[1.0]],
        [NAN],
        [1.0, INF],
        [-1.0],
        "1",
        ["1"],
        [True],
        [None],
        [1 + 1j],
        None,
        [[1], [2, 3]],
    ],
)
def test_reals_refuses_empty_nested_and_bad_entries(values: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon must be a number or a non-empty list"):
        checks.reals("epsilon", values, at_least=0)


def test_reals_copies_so_that_the_caller_cannot_change_it_later() -> None:
    given = np.array([1.0, 2.0])
    taken = checks.reals("epsilon", given)
    given[0] = 5.0
    assert taken.tolist() == [1.0, 2.0]
    assert checks.reals("epsilon", 3).tolist() == [3.0]


def test_reals_names_both_limits() -> None:
    with pytest.raises(InvalidParameter, match=r">= 0 and <= 1, got np.float64\(2.0\)|got 2.0"):
        checks.reals("x", [0.5, 2.0], at_least=0, at_most=1)


def test_choice_lists_the_options() -> None:
    assert checks.choice("relation", "a", ("a", "b")) == "a"
    with pytest.raises(InvalidParameter, match="relation must be one of 'a', 'b', got 'c'"):
        checks.choice("relation", "c", ("a", "b"))


def test_frozen_arrays_cannot_be_written() -> None:
    array = checks.frozen(np.zeros(2))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0
