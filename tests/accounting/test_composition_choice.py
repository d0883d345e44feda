"""The choice of composition: the tighter of both bounds, unless one pair is asked for."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import mustdp as md
from tests.seams import family_result, replace_family_bounds

NOISE = md.gaussian(noise_multiplier=2.0)
STEP = md.subsample(md.wor(500, 25), NOISE)
PLAN = md.repeat(30, STEP)


def say(monkeypatch: pytest.MonkeyPatch, answer: Any) -> md.types.Account:
    """An account whose family says ``answer`` to everything."""
    replace_family_bounds(monkeypatch, lambda *_, **__: answer)
    return md.account(PLAN)


def test_one_pair_on_request_and_in_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("the family was asked")

    replace_family_bounds(monkeypatch, never)
    default, pair = md.account(PLAN), md.account(PLAN, composition="pair")
    assert pair.epsilon(1e-5).upper >= pair.certified_epsilon(1e-5) * (1.0 - 1e-3)
    assert pair.composition == "one pair"
    assert default.certified_epsilon(1e-5) == pair.certified_epsilon(1e-5)


def test_a_family_that_fails_leaves_the_bounds_of_one_pair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise md.NumericalFailure("too steep")

    replace_family_bounds(monkeypatch, fails)
    assert md.account(PLAN).epsilon(1e-5) == md.account(PLAN, composition="pair").epsilon(1e-5)


def test_more_time_brings_the_bounds_no_further_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    family_bounds: Callable[..., Any]

    def listens(*given: object, work: float, **more: object) -> Any:
        seen.append(work)
        return family_bounds(*given, work=min(work, 6e7), **more)

    family_bounds = replace_family_bounds(monkeypatch, listens)
    for composition in ("auto", "family"):
        md.account(PLAN, composition=composition).epsilon(1e-5)
    assert seen[0] < seen[1]


@pytest.mark.parametrize("scheme", [md.wor(500, 25), md.must_ow(500, 100, 25)])
def test_the_family_lies_between_what_is_attained_and_one_pair(scheme: md.types.Scheme) -> None:
    plan = md.repeat(30, md.subsample(scheme, NOISE))
    pair, family = md.account(plan, composition="pair"), md.account(plan)
    assert family.composition == "one pair"
    for before, after in (
        (pair.epsilon(1e-5), family.epsilon(1e-5)),
        (pair.delta(0.5), family.delta(0.5)),
    ):
        assert before.lower <= after.lower <= after.upper < before.upper
        assert after.relation == before.relation
        assert after.numerical_gap <= after.upper - after.lower
        assert family.composition == "exact-family"


def test_each_end_is_the_tighter_one(monkeypatch: pytest.MonkeyPatch) -> None:
    old = md.account(PLAN, composition="pair").epsilon(1e-5)
    between = 0.5 * (old.lower + old.upper)
    for answer, lower, upper, attained_by, composition in (
        (
            family_result(0.0, between, "family"),
            old.lower,
            between,
            old.attained_by,
            "exact-family",
        ),
        (
            family_result(0.0, between, "family in blocks"),
            old.lower,
            between,
            old.attained_by,
            "blocks",
        ),
        (family_result(between, 9.0, "family"), between, old.upper, "adaptive", "one pair"),
        (family_result(0.0, 9.0, "single pair"), old.lower, old.upper, old.attained_by, "one pair"),
    ):
        account = say(monkeypatch, answer)
        bounds = account.epsilon(1e-5)
        assert (bounds.lower, bounds.upper) == (lower, upper)
        assert bounds.attained_by == attained_by
        assert account.composition == composition


@pytest.mark.parametrize("apart", [(0.0, 0.9), (1.1, 9.0)])
def test_bounds_that_cross_are_no_answer(
    monkeypatch: pytest.MonkeyPatch, apart: tuple[float, float]
) -> None:
    old = md.account(PLAN, composition="pair").epsilon(1e-5)
    account = say(monkeypatch, family_result(apart[0] * old.upper, apart[1] * old.lower, "family"))
    with pytest.raises(md.NumericalFailure, match="contradict"):
        account.epsilon(1e-5)


@pytest.mark.parametrize(
    ("plan", "relation"),
    [
        (STEP, "replace_one"),
        (md.repeat(5, NOISE), "replace_one"),
        (md.repeat(5, md.subsample(md.poisson(500, 0.05), NOISE)), "add_remove"),
        (md.repeat(5, md.subsample(md.poisson(500, 0.05), NOISE)), "replace_one"),
        (PLAN, "add_remove"),
        (md.repeat(5, md.subsample(md.must_ww(100, 500, 25), NOISE)), "replace_one"),
        (md.repeat(5, md.subsample(md.wor(500, 25), md.repeat(3, NOISE))), "replace_one"),
        (md.sequence(STEP, md.subsample(md.wor(500, 50), NOISE)), "replace_one"),
        (
            md.repeat(5, md.subsample(md.wor(500, 25), md.gaussian(noise_multiplier=0.05))),
            "replace_one",
        ),
    ],
)
def test_plans_without_a_family_are_composed_with_one_pair(
    plan: md.types.Plan, relation: str
) -> None:
    account = md.account(plan, relation=relation)
    alone = md.account(plan, relation=relation, composition="pair")
    assert account.epsilon(1e-5) == alone.epsilon(1e-5)
    assert account.composition == "one pair"


def test_steps_of_several_kinds_are_bounded_in_any_order() -> None:
    other = md.subsample(md.wor(500, 50), md.gaussian(noise_multiplier=4.0))
    plain = md.gaussian(noise_multiplier=20.0)
    parts = md.repeat(40, STEP), md.repeat(20, other), md.repeat(2, plain)
    old = md.account(md.sequence(*parts), relation="replace_one", composition="pair").epsilon(1e-5)
    # In blocks, and in turn.
    for order in (parts[::-1], (md.repeat(20, md.sequence(STEP, other, STEP)), parts[2])):
        account = md.account(md.sequence(*order), relation="replace_one")
        found = account.epsilon(1e-5)
        assert old.lower * (1 - 1e-9) <= found.lower <= found.upper < 0.99 * old.upper
        assert account.composition == "blocks"
    alone = md.account(parts[0]).epsilon(1e-5)
    assert found.upper > alone.upper


def test_single_numbers_have_less_to_hide() -> None:
    plane, line = md.account(PLAN), md.account(PLAN, dimension=1)
    assert line.epsilon(1e-5).upper <= plane.epsilon(1e-5).upper * (1.0 + 1e-3)
    assert line.epsilon(1e-5).upper <= 1.005 * line.epsilon(1e-5).lower
    with pytest.raises(md.InvalidParameter, match="dimension must be"):
        md.account(PLAN, dimension=0)


def test_the_choice_travels_and_threads_wait() -> None:
    account = md.account(PLAN, dimension=1)
    answer = account.epsilon(1e-5)
    again = pickle.loads(pickle.dumps(account))
    assert again.epsilon(1e-5) == answer
    assert again.dimension == 1
    assert again.composition == "exact-family"
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(again.epsilon, [1e-5] * 4)) == [answer] * 4


def test_other_views_stay_as_they_are() -> None:
    family, pair = md.account(PLAN), md.account(PLAN, composition="pair")
    assert family.curve([0.5]).upper == pair.curve([0.5]).upper
    assert family.certified_epsilon(1e-5) == pair.certified_epsilon(1e-5)


def test_unknown_compositions_and_other_methods_are_refused() -> None:
    with pytest.raises(
        md.InvalidParameter, match="composition must be one of 'auto', 'quick', 'pair', 'family'"
    ):
        md.account(PLAN, composition="blocks")
    for method in ("one-slope", "paper"):
        with pytest.raises(md.NotCovered, match="composition must be 'pair' with method"):
            md.account(PLAN, method=method, composition="family")


def test_bounds_say_how_they_were_composed() -> None:
    account = md.account(PLAN)
    bounds = account.epsilon(1e-5)
    assert bounds.composition == account.composition != "one pair"
    alone = md.account(PLAN, composition="pair").epsilon(1e-5)
    assert alone.composition == "one pair"
    # Another question does not change what an answer says of itself.
    account.composition = "one pair"
    assert bounds.composition != "one pair"
