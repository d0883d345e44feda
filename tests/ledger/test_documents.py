"""The examples in the ledger's document are true."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

import mustdp as md
from tests.cli.running import main

ROOT = Path(__file__).parents[2]


def test_python_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = doctest.testfile(str(ROOT / "docs" / "ledger.md"), module_relative=False)
    assert done.attempted >= 10
    assert done.failed == 0


def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command of the document is run, in its order."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, range(100))) + "\n")
    text = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    \$ mustdp (.*)$", text, flags=re.MULTILINE)
    assert len(commands) >= 4
    for line in commands:
        assert main(shlex.split(line)) == 0, line
    assert "10 of the 12 declared steps are left" in capsys.readouterr().out
    with md.Ledger.open("year.ledger") as ledger:
        assert len(ledger.entries()) == 2
