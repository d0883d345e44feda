"""One thing to reproduce: a table or a figure of the paper, or several that share their work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mustdp.experiments.frame.cells import Outcome, Settings
from mustdp.numerics import checks

#: Data sets that an item may need; they are read from the folder given as ``Settings.data``.
DATA_SETS = ("adult", "mnist")

#: Called with a few words whenever an item has got further.
Report = Callable[[str], None]


@dataclass(frozen=True)
class Item:
    """What to reproduce: its name on the command line, its title, how to run it, data it needs."""

    name: str
    title: str
    run: Callable[[Settings, Report], Outcome]
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for need in self.needs:
            checks.choice("needs", need, DATA_SETS)
