"""One ledger under several names: SQLite's journals go by the name, so there must be one."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

import mustdp as md
from tests.files.processes import child, ended

PLAN = md.laplace(shift=0.25)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "office.ledger"
    with md.Ledger.open(path, epsilon=4, delta=1e-6) as ledger:
        ledger.charge(PLAN)
    return path


def killed_within_a_charge(path: Path) -> None:
    """A process dies with its pages in the file and the journal beside it."""

    def work() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=TRUNCATE")
        connection.execute("PRAGMA cache_size=1")
        connection.execute("PRAGMA cache_spill=1")
        connection.execute("BEGIN IMMEDIATE")
        for number in range(2, 400):
            row = f"{number}, 'x', 'x', '{'x' * 500}', 1, 1, 1.0, 'x', 0, zeroblob(32)"
            connection.execute(f"INSERT INTO entries VALUES ({row})")
        os.kill(os.getpid(), signal.SIGKILL)

    before = path.stat().st_size
    assert ended(child(work)) == -signal.SIGKILL
    assert path.stat().st_size > before
    assert path.with_name(f"{path.name}-journal").stat().st_size > 0


def test_a_charge_through_another_name_is_refused_not_rolled_back(path: Path) -> None:
    other = path.with_name("other.ledger")
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(md.InvalidParameter, match="must have one name, got 2 hard links"):
            md.Ledger.open(name)
    other.unlink()
    killed_within_a_charge(path)
    os.link(path, other)
    for name in (other, path):
        with pytest.raises(md.InvalidParameter, match="must have one name"):
            md.Ledger.open(name, epsilon=4, delta=1e-6)
    other.unlink()
    with md.Ledger.open(path) as ledger:
        assert ledger.verify().entries == 1
        assert ledger.charge(PLAN).number == 2


def test_a_name_that_is_added_while_the_ledger_is_open(path: Path) -> None:
    other = path.with_name("other.ledger")
    with md.Ledger.open(path) as ledger:
        ledger.run("a").charge(PLAN, label="", state="zero")
        os.link(path, other)
        before = path.read_bytes()
        for ask in (
            lambda: ledger.charge(PLAN),
            lambda: ledger.run("a").advance("zero", "one", 1),
            lambda: ledger.run("b").charge(PLAN, label="", state="zero"),
            ledger.spent,
            ledger.verify,
        ):
            with pytest.raises(md.InvalidParameter, match="must have one name"):
                ask()
        assert path.read_bytes() == before
        other.unlink()
        assert ledger.charge(PLAN).number == 3


def test_folders_behind_links_lead_to_one_name(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "linked"
    folder.symlink_to(tmp_path, target_is_directory=True)
    with md.Ledger.open(folder / "office.ledger") as one, md.Ledger.open(path) as other:
        assert one.path == other.path == str(path.resolve())
        one.charge(PLAN)
        folder.unlink()  # leads nowhere from now on, or elsewhere
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
        assert one.charge(PLAN).number == 3
        assert other.charge(PLAN).number == 4
    link = tmp_path / "link.ledger"
    link.symlink_to(path)
    with pytest.raises(md.InvalidParameter, match="links are not followed"):
        md.Ledger.open(link)


def test_a_ledger_that_is_dropped_unclosed_lets_go_of_its_file(path: Path) -> None:
    def numbers() -> int:
        return sum(
            os.readlink(f"/proc/self/fd/{one}") == str(path)
            for one in os.listdir("/proc/self/fd")
            if os.path.lexists(f"/proc/self/fd/{one}")
        )

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    ledger: md.types.LedgerFile | None = md.Ledger.open(path)
    assert ledger is not None
    assert ledger.spent() > 0
    assert numbers() == 1
    del ledger
    assert numbers() == 0


def test_a_copy_of_the_file_is_another_ledger_with_one_name(path: Path) -> None:
    copied = Path(shutil.copy(path, path.with_name("copy")))
    with md.Ledger.open(copied) as ledger:
        assert ledger.charge(PLAN).number == 2
