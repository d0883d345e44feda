"""Directions, left-out mass and errors that ordinary plans hide: each is made to be seen."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

import mustdp as md
from mustdp.accounting import copies
from mustdp.accounting.composed_profiles import group_profiles
from mustdp.accounting.copies import observe
from mustdp.accounting.plan import Subsample
from mustdp.accounting.sides import UpperSide
from mustdp.accounting.views import Renyi, gaussian_dp, zero_concentrated
from mustdp.amplification.one_step import Direction, upper_bound
from mustdp.loss.curve import LowerCurve, UpperCurve
from mustdp.loss.pairs import family_pair
from mustdp.loss.uncomposed import attained
from mustdp.mechanisms.noise import GaussianNoise
from mustdp.mechanisms.profiles import FloatArray, NoiseProfiles
from mustdp.sampling.law import MultiplicityLaw
from tests.accounting.closed_forms import exact_delta
from tests.loss.mixture_pairs import ExactPair, family, two_steps

#: With Laplace noise adding a record is the worse direction at small epsilon, removing at large.
SCHEME, SHIFT = md.wor(10, 3), 0.5
CHANCES = [0.7, 0.3]
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")
STEP = md.subsample(SCHEME, md.laplace(shift=SHIFT))


def pairs() -> list[ExactPair]:
    return [family(kind, CHANCES, SHIFT, "laplace") for kind in ("aligned", "reversed")]


def rough(epsilon: FloatArray) -> FloatArray:
    """A profile for which adding a record can be the worse direction, in one step too."""
    return 0.3 * np.maximum(0.0, 1.0 - np.exp(epsilon - 0.03)) + 1e-3 * np.exp(-epsilon)


def test_one_step_takes_the_larger_direction() -> None:
    cases: list[tuple[md.Scheme, md.Mechanism, Direction]] = [
        (md.wr(3, 12), md.custom(rough), "add"),
        (SCHEME, md.laplace(shift=SHIFT), "remove"),
    ]
    for scheme, mechanism, larger in cases:
        account = md.account(md.subsample(scheme, mechanism), relation="add_remove")
        for epsilon in (0.05, 0.1):
            at = np.array([epsilon])
            both = {
                way: float(
                    upper_bound(scheme, mechanism, at, relation="add_remove", direction=way)[0]
                )
                for way in DIRECTIONS
            }
            assert both[larger] == max(both.values()) > 1.02 * min(both.values())
            bounds = account.delta(epsilon)
            assert bounds.upper >= max(both.values())
            assert bounds.direction == larger
            # Asked the other way round, the smaller direction alone would answer with less.
            assert account.epsilon(max(both.values()) * (1 - 1e-9)).upper >= epsilon


def test_curves_take_the_larger_direction() -> None:
    account = md.account(md.repeat(2, STEP), relation="add_remove")
    epsilons = [0.05, 0.3]
    upper = account.curve(epsilons).upper
    values = [[two_steps(pair, pair, epsilon) for pair in pairs()] for epsilon in epsilons]
    assert np.argmax(values, axis=1).tolist() == [1, 0]
    assert np.all(upper >= np.max(values, axis=1) * (1 - 1e-6))


def test_renyi_orders_take_the_larger_direction() -> None:
    """Two steps have twice the divergence of one, by quadrature."""
    orders = np.array([1.5, 2.0, 8.0, 40.0])
    renyi = md.account(md.repeat(2, STEP), relation="add_remove").renyi(orders)
    x = np.linspace(-60.0, 60.0, 1_200_001)
    found = []
    for pair in pairs():
        p, q = pair.densities(x)
        moments = [np.trapezoid(p * np.exp((a - 1) * (np.log(p) - np.log(q))), x) for a in orders]
        found.append(2.0 * np.log(moments) / (orders - 1))
    assert np.all(np.abs(found[0] - found[1]) > 1e-3 * found[0])
    assert np.all(renyi.upper >= np.max(found, axis=0) * (1 - 1e-6))


@pytest.mark.parametrize("outside", [(1e-3, 1e-2), (1e-2, 1e-3)])
def test_renyi_leaves_out_what_the_worse_direction_does(
    monkeypatch: pytest.MonkeyPatch, outside: tuple[float, float]
) -> None:
    moments, left = UpperCurve.log_mgf, iter(outside)

    def spoilt(self: UpperCurve, theta: FloatArray, rare: float) -> tuple[FloatArray, float]:
        return moments(self, theta, rare)[0], next(left)

    monkeypatch.setattr(UpperCurve, "log_mgf", spoilt)
    account = md.account(md.repeat(2, STEP), relation="add_remove")
    assert account.renyi([2.0]).outside == 1e-2


def test_what_renyi_leaves_out_is_taken_off_delta() -> None:
    orders = np.array([2.0, 5.0, 20.0])
    whole = Renyi(orders, 0.1 * orders, 0.1 * orders, 0.0)
    rough = Renyi(orders, 0.1 * orders, 0.1 * orders, 1e-3)
    assert rough.epsilon(1e-3) == math.inf
    assert rough.epsilon(2e-3) == pytest.approx(whole.epsilon(1e-3))
    by_formula = 0.1 * orders + np.log1p(-1 / orders) - np.log(1e-3 * orders) / (orders - 1)
    assert whole.epsilon(1e-3) == pytest.approx(by_formula.min(), rel=1e-12)


def test_one_number_for_a_curve_holds_between_what_was_looked_at() -> None:
    """(a - 1) D_a may follow its chord between two orders; mu is the safe end of its bracket."""
    renyi = Renyi(np.array([2.0, 3.0]), np.zeros(2), np.array([2.0, 3.0]), 0.0)
    assert zero_concentrated(renyi).value >= 4.0 / (2.5 * 1.5)  # at order 2.5
    epsilon = np.linspace(0.0, 3.0, 30_001)
    for mu in (0.3, 0.7, 1.3, 2.1):
        value = gaussian_dp(epsilon, GaussianNoise().profile(np.array(mu), epsilon)).value
        assert mu <= value <= mu * (1 + 2e-6)


def test_one_attained_step_is_charged_for_mass_left_out() -> None:
    """Every completion of a law that leaves 5 % out attains at least the lower bound."""
    law = MultiplicityLaw(0, np.array([0.8, 0.15]), 0.05, 1e-15)
    for name in ("aligned", "reversed", "symmetric"):
        pair = family_pair(name, law, GaussianNoise(), 1.0)
        for place in (0, 1, 4):
            completed = [0.8, 0.15, 0.0, 0.0, 0.0]
            completed[place] += 0.05
            exact = family(name, completed, 1.0, "gaussian")
            for epsilon in (0.0, 0.05, 0.2, 0.5):
                assert attained(pair, epsilon) <= exact.profile(epsilon)


@pytest.fixture
def coarse_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Laws of copies that are cut where what is left is below a thousandth."""
    copies._sum_law.cache_clear()
    monkeypatch.setattr(copies, "_SMALLEST", 1e-3)
    yield
    copies._sum_law.cache_clear()


