"""What each of two processes does in runs that go wrong, and what it saw then."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed

import mustdp as md
from mustdp import calibrated_budget
from mustdp.ledger.file import ChargedRun
from mustdp.training.networks.checkpoint import CheckpointFile
from mustdp.types import LedgerFile, SeededRelease
from tests.training.networks import runs
from tests.training.networks.two_processes import join

Found = dict[str, dict[str, Any]]


class Breaking:
    """A data set that fails, on one process, from some record taken on, and quotes it."""

    def __init__(self, fails: bool) -> None:
        self.inputs, self.target = runs.data()
        self.left = 40 if fails else 10**9

    def __len__(self) -> int:
        return runs.N

    def __getitem__(self, k: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ValueError(f"bad record {self.inputs[k].tolist()}, a secret")
        return self.inputs[k], self.target[k]


def attempt(work: Callable[[], Any]) -> dict[str, Any]:
    """What was raised, as text, and after how many seconds."""
    start = time.monotonic()
    try:
        work()
    except BaseException as problem:
        raised = [type(problem).__name__, str(problem)]
    else:
        raised = ["nothing", ""]
    return {"raised": raised, "seconds": time.monotonic() - start}


def differing(rank: int, folder: Path) -> Found:
    """One thing at a time is another one on the second process."""
    other = rank == 1
    office, second = (md.Ledger.open(folder / f"{name}.ledger") for name in ("office", "second"))
    budget = runs.budget()
    wide = calibrated_budget(budget.scheme, steps=6, noise_multiplier=1.5, delta=1e-2)
    cases: dict[str, dict[str, Any]] = {
        "max_grad_norm": {"max_grad_norm": 100.0 if other else 1.0},
        "noise": {"budget": runs.budget(z=0.1 if other else 1.5)},
        "scheme": {"budget": runs.budget(scheme=md.wor(60, 20) if other else None)},
        "steps": {"budget": runs.budget(7 if other else 6)},
        "delta": {"budget": wide if other else budget},
        "records": {
            "data": runs.data(61 if other else 60),
            "budget": runs.budget(scheme=md.poisson(60, 0.2)),
        },
        "order of the records": {"data": tuple(x.flip(0) if other else x for x in runs.data())},
        "seed": {"seed": 1 if other else None},
        "losses": {"losses": other},
        "max_rows": {"compute": md.types.Compute(max_rows=1 if other else None)},
        "checkpoint": {"checkpoint": folder / "none.pt" if other else None},
        "ledger": {"ledger": second if other else office},
        "ledger on the second only": {"ledger": office if other else None},
    }
    found = {name: attempt(lambda: runs.trainer(**case)) for name, case in cases.items()}  # noqa: B023
    lazy = runs.trainer()
    found["train"] = attempt(lambda: lazy.train(2 if other else 3))
    office.close()
    second.close()
    return found


def failing(rank: int, folder: Path) -> Found:
    """One process fails in the middle of a run; what both hold then, and how they go on."""
    found: Found = {}

    def run(name: str, meddle: Callable[[Any], None], every: int = 1, **options: Any) -> None:
        file = folder / f"{name}.pt"
        shown: list[int] = []
        trainer: Any = runs.trainer(
            checkpoint=md.types.Checkpoint(file, every),
            callbacks=[lambda event: shown.append(event.steps)],
            **options,
        )
        meddle(trainer)
        seen = attempt(trainer.train)
        seen |= {"shown": list(shown), "steps": trainer.steps}
        seen["weights"] = runs.weights(trainer.model).clone()
        state = CheckpointFile(file).read()
        seen["on disk"] = md.Ledger.from_json(state["ledger"]).steps
        seen["of disk"] = torch.cat([v.flatten() for v in state["model"].values()])
        vars(trainer).pop("_update", None)  # mended
        trainer._callbacks = trainer._callbacks[:1]
        if name != "data":
            seen["end"] = runs.weights(trainer.train().model)
            seen["all shown"] = shown
        found[name] = seen

    def break_update(trainer: Any) -> None:
        update = trainer._update

        def breaking() -> None:
            update()
            if trainer.steps == 4:
                raise RuntimeError("no memory")

        trainer._update = breaking

    def break_callback(trainer: Any) -> None:
        def callback(event: Any) -> None:
            if event.steps == 3:
                raise RuntimeError("no plot")

        trainer._callbacks = (*trainer._callbacks, callback)

    def nothing(_: Any) -> None:
        pass

    run("data", nothing, data=Breaking(rank == 1))
    run("update", break_update if rank == 0 else nothing, every=6)
    run("callback", break_callback if rank == 1 else nothing)
    return found


def charging(rank: int, folder: Path) -> Found:
    """A ledger for both: nothing is shown before it is charged, and what is refused is for all."""
    found: Found = {}
    with md.Ledger.open(folder / "office.ledger") as ledger:
        seen: list[tuple[int, int, int]] = []

        def look(event: Any) -> None:
            [run] = runs_of(ledger)
            latest = ledger.run(run).latest()
            seen.append(
                (event.steps, len(ledger.entries()), -1 if latest is None else latest.steps)
            )

        own = ledger if rank == 0 else None  # the second one need not reach it
        trainer = runs.trainer(ledger=own, checkpoint=folder / "charged.pt", callbacks=[look])
        advance = ChargedRun.advance

        def full(self: ChargedRun, after: str, state: str, steps: int) -> None:
            if steps == 3:
                raise OSError("no space left on device")
            advance(self, after, state, steps)

        ChargedRun.advance = full  # type: ignore[method-assign]
        found["not noted"] = attempt(trainer.train) | {"shown": list(seen), "steps": trainer.steps}
        ChargedRun.advance = advance  # type: ignore[method-assign]
        found["gone on"] = attempt(trainer.train) | {"shown": list(seen), "steps": trainer.steps}
        found["gone on"]["weights"] = runs.weights(trainer.model)
        found["full"] = attempt(lambda: runs.trainer(ledger=ledger))
    return found


def runs_of(ledger: LedgerFile) -> list[str]:
    """The names of the runs in a ledger."""
    with ledger._store.reading() as connection:
        return [row[0] for row in connection.execute("SELECT name FROM runs")]


def together(rank: int, size: int, folder: str) -> None:
    """Everything above, one after the other in the same two processes."""
    warnings.simplefilter("ignore", SeededRelease)
    join(rank, size, folder)
    found: Found = {}
    for part in (differing, failing, charging):
        found |= {
            f"{part.__name__} {name}": seen for name, seen in part(rank, Path(folder)).items()
        }
    torch.save(found, Path(folder) / f"rank{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()


def cut_off(rank: int, size: int, folder: str, how: str) -> None:
    """The second one is killed, interrupted as it waits, fails between two exchanges, or hangs."""
    join(rank, size, folder)

    def go(event: Any) -> None:
        if rank == 1 and event.steps == 2 and how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1 and event.steps == 2 and how == "interrupted":
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            (Path(folder) / "soon").touch()
        if rank == 1 and event.steps == 2 and how == "hanging":
            time.sleep(100)
        if rank == 0 and event.steps == 2 and how == "interrupted":
            while not (Path(folder) / "soon").exists():
                time.sleep(0.05)
            time.sleep(3)

    trainer: Any = runs.trainer(
        checkpoint=md.types.Checkpoint(Path(folder) / "run.pt", 2),
        callbacks=[go],
        compute=md.types.Compute(timeout=10.0),
    )
    step = trainer._step

    def astray(update: bool) -> Any:
        if rank == 1 and trainer.steps == 3 and how == "astray":
            raise KeyboardInterrupt
        return step(update)

    trainer._step = astray
    seen = attempt(trainer.train) | {"steps": trainer.steps}
    seen["again"] = attempt(trainer.train)["raised"] if how == "hanging" else None
    torch.save(seen, Path(folder) / f"rank{rank}.pt")
    if rank == 1:
        time.sleep(100)  # it failed but lives
    os._exit(0)
