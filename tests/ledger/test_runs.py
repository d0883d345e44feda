"""Runs in a ledger: charged once whoever asks, and only ever going on from the latest state."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

import mustdp as md
from mustdp.errors import BudgetExceeded, InvalidParameter
from mustdp.ledger.runs import Latest

PLAN = md.repeat(3, md.gaussian(shift=0.1))


@pytest.fixture
def file(tmp_path: Path) -> str:
    name = str(tmp_path / "office.ledger")
    md.Ledger.open(name, epsilon=2, delta=1e-6).close()
    return name


def test_charged_once_and_going_on(file: str) -> None:
    with md.Ledger.open(file) as ledger:
        run = ledger.run("a")
        assert run.latest() is None
        run.charge(PLAN, label="training", state="zero")
        assert run.latest() == Latest(1, 0, "zero")
        run.advance("zero", "one", 1)
        for after, steps in (("zero", 2), ("one", 0), ("", 2)):
            with pytest.raises(InvalidParameter, match="would repeat batches"):
                run.advance(after, "two", steps)
        assert run.latest() == Latest(1, 1, "one")
        with pytest.raises(InvalidParameter, match="another process has charged it"):
            run.charge(PLAN, label="training", state="zero")
        with pytest.raises(InvalidParameter, match="does not know the run"):
            ledger.run("b").advance("zero", "one", 1)
        assert ledger.verify().entries == 1


def test_what_does_not_fit_begins_no_run(file: str) -> None:
    with md.Ledger.open(file) as ledger:
        with pytest.raises(BudgetExceeded):
            ledger.run("a").charge(md.gaussian(shift=9.0), label="", state="zero")
        assert ledger.run("a").latest() is None
        assert ledger.entries() == ()


def test_of_many_that_begin_one_run_one_is_charged(file: str) -> None:
    begun: list[int] = []
    refused: list[str] = []

    def begin(number: int) -> None:
        with md.Ledger.open(file) as ledger:
            try:
                ledger.run("a").charge(PLAN, label=f"{number}", state=f"{number}")
                begun.append(number)
            except InvalidParameter as problem:
                refused.append(str(problem))

    threads = [threading.Thread(target=begin, args=(k,)) for k in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(begun) == 1
    assert len(refused) == 7
    with md.Ledger.open(file) as ledger:
        [entry] = ledger.entries()
        assert entry.label == ledger.run("a").latest().state == str(begun[0])  # type: ignore[union-attr]


def test_a_ledger_without_runs_gets_the_table_when_it_is_needed(file: str) -> None:
    with md.Ledger.open(file) as before, md.Ledger.open(file) as after:
        before.charge(PLAN)
        with sqlite3.connect(file) as connection:
            assert not connection.execute(
                "SELECT 1 FROM sqlite_master WHERE name='runs'"
            ).fetchall()
        connection.close()
        after.run("a").charge(PLAN, label="", state="zero")
        assert before.run("a").latest() == Latest(2, 0, "zero")
        assert before.verify().entries == 2
    with md.Ledger.open(file) as again:
        assert again.run("a").latest() == Latest(2, 0, "zero")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs SET state = 'zero', steps = 0",
        "UPDATE runs SET entry = 7",
        "UPDATE runs SET name = 'c'",
    ],
)
def test_a_changed_run_is_noticed(file: str, change: str) -> None:
    with md.Ledger.open(file) as ledger:
        ledger.run("a").charge(PLAN, label="", state="zero")
        ledger.run("a").advance("zero", "one", 1)
    with sqlite3.connect(file) as connection:
        connection.execute(change)
    connection.close()
    name = "c" if "name" in change else "a"
    with md.Ledger.open(file) as ledger:
        with pytest.raises(InvalidParameter, match="must be as it was written"):
            ledger.run(name).latest()
        with pytest.raises(InvalidParameter, match="must be as it was written"):
            ledger.verify()
