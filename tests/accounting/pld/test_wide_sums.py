"""Sums of few variables of very different sizes, held against closed forms and quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import simpson

from mustdp.accounting.epochs.replace_one import FewBatches, ReplacedProfile
from mustdp.accounting.epochs.terms import Term
from mustdp.accounting.epochs.wide_sums import WideSum
from mustdp.mechanisms.mechanism import GaussianNoise


@pytest.mark.parametrize("shift", [1.25, 10 / 3, 8.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 6.0, 25.0])
def test_one_variable_is_a_gaussian_release(shift: float, epsilon: float) -> None:
    """E(D)_+ is the profile of two normal laws that are 2 s apart."""
    exact = float(GaussianNoise().profile(np.array(2.0 * shift), np.array([epsilon]))[0])
    one = WideSum(shift, 1)
    assert one.lower(epsilon, 0.0) <= exact <= one.upper(epsilon, 0.0)
    assert one.upper(epsilon, 0.0) - one.lower(epsilon, 0.0) <= 3e-3 * exact


@pytest.mark.parametrize(
    ("shift", "epsilon", "y"),
    [(1.3, 1.0, 0.0), (1.3, 4.0, 3.0), (10 / 3, 15.0, 0.0), (10 / 3, 32.83, 0.0), (2.0, 9.0, 1e4)],
)
def test_two_variables_by_quadrature(shift: float, epsilon: float, y: float) -> None:
    term = Term(shift, math.exp(epsilon))
    g = np.linspace(-14.0, 14.0 + shift, 400_001)
    first = np.exp(shift * g - 0.5 * shift**2) - math.exp(epsilon - 0.5 * shift**2) * np.exp(
        -shift * g
    )
    rest = y - first
    price = term.value(rest) + np.where(rest < term.mean, term.mean - rest, 0.0)
    exact = float(simpson(np.exp(-0.5 * g**2) / math.sqrt(2 * math.pi) * price, x=g))
    both = WideSum(shift, 2)
    assert both.lower(epsilon, y) <= exact * (1 + 1e-6)
    assert exact * (1 - 1e-6) <= both.upper(epsilon, y)
    assert both.upper(epsilon, y) - both.lower(epsilon, y) <= 4e-3 * exact


@settings(max_examples=10, deadline=None)
@given(
    shift=st.floats(1.2, 10.0),
    count=st.integers(2, 40),
    epsilon=st.floats(0.0, 60.0),
    y=st.floats(0.0, 1e6),
)
def test_below_is_never_above(shift: float, count: int, epsilon: float, y: float) -> None:
    total = WideSum(shift, count)
    assert 0.0 <= total.lower(epsilon, y) <= total.upper(epsilon, y)


@pytest.mark.parametrize(("shift", "bins", "steps"), [(2.0, 40, 40), (1.5, 30, 12), (2.5, 40, 40)])
def test_the_same_as_on_linear_grids(shift: float, bins: int, steps: int) -> None:
    few, many = FewBatches(shift, bins, steps), ReplacedProfile(shift, bins, steps)
    assert many.few is None
    assert ReplacedProfile(shift, 7, 7).few is not None
    for epsilon in (0.5, 3.0, 7.0):
        assert many.attained(epsilon) <= few.upper(math.expm1(epsilon))
        assert few.attained(epsilon) <= float(many(np.array([epsilon]))[0])


@pytest.mark.slow
def test_a_pair_below_attains_no_more_than_the_profile() -> None:
    profile = ReplacedProfile(1.5, 3, 3)
    pair = profile.pair
    for epsilon in (0.0, 0.4, 2.0, 6.0, 10.0):
        attained = pair.attained(epsilon)
        certified = float(profile(np.array([epsilon]))[0])
        assert 0.9 * certified <= attained <= certified
