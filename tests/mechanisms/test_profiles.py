"""Group profiles of noise: j copies act like j times the shift, and tangents fit the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustdp import gaussian, laplace

GROUPS = np.array([1.0, 2.0, 5.0])
mechanisms = st.sampled_from([gaussian, laplace])


def profiles_of(mechanism: Any) -> Any:
    return mechanism.profiles(mechanism.shift)


@settings(deadline=None)
@given(make=mechanisms, shift=st.floats(1e-6, 1e3), epsilon=st.floats(-50.0, 50.0))
def test_a_group_acts_like_a_larger_shift(make: Any, shift: float, epsilon: float) -> None:
    family = profiles_of(make(shift=shift)).delta(GROUPS, np.full((1, 3), epsilon))[0]
    for value, j in zip(family, GROUPS, strict=True):
        alone = make(shift=1.0).noise.profile(np.array(j * shift), np.array(epsilon))
        assert value == pytest.approx(max(float(alone), make(shift=1.0).noise.smallest), rel=1e-14)
    assert np.all(np.diff(family) >= -1e-12 * family[1:])


def test_a_gaussian_profile_is_never_zero() -> None:
    """Where the value underflows, 1e-300 stands in: the truth is not zero."""
    found = profiles_of(gaussian(shift=1e-9)).delta(np.ones(1), np.array([[600.0]]))
    assert found[0, 0] == 1e-300


def test_a_laplace_profile_is_exactly_zero_from_its_shift_on() -> None:
    found = profiles_of(laplace(shift=0.5)).delta(np.array([1.0, 3.0]), np.array([[0.5, 1.5]]))
    assert found.tolist() == [[0.0, 0.0]]


@settings(deadline=None)
@given(make=mechanisms, shift=st.floats(0.01, 30.0), share=st.floats(-0.99, 0.99))
def test_tangent_inverts_parameter_for_every_group(make: Any, shift: float, share: float) -> None:
    profiles = profiles_of(make(shift=shift))
    epsilon = share * shift * GROUPS[None, :]
    t = profiles.parameter(GROUPS, epsilon)
    for k in range(GROUPS.size):
        back = profiles.tangent(GROUPS, t[:, k])[0][0, k]
        assert back == pytest.approx(epsilon[0, k], abs=1e-12 * (1 + (5 * shift) ** 2))


@pytest.mark.parametrize("make", [gaussian, laplace])
def test_equal_parameters_mean_equal_slopes(make: Any) -> None:
    """At one t, all groups have the slope profiles.slope(t) in alpha: a line touches each there."""
    profiles = profiles_of(make(shift=0.8))
    for t in (0.3, 0.6, 0.79):
        logs = profiles.tangent(GROUPS, np.array([t]))[0]
        values = profiles.delta(GROUPS, logs)[0]
        slope = float(profiles.slope(np.array(t)))
        # Past its own end a Laplace profile is zero, and any flatter line touches it there.
        for nearby in (-1e-4, 1e-4):
            moved = profiles.delta(GROUPS, logs + nearby)[0]
            line = values - slope * np.exp(logs[0]) * np.expm1(nearby)
            assert np.all(moved >= line - 1e-15)
            assert np.all(moved <= line + np.exp(logs[0]) * 1e-7)


@pytest.mark.parametrize("make", [gaussian, laplace])
def test_slope_at_agrees_with_the_derivative(make: Any) -> None:
    profiles = profiles_of(make(shift=1.3))
    epsilon, step = np.array([[0.4, 0.9, 2.0]]), 1e-6
    up, down = (profiles.delta(GROUPS, epsilon + sign * step) for sign in (1.0, -1.0))
    numeric = (down - up) / (2.0 * step) / np.exp(epsilon)
    assert np.allclose(profiles.slope_at(GROUPS, epsilon), numeric, rtol=1e-6)


@pytest.mark.parametrize("make", [gaussian, laplace])
def test_profiles_take_minus_infinity(make: Any) -> None:
    profiles = profiles_of(make(shift=1.0))
    assert profiles.delta(GROUPS, np.full((1, 3), -np.inf)).tolist() == [[1.0, 1.0, 1.0]]


def test_saturation_is_where_the_last_group_stops_moving() -> None:
    assert profiles_of(gaussian(shift=2.0)).saturation(GROUPS) == np.inf
    assert profiles_of(laplace(shift=2.0)).saturation(GROUPS) == 10.0
