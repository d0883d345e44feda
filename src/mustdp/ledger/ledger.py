"""The ledger in memory: what was released, step by step, and what it costs so far.

A ledger is a count of atoms, nothing more: ten identical steps are one entry of ten, so they cost
what ``repeat(10, …)`` costs. It is written as JSON, sealed with a version and a checksum, and read
back only if both are right; a file is replaced in one move or not at all. It has no limit, and two
processes that load and save the same JSON lose what one of them wrote: :meth:`Ledger.open` is for
a budget that many share.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from mustdp.accounting.account import account
from mustdp.accounting.answers import Account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Atom, Plan, Repeat, Sequence, atoms
from mustdp.accounting.plan_descriptions import describe, plan_from_description
from mustdp.accounting.shown import in_words
from mustdp.errors import InvalidParameter
from mustdp.files.envelope import Envelope
from mustdp.files.reading import read_file
from mustdp.files.replacing import replace_file
from mustdp.limits import LARGEST_LEDGER
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.tables import Shown

if TYPE_CHECKING:
    from mustdp.ledger.budget_file import LedgerFile

#: One for all ledgers, so that a ledger can be pickled.
_GUARD = threading.RLock()
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

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        relation: str | None = None,
        data: str | None = None,
        program: str | Plan | None = None,
        key: bytes | None = None,
        who: str | None = None,
    ) -> LedgerFile:
        """Open a ledger in a file, for any number of processes; with a limit, make a new one.

        ``epsilon`` and ``delta`` are the limit, ``relation`` (replace_one by default) says which
        data sets are neighbours, ``data`` names the data set. All of them are settled when the file
        is made; given again, they must be the same. ``program`` is ``"adaptive"`` (the default:
        what is charged may depend on what was released) or one plan fixed in advance. ``key``
        makes the hashes of entries an HMAC. ``who`` is written into this opener's entries.

        >>> import mustdp as md, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with md.Ledger.open(f"{folder}/office.ledger", epsilon=4, delta=1e-6) as ledger:
        ...         entry = ledger.charge(md.laplace(shift=1.0), label="first")
        ...         print(f"{ledger.spent():.2f} of 4, {ledger.left():.2f} left")
        1.00 of 4, 3.00 left
        """
        from mustdp.ledger.opening import open_ledger

        return open_ledger(path, epsilon, delta, relation, data, program, key, who)

    def __sklearn_clone__(self) -> Ledger:
        """Itself: copies of an estimator that has a ledger charge that one, not a copy of it."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._shown().heading}>"

    def __str__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()

    def _shown(self) -> Shown:
        rows = tuple((str(count), in_words(atom)) for atom, count in self._counted().items())
        relation = "of each plan" if self.relation is None else self.relation.option
        return Shown(f"steps released: {self.steps}; relation {relation}", ("times", "what"), rows)

    @property
    def steps(self) -> int:
        """Number of atoms released so far."""
        return sum(self._counted().values())

    def _counted(self) -> dict[Atom, int]:
        """The atoms released so far, and how often."""
        return self._counts

    def step(self, plan: Plan, times: int = 1) -> None:
        """Record that ``plan`` was released ``times`` times."""
        times = checks.integer("times", times, 1)
        self._take({atom: times * count for atom, count in atoms(plan).items()})

    def merge(self, other: Ledger) -> None:
        """Take over everything another ledger has recorded; both relations must be the same."""
        if self.relation != other.relation:
            raise InvalidParameter(
                f"ledgers of different relations cannot be merged: {self.relation!r} and "
                f"{other.relation!r}"
            )
        self._take(other._counted())

    def _take(self, counted: dict[Atom, int]) -> None:
        """Add to the counts; nothing is lost where threads do so at the same time."""
        with _GUARD:
            counts = dict(self._counts)  # others may be reading the old ones
            for atom, count in counted.items():
                counts[atom] = counts.get(atom, 0) + count
            self._counts, self._account = counts, None

    @property
    def plan(self) -> Plan:
        """Everything released so far, as one plan."""
        counted = self._counted()
        if not counted:
            raise InvalidParameter("the ledger is empty: nothing was released yet")
        return self._joined(counted)

    @staticmethod
    def _joined(counted: dict[Atom, int]) -> Plan:
        return Sequence(tuple(Repeat(count, atom) for atom, count in counted.items()))

    def account(self) -> Account:
        """The account of everything released so far."""
        with _GUARD:  # or a step that is taken meanwhile would be forgotten
            if self._account is None:
                self._account = account(self.plan, relation=self.relation)
            return self._account

    def epsilon(self, delta: float) -> Bounds:
        """Bounds of epsilon at ``delta``; zero if nothing was released."""
        checks.real("delta", delta, above=0, below=1)
        return self.account().epsilon(delta) if self._counted() else Bounds(0.0, 0.0)

    def delta(self, epsilon: float) -> Bounds:
        """Bounds of delta at ``epsilon``; zero if nothing was released."""
        checks.real("epsilon", epsilon, at_least=0)
        return self.account().delta(epsilon) if self._counted() else Bounds(0.0, 0.0)

    def to_json(self) -> str:
        """The ledger as text."""
        entries = [
            {"count": count, "plan": describe(atom)} for atom, count in self._counted().items()
        ]
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
