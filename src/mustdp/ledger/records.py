"""What a ledger's file holds: header, head, entries and notes, tied together by hashes.

First the SQLite file, one transaction at a time; then what is stored in it.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import sqlite3
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from mustdp.accounting.plan import Atom, Plan, Sequence, atoms, plan_from_description
from mustdp.errors import InvalidParameter
from mustdp.files.reading import canonical, digest, read_json
from mustdp.files.replacing import refuse_other_than_files
from mustdp.ledger.filter import Cost, Filter
from mustdp.ledger.ledger import History
from mustdp.limits import LARGEST_LEDGER
from mustdp.mechanisms.relation import Relation

# The SQLite file of a ledger: one transaction at a time, and what goes wrong in words.

# A rollback journal that is truncated at each commit (``journal_mode=TRUNCATE``), ``synchronous=
# FULL``: when a commit returns, database and journal have reached the disk. A write-ahead log would
# be several times as fast (benchmarks/README.md), but what was committed would stand in a second
# file for a while, and anyone who moves or copies the first one alone would forget charges.
#
# POSIX locks belong to a process and end when it closes *any* descriptor of the file, so nothing
# here opens the file but SQLite itself. A connection does not go through a fork: the child makes
# its own, and leaves its parent's alone, since closing it could roll back what the parent is
# writing. SQLite remembers locks of the whole process, and a child would take its parent's for its
# own; so a fork waits until no thread is in a transaction.


#: "mudp": what the file says it is, where SQLite keeps that.
_APPLICATION = 0x6D756470
#: Seconds to wait for others' charges.
_PATIENCE = 60.0
#: Milliseconds between two looks whether they are done.
_GLANCE = 5
_TABLES = (
    "CREATE TABLE header (one INTEGER PRIMARY KEY CHECK (one = 1), text TEXT NOT NULL, "
    "hash BLOB NOT NULL)",
    "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL, "
    "hash BLOB NOT NULL, sums TEXT NOT NULL, seal BLOB NOT NULL)",
    "CREATE TABLE plans (id INTEGER PRIMARY KEY, text TEXT NOT NULL, level INTEGER NOT NULL, "
    "cost TEXT NOT NULL, UNIQUE (text, level, cost))",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, at TEXT NOT NULL, label TEXT NOT NULL, "
    "who TEXT NOT NULL, plan INTEGER NOT NULL, times INTEGER NOT NULL, epsilon REAL NOT NULL, "
    "package TEXT NOT NULL, recorded INTEGER NOT NULL, hash BLOB NOT NULL)",
    "CREATE TABLE runs (name TEXT PRIMARY KEY, entry INTEGER NOT NULL, steps INTEGER NOT NULL, "
    "state TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE notes (number INTEGER PRIMARY KEY, name TEXT NOT NULL, entry INTEGER NOT NULL, "
    "steps INTEGER NOT NULL, state TEXT NOT NULL, after INTEGER NOT NULL, hash BLOB NOT NULL)",
    "CREATE TRIGGER entries_stay BEFORE DELETE ON entries BEGIN "
    "SELECT RAISE(ABORT, 'entries stay'); END",
    "CREATE TRIGGER entries_stay_as_they_are BEFORE UPDATE ON entries BEGIN "
    "SELECT RAISE(ABORT, 'entries stay as they are'); END",
    "CREATE TRIGGER notes_stay BEFORE DELETE ON notes BEGIN SELECT RAISE(ABORT, 'notes stay'); END",
    "CREATE TRIGGER notes_stay_as_they_are BEFORE UPDATE ON notes BEGIN "
    "SELECT RAISE(ABORT, 'notes stay as they are'); END",
)
#: The version of the file; the first one had a table of counts that nothing vouched for.
VERSION = 2
_ATOMS = "CREATE TABLE atoms (text TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID"
_BUSY = (errno.ETIMEDOUT, f"others were charging for {_PATIENCE:.0f} seconds")
_FORBIDDEN = (errno.EACCES, "nothing was charged: {}")
#: Errors of SQLite that are the system's, with what SQLite says about them.
_OF_THE_SYSTEM = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_FULL: (errno.ENOSPC, "nothing was charged: the disk is full"),
    sqlite3.SQLITE_READONLY: _FORBIDDEN,
    sqlite3.SQLITE_PERM: _FORBIDDEN,
    sqlite3.SQLITE_CANTOPEN: _FORBIDDEN,
    sqlite3.SQLITE_IOERR: (errno.EIO, "the charge may be lost: {}"),
}
#: Connections of a parent process, never to be closed here.
_LEFT_ALONE: list[sqlite3.Connection] = []
_STORES: weakref.WeakSet[Store] = weakref.WeakSet()


class Store:
    """One file, for any number of threads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # One name however the folder is reached; a link in place of the file itself is refused.
        folder, name = os.path.split(os.path.abspath(path))
        self.path = Path(os.path.realpath(folder), name)
        self._connection: sqlite3.Connection | None = None
        self._found: os.stat_result | None = None
        self._lock = threading.RLock()
        self._within = self._torn = False
        _STORES.add(self)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """All that is read in the body belongs together."""
        return self._transaction("BEGIN")

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Exclude other writers during the body; all that it wrote is on the disk afterwards, or
        nothing."""
        return self._transaction("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:  # a ledger that was opened by its path, and is not used any more
            connection.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, in_words(self.path):
            if self._torn:
                raise InvalidParameter(
                    f"{self.path} must not be used by a process that was forked during a charge"
                )
            connection = self._open()
            _begin(connection, begin)
            self._within = True
            try:
                self._check_whole(connection)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._within = False

    def before_fork(self) -> None:
        """Wait until no other thread is in a transaction."""
        self._lock.acquire()

    def after_fork(self, child: bool) -> None:
        """Go on, in a child without its parent's connection."""
        if not child:
            self._lock.release()
            return
        if self._connection is not None:
            _LEFT_ALONE.append(self._connection)
        self._connection, self._lock = None, threading.RLock()
        self._torn = self._torn or self._within

    def _open(self) -> sqlite3.Connection:
        refuse_other_than_files(self.path)
        found = os.lstat(self.path)
        refuse_second_names(self.path, found)
        if self._connection is None:
            connection = connect(self.path)
            try:
                _check_tables(connection, self.path)
            except BaseException:
                connection.close()
                raise
            self._connection, self._found = connection, found
        if self._found is None or not os.path.samestat(found, self._found):
            raise InvalidParameter(
                f"{self.path} must stay in place while it is in use, but was replaced by another "
                "file; charges to either would be missing in the other"
            )
        return self._connection

    def _check_whole(self, connection: sqlite3.Connection) -> None:
        """SQLite takes a page that was cut off for one that ends in zeros."""
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        if os.lstat(self.path).st_size != pages * size:
            raise damaged(self.path, "its length must be that of its pages")


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a file that is there."""
    uri = f"{path.as_uri()}?mode=rw"
    connection = sqlite3.connect(
        uri, uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        for pragma in ("journal_mode=TRUNCATE", "synchronous=FULL", "trusted_schema=OFF"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("PRAGMA cell_size_check=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _begin(connection: sqlite3.Connection, statement: str) -> None:
    """Begin as soon as no other process is writing.

    SQLite alone would look again only every tenth of a second, and leave the disk idle in between.
    """
    until = time.monotonic() + _PATIENCE
    connection.execute(f"PRAGMA busy_timeout={_GLANCE}")
    while True:
        try:
            connection.execute(statement)
            break
        except sqlite3.OperationalError as problem:
            busy = problem.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() >= until:
                raise
    connection.execute(f"PRAGMA busy_timeout={1000 * _PATIENCE:.0f}")


def make_tables(path: Path, header: str, header_hash: bytes, head: tuple[object, ...]) -> None:
    """Fill an empty file that no other process knows yet; it needs no journal."""
    with in_words(path):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=OFF")
            connection.execute(f"PRAGMA application_id={_APPLICATION}")
            connection.execute("BEGIN IMMEDIATE")
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute("INSERT INTO header VALUES (1, ?, ?)", (header, header_hash))
            connection.execute("INSERT INTO head VALUES (1, ?, ?, ?, ?)", head)
            connection.execute("COMMIT")
        finally:
            connection.close()


def refuse_second_names(path: Path, found: os.stat_result) -> None:
    """Refuse a file that has several names (hard links).

    SQLite finds the journal of an interrupted charge by the file's name. Under another name the
    file would be used half written, and what is charged there be undone later under the first one.
    """
    if found.st_nlink > 1:
        raise InvalidParameter(
            f"{path} must have one name, got {found.st_nlink} hard links to the same file: a "
            "charge that is interrupted under one name would be undone under another. Remove the "
            "other names, and keep the one that a file NAME-journal lies beside"
        )


def damaged(path: Path, why: str) -> InvalidParameter:
    """The refusal of a file that is not as it was written."""
    return InvalidParameter(f"{path} is damaged: {why}. It is left as it is")


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    said = connection.execute("PRAGMA application_id").fetchone()[0]
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    tables = sorted(str(row[0]) for row in found)
    if said == _APPLICATION and _ATOMS in tables:
        raise InvalidParameter(
            f"{path} must be a ledger of version {VERSION}, got version 1, whose counts and "
            "runs are not under its seal; read it with the mustdp that wrote it"
        )
    if said != _APPLICATION or tables != sorted(_TABLES):
        raise InvalidParameter(f"{path} is no ledger: it is a database of something else")


@contextmanager
def in_words(path: Path) -> Iterator[None]:
    """SQLite's errors as this package's, or the system's."""
    try:
        yield
    except UnicodeDecodeError:
        raise damaged(path, "its text must be UTF-8") from None
    except sqlite3.Error as problem:
        code = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in _OF_THE_SYSTEM:
            number, why = _OF_THE_SYSTEM[code]
            # Python makes a TimeoutError or a PermissionError of the number.
            raise OSError(number, why.format(problem), str(path)) from problem
        if code == sqlite3.SQLITE_NOTADB:
            raise InvalidParameter(f"{path} is no ledger: it is no database") from problem
        raise damaged(path, str(problem)) from problem


