"""Sums that one or a few large variables decide: closed forms, quadrature, draws and transforms."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from mustdp.accounting.epochs.sums import IndependentSum, above, one_large, places, prices
from mustdp.accounting.epochs.terms import Term
from mustdp.accounting.epochs.wide_sums import distance, few_large


def upper(term: Term, count: int, y: float = 0.0) -> float:
    far = distance(term, count, y)
    assert far is not None
    return few_large(term, count, y, far)


def exact(term: Term) -> float:
    """E(D_1 + D_2)_+ with 20 digits."""
    s, alpha = mp.mpf(term.shift), mp.mpf(term.alpha)

    def price(g: mp.mpf) -> mp.mpf:
        """The second term in closed form, given the first."""
        at = alpha * mp.exp(-s * g - s * s / 2) - mp.exp(s * g - s * s / 2)
        root = (at + mp.sqrt(at * at + 4 * alpha * mp.exp(-s * s))) / 2
        own = mp.log(root) / s + s / 2
        return mp.ncdf(s - own) - alpha * mp.ncdf(-s - own) - at * mp.ncdf(-own)

    with mp.workdps(20):
        middle = mp.log(alpha) / (2 * s)
        ends = [-9, middle - 2, middle - 1, middle, middle + 1, middle + 3, middle + 9]
        return float(mp.quad(lambda g: mp.npdf(g) * price(g), ends))


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.3, 5.0), (0.3, 12.0), (0.5, 4.0)])
def test_two_terms_are_known_as_quadrature_sees_them(sigma: float, epsilon: float) -> None:
    term = Term(1.0 / sigma, math.exp(epsilon))
    known = exact(term)
    assert known <= upper(term, 2) <= 1.02 * known


def test_three_terms_are_known_as_quadrature_sees_them() -> None:
    s, alpha = 1.0 / 0.4, math.exp(6.0)
    term = Term(s, alpha)
    g, width = np.linspace(-8.0, 11.0, 1500, retstep=True)
    chance = np.exp(-0.5 * g * g) / math.sqrt(2.0 * math.pi) * width
    d = np.exp(s * g - s * s / 2) - alpha * np.exp(-s * g - s * s / 2)
    at = -(d[:, None] + d[None, :])
    # The third term in closed form, given two.
    price = term.value(at.ravel()).reshape(at.shape) + np.maximum(term.mean - at, 0.0)
    known = float(chance @ price @ chance)
    assert known * (1.0 - 1e-6) <= upper(term, 3) <= 1.02 * known


@pytest.mark.parametrize(
    ("sigma", "bins", "epsilon"), [(0.3, 64, 12.0), (0.3, 1000, 10.0), (0.5, 1000, 4.0)]
)
def test_draws_of_the_others_with_a_large_term_in_closed_form(
    sigma: float, bins: int, epsilon: float
) -> None:
    rng = np.random.default_rng(11)
    s, alpha = 1.0 / sigma, math.exp(epsilon)
    g = rng.standard_normal((4000, bins - 1))
    others = (np.exp(s * g - s * s / 2) - alpha * np.exp(-s * g - s * s / 2)).sum(axis=1)
    paid = np.where(others < 0.0, Term(s, alpha).value(np.maximum(-others, 0.0)), 0.0)
    error = 4.0 * float(paid.std()) / math.sqrt(paid.size)
    found = upper(Term(s, alpha), bins) / bins
    # All but a few thousandths is due to exactly one large term.
    assert abs(found - float(paid.mean())) <= error + 0.004 * found
    assert abs(1.3 * found - float(paid.mean())) > error + 0.004 * found


@pytest.mark.parametrize(("shift", "alpha", "y"), [(2.0, 20.0, 0.0), (2.0, 0.0, 6000.0)])
def test_a_plain_transform_brackets_the_same(shift: float, alpha: float, y: float) -> None:
    term, count = Term(shift, alpha), 1000
    total = IndependentSum(term, count)
    at = np.array([y - count * term.mean])
    aim = total.aim(float(at[0]), float(at[0]) * 1.05)
    low, high = (side(at, aim, 0.1)[0] for side in (total.lower, total.upper))
    assert low <= upper(term, count, y) <= 1.005 * high


def test_an_epoch_that_ends_early_asks_for_more() -> None:
    term = Term(1.0 / 0.3, math.exp(8.0))
    levels = [upper(term, 100, y) for y in (0.0, 1e4, 1e5, 1e6)]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] > 1.01 * levels[-1]


def test_prices_far_beyond_the_first_are_not_lost() -> None:
    """Under a tilt weights underflow: then an earlier price stands in, from above."""
    term = Term(1.0, 2.0)
    law = above(term, 0.05, places(0.05, -20.0, 20.0)).law
    y = np.array([-3000.0, 0.0])
    steep = prices(law, 10, 1.0, y, +1.0)
    gentle = prices(law, 10, 0.1, np.array([0.0]), +1.0)
    assert steep[1] >= gentle[0] * (1.0 - 1e-9)
    assert prices(law, 10, 1.0, y, -1.0)[1] == 0.0


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
