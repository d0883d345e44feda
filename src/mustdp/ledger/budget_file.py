"""The ledger in a file: charged by many processes at once, never beyond its limit.

A charge is one transaction: read where the ledger stands, add, compare with the limit, append,
commit. What has to be computed about the plan alone is computed before, so that others wait for the
disk and not for mathematics. Noise is drawn only after :meth:`LedgerFile.charge` has returned.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, Self

from mustdp.accounting.account import account
from mustdp.accounting.answers import Account
from mustdp.accounting.plan import Atom, Plan, Repeat, atoms
from mustdp.accounting.plan_descriptions import describe, plan_from_description
from mustdp.errors import InvalidParameter, MustdpError
from mustdp.files.plain import canonical, read_json
from mustdp.ledger import entry as stored
from mustdp.ledger.chain import Chain, same
from mustdp.ledger.declared import certified
from mustdp.ledger.entry import Entry, Head, Header, Standing
from mustdp.ledger.exports import as_csv, as_json, shown
from mustdp.ledger.ledger import Ledger
from mustdp.ledger.program import Asked, Outcome, check_covered, judge, refusal
from mustdp.ledger.runs import Beside, ChargedRun
from mustdp.ledger.store import Store, damaged
from mustdp.ledger.verifying import Verified, verify
from mustdp.limits import LARGEST_LEDGER
from mustdp.numerics import checks
from mustdp.numerics.tables import Shown
from mustdp.version import __version__


class LedgerFile(Ledger):
    """A ledger in a file with a limit; made and opened by :meth:`mustdp.Ledger.open`."""

    def __init__(self, store: Store, chain: Chain, header: Header, root: bytes, who: str) -> None:
        super().__init__(header.relation)
        self._store, self._chain, self._header, self._root = store, chain, header, root
        self._who = who
        self._seen: tuple[int, bytes] = (0, root)
        self._latest = self._now()

    @property
    def path(self) -> str:
        """Where the file is."""
        return str(self._store.path)

    @property
    def header(self) -> Header:
        """What was settled when the ledger was made: limit, relation, program, name of the data."""
        return self._header

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; the next question or charge opens it again."""
        self._store.close()

    def _shown(self) -> Shown:
        return shown(self._header, self.entries(), self.spent(), self.left())

    def __reduce__(self) -> NoReturn:
        raise InvalidParameter("a ledger in a file must be opened by each process, not sent to it")

    def charge(
        self, plan: Plan, *, label: str = "", times: int = 1, beside: Beside | None = None
    ) -> Entry:
        """Charge ``times`` runs of a plan; when this returns, the charge has reached the disk.

        BudgetExceeded is raised before anything is written. Draw noise only afterwards. What is
        to be written ``beside`` the charge is written with it, or neither is.
        """
        asked = self._asked(plan, times)
        label = stored.words("label", label)
        self._foresee(asked)
        with self._store.writing() as connection:
            head = self._head(connection)
            outcome = judge(self._header, head, asked)
            if isinstance(outcome, Outcome):
                done, after = self._append(connection, head, asked, outcome, label)
                if beside is not None:
                    beside(connection, done.number)
        if not isinstance(outcome, Outcome):
            raise refusal(self._header, head, asked, outcome)
        self._seen, self._latest = (after.number, after.hash), after
        return done

    def check(self, plan: Plan, *, times: int = 1) -> float:
        """What the ledger would have spent with this charge; BudgetExceeded if it does not fit.

        Nothing is written, and nothing is reserved: somebody else may be faster.
        """
        asked = self._asked(plan, times)
        self._foresee(asked)
        head = self._now()
        outcome = judge(self._header, head, asked)
        if not isinstance(outcome, Outcome):
            raise refusal(self._header, head, asked, outcome)
        return outcome.epsilon

    def step(self, plan: Plan, times: int = 1) -> None:
        """Charge, as a ledger in memory does; see :meth:`charge`."""
        self.charge(plan, times=times)

    def run(self, name: str) -> ChargedRun:
        """A run that is charged once, however often it is interrupted (``runs.py``)."""
        seal = partial(self._chain.seal, self._root)
        return ChargedRun(stored.words("run", name, empty=False), self._store, seal, self.charge)

    def merge(self, other: Ledger) -> None:
        """Charge everything another ledger has recorded, as one entry, if all of it fits."""
        if isinstance(other, LedgerFile):
            if other.header.identity == self._header.identity:
                raise InvalidParameter("a ledger must not be merged with itself")
            if other.header.data != self._header.data:
                raise InvalidParameter(
                    f"ledgers of different data cannot be merged: {self._header.data!r} and "
                    f"{other.header.data!r}"
                )
        relation = other.relation or other.account().relation
        if relation != self.relation:
            raise InvalidParameter(
                f"ledgers of different relations cannot be merged: {self.relation!r} and "
                f"{relation!r}"
            )
        self.charge(other.plan, label=f"merged: {other.steps} steps")

    def entries(self, since: int = 0) -> tuple[Entry, ...]:
        """All entries in their order, or those after number ``since``."""
        first = checks.integer("since", since, 0)
        with self._store.reading() as connection:
            self._head(connection)
            rows = connection.execute(
                "SELECT number, at, label, who, text, times, epsilon, package, hash FROM entries "
                "JOIN plans ON plans.id = entries.plan WHERE number > ? ORDER BY number",
                (first,),
            ).fetchall()
        return tuple(self._entry(row) for row in rows)

    def spent(self) -> float:
        """The epsilon spent so far, of the kind that is enforced."""
        return self._now().epsilon

    def left(self) -> float:
        """What is left of the limit; 0 if the first charge took the whole of it."""
        head = self._now()
        return 0.0 if head.whole else max(0.0, self._header.epsilon - head.epsilon)

    def standing(self) -> Standing:
        """Where the ledger stands, in both ways of counting; the second one takes accounting."""
        with self._store.reading() as connection:
            head, counted = self._head(connection), self._read_counts(connection)
        header = self._header
        fixed = 0.0
        if counted:
            fixed = certified(self._joined(counted), header.relation, header.delta)
        left = 0.0 if head.whole else max(0.0, header.epsilon - head.epsilon)
        adaptive = header.filter.spent(head.cost)
        return Standing(
            header.program,
            header.epsilon,
            header.delta,
            head.epsilon,
            left,
            adaptive,
            fixed,
            head.number,
            sum(counted.values()),
        )

    def verify(self, known: str | None = None) -> Verified:
        """Read every entry, check all hashes and add everything up again.

        ``known`` is the hash of an entry that somebody remembers (:attr:`Entry.hash`): it must
        still be there, so that a file put back to an older state is noticed.
        """
        with self._store.reading() as connection:
            head = self._head(connection)
            return verify(connection, self._store.path, self._chain, self._root, head, known)

    def export_json(self) -> str:
        """Header and entries as JSON."""
        return as_json(self._header, self.entries())

    def export_csv(self) -> str:
        """The entries as a table."""
        return as_csv(self.entries())

    def account(self) -> Account:
        """The account of everything charged so far, as a plan fixed in advance."""
        return account(self.plan, relation=self.relation)

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
