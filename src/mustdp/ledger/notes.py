"""Notes about runs: which saved state of each is the latest, and every one that was before.

The table ``runs`` has the latest state of each run; the head of the ledger has its digest under
the seal. So a note that was right once cannot be put back alone. Every note is kept in the table
``notes`` besides, each with a hash that covers the note before it and the entry that was the last
one at the time: who remembers a hash finds out later whether the whole file was put back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mustdp.ledger.chain import Chain, same
from mustdp.ledger.entry import Head, Noted
from mustdp.ledger.store import damaged


def no_notes(chain: Chain, root: bytes) -> Noted:
    """What the head of a new ledger says about runs."""
    return Noted(0, root, _digest(chain, root, ()))


def check_latest(
    connection: sqlite3.Connection, path: Path, chain: Chain, root: bytes, head: Head
) -> None:
    """Check that the latest state of every run is the one that the head was sealed with."""
    rows = connection.execute("SELECT name, entry, steps, state FROM runs ORDER BY name").fetchall()
    if not same(_digest(chain, root, rows).encode(), head.noted.runs.encode()):
        raise damaged(path, "the latest state of every run must be as it was written last")


def append_note(
    connection: sqlite3.Connection,
    chain: Chain,
    root: bytes,
    head: Head,
    note: tuple[str, int, int, str],
) -> Noted:
    """Write a note (name, entry, steps, state): the latest of its run from now on."""
    number = head.noted.number + 1
    link = chain.link(head.noted.hash, _fields(number, note, head.hash))
    row = (number, *note, head.number, link)
    connection.execute("INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", note)
    rows = connection.execute("SELECT name, entry, steps, state FROM runs ORDER BY name").fetchall()
    return Noted(number, link, _digest(chain, root, rows))


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
    kept = connection.execute("SELECT name, entry, steps, state FROM runs").fetchall()
    if {row[0]: tuple(row) for row in kept} != latest:
        raise damaged(path, "the latest state of every run must be as it was written last")
    check_latest(connection, path, chain, root, head)
    return seen


def _fields(number: int, note: Iterable[object], entry: bytes) -> tuple[object, ...]:
    return "note", number, *note, entry.hex()


def _digest(chain: Chain, root: bytes, rows: Iterable[tuple[Any, ...]]) -> str:
    return chain.seal(root, ("runs", *(list(row) for row in rows))).hex()
