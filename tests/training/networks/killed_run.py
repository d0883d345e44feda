"""Runs that are killed at a chosen moment and started again, each in a process of its own.

    python -m tests.training.networks.killed_run FOLDER

Writes, for every moment and into a folder of its own, what was drawn, what noise was added, what a
callback was shown and what the run ended with. The test beside this file reads that.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import mustdp as md
from mustdp.training.networks.clipping import Clipper
from mustdp.training.networks.noise import StepNoise
from mustdp.types import BatchStream
from tests.training.networks import runs

STEPS = 6
MOMENTS = (
    "while clipping",
    "after the noise",
    "before the update",
    "after the update",
    "half a file written",
    "before the file is moved",
    "after the file is moved",
    "before the callback",
    "after the callback",
)
AT_STEP = 3
#: Seeds, and how many steps are between two checkpoints.
KINDS = ((None, 1), (None, 2), (8, 2))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def log(folder: Path, name: str, entry: Any) -> None:
    """One line that has reached the disk when this returns."""
    with (folder / name).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps([os.getpid(), entry]) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def around(target: Any, name: str, before: Callable[..., None], after: Callable[..., None]) -> None:
    """Do something before and after a function."""
    inner = getattr(target, name)

    def outer(*given: Any, **named: Any) -> Any:
        before(*given)
        result = inner(*given, **named)
        after(*given)
        return result

    setattr(target, name, outer)


def nothing(*_: Any) -> None:
    """Nothing."""


def run(folder: Path, every: int, seed: int | None, moment: str | None, slow: float = 0.0) -> None:
    """The run, with its diary; killed at the moment, if there is one."""
    path = folder / "run.pt"

    def watch(event: Any) -> None:
        if moment == "before the callback" and event.steps >= AT_STEP:
            die()
        log(folder, "released", event.steps)
        if moment == "after the callback" and event.steps >= AT_STEP:
            die()
        time.sleep(slow)

    here: Any = runs.trainer(
        budget=runs.budget(STEPS), checkpoint=md.types.Checkpoint(path, every), seed=seed,
        callbacks=[watch],
    )  # fmt: skip

    def at(name: str) -> Callable[..., None]:
        return lambda *_: die() if moment == name and here.steps >= AT_STEP - 1 else None

    def saved(name: str) -> Callable[..., None]:
        def check(part: Any, *_: Any) -> None:
            if moment in (name, "half a file written") and here.steps >= AT_STEP:
                if moment == "half a file written":
                    os.truncate(part, os.path.getsize(part) // 2)
                die()

        return check

    def drew(stream: BatchStream, number: int) -> None:
        log(folder, "drawn", [number, stream.key.text])

    def quiet(_: Any, step: int, sums: Any) -> None:
        before.append(sums.clone())

    def noisy(_: Any, step: int, sums: Any) -> None:
        log(folder, "noise", [step, str((sums - before.pop())[:4].tolist())])
        at("after the noise")()

    before: list[Any] = []
    around(Clipper, "sum", at("while clipping"), nothing)
    around(StepNoise, "add", quiet, noisy)
    around(BatchStream, "batch", drew, nothing)
    around(os, "replace", saved("before the file is moved"), saved("after the file is moved"))
    here._optimizer.step = _stepping(here._optimizer.step, at)
    done = here.train(here.remaining)
    ended = {
        "steps": done.steps,
        "charged": done.ledger.steps,
        "weights": runs.weights(done.model).tolist(),
    }
    log(folder, "done", ended)


def _stepping(step: Callable[[], Any], at: Callable[[str], Callable[..., None]]) -> Any:
    def stepped() -> None:
        at("before the update")()
        step()
        at("after the update")()

    return stepped


def process(work: Callable[[], None], kill_after: float | None = None) -> int:
    """Run in a child; the signal that ended it, or 0."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as problem:
            print(repr(problem), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def main(root: Path) -> None:
    """All moments, with and without a seed; then kills at any time."""
    torch.set_num_threads(1)
    runs.trainer().train(1)  # what torch loads on first use is loaded before the children are made
    for seed, every in KINDS:
        for moment in MOMENTS:
            folder = root / f"{moment}, every {every}, seed {seed}"
            folder.mkdir()
            both = [
                process(lambda: run(folder, every, seed, moment)),  # noqa: B023
                process(lambda: run(folder, every, seed, None)),  # noqa: B023
            ]
            log(folder, "ends", both)
    folder = root / "any time"
    folder.mkdir()
    ends: list[int] = []
    wait = 0.02
    while not (folder / "done").exists() and len(ends) < 40:
        ends.append(process(lambda: run(folder, 1, None, None, slow=0.01), wait))
        wait *= 1.15
    log(folder, "ends", ends)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
