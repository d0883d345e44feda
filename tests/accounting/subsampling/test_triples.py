"""Profiles of three points against quadrature in the plane, and on the line against the maximum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from mustdp.accounting.families.triples import (
    apart_profile,
    line_profile,
    put,
    triple_mean,
    triple_profile,
)
from mustdp.mechanisms.mechanism import GaussianNoise, LaplaceNoise
from tests.accounting.subsampling.three_points import outcomes
from tests.arrays import FloatArray

EPSILON = np.array([0.0, 0.02, 0.1, 0.3, 0.7])


@pytest.mark.parametrize(
    ("chance", "u", "w", "cosine"),
    [(0.1, 0.8, 1.2, 0.5), (0.3, 1.0, 0.4, 0.2), (0.05, 1.5, 1.5, 0.0), (0.2, 1.2, 0.3, 0.95)],
)
def test_a_triple_is_just_above_quadrature(
    chance: float, u: float, w: float, cosine: float
) -> None:
    common = u * complex(cosine, np.sqrt(1.0 - cosine**2))
    exact = outcomes(chance, 0j, complex(w), common).divergence(EPSILON)
    bound = triple_profile(chance, u, w, cosine, EPSILON)
    assert np.all(bound >= exact * (1.0 - 1e-4))
    assert np.all(bound <= exact * 1.02 + 1e-12)
    # The lengths are not interchangeable: swapping them leaves this band.
    swapped = triple_profile(chance, w, u, cosine, EPSILON)
    assert u == w or np.any((swapped < 0.98 * exact) | (swapped > 1.03 * exact))


@pytest.mark.parametrize("noise", [GaussianNoise(), LaplaceNoise()])
@pytest.mark.parametrize(("u", "w"), [(0.9, 0.9), (0.3, 1.4), (1.4, 0.2), (0.0, 1.0)])
def test_a_line_equals_the_best_half_line(
    noise: GaussianNoise | LaplaceNoise, u: float, w: float
) -> None:
    q = 0.15
    z = np.linspace(-12.0, 30.0, 200_001)
    exact = []
    for t in np.exp(EPSILON):
        value = q * noise.tail(z) - (t - 1.0) * (1.0 - q) * noise.tail(z + u)
        exact.append(max(0.0, float(np.max(value - t * q * noise.tail(z + w)))))
    bound = line_profile(noise, q, u, w, EPSILON)
    assert np.all(bound >= np.array(exact) * (1.0 - 1e-9) - 1e-13)
    assert np.all(bound <= np.array(exact) * (1.0 + 1e-5) + 1e-9)


@pytest.mark.parametrize(("u", "w"), [(0.7, 1.1), (1.5, 0.1), (0.2, 3.0)])
def test_laplace_with_x_between_the_others(u: float, w: float) -> None:
    q = 0.15
    z = np.linspace(-40.0, 40.0, 800_001)
    step = z[1] - z[0]

    def density(x: FloatArray) -> FloatArray:
        return np.asarray(0.5 * np.exp(-np.abs(x)))

    exact = []
    for t in np.exp(EPSILON):
        sides = []
        for near in (0.0, u):  # y in the place of x, and at its distance
            rest = (t - 1.0) * (1.0 - q) * density(z + near) + t * q * density(z - w)
            value = np.maximum(q * density(z) - rest, 0.0) * step
            sides.append((value[z < 0.0].sum(), value[z >= 0.0].sum()))
        exact.append(max(sides[0][0], sides[1][0]) + sides[1][1])
    bound = apart_profile(q, u, w, EPSILON)
    assert np.all(bound >= np.array(exact) - 1e-5)
    assert np.all(bound <= np.array(exact) + 1e-5)


def test_laplace_with_x_between_the_others_covers_shorter_distances() -> None:
    # While all of one side pays, moving y closer to x loses more, not less.
    longest = apart_profile(0.2, 1.5, 1.0, EPSILON)
    for u in (0.0, 0.1, 0.5, 1.0):
        for w in (0.2, 1.0):
            exact = []
            z = np.linspace(-40.0, 40.0, 400_001)
            still, common, moved = (0.5 * np.exp(-np.abs(z - at)) for at in (0.0, -u, w))
            for t in np.exp(EPSILON):
                value = 0.2 * still - (t - 1.0) * 0.8 * common - t * 0.2 * moved
                exact.append(float(np.maximum(value, 0.0).sum() * (z[1] - z[0])))
            assert np.all(longest >= np.array(exact) - 1e-7)


@pytest.mark.parametrize("shift", [12.0, 30.0, 40.0])
def test_far_apart_points_still_have_a_profile(shift: float) -> None:
    bound = triple_profile(0.1, shift, shift, 0.3, EPSILON)
    assert np.all((bound >= 0.1 - 1e-6) & (bound <= 0.1 + 1e-6))


@pytest.mark.parametrize("b", [0.0, 0.02, 0.1, 0.3])
def test_means_of_triples_whose_second_price_is_low(b: float) -> None:
    # The payoff then reaches far to the right of w/2.
    q, a, u, w, cosine = 0.2, 0.15, 0.8, 1.2, 0.5
    x, y = np.meshgrid(np.arange(-9.0, 9.0, 0.02), np.arange(-9.0, 9.0, 0.02))
    density = np.exp(-0.5 * (x * x + y * y)) * 0.02**2 / (2.0 * np.pi)
    first = np.exp(u * (cosine * y + np.sqrt(1.0 - cosine**2) * x) - 0.5 * u * u)
    payoff = np.maximum(q - a * first - b * np.exp(w * y - 0.5 * w * w), 0.0)
    exact = float((payoff * density).sum())
    bound = triple_mean(np.array([q]), np.array([a]), np.array([b]), u, w, cosine)[0]
    assert exact * (1.0 - 1e-4) <= bound <= exact * 1.01


def test_profiles_grow_with_lengths_and_cosine() -> None:
    base = triple_profile(0.1, 0.8, 1.0, 0.4, EPSILON)
    for u, w, cosine in ((0.9, 1.0, 0.4), (0.8, 1.1, 0.4), (0.8, 1.0, 0.6)):
        assert np.all(triple_profile(0.1, u, w, cosine, EPSILON) >= base * (1.0 - 2e-3))
    assert np.all(line_profile(GaussianNoise(), 0.1, 0.8, 1.0, EPSILON) >= base * (1.0 - 2e-3))


def test_without_shift_only_the_total_variation_is_left() -> None:
    exact = 0.1 * (2.0 * ndtr(0.5) - 1.0)
    assert triple_profile(0.1, 0.6, 1.0, 0.3, np.zeros(1))[0] == pytest.approx(exact, rel=1e-3)
    assert line_profile(GaussianNoise(), 0.1, 0.6, 1.0, np.zeros(1))[0] == pytest.approx(exact)


@pytest.mark.parametrize("deviation", [1e-3, 0.05, 0.7, 3.0])
def test_puts_keep_their_digits(deviation: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 40
    strike, forward = np.array([1.0, 1e-3, 0.7]), np.array([1.01, 5e-3, 0.02])
    for value, k, f in zip(put(strike, forward, deviation), strike, forward, strict=True):
        d2 = mpmath.log(mpmath.mpf(f) / mpmath.mpf(k)) / deviation - mpmath.mpf(deviation) / 2
        exact = k * mpmath.ncdf(-d2) - f * mpmath.ncdf(-d2 - deviation)
        if exact > 1e-280:
            assert exact <= value <= exact * (1.0 + 1e-7)
