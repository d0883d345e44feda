"""Figures 3, 4 and S2: the aligned privacy profile of one application, and where curves cross."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mustdp.amplification.one_slope import Amplification, Kind, amplify
from mustdp.experiments.cells import Cell, Outcome, Picture, Settings, Table
from mustdp.experiments.crossings import crossing_tables
from mustdp.experiments.item import Item, Report
from mustdp.experiments.published import published
from mustdp.experiments.schemes import NAMES, scheme_called
from mustdp.experiments.table_s1 import MECHANISMS
from mustdp.plots.aligned import EPSILON, aligned_profile_panels
from mustdp.plots.paper import before_and_after, four_kinds

#: Poisson sampling of rate m/n has the same values here as WOR.
_SCHEMES = NAMES[1:]
_SHIFTS = (0.25, 1.0)
_KINDS: tuple[Kind, ...] = ("strong", "weak-1", "weak-2", "dilution")
#: Digits kept of numbers that are only drawn.
_DIGITS = 6


def _rows(name: str, mechanism: str, shift: float) -> Amplification:
    sizes = published("S1")
    scheme = scheme_called(name, sizes["n"], sizes["b"], sizes["m"])
    return amplify(scheme, MECHANISMS[mechanism](shift=shift), EPSILON)


def _sizes_in_words() -> str:
    sizes = published("S1")
    return f"n = {sizes['n']}, b = {sizes['b']}, m = {sizes['m']}"


def _short(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]


def _label(mechanism: str, shift: float) -> str:
    return f"{mechanism.capitalize()}, Δ/σ = {shift:g}"


def run_figure_3(settings: Settings, report: Report) -> Outcome:
    """Which of the four kinds of amplification occur at all, and for how many base epsilons."""
    cells = []
    for mechanism in MECHANISMS:
        for shift in _SHIFTS:
            report(_label(mechanism, shift))
            for name in _SCHEMES:
                kinds = [row.kind for row in _rows(name, mechanism, shift)]
                row = f"{_label(mechanism, shift)}, {name}"
                cells += [
                    Cell(row, kind, None, 100.0 * kinds.count(kind) / len(kinds)) for kind in _KINDS
                ]
    never = max(cell.ours or 0.0 for cell in cells if cell.column in ("weak-2", "dilution"))
    curve = _rows("MUSTow", "gaussian", 1.0)
    picture = Picture(
        "figure-3",
        "Figure 3: the quadrants of the aligned privacy profile",
        partial(
            four_kinds,
            ratio=_short(curve.column("ratio").tolist()),
            difference=_short(curve.column("difference").tolist()),
            caption=f"MUSTow, Gaussian noise, Δ/σ = 1, {_sizes_in_words()}, ε from 0 to 6",
        ),
        "A plane cut into four quadrants by the lines epsilon' = epsilon and delta' = delta; a "
        "curve runs from strong amplification into type I weak amplification.",
    )
    table = Table(
        "kinds",
        f"Share of base points by kind of amplification, in percent, ε from {EPSILON[0]:g} to "
        f"{EPSILON[-1]:g}",
        tuple(cells),
        "paper",
        "No printed numbers of this figure are known here to compare with.",
    )
    reading = (
        "Subsampling never makes ε larger (η is at most 1), so type II weak amplification and "
        f"dilution do not occur: {never:g} % of all base points here.",
    )
    return Outcome((table,), (picture,), reading)


def run_figure_4(settings: Settings, report: Report) -> Outcome:
    """The four panels of the aligned profile, and where each curve leaves strong amplification."""
    sizes = published("S1")
    cells = []
    for mechanism in MECHANISMS:
        for shift in _SHIFTS:
            report(_label(mechanism, shift))
            for name in _SCHEMES:
                rows = _rows(name, mechanism, shift)
                strong = [row for row in rows if row.kind == "strong"]
                label = f"{_label(mechanism, shift)}, {name}"
                cells += [
                    Cell(label, "smallest ε′/ε", None, min(row.ratio for row in rows)),
                    Cell(label, "largest ε′/ε", None, max(row.ratio for row in rows)),
                    Cell(label, "largest δ′ − δ", None, max(row.difference for row in rows)),
                    Cell(label, "smallest δ′ − δ", None, min(row.difference for row in rows)),
                    Cell(label, "strong up to ε", None, strong[-1].epsilon if strong else 0.0),
                ]
    picture = Picture(
        "figure-4",
        "Figure 4: the aligned privacy profile",
        partial(
            aligned_profile_panels,
            n=sizes["n"],
            b=sizes["b"],
            m=sizes["m"],
            shifts=_SHIFTS,
            epsilon=EPSILON,
        ),
        "Four panels, Laplace and Gaussian noise at two shifts, with delta' - delta against "
        "epsilon'/epsilon for WOR, WR, MUSTow and MUSTww.",
    )
    table = Table(
        "extent",
        f"Extent of the curves, {_sizes_in_words()}",
        tuple(cells),
        "paper",
        "No printed numbers of this figure are known here to compare with, except where curves "
        "cross: that is judged under figure-s2.",
    )
    return Outcome((table,), (picture,), _order_of_ratios(cells))


def _order_of_ratios(cells: Sequence[Cell]) -> tuple[str, ...]:
    smallest = {
        name: min(
            cell.ours or 0.0
            for cell in cells
            if cell.column == "smallest ε′/ε" and cell.row.endswith(f", {name}")
        )
        for name in _SCHEMES
    }
    order = sorted(_SCHEMES, key=smallest.__getitem__)
    listed = " < ".join(f"{name} ({smallest[name]:.3f})" for name in order)
    return (
        f"By ε′/ε alone the order is {listed}, the order of η. Above the line δ′ = δ it is paid "
        "for with a larger δ.",
    )


def run_figure_s2(settings: Settings, report: Report) -> Outcome:
    """Epsilon' against epsilon, delta' against delta, and the crossings the text states."""
    report("curves")
    panels: list[dict[str, Any]] = []
    for mechanism in MECHANISMS:
        for shift in _SHIFTS:
            found = {name: _rows(name, mechanism, shift) for name in _SCHEMES}
            panels.append(
                {
                    "title": _label(mechanism, shift),
                    "delta": _short(found["WR"].column("delta").tolist()),
                    "delta_prime": _by_scheme(found, "delta_prime"),
                }
            )
    found = {name: _rows(name, "gaussian", 1.0) for name in _SCHEMES}
    picture = Picture(
        "figure-s2",
        "Figure S2: ε′ against ε, and δ′ against δ",
        partial(
            before_and_after,
            epsilon=list(EPSILON),
            epsilon_prime=_by_scheme(found, "epsilon_prime"),
            panels=panels,
            caption=f"{_sizes_in_words()}; one application, by Theorem 4 of arXiv 2312.13389",
        ),
        "Five panels: epsilon' against epsilon, and delta' against delta for Laplace and Gaussian "
        "noise at two shifts.",
    )
    report("crossings")
    tables, reading = crossing_tables()
    return Outcome(tables, (picture,), reading)


def _by_scheme(found: dict[str, Amplification], column: str) -> dict[str, list[float]]:
    return {
        rows.scheme.name: _short(np.asarray(rows.column(column)).tolist())
        for rows in found.values()
    }


FIGURE_3 = Item("figure-3", "Figure 3: quadrants of the aligned profile", run_figure_3)
FIGURE_4 = Item("figure-4", "Figure 4: aligned privacy profile", run_figure_4)
FIGURE_S2 = Item("figure-s2", "Figure S2: ε′ against ε, δ′ against δ", run_figure_s2)
