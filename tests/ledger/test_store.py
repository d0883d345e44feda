"""What the connection that charges promises: on the disk when it returns, or not there at all."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from mustdp.ledger import records
from mustdp.ledger.records import Head
from tests.files.processes import child, ended

PLAN = md.laplace(shift=0.1)
#: What SQLite answers to a question about each of its settings.
PROMISED = {
    "synchronous": 2,  # FULL: journal and database are flushed, each before the next step
    "journal_mode": "truncate",
    "locking_mode": "normal",
    "trusted_schema": 0,
    "cell_size_check": 1,
    "ignore_check_constraints": 0,
}


def settings(connection: sqlite3.Connection) -> dict[str, Any]:
    return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in PROMISED}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "office.ledger"
    md.Ledger.open(path, epsilon=4, delta=1e-6).close()
    return path


def seen_by_a_charge(ledger: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def look(connection: sqlite3.Connection, head: Head) -> Head:
        found.append(settings(connection))
        return head

    ledger.charge(PLAN, beside=look)
    return found


def test_every_charge_is_flushed_to_the_disk(path: Path) -> None:
    with md.Ledger.open(path) as ledger:
        assert seen_by_a_charge(ledger) == [PROMISED]
        ledger.close()  # and opened again by the next charge
        assert seen_by_a_charge(ledger) == [PROMISED]

        def work() -> None:
            if seen_by_a_charge(ledger) != [PROMISED]:
                raise AssertionError("a forked child has other settings")

        assert ended(child(work)) == 0
        assert ledger.verify().entries == 3


def test_nothing_lowers_them_later(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement of charges and notes, as SQLite was given them."""
    said: list[str] = []
    connect = records.connect

    def traced(where: Path) -> sqlite3.Connection:
        connection = connect(where)
        connection.set_trace_callback(said.append)
        return connection

    monkeypatch.setattr(records, "connect", traced)
    with md.Ledger.open(path) as ledger:
        del said[:]
        ledger.run("a").charge(PLAN, label="", state="zero")
        ledger.run("a").advance("zero", "one", 1)
        ledger.charge(PLAN)
        assert ledger._store._connection is not None
        assert settings(ledger._store._connection) == PROMISED
    pragmas = {one.split("=")[0] for one in said if one.upper().startswith("PRAGMA")}
    assert pragmas <= {
        *("PRAGMA busy_timeout", "PRAGMA page_count", "PRAGMA page_size"),
        *(f"PRAGMA {name}" for name in PROMISED),
    }
    kinds = [one for one in said if one in ("BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")]
    writing = [one for one in said if one.split()[0] in ("INSERT", "UPDATE")]
    assert len(writing) >= 8
    # All that is written stands between the beginning of one writing transaction and its end.
    within = False
    for one in said:
        if one in kinds:
            within = one == "BEGIN IMMEDIATE"
        elif one in writing:
            assert within, one
    assert kinds.count("BEGIN IMMEDIATE") == 3


def test_a_charge_returns_after_its_commit(path: Path) -> None:
    """What another connection sees when charge has returned, and when it has not."""
    other = sqlite3.connect(path)

    def count() -> int:
        return int(other.execute("SELECT COUNT(*) FROM entries").fetchone()[0])

    with md.Ledger.open(path) as ledger:

        def look(connection: sqlite3.Connection, head: Head) -> Head:
            assert connection.execute("SELECT COUNT(*) FROM entries").fetchone()[0] == head.number
            assert count() == head.number - 1
            return head

        for number in (1, 2):
            assert ledger.charge(PLAN, beside=look).number == number
            assert count() == number
    other.close()


def test_two_do_not_charge_from_the_same_head(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one reads, adds and writes, the other must wait, or both would take the last of it."""
    monkeypatch.setattr(records, "_PATIENCE", 0.05)
    with (
        md.Ledger.open(path) as one,
        md.Ledger.open(path) as other,
        one._store.writing(),
        pytest.raises(TimeoutError, match="others were charging"),
    ):
        other.charge(PLAN)
