"""Where the accuracy is out of reach: bounds that hold and say how far off they may be."""

from __future__ import annotations

import pickle

import pytest

import mustdp as md
from mustdp.accounting.certify import GridAnswer, certify, refine
from mustdp.accounting.pld.readoff import EpsilonAt, LowerCurve
from mustdp.errors import Contradiction

#: Draws so rare that the grid, which has to span the few large losses, is too wide for the bulk.
RARE = md.repeat(50, md.subsample(md.poisson(10**8, 1e-6), md.gaussian(noise_multiplier=0.6)))


def test_what_is_certified_is_answered_and_marked() -> None:
    bounds = md.account(RARE).epsilon(1e-10)
    assert bounds.coarse
    assert 0.005 < bounds.lower < bounds.upper < 0.006
    assert 1e-3 * bounds.upper < bounds.numerical_gap <= bounds.upper - bounds.lower
    assert "coarse=True" in repr(bounds)
    assert str(bounds).endswith("certified (add-remove, coarse)")


def test_an_accuracy_that_was_asked_for_is_kept_or_refused() -> None:
    with pytest.raises(md.NumericalFailure, match=r"certified, but its numerical part"):
        md.account(RARE, accuracy=1e-3).epsilon(1e-10)
    assert not md.account(RARE, accuracy=0.2).epsilon(1e-10).coarse


def test_accuracy_travels_as_it_was_given() -> None:
    step = md.subsample(md.wor(50, 5), md.gaussian(noise_multiplier=3.0))
    for given in (None, 1e-3):
        there = pickle.loads(pickle.dumps(md.account(step, accuracy=given)))
        assert there.accuracy == 1e-3
        assert there._strict is (given is not None)


def test_ordinary_answers_are_not_coarse() -> None:
    plan = md.repeat(20, md.subsample(md.wor(50, 5), md.gaussian(noise_multiplier=3.0)))
    for account in (md.account(plan), md.account(plan, accuracy=1e-3)):
        assert not account.epsilon(1e-5).coarse
        assert not account.delta(1.0).coarse
    assert md.account(plan).epsilon(1e-5) == md.account(plan, accuracy=1e-3).epsilon(1e-5)


def test_a_transform_too_long_is_tried_on_a_coarser_grid() -> None:
    """Ten steps with hardly any noise at epsilon = 100: delta is the chance to be drawn at all."""
    step = md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=0.05))
    account = md.account(md.repeat(10, step))
    bounds = account.delta(100.0)
    assert bounds.lower <= 1 - 0.99**10 <= bounds.upper <= 1.001 * (1 - 0.99**10)
    with pytest.raises(md.NumericalFailure, match="transform"):
        md.account(md.repeat(10, step), accuracy=1e-3).delta(100.0)


def test_a_contradiction_is_never_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at the first look nor after a coarse one that went well."""
    account = md.account(RARE)
    looks = iter([(0.0051, "aligned")])
    monkeypatch.setattr(LowerCurve, "best", lambda self, question: next(looks, (1e3, "broken")))
    monkeypatch.setattr(LowerCurve, "gap", lambda self, question, name: 1.0)

    def twice(look_at: object, fractions: object) -> object:
        look: GridAnswer[md.Bounds] = look_at(0.05)  # type: ignore[operator]
        assert not look.good_enough
        return refine(look_at, fractions)  # type: ignore[arg-type]

    monkeypatch.setattr("mustdp.accounting.certify.refine", twice)
    with pytest.raises(Contradiction, match="contradict"):
        certify(account._work, EpsilonAt(1e-10), 1e-3, strict=False)
