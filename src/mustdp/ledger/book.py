"""The entries of a ledger's file, read and appended within a transaction.

Nothing is believed that is not sealed: the head must have the right seal and name the last entry,
and what this process has seen before must still be there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from mustdp.accounting.plan import Atom, Plan, Repeat, atoms
from mustdp.accounting.plan_descriptions import describe
from mustdp.errors import InvalidParameter, MustdpError
from mustdp.files.plain import canonical
from mustdp.ledger import entry as stored
from mustdp.ledger.chain import Chain, same
from mustdp.ledger.declared import is_record
from mustdp.ledger.entry import Entry, Head, Header
from mustdp.ledger.ledger import Ledger
from mustdp.ledger.notes import append_note, check_latest
from mustdp.ledger.program import Asked, Outcome, check_covered, judge
from mustdp.ledger.store import Store, damaged
from mustdp.ledger.verifying import StoredPlans, checked_entries
from mustdp.limits import LARGEST_LEDGER
from mustdp.numerics import checks
from mustdp.version import __version__

#: Written in the transaction of a charge: takes the head after it and gives the one to be kept.
Beside = Callable[[sqlite3.Connection, Head], Head]


class Book(Ledger):
    """What a ledger in a file has read, and how an entry is added to it."""

    def __init__(self, store: Store, chain: Chain, header: Header, root: bytes, who: str) -> None:
        super().__init__(header.relation)
        self._store, self._chain, self._header, self._root = store, chain, header, root
        self._who = who
        self._seen: tuple[int, bytes] = (0, root)
        self._seen_note: tuple[int, bytes] = (0, root)
        #: Entries whose hashes were checked, and the atoms that they charged.
        self._added: tuple[int, bytes, dict[Atom, int]] = (0, root, {})
        with self._checked_runs() as (_, head):
            self._latest = head

    @property
    def steps(self) -> int:
        """Number of atoms released so far."""
        return self._now().steps

    def _counted(self) -> dict[Atom, int]:
        with self._store.reading() as connection:
            return self._read_counts(connection, self._head(connection))

    def _read_counts(self, connection: sqlite3.Connection, head: Head) -> dict[Atom, int]:
        """The atoms of all entries; no count is stored, so none has to be believed."""
        number, last, before = self._added
        counts = dict(before)
        plans = StoredPlans(connection, self._store.path)
        path, chain = self._store.path, self._chain
        for row in checked_entries(connection, path, chain, plans, (number, last), head):
            for atom, count in plans.atoms(row.plan).items():
                counts[atom] = counts.get(atom, 0) + count * row.times
        self._added = (head.number, head.hash, counts)
        return dict(counts)

    def _asked(self, plan: Plan, times: int) -> Asked:
        count = checks.integer("times", times, 1)
        counted = atoms(Repeat(count, plan))
        text = canonical(describe(plan), "the plan")
        if len(text) > LARGEST_LEDGER:
            raise InvalidParameter(f"a plan must be at most {LARGEST_LEDGER} bytes long, got more")
        check_covered(plan, self._header.relation)
        return Asked(plan, count, text, counted, is_record(plan))

    def _foresee(self, asked: Asked) -> None:
        """Compute what the charge will need, by what was seen last, before others have to wait."""
        with suppress(MustdpError):  # others may have gone on since; the charge itself decides
            judge(self._header, self._latest, asked)

    def _now(self) -> Head:
        with self._store.reading() as connection:
            return self._head(connection)

    def _head(self, connection: sqlite3.Connection) -> Head:
        """Where the ledger stands, if its seal and its last entry are right."""
        where = self._store.path
        rows = connection.execute("SELECT number, hash, sums, seal FROM head").fetchall()
        texts = connection.execute("SELECT text, hash FROM header").fetchall()
        if len(rows) != 1 or len(texts) != 1 or not same(texts[0][1], self._root):
            raise damaged(where, "its header must stay as it was")
        number, last, sums, seal = rows[0]
        head = stored.read_head(number, last, sums)
        if not same(seal, self._chain.seal(self._root, head.fields)):
            raise damaged(where, "the seal of its head must be right")
        ends = connection.execute("SELECT MAX(number) FROM entries").fetchone()[0] or 0
        known, seen = self._seen
        if ends != number or number < known:
            raise damaged(where, f"{max(number, known)} entries must be there, got {ends}")
        if not same(self._hash_at(connection, number), last):
            raise damaged(where, "its last entry must be the one that its head names")
        if not same(self._hash_at(connection, known), seen):
            raise damaged(where, f"entry {known} must be the one that was there before")
        self._check_notes(connection, head)
        self._saw(head)
        return head

    def _check_notes(self, connection: sqlite3.Connection, head: Head) -> None:
        """Check that the last note is the one that the head names, and none seen before is gone."""
        where, (known, seen) = self._store.path, self._seen_note
        ends = connection.execute("SELECT MAX(number) FROM notes").fetchone()[0] or 0
        if ends != head.noted.number or ends < known:
            raise damaged(where, f"{max(head.noted.number, known)} notes must be there, got {ends}")
        for number, link in ((ends, head.noted.hash), (known, seen)):
            if not same(self._hash_at(connection, number, "notes"), link):
                raise damaged(where, f"note {number} must be the one that was written")

    def _saw(self, head: Head) -> None:
        """Remember what is on the disk: less must never be there again."""
        self._seen, self._latest = (head.number, head.hash), head
        self._seen_note = (head.noted.number, head.noted.hash)

    @contextmanager
    def _checked_runs(self, writing: bool = False) -> Iterator[tuple[sqlite3.Connection, Head]]:
        """A transaction in which the latest state of every run was checked, and the head."""
        with self._store.writing() if writing else self._store.reading() as connection:
            head = self._head(connection)
            self._check_runs(connection, head)
            yield connection, head

    def _check_runs(self, connection: sqlite3.Connection, head: Head) -> None:
        """Check the latest state of every run."""
        check_latest(connection, self._store.path, self._chain, self._root, head)

    def _note(
        self, connection: sqlite3.Connection, head: Head, note: tuple[str, int, int, str]
    ) -> Head:
        """Write the latest state of a run, and the head that vouches for it."""
        noted = append_note(connection, self._chain, self._root, head, note)
        return self._write_head(connection, replace(head, noted=noted))

    def _hash_at(
        self, connection: sqlite3.Connection, number: int, table: str = "entries"
    ) -> object:
        if number == 0:
            return self._root
        asked = f"SELECT hash FROM {table} WHERE number = ?"
        row = connection.execute(asked, (number,)).fetchone()
        return None if row is None else row[0]

    def _append(
        self,
        connection: sqlite3.Connection,
        head: Head,
        asked: Asked,
        outcome: Outcome,
        label: str,
    ) -> tuple[Entry, Head]:
        number, when = head.number + 1, stored.now()
        plan = (asked.text, outcome.level, stored.cost_text(outcome.cost))
        connection.execute("INSERT OR IGNORE INTO plans (text, level, cost) VALUES (?, ?, ?)", plan)
        which = "SELECT id FROM plans WHERE text = ? AND level = ? AND cost = ?"
        plan_id = connection.execute(which, plan).fetchone()[0]
        before = (number, when, label, self._who)
        behind = (asked.times, outcome.epsilon, __version__, int(asked.recorded))
        # The hash covers the plan and its cost by their digest.
        link = self._chain.link(head.hash, (*before, stored.plan_digest(*plan), *behind))
        sums = (outcome.used, outcome.steps, outcome.epsilon, outcome.whole)
        after = Head(number, link, *sums, head.recorded or asked.recorded, head.noted)
        row = (*before, plan_id, *behind, link)
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._write_head(connection, after)
        return self._entry((*before, asked.text, *behind, link)), after

    def _write_head(self, connection: sqlite3.Connection, head: Head) -> Head:
        seal = self._chain.seal(self._root, head.fields)
        connection.execute(
            "UPDATE head SET number = ?, hash = ?, sums = ?, seal = ?",
            (head.number, head.hash, head.text, seal),
        )
        return head

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        return stored.read_entry(row, self._header.relation, self._store.path)
