"""The charge of a run to a ledger: the whole plan, once, on disk before the first step.

A run may be stopped early by what it shows, so it is charged for all the steps it planned. With a
checkpoint the first state, which names the run, is saved before the charge, and every later one
names the state that it follows: killed in between, the run is found again and not charged twice,
and a state that is not the latest is refused (``mustdp.ledger.runs``).
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.ledger.budget_file import LedgerFile
from mustdp.ledger.release import LedgerOrPath, check_chargeable, find_ledger
from mustdp.ledger.runs import gone_back
from mustdp.training.budget import Budget

_FIELDS = {"ledger", "run", "state", "after"}
#: The state of a run that has no checkpoint.
_UNSAVED = "nothing saved"


class RunCharge:
    """What ``ledger`` is to be charged for a run, and where it says the run stands."""

    def __init__(
        self, ledger: LedgerOrPath, budget: Budget, *, seeded: bool, checkpoint: bool
    ) -> None:
        ledger = find_ledger(ledger)
        self._budget, self._paid = budget, False
        self._memory = None if isinstance(ledger, LedgerFile) else ledger
        self._file = ledger if isinstance(ledger, LedgerFile) else None
        self._run = secrets.token_hex(16)
        #: The state that is being saved, the one saved last, and in a run that goes on the one
        #: before that.
        self._state = self._saved = self._after = ""
        self._steps = 0
        if ledger is None:
            return
        if self._memory is not None and checkpoint:
            raise InvalidParameter(
                "ledger must be a file (Ledger.open) where there is a checkpoint, got one in "
                "memory, which would forget the run before the checkpoint does"
            )
        privacy = replace(budget.spent(), seeded=seeded)
        self._plan = check_chargeable(ledger, budget.scheme, privacy)

    @property
    def ledger(self) -> str | None:
        """The identity of the ledger in a file."""
        return None if self._file is None else self._file.header.identity

    def go_on(self, state: dict[str, Any] | None, steps: int) -> None:
        """Take over the charge of a saved state after ``steps`` steps, or see whether it fits.

        A state of another ledger and one that is not the latest are refused, and so is a charge
        that would pass the limit.
        """
        there = None if state is None else state.get("charge")
        if there is not None and set(there) != _FIELDS:
            raise InvalidParameter("the charge of a checkpoint must name its ledger and its run")
        if state is not None and (None if there is None else there["ledger"]) != self.ledger:
            raise InvalidParameter(
                "ledger must be the one that the run in the checkpoint began with: it began "
                f"{'without one' if there is None else 'with another one'}, and here it is "
                f"{'left out' if self._file is None else f'that of {self._file.header.data}'}"
            )
        if self._file is None:
            return
        if there is not None:
            self._run, self._saved, self._after = there["run"], there["state"], there["after"]
            self._steps = steps
            known = self._file.run(self._run).latest()
            if known is not None and known.state not in (there["state"], there["after"]):
                raise gone_back(self._run, known.steps)
            if known is None and steps:
                raise gone_back(self._run, None)
            if known is not None:
                return
        self._file.check(self._plan)

    def pay(self, first: bool) -> None:
        """Charge the whole plan, unless that was done; when this returns, steps may be made.

        Of several processes the first charges the file; a ledger in memory is each one's own.
        """
        if self._paid:
            return
        if self._memory is not None:
            self._memory.step(self._plan)
        if self._file is not None and first:
            self._begin(self._file)
        self._paid = True

    def next_state(self) -> dict[str, str] | None:
        """What the state that is about to be saved says about its charge."""
        if self._file is None:
            return None
        self._state = secrets.token_hex(16)
        named = {"run": self._run, "state": self._state, "after": self._saved}
        return {"ledger": self._file.header.identity, **named}

    def saved(self, steps: int) -> None:
        """Note in the ledger that the next state was saved; only then may it be shown."""
        if self._file is not None and self._paid:
            self._file.run(self._run).advance(self._saved, self._state, steps)
        self._saved = self._state

    def _begin(self, ledger: LedgerFile) -> None:
        """Charge the run, or note the state that a kill has kept from being noted."""
        run = ledger.run(self._run)
        known = run.latest()
        if known is None:
            label = f"training: {self._budget.steps} steps, run {self._run[:8]}"
            run.charge(self._plan, label=label, state=self._saved or _UNSAVED)
        elif known.state != (self._saved or _UNSAVED):
            run.advance(self._after, self._saved, self._steps)
