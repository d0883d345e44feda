"""The ledger in a file: charged by many processes at once, never beyond its limit."""

from __future__ import annotations

import getpass
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Self

from mustdp.accounting.account import Account, account
from mustdp.accounting.plan import Atom, Plan, Repeat, atoms, describe
from mustdp.errors import BudgetExceeded, InvalidParameter, MustdpError, NotCovered
from mustdp.files.reading import canonical
from mustdp.files.replacing import create_file, drop_second_names, refuse_other_than_files
from mustdp.ledger.filter import filter_for
from mustdp.ledger.ledger import BaseLedger, History, is_record
from mustdp.ledger.program import (
    ADAPTIVE,
    FIXED,
    ChargeRequest,
    Outcome,
    certified,
    check_covered,
    declared,
    judge,
    refusal,
)
from mustdp.ledger.records import (
    Chain,
    Entry,
    Head,
    Header,
    LedgerStatus,
    Store,
    StoredPlans,
    Verified,
    append_note,
    check_latest,
    checked_entries,
    cost_text,
    damaged,
    header_text,
    make_tables,
    no_notes,
    now,
    plan_digest,
    read_entry,
    read_head,
    read_header,
    same,
    verify,
    words,
)
from mustdp.limits import LARGEST_EPSILON, LARGEST_LEDGER, SMALLEST_DELTA
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.formatting import Display, as_stated, csv_table, readable
from mustdp.version import __version__

#: Written in the transaction of a charge: takes the head after it and gives the one to be kept.
Beside = Callable[[sqlite3.Connection, Head], Head]


# Runs in a ledger: each is charged once, and none goes back behind what it has shown.
#
# A run that is interrupted goes on from a saved state: with the same batches, and with noise of
# its own. Going on from an older state, or from two copies of one, releases more about the
# same batches than was charged, and charging the plan once more would not cover that, since the
# batches are no new draw. So beside the one charge of a run its ledger keeps which saved state is
# the latest, and a state is accepted only if it follows that one.


@dataclass(frozen=True)
class LatestState:
    """The entry that charged a run, and the state and step in which it was last saved."""

    entry: int
    steps: int
    state: str


@dataclass(frozen=True)
class ChargedRun:
    """One run by its name, which is drawn at random when the run begins."""

    name: str
    ledger: LedgerFile

    def latest(self) -> LatestState | None:
        """Where the run stands; None if it was never charged."""
        with self.ledger._checked_runs() as (connection, _):
            return self._latest(connection)

    def charge(self, plan: Plan, *, label: str, state: str) -> None:
        """Charge the whole plan and begin at ``state``; refused if the run was charged before."""
        words("state", state, empty=False)

        def begin(connection: sqlite3.Connection, after: Head) -> Head:
            self.ledger._check_runs(connection, after)
            if self._latest(connection) is not None:
                raise InvalidParameter(
                    f"run {self.name} must be charged once, and another process has charged it"
                )
            return self.ledger._note(connection, after, (self.name, after.number, 0, state))

        self.ledger.charge(plan, label=label, beside=begin)

    def advance(self, after: str, state: str, steps: int) -> None:
        """Note a state that was saved; refused unless the one before it is the latest."""
        with self.ledger._checked_runs(writing=True) as (connection, head):
            known = self._latest(connection)
            if known is None or known.state != after or steps < known.steps:
                raise gone_back(self.name, None if known is None else known.steps)
            note = (self.name, known.entry, steps, words("state", state, empty=False))
            noted = self.ledger._note(connection, head, note)
        self.ledger._saw(noted)

    def _latest(self, connection: sqlite3.Connection) -> LatestState | None:
        asked = "SELECT entry, steps, state FROM runs WHERE name = ?"
        found = connection.execute(asked, (self.name,)).fetchone()
        return None if found is None else LatestState(*found)


def gone_back(name: str, steps: int | None) -> InvalidParameter:
    """The refusal of a state that is not the latest of its run, or follows another one."""
    known = "does not know the run" if steps is None else f"knows a later one, of {steps} steps"
    return InvalidParameter(
        f"run {name} must go on from the state that it was saved in last, and its ledger {known}: "
        "an older checkpoint, or a second copy of one, would repeat batches that were charged once "
        "with new noise. Start a new run, which draws batches of its own and is charged for them"
    )