#: The stores whose locks a fork in progress holds.
_HELD: list[Store] = []


def _before_fork() -> None:
    for store in list(_STORES):
        store.before_fork()
        _HELD.append(store)


def _after_fork(child: bool) -> None:
    while _HELD:
        _HELD.pop().after_fork(child)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(False),
        after_in_child=lambda: _after_fork(True),
    )

# Header, head and entries, and as which text they are stored.


FORMAT = "mustdp-budget"
#: Characters of a label and the like, which are one line.
_LONGEST = 200
#: Fields of a header that are stored as they are.
_AS_THEY_ARE = ("data", "program", "declared", "created", "package", "keyed", "identity")


@dataclass(frozen=True)
class Header:
    """What was settled when the ledger was made."""

    data: str
    filter: Filter
    relation: Relation
    program: str
    plan: Plan | None
    #: The certified epsilon of the declared plan.
    declared: float | None
    created: str
    package: str
    keyed: bool
    identity: str

    @property
    def epsilon(self) -> float:
        """The limit."""
        return self.filter.epsilon

    @property
    def delta(self) -> float:
        """The delta that all epsilons are at."""
        return self.filter.delta


@dataclass(frozen=True)
class NotesSummary:
    """The notes about runs: how many, the hash of the last, and a digest of all latest states."""

    number: int
    hash: bytes
    runs: str


