"""Charges per second with 1 and 8 writers, and the time to open a ledger of a million entries.

    python benchmarks/ledger.py            a table
    python benchmarks/ledger.py --json     one JSON object

Charges are those of :class:`mustdp.Ledger` on the disk of ``--folder`` (the system's folder for
temporary files by default); beside them such insertions with SQLite alone, by a rollback journal
and by a write-ahead log. The million entries are written in one transaction, chained and summed up
as charges would have been, and verified once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import mustdp as md
from mustdp.ledger import records as stored
from mustdp.ledger.file import LedgerFile
from mustdp.ledger.records import Head

PLAN = md.subsample(md.wor(60_000, 256), md.gaussian(noise_multiplier=40.0))
WRITERS = (1, 8)
CHARGES, ENTRIES = 400, 10**6


def in_processes(work: Callable[[int], None], writers: int, charges: int) -> float:
    """Charges per second when so many processes make them together."""
    each = max(1, charges // writers)
    start = time.perf_counter()
    children = []
    for _ in range(writers):
        number = os.fork()
        if not number:
            try:
                work(each)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(number)
    for number in children:
        if os.waitpid(number, 0)[1] != 0:
            raise RuntimeError("a writer failed")
    return each * writers / (time.perf_counter() - start)


def charging(path: Path) -> Callable[[int], None]:
    with md.Ledger.open(path, epsilon=400, delta=1e-6) as ledger:
        ledger.charge(PLAN)
        for level in range(1, 11):  # what the plan costs is known before the clock runs
            ledger.header.filter.cost({PLAN: 1}, ledger.header.relation, level)

    def work(times: int) -> None:
        with md.Ledger.open(path) as ledger:
            for _ in range(times):
                ledger.charge(PLAN, label="benchmark")

    return work


def inserting(path: Path, mode: str) -> Callable[[int], None]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, text TEXT)")
    connection.close()

    def work(times: int) -> None:
        own = sqlite3.connect(path, timeout=60.0, isolation_level=None)
        own.execute(f"PRAGMA journal_mode={mode}")
        own.execute("PRAGMA synchronous=FULL")
        for _ in range(times):
            own.execute("BEGIN IMMEDIATE")
            own.execute("INSERT INTO entries (text) VALUES (?)", ("x" * 200,))
            own.execute("COMMIT")
        own.close()

    return work


def filled(path: Path, count: int) -> None:
    """A ledger of so many equal entries, as charging one by one would have left it."""
    with md.Ledger.open(path, epsilon=400, delta=1e-6) as ledger:
        ledger.charge(PLAN)
        with ledger._store.writing() as connection:
            append_equal(ledger, connection, count)


def append_equal(ledger: LedgerFile, connection: sqlite3.Connection, count: int) -> None:
    """Repeat one charge, links and sums as they must be."""
    head, limit = ledger._head(connection), ledger.header.filter
    level = limit.level(count, 1)
    cost = limit.cost({PLAN: 1}, ledger.header.relation, level)
    used = head.cost + cost.times(count - 1)
    epsilon, when, package = limit.spent(used), stored.now(), md.__version__
    text = connection.execute("SELECT text FROM plans").fetchone()[0]
    plan = (text, level, stored.cost_text(cost))
    connection.execute("INSERT INTO plans VALUES (2, ?, ?, ?)", plan)
    digest = stored.plan_digest(*plan)

    def rows() -> Iterator[tuple[object, ...]]:
        link = head.hash
        for number in range(2, count + 1):
            fields = (number, when, "", "", digest, 1, epsilon, package, 0)
            link = ledger._chain.link(link, fields)
            yield (number, when, "", "", 2, 1, epsilon, package, 0, link)

    connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows())
    last = "SELECT hash FROM entries WHERE number = ?"
    link = connection.execute(last, (count,)).fetchone()[0]
    sums = (used, count, epsilon)
    after = Head(count, link, *sums, whole=False, recorded=False, noted=head.noted)
    ledger._write_head(connection, after)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(folder: Path, charges: int, entries: int) -> dict[str, Any]:
    """All figures, as plain values."""
    figures: dict[str, Any] = {"charges_per_second": {}, "sqlite_alone_per_second": {}}
    for writers in WRITERS:
        work = charging(folder / f"charged-{writers}")
        figures["charges_per_second"][str(writers)] = in_processes(work, writers, charges)
        for mode in ("truncate", "wal"):
            work = inserting(folder / f"{mode}-{writers}", mode)
            found = figures["sqlite_alone_per_second"].setdefault(mode, {})
            found[str(writers)] = in_processes(work, writers, charges)
    large = folder / "large"
    filled(large, entries)

    def open_it() -> None:
        with md.Ledger.open(large) as ledger:
            ledger.spent()

    def charge() -> None:
        with md.Ledger.open(large) as ledger:
            ledger.charge(md.laplace(shift=1e-3))

    def verify() -> None:
        with md.Ledger.open(large) as ledger:
            if ledger.verify().entries != entries:
                raise RuntimeError("entries are missing")

    figures["large"] = {
        "entries": entries,
        "megabytes": large.stat().st_size / 1e6,
        "open_seconds": min(seconds(open_it) for _ in range(3)),
        "verify_seconds": seconds(verify),
        "open_and_charge_seconds": seconds(charge),
    }
    figures["versions"] = {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "mustdp": md.__version__,
    }
    return figures


def show(figures: dict[str, Any]) -> None:
    console = Console()
    table = Table("", *(f"{writers} writers" for writers in WRITERS), title="Charges per second")
    rows = {"ledger": figures["charges_per_second"]}
    for mode, found in figures["sqlite_alone_per_second"].items():
        rows[f"sqlite alone, {mode}"] = found
    for name, found in rows.items():
        table.add_row(name, *(f"{found[str(writers)]:.0f}" for writers in WRITERS))
    console.print(table)
    for name, value in figures["large"].items():
        console.print(f"{name}: {value:,.3f}" if isinstance(value, float) else f"{name}: {value:,}")
    console.print(", ".join(f"{name} {version}" for name, version in figures["versions"].items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object and no table")
    parser.add_argument("--folder", help="where to write; the disk matters")
    parser.add_argument("--charges", type=int, default=CHARGES)
    parser.add_argument("--entries", type=int, default=ENTRIES)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        figures = measure(Path(folder), arguments.charges, arguments.entries)
    if arguments.json:
        print(json.dumps(figures))
    else:
        show(figures)


if __name__ == "__main__":
    main()