# The entries of a ledger for people and other programs: a table, JSON with everything, CSV.


#: How many charges are shown.
_LAST = 10
_COLUMNS = ("number", "when", "label", "who", "times", "epsilon", "relation", "package", "plan")


def display_of(header: Header, entries: Sequence[Entry], spent: float, left: float) -> Display:
    """What a ledger shows when it is printed: spent and left of the limit, the last charges."""
    heading = (
        f"{header.data}: {readable(spent, 'up')} spent and {readable(left, 'down')} left of "
        f"epsilon {as_stated(header.epsilon)} at delta {as_stated(header.delta)}; relation "
        f"{header.relation.option}"
    )
    rows = tuple(
        (
            str(one.number),
            f"{one.when:%Y-%m-%d %H:%M}",
            one.label,
            one.who,
            readable(one.epsilon, "up"),
        )
        for one in entries[-_LAST:]
    )
    before = len(entries) - len(rows)
    note = f"{before} charges before these" if before else ""
    return Display(heading, ("number", "when (UTC)", "label", "who", "spent by then"), rows, note)


def as_json(header: Header, entries: Sequence[Entry]) -> str:
    """Header and entries; for reading, not for charging on."""
    body = {
        "format": "mustdp-ledger-export",
        "version": 1,
        "data": header.data,
        "limit": {"epsilon": header.epsilon, "delta": header.delta},
        "relation": header.relation.value,
        "program": header.program,
        "created": header.created,
        "entries": [entry.describe() for entry in entries],
    }
    return json.dumps(body, indent=1, allow_nan=False)


def as_csv(entries: Sequence[Entry]) -> str:
    """One line for each entry."""
    rows = [{**entry.describe(), "plan": entry.plan_text} for entry in entries]
    return csv_table([_COLUMNS, *([row[name] for name in _COLUMNS] for row in rows)])


# The ledger in a file: charged by many processes at once, never beyond its limit.
#
# A charge is one transaction: read where the ledger stands, add, compare with the limit, append,
# commit. What has to be computed about the plan alone is computed before, so that others wait for
# the disk and not for mathematics. Noise is drawn only after :meth:`LedgerFile.charge` has
# returned.


