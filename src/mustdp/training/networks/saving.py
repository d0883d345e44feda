"""The state of a run in its file, its charge in the ledger, and the way back when it breaks off.

The order is: save, note the state in the ledger, tell all processes, show. What breaks off before
that is taken back on every process, to what was shown last.

**After a kill** the run goes on from the checkpoint with the same batches. Steps behind the
checkpoint are made again, with fresh noise, and charged once: nobody has seen the first attempt.
Fresh rather than the same noise, because noise that can be made again must be written down, and
whoever has it and two checkpoints has the gradients; and because two runs that go on from copies
of one checkpoint would release different gradients under the same noise, which cancels. Batches
are repeated, so copies of a checkpoint are not independent runs either: go on from one of them,
the latest, which a ledger enforces (``charging.py``).
With a seed everything is repeated exactly, for experiments; there is no privacy then anyway.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.training.networks.charging import RunCharge
from mustdp.training.networks.checkpoint import CheckpointFile
from mustdp.training.networks.ranks import Ranks

State = dict[str, Any]


class SavedRun:
    """The file of a run, if it has one; of several processes the first one writes it."""

    def __init__(self, path: str | Path | None, ranks: Ranks, charge: RunCharge) -> None:
        self.file = None if path is None else CheckpointFile(path)
        self._ranks, self._charge = ranks, charge
        #: With several processes, or a ledger that may refuse what is in the file already, the
        #: state that was shown last is kept in memory too.
        self._keeps = ranks.size > 1 or charge.ledger is not None
        self._shown: State | None = None

    def found(self, resume: bool, steps_of: Callable[[State], int]) -> State | None:
        """The state to go on from; whether it, or a new run, fits the ledger is asked here."""
        if not self._ranks.first:
            return None
        state = None
        if self.file is not None and self.file.exists():
            if not resume:
                raise InvalidParameter(
                    f"checkpoint {self.file.path} exists; resume=True goes on from it, another "
                    "name starts anew"
                )
            state = self.file.read()
        self._charge.go_on(state, 0 if state is None else steps_of(state))
        return state

    @property
    def path(self) -> Path | None:
        """Where the file is."""
        return None if self.file is None else self.file.path

    def held(self) -> AbstractContextManager[None]:
        """Keep other runs away from the file."""
        return self.file.held() if self.file is not None and self._ranks.first else nullcontext()

    def begin(self, state: State) -> None:
        """Save the first state where there is none, and charge the run: then steps may be made."""
        with self._ranks.together():
            if self.file is not None and self._ranks.first and not self.file.exists():
                self._write(self.file, state, 0)
            self._charge.pay(self._ranks.first)
        self._keep(state)

    def save(self, state: State, steps: int) -> None:
        """Save the state after so many steps; when this returns, all processes may show it."""
        if self.file is None:
            return
        with self._ranks.together():
            if self._ranks.first:
                self._write(self.file, state, steps)
        self._keep(state)

    def back(self) -> State | None:
        """The state that was shown last, if it is known."""
        if self._keeps:
            return self._shown
        return self.file.read() if self.file is not None and self.file.exists() else None

    def _write(self, file: CheckpointFile, state: State, steps: int) -> None:
        charge = self._charge.next_state()
        file.write(state if charge is None else {**state, "charge": charge})
        self._charge.saved(steps)

    def _keep(self, state: State) -> None:
        if self.file is not None and self._keeps:
            self._shown = copy.deepcopy(state)
