"""What an experiment hands back: cells with a verdict, tables, pictures and words.

A cell holds the paper's number, ours, and what follows from comparing them. Nothing here computes
an experiment, and no verdict is set by hand: :func:`judge` derives it from the two numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["matches", "differs, explained", "differs", "new"]
Kind = Literal["paper", "guarantee", "equal"]

VERDICTS: tuple[Verdict, ...] = ("matches", "differs, explained", "differs", "new")
KINDS: tuple[Kind, ...] = ("paper", "guarantee", "equal")

#: Standard errors that a Monte Carlo value may lie away from the truth.
_ERRORS = 3.0
#: Room for the rounding of decimal numbers to binary ones.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Cell:
    """One number of a table: the paper's, ours, our Monte Carlo standard error, the verdict."""

    row: str
    column: str
    paper: float | None
    ours: float | None
    error: float | None = None
    verdict: Verdict = "new"
    reason: str = ""

    def __post_init__(self) -> None:
        checks.choice("verdict", self.verdict, VERDICTS)
        for name in ("paper", "ours", "error"):
            value = getattr(self, name)
            if value is not None:
                checks.real(name, value, at_least=0.0 if name == "error" else None)


@dataclass(frozen=True)
class Table:
    """Cells under one title.

    ``kind`` is ``paper`` for the paper's own numbers, ``guarantee`` for the certified bounds that
    the paper's noise really gives, ``equal`` for all schemes at the same certified guarantee.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    kind: Kind
    note: str = ""

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, KINDS)

    def count(self, verdict: Verdict) -> int:
        """How many cells have this verdict."""
        return sum(cell.verdict == verdict for cell in self.cells)


@dataclass(frozen=True)
class Picture:
    """A picture that is drawn when ``figure()`` is called, from data that JSON can hold.

    ``figure`` is ``functools.partial(drawing, **data)``: ``drawing`` a function of this package at
    the top level of its module, ``data`` keyword arguments made of numbers, text, lists, tuples
    and dictionaries with text keys. So a picture can be stored and drawn again without computing
    anything; a drawing must take lists where it was given tuples. It also takes the keyword
    ``theme`` (``mustdp.plots.drawing.Theme``, by default the light one), which is not part of the
    data: a page asks for both, ``figure(theme=DARK)``.
    """

    name: str
    title: str
    figure: partial[Figure]
    alt: str

    def __post_init__(self) -> None:
        drawing = self.figure.func
        home, name = getattr(drawing, "__module__", ""), getattr(drawing, "__qualname__", "")
        if self.figure.args or not home.startswith("mustdp.") or not name.isidentifier():
            raise InvalidParameter(
                "figure must be functools.partial of a top-level function of mustdp with keyword "
                f"arguments alone, got {self.figure!r}"
            )

    @property
    def data(self) -> dict[str, Any]:
        """What the picture is drawn from."""
        return dict(self.figure.keywords)


@dataclass(frozen=True)
class Outcome:
    """Everything an experiment found; ``reading`` says in plain words what it shows."""

    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...] = ()
    reading: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """How an experiment is run: quick or in full, its seed, where data sets are, processes."""

    quick: bool
    seed: int
    data: Path | None
    workers: int = 2


def judge(
    row: str,
    column: str,
    paper: float | None,
    ours: float,
    *,
    half_unit: float,
    error: float | None = None,
    reason: str = "",
    paper_error: float | None = None,
) -> Cell:
    """Compare the paper's number with ours and say what follows.

    They match if they lie within ``half_unit`` (half of the last digit printed) plus three times
    the combined Monte Carlo standard error; ``paper_error`` is the paper's own. Otherwise they
    differ, explained if there is a ``reason``. Without a number in the paper the cell is new.

    >>> judge("WR", "epsilon'", 0.449, 0.44861, half_unit=0.0005).verdict
    'matches'
    >>> judge("WR", "epsilon'", 0.449, 0.45, half_unit=0.0005).verdict
    'differs'
    """
    ours = checks.real("ours", ours)
    half_unit = checks.real("half_unit", half_unit, at_least=0.0)
    if paper is None:
        return Cell(row, column, None, ours, error, "new", reason)
    paper = checks.real("paper", paper)
    errors = (checks.real("error", e or 0.0, at_least=0.0) for e in (error, paper_error))
    combined = math.hypot(*errors)
    room = half_unit + _ERRORS * combined + _ROUNDING * abs(paper)
    if abs(paper - ours) <= room:
        return Cell(row, column, paper, ours, error, "matches")
    verdict: Verdict = "differs, explained" if reason else "differs"
    return Cell(row, column, paper, ours, error, verdict, reason)
