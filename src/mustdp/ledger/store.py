"""The SQLite file of a ledger: one transaction at a time, and what goes wrong in words."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from mustdp.errors import InvalidParameter
from mustdp.files.replacing import refuse_other_than_files

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
