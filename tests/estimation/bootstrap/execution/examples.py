"""Queries and sources that the tests send to other processes, and a plain loop to compare with."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from mustdp.data.columns import Source
from mustdp.estimation.queries import Halves, Query, QueryBlock
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.types import Design

#: Longest that anything here waits for another process.
PATIENCE = 30.0


@dataclass(frozen=True)
class Moments(Query):
    """Weighted sums and products of two columns: the last digits depend on the order of sums."""

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "blocks", (QueryBlock("sums", 2, 1.0), QueryBlock("products", 4, 1.0))
        )
        object.__setattr__(self, "labels", ("a",))

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        weighted = values * counts[:, None]
        return np.concatenate([weighted.sum(axis=0), (values.T @ weighted).ravel()])

    def estimate(self, vectors: FloatArray) -> FloatArray:
        return vectors[..., :1]


@dataclass(frozen=True)
class Halting(Moments):
    """Says in ``folder`` which process is at work, and waits there for the test to go on."""

    folder: Path

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        if not (self.folder / "go").exists():
            (self.folder / f"{os.getpid()}.pid").touch()
            wait_for(self.folder / "go")
        return super().total(values, counts, halves)


@dataclass(frozen=True)
class Deadly(Moments):
    """Kills every process but one."""

    spared: int

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        if os.getpid() != self.spared:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().total(values, counts, halves)


@dataclass(frozen=True)
class Noting(Moments):
    """Leaves word of its process."""

    folder: Path

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        (self.folder / f"{os.getpid()}.pid").touch()
        return super().total(values, counts, halves)


@dataclass(frozen=True)
class Failing(Noting):
    """Raises an error, and leaves word of its process."""

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        super().total(values, counts, halves)
        raise ArithmeticError("the statistic has no value here")


@dataclass(frozen=True)
class FileSource(Source):
    """Rows of a .npy file, opened anew whenever some are taken; counts how often."""

    rows_in_memory: ClassVar[bool] = False

    path: Path
    n: int = field(init=False)
    columns: tuple[str, ...] = ("a", "b")

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", len(np.load(self.path, mmap_mode="r")))

    def _read(self, indices: IntArray) -> FloatArray:
        with self.path.with_suffix(".passes").open("a") as log:
            log.write(f"{len(indices)}\n")
        rows: FloatArray = np.load(self.path, mmap_mode="r")[indices]
        return rows

    def passes(self) -> list[int]:
        """How many rows each pass over the file took so far."""
        log = self.path.with_suffix(".passes")
        return [int(line) for line in log.read_text().split()] if log.exists() else []


def expected(
    x: FloatArray,
    design: Design,
    query: Query,
    seed: int,
    lower: Sequence[float],
    upper: Sequence[float],
) -> FloatArray:
    """The vectors by a plain loop over all draws."""
    return np.array(
        [
            query.evaluate(np.clip(x[batch.indices], lower, upper), batch.counts)
            for _, batch in design.draws(seed, 0, design.releases)
        ]
    )


def wait_for(path: Path) -> None:
    """Wait until the file is there."""
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        time.sleep(0.01)


def process_at_work(folder: Path) -> int:
    """The first process that left word in ``folder``."""
    deadline = time.monotonic() + PATIENCE
    while True:
        if found := processes_seen(folder):
            return found[0]
        if time.monotonic() > deadline:
            raise TimeoutError(folder)
        time.sleep(0.01)


def processes_seen(folder: Path) -> list[int]:
    """All processes that left word in ``folder``."""
    return [int(path.stem) for path in folder.glob("*.pid")]


def all_gone(pids: Sequence[int]) -> bool:
    """Whether the processes end, given some time."""
    deadline = time.monotonic() + PATIENCE
    while any(_alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")  # where there is one, it tells a zombie
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not status.parent.parent.exists()


def kill(folder: Path, killed: list[int], victims: Sequence[int] = ()) -> None:
    """Kill the first process at work, or the given ones when it is; then let all others go on."""
    try:
        at_work = process_at_work(folder)
        for pid in victims or [at_work]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
    finally:
        (folder / "go").touch()
