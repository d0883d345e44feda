"""Discrete Laplace and discrete Gaussian noise against sums in high precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import mustdp as md

Mass = Callable[[int], mp.mpf]


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


def laplace_mass(scale: float) -> Mass:
    q = mp.exp(-1 / mp.mpf(scale))
    return lambda k: (1 - q) / (1 + q) * q ** abs(k)


def gaussian_mass(sigma: float) -> Mass:
    weight: Mass = lambda k: mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(sigma) ** 2))  # noqa: E731
    total = mp.nsum(lambda k: weight(int(k)), [-mp.inf, mp.inf])
    return lambda k: weight(k) / total


def delta(mass: Mass, distance: int, epsilon: float, far: int) -> mp.mpf:
    alpha = mp.exp(mp.mpf(epsilon))
    terms = (mass(k - distance) - alpha * mass(k) for k in range(-far, far + distance))
    return mp.fsum(max(mp.mpf(0), term) for term in terms)


CASES: list[tuple[Any, Mass, int]] = [
    (md.discrete_laplace(scale=0.3), laplace_mass(0.3), 60),
    (md.discrete_laplace(scale=2.5, sensitivity=2), laplace_mass(2.5), 260),
    (md.discrete_laplace(scale=9.0), laplace_mass(9.0), 900),
    (md.discrete_gaussian(sigma=0.4), gaussian_mass(0.4), 30),
    (md.discrete_gaussian(sigma=2.0, sensitivity=3), gaussian_mass(2.0), 80),
    (md.discrete_gaussian(sigma=7.5), gaussian_mass(7.5), 220),
]
cases = pytest.mark.parametrize(
    ("noise", "mass", "far"), CASES, ids=[str(one[0].describe()) for one in CASES]
)


@cases
def test_masses_and_tails_are_those_of_the_definition(noise: Any, mass: Mass, far: int) -> None:
    for k in (0, 1, 2, 5, -3):
        found = math.exp(float(noise.law.log_mass(np.array(float(k)))))
        assert found == pytest.approx(float(mass(k)), rel=1e-13)
    for k in (1, 2, 7):
        tail = mp.fsum(mass(i) for i in range(k, far + 40))
        assert float(noise.law.tail(np.array(float(k)))) == pytest.approx(float(tail), rel=1e-12)


@cases
def test_profiles_are_rounded_up_and_close(noise: Any, mass: Mass, far: int) -> None:
    """Also at the kinks, where rounding decides which integer ends the best set."""
    profiles = noise.profiles(None)
    step = noise.shift_for(2.0)
    for group in (1, 2, 5):
        kinks = [share * group * step for share in (0.0, 0.2, 0.5, 0.9, 1.0 - 1e-9, 1.0)]
        if noise.name == "discrete-gaussian":
            d, sigma = group * noise.sensitivity, noise.law.scale
            kinks += [(2 * k * d - d * d) / (2 * sigma**2) for k in (d, d + 2, d + 5)]
        for epsilon in kinks:
            exact = delta(mass, group * noise.sensitivity, epsilon, far)
            found = float(profiles.delta(np.array([float(group)]), np.array([[epsilon]]))[0, 0])
            assert mp.mpf(found) * (1 + mp.mpf(profiles.relative_error)) >= exact
            assert mp.mpf(found) <= exact * (1 + mp.mpf("1e-10")) + mp.mpf("1e-13")


@cases
def test_one_release_is_attained_exactly(noise: Any, mass: Mass, far: int) -> None:
    for epsilon in (0.0, 0.3, 1.1):
        exact = delta(mass, noise.sensitivity, epsilon, far)
        found = md.account(noise).delta(epsilon)
        assert mp.mpf(found.lower) <= exact <= mp.mpf(found.upper) * (1 + mp.mpf("1e-15"))
        assert found.lower >= 0.999 * float(exact) - 1e-12


def test_two_discrete_laplace_releases_are_a_sum_of_two_losses() -> None:
    """Losses +-1/b with chances 1/(1+q) and q/(1+q): the delta of k releases is a binomial sum."""
    scale, steps = 2.0, 6
    q = mp.exp(-1 / mp.mpf(scale))
    for epsilon in (0.0, 0.4, 1.3):
        exact = mp.fsum(
            mp.binomial(steps, k)
            * (1 / (1 + q)) ** k
            * (q / (1 + q)) ** (steps - k)
            * max(mp.mpf(0), 1 - mp.exp(mp.mpf(epsilon) - (2 * k - steps) / mp.mpf(scale)))
            for k in range(steps + 1)
        )
        found = md.account(md.repeat(steps, md.discrete_laplace(scale=scale))).delta(epsilon)
        assert mp.mpf(found.lower) <= exact <= mp.mpf(found.upper)
        assert found.lower == pytest.approx(float(exact), rel=2e-3)
        assert found.upper == pytest.approx(float(exact), rel=2e-3)


def test_the_largest_loss_of_discrete_laplace_noise() -> None:
    noise = md.discrete_laplace(scale=4.0, sensitivity=3)
    assert md.account(md.repeat(5, noise)).epsilon(0).upper == 3.75
    found = md.account(md.subsample(md.poisson(100, 0.1), noise)).epsilon(0)
    assert found.upper == pytest.approx(math.log(0.9 + 0.1 * math.exp(0.75)), rel=1e-9)
    with pytest.raises(md.InvalidParameter, match="delta"):
        md.account(md.discrete_gaussian(sigma=4.0)).epsilon(0)


def test_much_noise_on_integers_is_continuous_noise() -> None:
    plan = md.subsample(md.wor(1000, 20), md.discrete_gaussian(sigma=200.0, sensitivity=100))
    same = md.subsample(md.wor(1000, 20), md.gaussian(shift=0.5))
    discrete, continuous = (
        md.account(md.repeat(50, one), composition="pair").epsilon(1e-5) for one in (plan, same)
    )
    assert discrete.upper == pytest.approx(continuous.upper, rel=5e-3)
    assert discrete.lower == pytest.approx(continuous.lower, rel=5e-3)


def test_integers_of_any_size_are_answered() -> None:
    """Many integers are merged in runs, for lower bounds alone."""
    for noise in (
        md.discrete_laplace(scale=1e6, sensitivity=10**6),
        md.discrete_laplace(scale=1e-9),
        md.discrete_gaussian(sigma=1e5, sensitivity=10**5),
        md.discrete_gaussian(sigma=1e-3),
    ):
        found = md.account(md.repeat(3, md.subsample(md.wr(100, 5), noise))).delta(0.05)
        assert 0.0 < found.lower <= found.upper <= 1.0
        assert found.lower > 0.5 * found.upper


def test_discrete_laplace_profiles_are_rounded_up_where_digits_cancel() -> None:
    """Close to the largest loss, and at the kinks before it, where a profile is a small difference.

    The last doubles below the largest loss are where it may be taken for reached already.
    """
    rng = np.random.default_rng(3)
    for _ in range(300):
        scale = float(10.0 ** rng.uniform(-1.0, 6.0))
        distance = int(rng.integers(1, 10 ** int(rng.integers(1, 7))))
        q, step = mp.exp(-1 / mp.mpf(scale)), 1 / mp.mpf(scale)
        law = md.discrete_laplace(scale=scale).law
        end = distance / scale
        kinks = [(2 * k - distance) / scale for k in range(distance - 3, distance)]
        for epsilon in (end, np.nextafter(end, 0.0), distance * (1.0 / scale), *kinks):
            if not 0.0 <= epsilon <= 600.0:
                continue
            exact = mp.mpf(0)
            for k in range(max(1, distance - 5), distance + 1):
                first = 1 - q ** (distance + 1 - k)
                second = q * (1 - mp.exp(mp.mpf(float(epsilon)) - (k - 1) * step))
                exact = max(exact, (first + second) / (1 + q))
            found = float(law.profile(np.array(float(distance)), np.array(float(epsilon))))
            assert mp.mpf(found) >= exact, (scale, distance, epsilon)
