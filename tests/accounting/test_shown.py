"""Accounts, comparisons and ledgers say something worth reading when they are printed."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mustdp as md
from tests.seams import in_words, readable

NOISE = md.gaussian(noise_multiplier=5.0)
PLAN = md.repeat(5, md.subsample(md.must_ow(100, 20, 10), NOISE))


def test_an_account_shows_its_bounds_on_their_safe_side() -> None:
    account = md.account(PLAN)
    text, page = str(account), account._repr_html_()
    bounds = account.epsilon(1e-5)
    for part in (readable(bounds.lower, "down"), readable(bounds.upper, "up"), "replace-one"):
        assert part in text
        assert part in page
    assert readable(account.delta(0.0).upper, "up") in text
    assert "must-ow, n 100, stages wor:20,wr:10" in repr(account)
    assert "5 x" in repr(account)


def test_printing_never_fails_for_want_of_a_certificate(monkeypatch: Any) -> None:
    account = md.account(PLAN)

    def fail(_: float) -> md.Bounds:
        raise md.NumericalFailure("no")

    monkeypatch.setattr(account, "epsilon", fail)
    assert "none can be certified" in str(account)


def test_a_comparison_is_a_table() -> None:
    found = md.compare(n=30, b=10, m=4, steps=2, delta=1e-3, noise_multiplier=5.0)
    lines = str(found).splitlines()
    rows = [*found, *found.epochs]
    assert len(rows) > len(found)
    for row, line in zip(rows, lines[2:], strict=True):
        assert row.scheme.name in line
        assert readable(row.epsilon.upper, "up") in line
    assert found._repr_html_().count("<tr>") == 1 + len(rows)


def test_ledgers_in_memory_and_in_a_file(tmp_path: Path) -> None:
    ledger = md.Ledger()
    ledger.step(PLAN)
    assert "steps released: 5" in str(ledger)
    assert "must-ow" in str(ledger)
    with md.Ledger.open(tmp_path / "a.ledger", epsilon=4, delta=1e-6, data="<b>ages") as opened:
        for _ in range(12):
            opened.charge(md.laplace(shift=0.1), label="<i>one")
        text = str(opened)
        assert readable(opened.spent(), "up") in text
        assert readable(opened.left(), "down") in text
        assert "2 charges before these" in text
        assert "&lt;i&gt;one" in opened._repr_html_()
        assert "<i>" not in opened._repr_html_()
        assert "<b>" not in opened._repr_html_()
        assert "\n" not in repr(opened)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (NOISE, "gaussian, noise multiplier 5"),
        (md.sequence(NOISE, md.laplace(shift=1.0)), ", then laplace, shift 1"),
        (md.subsample(md.poisson(50, 0.1), NOISE), "poisson, n 50, rate 0.1; gaussian"),
    ],
)
def test_plans_in_words(plan: Any, words: str) -> None:
    assert words in in_words(plan)


@given(
    st.floats(1e-300, 1e300),
    st.floats(1.0, 1.5),
    st.sampled_from([".0f", ".2f", ".3g", ".1e", "g"]),
)
def test_no_format_makes_bounds_closer(value: float, factor: float, spec: str) -> None:
    bounds = md.Bounds(value, value * factor)
    lower, upper = (Decimal(part) for part in format(bounds, spec).split(" to "))
    assert lower <= Decimal(bounds.lower) <= Decimal(bounds.upper) <= upper
    attained, certified = str(bounds).split(", ")
    assert Decimal(attained.removesuffix(" attained")) <= Decimal(bounds.lower)
    assert Decimal(certified.removesuffix(" certified")) >= Decimal(bounds.upper)


def test_bounds_that_are_endless() -> None:
    assert str(md.Bounds(2.5, math.inf)) == "2.5 attained, nothing certified"
    assert str(md.Bounds(math.inf, math.inf)) == "any number attained, nothing certified"
    assert f"{md.Bounds(2.5, math.inf):.1f}" == "2.5 to inf"
    with pytest.raises(ValueError, match="format"):
        f"{md.Bounds(1.0, 2.0):d}"


def test_noise_that_was_found_is_rounded_up() -> None:
    found = md.calibrate(md.wor(100, 10), epsilon=1, delta=1e-3, steps=2, composition="pair")
    first, cost, plan = str(found).splitlines()
    assert Decimal(first.removeprefix("noise multiplier ")) >= Decimal(found.noise_multiplier)
    assert cost == f"epsilon at delta 0.001: {found.epsilon}"
    assert plan == in_words(found.plan)
    whole = md.calibration.calibrate_plan(lambda noise: md.repeat(3, noise), epsilon=1, delta=1e-5)
    assert str(whole).startswith("noise multiplier 12.9")
    risky = md.calibrate(md.poisson(100, 1.0), advantage=0.1, steps=1)
    assert str(risky).splitlines()[1:3] == list(risky.risk.sentences())
    noise = md.laplace(shift=0.5)
    steps = md.calibration.most_steps(md.poisson(1000, 1.0), mechanism=noise, epsilon=2, delta=1e-5)
    assert str(steps).startswith("found: 4\n")


@given(st.floats(1e-3, 1e3), st.floats(1e-6, 0.999))
def test_a_plan_in_words_costs_no_more_than_the_plan(noise: float, rate: float) -> None:
    plan = md.subsample(md.poisson(50, rate), md.gaussian(noise_multiplier=noise))
    drawn, added = in_words(plan).split("; ")
    assert float(added.rpartition(" ")[2]) >= noise
    assert float(drawn.rpartition(" ")[2]) <= rate


@given(st.floats(1e-3, 1e3), st.floats(1e-6, 0.999), st.floats(1e-3, 1e3))
def test_what_was_released_in_words_costs_no_less(noise: float, rate: float, shift: float) -> None:
    ledger = md.Ledger()
    ledger.step(md.subsample(md.poisson(50, rate), md.gaussian(noise_multiplier=noise)))
    ledger.step(md.laplace(shift=shift))
    *_, first, second = str(ledger).splitlines()
    drawn, added = first.split("; ")
    assert float(added.rpartition(" ")[2]) <= noise
    assert float(drawn.rpartition(" ")[2]) >= rate
    assert float(second.rpartition(" ")[2]) >= shift
