"""Runs in a ledger: charged once whoever asks, and only ever going on from the latest state."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mustdp as md

PLAN = md.repeat(3, md.gaussian(shift=0.1))


@pytest.fixture
def file(tmp_path: Path) -> str:
    name = str(tmp_path / "office.ledger")
    md.Ledger.open(name, epsilon=2, delta=1e-6).close()
    return name


def latest(run: Any) -> tuple[Any, ...]:
    """Entry, steps and state that a run was saved in last."""
    return astuple(run.latest())


def test_charged_once_and_going_on(file: str) -> None:
    with md.Ledger.open(file) as ledger:
        run = ledger.run("a")
        assert run.latest() is None
        run.charge(PLAN, label="training", state="zero")
        assert latest(run) == (1, 0, "zero")
        run.advance("zero", "one", 1)
        for after, steps in (("zero", 2), ("one", 0), ("", 2)):
            with pytest.raises(md.InvalidParameter, match="would repeat batches"):
                run.advance(after, "two", steps)
        assert latest(run) == (1, 1, "one")
        with pytest.raises(md.InvalidParameter, match="another process has charged it"):
            run.charge(PLAN, label="training", state="zero")
        with pytest.raises(md.InvalidParameter, match="does not know the run"):
            ledger.run("b").advance("zero", "one", 1)
        assert ledger.verify().entries == 1


def test_what_does_not_fit_begins_no_run(file: str) -> None:
    with md.Ledger.open(file) as ledger:
        with pytest.raises(md.BudgetExceeded):
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
            except md.InvalidParameter as problem:
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


def test_two_that_have_a_ledger_open_see_each_others_runs(file: str) -> None:
    with md.Ledger.open(file) as before, md.Ledger.open(file) as after:
        before.charge(PLAN)
        after.run("a").charge(PLAN, label="", state="zero")
        assert latest(before.run("a")) == (2, 0, "zero")
        assert before.verify().entries == 2
    with md.Ledger.open(file) as again:
        assert latest(again.run("a")) == (2, 0, "zero")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs SET state = 'zero', steps = 0",
        "UPDATE runs SET state = 'zero'",
        "UPDATE runs SET steps = 0",
        "UPDATE runs SET entry = 7",
        "UPDATE runs SET name = 'c'",
        "DELETE FROM runs",
        "INSERT INTO runs VALUES ('b', 1, 0, 'zero')",
    ],
)
def test_a_changed_run_is_noticed(file: str, change: str) -> None:
    with md.Ledger.open(file) as ledger:
        ledger.run("a").charge(PLAN, label="", state="zero")
        ledger.run("a").advance("zero", "one", 1)
    with md.Ledger.open(file) as ledger:
        rewrite(file, change)
        for name in ("a", "b", "c"):
            run = ledger.run(name)
            for ask in (
                run.latest,
                partial(run.charge, PLAN, label="", state="zero"),
                partial(run.advance, "one", "two", 2),
                ledger.verify,
            ):
                with pytest.raises(md.InvalidParameter, match="must be as it was written"):
                    ask()
    with pytest.raises(md.InvalidParameter, match="must be as it was written"):
        md.Ledger.open(file)


@pytest.mark.parametrize("key", [None, b"kept apart from the ledger"])
def test_an_earlier_note_cannot_be_put_back(tmp_path: Path, key: bytes | None) -> None:
    """Rows that were right once, whatever they were sealed with: the run would go on twice."""
    file = str(tmp_path / "office.ledger")
    with md.Ledger.open(file, epsilon=2, delta=1e-6, key=key) as ledger:
        run = ledger.run("a")
        run.charge(PLAN, label="", state="zero")
        run.advance("zero", "one", 1)
        earlier = rows(file, "runs")
        ledger.charge(PLAN)
        run.advance("one", "two", 2)
        before = ledger.verify(ledger.verify().note)
        later = Path(file).read_bytes()
        rewrite(file, "DELETE FROM runs", f"INSERT INTO runs VALUES {earlier[0]!r}")
        with pytest.raises(md.InvalidParameter, match="as it was written"):
            run.advance("one", "two again", 2)
    with pytest.raises(md.InvalidParameter, match="as it was written"):
        md.Ledger.open(file, key=key)
    # The chain of notes itself: changed, cut off, or a note in the middle removed.
    for statements, reason in (
        (["UPDATE notes SET steps = 0 WHERE number = 2"], "note 2 on its runs was changed"),
        (["UPDATE notes SET after = 0 WHERE number = 2"], "note 2 on its runs must be there"),
        (["UPDATE notes SET after = 2 WHERE number = 2"], "note 2 on its runs was changed"),
        (["UPDATE notes SET entry = 2 WHERE number = 2"], "note 2 on its runs was changed"),
        (["DELETE FROM notes WHERE number = 2"], "note 2 on its runs must be there"),
        (["DELETE FROM notes WHERE number = 3"], "3 notes must be there, got 2"),
        (["UPDATE notes SET hash = zeroblob(32) WHERE number = 3"], "note 3 must be the one"),
    ):
        Path(file).write_bytes(later)
        rewrite(file, *statements)
        with (
            pytest.raises(md.InvalidParameter, match=reason),
            md.Ledger.open(file, key=key) as ledger,
        ):
            ledger.verify()
    Path(file).write_bytes(later)
    with md.Ledger.open(file, key=key) as ledger:
        assert ledger.verify(before.note) == before


def test_a_whole_file_put_back_is_noticed_by_the_hash_of_a_note(file: str) -> None:
    """No entry was added since, so that hashes of entries tell nothing."""
    with md.Ledger.open(file) as ledger:
        run = ledger.run("a")
        run.charge(PLAN, label="", state="zero")
        first = ledger.verify()
        older = Path(file).read_bytes()
        run.advance("zero", "one", 1)
        known = ledger.verify(first.note).note
        ledger.close()
        Path(file).write_bytes(older)
        with pytest.raises(md.InvalidParameter, match="2 notes must be there, got 1"):
            run.latest()
    with md.Ledger.open(file) as again:
        assert again.verify(first.hash) == first
        with pytest.raises(md.InvalidParameter, match="older state"):
            again.verify(known)
        again.run("a").advance("zero", "another one", 1)
        with pytest.raises(md.InvalidParameter, match="older state"):
            again.verify(known)


def test_a_note_that_is_not_committed_is_not_remembered(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with md.Ledger.open(file) as ledger:
        run = ledger.run("a")
        run.charge(PLAN, label="", state="zero")

        def full(*given: object) -> None:
            raise OSError("full")

        with monkeypatch.context() as patch:
            patch.setattr(ledger, "_write_head", full)
            with pytest.raises(OSError, match="full"):
                run.advance("zero", "one", 1)
            with pytest.raises(OSError, match="full"):
                ledger.run("b").charge(PLAN, label="", state="zero")
        assert latest(run) == (1, 0, "zero")
        assert ledger.run("b").latest() is None
        run.advance("zero", "one", 1)
        assert ledger.verify().entries == 1


def rows(file: str, table: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(file)
    found = connection.execute(f"SELECT * FROM {table}").fetchall()
    connection.close()
    return found


def rewrite(file: str, *statements: str) -> None:
    """Change the file as somebody would who knows SQLite; the triggers do not stop them."""
    connection = sqlite3.connect(file)
    kept = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    triggers = connection.execute(kept).fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, sql in triggers:
        connection.execute(sql)
    connection.commit()
    connection.close()