class LedgerFile(BaseLedger):
    """A ledger in a file with a limit; made and opened by :meth:`mustdp.Ledger.open`.

    Any number of processes may have it open. Use it in ``with``, or :meth:`close` it.

    Examples
    --------
    >>> import mustdp as md, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with md.Ledger.open(f"{folder}/office.ledger", epsilon=1, delta=1e-6) as ledger:
    ...         print(type(ledger).__name__, ledger.header.relation.option)
    LedgerFile replace-one
    """

    relation: Relation

    def __init__(self, store: Store, chain: Chain, header: Header, root: bytes, who: str) -> None:
        self.relation = header.relation
        self._store, self._chain, self._header, self._root = store, chain, header, root
        self._who = who
        self._seen: tuple[int, bytes] = (0, root)
        self._seen_note: tuple[int, bytes] = (0, root)
        #: Entries whose hashes were checked, and the atoms that they charged.
        self._added: tuple[int, bytes, dict[Atom, int]] = (0, root, {})
        with self._checked_runs() as (_, head):
            self._latest = head

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

    def _display(self) -> Display:
        return display_of(self._header, self.entries(), self.spent(), self.left())

    def __reduce__(self) -> NoReturn:
        raise InvalidParameter("a ledger in a file must be opened by each process, not sent to it")

    def charge(
        self, plan: Plan, *, label: str = "", times: int = 1, beside: Beside | None = None
    ) -> Entry:
        """Charge runs of a plan; when this returns, the charge has reached the disk.

        Draw noise only afterwards.

        Parameters
        ----------
        plan : Plan
            What is to be released.
        label : str, default=""
            What the charge is for, in one line.
        times : int, default=1
            How many runs of the plan.
        beside : callable, default=None
            What writes something in the same transaction: it is written with the charge, or neither
            is. It takes the connection and the head after the charge, and returns the head to keep.

        Returns
        -------
        Entry
            The charge as it was written.

        Raises
        ------
        BudgetExceeded
            The charge does not fit the limit of the ledger; nothing was written.
        NotCovered
            No theorem of this package covers what was asked.
        """
        asked = self._asked(plan, times)
        label = words("label", label)
        self._foresee(asked)
        with self._store.writing() as connection:
            head = self._head(connection)
            outcome = judge(self._header, head, asked)
            if isinstance(outcome, Outcome):
                done, after = self._append(connection, head, asked, outcome, label)
                if beside is not None:
                    after = beside(connection, after)
        if not isinstance(outcome, Outcome):
            raise refusal(self._header, head, asked, outcome)
        self._saw(after)
        return done

    def check(self, plan: Plan, *, times: int = 1) -> float:
        """What the ledger would have spent with a charge.

        Nothing is written, and nothing is reserved: another process may be faster.

        Parameters
        ----------
        plan : Plan
            What is to be released.
        times : int, default=1
            How many runs of the plan.

        Returns
        -------
        float
            The epsilon spent then, of the kind that is enforced.

        Raises
        ------
        BudgetExceeded
            The charge does not fit the limit of the ledger; nothing was written.
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
        """A run that is charged once, however often it is interrupted.

        Parameters
        ----------
        name : str
            The run's name.

        Returns
        -------
        ChargedRun
            What charges it and keeps its latest state.
        """
        return ChargedRun(words("run", name, empty=False), self)

    @property
    def steps(self) -> int:
        """Number of atoms released so far."""
        return self._now().steps

    @property
    def next_step(self) -> Plan | None:
        """The step of the declared plan that comes next; None if no plan was declared.

        At the end of the plan it is the last step once more, which is refused when it is charged.
        """
        plan = self._header.plan
        return None if plan is None else declared(plan).step_after(self.steps)

    @property
    def adaptive(self) -> bool:
        """Whether what was charged may have been chosen by what was released before.

        Not so of a single charge, which came before all releases, nor of a declared plan that was
        run to its end. Where the plan was left early, that may have been a choice.
        """
        head, plan = self._now(), self._header.plan
        if plan is not None:
            return 0 < head.steps < declared(plan).steps
        return head.recorded or head.number > 1

    def merge(self, other: BaseLedger) -> None:
        """Charge everything another ledger has recorded, as one entry, if all of it fits.

        It was released before, and counts as chosen along the way even as the first entry. A ledger
        with a declared plan takes nothing over.
        """
        if isinstance(other, LedgerFile):
            if other.header.identity == self._header.identity:
                raise InvalidParameter("a ledger must not be merged with itself")
            if other.header.data != self._header.data:
                raise InvalidParameter(
                    f"ledgers of different data cannot be merged: {self._header.data!r} and "
                    f"{other.header.data!r}"
                )
        self._check_relation(other._relation_used())
        counted = other._counted()
        if not counted:
            raise InvalidParameter("the ledger is empty: nothing was released yet")
        steps = sum(counted.values())
        self.charge(self._joined(counted, History), label=f"merged: {steps} steps")

    def entries(self, since: int = 0) -> tuple[Entry, ...]:
        """The entries in their order.

        Parameters
        ----------
        since : int, default=0
            Only those after this number.

        Returns
        -------
        tuple of Entry
            As they were written.
        """
        first = checks.integer("since", since, 0)
        path, chain = self._store.path, self._chain
        with self._store.reading() as connection:
            head = self._head(connection)
            before = self._hash_at(connection, first)
            if first >= head.number or not isinstance(before, bytes):
                return ()
            plans = StoredPlans(connection, path)
            rows = list(checked_entries(connection, path, chain, plans, (first, before), head))
        return tuple(self._entry((*row[:4], plans.texts[row.plan][0], *row[5:])) for row in rows)

    def spent(self) -> float:
        """The epsilon spent so far, of the kind that is enforced.

        Returns
        -------
        float
            At the ledger's delta.
        """
        return self._now().epsilon

    def left(self) -> float:
        """What is left of the limit; 0 if the first charge took the whole of it.

        Returns
        -------
        float
            At the ledger's delta.
        """
        return self._now().left_of(self._header.epsilon)

    def standing(self) -> LedgerStatus:
        """Where the ledger stands, in both ways of counting; the second one takes accounting.

        Returns
        -------
        LedgerStatus
            All numbers at the same moment.
        """
        with self._store.reading() as connection:
            head = self._head(connection)
            counted = self._read_counts(connection, head)
        header = self._header
        fixed = 0.0
        if counted:
            fixed = certified(self._joined(counted), header.relation, header.delta)
        left = head.left_of(header.epsilon)
        adaptive = header.filter.spent(head.cost)
        return LedgerStatus(
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

        Parameters
        ----------
        known : str, default=None
            The hash of an entry (:attr:`Entry.hash`) or of a note about a run (``note`` of an
            earlier answer) that somebody remembers: it must still be there, so that a file put back
            to an older state is noticed.

        Returns
        -------
        Verified
            How many entries were found right, the last one's hash, what they cost, and the hash of
            the last note about a run.

        Raises
        ------
        InvalidParameter
            The file is damaged, or was put back.
        """
        with self._store.reading() as connection:
            head = self._head(connection)
            path, chain = self._store.path, self._chain
            return verify(connection, path, chain, self._root, self._header, head, known)

    def export_json(self) -> str:
        """Header and entries as JSON.

        Returns
        -------
        str
            JSON.
        """
        return as_json(self._header, self.entries())

    def export_csv(self) -> str:
        """The entries as a table.

        Returns
        -------
        str
            CSV with a header row.
        """
        return as_csv(self.entries())

    def account(self) -> Account:
        """The account of everything charged so far, where it was fixed in advance."""
        if self._header.plan is None and self.adaptive:
            raise NotCovered(
                "the charges were chosen along the way, which composition does not cover: spent() "
                "is what the ledger enforces, and standing().fixed is what they would cost had all "
                "of them been fixed in advance"
            )
        return account(self.plan, relation=self.relation)

    # Read and appended within a transaction. Nothing is believed that is not sealed: the head must
    # have the right seal and name the last entry, and what this process has seen before must still
    # be there.

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

    def _asked(self, plan: Plan, times: int) -> ChargeRequest:
        count = checks.integer("times", times, 1)
        counted = atoms(Repeat(count, plan))
        text = canonical(describe(plan), "the plan")
        if len(text) > LARGEST_LEDGER:
            raise InvalidParameter(f"a plan must be at most {LARGEST_LEDGER} bytes long, got more")
        check_covered(plan, self._header.relation)
        return ChargeRequest(plan, count, text, counted, is_record(plan))

    def _foresee(self, asked: ChargeRequest) -> None:
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
        head = read_head(number, last, sums)
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
        asked: ChargeRequest,
        outcome: Outcome,
        label: str,
    ) -> tuple[Entry, Head]:
        number, when = head.number + 1, now()
        plan = (asked.text, outcome.level, cost_text(outcome.cost))
        connection.execute("INSERT OR IGNORE INTO plans (text, level, cost) VALUES (?, ?, ?)", plan)
        which = "SELECT id FROM plans WHERE text = ? AND level = ? AND cost = ?"
        plan_id = connection.execute(which, plan).fetchone()[0]
        before = (number, when, label, self._who)
        behind = (asked.times, outcome.epsilon, __version__, int(asked.recorded))
        # The hash covers the plan and its cost by their digest.
        link = self._chain.link(head.hash, (*before, plan_digest(*plan), *behind))
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
        return read_entry(row, self._header.relation, self._store.path)


