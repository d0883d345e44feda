"""The entries of a ledger's file, read and appended within a transaction.

Nothing is believed that is not sealed: the head must have the right seal and name the last entry,
and what this process has seen before must still be there.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any

from mustdp.accounting.plan import Atom, Plan, Repeat, atoms
from mustdp.accounting.plan_descriptions import describe, plan_from_description
from mustdp.errors import InvalidParameter, MustdpError
from mustdp.files.plain import canonical, read_json
from mustdp.ledger import entry as stored
from mustdp.ledger.chain import Chain, same
from mustdp.ledger.entry import Entry, Head, Header
from mustdp.ledger.ledger import Ledger
from mustdp.ledger.program import Asked, Outcome, check_covered, judge
from mustdp.ledger.store import Store, damaged
from mustdp.limits import LARGEST_LEDGER
from mustdp.numerics import checks
from mustdp.version import __version__


class Book(Ledger):
    """What a ledger in a file has read, and how an entry is added to it."""

    def __init__(self, store: Store, chain: Chain, header: Header, root: bytes, who: str) -> None:
        super().__init__(header.relation)
        self._store, self._chain, self._header, self._root = store, chain, header, root
        self._who = who
        self._seen: tuple[int, bytes] = (0, root)
        self._latest = self._now()

    def _counted(self) -> dict[Atom, int]:
        with self._store.reading() as connection:
            self._head(connection)
            return self._read_counts(connection)

    def _read_counts(self, connection: sqlite3.Connection) -> dict[Atom, int]:
        rows = connection.execute("SELECT text, count FROM atoms").fetchall()
        found: dict[Atom, int] = {}
        for text, count in rows:
            plan = plan_from_description(read_json(text, "an atom", LARGEST_LEDGER))
            for atom, times in atoms(Repeat(count, plan)).items():
                found[atom] = found.get(atom, 0) + times
        return found

    def _asked(self, plan: Plan, times: int) -> Asked:
        count = checks.integer("times", times, 1)
        counted = atoms(Repeat(count, plan))
        text = canonical(describe(plan), "the plan")
        if len(text) > LARGEST_LEDGER:
            raise InvalidParameter(f"a plan must be at most {LARGEST_LEDGER} bytes long, got more")
        check_covered(plan, self._header.relation)
        return Asked(plan, count, text, counted)

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
        self._seen, self._latest = (number, last), head
        return head

    def _hash_at(self, connection: sqlite3.Connection, number: int) -> object:
        if number == 0:
            return self._root
        asked = "SELECT hash FROM entries WHERE number = ?"
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
        before, behind = (number, when, label, self._who), (asked.times, outcome.epsilon)
        # The hash covers the plan and its cost by their digest.
        fields = (*before, stored.plan_digest(*plan), *behind, __version__)
        link = self._chain.link(head.hash, fields)
        after = Head(number, link, outcome.used, outcome.steps, outcome.epsilon, outcome.whole)
        row = (*before, plan_id, *behind, __version__, link)
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        for atom, count in asked.counted.items():
            connection.execute(
                "INSERT INTO atoms VALUES (?, ?) "
                "ON CONFLICT (text) DO UPDATE SET count = count + excluded.count",
                (canonical(describe(atom), "an atom"), count),
            )
        seal = self._chain.seal(self._root, after.fields)
        connection.execute(
            "UPDATE head SET number = ?, hash = ?, sums = ?, seal = ?",
            (number, link, after.text, seal),
        )
        return self._entry((*before, asked.text, *behind, __version__, link)), after

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        return stored.read_entry(row, self._header.relation, self._store.path)
