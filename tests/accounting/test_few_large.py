"""Swapped records with little noise: both bounds, and chords between points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustdp as md
from mustdp.accounting.epochs.replace_one import ReplacedProfile
from mustdp.accounting.epochs.tables import Refined
from mustdp.mechanisms.mechanism import GaussianNoise


def swapped(sigma: float, bins: int) -> md.Bounds:
    noise = md.gaussian(noise_multiplier=sigma)
    plan = md.subsample(md.random_allocation(10**7, bins), noise)
    return md.account(plan, relation="replace_one").epsilon(1e-6)


@pytest.mark.parametrize(
    ("sigma", "bins"),
    [
        (0.3, 2),
        (0.3, 16),
        (0.5, 4),
        pytest.param(0.3, 64, marks=pytest.mark.slow),
        pytest.param(0.3, 1000, marks=pytest.mark.slow),
        (0.3, 10**6),
        pytest.param(0.4, 10**5, marks=pytest.mark.slow),
        (0.5, 1000),
    ],
)
def test_both_bounds_meet_to_a_thousandth(sigma: float, bins: int) -> None:
    found = swapped(sigma, bins)
    assert 0.0 < found.upper - found.lower <= 1e-3 * found.upper
    # Swapping a record is no less visible than leaving it out.
    noise = md.gaussian(noise_multiplier=sigma)
    left_out = md.subsample(md.random_allocation(10**7, bins), noise)
    if bins < 10**5:
        assert md.account(left_out).epsilon(1e-6).lower <= found.upper


def test_less_noise_and_fewer_bins_cost_more() -> None:
    costs = [swapped(sigma, 200).upper for sigma in (0.3, 0.45, 0.8)]
    assert costs == sorted(costs, reverse=True)
    costs = [swapped(0.3, bins).upper for bins in (50, 3000)]
    assert costs == sorted(costs, reverse=True)


@settings(max_examples=12, deadline=None)
@given(
    sigma=st.floats(0.3, 1.2),
    bins=st.integers(2, 2000),
    epsilon=st.floats(0.05, 12.0),
    part=st.floats(0.2, 1.0),
)
def test_what_is_attained_is_certified(
    sigma: float, bins: int, epsilon: float, part: float
) -> None:
    steps = max(1, round(part * bins))
    profile = ReplacedProfile(1.0 / sigma, bins, steps)
    upper = float(profile(np.array([epsilon]))[0])
    assert 0.0 <= profile.attained(epsilon) <= upper
    shift = np.array(2.0 / sigma)
    plain = float(GaussianNoise().profile(shift, np.array([epsilon]))[0])
    assert upper <= plain * (1.0 + 1e-9)


def test_chords_lie_above_and_do_not_depend_on_what_was_asked() -> None:
    shift, bins = 0.8, 50
    profile = ReplacedProfile(shift, bins, bins)
    epsilons = np.linspace(0.02, 1.5, 9)
    single = np.array([float(profile(np.array([e]))[0]) for e in epsilons])
    chords = profile(epsilons)
    assert np.all(chords >= single * (1.0 - 1e-6))
    # Where there is little left they are further off.
    assert np.all(chords <= single * np.where(single > 1e-8, 1.004, 1.02))
    other = ReplacedProfile(shift, bins, bins)
    other(np.linspace(0.5, 0.7, 5))
    assert np.array_equal(other(epsilons), chords)


def test_one_bin_bends_as_chords_of_logarithms_allow() -> None:
    """For one bin the profile is Gaussian's with shift 2 s: the bend of its logarithm is known."""
    s = 0.7
    epsilon = np.linspace(0.0, 6.0, 400)
    logs = np.log(GaussianNoise().profile(np.array(2.0 * s), epsilon))
    bend = 1.0 / (8.0 * s * s)
    for start, stop in ((0, 399), (50, 120), (300, 399)):
        a, b = epsilon[start], epsilon[stop]
        inside = slice(start, stop + 1)
        chord = np.interp(epsilon[inside], [a, b], [logs[start], logs[stop]])
        room = (epsilon[inside] - a) * (b - epsilon[inside])
        assert np.all(logs[inside] <= chord + bend * room + 1e-9)
        assert np.any(logs[inside] > chord + 0.5 * bend * room)


def test_a_refined_profile_is_above_what_it_is_made_of() -> None:
    known = Refined(lambda x: math.exp(-3.0 * x), 1.0, 20.0, math.inf)
    x = np.linspace(0.0, 5.0, 333)
    found = known(x)
    assert np.all(found >= np.exp(-3.0 * x) * (1.0 - 1e-12))
    assert np.all(found[x < 3.0] <= np.exp(-3.0 * x[x < 3.0]) * 1.005)