# Make a ledger's file, or open one that is there and compare it with what was asked for.


#: Deltas below this leave no room for the rare events that divergences leave out.
_SMALLEST_DELTA = 1e6 * SMALLEST_DELTA


def open_ledger(
    path: str | os.PathLike[str],
    epsilon: float | None,
    delta: float | None,
    relation: str | None,
    data: str | None,
    program: str | Plan | None,
    key: bytes | None,
    who: str | None,
) -> LedgerFile:
    """Open the ledger at ``path``; with a limit, make it if nothing is there."""
    chain = Chain(key)
    name = words("who", _login() if who is None else who)
    wanted = _wanted(epsilon, delta, relation, data, program)
    refuse_other_than_files(Path(path))
    if not Path(path).exists():
        if epsilon is None or delta is None:
            raise InvalidParameter.refusing(
                "path",
                "must be a ledger that is there, or come with the epsilon and delta of a new one",
                path,
            )
        _make(Path(path), chain, wanted)
    drop_second_names(path)
    store = Store(path)
    try:
        header, root = _header(store, chain)
        _compare(header, wanted, store.path)
        return LedgerFile(store, chain, header, root, name)
    except BaseException:
        store.close()
        raise


def _wanted(
    epsilon: float | None,
    delta: float | None,
    relation: str | None,
    data: str | None,
    program: str | Plan | None,
) -> dict[str, Any]:
    """What was asked for, checked; what was left out is left out."""
    found: dict[str, Any] = {}
    if epsilon is not None:
        limits = {"above": 0.0, "at_most": LARGEST_EPSILON}
        found["epsilon"] = checks.real("epsilon", epsilon, **limits)
    if delta is not None:
        limits = {"at_least": _SMALLEST_DELTA, "below": 1.0}
        found["delta"] = checks.real("delta", delta, **limits)
    if relation is not None:
        found["relation"] = Relation.read(relation)
    if data is not None:
        found["data"] = words("data", data, empty=False)
    if isinstance(program, str):
        if program != ADAPTIVE:
            raise InvalidParameter.refusing(
                "program", f"must be {ADAPTIVE!r} or a plan that is fixed in advance", repr(program)
            )
        found["program"] = ADAPTIVE
    elif program is not None:
        declared(program)
        if is_record(program):
            raise InvalidParameter.refusing(
                "program",
                "must be a plan that is fixed before anything of it is released",
                "what a ledger has recorded, which may have been chosen along the way",
            )
        found["program"], found["plan"] = FIXED, program
    return found


