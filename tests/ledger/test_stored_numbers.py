"""No number that a file stores is believed without its hash, whoever asks for it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from mustdp.ledger.records import Chain, plan_digest, read_head

STEP = md.gaussian(noise_multiplier=20.0)
KEY = b"sixteen bytes or more"


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ledger") / "pattern"
    with md.Ledger.open(path, epsilon=4, delta=1e-6, data="census", key=KEY) as ledger:
        ledger.charge(STEP, times=9, label="one")
    return path


@pytest.fixture
def path(pattern: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(pattern, tmp_path / "office.ledger"))


def tables(path: Path) -> dict[str, list[str]]:
    connection = sqlite3.connect(path)
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    found = {
        name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
        for (name,) in names
    }
    connection.close()
    return found


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    triggers = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    ).fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statement)
    for _, sql in triggers:
        connection.execute(sql)
    connection.commit()
    connection.close()


def merged(ledger: md.types.LedgerFile) -> object:
    with md.Ledger.open(f"{ledger.path}-2", epsilon=9, delta=1e-6, data="census") as other:
        other.merge(ledger)
        return other.spent(), other.steps


ANSWERS: dict[str, Callable[[md.types.LedgerFile], object]] = {
    "epsilon": lambda ledger: ledger.epsilon(1e-6),
    "delta": lambda ledger: ledger.delta(0.5),
    "account": lambda ledger: ledger.account().epsilon(1e-6),
    "plan": lambda ledger: ledger.plan,
    "steps": lambda ledger: ledger.steps,
    "standing": lambda ledger: ledger.standing(),
    "to_json": lambda ledger: ledger.to_json(),
    "entries": lambda ledger: ledger.entries(),
    "spent": lambda ledger: (ledger.spent(), ledger.left()),
    "check": lambda ledger: ledger.check(STEP),
    "export": lambda ledger: json.loads(ledger.export_json())["entries"],
    "csv": lambda ledger: ledger.export_csv(),
    "shown": str,
    "merge": merged,
}


def answers(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with md.Ledger.open(path, key=KEY) as ledger:
        for name, ask in ANSWERS.items():
            try:
                found[name] = ask(ledger)
            except md.InvalidParameter as problem:
                if "damaged" not in str(problem):
                    raise
    return found


STATEMENTS = [
    "UPDATE entries SET times = 1",
    "UPDATE entries SET epsilon = 0.01",
    "UPDATE entries SET label = 'another'",
    "UPDATE entries SET recorded = 1",
    "UPDATE plans SET text = replace(text, '20.0', '90.0')",
    "UPDATE plans SET level = level + 1",
    "UPDATE plans SET cost = replace(cost, '1', '0')",
    "UPDATE plans SET id = 7",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_changed_number_changes_no_answer(pattern: Path, path: Path, statement: str) -> None:
    right = answers(path)
    assert set(right) == set(ANSWERS)
    Path(f"{path}-2").unlink()
    change(path, statement)
    for name, found in answers(path).items():
        assert found == right[name], name


def test_every_column_is_one_that_is_checked(path: Path) -> None:
    """A table or column that is added needs a line above, or one in the tests of notes and ends."""
    assert tables(path) == {
        "header": ["one", "text", "hash"],
        "head": ["one", "number", "hash", "sums", "seal"],
        "plans": ["id", "text", "level", "cost"],
        "entries": [
            *("number", "at", "label", "who", "plan", "times", "epsilon", "package"),
            *("recorded", "hash"),
        ],
        "runs": ["name", "entry", "steps", "state"],
        "notes": ["number", "name", "entry", "steps", "state", "after", "hash"],
    }


def test_counts_go_on_from_what_was_checked(path: Path) -> None:
    with md.Ledger.open(path, key=KEY) as one, md.Ledger.open(path, key=KEY) as other:
        assert one.plan == md.sequence(md.repeat(9, STEP))
        other.charge(STEP)
        other.charge(md.laplace(shift=0.01), times=2)
        assert one.plan == md.sequence(md.repeat(10, STEP), md.repeat(2, md.laplace(shift=0.01)))
        assert one.steps == other.steps == one.standing().steps == 12
        assert [entry.number for entry in one.entries(since=1)] == [2, 3]
        assert one.entries(since=3) == one.entries(since=9) == ()
        change(path, "UPDATE entries SET times = 1 WHERE number = 3")
        with pytest.raises(md.InvalidParameter, match="entry 3 was changed"):
            one.entries(since=2)


def test_sums_that_are_sealed_but_wrong_are_noticed_by_verifying(tmp_path: Path) -> None:
    """Without a key anybody can seal a head again: verify adds everything up."""
    path = tmp_path / "office.ledger"
    with md.Ledger.open(path, epsilon=4, delta=1e-6) as ledger:
        ledger.charge(STEP, times=9)
        ledger.charge(STEP)
        with ledger._store.reading() as connection:
            head = ledger._head(connection)
        for wrong in (
            {"steps": 9},
            {"whole": True},
            {"recorded": True},
            {"epsilon": 0.5 * head.epsilon},
            {"cost": head.cost.times(2)},
            {"noted": replace(head.noted, runs="0" * 64)},
        ):
            with ledger._store.writing() as connection:
                ledger._write_head(connection, replace(head, **wrong))
            with pytest.raises(md.InvalidParameter, match="damaged"):
                ledger.verify()
        with ledger._store.writing() as connection:
            ledger._write_head(connection, head)
        assert ledger.verify().entries == 2


def test_a_file_of_the_first_version_is_refused_by_its_version(path: Path) -> None:
    change(path, "DROP TABLE runs")
    change(path, "CREATE TABLE atoms (text TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID")
    with pytest.raises(md.InvalidParameter, match="of version 2, got version 1"):
        md.Ledger.open(path, key=KEY)


def test_costs_that_fall_are_noticed_even_with_the_right_hashes(tmp_path: Path) -> None:
    """Without a key anybody can compute all hashes anew; what everything cost never falls."""
    path = tmp_path / "office.ledger"
    with md.Ledger.open(path, epsilon=4, delta=1e-6) as ledger:
        ledger.charge(STEP)
        ledger.charge(STEP)
    connection = sqlite3.connect(path)
    (root,) = connection.execute("SELECT hash FROM header").fetchone()
    plans = {
        which: plan_digest(*found)
        for which, *found in connection.execute("SELECT id, text, level, cost FROM plans")
    }
    rows = connection.execute("SELECT * FROM entries ORDER BY number").fetchall()
    connection.close()
    before, links = root, []
    for number, row in enumerate(rows, 1):
        fields = [*row[:4], plans[row[4]], *row[5:-1]]
        if number == 1:
            fields[6] = 3.5
        before = Chain(None).link(before, tuple(fields))
        links.append(before.hex())
    change(path, f"UPDATE entries SET epsilon = 3.5, hash = x'{links[0]}' WHERE number = 1")
    change(path, f"UPDATE entries SET hash = x'{links[1]}' WHERE number = 2")
    connection = sqlite3.connect(path)
    number, last, sums = connection.execute("SELECT number, hash, sums FROM head").fetchone()
    connection.close()
    head = replace(read_head(number, last, sums), hash=before)
    seal = Chain(None).seal(root, head.fields).hex()
    change(path, f"UPDATE head SET hash = x'{before.hex()}', seal = x'{seal}'")
    with (
        md.Ledger.open(path) as ledger,
        pytest.raises(md.InvalidParameter, match="entry 2 must not cost less"),
    ):
        ledger.verify()


def test_a_key_changes_the_chain() -> None:
    assert Chain(b"a key of bytes enough").header("x") != Chain(None).header("x")
