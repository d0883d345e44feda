"""What all ledgers share, the ledger in memory, and its JSON form."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mustdp.accounting.account import Account, account, in_words
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
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.files.reading import Envelope, read_file
from mustdp.files.replacing import replace_file
from mustdp.limits import LARGEST_LEDGER
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.formatting import Display

if TYPE_CHECKING:
    from mustdp.ledger.file import LedgerFile

# What a ledger has recorded, as a plan.


class History(Sequence):
    """What a ledger has recorded, as a plan: accounted for like any other, but no declaration.

    What was released is known by now, so that anyone who reads the plan off may have chosen it by
    what came out. Charged or declared, it counts as chosen along the way.
    """

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, Sequence) else NotImplemented

    __hash__ = Sequence.__hash__


def is_record(plan: Plan) -> bool:
    """Whether a plan, or a part of it, was read off a ledger."""
    parts: list[object] = [plan]
    while parts:
        one = parts.pop()
        if isinstance(one, History):
            return True
        parts.extend(getattr(one, "parts", ()))
        if hasattr(one, "inner"):
            parts.append(one.inner)
    return False


# A ledger in memory as JSON, sealed with a version and a checksum, and back.


#: The kind of file, the version of its format and its largest size.
_ENVELOPE = Envelope("mustdp-ledger", 1, "ledger", LARGEST_LEDGER)


def sealed(relation: Relation | None, counted: Mapping[Atom, int], adaptive: bool) -> str:
    """The relation and the counts of a ledger as text."""
    entries = [{"count": count, "plan": describe(atom)} for atom, count in counted.items()]
    # Left out where it is false: earlier versions read such a ledger, and refuse the others.
    chosen = {"adaptive": True} if adaptive else {}
    return _ENVELOPE.seal_text({"relation": relation, **chosen, "entries": entries})


def unsealed(content: str | bytes, where: str) -> tuple[Any, list[tuple[Plan, Any]], bool]:
    """The relation, the plans with their counts (still to be checked), and whether chosen."""
    body = _ENVELOPE.open_text(content, where)
    adaptive = body.pop("adaptive", False)
    if type(adaptive) is not bool:
        raise InvalidParameter(f"adaptive of the ledger must be true or false, got {adaptive!r}")
    if set(body) != {"relation", "entries"}:
        raise InvalidParameter(
            f"a ledger must hold relation and entries, got {', '.join(sorted(body))}"
        )
    entries = body["entries"]
    if not isinstance(entries, list):
        raise InvalidParameter(f"entries of the ledger must be a list, got {entries!r}")
    found = []
    for entry in entries:
        if not isinstance(entry, dict) or set(entry) != {"count", "plan"}:
            raise InvalidParameter(f"an entry must have count and plan, got {entry!r}")
        found.append((plan_from_description(entry["plan"]), entry["count"]))
    return body["relation"], found, adaptive


# What all ledgers share.


class BaseLedger(ABC):
    """What a ledger in memory and one in a file share: counts of atoms, and what they cost."""

    relation: Relation | None

    @property
    @abstractmethod
    def adaptive(self) -> bool:
        """Whether what was charged may have been chosen by what was released before."""

    @abstractmethod
    def _counted(self) -> dict[Atom, int]:
        """The atoms released so far, and how often."""

    @abstractmethod
    def step(self, plan: Plan, times: int = 1) -> None:
        """Record that a plan was released.

        Parameters
        ----------
        plan : Plan
            What was released, and is charged for.
        times : int, default=1
            How often.
        """

    @abstractmethod
    def merge(self, other: BaseLedger) -> None:
        """Take over everything another ledger has recorded.

        Parameters
        ----------
        other : Ledger or LedgerFile
            One of the same relation and, where both are files, of the same data.
        """

    @abstractmethod
    def account(self) -> Account:
        """The account of everything released so far.

        Returns
        -------
        Account
            That of :attr:`plan`, under the ledger's relation.

        Raises
        ------
        NotCovered
            Some of it was chosen along the way (:attr:`adaptive`): composition does not cover it.
        """

    def __sklearn_clone__(self) -> Self:
        """Itself: copies of an estimator that has a ledger charge that one, not a copy of it."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._display().heading}>"

    def __str__(self) -> str:
        return self._display().text()

    def _repr_html_(self) -> str:
        return self._display().html()

    def _display(self) -> Display:
        rows = tuple(
            (str(count), in_words(atom, released=True)) for atom, count in self._counted().items()
        )
        relation = "of each plan" if self.relation is None else self.relation.option
        heading = f"steps released: {self.steps}; relation {relation}"
        chosen = "; chosen along the way" if self.adaptive else ""
        return Display(heading + chosen, ("times", "what"), rows)

    @property
    def steps(self) -> int:
        """Number of atoms released so far."""
        return sum(self._counted().values())

    @property
    def plan(self) -> Plan:
        """Everything released so far, as one plan.

        Of a ledger that is :attr:`adaptive` it can be accounted for, but not be declared in
        advance; charged, it counts as chosen along the way.
        """
        counted = self._counted()
        if not counted:
            raise InvalidParameter("the ledger is empty: nothing was released yet")
        return self._joined(counted, History if self.adaptive else Sequence)

    @staticmethod
    def _joined(counted: dict[Atom, int], kind: type[Sequence] = Sequence) -> Plan:
        return kind(tuple(Repeat(count, atom) for atom, count in counted.items()))

    def _check_relation(self, other: Relation | None) -> None:
        if self.relation != other:
            raise InvalidParameter(
                f"ledgers of different relations cannot be merged: {self.relation!r} and {other!r}"
            )

    def _relation_used(self) -> Relation:
        """The relation of the ledger, or of the plans in it."""
        return self.relation or account(self.plan).relation

    def epsilon(self, delta: float) -> Bounds:
        """Bounds of epsilon of everything released so far.

        Parameters
        ----------
        delta : float
            The delta to ask about, above 0 and below 1.

        Returns
        -------
        Bounds
            The upper one is certified; zero if nothing was released.
        """
        checks.real("delta", delta, above=0, below=1)
        return self.account().epsilon(delta) if self._counted() else Bounds(0.0, 0.0)

    def delta(self, epsilon: float) -> Bounds:
        """Bounds of delta of everything released so far.

        Parameters
        ----------
        epsilon : float
            The epsilon to ask about, from 0 to 500.

        Returns
        -------
        Bounds
            The upper one is certified; zero if nothing was released.
        """
        checks.real("epsilon", epsilon, at_least=0)
        return self.account().delta(epsilon) if self._counted() else Bounds(0.0, 0.0)

    def to_json(self) -> str:
        """The ledger as text.

        Returns
        -------
        str
            JSON, with a version and a checksum.
        """
        return sealed(self.relation, self._counted(), self.adaptive)

    def save(self, path: str | Path) -> None:
        """Write the ledger to a file that only its owner can read, all of it or nothing.

        Parameters
        ----------
        path : str or path
            The file, which is replaced.
        """
        replace_file(path, self.to_json().encode("ascii"))


