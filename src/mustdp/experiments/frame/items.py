"""One thing to reproduce: a table or a figure of the paper, or several that share their work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mustdp.experiments.frame.cells import Table
from mustdp.experiments.frame.pictures import Picture
from mustdp.numerics import checks
from mustdp.progress import Progress

#: Data sets that an item may need; they are read from the folder given as ``Settings.data``.
DATA_SETS = ("adult", "mnist")


@dataclass(frozen=True)
class Settings:
    """How an experiment is run: quick or in full, its seed, where data sets are, processes."""

    quick: bool
    seed: int
    data: Path | None
    workers: int = 2


@dataclass(frozen=True)
class Outcome:
    """Everything an experiment found; ``reading`` says in plain words what it shows."""

    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...] = ()
    reading: tuple[str, ...] = ()


@dataclass(frozen=True)
class Item:
    """What to reproduce: its name on the command line, its title, how to run it, data it needs."""

    name: str
    title: str
    run: Callable[[Settings, Progress], Outcome]
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for need in self.needs:
            checks.choice("needs", need, DATA_SETS)
