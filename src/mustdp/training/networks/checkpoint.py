"""The state of a run, its file, its charge in a ledger, and the way back when it breaks off."""

from __future__ import annotations

import copy
import io
import json
import os
import secrets
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mustdp.accounting.plan import describe
from mustdp.calibration.budget import Budget
from mustdp.errors import InvalidParameter
from mustdp.files.reading import Envelope, read_end, read_file
from mustdp.files.replacing import Lock, replace_file
from mustdp.files.replacing import held as lock_held
from mustdp.ledger.file import LedgerFile, gone_back
from mustdp.ledger.ledger import Ledger
from mustdp.ledger.release import LedgerOrPath, check_chargeable, find_ledger
from mustdp.sampling.schemes import BatchStream
from mustdp.training.networks.distributed import RECORDS, Ranks
from mustdp.training.networks.loaders import TrainingRecords
from mustdp.training.networks.settings import Checkpoint
from mustdp.training.networks.units import UnitRecords
from mustdp.version import __version__

# The state of a run as plain values and tensors, and what identifies the run.


_STATE_FIELDS = {
    *("run", "model", "optimizer", "scheduler", "batches", "ledger", "clipping", "average"),
    "extra",
}


def run_description(
    budget: Budget,
    max_grad_norm: float,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    seeded: bool,
    contributions: str,
) -> dict[str, str]:
    """Everything that must not change while a run is interrupted, as text by name."""
    shapes = {
        name: [list(p.shape), str(p.dtype), p.requires_grad] for name, p in model.named_parameters()
    }
    found = {
        "plan": describe(budget.plan()),
        "relation": budget.relation,
        "max_grad_norm": max_grad_norm,
        "model": {"class": type(model).__name__, "parameters": shapes},
        "optimizer": type(optimizer).__name__,
        "seed": "given" if seeded else "none",
        "contributions": contributions,
    }
    return {name: json.dumps(value, sort_keys=True) for name, value in found.items()}


def shared_facts(
    run: dict[str, str],
    budget: Budget,
    records: TrainingRecords | UnitRecords,
    scheduler: Any,
    ledger: str | None,
) -> dict[str, str]:
    """Everything that processes which make one run together must have in common, by name."""
    return {
        "version": __version__,
        **run,
        "delta": repr(budget.delta),
        RECORDS: records.fingerprint(),
        "scheduler": "none" if scheduler is None else type(scheduler).__name__,
        "ledger": str(ledger),
    }


def ledger_after(budget: Budget, steps: int) -> Ledger:
    """The ledger of the first steps of a budget; of epochs, all that were begun."""
    ledger = Ledger(budget.relation)
    if steps:
        ledger.step(budget.plan(steps))
    return ledger


def check_state(
    state: dict[str, Any], run: dict[str, str], budget: Budget, path: Path | None
) -> BatchStream:
    """Batches, at the step reached, of a state that belongs to this run; any other is refused."""
    refused = f"checkpoint {path} belongs to another run, nothing was changed: "
    if not isinstance(state, dict) or set(state) - {"charge"} != _STATE_FIELDS:
        raise InvalidParameter(f"{path} is no checkpoint of a training run")
    for name, here in run.items():
        there = state["run"].get(name)
        if there != here:
            raise InvalidParameter(f"{refused}its {name} is {_short(there)}, here {_short(here)}")
    batches = BatchStream.restore(state["batches"], budget.scheme)
    steps = batches.position
    ledger = Ledger.from_json(state["ledger"])
    if steps > budget.steps or ledger.to_json() != ledger_after(budget, steps).to_json():
        raise InvalidParameter(f"{refused}its ledger does not hold the steps that were drawn")
    return batches


def restore_state(state: dict[str, Any], parts: dict[str, Any]) -> None:
    """Put model, optimiser, schedule and the rest back where the state was taken."""
    for name, part in parts.items():
        if (part is None) != (state[name] is None):
            raise InvalidParameter(
                f"the checkpoint and this run must both have {_ARTICLES[name]}, or neither"
            )
    for name in ("optimizer", "model", "scheduler", "average", "extra"):
        if parts[name] is None:
            continue
        try:
            parts[name].load_state_dict(state[name])
        except ValueError as problem:
            raise InvalidParameter(f"the {name} does not fit the checkpoint: {problem}") from None


_ARTICLES = {
    "model": "a model",
    "optimizer": "an optimizer",
    "scheduler": "a scheduler",
    "average": "an ema",
    "extra": "extra state",
}


def _short(text: str | None) -> str:
    shown = "missing" if text is None else text
    return shown if len(shown) <= 160 else f"{shown[:157]}..."


# A run in one file, replaced in one move: the state after a step and the charge for it.
#
# The file is what ``torch.save`` writes, a zip archive, so that ``torch.load(path,
# weights_only=True)["model"]`` reads the weights. The archive's comment, at its end, is a line that
# names the format and a line with the SHA-256 of all before it. It is read back only if the sum is
# right, and without running any code from it. At every moment the path holds either the old state
# or the new one, complete; what a killed process leaves beside it is removed by the next.
#
# One run at a time: a lock beside the file is held while the run goes on, and before every write it
# is made sure that the lock is still in place and the file is the one this run has written or read
# last. So a run that is no longer alone stops, and what it would have shown is not shown.
#
# The file holds which records were drawn and everything about the model: keep it as secret as the
# data. It does not hold the noise or anything the noise could be computed from.


