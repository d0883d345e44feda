"""Other views of an account, against Gaussian closed forms and against the account itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import mustdp as md
from mustdp.accounting.views import gaussian_dp, tradeoff, zero_concentrated
from mustdp.mechanisms.mechanism import GaussianNoise
from mustdp.types import Renyi

RATES = np.array([0.0, 1e-6, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 1.0])
CASES = [(0.1, 100), (0.5, 2), (2.0, 1), (0.02, 900)]


def gaussian_account(shift: float, steps: int) -> md.types.Account:
    return md.account(md.repeat(steps, md.gaussian(shift=shift)), relation="replace_one")


SUBSAMPLED = md.repeat(40, md.subsample(md.wr(60, 12), md.gaussian(noise_multiplier=3.0)))


@pytest.mark.parametrize(("shift", "steps"), CASES)
def test_gaussian_tradeoff(shift: float, steps: int) -> None:
    """Missed detections Phi(Phi^-1(1 - fpr) - mu): certified below, reached above."""
    mu = shift * math.sqrt(steps)
    view = gaussian_account(shift, steps).tradeoff(RATES)
    exact = ndtr(ndtri(1 - RATES) - mu)
    assert np.all(view.lower <= exact + 1e-12)
    assert np.all(exact <= view.upper + 1e-12)
    assert np.all(view.upper - view.lower <= 0.01)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_tradeoff_of_a_subsampled_plan(relation: str) -> None:
    """Between guessing and certainty, decreasing, and consistent with every delta."""
    account = md.account(SUBSAMPLED, relation=relation)
    view = account.tradeoff(RATES)
    assert np.all(view.lower <= view.upper + 1e-12)
    assert np.all(view.upper <= 1 - RATES + 1e-12)
    assert np.all(np.diff(view.lower) <= 1e-12)
    for epsilon in (0.0, 0.5, 2.0):
        upper = account.delta(epsilon).upper
        assert np.all(view.lower >= 1 - upper * 1.01 - math.exp(epsilon) * RATES - 1e-6)


def test_between_the_epsilons_of_a_grid() -> None:
    """Few epsilons make both sides looser; neither may cross the exact curve."""
    mu = 1.3
    exact = ndtr(ndtri(1 - RATES) - mu)
    for count in (4, 15, 200):
        epsilons = np.concatenate([[0.0], np.geomspace(0.05, 12.0, count)])
        deltas = md.gaussian(shift=mu).delta(epsilons)
        view = tradeoff(RATES, epsilons, deltas, [(deltas, deltas)])
        assert np.all(view.lower <= exact + 1e-12)
        assert np.all(exact <= view.upper + 1e-12)
        found = gaussian_dp(epsilons, deltas)
        assert found.value >= mu


def test_an_attacker_cannot_mix_pairs() -> None:
    """The upper curve is reached on one pair: the exact curve of the aligned pair is above none.

    For one draw with two outcomes per order, P(S) and Q(S) of half-lines are known exactly.
    """
    scheme, shift = md.wor(4, 1), 3.0
    plan = md.subsample(scheme, md.gaussian(shift=shift))
    view = md.account(plan, relation="add_remove").tradeoff(RATES[1:-1])
    t = np.linspace(-6.0, 9.0, 4001)
    below, above = ndtr(-t), 0.75 * ndtr(-t) + 0.25 * ndtr(shift - t)
    for rate, reached in zip(RATES[1:-1], view.upper, strict=True):
        ahead = 1 - np.interp(rate, below[::-1], above[::-1])
        behind = np.interp(rate, (1 - above), below)
        assert min(ahead, behind) - 1e-4 <= reached <= min(ahead, behind) + 0.02


@pytest.mark.parametrize(("shift", "steps"), CASES)
def test_gaussian_renyi(shift: float, steps: int) -> None:
    """D_a = a mu^2 / 2, as long as the losses cut off at the top cannot matter."""
    mu = shift * math.sqrt(steps)
    orders = np.array([1.1, 1.5, 2.0, 3.0])
    view = gaussian_account(shift, steps).renyi(orders)
    exact = orders * mu * mu / 2
    assert view.lower == pytest.approx(exact, rel=2e-3)
    assert view.upper == pytest.approx(exact, rel=2e-3)
    assert np.all(view.lower <= exact * (1 + 1e-9))
    assert view.outside <= 1e-19
    assert np.all(exact <= view.upper * (1 + 1e-4))


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_epsilons_from_renyi_are_looser(relation: str) -> None:
    account = md.account(SUBSAMPLED, relation=relation)
    orders = 1.0 + np.geomspace(0.1, 100.0, 60)
    view = account.renyi(orders)
    assert np.all(view.lower <= view.upper)
    assert np.all(np.diff(view.upper) >= -1e-12)
    for delta in (1e-3, 1e-6, 1e-10):
        assert view.epsilon(delta) >= account.epsilon(delta).lower
        assert view.epsilon(delta) >= account.epsilon(delta).upper * (1 - 1e-3)
        assert view.epsilon(delta) <= 2.0 * account.epsilon(delta).upper
    assert view.epsilon(view.outside) == math.inf


@pytest.mark.parametrize(("shift", "steps"), CASES)
def test_gaussian_dp_of_gaussian_noise(shift: float, steps: int) -> None:
    mu = shift * math.sqrt(steps)
    found = gaussian_account(shift, steps).gaussian_dp()
    assert mu * (1 - 1e-9) <= found.value <= mu * (1 + 3e-3)
    assert "upper bound" in found.meaning


def test_gaussian_dp_covers_the_account() -> None:
    account = md.account(SUBSAMPLED, relation="add_remove")
    mu = account.gaussian_dp().value
    covered = md.account(md.gaussian(shift=mu), relation="replace_one")
    for epsilon in np.linspace(0.0, account.epsilon(1e-15).upper, 23).tolist():
        assert covered.delta(epsilon).upper >= account.delta(epsilon).lower
    end = account.certified_epsilon(1e-20)
    needed = account.curve([end]).upper[0]
    assert md.gaussian(shift=mu).delta(end)[0] >= needed
    assert md.gaussian(shift=0.99 * mu).delta(end)[0] < needed


@pytest.mark.parametrize(("shift", "steps"), [(0.1, 100), (0.02, 900)])
def test_zero_concentrated_of_gaussian_noise(shift: float, steps: int) -> None:
    rho = shift * shift * steps / 2
    found = gaussian_account(shift, steps).zero_concentrated()
    assert rho * (1 - 1e-6) <= found.value <= rho * (1 + 3e-3)
    assert "upper bound" in found.meaning


def test_zero_concentrated_covers_orders_in_between() -> None:
    account = md.account(SUBSAMPLED)
    rho = account.zero_concentrated().value
    orders = 1.0 + np.geomspace(0.011, 990.0, 37)
    assert np.all(account.renyi(orders).approximate <= rho * orders * (1 + 1e-9))


def test_curves_agree_with_single_answers() -> None:
    account = md.account(SUBSAMPLED)
    curve = account.curve([0.0, 0.5, 2.0])
    for k, epsilon in enumerate((0.0, 0.5, 2.0)):
        bounds = account.delta(epsilon)
        assert curve.upper[k] == pytest.approx(bounds.upper, rel=0.01)
        assert curve.lower[k] == pytest.approx(bounds.lower, rel=0.01)


def test_what_renyi_leaves_out_is_taken_off_delta() -> None:
    orders = np.array([2.0, 5.0, 20.0])
    whole = Renyi(orders, 0.1 * orders, 0.1 * orders, 0.0, 0.1 * orders)
    rough = Renyi(orders, 0.1 * orders, 0.1 * orders, 1e-3, 0.1 * orders)
    assert rough.epsilon(1e-3) == math.inf
    assert rough.epsilon(2e-3) == pytest.approx(whole.epsilon(1e-3))
    by_formula = 0.1 * orders + np.log1p(-1 / orders) - np.log(1e-3 * orders) / (orders - 1)
    assert whole.epsilon(1e-3) == pytest.approx(by_formula.min(), rel=1e-12)


def test_one_number_for_a_curve_holds_between_what_was_looked_at() -> None:
    """(a - 1) D_a may follow its chord between two orders; mu is the safe end of its bracket."""
    orders = np.array([2.0, 3.0])
    renyi = Renyi(orders, np.zeros(2), orders, 0.0, orders)
    assert zero_concentrated(renyi).value >= 4.0 / (2.5 * 1.5)  # at order 2.5
    epsilon = np.linspace(0.0, 3.0, 30_001)
    for mu in (0.3, 0.7, 1.3, 2.1):
        value = gaussian_dp(epsilon, GaussianNoise().profile(np.array(mu), epsilon)).value
        assert mu <= value <= mu * (1 + 2e-6)


def test_mu_of_gaussian_noise_is_exact() -> None:
    """Once 1.0008 for a shift of 1; unequal steps and several records add up in squares."""
    assert gaussian_account(1.0, 1).gaussian_dp().value == pytest.approx(1.0, rel=2e-14)
    plan = md.sequence(md.repeat(4, md.gaussian(shift=0.5)), md.gaussian(noise_multiplier=2.0))
    found = md.account(plan, relation="add_remove", group=3).gaussian_dp()
    mu = 3.0 * math.sqrt(4 * 0.25 + 0.25)
    assert mu <= found.value <= mu * (1 + 1e-12)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_views_keep_the_accuracy_that_was_asked_for(relation: str) -> None:
    plan = md.repeat(40, md.subsample(md.wor(60, 12), md.gaussian(noise_multiplier=3.0)))
    rough, fine = (md.account(plan, relation=relation, accuracy=a) for a in (1e-2, 2e-4))
    for view in ("gaussian_dp", "zero_concentrated"):
        low, high = getattr(fine, view)(), getattr(rough, view)()
        assert low.gap <= 2e-4 * low.value
        assert high.gap <= 1e-2 * high.value
        assert low.value * (1 - 1e-3) <= high.value <= low.value * (1 + 1e-2)
        assert not low.coarse
    near, far = fine.renyi([1.001, 4.0]), rough.renyi([1.001, 4.0])
    assert near.gap <= 2e-4
    assert np.all(near.upper <= far.upper * (1 + 1e-9))
    assert np.all(far.upper <= near.upper * (1 + 1e-2))


def test_rates_keep_the_accuracy_that_was_asked_for() -> None:
    """Of Gaussian noise both bounds are the truth, up to the accuracy."""
    exact = ndtr(ndtri(1 - RATES) - 1.0)
    for accuracy in (1e-2, 5e-4):
        plan = md.repeat(4, md.gaussian(shift=0.5))
        view = md.account(plan, relation="replace_one", accuracy=accuracy).tradeoff(RATES)
        assert view.gap <= accuracy
        assert np.all(exact - 3 * accuracy <= view.lower)
        assert np.all(view.lower <= exact + 1e-12)
        assert np.all(exact - 1e-12 <= view.upper)
        assert np.all(view.upper <= exact + 3 * accuracy)


def test_views_out_of_reach_are_coarse_or_refused() -> None:
    rare = md.repeat(50, md.subsample(md.poisson(10**8, 1e-6), md.gaussian(noise_multiplier=0.6)))
    found = md.account(rare).renyi([1.5, 2.0])
    assert found.coarse
    assert found.gap > 1e-3
    with pytest.raises(md.NumericalFailure, match="accuracy"):
        md.account(rare, accuracy=1e-3).renyi([1.5, 2.0])