@dataclass(frozen=True)
class Head:
    """Where the ledger stands: the last entry and the sums over all entries."""

    number: int
    hash: bytes
    cost: Cost
    steps: int
    #: What the ledger enforces, after the last entry.
    epsilon: float
    #: The first charge took the whole budget: it is judged as a plan fixed in advance.
    whole: bool
    #: An entry was taken over from another ledger, so it was chosen along the way.
    recorded: bool
    noted: NotesSummary

    def left_of(self, limit: float) -> float:
        """What is left of the limit; nothing after a first charge that took the whole of it."""
        return 0.0 if self.whole else max(0.0, limit - self.epsilon)

    @property
    def text(self) -> str:
        """The sums, as they are stored."""
        sums = {"sums": self.cost.sums, "outside": self.cost.outside, "steps": self.steps}
        flags = {"epsilon": self.epsilon, "whole": self.whole, "recorded": self.recorded}
        noted = (self.noted.number, self.noted.hash.hex(), self.noted.runs)
        return canonical({**sums, **flags, "noted": noted}, "the sums")

    @property
    def fields(self) -> tuple[object, ...]:
        """What the seal covers."""
        return self.number, self.hash.hex(), self.text


@dataclass(frozen=True)
class LedgerStatus:
    """Where a ledger stands, in both ways of counting; all epsilons at its delta.

    Attributes
    ----------
    program : {"adaptive", "fixed"}
        Whether what is charged may depend on what was released.
    limit : float
        The epsilon that is not exceeded.
    delta : float
        The delta at which all epsilons are stated.
    spent : float
        Of ``adaptive`` and ``fixed`` the one that is enforced.
    left : float
        What is left of the limit.
    adaptive : float
        Holds whatever the plans depended on: the smallest limit under which a ledger of this kind
        would have admitted all charges.
    fixed : float
        The certified bound of the plans that were charged, had they all been fixed in advance.
    entries : int
        Number of charges.
    steps : int
        Number of steps that were charged.

    Examples
    --------
    >>> import mustdp as md
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with md.Ledger.open(f"{folder}/office.ledger", epsilon=4, delta=1e-6) as ledger:
    ...         entry = ledger.charge(md.gaussian(noise_multiplier=10.0), label="table 1")
    ...         standing = ledger.standing()
    >>> standing.limit, standing.entries, 0.0 < standing.spent < standing.left
    (4.0, 1, True)
    """

    program: str
    limit: float
    delta: float
    spent: float
    left: float
    adaptive: float
    fixed: float
    entries: int
    steps: int


