"""The options of a training run that outlives its process: ledger, checkpoint, model, device."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli.typed import Panel

if TYPE_CHECKING:
    from mustdp.ledger.budget_file import LedgerFile
    from mustdp.training.budget import Budget

_run = Panel(
    "Run",
    """
    --ledger FILE      Charge the run to this ledger (mustdp ledger create) before its first step;
                       one that would pass the limit is refused, and with -n before the data are
                       read.
    --checkpoint FILE  Save the run after every step (mlp), so that it can go on after an
                       interruption. As secret as the data.
    --resume           Go on from the file of --checkpoint; nothing is charged again.
    --save FILE        Write the trained model: arrays of numpy (linear), a state_dict of torch
                       (mlp). With --seed the file is marked as an experiment (seeded).
    --device NAME      Where to train the mlp: cpu, cuda, cuda:1.
    """,
)


@dataclass(frozen=True)
class RunFiles:
    """``--ledger``, ``--checkpoint``, ``--resume``, ``--save`` and ``--device``."""

    ledger: Annotated[str | None, _run("--ledger")] = None
    checkpoint: Annotated[str | None, _run("--checkpoint")] = None
    resume: Annotated[bool, _run("--resume")] = False
    save: Annotated[str | None, _run("--save")] = None
    device: Annotated[str | None, _run("--device")] = None

    def read(self) -> dict[str, Any]:
        """All but the ledger, as the package takes them."""
        given = dataclasses.asdict(self)
        del given["ledger"]
        return given

    def check(self, model: str) -> None:
        """Refuse what cannot be gone on from or written, before any work."""
        from mustdp.training.classify import check_files

        check_files(model, **self.read())

    def opened(self) -> AbstractContextManager[LedgerFile | None]:
        """The ledger, closed at the end."""
        from mustdp.ledger.release import open_existing

        return nullcontext() if self.ledger is None else open_existing(self.ledger)

    def check_charge(self, ledger: LedgerFile, budget: Budget, seed: int | None) -> None:
        """Refuse a new run that cannot be charged or would pass the limit."""
        from mustdp.ledger.release import check_release

        if not self.resume:
            privacy = dataclasses.replace(budget.spent(), seeded=seed is not None)
            check_release(ledger, budget.scheme, privacy)
