"""Make a ledger's file, or open one that is there and compare it with what was asked for."""

from __future__ import annotations

import getpass
import os
import secrets
from pathlib import Path
from typing import Any

from mustdp.accounting.plan import Plan
from mustdp.accounting.plan_descriptions import describe
from mustdp.errors import BudgetExceeded, InvalidParameter
from mustdp.files.creating import create_file, drop_second_names
from mustdp.files.replacing import refuse_other_than_files
from mustdp.ledger.budget_file import LedgerFile
from mustdp.ledger.chain import Chain, same
from mustdp.ledger.declared import certified, declared, is_record
from mustdp.ledger.entry import Head, Header, header_text, now, read_header, words
from mustdp.ledger.filter import filter_for
from mustdp.ledger.notes import no_notes
from mustdp.ledger.program import ADAPTIVE, FIXED
from mustdp.ledger.store import Store, damaged, make_tables
from mustdp.limits import LARGEST_EPSILON, SMALLEST_DELTA
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.decimals import as_stated, readable
from mustdp.version import __version__

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
