"""A ledger's whole file read again: every hash, and every sum to the last bit."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from mustdp.accounting.plan import Atom, atoms
from mustdp.accounting.plan_descriptions import plan_from_description
from mustdp.errors import InvalidParameter
from mustdp.files.plain import read_json
from mustdp.ledger.chain import Chain, same
from mustdp.ledger.entry import Head, Header, plan_digest, read_cost
from mustdp.ledger.filter import Cost
from mustdp.ledger.notes import verify_notes
from mustdp.ledger.store import damaged
from mustdp.limits import LARGEST_LEDGER

#: Logarithms of another machine may differ in their last digits.
_LAST_DIGITS = 1e-9


@dataclass(frozen=True)
class Verified:
    """What was found to be right: so many entries, the last of them with this hash.

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

    Whoever takes all of them knows that they lead to the head, which is sealed.
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
