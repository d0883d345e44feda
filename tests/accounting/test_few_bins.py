"""Epochs of few bins with little noise: all terms small at once, as a product."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

import mustdp as md
from mustdp.accounting.epochs.add_remove import AllocationProfile
from mustdp.accounting.epochs.terms import MixedTerm
from mustdp.mechanisms.mechanism import GaussianNoise


def _backward(shift: float, bins: float, steps: int, epsilon: float) -> float:
    """E(1 - e^eps L)_+ of one or two releases: of one in closed form, of two by quadrature."""
    share = math.exp(epsilon) / bins
    room = (1.0 - share * (bins - steps)) / share

    def put(rest: float) -> float:
        """E(rest - X)_+."""
        if rest <= 0.0:
            return 0.0
        end = math.log(rest) / shift + 0.5 * shift
        return float(rest * ndtr(end) - ndtr(end - shift))

    def given(g: float) -> float:
        return put(room - math.exp(shift * g - 0.5 * shift**2)) * math.exp(-0.5 * g * g)

    if steps == 1 or room <= 0.0:
        return share * put(room)
    end = math.log(room) / shift + 0.5 * shift
    value, _ = quad(given, min(end, 0.0) - 10.0, end, epsabs=1e-14, epsrel=1e-10, limit=500)
    return share * value / math.sqrt(2.0 * math.pi)


@pytest.mark.parametrize("shift", [0.5, 1.5, 3.0])
@pytest.mark.parametrize(("bins", "steps"), [(1.0, 1), (3.0, 1), (2.0, 2), (2.5, 2), (20.0, 2)])
def test_a_product_is_never_too_small(shift: float, bins: float, steps: int) -> None:
    profile = AllocationProfile(shift, bins, steps, backward=True)
    epsilons = np.array([0.0, 0.05, 0.3, 1.0, 2.0, 4.0])
    product = profile._all_small(epsilons)
    for epsilon, bound, found in zip(epsilons, product, profile(epsilons), strict=True):
        exact = _backward(shift, bins, steps, float(epsilon))
        assert exact * (1.0 - 1e-7) <= found * (1.0 + 1e-9) + 1e-13
        assert exact * (1.0 - 1e-7) <= bound * (1.0 + 1e-9) + 1e-13


@pytest.mark.parametrize("shift", [1.5, 3.0])
def test_of_one_release_it_is_exact(shift: float) -> None:
    profile = AllocationProfile(shift, 3.0, 1, backward=True)
    epsilons = np.array([0.1, 0.2, 0.3])
    exact = [_backward(shift, 3.0, 1, float(epsilon)) for epsilon in epsilons]
    assert profile._all_small(epsilons) == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_moves_of_random_size_have_it_too() -> None:
    draw = np.random.default_rng(1)
    weights, shift, bins = (0.7, 0.3), 1.2, 2
    profile = AllocationProfile(
        2.0 * shift, float(bins), bins, backward=True, term=MixedTerm(shift, weights)
    )
    g = draw.standard_normal((bins, 400_000))
    moved = [copies * shift for copies in (1.0, 2.0)]
    terms = sum(w * np.exp(a * g - 0.5 * a**2) for w, a in zip(weights, moved, strict=True))
    for epsilon in (0.8, 1.5, 3.0):
        paid = np.maximum(1.0 - math.exp(epsilon) * np.mean(terms, axis=0), 0.0)
        error = 4.0 * float(paid.std()) / math.sqrt(paid.size)
        assert profile._all_small(np.array([epsilon]))[0] >= float(paid.mean()) - error


@pytest.mark.parametrize(("sigma", "bins"), [(0.3, 3), (0.2, 3), (0.3, 2), (0.4, 5)])
@pytest.mark.parametrize("delta", [1e-6, 0.05])
def test_both_bounds_meet_with_little_noise(sigma: float, bins: int, delta: float) -> None:
    plan = md.subsample(md.random_allocation(30, bins), md.gaussian(noise_multiplier=sigma))
    found = md.account(plan, relation="add_remove").epsilon(delta)
    assert found.lower > 0.0
    assert found.upper - found.lower <= 1e-3 * found.upper


def test_far_out_the_profile_is_held_and_never_too_small() -> None:
    shift, bins = 20.0, 3
    profile = AllocationProfile(shift, float(bins), bins, backward=False)
    epsilons = np.array([100.0, 300.0, 344.0, 346.0, 400.0, 430.0])
    # (x + y - a)_+ >= (x - a)_+ + (y - a)_+ for x, y, a >= 0: each term by itself.
    alone = GaussianNoise().profile(np.array(shift), epsilons + math.log(bins))
    found = profile(epsilons)
    assert np.all(found >= alone * (1.0 - 1e-9))
    assert np.all(np.diff(found) <= 0.0)
