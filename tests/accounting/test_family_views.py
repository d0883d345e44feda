"""Risk and trade-off curve with a family of pairs: tighter than one pair, never below the truth."""

from __future__ import annotations

import numpy as np
import pytest

import mustdp as md
from mustdp.accounting.bounds import FamilyBounds
from mustdp.accounting.families.composition import family_bounds
from mustdp.accounting.families.recursion import LossWindow, Recursion, delta_at, profile_of
from mustdp.accounting.plan import atoms
from mustdp.accounting.pld.discretise import DiscreteLoss
from mustdp.accounting.pld.readoff import DeltaAt, EpsilonAt, Question
from mustdp.types import Plan, Relation
from tests.arrays import FloatArray

RATES = np.array([0.0, 0.001, 0.01, 0.1, 0.5, 1.0])
EPSILONS = np.array([0.0, 0.03, 0.2, 0.5, 0.9, 1.4, 2.1])


def plan_of(scheme: md.types.Scheme, z: float, steps: int) -> Plan:
    return md.repeat(steps, md.subsample(scheme, md.gaussian(noise_multiplier=z)))


WOR = plan_of(md.wor(900, 30), 3.0, 60)
PLANS = {
    "wor": WOR,
    "wr": plan_of(md.wr(900, 30), 3.0, 40),
    "must-ow": plan_of(md.must_ow(900, 90, 30), 4.0, 40),
    "two kinds": md.sequence(WOR, plan_of(md.wr(900, 30), 3.0, 40)),
}


def look(plan: Plan, question: Question, work: float = 6e7) -> FamilyBounds:
    found = family_bounds(tuple(atoms(plan).items()), Relation.REPLACE_ONE, question, work=work)
    assert found is not None
    return found


def profile(found: FamilyBounds, epsilon: FloatArray) -> FloatArray:
    assert found.profile is not None
    return found.profile(epsilon)


@pytest.mark.parametrize(
    "name", ["wor", "wr", "two kinds", pytest.param("must-ow", marks=pytest.mark.slow)]
)
def test_profiles_bound_delta_everywhere(name: str) -> None:
    """Every look is a bound at every epsilon, on the safe side of what a data holder attains."""
    plan = PLANS[name]
    account = md.account(plan, composition="pair")
    attained = account.curve(EPSILONS).lower
    for question in (DeltaAt(0.0), EpsilonAt(1e-3)):
        values = profile(look(plan, question), EPSILONS)
        assert np.all(values >= attained)
        assert np.all(np.diff(values) <= 0.0)
        assert np.all(values <= 1.0)


def test_a_look_is_what_its_question_answers() -> None:
    found = look(WOR, DeltaAt(0.4))
    assert profile(found, np.array([0.4]))[0] == pytest.approx(found.upper, rel=1e-9)
    found = look(WOR, EpsilonAt(1e-4))
    assert profile(found, np.array([found.upper]))[0] <= 1e-4 * (1.0 + 1e-9)
    assert profile(found, np.array([0.99 * found.upper]))[0] > 1e-4


def test_blocks_have_a_profile_as_well() -> None:
    found = look(plan_of(md.wor(60000, 256), 1.6, 20_000), DeltaAt(1.0), work=2e6)
    assert found.composition == "family in blocks"
    assert profile(found, np.array([1.0]))[0] == pytest.approx(found.upper, rel=1e-3)


def test_between_grid_points_profiles_are_chords_and_beyond_the_last_one_they_stay() -> None:
    recursion = Recursion(LossWindow(0.1, -20, 30, 8, 8, 0.5), "upper")
    half = np.array([0.5, 0.5])
    kernels = recursion.kernels([DiscreteLoss(0.1, np.array([-5, 6]), half)])
    for _ in range(3):
        recursion.step(kernels)
    found = profile_of(recursion)
    inside = np.linspace(0.0, 3.0, 41)
    assert found(inside) == pytest.approx([delta_at(recursion, float(e)) for e in inside])
    assert found(np.array([3.0, 9.0, 900.0])) == pytest.approx(found(np.array([3.0]))[0])
    alpha = np.exp(inside)
    line = np.interp(0.5 * (alpha[1:] + alpha[:-1]), alpha, found(inside))
    assert np.all(found(np.log(0.5 * (alpha[1:] + alpha[:-1]))) <= line * (1.0 + 1e-12))


@pytest.mark.parametrize("name", ["wor", pytest.param("must-ow", marks=pytest.mark.slow)])
def test_trade_off_curves_come_closer_to_what_is_reached(name: str) -> None:
    one, all_of_them = (
        md.account(PLANS[name], composition=c).tradeoff(RATES) for c in ("pair", "auto")
    )
    assert np.all(all_of_them.lower >= one.lower - 1e-12)
    assert np.all(all_of_them.lower <= all_of_them.upper)
    assert all_of_them.upper == pytest.approx(one.upper, abs=2e-3)
    room, left = one.upper - one.lower, all_of_them.upper - all_of_them.lower
    assert np.all(left[1:4] < 0.75 * room[1:4])


def test_risks_are_smaller_with_a_family_and_within_what_is_attained() -> None:
    one, more = (md.account(WOR, composition=c).risk() for c in ("pair", "auto"))
    for single, both in zip(one.tpr, more.tpr, strict=True):
        assert both.lower <= both.upper < single.upper
        assert both.upper - both.lower < 0.5 * (single.upper - single.lower)
    assert more.advantage.upper < one.advantage.upper


def test_people_with_several_records_have_a_family() -> None:
    one, more = (md.account(WOR, composition=c, group=2).risk([0.01]) for c in ("pair", "auto"))
    assert more.advantage.lower <= more.advantage.upper < one.advantage.upper
    assert more.tpr[0].lower <= more.tpr[0].upper < one.tpr[0].upper


def test_a_profile_that_is_too_small_contradicts_what_is_attained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The risk is refused, not answered, where the family's curve lies below a reached rate."""
    real = profile_of

    def smaller(recursion: Recursion) -> object:
        found = real(recursion)
        return lambda epsilon: 0.7 * found(epsilon)

    monkeypatch.setattr("mustdp.accounting.families.composition.profile_of", smaller)
    with pytest.raises(md.errors.NumericalFailure, match="contradict"):
        md.account(WOR).risk([0.1])