@dataclass(frozen=True)
class Entry:
    """One charge: a number of runs of a plan.

    Attributes
    ----------
    number : int
        The entry's place in the ledger, from 1 on.
    when : datetime
        When it was written, in UTC; nothing depends on it.
    label : str
        What the charge is for.
    who : str
        Who made it.
    plan_text : str
        The plan that was charged, once, as JSON.
    times : int
        How many runs of it.
    relation : Relation
        Which data sets are neighbours.
    epsilon : float
        What all entries up to this one cost: certified, at the ledger's delta, and of the kind that
        the ledger enforces.
    package : str
        The version of mustdp that wrote it.
    recorded : bool
        Whether it was taken over from another ledger, after it was released: then it counts as
        chosen along the way, even as the first entry.
    hash : str
        Covers this entry and all before it.

    Examples
    --------
    >>> import mustdp as md
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with md.Ledger.open(f"{folder}/office.ledger", epsilon=4, delta=1e-6) as ledger:
    ...         entry = ledger.charge(md.gaussian(noise_multiplier=10.0), label="table 1")
    >>> entry.label, entry.times, entry.relation.option
    ('table 1', 1, 'replace-one')
    """

    number: int
    when: datetime
    label: str
    who: str
    plan_text: str
    times: int
    relation: Relation
    epsilon: float
    package: str
    recorded: bool
    hash: str

    @property
    def plan(self) -> Plan:
        """The plan that was charged, once."""
        plan = plan_from_description(read_json(self.plan_text, "a plan", LARGEST_LEDGER))
        if not self.recorded:
            return plan
        return History(plan.parts if isinstance(plan, Sequence) else (plan,))

    def describe(self) -> dict[str, Any]:
        """The entry for JSON.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        return {
            "number": self.number,
            "when": self.when.isoformat(),
            "label": self.label,
            "who": self.who,
            "times": self.times,
            "epsilon": self.epsilon,
            "relation": self.relation.value,
            "plan": json.loads(self.plan_text),
            "package": self.package,
            "recorded": self.recorded,
            "hash": self.hash,
        }


def read_entry(row: tuple[Any, ...], relation: Relation, path: Path) -> Entry:
    """The entry of a row, with the text of its plan."""
    number, when, label, who, text, times, epsilon, package, recorded, link = row
    try:
        at = datetime.fromisoformat(when)
        kept = (number, at, label, who, text, times, relation, epsilon, package, bool(recorded))
        return Entry(*kept, link.hex())
    except (AttributeError, TypeError, ValueError) as problem:
        raise damaged(path, f"entry {number} cannot be read") from problem


def cost_text(cost: Cost) -> str:
    """A cost as it is stored with a plan."""
    return canonical({"sums": cost.sums, "outside": cost.outside}, "a cost")


def read_cost(body: Any) -> Cost:
    """A cost from its parts; whatever is not one is refused."""
    sums, outside = body["sums"], body["outside"]
    good = isinstance(sums, list) and type(outside) is int and outside >= 0
    if not good or not all(each is None or (type(each) is int and each >= 0) for each in sums):
        raise InvalidParameter("the ledger is damaged: a sum must be a whole number")
    return Cost(tuple(sums), outside)


def read_head(number: object, last: object, sums: object) -> Head:
    """The head as it is stored."""
    body = read_json(str(sums), "the sums", LARGEST_LEDGER)
    if type(number) is not int or not isinstance(last, bytes) or not isinstance(body, dict):
        raise InvalidParameter("the ledger is damaged: its head cannot be read")
    try:
        steps, epsilon, whole = body["steps"], float(body["epsilon"]), body["whole"]
        notes, note, runs = body["noted"]
        noted = NotesSummary(int(notes), bytes.fromhex(note), str(runs))
        flags = bool(whole), bool(body["recorded"])
        return Head(number, last, read_cost(body), int(steps), epsilon, *flags, noted)
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidParameter("the ledger is damaged: its head cannot be read") from problem


@lru_cache(maxsize=4096)
def plan_digest(text: str, level: int, cost: str) -> str:
    """What an entry's hash covers of its plan: the text, and what one run of it costs."""
    return digest([text, level, cost], "a plan")


