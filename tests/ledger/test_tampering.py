"""What is changed, removed or cut off is noticed; what is no ledger is not taken for one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mustdp as md

KEY = b"sixteen bytes or more"
PLANS = (md.laplace(shift=0.1), md.laplace(shift=0.2), md.laplace(shift=0.1))


def made(path: Path, **given: Any) -> Path:
    with md.Ledger.open(path, epsilon=4, delta=1e-6, data="census", **given) as ledger:
        for number, plan in enumerate(PLANS):
            ledger.charge(plan, label=f"number {number}")
    return path


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("ledger") / "pattern")


@pytest.fixture
def path(pattern: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(pattern, tmp_path / "office.ledger"))


def change(path: Path, *statements: str) -> None:
    """Change the file as somebody would who knows SQLite; the triggers do not stop them."""
    connection = sqlite3.connect(path)
    kept = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    triggers = kept.fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, sql in triggers:
        connection.execute(sql)
    connection.commit()
    connection.close()


def read_all(path: Path) -> md.types.LedgerFile:
    with md.Ledger.open(path) as ledger:
        ledger.verify()
    return ledger


def test_the_pattern_is_right(path: Path) -> None:
    assert read_all(path).verify().entries == 3
    with md.Ledger.open(path) as ledger:
        ledger.charge(PLANS[0])
    assert read_all(path).verify().entries == 4


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries WHERE number = 2",
        "UPDATE entries SET label = 'another' WHERE number = 1",
        "UPDATE entries SET who = '' WHERE number = 2",
        "UPDATE entries SET at = '2020-01-01T00:00:00+00:00' WHERE number = 2",
        "UPDATE entries SET times = 0 WHERE number = 1",
        "UPDATE entries SET times = 2 WHERE number = 1",
        "UPDATE entries SET plan = 1 WHERE number = 2",
        "UPDATE entries SET epsilon = 0.01 WHERE number = 1",
        "UPDATE entries SET package = '9' WHERE number = 1",
        "UPDATE entries SET hash = zeroblob(32) WHERE number = 1",
        "UPDATE plans SET text = replace(text, '0.1', '0.01')",
        "UPDATE plans SET cost = (SELECT cost FROM plans WHERE id = 1)",
        "DELETE FROM plans WHERE id = 1",
        "UPDATE entries SET recorded = 1 WHERE number = 1",
    ],
)
def test_changes_in_the_middle_are_noticed_by_verifying(path: Path, statement: str) -> None:
    change(path, statement)
    with pytest.raises(md.InvalidParameter, match="damaged"):
        read_all(path)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries WHERE number = 3",
        "DELETE FROM entries",
        "UPDATE entries SET number = 4 WHERE number = 3",
        "UPDATE entries SET hash = zeroblob(32) WHERE number = 3",
        "UPDATE head SET number = 2",
        "UPDATE head SET hash = (SELECT hash FROM entries WHERE number = 2)",
        "UPDATE head SET sums = replace(sums, '\"steps\":3', '\"steps\":2')",
        "UPDATE head SET sums = '{}'",
        "UPDATE head SET sums = 'x'",
        "UPDATE head SET seal = zeroblob(32)",
        "DELETE FROM head",
        "UPDATE header SET text = replace(text, '4.0', '8.0')",
        "UPDATE header SET text = replace(text, 'census', 'taxes')",
        "UPDATE header SET hash = zeroblob(32)",
        "UPDATE header SET text = 'x'",
        "DELETE FROM header",
        "CREATE TABLE more (x)",
        "DROP TABLE runs",
        "INSERT INTO runs VALUES ('a', 1, 0, 'zero')",
        "INSERT INTO notes VALUES (1, 'a', 1, 0, 'zero', 1, zeroblob(32))",
        "PRAGMA application_id = 1",
    ],
)
def test_changes_at_the_ends_are_noticed_at_once(path: Path, statement: str) -> None:
    change(path, statement)
    with pytest.raises(md.InvalidParameter, match=r"damaged|no ledger|must be"):
        md.Ledger.open(path)


def test_the_tail_cannot_be_taken_off_with_its_sums(path: Path) -> None:
    """The head names the last entry and the sums; without the key its seal cannot be made."""
    keyed = made(path.with_name("keyed"), key=KEY)
    change(
        keyed,
        "DELETE FROM entries WHERE number = 3",
        "UPDATE head SET number = 2, hash = (SELECT hash FROM entries WHERE number = 2)",
    )
    with pytest.raises(md.InvalidParameter, match="seal"):
        md.Ledger.open(keyed, key=KEY)


def test_keys(path: Path) -> None:
    keyed = made(path.with_name("keyed"), key=KEY)
    with md.Ledger.open(keyed, key=KEY) as ledger:
        assert ledger.verify().entries == 3
    with pytest.raises(md.InvalidParameter, match="key must be the key that it was made with"):
        md.Ledger.open(keyed)
    with pytest.raises(md.InvalidParameter, match="the key is another one"):
        md.Ledger.open(keyed, key=b"another key of enough bytes")
    with pytest.raises(md.InvalidParameter, match="made without"):
        md.Ledger.open(path, key=KEY)


def test_sqlite_itself_does_not_change_entries(path: Path) -> None:
    connection = sqlite3.connect(path)
    for statement in ("DELETE FROM entries", "UPDATE entries SET label = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="stay"):
            connection.execute(statement)
    connection.close()


def test_an_older_state_is_noticed_by_whoever_remembers(path: Path) -> None:
    older = path.read_bytes()
    with md.Ledger.open(path) as ledger:
        known = ledger.charge(PLANS[0]).hash
        ledger.close()
        path.write_bytes(older)
        with pytest.raises(md.InvalidParameter, match="4 entries must be there, got 3"):
            ledger.spent()
    with md.Ledger.open(path) as again:  # nothing in the file itself tells
        assert again.verify().entries == 3
        with pytest.raises(md.InvalidParameter, match="older state"):
            again.verify(known)
        assert again.verify(again.entries()[0].hash).entries == 3


def test_a_file_replaced_while_in_use_is_noticed(path: Path) -> None:
    with md.Ledger.open(path) as ledger:
        ledger.spent()
        other = made(path.with_name("other"))
        other.replace(path)
        with pytest.raises(md.InvalidParameter, match="was replaced by another file"):
            ledger.charge(PLANS[0])


def sqlite_of_something_else(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE entries (number)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_bytes(b""), "no ledger|damaged"),
        (
            lambda path: path.write_bytes(b"no database, but long enough to be one" * 99),
            "no ledger",
        ),
        (lambda path: path.write_text(md.Ledger().to_json()), "no ledger"),
        (sqlite_of_something_else, "a database of something else"),
        (lambda path: path.mkdir(), "a folder"),
        (lambda path: path.symlink_to(path.with_name("target")), "links are not followed"),
    ],
)
def test_foreign_files_are_refused_and_left(
    tmp_path: Path, make: Callable[[Path], object], reason: str
) -> None:
    path = tmp_path / "foreign"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    for given in ({}, {"epsilon": 1.0, "delta": 1e-6}):
        with pytest.raises(md.InvalidParameter, match=reason):
            md.Ledger.open(path, **given)  # type: ignore[arg-type]
    assert before is None or path.read_bytes() == before
    assert not (tmp_path / "target").exists()


def test_hostile_plans_in_a_file_are_refused_not_recursed_into(path: Path) -> None:
    deep = '{"repeat":1,"inner":' * 5000 + '{"mechanism":"laplace","shift":1}' + "}" * 5000
    fake = Path(shutil.copy(path, path.with_name("fake")))
    change(fake, f"UPDATE plans SET text = '{deep}' WHERE id = 1")
    with md.Ledger.open(fake) as ledger, pytest.raises(md.InvalidParameter, match="damaged"):
        ledger.standing()
    plan: md.types.Plan = md.laplace(shift=0.1)
    for _ in range(60):
        plan = md.repeat(1, md.sequence(plan))
    with (
        md.Ledger.open(path) as ledger,
        pytest.raises(md.InvalidParameter, match="the plan must be nested at most"),
    ):
        ledger.charge(plan)


def test_an_entry_of_another_ledger_does_not_fit_in(tmp_path: Path) -> None:
    """Made with the same key and the same plan, at the same place: only the chain tells."""
    one, other = (made(tmp_path / name, key=KEY) for name in ("one", "other"))
    for number in (1, 2):
        change(
            one,
            f"ATTACH '{other}' AS other",
            f"DELETE FROM main.entries WHERE number = {number}",
            f"INSERT INTO main.entries SELECT * FROM other.entries WHERE number = {number}",
        )
        with (
            md.Ledger.open(one, key=KEY) as ledger,
            pytest.raises(md.InvalidParameter, match="entry 1 was changed"),
        ):
            ledger.verify()