NESTED: list[Subsample] = [
    md.subsample(md.wor(50, 20), md.repeat(3, md.gaussian(shift=0.1))),
    md.subsample(md.wr(50, 60), md.repeat(2, md.gaussian(shift=0.1))),
    md.subsample(md.wor(50, 20), md.repeat(3, md.subsample(md.wr(20, 30), md.gaussian(shift=1)))),
    md.subsample(md.wr(50, 20), md.repeat(7, md.subsample(md.wr(20, 30), md.gaussian(shift=1)))),
]


@pytest.mark.parametrize("plan", NESTED)
def test_copies_left_out_are_counted(plan: Subsample, coarse_copies: None) -> None:
    law = observe(plan).law
    missing = 1.0 - float(law.probabilities.sum())
    assert law.cut >= missing * (1.0 - 1e-9) - 1e-12
    assert law.cut <= 50 * missing + 1e-12


@pytest.mark.parametrize("plan", NESTED[2:])
def test_the_error_of_a_law_of_copies_grows(plan: Subsample) -> None:
    inner = md.wr(20, 30).law(1, copies._SMALLEST).relative_error
    reuse = {NESTED[2]: 3, NESTED[3]: 7}[plan]
    assert observe(plan).law.relative_error >= reuse * inner > 0


@pytest.mark.parametrize("scheme", [md.wor(50, 5), md.must_ow(50, 10, 20), md.must_ww(50, 10, 20)])
@pytest.mark.parametrize("shifts", [(0.1, 0.1), (0.1, 0.6), (0.6, 0.1)])
def test_all_releases_and_all_stages_of_a_reused_draw_count(
    scheme: md.Scheme, shifts: tuple[float, float]
) -> None:
    """Gaussian releases on one draw are one release, the squares of whose shifts add up."""
    inner = md.sequence(*(md.gaussian(shift=shift) for shift in shifts))
    reused = md.account(md.subsample(scheme, inner))
    once = md.account(md.subsample(scheme, md.gaussian(shift=math.hypot(*shifts))))
    for epsilon in (0.1, 0.5):
        assert reused.delta(epsilon).upper >= once.delta(epsilon).lower
        assert reused.delta(epsilon).upper == pytest.approx(once.delta(epsilon).upper, rel=0.1)


def test_losses_too_large_to_resolve_count_inside_a_subset_too() -> None:
    """With hardly any noise a reused draw tells who was drawn: delta is the chance of a draw."""
    plan = md.subsample(md.wor(1000, 10), md.repeat(2, md.gaussian(noise_multiplier=0.02)))
    for epsilon in (0.0, 1.0, 50.0):
        assert 0.01 * (1 - 1e-9) <= md.account(plan).delta(epsilon).upper <= 0.01 * (1 + 1e-6)