# The ledger in memory: what was released, step by step, and what it costs so far.
#
# A ledger is a count of atoms, nothing more: ten identical steps are one entry of ten, so they
# cost what ``repeat(10, …)`` costs. It is written as JSON, sealed with a version and a checksum,
# and read back only if both are right; a file is replaced in one move or not at all. It has no
# limit, and two processes that load and save the same JSON lose what one of them wrote:
# :meth:`Ledger.open` is for a budget that many share.


#: One for all ledgers, so that a ledger can be pickled.
_GUARD = threading.RLock()


class Ledger(BaseLedger):
    """Records releases, and says at any time what they cost together.

    Parameters
    ----------
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means that of the plans.

    Examples
    --------
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
        self._adaptive = False

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

        What is settled when the file is made must be the same where it is given again.

        Parameters
        ----------
        path : str or path
            The file.
        epsilon : float, default=None
            The limit; a new file needs one.
        delta : float, default=None
            The delta at which all epsilons are stated; a new file needs one.
        relation : {"replace_one", "add_remove"}, default=None
            Which data sets are neighbours; None means replace_one in a new file.
        data : str, default=None
            A name for the data set; None means the file's name.
        program : "adaptive" or Plan, default=None
            What may be charged: a plan fixed in advance, or what is chosen along the way (None).
        key : bytes, default=None
            Makes the hashes of entries an HMAC; the file is then opened with it alone.
        who : str, default=None
            Written into this opener's entries; None means the user's name.

        Returns
        -------
        LedgerFile
            To be used in ``with``; ``charge``, ``check``, ``spent`` and ``left`` ask of the limit.

        Raises
        ------
        InvalidParameter
            The file is damaged, or was made with something else.
        BudgetExceeded
            The plan that is fixed in advance costs more than the limit.

        Examples
        --------
        >>> import mustdp as md, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with md.Ledger.open(f"{folder}/office.ledger", epsilon=4, delta=1e-6) as ledger:
        ...         entry = ledger.charge(md.laplace(shift=1.0), label="first")
        ...         print(f"{ledger.spent():.2f} of 4, {ledger.left():.2f} left")
        1.00 of 4, 3.00 left
        """
        from mustdp.ledger.file import open_ledger

        return open_ledger(path, epsilon, delta, relation, data, program, key, who)

    @property
    def adaptive(self) -> bool:
        """Whether some of it is known to have been chosen along the way.

        A ledger in memory records what it is told, and takes that as a plan fixed in advance. What
        it takes over from a ledger in a file whose charges were chosen by earlier releases stays
        so, in copies and in JSON as well: composition does not cover it.
        """
        return self._adaptive

    def _counted(self) -> dict[Atom, int]:
        return self._counts

    def step(self, plan: Plan, times: int = 1) -> None:
        """Record that a plan was released."""
        times = checks.integer("times", times, 1)
        counted = {atom: times * count for atom, count in atoms(plan).items()}
        self._take(counted, is_record(plan))

    def merge(self, other: BaseLedger) -> None:
        """Take over everything another ledger has recorded."""
        self._check_relation(other.relation)
        self._take(other._counted(), other.adaptive)

    def _take(self, counted: dict[Atom, int], adaptive: bool) -> None:
        """Add to the counts; nothing is lost where threads do so at the same time."""
        with _GUARD:
            self._adaptive = self._adaptive or adaptive
            counts = dict(self._counts)  # others may be reading the old ones
            for atom, count in counted.items():
                counts[atom] = counts.get(atom, 0) + count
            self._counts, self._account = counts, None

    def account(self) -> Account:
        """The account of everything released so far, worked out once."""
        with _GUARD:  # or a step that is taken meanwhile would be forgotten
            if self._adaptive:
                raise NotCovered(
                    "the ledger holds what was chosen along the way, which composition does not "
                    "cover: merge it into a ledger in a file (Ledger.open), whose filter does, or "
                    "account for its plan as if it had been fixed in advance, for comparison alone"
                )
            if self._account is None:
                self._account = account(self.plan, relation=self.relation)
            return self._account

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Read a ledger; anything unexpected is refused.

        Parameters
        ----------
        text : str
            What :meth:`to_json` gave.

        Returns
        -------
        Ledger
            A ledger in memory.
        """
        return cls._opened(text, "the text")

    @classmethod
    def _opened(cls, content: str | bytes, where: str) -> Ledger:
        relation, entries, adaptive = unsealed(content, where)
        ledger = cls(relation)
        for plan, count in entries:
            ledger.step(plan, count)
        ledger._adaptive = adaptive
        return ledger

    @classmethod
    def load(cls, path: str | Path) -> Ledger:
        """Read a ledger from a file.

        Parameters
        ----------
        path : str or path
            What :meth:`save` wrote.

        Returns
        -------
        Ledger
            A ledger in memory.
        """
        return cls._opened(read_file(path, LARGEST_LEDGER), str(path))
