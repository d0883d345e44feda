"""What an experiment compares: cells with a verdict, gathered in tables.

A cell holds the paper's number, ours, and what follows from comparing them. Nothing here computes
an experiment, and no verdict is set by hand: :func:`judge` derives it from the two numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from mustdp.numerics import checks

Verdict = Literal["matches", "differs, explained", "differs", "new"]
Kind = Literal["paper", "guarantee", "equal"]
#: Whether a number bounds something from above or from below, which decides how it is rounded.
Bound = Literal["upper", "lower", "plain"]

VERDICTS: tuple[Verdict, ...] = ("matches", "differs, explained", "differs", "new")
KINDS: tuple[Kind, ...] = ("paper", "guarantee", "equal")
BOUNDS: tuple[Bound, ...] = ("upper", "lower", "plain")

#: Standard errors that a Monte Carlo value may lie away from the truth.
_ERRORS = 3.0
#: Room for the rounding of decimal numbers to binary ones.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Cell:
    """One number of a table: the paper's, ours, our Monte Carlo standard error, the verdict.

    ``row`` and ``column`` are titles for readers; nothing is decided by their words. ``bound`` says
    what kind of number ours is.
    """

    row: str
    column: str
    paper: float | None
    ours: float | None
    error: float | None = None
    verdict: Verdict = "new"
    reason: str = ""
    bound: Bound = "plain"

    def __post_init__(self) -> None:
        checks.choice("verdict", self.verdict, VERDICTS)
        checks.choice("bound", self.bound, BOUNDS)
        for name in ("paper", "ours", "error"):
            value = getattr(self, name)
            if value is not None:
                checks.real(name, value, at_least=0.0 if name == "error" else None)


def new(
    row: str,
    column: str,
    ours: float | None,
    error: float | None = None,
    *,
    bound: Bound = "plain",
    reason: str = "",
) -> Cell:
    """A number that the paper does not have."""
    return Cell(row, column, None, ours, error, "new", reason, bound)


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
    bound: Bound = "plain",
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
        return new(row, column, ours, error, bound=bound, reason=reason)
    paper = checks.real("paper", paper)
    errors = (checks.real("error", e or 0.0, at_least=0.0) for e in (error, paper_error))
    combined = math.hypot(*errors)
    room = half_unit + _ERRORS * combined + _ROUNDING * abs(paper)
    if abs(paper - ours) <= room:
        return Cell(row, column, paper, ours, error, "matches", bound=bound)
    verdict: Verdict = "differs, explained" if reason else "differs"
    return Cell(row, column, paper, ours, error, verdict, reason, bound)
