"""The enclosures: the truth, by mpmath, lies inside, and they are as narrow as was asked for."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustdp.noise.exact import _pi, exponential_tail, normal_tail
from tests.noise.exact_tails import exact


@given(
    h=st.one_of(
        st.fractions(0, 12), st.floats(0, 38).map(Fraction), st.floats(0, 1e-9).map(Fraction)
    ),
    bits=st.integers(20, 1100),
)
@settings(max_examples=150, deadline=None)
def test_the_truth_lies_between(h: Fraction, bits: int) -> None:
    with mp.workprec(bits + 200):
        point = exact(h)
        for found, truth in (
            (normal_tail(h, bits), mp.erfc(point / mp.sqrt(2))),
            (exponential_tail(h, bits), mp.exp(-point)),
        ):
            low, high = found
            assert low <= mp.ldexp(truth, bits) <= high
            assert high - low <= 2


def test_far_exponential_tails() -> None:
    low, high = exponential_tail(Fraction(700), 1100)
    with mp.workprec(1500):
        assert low <= mp.ldexp(mp.exp(-700), 1100) <= high
    assert high - low <= 2


@pytest.mark.parametrize("bits", [10, 100, 1000])
def test_pi(bits: int) -> None:
    low, high = _pi(bits)
    with mp.workprec(bits + 100):
        assert low <= mp.ldexp(mp.pi, bits) <= high


def test_nothing_is_certain_to_be_beyond_zero() -> None:
    assert normal_tail(Fraction(0), 64)[1] >= 2**64
    assert exponential_tail(Fraction(0), 64)[1] >= 2**64