def now() -> str:
    """The time, as it is stored; nothing depends on it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def words(name: str, text: object, *, empty: bool = True) -> str:
    """A short text in one line that every terminal and table can hold."""
    allowed = f"must be one line of {'at most' if empty else '1 to'} {_LONGEST} characters"
    if not isinstance(text, str):
        raise InvalidParameter.refusing(name, allowed, f"a {type(text).__name__}")
    if len(text) > _LONGEST or not text.isprintable() or not (text or empty):
        raise InvalidParameter.refusing(name, allowed, ascii(text[:40]))
    return text


def header_text(header: Header, plan: object) -> str:
    """The header as it is stored and hashed; ``plan`` is the declared one's description."""
    body = {
        "format": FORMAT,
        "version": VERSION,
        "epsilon": header.epsilon,
        "delta": header.delta,
        "orders": header.filter.orders,
        "shares": header.filter.shares,
        "relation": header.relation.value,
        "plan": plan,
        **{name: getattr(header, name) for name in _AS_THEY_ARE},
    }
    return canonical(body, "a ledger's header")


def read_header(text: str, where: str) -> Header:
    """The header of a file; only a whole one of this version is read."""
    body = read_json(text, where, LARGEST_LEDGER)
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise InvalidParameter(f"{where} is no ledger: its format must be {FORMAT!r}")
    if type(body.get("version")) is not int or body["version"] != VERSION:
        got = repr(body.get("version"))
        raise InvalidParameter(f"{where} must be a ledger of version {VERSION}, got version {got}")
    try:
        plan = None if body["plan"] is None else plan_from_description(body["plan"])
        orders, shares = tuple(map(float, body["orders"])), tuple(map(float, body["shares"]))
        return Header(
            filter=Filter(float(body["epsilon"]), float(body["delta"]), orders, shares),
            relation=Relation.read(body["relation"]),
            plan=plan,
            **{name: body[name] for name in _AS_THEY_ARE},
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidParameter(f"{where} is damaged: its header cannot be read") from problem


# Hashes that tie every entry to all before it: SHA-256, or HMAC-SHA-256 with a key.
#
# Without a key they find accidents, and tampering by people who do not know how the file is made:
# a person who may write the file could write all hashes anew. With a key kept elsewhere no one
# else can. Neither notices that the whole file was put back to an older state; only anyone who
# remembers a later head can (:meth:`LedgerFile.verify` takes one).


#: Bytes of a key at least: 128 bits.
_SHORTEST_KEY = 16


@dataclass(frozen=True)
class Chain:
    """How this ledger's hashes are made."""

    key: bytes | None

    def __post_init__(self) -> None:
        if self.key is None:
            return
        if not isinstance(self.key, bytes) or len(self.key) < _SHORTEST_KEY:
            got = f"{len(self.key)} bytes" if isinstance(self.key, bytes) else "something else"
            raise InvalidParameter.refusing(
                "key", f"must be at least {_SHORTEST_KEY} bytes, kept apart from the ledger", got
            )

    def header(self, text: str) -> bytes:
        """The hash of the header, which the first entry is tied to."""
        return self._hash(b"header", text)

    def link(self, before: bytes, fields: tuple[object, ...]) -> bytes:
        """The hash of an entry that comes after the one with the hash ``before``."""
        return self._hash(b"entry" + before, _text(fields))

    def seal(self, header: bytes, fields: tuple[object, ...]) -> bytes:
        """The hash of the head: how many entries there are, the last of them, and the sums."""
        return self._hash(b"head" + header, _text(fields))

    def _hash(self, start: bytes, text: str) -> bytes:
        content = start + text.encode("ascii")
        if self.key is None:
            return hashlib.sha256(content).digest()
        return hmac.digest(self.key, content, "sha256")


def _text(fields: tuple[object, ...]) -> str:
    """The fields as JSON; what a damaged file has in their place is like nothing ever written."""
    return json.dumps(fields, separators=(",", ":"), default=lambda value: [repr(value)])


def same(one: object, other: bytes) -> bool:
    """Whether two hashes are equal, in a time that does not tell where they differ."""
    return isinstance(one, bytes) and hmac.compare_digest(one, other)


# Notes about runs: which saved state of each is the latest, and every one that was before.
#
# The table ``runs`` has the latest state of each run; the head of the ledger has its digest under
# the seal. So a note that was right once cannot be put back alone. Every note is kept in the table
# ``notes`` besides, each with a hash that covers the note before it and the entry that was the last
# one at the time: who remembers a hash finds out later whether the whole file was put back.


_RUNS = "SELECT name, entry, steps, state FROM runs ORDER BY name"


def no_notes(chain: Chain, root: bytes) -> NotesSummary:
    """What the head of a new ledger says about runs."""
    return NotesSummary(0, root, _digest(chain, root, ()))


def check_latest(
    connection: sqlite3.Connection, path: Path, chain: Chain, root: bytes, head: Head
) -> None:
    """Check that the latest state of every run is the one that the head was sealed with."""
    rows = connection.execute(_RUNS).fetchall()
    if not same(_digest(chain, root, rows).encode(), head.noted.runs.encode()):
        raise damaged(path, "the latest state of every run must be as it was written last")


def append_note(
    connection: sqlite3.Connection,
    chain: Chain,
    root: bytes,
    head: Head,
    note: tuple[str, int, int, str],
) -> NotesSummary:
    """Write a note (name, entry, steps, state): the latest of its run from now on."""
    number = head.noted.number + 1
    link = chain.link(head.noted.hash, _fields(number, note, head.hash))
    row = (number, *note, head.number, link)
    connection.execute("INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", note)
    rows = connection.execute(_RUNS).fetchall()
    return NotesSummary(number, link, _digest(chain, root, rows))


def verify_notes(
    connection: sqlite3.Connection,
    path: Path,
    chain: Chain,
    root: bytes,
    head: Head,
    known: str | None,
) -> bool:
    """Check every note against the one before it; whether ``known`` is the hash of one of them."""
    before, number, seen = root, 0, False
    latest: dict[object, tuple[object, ...]] = {}
    rows = connection.execute(
        "SELECT notes.number, name, entry, steps, state, notes.hash, entries.hash FROM notes "
        "LEFT JOIN entries ON entries.number = notes.after ORDER BY notes.number"
    )
    for found, *note, link, entry in rows:
        number += 1
        if found != number or not isinstance(entry, bytes):
            raise damaged(path, f"note {number} on its runs must be there, whole")
        before = chain.link(before, _fields(number, note, entry))
        if not same(link, before):
            raise damaged(path, f"note {number} on its runs was changed, or one before it removed")
        latest[note[0]] = tuple(note)
        seen = seen or link.hex() == known
    if number != head.noted.number or not same(before, head.noted.hash):
        raise damaged(path, f"{head.noted.number} notes must lead to its head, got {number}")
    kept = connection.execute(_RUNS).fetchall()
    if {row[0]: tuple(row) for row in kept} != latest:
        raise damaged(path, "the latest state of every run must be as it was written last")
    check_latest(connection, path, chain, root, head)
    return seen


def _fields(number: int, note: Iterable[object], entry: bytes) -> tuple[object, ...]:
    return "note", number, *note, entry.hex()


def _digest(chain: Chain, root: bytes, rows: Iterable[tuple[Any, ...]]) -> str:
    return chain.seal(root, ("runs", *(list(row) for row in rows))).hex()


# A ledger's whole file read again: every hash, and every sum to the last bit.


#: Logarithms of another machine may differ in their last digits.
_LAST_DIGITS = 1e-9


@dataclass(frozen=True)
class Verified:
    """What was verified: the number of entries, and the hash of the last one.

    ``note`` is the hash of the last note about a run, None if there is none.
    """

    entries: int
    hash: str
    epsilon: float
    note: str | None


class EntryRow(NamedTuple):
    """An entry as it is stored; ``plan`` is the number of its plan."""

    number: int
    when: str
    label: str
    who: str
    plan: int
    times: int
    epsilon: float
    package: str
    recorded: int
    hash: bytes


def verify(
    connection: sqlite3.Connection,
    path: Path,
    chain: Chain,
    root: bytes,
    header: Header,
    head: Head,
    known: str | None,
) -> Verified:
    """Check every entry against the one before it, and the sums against all of them."""
    _check_pages(connection, path)
    plans = StoredPlans(connection, path)
    last, recorded = 0.0, False
    seen = known is None or known == root.hex()
    runs: Counter[int] = Counter()
    for row in checked_entries(connection, path, chain, plans, (0, root), head):
        if not row.epsilon >= last:
            raise damaged(path, f"entry {row.number} must not cost less than those before it")
        seen, last = seen or row.hash.hex() == known, row.epsilon
        recorded = recorded or bool(row.recorded)
        runs[row.plan] += row.times
    cost, steps = head.cost.times(0), 0
    for which, times in runs.items():
        cost += plans.cost(which).times(times)
        steps += sum(plans.atoms(which).values()) * times
    if (cost, steps, last, recorded) != (head.cost, head.steps, head.epsilon, head.recorded):
        raise damaged(path, "its sums must be those of its entries")
    # Only a first charge that the filter alone would not have admitted takes the whole budget.
    fixed = header.plan is not None
    if head.whole and (head.number != 1 or recorded or fixed):
        raise damaged(path, "only a first charge can have taken the whole budget")
    if not (head.whole or fixed or header.filter.fits(cost)):
        raise damaged(path, "its sums must be within its limit")
    if not (head.whole or fixed):
        least = min(header.filter.spent(cost), header.epsilon)
        if not last >= (1.0 - _LAST_DIGITS) * least:
            raise damaged(path, "what is spent must be what its sums come to")
    seen = verify_notes(connection, path, chain, root, head, known) or seen
    if not seen:
        raise InvalidParameter(
            f"{path} does not hold the entry {known}: it is another ledger, or an older state of it"
        )
    note = head.noted.hash.hex() if head.noted.number else None
    return Verified(head.number, head.hash.hex(), last, note)


def checked_entries(
    connection: sqlite3.Connection,
    path: Path,
    chain: Chain,
    plans: StoredPlans,
    start: tuple[int, bytes],
    head: Head,
) -> Iterator[EntryRow]:
    """The entries after ``start`` (a number and its hash), each checked against its hash.

    Anyone who takes all of them knows that they lead to the head, which is sealed.
    """
    number, before = start
    rows = connection.execute(
        "SELECT number, at, label, who, plan, times, epsilon, package, recorded, hash FROM entries "
        "WHERE number > ? ORDER BY number",
        (number,),
    )
    for found in rows:
        row = EntryRow(*found)
        number += 1
        plan = plans.digests.get(row.plan)
        if row.number != number or plan is None or type(row.times) is not int or row.times < 1:
            raise damaged(path, f"entry {number} must be there, whole")
        before = chain.link(before, (*row[:4], plan, *row[5:-1]))
        if not same(row.hash, before):
            raise damaged(path, f"entry {number} was changed, or one before it removed")
        yield row
    if number != head.number or not same(before, head.hash):
        raise damaged(path, f"{head.number} entries must lead to its head, got {number}")


class StoredPlans:
    """The plans of a file by their numbers."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        rows = connection.execute("SELECT id, text, level, cost FROM plans").fetchall()
        self.texts = {which: (text, level, cost) for which, text, level, cost in rows}
        self._path = path
        self._atoms: dict[int, dict[Atom, int]] = {}

    @cached_property
    def digests(self) -> dict[int, str]:
        """What an entry's hash covers of each plan."""
        return {which: plan_digest(*found) for which, found in self.texts.items()}

    def cost(self, which: int) -> Cost:
        """What one run of a plan costs."""
        cost: Cost = self._read(2, which, read_cost)
        return cost

    def atoms(self, which: int) -> dict[Atom, int]:
        """The atoms of one run of a plan."""
        if which not in self._atoms:
            self._atoms[which] = atoms(self._read(0, which, plan_from_description))
        return self._atoms[which]

    def _read(self, part: int, which: int, read: Callable[[Any], Any]) -> Any:
        try:
            return read(read_json(str(self.texts[which][part]), "a plan", LARGEST_LEDGER))
        except (KeyError, TypeError, InvalidParameter) as problem:
            raise damaged(self._path, f"plan {which} cannot be read") from problem


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found is None or found[0] != "ok":
        raise damaged(path, str(found and found[0]))
