"""Accounts are shared between threads and sent to other processes without changing an answer."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

import mustdp as md

NOISE = md.gaussian(noise_multiplier=3.0)
PLANS: dict[str, md.types.Plan] = {
    "one step": md.subsample(md.wor(100, 10), NOISE),
    "two stages": md.repeat(4, md.subsample(md.must_ow(100, 30, 10), NOISE)),
    "two directions": md.repeat(20, md.subsample(md.poisson(100, 0.1), NOISE)),
    "reused": md.subsample(md.wor(50, 10), md.repeat(3, NOISE)),
}


@pytest.mark.parametrize("name", PLANS)
def test_pickled_accounts_answer_alike(name: str) -> None:
    account = md.account(PLANS[name])
    answer = account.epsilon(1e-5)
    again = pickle.loads(pickle.dumps(account))
    assert (again.plan, again.relation, again.shift) == (
        account.plan,
        account.relation,
        account.shift,
    )
    assert again.epsilon(1e-5) == answer
    # Pairs and profiles are plain objects: none of them hides a function that cannot be sent.
    pickle.dumps(account._work.pairs)


def test_a_pickled_account_of_the_papers_pair_answers_alike() -> None:
    account = md.account(PLANS["two stages"], method="paper", accuracy=0.01)
    assert pickle.loads(pickle.dumps(account)).delta(0.5) == account.delta(0.5)


@pytest.mark.parametrize("method", ["certified", "paper"])
def test_threads_get_the_answers_of_one(method: str) -> None:
    plan = PLANS["two stages"]
    deltas = [1e-3, 1e-5, 1e-8]
    alone = [md.account(plan, method=method).epsilon(delta) for delta in deltas]
    shared = md.account(plan, method=method)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(shared.epsilon, deltas * 3))
    for one, other in zip(alone * 3, together, strict=True):
        assert ends(other) == pytest.approx(ends(one), rel=1e-3)


def ends(found: object) -> tuple[float, float]:
    if isinstance(found, md.reproduction.Attained):
        return found.attained_lower, found.attained_upper
    assert isinstance(found, md.Bounds)
    return found.lower, found.upper


def test_bounds_say_their_relation() -> None:
    for plan in PLANS.values():
        account = md.account(plan)
        for found in (account.epsilon(1e-5), account.delta(0.5)):
            assert found.relation is account.relation
    far = md.account(md.repeat(3, md.gaussian(shift=200.0))).epsilon(1e-5)
    assert far.relation is md.types.Relation.REPLACE_ONE


def test_what_the_papers_pair_attains_has_no_upper_bound() -> None:
    found = md.account(PLANS["two stages"], method="paper").delta(0.5)
    assert not hasattr(found, "upper")
    assert not hasattr(found, "lower")