#: The kind of file and the version of its format.
_ENVELOPE = Envelope("mustdp training checkpoint", 2, "checkpoint of a training run")


class CheckpointFile:
    """The file of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._last: bytes | None = None
        self._lock: Lock | None = None
        if not self.path.parent.is_dir():
            raise InvalidParameter(
                f"checkpoint must be a file in a folder that exists, got {str(path)!r}"
            )

    def exists(self) -> bool:
        """Whether there is something to go on from, or in the way."""
        return os.path.lexists(self.path)

    def read(self) -> dict[str, Any]:
        """The state; anything unexpected is refused and the file is left alone."""
        try:
            content = read_file(self.path)
        except OSError as problem:
            raise InvalidParameter(f"checkpoint {self.path} cannot be read: {problem}") from None
        if content.startswith(_ENVELOPE.format.encode()):  # of version 1, which began with it
            _ENVELOPE.open_bytes(content, f"checkpoint {self.path}")
        comment, archive = content[-_ENVELOPE.head :], content[: -_ENVELOPE.head]
        _ENVELOPE.open_bytes(comment + archive, f"checkpoint {self.path}")
        state: dict[str, Any] = torch.load(
            io.BytesIO(content), map_location="cpu", weights_only=True
        )
        self._last = comment
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Replace the file; when this returns, the new state has reached the disk."""
        if self._lock is None:
            with self.held():
                self.write(state)
            return
        buffer = io.BytesIO()
        torch.save(state, buffer)
        # The last two bytes of an archive say how long the comment is that follows.
        archive = buffer.getvalue()[:-2] + struct.pack("<H", _ENVELOPE.head)
        comment, body = _ENVELOPE.seal_bytes(archive)
        replace_file(self.path, body, comment, guard=self._check_alone)
        self._last = comment
        self._lock.check()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs away, and refuse to go on from a file that one of them has changed."""
        beside = self.path.with_name(f"{self.path.name}.lock")
        with lock_held(beside, f"checkpoint {self.path}") as self._lock:
            try:
                self._check_alone()
                yield
            finally:
                self._lock = None

    def _check_alone(self) -> None:
        if self._lock is not None:
            self._lock.check()
        found = read_end(self.path, _ENVELOPE.head) if self.exists() else None
        if found != self._last:
            raise InvalidParameter(
                f"checkpoint {self.path} was written by another run in the meantime, or removed; "
                "nothing was changed"
            )


# The charge of a run to a ledger: the whole plan, once, on disk before the first step.
#
# A run may be stopped early by what it shows, so it is charged for all the steps it planned. With a
# checkpoint the first state, which names the run, is saved before the charge, and every later one
# names the state that it follows: killed in between, the run is found again and not charged twice,
# and a state that is not the latest is refused (``mustdp.ledger.file``).


_CHARGE_FIELDS = {"ledger", "run", "state", "after"}
#: The state of a run that has no checkpoint.
_UNSAVED = "nothing saved"


class RunCharge:
    """What ``ledger`` is to be charged for a run, and where it says the run stands."""

    def __init__(
        self, ledger: LedgerOrPath | None, budget: Budget, *, seeded: bool, checkpoint: bool
    ) -> None:
        ledger = None if ledger is None else find_ledger(ledger)
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
        if there is not None and set(there) != _CHARGE_FIELDS:
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


# The state of a run in its file, its charge in the ledger, and the way back when it breaks off.
#
# The order is: save, note the state in the ledger, tell all processes, show. What breaks off before
# that is taken back on every process, to what was shown last.
#
# **After a kill** the run goes on from the checkpoint with the same batches. Steps behind the
# checkpoint are made again, with fresh noise, and charged once: the first attempt was never shown.
# Fresh rather than the same noise, because noise that can be made again must be written down, and
# together with two checkpoints it reveals the gradients; and because two runs that go on from
# copies of one checkpoint would release different gradients under the same noise, which cancels.
# Batches are repeated, so copies of a checkpoint are not independent runs either: go on from one of
# them, the latest, which a ledger enforces (:class:`RunCharge`). With a seed everything is repeated
# exactly, for experiments; there is no privacy then anyway.


State = dict[str, Any]


class SavedRun:
    """The file of a run, if it has one; of several processes the first one writes it."""

    def __init__(self, wanted: Checkpoint | None, ranks: Ranks, charge: RunCharge) -> None:
        self.file = None if wanted is None else CheckpointFile(wanted.path)
        self._resume = wanted is not None and wanted.resume
        self._ranks, self._charge = ranks, charge
        #: With several processes, or a ledger that may refuse what is in the file already, the
        #: state that was shown last is kept in memory too.
        self._keeps = ranks.size > 1 or charge.ledger is not None
        self._shown: State | None = None

    def found(self, steps_of: Callable[[State], int]) -> State | None:
        """The state to go on from; checks that it, or a new run, fits the ledger."""
        if not self._ranks.first:
            return None
        state = None
        if self.file is not None and self.file.exists():
            if not self._resume:
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
        """Save the state after ``steps`` steps; when this returns, all processes may show it."""
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
