"""A plan declared in advance: charged in order, and no further than it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

import mustdp as md
from tests.seams import declared, replace_quick_certificate

STEP = md.subsample(md.wor(1000, 20), md.gaussian(noise_multiplier=2.0))
OTHER = md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=3.0))
PLAN = md.sequence(md.repeat(100, STEP), md.repeat(2, md.sequence(OTHER, STEP)), OTHER)


def test_runs_of_equal_steps() -> None:
    found = declared(PLAN)
    counts = [count for _, count in found.runs]
    assert counts == [100, 1, 1, 1, 1, 1]
    assert found.steps == 105
    assert declared(md.repeat(10**9, md.sequence(STEP, STEP))).runs == ((STEP, 2 * 10**9),)
    assert found.beginning(101) == md.sequence(md.repeat(100, STEP), md.repeat(1, OTHER))
    with pytest.raises(md.InvalidParameter, match="runs of equal steps"):
        declared(md.repeat(10_000, md.sequence(STEP, OTHER)))


def test_charges_go_through_the_plan_in_order(tmp_path: Path) -> None:
    with md.Ledger.open(tmp_path / "a", epsilon=2, delta=1e-6, program=PLAN) as ledger:
        tight = md.account(PLAN, relation="replace_one").epsilon(1e-6).upper
        assert ledger.header.program == "fixed"
        with pytest.raises(md.InvalidParameter, match="first 0 of 105 steps"):
            ledger.charge(OTHER)
        seen = [ledger.charge(STEP).epsilon, ledger.charge(STEP, times=90).epsilon]
        with pytest.raises(md.InvalidParameter, match="first 91 of 105 steps"):
            ledger.check(md.sequence(OTHER, STEP))
        seen.append(ledger.charge(md.sequence(md.repeat(9, STEP), OTHER)).epsilon)
        with pytest.raises(md.InvalidParameter, match="adaptive ledger"):
            ledger.charge(OTHER)
        seen.append(ledger.charge(md.sequence(STEP, OTHER, STEP, OTHER)).epsilon)
        assert seen == sorted(seen)
        assert seen[-1] == ledger.spent() == pytest.approx(tight, rel=1e-3)
        with pytest.raises(md.BudgetExceeded, match="0 steps of the declared plan") as caught:
            ledger.charge(OTHER)
        assert caught.value.most == 0
        found = ledger.standing()
        assert found.fixed == pytest.approx(tight, rel=1e-3)
        assert found.adaptive > found.spent
        assert ledger.verify().entries == 4
    with md.Ledger.open(tmp_path / "a", program=PLAN):
        pass
    with pytest.raises(md.InvalidParameter, match="program"):
        md.Ledger.open(tmp_path / "a", program="adaptive")
    with pytest.raises(md.InvalidParameter, match="plan"):
        md.Ledger.open(tmp_path / "a", program=STEP)


def test_two_go_through_one_plan_together(tmp_path: Path) -> None:
    """What one of them saw last is not where the plan stands."""
    given = {"epsilon": 2.0, "delta": 1e-6}
    with (
        md.Ledger.open(tmp_path / "a", program=PLAN, **given) as one,  # type: ignore[arg-type]
        md.Ledger.open(tmp_path / "a") as other,
    ):
        one.charge(md.repeat(100, STEP))
        assert other.charge(md.sequence(OTHER, STEP)).number == 2
        assert one.charge(OTHER).number == 3
        with pytest.raises(md.InvalidParameter, match="first 103 of 105"):
            other.charge(OTHER)


def test_the_cost_of_a_beginning_is_never_too_small(tmp_path: Path) -> None:
    plan = md.repeat(400, STEP)
    with md.Ledger.open(tmp_path / "a", epsilon=4, delta=1e-6, program=plan) as ledger:
        for times in (5, 16, 100, 200):
            entry = ledger.charge(STEP, times=times)
            exact = md.account(md.repeat(ledger.steps, STEP)).epsilon(1e-6).upper
            assert (1 - 1e-3) * exact <= entry.epsilon <= 1.25 * exact


def test_a_plan_beyond_the_limit_is_refused_when_it_is_declared(tmp_path: Path) -> None:
    with pytest.raises(md.BudgetExceeded, match="the declared plan costs") as caught:
        md.Ledger.open(tmp_path / "a", epsilon=0.5, delta=1e-6, program=md.repeat(10_000, STEP))
    assert caught.value.asked > 0.5
    assert not (tmp_path / "a").exists()


def test_a_fixed_plan_may_take_the_very_limit(tmp_path: Path) -> None:
    plan = md.repeat(300, STEP)
    cost = md.account(plan).epsilon(1e-6).upper
    with md.Ledger.open(tmp_path / "a", epsilon=1.0001 * cost, delta=1e-6, program=plan) as ledger:
        assert ledger.charge(plan).epsilon <= 1.0001 * cost
    adaptive = md.Ledger.open(tmp_path / "b", epsilon=1.0001 * cost, delta=1e-6)
    adaptive.charge(STEP)
    with pytest.raises(md.BudgetExceeded):
        adaptive.charge(md.repeat(299, STEP))
    adaptive.close()


def test_the_very_cost_is_a_limit_that_is_kept_and_a_little_less_is_not(tmp_path: Path) -> None:
    plan = md.repeat(12, md.gaussian(noise_multiplier=26.0))
    cost = md.account(plan, relation="replace_one").epsilon(1e-6).upper
    with pytest.raises(md.BudgetExceeded, match="the declared plan costs"):
        md.Ledger.open(tmp_path / "a", epsilon=(1 - 1e-9) * cost, delta=1e-6, program=plan)
    with md.Ledger.open(tmp_path / "a", epsilon=cost, delta=1e-6, program=plan) as ledger:
        assert ledger.charge(plan).epsilon == cost == ledger.header.declared


def test_what_is_spent_never_falls_where_a_longer_beginning_seems_cheaper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds of two beginnings come from different grids: a later one may be a little smaller."""

    def falling(plan: md.types.Plan, relation: str, delta: float) -> float:
        return float(2.0 ** -(4 + declared(plan).steps))

    replace_quick_certificate(monkeypatch, falling)
    with md.Ledger.open(tmp_path / "a", epsilon=2, delta=1e-6, program=PLAN) as ledger:
        found = [ledger.charge(STEP).epsilon for _ in range(3)]
        assert found == [2.0**-5] * 3
        assert ledger.verify().epsilon == ledger.spent() == 2.0**-5
