"""What an experiment compares: cells with a verdict in tables, pictures as data, the paper's
printed numbers.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.formatting import Toward, readable
from mustdp.progress import Progress
from mustdp.reporting.plots.drawing import LIGHT, Theme
from mustdp.reproduction import figures
from mustdp.sampling.catalogue import BY_LABEL
from mustdp.sampling.schemes import Scheme, scheme_by_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Numbers for readers: few digits, and bounds rounded to the side on which they still hold.


def number(value: float, digits: int = 4, toward: Toward = "nearest") -> str:
    """A number with few significant digits; whole numbers keep all of theirs.

    >>> number(0.2308), number(1.26593235e-73), number(60000.0), number(0.0)
    ('0.2308', '1.266e-73', '60000', '0')
    >>> number(0.063821, 3, "up"), number(0.038049, 3, "down"), number(0.00048)
    ('0.0639', '0.0380', '0.00048')
    """
    bound = readable(float(value), toward, digits)  # refuses what is no number
    if value == round(value) and abs(value) < 1e7:
        return str(round(value))
    if toward != "nearest":
        return bound
    text = f"{value:.{max(digits, len(str(int(abs(value)))))}g}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else text


def short(value: float) -> float:
    """A number that is only drawn, with the six digits that a picture needs."""
    return float(f"{value:.6g}")


# What an experiment compares: cells with a verdict, gathered in tables.
#
# A cell holds the paper's number, ours, and what follows from comparing them. Nothing here computes
# an experiment, and no verdict is set by hand: :func:`judge` derives it from the two numbers.


Verdict = Literal["matches", "differs, explained", "differs", "new"]
Kind = Literal["paper", "guarantee", "equal"]
#: Whether a number bounds something from above or from below, which decides how it is rounded.
Bound = Literal["upper", "lower", "plain"]

VERDICTS: tuple[Verdict, ...] = ("matches", "differs, explained", "differs", "new")
KINDS: tuple[Kind, ...] = ("paper", "guarantee", "equal")
BOUNDS: tuple[Bound, ...] = ("upper", "lower", "plain")

#: Standard errors that a Monte Carlo value may lie away from the truth.
_ERRORS = 3.0
#: Tolerance for the rounding of decimal numbers to binary ones.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class PaperCell:
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
) -> PaperCell:
    """A number that the paper does not have."""
    return PaperCell(row, column, None, ours, error, "new", reason, bound)


@dataclass(frozen=True)
class PaperTable:
    """Cells under one title.

    ``kind`` is ``paper`` for the paper's own numbers, ``guarantee`` for the certified bounds that
    the paper's noise really gives, ``equal`` for all schemes at the same certified guarantee.
    """

    name: str
    title: str
    cells: tuple[PaperCell, ...]
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
) -> PaperCell:
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
    tolerance = half_unit + _ERRORS * combined + _ROUNDING * abs(paper)
    if abs(paper - ours) <= tolerance:
        return PaperCell(row, column, paper, ours, error, "matches", bound=bound)
    verdict: Verdict = "differs, explained" if reason else "differs"
    return PaperCell(row, column, paper, ours, error, verdict, reason, bound)


# Pictures as data: one of a fixed list of drawings, and what it is drawn from.
#
# So a picture can be stored and drawn again without computing anything, and a stored file can ask
# for nothing but these drawings.


#: Every drawing there is, by the name under which it is stored. Each takes its data as keyword
#: arguments made of what JSON can hold, lists where it was given tuples, and a ``theme``.
DRAWINGS: Mapping[str, Callable[..., Figure]] = {
    drawing.__name__: drawing
    for drawing in (
        figures.aligned_profile_panels,
        figures.before_and_after,
        figures.delta_against_steps,
        figures.four_kinds,
        figures.size_contours,
        figures.size_surfaces,
        figures.training_curves,
    )
}
#: A picture's name becomes the name of its file.
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True)
class Picture:
    """A picture that is drawn when ``figure()`` is called, from data that JSON can hold."""

    name: str
    title: str
    drawing: str
    data: Mapping[str, Any]
    alt: str

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and _NAME.fullmatch(self.name)):
            raise InvalidParameter(
                "a picture's name must be small letters, digits and single hyphens, "
                f"got {str(self.name)[:40]!r}"
            )
        drawing = DRAWINGS[checks.choice("drawing", self.drawing, tuple(DRAWINGS))]
        try:
            inspect.signature(drawing).bind(**self.data, theme=LIGHT)
        except TypeError as problem:
            raise InvalidParameter(
                f"data must be what {self.drawing} is drawn from: {problem}"
            ) from None

    def figure(self, theme: Theme = LIGHT) -> Figure:
        """Draw it; a page asks for both themes."""
        return DRAWINGS[self.drawing](**self.data, theme=theme)


#: Values on both axes.
Curve = tuple[Sequence[float], Sequence[float]]


def curve_panel(title: str, ylabel: str, curves: Mapping[str, Curve]) -> dict[str, Any]:
    """One panel of ``figures.training_curves``, with curves by their names."""
    listed = [{"name": name, "x": list(x), "y": list(y)} for name, (x, y) in curves.items()]
    return {"title": title, "ylabel": ylabel, "curves": listed}


# The paper's schemes by its names, and its printed numbers with how exact they are.


#: In the paper's order; it treats Poisson sampling of rate m/n as WOR where one step is concerned.
NAMES = ("Poisson", "WOR", "WR", "MUSTow", "MUSTww")
#: The row of runs without noise.
NON_PRIVATE = "non-private Poisson"


def scheme_called(name: str, n: int, b: int, m: int) -> Scheme:
    """The scheme of the paper for sizes n, b and m; one-stage schemes have no b.

    >>> scheme_called("MUSTow", 1000, 500, 400).name
    'must-ow'
    """
    one = BY_LABEL[checks.choice("name", name, tuple(BY_LABEL))]
    return scheme_by_name(one.name, n=n, m=m, b=b if one.two_stages else None)


@lru_cache(maxsize=1)
def _all() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("published.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def published(part: str) -> dict[str, Any]:
    """What the paper prints in a table or a passage, by the name in ``published.json``.

    >>> published("S1")["epsilon_prime"]["WR"][1]
    '0.194'
    """
    found: dict[str, Any] = _all()[checks.choice("part", part, tuple(_all()))]
    return found


def half_unit(text: str) -> float:
    """Half of the last digit of a number as printed; a plain 0 is meant exactly.

    >>> half_unit("0.194"), half_unit("6.50e-35"), half_unit("0")
    (0.0005, 5e-38, 0.0)
    """
    if text == "0":
        return 0.0
    return float(Decimal(5).scaleb(int(Decimal(text).as_tuple().exponent) - 1))


def judge_printed(row: str, column: str, text: str, ours: float, reason: str = "") -> PaperCell:
    """Compare ours with a number as it is printed, to its last digit.

    >>> judge_printed("WR", "epsilon'", "0.194", 0.19449).verdict
    'matches'
    """
    return judge(row, column, float(text), ours, half_unit=half_unit(text), reason=reason)


# One thing to reproduce: a table or a figure of the paper, or several that share their work.


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
class ItemOutcome:
    """Everything an experiment found; ``reading`` says in plain words what it shows."""

    tables: tuple[PaperTable, ...]
    pictures: tuple[Picture, ...] = ()
    reading: tuple[str, ...] = ()


@dataclass(frozen=True)
class Item:
    """What to reproduce: its name on the command line, its title, how to run it, data it needs."""

    name: str
    title: str
    run: Callable[[Settings, Progress], ItemOutcome]
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for need in self.needs:
            checks.choice("needs", need, DATA_SETS)
