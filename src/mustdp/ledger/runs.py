"""Runs in a ledger: each is charged once, and none goes back behind what it has shown.

A run that is interrupted goes on from a saved state: with the same batches, and with noise of its
own. Whoever goes on from an older state, or from two copies of one, releases more about the same
batches than was charged, and charging the plan once more would not cover that, since the batches
are no new draw. So beside the one charge of a run its ledger keeps which saved state is the latest,
and a state is accepted only if it follows that one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from mustdp.accounting.plan import Plan
from mustdp.errors import InvalidParameter
from mustdp.ledger.book import Book
from mustdp.ledger.entry import Entry, Head, words


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
    book: Book
    #: Charges a plan and writes something beside it; done once both have reached the disk.
    pay: Callable[..., Entry]

    def latest(self) -> Latest | None:
        """Where the run stands; None if it was never charged."""
        with self.book._checked_runs() as (connection, _):
            return self._latest(connection)

    def charge(self, plan: Plan, *, label: str, state: str) -> None:
        """Charge the whole plan and begin at ``state``; refused if the run was charged before."""
        words("state", state, empty=False)

        def begin(connection: sqlite3.Connection, after: Head) -> Head:
            self.book._check_runs(connection, after)
            if self._latest(connection) is not None:
                raise InvalidParameter(
                    f"run {self.name} must be charged once, and another process has charged it"
                )
            return self.book._note(connection, after, (self.name, after.number, 0, state))

        self.pay(plan, label=label, beside=begin)

    def advance(self, after: str, state: str, steps: int) -> None:
        """Note a state that was saved; refused unless the one before it is the latest."""
        with self.book._checked_runs(writing=True) as (connection, head):
            known = self._latest(connection)
            if known is None or known.state != after or steps < known.steps:
                raise gone_back(self.name, None if known is None else known.steps)
            note = (self.name, known.entry, steps, words("state", state, empty=False))
            noted = self.book._note(connection, head, note)
        self.book._saw(noted)

    def _latest(self, connection: sqlite3.Connection) -> Latest | None:
        asked = "SELECT entry, steps, state FROM runs WHERE name = ?"
        found = connection.execute(asked, (self.name,)).fetchone()
        return None if found is None else Latest(*found)


def gone_back(name: str, steps: int | None) -> InvalidParameter:
    """The refusal of a state that is not the latest of its run, or follows another one."""
    known = "does not know the run" if steps is None else f"knows a later one, of {steps} steps"
    return InvalidParameter(
        f"run {name} must go on from the state that it was saved in last, and its ledger {known}: "
        "an older checkpoint, or a second copy of one, would repeat batches that were charged once "
        "with new noise. Start a new run, which draws batches of its own and is charged for them"
    )
