"""Connecting the dots: the discrete loss dominates the profile it was made from."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

import mustdp as md
from mustdp import NumericalFailure
from mustdp.accounting.pld.discretise import (
    DiscreteLoss,
    DominatingPair,
    connect,
    connect_values,
    just_below,
)
from mustdp.accounting.subsampling.one_step import upper_bound
from mustdp.mechanisms.mechanism import GaussianNoise, LaplaceNoise
from tests.accounting.pld.mixture_pairs import ExactPair, family

FloatArray = NDArray[np.float64]
EVERY = np.arange(0, 100)
SPARSE = np.array([0, 1, 3, 4, 9, 17, 40, 41, 120, 200])


def profile_of(loss: DiscreteLoss, epsilon: float) -> float:
    """Delta of one step at any real epsilon."""
    gains = -np.expm1(np.minimum(epsilon - loss.losses, 0.0))
    return math.fsum(loss.masses * gains) + loss.infinite


def self_dual(pair: ExactPair) -> DominatingPair:
    def profile(epsilon: FloatArray) -> FloatArray:
        return np.array([float(pair.profile(float(e))) for e in epsilon]) * (1 + 1e-13)

    return DominatingPair(profile, profile)


@pytest.mark.parametrize("points", [EVERY, SPARSE, np.array([0, 2, 300])])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("shift", [0.05, 1.0, 4.0])
def test_dominates_everywhere_and_touches_the_dots(
    points: NDArray[np.int64], noise: str, shift: float
) -> None:
    exact = family("aligned", [0.0, 1.0], shift, noise)
    spacing = shift / 12
    loss = connect(self_dual(exact), spacing, points)
    for epsilon in np.linspace(-3 * shift, 6 * shift, 31).tolist():
        assert profile_of(loss, epsilon) >= exact.profile(epsilon)
    for point in points[:6].tolist():
        for sign in (-1, 1):
            at = exact.profile(sign * point * spacing)
            assert profile_of(loss, sign * point * spacing) == pytest.approx(float(at), abs=1e-11)


def test_masses_are_those_of_a_pair() -> None:
    exact = family("aligned", [0.0, 1.0], 0.7, "gaussian")
    loss = connect(self_dual(exact), 0.05, EVERY)
    assert np.all(loss.masses >= 0.0)
    assert 1.0 <= loss.total <= 1.0 + 1e-9
    q = float(loss.masses @ np.exp(-loss.losses))
    assert q <= 1.0 + 1e-9  # what is missing is Q's mass where P has none
    assert q >= 1.0 - 2.0 * loss.infinite - 1e-9
    assert loss.infinite == pytest.approx(float(exact.profile(0.05 * EVERY[-1])), rel=1e-9)


def test_the_negative_half_is_the_dual() -> None:
    """P has e^-l times as much mass at -l as at l: without it the pair would not be a pair."""
    exact = family("aligned", [0.0, 1.0], 0.7, "gaussian")
    loss = connect(self_dual(exact), 0.05, EVERY)
    half = loss.index.size // 2
    right, left = loss.masses[half + 1 :], loss.masses[:half][::-1]
    assert loss.index[half] == 0
    assert left == pytest.approx(right * np.exp(-loss.losses[half + 1 :]), rel=1e-9, abs=1e-14)
    assert left.sum() > 0.2


def test_two_directions_make_one_pair() -> None:
    scheme, noise = md.wor(20, 6), md.gaussian(shift=1.0)

    def one(direction: str) -> DominatingPair:
        def ahead(e: FloatArray) -> FloatArray:
            return upper_bound(scheme, noise, e, relation="add_remove", direction="remove")

        def behind(e: FloatArray) -> FloatArray:
            return upper_bound(scheme, noise, e, relation="add_remove", direction="add")

        pair = DominatingPair(ahead, behind)
        return pair if direction == "remove" else pair.swapped

    chances = [0.7, 0.3]
    for direction, name in (("remove", "aligned"), ("add", "reversed")):
        exact = family(name, chances, 1.0, "gaussian")
        loss = connect(one(direction), 0.02, EVERY)
        for epsilon in np.linspace(-2.5, 3.0, 45).tolist():
            assert profile_of(loss, epsilon) >= exact.profile(epsilon)
            assert profile_of(loss, epsilon) <= float(exact.profile(epsilon)) + 5e-4


def test_wobbling_values_are_still_dominated() -> None:
    """Rounded-up values need not be convex or decreasing; the hull of valid bounds is valid."""
    rng = np.random.default_rng(11)
    exact = family("aligned", [0.0, 1.0], 0.5, "gaussian")
    eps = EVERY * 0.02
    true = np.array([float(exact.profile(e)) for e in eps])
    for size in (1e-13, 1e-6, 1e-2):
        noisy = np.minimum(true * (1.0 + size * rng.random(true.size)), 1.0)
        loss = connect_values(0.02, EVERY, noisy, noisy)
        assert np.all(loss.masses >= 0.0)
        for epsilon in np.linspace(-1.0, 4.5, 50).tolist():
            assert profile_of(loss, epsilon) >= exact.profile(epsilon)


@pytest.mark.parametrize("spacing", [1e-3, 1e-6, 1e-9, 1e-12])
def test_tiny_spacings_lose_no_mass(spacing: float) -> None:
    """Second differences of nearly equal values: what rounding takes away is put back."""
    for noise in (GaussianNoise(), LaplaceNoise()):
        shift = 10.0 * spacing

        def profile(
            e: FloatArray, noise: GaussianNoise | LaplaceNoise = noise, shift: float = shift
        ) -> FloatArray:
            return noise.profile(np.array(shift), e) * (1 + 1e-11)

        loss = connect(DominatingPair(profile, profile), spacing, EVERY)
        exact = family("aligned", [0.0, 1.0], shift, noise.name)
        assert loss.total >= 1.0
        for place in (-30.3, -7.0, 0.0, 0.5, 3.3, 12.0, 40.0):
            assert profile_of(loss, place * spacing) >= exact.profile(place * spacing)


@pytest.mark.parametrize("spacing", [1e-2, 1e-6, 1e-9])
def test_rounding_is_put_back_into_the_masses(spacing: float) -> None:
    """Taken as exact numbers, the masses reproduce at least the values they were made from."""
    values = GaussianNoise().profile(
        np.array(10.0 * spacing), np.asarray(EVERY * spacing, dtype=np.float64)
    )
    loss = connect_values(spacing, EVERY, values, values)
    with mp.workdps(50):
        d = mp.mpf(spacing)
        for place in (0, 1, 2, 7, 20, 45, 80):
            terms = [
                mp.mpf(float(mass)) * -mp.expm1((place - int(i)) * d)
                for i, mass in zip(loss.index, loss.masses, strict=True)
                if i > place
            ]
            assert mp.fsum(terms) + mp.mpf(loss.infinite) >= mp.mpf(float(values[place]))


def test_not_a_number_is_refused() -> None:
    def broken(e: FloatArray) -> FloatArray:
        return np.where(e > 1.0, np.nan, 0.1)

    with pytest.raises(NumericalFailure):
        connect(DominatingPair(broken, broken), 0.1, EVERY)
    with pytest.raises(NumericalFailure):
        connect(DominatingPair(lambda e: 0.1 - e, lambda e: 0.1 - e), 0.1, EVERY)


def test_grid_points_are_rounded_down() -> None:
    """A decreasing bound taken at or below the exact grid point covers it."""
    rng = np.random.default_rng(12)
    points = np.unique(rng.integers(0, 10**6, 500))
    for _ in range(20):
        spacing = float(10 ** rng.uniform(-9, 1))
        for point, where in zip(points.tolist(), just_below(spacing, points), strict=True):
            assert Fraction(float(where)) <= point * Fraction(spacing)


@pytest.mark.parametrize("spacing", [1e-2, 1e-6, 1e-9])
@pytest.mark.parametrize("last", [1, 9])
def test_rounding_takes_nothing_off_below_zero(spacing: float, last: int) -> None:
    """Taken as exact numbers, the masses sum to at least one and reproduce the dual values."""
    points = np.arange(0, last + 1)
    for shift in np.linspace(0.3, 12.0, 20).tolist():
        values = GaussianNoise().profile(
            np.array(shift * spacing), points.astype(np.float64) * spacing
        )
        loss = connect_values(spacing, points, values, values)
        with mp.workdps(50):
            d = mp.mpf(spacing)
            masses = [mp.mpf(float(mass)) for mass in loss.masses]
            assert mp.fsum(masses) + mp.mpf(loss.infinite) >= 1
            for place in points[1:5].tolist():
                alpha = mp.exp(-place * d)
                dual = 1 - alpha + alpha * mp.mpf(float(values[place]))
                above = [
                    mass * -mp.expm1((-place - int(i)) * d)
                    for i, mass in zip(loss.index, masses, strict=True)
                    if i > -place
                ]
                assert mp.fsum(above) + mp.mpf(loss.infinite) >= dual
