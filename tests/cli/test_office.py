"""The page about an office: its commands are run in their order, on the made-up people."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import mustdp as md
from tests.cli.running import Run
from tests.site.documented import ROOT, assert_same_shape, assert_same_words, examples

PEOPLE = ROOT / "examples" / "people.csv"


def test_every_command_of_the_page(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = PEOPLE.read_text(encoding="utf-8")
    (tmp_path / "people.csv").write_text(table, encoding="utf-8")
    (tmp_path / "raw.csv").write_text(table.partition("\n")[2], encoding="utf-8")
    shown = [*examples(ROOT / "docs" / "office.md")]
    assert len(shown) >= 16
    for command, output, kind in shown:
        outcome = run(*shlex.split(command)[1:])
        if kind == "refused":
            assert outcome.status in (2, 4), command
            assert outcome.out == ""
            assert outcome.err.count("\n") == 1
            assert "abroad" not in outcome.err
            assert_same_shape(outcome.err.replace(str(tmp_path), "/home/you"), output)
        else:
            assert outcome.status == 0, f"{command}: {outcome.err}"
            (assert_same_shape if kind == "noisy" else assert_same_words)(outcome.out, output)
    with md.Ledger.open(tmp_path / "office.ledger") as ledger:
        assert len(ledger.entries()) == 8
        assert ledger.spent() <= 3
    page = (tmp_path / "regions.html").read_text()
    assert "islands" in page
    assert "left in the ledger" in page
    assert "too few records" in (tmp_path / "regions.csv").read_text()
