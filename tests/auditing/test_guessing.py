"""What right guesses say: exact where theory is, never wrong where a claim holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from mustdp import InvalidParameter
from mustdp.auditing.audit import (
    chance_under_curve,
    chance_under_epsilon,
    curve_of,
    gaussian_curve,
    least_epsilon,
    least_mu,
)
from mustdp.mechanisms.mechanism import GaussianNoise


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_randomised_response_attains_the_bound_of_pure_privacy(epsilon: float) -> None:
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    for right in (0, 30, 55, 100):
        exact = float(binom.sf(right - 1, 100, keep))
        assert chance_under_epsilon(400, 100, right, epsilon, 0.0) == pytest.approx(exact, rel=1e-9)


def test_delta_costs_as_the_theorem_says() -> None:
    """Ten canaries, four guesses, all right, by hand: epsilon = 0, so B is Bin(4, 1/2)."""
    below = [4 / 16, 10 / 16 / 2, 14 / 16 / 3, 15 / 16 / 4]
    expected = 1 / 16 + 2 * 10 * 1e-3 * max(below)
    assert chance_under_epsilon(10, 4, 4, 0.0, 1e-3) == pytest.approx(expected)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_one_canary_is_guessed_as_well_as_the_curve_allows(mu: float) -> None:
    """The best guess of a fair bit behind a Gaussian shift is right with chance Phi(mu/2)."""
    found = chance_under_curve(1, 1, 1, gaussian_curve(mu))
    assert found == pytest.approx(norm.cdf(mu / 2), rel=2e-3)
    assert found >= norm.cdf(mu / 2)


def played(mu: float, canaries: int, guesses: int, rng: np.random.Generator) -> int:
    bits = rng.choice([-1, 1], canaries)
    seen = bits * mu / 2 + rng.normal(size=canaries)
    chosen = np.argsort(-np.abs(seen))[:guesses]
    return int((bits[chosen] == np.sign(seen[chosen])).sum())


@pytest.mark.parametrize("mu", [0.4, 1.0])
def test_a_true_claim_is_hardly_ever_contradicted_and_half_the_noise_is(mu: float) -> None:
    rng = np.random.default_rng(3)
    truth = gaussian_curve(mu)
    fair = [chance_under_curve(3000, 600, played(mu, 3000, 600, rng), truth) for _ in range(40)]
    assert min(fair) > 0.05
    halved = [
        chance_under_curve(3000, 600, played(2 * mu, 3000, 600, rng), truth) for _ in range(5)
    ]
    assert max(halved) < 0.05


def test_lower_bounds_stay_below_the_truth_and_grow_with_right_guesses() -> None:
    rng = np.random.default_rng(4)
    for mu in (0.5, 1.0, 2.0):
        assert all(least_mu(2000, 400, played(mu, 2000, 400, rng), 0.05) < mu for _ in range(5))
    found = [least_mu(2000, 400, right, 0.05) for right in (200, 250, 300, 380, 400)]
    assert found == sorted(found)
    assert found[0] == 0.0
    epsilons = [least_epsilon(2000, 400, right, 1e-6, 0.05) for right in (200, 250, 300, 400)]
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] > 2


def test_a_curve_from_deltas_lies_below_the_true_one() -> None:
    eps = np.linspace(0, 8, 200)
    delta = GaussianNoise().profile(np.array(1.0), eps)
    found, truth = curve_of(eps, delta), gaussian_curve(1.0)
    for rate in (1e-6, 0.01, 0.2, 0.5, 0.9, 0.999):
        assert found(rate) <= truth(rate)
        assert found(rate) == pytest.approx(truth(rate), abs=2e-4)
    assert found(0.0) <= 1.0


def test_counts_that_cannot_be() -> None:
    with pytest.raises(InvalidParameter, match="guesses must"):
        chance_under_epsilon(10, 11, 3, 1.0, 0.0)
    with pytest.raises(InvalidParameter, match="right must"):
        chance_under_curve(10, 5, 6, gaussian_curve(1.0))
