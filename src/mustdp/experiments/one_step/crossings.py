"""Where curves cross, as the paper's text states it for Figures 4 and S2.

The text says from which delta on delta' < delta, and near which point the curves of the schemes
meet. Both are found here as roots. The printed thresholds lie a little above the roots, as they
would if they had been read off a grid of base epsilons. That is a guess: every spacing in a range
is tried, and which of them give all printed numbers is said.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

from scipy.optimize import brentq

from mustdp.amplification.one_slope import AmplificationRow, amplify
from mustdp.experiments.frame.cells import Cell, Table, new
from mustdp.experiments.frame.published import (
    NAMES,
    half_unit,
    judge_printed,
    published,
    scheme_called,
)
from mustdp.experiments.one_step.table_s1 import MECHANISMS

#: Spacings of base epsilons that are tried.
_SPACINGS = tuple(k / 1000 for k in range(1, 61))
#: Between these the curves are searched; at shift 1 Laplace noise has delta = 0 from 1 on.
_SEARCHED = {"laplace": (1e-4, 0.999), "gaussian": (1e-4, 4.0)}


class Threshold(NamedTuple):
    """A printed delta, and the base epsilon where delta' = delta."""

    label: str
    printed: str
    row: Callable[[float], AmplificationRow]
    crossing: float

    def on_grid(self, spacing: float) -> AmplificationRow:
        """The last point of a grid before the crossing."""
        return self.row(spacing * int(self.crossing / spacing + 1e-9))

    def fits(self, value: float) -> bool:
        """Whether a delta would be printed like this."""
        return abs(value - float(self.printed)) <= half_unit(self.printed)


def crossing_tables() -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """The thresholds and the meeting points, with what they show."""
    paper = published("crossovers")
    thresholds = [
        _threshold(paper, mechanism, name, text)
        for mechanism, printed in paper["delta"].items()
        for name, text in printed.items()
    ]
    spacings = [
        spacing
        for spacing in _SPACINGS
        if all(one.fits(one.on_grid(spacing).delta) for one in thresholds)
    ]
    first = Table(
        "thresholds",
        "δ′ < δ only for δ above this, Δ/σ = 1",
        tuple(cell for one in thresholds for cell in _threshold_cells(one, spacings)),
        "paper",
        "Judged is the crossing itself; the grid is a guess at how the paper got its number.",
    )
    second = Table(
        "meeting-points", "Where the curves of the schemes meet, Δ/σ = 1", _meetings(paper), "paper"
    )
    off = max(abs(float(one.printed) - one.row(one.crossing).delta) for one in thresholds)
    listed = ", ".join(f"{spacing:g}" for spacing in spacings) or "none"
    reading = (
        f"The printed thresholds lie up to {off:.4f} from where the curves cross. Of "
        f"{len(_SPACINGS)} spacings of base ε from {_SPACINGS[0]:g} to {_SPACINGS[-1]:g}, these "
        f"give all {len(thresholds)} printed numbers when the last grid point before the crossing "
        f"is read off: {listed}. That the paper did so is a guess.",
    )
    return (first, second), reading


def _at(paper: dict[str, Any], mechanism: str, name: str) -> Callable[[float], AmplificationRow]:
    scheme = scheme_called(name, paper["n"], paper["b"], paper["m"])
    noise = MECHANISMS[mechanism](shift=float(paper["shift"]))
    return lambda epsilon: amplify(scheme, noise, epsilon)[0]


def _threshold(paper: dict[str, Any], mechanism: str, name: str, text: str) -> Threshold:
    row = _at(paper, mechanism, name)
    crossing = brentq(lambda e: row(e).difference, *_SEARCHED[mechanism], xtol=1e-12)
    return Threshold(f"{mechanism.capitalize()}, {name}", text, row, float(crossing))


def _threshold_cells(one: Threshold, spacings: list[float]) -> tuple[Cell, ...]:
    """The crossing, judged, and what a grid that fits all thresholds would show."""
    reason = ""
    if spacings:
        last = one.on_grid(spacings[-1])
        reason = (
            f"Fits δ at ε = {last.epsilon:g}, the last point before the crossing at ε = "
            f"{one.crossing:.4f} if ε runs in steps of {spacings[-1]:g}; that the paper read it "
            "off so is a guess, which fits all thresholds."
        )
    exact = judge_printed(
        one.label, "δ at the crossing", one.printed, one.row(one.crossing).delta, reason
    )
    if not spacings:
        return (exact,)
    return exact, new(one.label, f"δ on a grid of {spacings[-1]:g}", last.delta)


def _meetings(paper: dict[str, Any]) -> tuple[Cell, ...]:
    """All pairwise crossings of delta' against delta, and the one point that the text names."""
    cells: list[Cell] = []
    for mechanism, printed in paper["curves_cross"].items():
        points = {}
        for one, other in combinations(NAMES[1:], 2):
            first, second = _at(paper, mechanism, one), _at(paper, mechanism, other)
            crossing = brentq(
                lambda e, f=first, g=second: f(e).delta_prime - g(e).delta_prime,
                _SEARCHED[mechanism][0] * 100,
                _SEARCHED[mechanism][1] * 0.95,
                xtol=1e-12,
            )
            points[f"{mechanism.capitalize()}, {one} and {other}"] = first(crossing)
        for column, text, attribute in zip(
            ("δ", "δ′"), printed, ("delta", "delta_prime"), strict=True
        ):
            values = [row[attribute] for row in points.values()]
            middle = sum(values) / len(values)
            inside = min(values) - half_unit(text) <= float(text) <= max(values) + half_unit(text)
            reason = (
                f"The curves do not meet in one point: the {len(values)} pairs cross at {column} "
                f"from {min(values):.3f} to {max(values):.3f}, and the printed value lies in that "
                "range up to its rounding."
            )
            row = f"{mechanism.capitalize()}, middle of all pairs"
            cells.append(judge_printed(row, column, text, middle, reason if inside else ""))
        for row, point in points.items():
            cells += [new(row, "δ", point.delta), new(row, "δ′", point.delta_prime)]
    return tuple(cells)
