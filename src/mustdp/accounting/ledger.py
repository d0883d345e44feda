"""The ledger: what was released, step by step, and what it costs so far.

A ledger is a count of atoms, nothing more: ten identical steps are one entry of ten, so they cost
what ``repeat(10, …)`` costs. It is written as JSON, sealed with a version and a checksum, and read
back only if both are right; a file is replaced in one move or not at all.
"""

from __future__ import annotations

from pathlib import Path

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
from mustdp.files.envelope import Envelope
from mustdp.files.reading import read_file
from mustdp.files.replacing import replace_file
from mustdp.limits import LARGEST_LEDGER
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks

_ENVELOPE = Envelope("mustdp-ledger", 1, "ledger", LARGEST_LEDGER)


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
        entries = [{"count": count, "plan": describe(atom)} for atom, count in self._counts.items()]
        return _ENVELOPE.seal_text({"relation": self.relation, "entries": entries})

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Read a ledger; anything unexpected is refused."""
        return cls._opened(text, "the text")

    @classmethod
    def _opened(cls, content: str | bytes, where: str) -> Ledger:
        body = _ENVELOPE.open_text(content, where)
        if set(body) != {"relation", "entries"}:
            raise InvalidParameter(
                f"a ledger must hold relation and entries, got {', '.join(sorted(body))}"
            )
        ledger = cls(body["relation"])
        entries = body["entries"]
        if not isinstance(entries, list):
            raise InvalidParameter(f"entries of the ledger must be a list, got {entries!r}")
        for entry in entries:
            if not isinstance(entry, dict) or set(entry) != {"count", "plan"}:
                raise InvalidParameter(f"an entry must have count and plan, got {entry!r}")
            ledger.step(plan_from_description(entry["plan"]), entry["count"])
        return ledger

    def save(self, path: str | Path) -> None:
        """Write the ledger to a file that only its owner can read, all of it or nothing."""
        replace_file(path, self.to_json().encode("ascii"))

    @classmethod
    def load(cls, path: str | Path) -> Ledger:
        """Read a ledger from a file."""
        return cls._opened(read_file(path, LARGEST_LEDGER), str(path))
