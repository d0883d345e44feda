"""Prices of one term of random allocation, held against many digits over the whole range in use."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import mustdp as md
from mustdp.accounting.epochs.terms import Term
from tests.arrays import FloatArray

SHIFTS = (1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 3.4, 5.0, 10.0, 20.0, 28.0, 40.0)
ALPHAS = (0.0, 1.0, 1.0 + 1e-6, 1.5, 1e3, 1e8)


def exact(shift: float, alpha: float, d: float) -> mp.mpf:
    """E(D - d)_+ from the mean on and E(d - D)_+ below, to more digits than are compared."""
    s, al, x = mp.mpf(shift), mp.mpf(alpha), mp.mpf(d)
    product = al * mp.exp(-s * s)
    root = mp.sqrt(x * x + 4 * product)
    a = (x + root) / 2 if x >= 0 else 2 * product / (root - x)
    g = (mp.log(a) + s * s / 2) / s
    if x >= 1 - al:
        return mp.ncdf(s - g) - al * mp.ncdf(-s - g) - x * mp.ncdf(-g)
    return x * mp.ncdf(g) - mp.ncdf(g - s) + al * mp.ncdf(g + s)


def points(shift: float, alpha: float) -> FloatArray:
    """Values of D from one end of the range to the other, and near its mean."""
    g = np.concatenate([np.linspace(-30, 36, 12), np.array([-0.01, 0.0, 0.01]) + shift / 2])
    with np.errstate(over="ignore"):
        down = alpha * np.exp(-shift * g - shift**2 / 2) if alpha > 0.0 else 0.0
        d = np.exp(shift * g - shift**2 / 2) - down
    return np.asarray(np.unique(d[np.isfinite(d) & (np.abs(d) < 1e250) & (d != 0.0)]))


def largest_error(shift: float, off: float = 0.0) -> float:
    """The largest relative error over all alphas where the price does not underflow."""
    worst = 0.0
    with mp.workdps(60):
        for alpha in ALPHAS:
            term, d = Term(shift, alpha), points(shift, alpha)
            for x, found in zip(d.tolist(), term.value(d).tolist(), strict=True):
                true = exact(shift, alpha, x)
                if true > 1e-280:
                    worst = max(worst, abs(float(mp.mpf(found * (1.0 + off)) / true - 1)))
    return worst


@pytest.mark.parametrize("shift", SHIFTS)
def test_prices_are_as_accurate_as_they_say(shift: float) -> None:
    # A quarter of what is promised: the points between those that were tried have room.
    assert largest_error(shift) <= 0.25 * Term(shift).error


def test_a_price_that_is_off_would_be_noticed() -> None:
    assert largest_error(1.0, 2e-11) > Term(1.0).error


def allocated(sigma: float, bins: int, epochs: int = 1) -> md.types.Plan:
    one = md.subsample(md.random_allocation(10**6, bins), md.gaussian(noise_multiplier=sigma))
    return md.repeat(epochs, one)


def price(term: Term, d: float) -> float:
    """E(D - d)_+ at any d."""
    value = float(term.value(np.array([d]))[0])
    return value if d >= term.mean else value + term.mean - d


def two_bins(alpha: float, s: float, replaced: bool) -> float:
    """H_alpha of two bins by one-dimensional integrals: the second term in closed form."""
    term = Term(s, alpha if replaced else 0.0)
    goal = 0.0 if replaced else 2.0 * alpha

    def given(g: float) -> float:
        up = math.exp(s * g - s * s / 2)
        own = up - alpha * math.exp(-s * g - s * s / 2) if replaced else up
        return price(term, goal - own) * float(norm.pdf(g))

    whole = quad(given, -9, 9, epsabs=1e-13, epsrel=1e-11, limit=400, points=[-2, 0, 2])
    return float(whole[0]) / 2.0


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_two_bins_by_quadrature(relation: str) -> None:
    account = md.account(allocated(1.25, 2), relation=relation)
    for epsilon in (0.0, 0.3, 1.0):
        exact = two_bins(math.exp(epsilon), 0.8, relation == "replace_one")
        found = account.delta(epsilon)
        assert found.lower <= exact <= found.upper
        assert found.upper - found.lower <= 4e-3 * exact


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_an_epoch_that_ends_after_one_batch_is_in_closed_form(relation: str) -> None:
    noise = md.gaussian(noise_multiplier=1.25)
    plan = md.subsample(md.random_allocation(100, 4).first(1), noise)
    account = md.account(plan, relation=relation)
    for epsilon in (0.0, 0.2, 0.6):
        alpha = math.exp(epsilon)
        term = Term(0.8, alpha if relation == "replace_one" else 0.0)
        goal = 3.0 * (alpha - 1.0) if relation == "replace_one" else 4.0 * alpha - 3.0
        exact = price(term, goal) / 4.0
        found = account.delta(epsilon)
        assert found.lower <= exact <= found.upper
        assert found.upper <= 1.01 * exact


def test_the_term_has_the_prices_of_its_definition() -> None:
    rng = np.random.default_rng(7)
    g = rng.standard_normal(400_000)
    for s, alpha in ((1.2, 0.0), (0.7, 1.5)):
        term = Term(s, alpha)
        drawn = np.exp(s * g - s * s / 2) - alpha * np.exp(-s * g - s * s / 2)
        for d in (-0.5, 0.2, 1.4):
            excess = np.maximum(drawn - d, 0.0)
            error = 5.0 * float(excess.std()) / math.sqrt(g.size)
            assert abs(price(term, d) - float(excess.mean())) <= error
            assert abs(price(term, d) * 1.05 - float(excess.mean())) > error
