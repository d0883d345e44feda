"""Mechanisms that are mu-GDP, against the curves of Gaussian differential privacy."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

import mustdp as md


def curve(mu: float, epsilon: float) -> float:
    """Corollary 2.13 of Dong, Roth & Su: delta of a mu-GDP mechanism."""
    tail = norm.cdf(-epsilon / mu - mu / 2.0)
    return float(norm.cdf(-epsilon / mu + mu / 2.0) - math.exp(epsilon) * tail)


@pytest.mark.parametrize("mu", [0.2, 0.6, 1.2])
@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("group", [1, 3])
def test_releases_and_groups_follow_the_curve(mu: float, count: int, group: int) -> None:
    """k releases are sqrt(k) mu-GDP, groups of g are g mu-GDP; another mu is told apart."""
    account = md.account(md.repeat(count, md.gdp(mu)), group=group)
    whole = group * mu * math.sqrt(count)
    for share in (0.3, 1.0):
        epsilon = share * whole
        found = account.delta(epsilon)
        exact = curve(whole, epsilon)
        assert found.lower <= exact * (1 + 1e-9) <= found.upper * (1 + 2e-9)
        assert found.upper <= exact * 1.01
        assert (
            curve(0.98 * whole, epsilon) < found.lower < found.upper < curve(1.02 * whole, epsilon)
        )


def test_theorems_on_gaussian_noise_are_not_used() -> None:
    """Of the output only the curve is known: subsampled, less is certified than for the noise."""
    scheme = md.wor(100, 10)
    known = md.repeat(50, md.subsample(scheme, md.gaussian(noise_multiplier=3.0)))
    stated = md.repeat(50, md.subsample(scheme, md.gdp(2 / 3)))
    noise, any_of_them = (
        md.account(plan, composition="family").epsilon(1e-6) for plan in (known, stated)
    )
    assert noise.upper < 0.97 * any_of_them.upper
    assert any_of_them.lower == pytest.approx(noise.lower, rel=0.1)
    poisson = md.account(md.subsample(md.poisson(99, 0.1), md.gdp(0.5)), relation="replace_one")
    with pytest.raises(md.NotCovered):
        poisson.delta(0.1)
