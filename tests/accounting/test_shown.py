"""Accounts, comparisons and ledgers say something worth reading when they are printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from mustdp.accounting.shown import in_words
from mustdp.numerics.decimals import readable

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
