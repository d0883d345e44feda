"""Runs in a ledger: each is charged once, and none goes back behind what it has shown.

A run that is interrupted goes on from a saved state: with the same batches, and with noise of its
own. Whoever goes on from an older state, or from two copies of one, releases more about the same
batches than was charged, and charging the plan once more would not cover that, since the batches
are no new draw. So beside the one charge of a run its ledger keeps which saved state is the latest,
and a state is accepted only if it follows that one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mustdp.accounting.plan import Plan
from mustdp.errors import InvalidParameter
from mustdp.ledger.chain import Chain, same
from mustdp.ledger.entry import Entry, words
from mustdp.ledger.store import RUNS, Store, damaged

#: Written in the transaction of a charge, whose entry has this number.
Beside = Callable[[sqlite3.Connection, int], None]


@dataclass(frozen=True)
class Latest:
    """The entry that charged a run, and the state it was saved in last, after so many steps."""

    entry: int
    steps: int
    state: str


@dataclass(frozen=True)
class ChargedRun:
    """One run by its name, which is drawn at random when the run begins."""

    name: str
    store: Store
    seal: Callable[[Sequence[object]], bytes]
    #: Charges a plan and writes something beside it; done once both have reached the disk.
    pay: Callable[..., Entry]

    def latest(self) -> Latest | None:
        """Where the run stands; None if it was never charged."""
        with self.store.reading() as connection:
            return self._latest(connection)

    def charge(self, plan: Plan, *, label: str, state: str) -> None:
        """Charge the whole plan and begin at ``state``; refused if the run was charged before."""
        words("state", state, empty=False)

        def begin(connection: sqlite3.Connection, entry: int) -> None:
            if self._latest(connection) is not None:
                raise InvalidParameter(
                    f"run {self.name} must be charged once, and another process has charged it"
                )
            if not _there(connection):
                connection.execute(RUNS)
            row = (self.name, entry, 0, state)
            connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", (*row, self._seal(row)))

        self.pay(plan, label=label, beside=begin)

    def advance(self, after: str, state: str, steps: int) -> None:
        """Note a state that was saved; refused unless the one before it is the latest."""
        with self.store.writing() as connection:
            known = self._latest(connection)
            if known is None or known.state != after or steps < known.steps:
                raise gone_back(self.name, None if known is None else known.steps)
            row = (self.name, known.entry, steps, words("state", state, empty=False))
            connection.execute(
                "UPDATE runs SET steps = ?, state = ?, seal = ? WHERE name = ?",
                (steps, state, self._seal(row), self.name),
            )

    def _latest(self, connection: sqlite3.Connection) -> Latest | None:
        if not _there(connection):
            return None
        asked = "SELECT entry, steps, state, seal FROM runs WHERE name = ?"
        found = connection.execute(asked, (self.name,)).fetchone()
        if found is None:
            return None
        *fields, seal = found
        if not same(seal, self._seal((self.name, *fields))):
            raise damaged(self.store.path, f"run {self.name} must be as it was written")
        return Latest(*fields)

    def _seal(self, row: Sequence[object]) -> bytes:
        return self.seal(("run", *row))


def gone_back(name: str, steps: int | None) -> InvalidParameter:
    """The refusal of a state that is not the latest of its run, or follows another one."""
    known = "does not know the run" if steps is None else f"knows a later one, of {steps} steps"
    return InvalidParameter(
        f"run {name} must go on from the state that it was saved in last, and its ledger {known}: "
        "an older checkpoint, or a second copy of one, would repeat batches that were charged once "
        "with new noise. Start a new run, which draws batches of its own and is charged for them"
    )


def check_runs(connection: sqlite3.Connection, path: Path, chain: Chain, root: bytes) -> None:
    """Check the seal of every run, and that the entry which charged it is there."""
    if not _there(connection):
        return
    asked = (
        "SELECT name, entry, steps, state, seal, number FROM runs "
        "LEFT JOIN entries ON number = entry"
    )
    for *row, seal, number in connection.execute(asked):
        if number is None or not same(seal, chain.seal(root, ("run", *row))):
            raise damaged(path, f"run {row[0]} must be as it was written")


def _there(connection: sqlite3.Connection) -> bool:
    asked = "SELECT COUNT(*) FROM sqlite_master WHERE name = 'runs'"
    return bool(connection.execute(asked).fetchone()[0])
