"""A flipped bit is refused in words, in any kind of file; no changed table is misread."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import mustdp as md
from tests.faults.flipping import flip, kinds, mutate
from tests.faults.killing import ROOT, environment


@pytest.mark.parametrize("name", kinds())
def test_a_flipped_bit_is_refused(name: str, tmp_path: Path) -> None:
    times = 25 if name == "ledger (file)" else 150
    counts = flip(kinds()[name], tmp_path, random.Random(name), times)
    assert sum(counts.values()) == times
    # Bits of a database that hold nothing (free space in its pages) may be any.
    assert set(counts) <= ({"refused", "same"} if name == "ledger (file)" else {"refused"})


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET label = CAST(label AS BLOB) WHERE number = 2",
        "UPDATE entries SET label = CAST(x'ff41' AS TEXT) WHERE number = 2",
        "UPDATE sqlite_master SET sql = CAST(sql AS BLOB) WHERE name = 'entries'",
        "UPDATE sqlite_master SET sql = CAST(sql || x'ff' AS TEXT) WHERE name = 'entries'",
    ],
)
def test_texts_of_a_ledger_that_are_none_are_refused_in_words(change: str, tmp_path: Path) -> None:
    write, read = kinds()["ledger (file)"]
    write(tmp_path / "a.ledger")
    with closing(sqlite3.connect(tmp_path / "a.ledger", isolation_level=None)) as connection:
        asked = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        guards = connection.execute(asked).fetchall() if "entries SET" in change else []
        for name, _ in guards:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(change)
        for _, text in guards:
            connection.execute(text)
    with pytest.raises(md.InvalidParameter, match=r"damaged|no ledger"):
        read(tmp_path / "a.ledger")


def test_a_changed_table_is_refused_or_read_as_it_stands(tmp_path: Path) -> None:
    counts = mutate(tmp_path, random.Random(1), 400)
    assert set(counts) <= {"refused", "right"}
    assert min(counts["refused"], counts["right"]) > 20


def test_an_interrupt_after_the_answer_says_nothing(tmp_path: Path) -> None:
    code = (
        "import atexit, os, signal, sys\n"
        "from mustdp.cli.main import main\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "sys.argv = ['mustdp', *sys.argv[1:]]\n"
        "sys.exit(main())\n"
    )
    for words, status in (("--version", 0), ("account", 2)):
        done = subprocess.run(
            [sys.executable, "-c", code, words], cwd=ROOT, env=environment(tmp_path), text=True,
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == status
        assert "Traceback" not in done.stderr
        assert "KeyboardInterrupt" not in done.stderr


def test_the_smallest_rates_get_an_answer(tmp_path: Path) -> None:
    line = "account --scheme poisson -n 100 --rate 1e-300 --steps 10 --noise-multiplier 1"
    done = subprocess.run(
        [sys.executable, "-m", "mustdp.cli.main", *line.split(), "--delta", "1e-5", "--json"],
        cwd=ROOT, env=environment(tmp_path), text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
