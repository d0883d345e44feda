"""The ledger in a file: charged by many processes at once, never beyond its limit.

A charge is one transaction: read where the ledger stands, add, compare with the limit, append,
commit. What has to be computed about the plan alone is computed before, so that others wait for the
disk and not for mathematics. Noise is drawn only after :meth:`LedgerFile.charge` has returned.
"""

from __future__ import annotations

from typing import NoReturn, Self

from mustdp.accounting.account import account
from mustdp.accounting.answers import Account
from mustdp.accounting.plan import Plan
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.ledger import entry as stored
from mustdp.ledger.book import Beside, Book
from mustdp.ledger.declared import History, certified, declared
from mustdp.ledger.entry import Entry, Header, Standing
from mustdp.ledger.exports import as_csv, as_json, shown
from mustdp.ledger.ledger import Ledger
from mustdp.ledger.program import Outcome, judge, refusal
from mustdp.ledger.runs import ChargedRun
from mustdp.ledger.verifying import StoredPlans, Verified, checked_entries, verify
from mustdp.numerics import checks
from mustdp.numerics.tables import Shown


class LedgerFile(Book):
    """A ledger in a file with a limit; made and opened by :meth:`mustdp.Ledger.open`.

    Any number of processes may have it open. Use it in ``with``, or :meth:`close` it.
    """

    @property
    def path(self) -> str:
        """Where the file is."""
        return str(self._store.path)

    @property
    def header(self) -> Header:
        """What was settled when the ledger was made: limit, relation, program, name of the data."""
        return self._header

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; the next question or charge opens it again."""
        self._store.close()

    def _shown(self) -> Shown:
        return shown(self._header, self.entries(), self.spent(), self.left())

    def __reduce__(self) -> NoReturn:
        raise InvalidParameter("a ledger in a file must be opened by each process, not sent to it")

    @classmethod
    def from_json(cls, text: str) -> NoReturn:
        """Refused: JSON holds a ledger in memory, which ``Ledger.from_json`` reads.

        Parameters
        ----------
        text : str
            What :meth:`to_json` gave.

        Returns
        -------
        NoReturn
            Nothing ever.

        Raises
        ------
        InvalidParameter
            Always.
        """
        raise _no_json("from_json")

    @classmethod
    def load(cls, path: object) -> NoReturn:
        """Refused: a ledger in a file is opened with ``Ledger.open``.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        NoReturn
            Nothing ever.

        Raises
        ------
        InvalidParameter
            Always.
        """
        raise _no_json("load")

    def charge(
        self, plan: Plan, *, label: str = "", times: int = 1, beside: Beside | None = None
    ) -> Entry:
        """Charge runs of a plan; when this returns, the charge has reached the disk.

        Draw noise only afterwards.

        Parameters
        ----------
        plan : Plan
            What is to be released.
        label : str, default=""
            What the charge is for, in one line.
        times : int, default=1
            How many runs of the plan.
        beside : callable, default=None
            What writes something in the same transaction: it is written with the charge, or neither
            is. It takes the connection and the head after the charge, and returns the head to keep.

        Returns
        -------
        Entry
            The charge as it was written.

        Raises
        ------
        BudgetExceeded
            The charge does not fit the limit of the ledger; nothing was written.
        NotCovered
            No theorem of this package covers what was asked.
        """
        asked = self._asked(plan, times)
        label = stored.words("label", label)
        self._foresee(asked)
        with self._store.writing() as connection:
            head = self._head(connection)
            outcome = judge(self._header, head, asked)
            if isinstance(outcome, Outcome):
                done, after = self._append(connection, head, asked, outcome, label)
                if beside is not None:
                    after = beside(connection, after)
        if not isinstance(outcome, Outcome):
            raise refusal(self._header, head, asked, outcome)
        self._saw(after)
        return done

    def check(self, plan: Plan, *, times: int = 1) -> float:
        """What the ledger would have spent with a charge.

        Nothing is written, and nothing is reserved: somebody else may be faster.

        Parameters
        ----------
        plan : Plan
            What is to be released.
        times : int, default=1
            How many runs of the plan.

        Returns
        -------
        float
            The epsilon spent then, of the kind that is enforced.

        Raises
        ------
        BudgetExceeded
            The charge does not fit the limit of the ledger; nothing was written.
        """
        asked = self._asked(plan, times)
        self._foresee(asked)
        head = self._now()
        outcome = judge(self._header, head, asked)
        if not isinstance(outcome, Outcome):
            raise refusal(self._header, head, asked, outcome)
        return outcome.epsilon

    def step(self, plan: Plan, times: int = 1) -> None:
        """Charge, as a ledger in memory does; see :meth:`charge`."""
        self.charge(plan, times=times)

    def run(self, name: str) -> ChargedRun:
        """A run that is charged once, however often it is interrupted (``runs.py``).

        Parameters
        ----------
        name : str
            The run's name.

        Returns
        -------
        ChargedRun
            What charges it and keeps its latest state.
        """
        return ChargedRun(stored.words("run", name, empty=False), self, self.charge)

    @property
    def next_step(self) -> Plan | None:
        """The step of the declared plan that comes next; None if no plan was declared.

        At the end of the plan it is the last step once more, which is refused when it is charged.
        """
        plan = self._header.plan
        return None if plan is None else declared(plan).step_after(self.steps)

    @property
    def adaptive(self) -> bool:
        """Whether what was charged may have been chosen by what was released before.

        Not so of a single charge, which came before all releases, nor of a declared plan that was
        gone through to its end. Where the plan was left early, that may have been a choice.
        """
        head, plan = self._now(), self._header.plan
        if plan is not None:
            return 0 < head.steps < declared(plan).steps
        return head.recorded or head.number > 1

    def merge(self, other: Ledger) -> None:
        """Charge everything another ledger has recorded, as one entry, if all of it fits.

        It was released before, and counts as chosen along the way even as the first entry. A ledger
        with a declared plan takes nothing over.
        """
        if isinstance(other, LedgerFile):
            if other.header.identity == self._header.identity:
                raise InvalidParameter("a ledger must not be merged with itself")
            if other.header.data != self._header.data:
                raise InvalidParameter(
                    f"ledgers of different data cannot be merged: {self._header.data!r} and "
                    f"{other.header.data!r}"
                )
        relation = other._relation_used()
        if relation != self.relation:
            raise InvalidParameter(
                f"ledgers of different relations cannot be merged: {self.relation!r} and "
                f"{relation!r}"
            )
        counted = other._counted()
        if not counted:
            raise InvalidParameter("the ledger is empty: nothing was released yet")
        steps = sum(counted.values())
        self.charge(self._joined(counted, History), label=f"merged: {steps} steps")

    def entries(self, since: int = 0) -> tuple[Entry, ...]:
        """The entries in their order.

        Parameters
        ----------
        since : int, default=0
            Only those after this number.

        Returns
        -------
        tuple of Entry
            As they were written.
        """
        first = checks.integer("since", since, 0)
        path, chain = self._store.path, self._chain
        with self._store.reading() as connection:
            head = self._head(connection)
            before = self._hash_at(connection, first)
            if first >= head.number or not isinstance(before, bytes):
                return ()
            plans = StoredPlans(connection, path)
            rows = list(checked_entries(connection, path, chain, plans, (first, before), head))
        return tuple(self._entry((*row[:4], plans.texts[row.plan][0], *row[5:])) for row in rows)

    def spent(self) -> float:
        """The epsilon spent so far, of the kind that is enforced.

        Returns
        -------
        float
            At the ledger's delta.
        """
        return self._now().epsilon

    def left(self) -> float:
        """What is left of the limit; 0 if the first charge took the whole of it.

        Returns
        -------
        float
            At the ledger's delta.
        """
        head = self._now()
        return 0.0 if head.whole else max(0.0, self._header.epsilon - head.epsilon)

    def standing(self) -> Standing:
        """Where the ledger stands, in both ways of counting; the second one takes accounting.

        Returns
        -------
        Standing
            All numbers at the same moment.
        """
        with self._store.reading() as connection:
            head = self._head(connection)
            counted = self._read_counts(connection, head)
        header = self._header
        fixed = 0.0
        if counted:
            fixed = certified(self._joined(counted), header.relation, header.delta)
        left = 0.0 if head.whole else max(0.0, header.epsilon - head.epsilon)
        adaptive = header.filter.spent(head.cost)
        return Standing(
            header.program,
            header.epsilon,
            header.delta,
            head.epsilon,
            left,
            adaptive,
            fixed,
            head.number,
            sum(counted.values()),
        )

    def verify(self, known: str | None = None) -> Verified:
        """Read every entry, check all hashes and add everything up again.

        Parameters
        ----------
        known : str, default=None
            The hash of an entry (:attr:`Entry.hash`) or of a note about a run (``note`` of an
            earlier answer) that somebody remembers: it must still be there, so that a file put back
            to an older state is noticed.

        Returns
        -------
        Verified
            How many entries were found right, the last one's hash, what they cost, and the hash of
            the last note about a run.

        Raises
        ------
        InvalidParameter
            The file is damaged, or was put back.
        """
        with self._store.reading() as connection:
            head = self._head(connection)
            path, chain = self._store.path, self._chain
            return verify(connection, path, chain, self._root, self._header, head, known)

    def export_json(self) -> str:
        """Header and entries as JSON.

        Returns
        -------
        str
            JSON.
        """
        return as_json(self._header, self.entries())

    def export_csv(self) -> str:
        """The entries as a table.

        Returns
        -------
        str
            CSV with a line of names.
        """
        return as_csv(self.entries())

    def account(self) -> Account:
        """The account of everything charged so far, where it was fixed in advance.

        Returns
        -------
        Account
            That of :attr:`plan`, under the ledger's relation.

        Raises
        ------
        NotCovered
            More than one charge was chosen along the way: composition does not cover them.
        """
        if self._header.plan is None and self.adaptive:
            raise NotCovered(
                "the charges were chosen along the way, which composition does not cover: spent() "
                "is what the ledger enforces, and standing().fixed is what they would cost had all "
                "of them been fixed in advance"
            )
        return account(self.plan, relation=self.relation)


def _no_json(name: str) -> InvalidParameter:
    return InvalidParameter(
        f"LedgerFile.{name} is left out: a ledger in a file is opened with Ledger.open, and "
        f"Ledger.{name} reads the JSON of a ledger in memory"
    )
