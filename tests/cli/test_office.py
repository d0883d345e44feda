"""The tutorial of the office: every command of it is run, in its order, on made-up people."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import mustdp as md
from tests.cli.running import Run

TUTORIAL = (Path(__file__).parents[2] / "docs" / "office.md").read_text(encoding="utf-8")


def people(path: Path) -> None:
    """5000 records without a line of names; incomes are missing here and there."""
    rng = np.random.default_rng(12)
    lines = []
    for _ in range(5000):
        region = rng.choice(
            ["north", "south", "east", "west", "abroad"], p=[0.4, 0.3, 0.2, 0.09, 0.01]
        )
        age, hours = (
            int(rng.integers(18, 90)),
            40 if rng.random() < 0.5 else int(rng.integers(0, 80)),
        )
        income = "" if rng.random() < 0.06 else f"{rng.lognormal(10.3, 0.7):.0f}"
        born = f"{2020 - age}-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}"
        employed = rng.choice(["yes", "no"], p=[0.7, 0.3])
        household = int(rng.integers(1700))
        lines.append(f"{region},{born},{age},{hours},{income},{employed},{household}")
    path.write_text("\n".join(lines) + "\n")


def test_every_command_of_the_tutorial(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people(tmp_path / "people.csv")
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
