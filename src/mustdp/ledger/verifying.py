"""A ledger's whole file read again: every hash, and every sum to the last bit."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mustdp.accounting.plan import atoms
from mustdp.accounting.plan_descriptions import describe, plan_from_description
from mustdp.errors import InvalidParameter
from mustdp.files.plain import canonical, read_json
from mustdp.ledger.chain import Chain, same
from mustdp.ledger.entry import Head, plan_digest, read_cost
from mustdp.ledger.runs import check_runs
from mustdp.ledger.store import damaged
from mustdp.limits import LARGEST_LEDGER


@dataclass(frozen=True)
class Verified:
    """What was found to be right: so many entries, the last of them with this hash."""

    entries: int
    hash: str
    epsilon: float


def verify(
    connection: sqlite3.Connection,
    path: Path,
    chain: Chain,
    root: bytes,
    head: Head,
    known: str | None,
) -> Verified:
    """Check every entry against the one before it, and the sums against all of them."""
    _check_pages(connection, path)
    plans = _Plans(connection, path)
    before, number, last = root, 0, 0.0
    seen = known is None or known == root.hex()
    runs: Counter[int] = Counter()
    rows = connection.execute(
        "SELECT number, at, label, who, plan, times, epsilon, package, hash FROM entries "
        "ORDER BY number"
    )
    for found, when, label, who, which, times, epsilon, package, link in rows:
        number += 1
        plan = plans.digests.get(which)
        if found != number or plan is None or type(times) is not int or times < 1:
            raise damaged(path, f"entry {number} must be there, whole")
        fields = (number, when, label, who, plan, times, epsilon, package)
        before = chain.link(before, fields)
        if not same(link, before):
            raise damaged(path, f"entry {number} was changed, or one before it removed")
        if not epsilon >= last:
            raise damaged(path, f"entry {number} must not cost less than those before it")
        seen, last = seen or link.hex() == known, epsilon
        runs[which] += times
    if number != head.number or not same(before, head.hash) or last != head.epsilon:
        raise damaged(path, f"{head.number} entries must lead to its head, got {number}")
    cost = head.cost.times(0)
    for which, times in runs.items():
        cost += plans.cost(which).times(times)
    if cost != head.cost:
        raise damaged(path, "its sums must be those of its entries")
    counted = dict(connection.execute("SELECT text, count FROM atoms").fetchall())
    if counted != plans.counted(runs):
        raise damaged(path, "its counts must be those of its entries")
    check_runs(connection, path, chain, root)
    if not seen:
        raise InvalidParameter(
            f"{path} does not hold the entry {known}: it is another ledger, or an older state of it"
        )
    return Verified(number, before.hex(), last)


class _Plans:
    """The plans of a file by their numbers."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        rows = connection.execute("SELECT id, text, level, cost FROM plans").fetchall()
        self.texts = {which: (text, level, cost) for which, text, level, cost in rows}
        self.digests = {which: plan_digest(*found) for which, found in self.texts.items()}
        self._path = path

    def cost(self, which: int) -> Any:
        return self._read(2, which, read_cost)

    def counted(self, runs: Counter[int]) -> dict[str, int]:
        total: Counter[str] = Counter()
        for which, times in runs.items():
            plan = self._read(0, which, plan_from_description)
            for atom, count in atoms(plan).items():
                total[canonical(describe(atom), "an atom")] += count * times
        return dict(total)

    def _read(self, part: int, which: int, read: Callable[[Any], Any]) -> Any:
        try:
            return read(read_json(str(self.texts[which][part]), "a plan", LARGEST_LEDGER))
        except (KeyError, TypeError, InvalidParameter) as problem:
            raise damaged(self._path, f"plan {which} cannot be read") from problem


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found is None or found[0] != "ok":
        raise damaged(path, str(found and found[0]))