def _make(path: Path, chain: Chain, wanted: dict[str, Any]) -> None:
    relation = wanted.get("relation", Relation.REPLACE_ONE)
    limit = filter_for(wanted["epsilon"], wanted["delta"])
    name = words("data", wanted.get("data", path.stem), empty=False)
    plan: Plan | None = wanted.get("plan")
    costs = None
    if plan is not None:
        costs = certified(plan, relation, limit.delta)
        if not costs <= limit.epsilon:
            raise BudgetExceeded(
                f"the declared plan costs {readable(costs, 'up')}, more than the limit "
                f"{as_stated(limit.epsilon)} at delta {as_stated(limit.delta)}",
                asked=costs,
                spent=0.0,
                left=limit.epsilon,
                wanted=declared(plan).steps,
            )
    kind = ADAPTIVE if plan is None else FIXED
    settled = (now(), __version__, chain.key is not None, secrets.token_hex(16))
    header = Header(name, limit, relation, kind, plan, costs, *settled)
    text = header_text(header, None if plan is None else describe(plan))
    root = chain.header(text)
    noted = no_notes(chain, root)
    head = Head(0, root, limit.nothing, 0, 0.0, whole=False, recorded=False, noted=noted)
    first = (0, root, head.text, chain.seal(root, head.fields))
    create_file(path, lambda part: make_tables(part, text, root, first))


def _header(store: Store, chain: Chain) -> tuple[Header, bytes]:
    with store.reading() as connection:
        rows = connection.execute("SELECT text, hash FROM header").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][0], str):
        raise damaged(store.path, "it must have one header")
    header = read_header(rows[0][0], str(store.path))
    if header.keyed != (chain.key is not None):
        needed = "the key that it was made with" if header.keyed else "None: it was made without"
        got = "none" if header.keyed else "a key"
        raise InvalidParameter.refusing("key", f"must be {needed}", got)
    root = chain.header(rows[0][0])
    if not same(rows[0][1], root):
        why = "its header must be the one that was hashed"
        raise damaged(store.path, f"{why}, or the key is another one" if header.keyed else why)
    return header, root


def _compare(header: Header, wanted: dict[str, Any], path: Path) -> None:
    for name, value in wanted.items():
        there = getattr(header, name)
        if there != value:
            shown = "another one" if name == "plan" else repr(value)
            raise InvalidParameter.refusing(
                name, f"must be left out, or be that of the ledger {path}, {there!r}", shown
            )


def _login() -> str:
    try:
        found = getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""
    return found if found.isprintable() else ""
