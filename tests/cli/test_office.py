"""The page about an office: its commands are run in their order, on the made-up people."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import mustdp as md
from tests.cli.running import Run

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "office.md").read_text(encoding="utf-8")
PEOPLE = ROOT / "examples" / "people.csv"


def test_every_command_of_the_tutorial(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = PEOPLE.read_text(encoding="utf-8")
    (tmp_path / "people.csv").write_text(table, encoding="utf-8")
    (tmp_path / "raw.csv").write_text(table.partition("\n")[2], encoding="utf-8")
    commands = re.findall(r"^    (refused )?\$ mustdp (.*)$", TUTORIAL, flags=re.MULTILINE)
    assert len(commands) >= 12
    for refused, line in commands:
        outcome = run(*shlex.split(line))
        if refused:
            assert outcome.status in (2, 4), line
            assert outcome.out == ""
            assert outcome.err.count("\n") == 1
            assert "abroad" not in outcome.err
        else:
            assert outcome.status == 0, f"{line}: {outcome.err}"
    with md.Ledger.open(tmp_path / "office.ledger") as ledger:
        assert len(ledger.entries()) == 8
        assert ledger.spent() <= 3
    page = (tmp_path / "regions.html").read_text()
    assert "islands" in page
    assert "left in the ledger" in page
    assert "too few records" in (tmp_path / "regions.csv").read_text()
