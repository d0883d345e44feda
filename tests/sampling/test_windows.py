"""Windows of binomial and hypergeometric laws against exact fractions and against scipy."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mustdp.errors import NumericalFailure
from mustdp.sampling import schemes
from mustdp.sampling.schemes import Window

TAILS = st.sampled_from([0.0, 1e-300, 1e-60, 1e-12, 1e-3, 0.4, 0.99])


def check(window: Window, exact: dict[int, Fraction], tail: float) -> None:
    """Kept entries are accurate to the stated error, and ``cut`` bounds the exact rest."""
    stated = Fraction(window.relative_error)
    missing = Fraction(1)
    for k, p in zip(window.values.tolist(), window.probabilities.tolist(), strict=True):
        truth = exact[k]
        missing -= truth
        assert abs(Fraction(p) - truth) <= stated * truth
    assert missing <= Fraction(window.cut)
    assert window.cut <= max(tail, 2e-300)
    assert window.probabilities.size >= 1
    assert not window.probabilities.flags.writeable


@given(st.integers(1, 60), st.integers(0, 50), st.integers(1, 50), TAILS)
@settings(max_examples=150, deadline=None)
def test_binomial(size: int, numerator: int, denominator: int, tail: float) -> None:
    numerator = min(numerator, denominator)
    p = Fraction(numerator, denominator)
    exact = {k: comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(size + 1)}
    check(schemes.binomial(size, numerator, denominator, tail), exact, tail)


@given(st.integers(1, 120), st.integers(0, 120), st.integers(0, 120), TAILS)
@settings(max_examples=150, deadline=None)
def test_hypergeometric(population: int, special: int, drawn: int, tail: float) -> None:
    special, drawn = min(special, population), min(drawn, population)
    ways = comb(population, drawn)
    exact = {
        k: Fraction(comb(special, k) * comb(population - special, drawn - k), ways)
        for k in range(min(special, drawn) + 1)
        if drawn - k <= population - special
    }
    check(schemes.hypergeometric(population, special, drawn, tail), exact, tail)


def test_roles_can_be_swapped() -> None:
    one = schemes.hypergeometric(1000, 30, 400, 0.0)
    two = schemes.hypergeometric(1000, 400, 30, 0.0)
    assert one.first == two.first
    np.testing.assert_allclose(one.probabilities, two.probabilities, rtol=1e-13)


@pytest.mark.parametrize("tail", [1e-6, 1e-200])
def test_large_windows_agree_with_scipy(tail: float) -> None:
    binomial = schemes.binomial(10**6, 1, 3, tail)
    expected = stats.binom.pmf(binomial.values, 10**6, 1 / 3)
    near = expected > 1e-250
    np.testing.assert_allclose(binomial.probabilities[near], expected[near], rtol=1e-9)
    drawn = schemes.hypergeometric(10**6, 3000, 40_000, tail)
    expected = stats.hypergeom.pmf(drawn.values, 10**6, 3000, 40_000)
    near = expected > 1e-250
    np.testing.assert_allclose(drawn.probabilities[near], expected[near], rtol=1e-8)


def test_a_chance_near_one_needs_no_wide_window() -> None:
    """The variance decides how wide a window is, not the mean."""
    window = schemes.binomial(2**53, 2**53 - 1, 2**53, 1e-30)
    assert window.probabilities.size < 100
    assert window.first + window.probabilities.size - 1 == 2**53
    missed = schemes.binomial(2**53, 1, 2**53, 1e-30)
    np.testing.assert_allclose(window.probabilities[::-1], missed.probabilities, rtol=1e-13)


def test_a_smaller_tail_gives_a_wider_window_and_the_same_entries() -> None:
    widths = []
    fine = schemes.binomial(5000, 1, 7, 0.0)
    for tail in (0.1, 1e-3, 1e-12, 1e-100):
        window = schemes.binomial(5000, 1, 7, tail)
        start = window.first - fine.first
        same = fine.probabilities[start : start + window.probabilities.size]
        np.testing.assert_allclose(window.probabilities, same, rtol=1e-12)
        widths.append(window.probabilities.size)
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_certain_outcomes_are_points() -> None:
    for window, value in (
        (schemes.binomial(9, 0, 5, 0.0), 0),
        (schemes.binomial(9, 5, 5, 0.0), 9),
        (schemes.hypergeometric(9, 9, 4, 0.0), 4),
        (schemes.hypergeometric(9, 4, 9, 0.0), 4),
        (schemes.hypergeometric(9, 0, 4, 0.0), 0),
    ):
        assert window.values.tolist() == [value]
        assert window.probabilities.tolist() == [1.0]
        assert window.cut == 0.0


def test_windows_that_are_too_wide_are_refused() -> None:
    with pytest.raises(NumericalFailure, match="at most 2000000 are supported"):
        schemes.binomial(2**53, 1, 2, 1e-30)


def test_mass_beyond_the_window_is_cut_mass() -> None:
    """What Bernstein's inequality leaves outside is no more than it says, but it is not zero."""
    size, tail = 1_000_000, 1e-20
    window = schemes.binomial(size, 1, 2, tail)
    with mp.workdps(60):
        below = window.first - 1  # the law is symmetric
        term = mp.exp(
            mp.loggamma(size + 1) - mp.loggamma(below + 1) - mp.loggamma(size - below + 1)
            - size * mp.log(2)
        )  # fmt: skip
        outside = mp.mpf(0)
        for k in range(below, below - 3000, -1):
            outside += term
            term *= mp.mpf(k) / (size - k + 1)
        last = window.first + window.probabilities.size - 1
        assert last == size - window.first
        assert window.cut >= 2 * outside
        assert window.cut <= tail


def test_mass_that_underflows_is_cut_mass() -> None:
    """Eleven copies at a chance of 1e-30 each: their mass of 1e-329 is no double, and not zero."""
    window = schemes.binomial(12, 1, 10**30, 0.0)
    assert window.probabilities.size == 11
    assert window.cut >= 1e-320
