"""Gaussian noise without subsampling: k steps of shift s are one step of shift s sqrt(k)."""

from __future__ import annotations

import math

import pytest

import mustdp as md
from tests.accounting.closed_forms import exact_delta, exact_epsilon

DELTAS = [1e-3, 1e-6, 1e-12, 1e-20]


@pytest.mark.parametrize("steps", [1, 2, 10, 1000, pytest.param(10**6, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mu", [0.2, 3.0])
def test_closed_form(steps: int, mu: float) -> None:
    shift = mu / math.sqrt(steps)
    whole = shift * math.sqrt(steps)
    account = md.account(md.repeat(steps, md.gaussian(shift=shift)), relation="replace_one")
    for delta in DELTAS:
        truth = exact_epsilon(whole, delta)
        bounds = account.epsilon(delta)
        assert bounds.lower <= truth * (1 + 1e-12) + 1e-12
        assert truth <= bounds.upper * (1 + 1e-12)
        assert bounds.upper - bounds.lower <= 1.01e-3 * max(truth, 1e-3)
        value = account.delta(truth)
        true = float(exact_delta(whole, truth))
        assert value.lower <= true <= value.upper
        assert value.upper - value.lower <= 0.01 * true


@pytest.mark.parametrize("delta", [1e-22, 1e-25])
def test_very_small_delta(delta: float) -> None:
    """A floor near 1e-15 must not become the answer."""
    bounds = md.account(md.repeat(50, md.gaussian(shift=0.1)), relation="replace_one").epsilon(
        delta
    )
    truth = exact_epsilon(0.1 * math.sqrt(50), delta)
    assert bounds.lower <= truth <= bounds.upper
    assert bounds.upper <= truth * (1 + 1e-3)


def test_noise_multiplier_and_relation() -> None:
    """A full release moves by 2 C if a record is replaced, by C if it is added or removed."""
    noise = md.gaussian(noise_multiplier=4.0)
    for relation, shift in (("replace_one", 0.5), ("add_remove", 0.25)):
        account = md.account(md.repeat(30, noise), relation=relation)
        assert account.shift == shift
        truth = exact_epsilon(shift * math.sqrt(30), 1e-6)
        bounds = account.epsilon(1e-6)
        assert bounds.lower <= truth <= bounds.upper <= truth * (1 + 1e-3)


def test_large_epsilon_is_not_understated() -> None:
    """Tiny noise: losses beyond what is tabulated count as infinite, they do not vanish."""
    for shift, steps in ((20.0, 1), (20.0, 3), (6.0, 10), (60.0, 2)):
        account = md.account(md.repeat(steps, md.gaussian(shift=shift)), relation="replace_one")
        mu = shift * math.sqrt(steps)
        truth = exact_epsilon(mu, 1e-5)
        upper = account.epsilon(1e-5).upper
        assert upper >= truth
        for epsilon in (1.0, 100.0, 300.0):
            bounds = account.delta(epsilon)
            assert bounds.lower <= min(1.0, float(exact_delta(mu, epsilon))) * (1 + 1e-12)
            assert bounds.upper >= float(exact_delta(mu, epsilon)) * (1 - 1e-12)