def test_composed_group_profiles_hold_on_both_sides_of_zero() -> None:
    """Slopes below one are asked for as well; there self-duality gives the profile."""
    profiles = group_profiles(md.repeat(2, md.gaussian(shift=0.5)), 60.0)
    groups, epsilon = np.array([1.0, 2.0, 3.0]), np.array([-9.0, -3.0, -1.0, -0.2, 0.0, 0.4, 2.0])
    values = profiles.delta(groups, np.repeat(epsilon[:, None], groups.size, axis=1))
    for column, group in enumerate(groups.tolist()):
        for value, e in zip(values[:, column].tolist(), epsilon.tolist(), strict=True):
            exact = exact_delta(group * 0.5 * math.sqrt(2.0), e)
            assert exact <= value * (1 + profiles.relative_error)
            assert value <= float(exact) * 1.02 + 1e-9


def test_the_error_of_the_profiles_is_in_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles that may be a tenth too small make accounts at least that much larger."""
    noise = md.gaussian(shift=0.8)
    plans: list[md.Plan] = [noise, md.subsample(md.wor(20, 5), md.repeat(2, noise))]
    sure = [md.account(plan, relation="replace_one").delta(0.2).upper for plan in plans]
    monkeypatch.setattr(NoiseProfiles, "relative_error", 0.1)
    rough = [md.account(plan, relation="replace_one").delta(0.2).upper for plan in plans]
    for before, after in zip(sure, rough, strict=True):
        assert after >= 1.099 * before


def test_bounds_that_contradict_each_other_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = md.repeat(2, STEP)
    monkeypatch.setattr(LowerCurve, "best", lambda self, question: (9.0, "aligned"))
    with pytest.raises(md.NumericalFailure, match="contradict"):
        md.account(plan).delta(0.1)
    with pytest.raises(md.NumericalFailure, match="contradict"):
        md.account(plan).epsilon(1e-3)
    monkeypatch.setattr(LowerCurve, "curve", lambda self, eps, smallest: np.full(eps.size, 0.9))
    monkeypatch.setattr(UpperSide, "curve", lambda self, eps, smallest: np.full(eps.size, 0.5))
    with pytest.raises(md.NumericalFailure, match="contradict"):
        md.account(plan).curve([0.1, 0.2])


def test_a_draw_of_everything_hidden_in_a_sequence_is_refused() -> None:
    everything = md.subsample(md.wor(10, 10), md.gaussian(shift=1.0))
    for plan in (
        everything,
        md.repeat(3, everything),
        md.sequence(STEP, everything),
        md.repeat(2, md.sequence(STEP, md.repeat(2, everything))),
    ):
        with pytest.raises(md.NotCovered, match="add_remove"):
            md.account(plan, relation="add_remove")
        assert md.account(plan, relation="replace_one").steps >= 1


def test_a_ledger_forgets_its_old_answer() -> None:
    step = md.subsample(md.wor(100, 10), md.gaussian(noise_multiplier=4.0))
    ledger, other = md.Ledger(), md.Ledger()
    ledger.step(step, 2)
    answers = [ledger.epsilon(1e-5).upper]
    ledger.step(step, 3)
    answers.append(ledger.epsilon(1e-5).upper)
    other.step(step, 4)
    ledger.merge(other)
    answers.append(ledger.epsilon(1e-5).upper)
    exact = [md.account(md.repeat(k, step)).epsilon(1e-5).upper for k in (2, 5, 9)]
    assert answers == exact


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_ledger_accounts_under_its_own_relation(relation: str) -> None:
    """The default of a Poisson draw would be add_remove, that of a fixed-size one replace_one."""
    noise = md.gaussian(noise_multiplier=4.0)
    for scheme in (md.poisson(100, 0.1), md.wor(100, 10)):
        step = md.subsample(scheme, noise)
        ledger = md.Ledger(relation)
        ledger.step(step, 3)
        account = md.account(md.repeat(3, step), relation=relation)
        assert ledger.account().relation == relation
        assert ledger.epsilon(1e-5) == account.epsilon(1e-5)
        assert md.Ledger.from_json(ledger.to_json()).epsilon(1e-5) == account.epsilon(1e-5)


@pytest.mark.parametrize("shift", [0.3, 1.0, 4.0])
def test_epsilons_of_one_step_are_the_safe_ends_of_their_brackets(shift: float) -> None:
    account = md.account(md.gaussian(shift=shift))
    for delta in np.geomspace(1e-24, 1e-2, 12).tolist():
        bounds = account.epsilon(delta)
        assert exact_delta(shift, bounds.upper) <= delta <= exact_delta(shift, bounds.lower)


def test_the_epsilon_of_a_profile_with_a_jump_lies_behind_it() -> None:
    """Between the ends of the last bracket delta may fall from 1e-3 to nothing."""

    def jump(epsilon: FloatArray) -> FloatArray:
        return np.where(epsilon < 0.7, 1e-3, 0.0)

    answer = md.account(md.custom(jump)).epsilon(1e-6).upper
    assert 0.7 <= answer <= 0.7 * (1 + 1e-9)
    # Where delta is not met at the largest loss, no epsilon is given at all.
    assert md.account(md.gaussian(shift=50.0)).epsilon(1e-5).upper == math.inf
