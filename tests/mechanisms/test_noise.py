"""The two noise laws: profiles to full relative accuracy, thresholds, tails."""

from __future__ import annotations

import json
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mustdp.mechanisms.mechanism import GaussianNoise, LaplaceNoise, Noise, dual

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "gaussian_profile.json").read_text())
NOISES: list[Noise] = [GaussianNoise(), LaplaceNoise()]
both = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)


def at(noise: Noise, distance: float, epsilon: float) -> mp.mpf:
    return mp.mpf(float(noise.profile(np.array(distance), np.array(epsilon))))


def self_dual(value: mp.mpf, epsilon: float) -> mp.mpf:
    """h(a) = 1 - a + a h(1/a): from the value at |epsilon| to the one at -|epsilon|."""
    alpha = mp.exp(-mp.mpf(epsilon))
    return 1 - alpha + alpha * value


def test_gaussian_profiles_match_mpmath_to_2e_minus_12_on_both_sides_of_zero() -> None:
    noise = GaussianNoise()
    with mp.workdps(60):
        for row in GOLDEN["rows"]:
            distance, epsilon = float.fromhex(row[0]), float.fromhex(row[1])
            exact = mp.mpf(row[2])
            if exact > 1e-300:
                assert abs(at(noise, distance, epsilon) / exact - 1) < 2e-12, row
            mirrored = self_dual(exact, epsilon)
            if mirrored > 0:
                assert abs(at(noise, distance, -epsilon) / mirrored - 1) < 2e-12, row


def test_the_papers_smallest_value() -> None:
    """Shift 1/4, eps = 4.5: the paper's tables show 1.27e-73."""
    assert float(at(GaussianNoise(), 0.25, 4.5)) == pytest.approx(1.2659323469223e-73, rel=1e-12)


@pytest.mark.parametrize("distance", [1e-9, 1e-4, 0.3, 1.0, 7.0, 40.0, 600.0, 1e6, 1e9])
def test_laplace_profiles_match_mpmath(distance: float) -> None:
    noise = LaplaceNoise()
    shares = [0.0, 1e-12, 1e-3, 0.5, 0.9, 1.0 - 1e-12, 1.0, 1.0 + 1e-15, 2.0, 50.0]
    with mp.workdps(60):
        for share in shares:
            epsilon = share * distance
            exact = mp.mpf(0)
            if epsilon < distance:
                exact = -mp.expm1((mp.mpf(epsilon) - mp.mpf(distance)) / 2)
            found = at(noise, distance, epsilon)
            assert found == exact or abs(found / exact - 1) < 1e-14
            mirrored = self_dual(exact, epsilon)
            found = at(noise, distance, -epsilon)
            assert found == mirrored or abs(found / mirrored - 1) < 1e-14


@both
@given(distance=st.floats(1e-9, 1e9), epsilon=st.floats(0.0, 1e3))
def test_profiles_are_probabilities_that_fall_with_epsilon_and_grow_with_distance(
    noise: Noise, distance: float, epsilon: float
) -> None:
    value = float(noise.profile(np.array(distance), np.array(epsilon)))
    assert 0.0 <= value <= 1.0
    later = float(noise.profile(np.array(distance), np.array(epsilon + 0.1)))
    farther = float(noise.profile(np.array(2.0 * distance), np.array(epsilon)))
    assert later <= value <= farther * (1.0 + 4e-12)


@both
def test_total_variation_of_a_tiny_shift_keeps_its_digits(noise: Noise) -> None:
    density_at_zero = {"gaussian": 1.0 / np.sqrt(2.0 * np.pi), "laplace": 0.5}[noise.name]
    value = float(noise.profile(np.array(1e-9), np.array(0.0)))
    assert value == pytest.approx(1e-9 * density_at_zero, rel=1e-9)


@both
def test_infinite_epsilon_is_the_limit(noise: Noise) -> None:
    for distance in (1e-9, 1.0, 1e9):
        assert at(noise, distance, np.inf) == 0
        assert at(noise, distance, -np.inf) == 1


@both
@given(distance=st.floats(1e-6, 1e3), share=st.floats(-0.999, 0.999))
def test_threshold_inverts_the_log_ratio(noise: Noise, distance: float, share: float) -> None:
    epsilon = np.array(share * distance)
    t = noise.threshold(np.array(distance), epsilon)
    ratio, speed = noise.log_ratio(np.array(distance), t)
    assert float(ratio) == pytest.approx(float(epsilon), abs=1e-12 * (1 + distance**2))
    assert float(speed) >= 0.0


def test_laplace_thresholds_beyond_the_largest_ratio_are_infinite() -> None:
    noise = LaplaceNoise()
    t = noise.threshold(np.array(2.0), np.array([2.5, 2.0, -2.0, -2.5]))
    assert t.tolist() == [np.inf, 2.0, 0.0, -np.inf]
    assert noise.saturation(2.0) == 2.0
    assert noise.log_ratio(np.array(2.0), np.array([-9.0, 0.0, 2.0, 9.0]))[0].tolist() == [
        -2.0, -2.0, 2.0, 2.0,
    ]  # fmt: skip


@both
@given(t=st.floats(-30.0, 30.0))
def test_tails_and_their_logarithms_agree(noise: Noise, t: float) -> None:
    tail, log_tail = float(noise.tail(np.array(t))), float(noise.log_tail(np.array(t)))
    assert tail == pytest.approx(np.exp(log_tail), rel=1e-12)
    assert tail + float(noise.tail(np.array(-t))) == pytest.approx(1.0, rel=1e-15)


@both
def test_logarithms_of_tails_go_on_where_tails_underflow(noise: Noise) -> None:
    assert float(noise.tail(np.array(2000.0))) == 0.0
    exact = {"gaussian": mp.log(mp.erfc(2000 / mp.sqrt(2)) / 2), "laplace": -2000 - mp.log(2)}
    found = float(noise.log_tail(np.array(2000.0)))
    assert found == pytest.approx(float(exact[noise.name]), rel=1e-13)


@both
@given(distance=st.floats(0.05, 20.0), share=st.floats(-0.95, 0.95))
def test_the_slope_of_a_profile_is_the_tail_at_its_threshold(
    noise: Noise, distance: float, share: float
) -> None:
    """Derivative of h in alpha by a central difference in eps: dh/d eps = -alpha tail(t)."""
    epsilon, step = share * distance, 1e-5
    around = noise.profile(np.array(distance), np.array([epsilon - step, epsilon + step]))
    slope = -(around[1] - around[0]) / (2.0 * step) / np.exp(epsilon)
    tail = float(noise.tail(noise.threshold(np.array(distance), np.array(epsilon))))
    if abs(share) * distance > 2 * step:
        assert slope == pytest.approx(tail, rel=1e-4, abs=1e-9 / np.exp(min(epsilon, 0.0)))


def test_dual_leaves_positive_epsilons_alone() -> None:
    found = dual(np.array([0.25, 0.25, 0.25]), np.array([1.0, 0.0, -np.log(2.0)]))
    assert found.tolist() == [0.25, 0.25, pytest.approx(0.5 + 0.125)]
