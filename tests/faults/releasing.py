"""``mustdp release --ledger`` ended at some moment: what was shown or written, what was charged.

What anybody can see must have been charged before; a charge without anything to see is no harm.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import mustdp as md
from tests.faults.killing import PATIENCE, ROOT

#: Stands in every record, so that a copy of any of them is found.
MARK = "0.123456789"


class Office(NamedTuple):
    """A folder with records and a ledger."""

    folder: Path

    @property
    def ledger(self) -> Path:
        return self.folder / "office.ledger"

    @property
    def table(self) -> Path:
        """Where the estimates are written."""
        return self.folder / "estimates.csv"

    @classmethod
    def made(cls, folder: Path, records: int = 200) -> Office:
        office = cls(folder)
        lines = (f"{k % 90}{MARK[1:]}" for k in range(records))
        (folder / "people.csv").write_text("age\n" + "\n".join(lines) + "\n", encoding="ascii")
        md.Ledger.open(office.ledger, epsilon=50, delta=1e-6).close()
        return office

    @property
    def words(self) -> list[str]:
        """The command, without the program."""
        line = "--column age --lower 0 --upper 100 --statistic mean --noise-multiplier 40 --json"
        return ["release", str(self.folder / "people.csv"), *line.split(), "--delta", "1e-6",
                "--ledger", str(self.ledger), "--csv", str(self.table)]  # fmt: skip

    def charged(self) -> int:
        """How many charges there are, after checking every one of them."""
        with md.Ledger.open(self.ledger) as ledger:
            ledger.verify()
            return len(ledger.entries())

    def problems(self, shown: str, before: int) -> list[str]:
        """What is wrong after a release, of which ``shown`` reached standard output."""
        made = self.charged() - before
        found = []
        if made not in (0, 1):
            found.append(f"{made} charges")
        if (shown or self.table.exists()) and not made:
            found.append("released and not charged")
        if shown and not json.loads(shown):
            found.append("half an answer")
        others = (path for path in self.folder.iterdir() if path.name != "people.csv")
        found += [f"records in {path.name}" for path in others if MARK[1:] in _text(path)]
        self.table.unlink(missing_ok=True)
        return found


def ended(number: signal.Signals, office: Office, after: float) -> list[str]:
    """End the command ``after`` seconds of its start; what went wrong."""
    before = office.charged()
    path = os.pathsep.join([str(ROOT / "src"), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-m", "mustdp.cli.main", *office.words], cwd=office.folder, text=True,
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        time.sleep(after)
        process.send_signal(number)
        shown, errors = process.communicate(timeout=PATIENCE)
    found = office.problems(shown, before)
    if process.returncode not in (0, -number) or "Traceback" in errors:
        found.append(f"status {process.returncode}, {errors!r}")
    return found


def _text(path: Path) -> str:
    return path.read_bytes().decode("latin-1")
