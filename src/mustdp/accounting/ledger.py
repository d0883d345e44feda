"""The ledger: what was released, step by step, and what it costs so far.

A ledger is a count of atoms, nothing more: ten identical steps are one entry of ten, so they cost
what ``repeat(10, …)`` costs. It is written as JSON with a version and a checksum and read back only
if both are right; a file is replaced in one move or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from mustdp.accounting.account import Account, account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import (
    Atom,
    Plan,
    Repeat,
    Sequence,
    atoms,
    describe,
    plan_from_description,
)
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks

_FORMAT = "mustdp-ledger"
_VERSION = 1


class Ledger:
    """Records releases and answers at any time what they cost together.

    >>> import mustdp as md
    >>> ledger = Ledger()
    >>> step = md.subsample(md.wor(1000, 10), md.gaussian(noise_multiplier=2.0))
    >>> for _ in range(10):
    ...     ledger.step(step)
    >>> ledger.steps
    10
    """

    def __init__(self, relation: str | None = None) -> None:
        self.relation = None if relation is None else Relation.read(relation)
        self._counts: dict[Atom, int] = {}
        self._account: Account | None = None

    @property
    def steps(self) -> int:
        """Number of atoms released so far."""
        return sum(self._counts.values())

    def step(self, plan: Plan, times: int = 1) -> None:
        """Record that ``plan`` was released ``times`` times."""
        counted = atoms(Repeat(checks.integer("times", times, 1), plan))
        for atom, count in counted.items():
            self._counts[atom] = self._counts.get(atom, 0) + count
        self._account = None

    def merge(self, other: Ledger) -> None:
        """Take over everything another ledger has recorded; both relations must be the same."""
        if self.relation != other.relation:
            raise InvalidParameter(
                f"ledgers of different relations cannot be merged: {self.relation!r} and "
                f"{other.relation!r}"
            )
        for atom, count in other._counts.items():
            self._counts[atom] = self._counts.get(atom, 0) + count
        self._account = None

    @property
    def plan(self) -> Plan:
        """Everything released so far, as one plan."""
        if not self._counts:
            raise InvalidParameter("the ledger is empty: nothing was released yet")
        return Sequence(tuple(Repeat(count, atom) for atom, count in self._counts.items()))

    def account(self) -> Account:
        """The account of everything released so far."""
        if self._account is None:
            self._account = account(self.plan, relation=self.relation)
        return self._account

    def epsilon(self, delta: float) -> Bounds:
        """Bounds of epsilon at ``delta``; zero if nothing was released."""
        checks.real("delta", delta, above=0, below=1)
        return self.account().epsilon(delta) if self._counts else Bounds(0.0, 0.0)

    def delta(self, epsilon: float) -> Bounds:
        """Bounds of delta at ``epsilon``; zero if nothing was released."""
        checks.real("epsilon", epsilon, at_least=0)
        return self.account().delta(epsilon) if self._counts else Bounds(0.0, 0.0)

    def to_json(self) -> str:
        """The ledger as text."""
        body = {
            "format": _FORMAT,
            "version": _VERSION,
            "relation": self.relation,
            "entries": [
                {"count": count, "plan": describe(atom)} for atom, count in self._counts.items()
            ],
        }
        return json.dumps({**body, "checksum": _checksum(body)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Read a ledger; anything unexpected is refused."""
        try:
            body = json.loads(text)
        except (TypeError, ValueError) as problem:
            raise InvalidParameter(f"the ledger is not valid JSON: {problem}") from None
        if not isinstance(body, dict) or body.get("format") != _FORMAT:
            raise InvalidParameter(f"not a ledger: format must be {_FORMAT!r}")
        if body.get("version") != _VERSION:
            raise InvalidParameter(
                f"version of the ledger must be {_VERSION}, got {body.get('version')!r}"
            )
        checksum = body.pop("checksum", None)
        if checksum != _checksum(body):
            raise InvalidParameter("the ledger is damaged: its checksum does not match")
        ledger = cls(body.get("relation"))
        entries = body.get("entries")
        if not isinstance(entries, list):
            raise InvalidParameter(f"entries of the ledger must be a list, got {entries!r}")
        for entry in entries:
            if not isinstance(entry, dict) or set(entry) != {"count", "plan"}:
                raise InvalidParameter(f"an entry must have count and plan, got {entry!r}")
            ledger.step(plan_from_description(entry["plan"]), entry["count"])
        return ledger

    def save(self, path: str | Path) -> None:
        """Write the ledger to a file, all of it or nothing."""
        target = Path(path)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(self.to_json())
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | Path) -> Ledger:
        """Read a ledger from a file."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))


def _checksum(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
