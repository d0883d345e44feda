"""Renyi divergences with nothing left out, against closed forms and quadrature."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import mustdp as md
from tests.arrays import FloatArray
from tests.seams import replace_upper_moments

ORDERS = np.array([1.01, 1.5, 2.0, 5.0, 20.0, 100.0, 1000.0])


def divergence(
    first: list[float], second: list[float], steps: tuple[float, float], order: float
) -> float:
    """D_a of two mixtures sum_j p_j N(j s), each with its own s.

    By the trapezoidal rule, which for such integrands converges faster than any power.
    """
    farthest = order * (len(first) + len(second)) * max(map(abs, steps)) + 12
    x = np.arange(-farthest, farthest, 0.05)

    def log_density(weights: list[float], step: float) -> FloatArray:
        parts = [np.log(p) - 0.5 * (x - j * step) ** 2 for j, p in enumerate(weights)]
        return np.asarray(np.logaddexp.reduce(parts))

    logs = order * log_density(first, steps[0]) + (1 - order) * log_density(second, steps[1])
    whole = logs.max() + np.log(np.exp(logs - logs.max()).sum() * 0.05 / np.sqrt(2 * np.pi))
    return float(whole / (order - 1))


@pytest.mark.parametrize("group", [1, 3])
def test_gaussian_noise(group: int) -> None:
    """D_a = a mu^2 / 2 at every order; an event of 1e-20 once made 26 of 90."""
    account = md.account(md.repeat(10, md.gaussian(shift=0.3)), relation="replace_one", group=group)
    view = account.renyi(ORDERS)
    exact = ORDERS * 10 * (0.3 * group) ** 2 / 2
    assert np.all(exact <= view.upper)
    assert view.upper == pytest.approx(exact, rel=1e-6)
    assert np.all(view.lower <= exact)
    assert 0 < view.outside < 1e-19
    assert np.all(view.approximate <= view.upper)
    assert view.approximate[-1] < 0.5 * view.upper[-1]


def test_laplace_noise() -> None:
    view = md.account(md.repeat(3, md.laplace(shift=1.0)), relation="replace_one").renyi(ORDERS)
    for order, lower, upper in zip(ORDERS, view.lower, view.upper, strict=True):
        with mp.workdps(30):
            a = mp.mpf(float(order))
            moment = (a * mp.exp(a - 1) + (a - 1) * mp.exp(-a)) / (2 * a - 1)
            exact = 3 * mp.log(moment) / (a - 1)
        assert lower <= exact <= upper <= exact * (1 + mp.mpf(10) ** -4)


@pytest.mark.parametrize(("rate", "z"), [(0.01, 1.0), (0.2, 2.0), (0.5, 0.7)])
def test_poisson_sampling_at_whole_orders(rate: float, z: float) -> None:
    """sum_k C(a, k) (1-q)^(a-k) q^k e^{k(k-1)/(2 z^2)}: Mironov, Talwar & Zhang, 1908.10530v1."""
    orders = [2, 3, 8, 32, 100]
    plan = md.repeat(9, md.subsample(md.poisson(1000, rate), md.gaussian(noise_multiplier=z)))
    view = md.account(plan).renyi(orders)
    for order, upper in zip(orders, view.upper, strict=True):
        with mp.workdps(60):
            q = mp.mpf(rate)
            moment = mp.fsum(
                mp.binomial(order, k) * (1 - q) ** (order - k) * q**k
                * mp.exp(mp.mpf(k * (k - 1)) / (2 * mp.mpf(z) ** 2))
                for k in range(order + 1)
            )  # fmt: skip
            exact = 9 * mp.log(moment) / (order - 1)
        assert exact <= upper <= exact * mp.mpf("1.25")


@pytest.mark.parametrize("name", ["wor", "wr", "poisson", "must-ow"])
def test_no_attained_pair_exceeds_the_bound(name: str) -> None:
    """Aligned, reversed and symmetric pairs by quadrature, at orders where rare losses decide."""
    scheme = {
        "wor": md.wor(4, 1), "wr": md.wr(3, 2), "poisson": md.poisson(5, 0.1),
        "must-ow": md.must_ow(4, 2, 2),
    }[name]  # fmt: skip
    orders, z = [1.5, 4.0, 30.0], 2.0
    view = md.account(
        md.subsample(scheme, md.gaussian(noise_multiplier=z)), relation="replace_one"
    ).renyi(orders)
    law, s = scheme.multiplicity().tolist(), 2 / z
    pairs = [(law, law, (s / 2, -s / 2))]
    if name != "poisson":
        pairs += [(law, [1.0], (s, s)), ([1.0], law, (s, s))]
    for order, lower, upper in zip(orders, view.lower, view.upper, strict=True):
        attained = max(divergence(*pair, order) for pair in pairs)
        assert attained <= upper * (1 + 1e-9)
        assert lower <= attained * (1 + 1e-9)
        assert upper <= 3 * attained


def test_a_subset_that_is_reused() -> None:
    """Four releases on one subset are one of half the noise, for moments too."""
    orders = [1.5, 4.0, 50.0]
    reused = md.subsample(md.wor(20, 5), md.repeat(4, md.gaussian(noise_multiplier=6.0)))
    once = md.subsample(md.wor(20, 5), md.gaussian(noise_multiplier=3.0))
    first, second = (md.account(plan).renyi(orders).upper for plan in (reused, once))
    assert first == pytest.approx(second, rel=5e-3)


def test_a_custom_mechanism_is_finite_only_if_its_losses_end() -> None:
    ending = md.custom(lambda e: np.maximum(0.0, 0.2 - 0.1 * np.expm1(np.asarray(e))))
    endless = md.custom(lambda e: 0.1 * np.exp(-np.asarray(e)))
    found = md.account(md.repeat(2, ending), relation="replace_one").renyi([2.0, 50.0])
    assert np.all(np.isfinite(found.upper))
    # Two losses of at most log 3 each, and no order beyond the order at infinity.
    assert np.all(found.upper <= 2 * np.log(3.0) * (1 + 1e-6))
    unknown = md.account(md.repeat(2, endless), relation="replace_one").renyi([2.0, 50.0])
    assert np.all(np.isinf(unknown.upper))
    assert np.all(np.isfinite(unknown.approximate))


def test_bounds_that_contradict_each_other_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    account = md.account(md.repeat(2, md.gaussian(shift=1.0)), relation="replace_one")
    replace_upper_moments(monkeypatch, lambda self, theta, crude: 0.1 * theta)
    with pytest.raises(md.NumericalFailure, match="contradict"):
        account.renyi([2.0])


def test_a_mechanism_with_losses_that_end_is_answered_on_every_scheme() -> None:
    """Moments that a mechanism does not state are infinite, not NaN: the pair's own decide."""
    answers = md.randomized_response(epsilon=1.45, categories=17)
    for drawn in (md.wor(714, 219), md.wr(714, 219), md.must_ow(714, 300, 219)):
        view = md.account(md.repeat(8, md.subsample(drawn, answers))).renyi(ORDERS)
        assert np.all(view.lower <= view.upper)
        assert np.all(view.approximate < np.inf)
    one = md.account(md.repeat(8, md.subsample(md.wor(714, 219), answers))).renyi(ORDERS)
    assert np.all(one.upper < np.inf)
    assert one.lower == pytest.approx(one.upper, rel=1e-3)
