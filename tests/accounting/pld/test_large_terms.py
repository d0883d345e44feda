"""Sums that one large variable decides: closed forms from both sides, held against transforms."""

from __future__ import annotations

import numpy as np
import pytest

from mustdp.accounting.epochs.sums import IndependentSum, one_large
from mustdp.accounting.epochs.terms import Term


@pytest.mark.parametrize("term", [Term(2.0), Term(1.5, 3.0)], ids=str)
def test_closed_forms_hold_against_transforms(term: Term) -> None:
    count = 20
    total = IndependentSum(term, count)
    y = np.linspace(8.0, 16.0, 5) * total.scale
    low, high = one_large(term, count, y)
    aim = total.aim(float(y[0]), float(y[-1]))
    assert np.all(low <= total.upper(y, aim, 0.03))
    assert np.all(high >= total.lower(y, aim, 0.03))
    assert np.all(low > 0.0)
    assert np.all(low <= high)


def test_two_variables_are_bracketed_as_quadrature_sees_them() -> None:
    term = Term(1.8)
    g = np.linspace(-9.0, 9.0, 40_001)
    weight = np.exp(-0.5 * g * g) / np.sqrt(2.0 * np.pi) * (g[1] - g[0])
    own = np.exp(1.8 * g - 1.62) - 1.0
    for y in (20.0, 60.0, 300.0):
        # The second in closed form, given the first.
        at = y - own
        price = term.value(1.0 + at) + np.maximum(-at, 0.0)
        exact = float(weight @ price)
        low, high = one_large(term, 2, np.array([y]))
        assert low[0] <= exact * (1.0 + 1e-6)
        assert high[0] >= exact * (1.0 - 1e-6)
        assert high[0] <= 3.0 * low[0]


def test_little_noise_and_many_bins_meet() -> None:
    low, high = one_large(Term(1.0 / 0.3), 10**6, 1e6 * np.expm1(np.array([5.0, 7.0, 10.0])))
    assert np.all(high <= low * (1.0 + 1e-4))
    # What is expected of the terms alone, the others at their mean.
    alone = 1e6 * Term(1.0 / 0.3).value(1.0 + 1e6 * np.expm1(np.array([5.0, 7.0, 10.0])))
    assert np.all(np.abs(low / alone - 1.0) < 0.05)


def test_nothing_is_claimed_where_it_does_not_hold() -> None:
    low, high = one_large(Term(1.0), 1, np.array([5.0]))
    assert low[0] == 0.0
    assert np.isinf(high[0])
    low, high = one_large(Term(0.5), 1000, np.array([0.0, 1.0]))
    assert low[0] == 0.0
    assert np.isinf(high[0])


def test_nothing_is_said_where_squares_overflow() -> None:
    low, high = one_large(Term(20.0), 3, np.array([1e149, 1e151, 1e200]))
    assert 0.0 < low[0] <= high[0] < np.inf
    assert low[1:].tolist() == [0.0, 0.0]
    assert high[1:].tolist() == [np.inf, np.inf]
