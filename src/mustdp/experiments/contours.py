"""Figures 5 and S1: eta and delta' - delta over the sizes b and m of the two-stage schemes.

The rows of the paper's figures say MUSTwo where MUSTow is meant; the law of MUSTwo does not depend
on b at all, which is computed here and shown beside the values.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mustdp.amplification.one_slope import amplify
from mustdp.experiments.cells import Cell, Outcome, Picture, Settings, Table
from mustdp.experiments.item import Item, Report
from mustdp.experiments.published import published
from mustdp.experiments.table_s1 import MECHANISMS
from mustdp.plots.paper import size_contours, size_surfaces
from mustdp.sampling.scheme import Multistage, must_ow, must_wo, must_ww

_SCHEMES = {"MUSTow": must_ow, "MUSTww": must_ww}
#: Points of each axis, in a quick and in a full run.
_POINTS = (6, 16)
_DIGITS = 6

#: Values by scheme ("MUSTow") and quantity ("eta", "laplace", "gaussian"), one row per m.
Grid = dict[tuple[str, str], list[list[float]]]


def run_figure_5(settings: Settings, report: Report) -> Outcome:
    """Contours of the probability of a record and of the change of delta."""
    b, m = _axes(settings)
    values = _values(b, m, report)
    panels = _panels(values)
    picture = Picture(
        "figure-5",
        "Figure 5: η and δ′ − δ over b and m",
        partial(size_contours, b=b, m=m, panels=panels, caption=_caption()),
        "Six contour panels over b and m: eta, and delta' - delta for Laplace and for Gaussian "
        "noise, for MUSTow above and MUSTww below.",
    )
    tables = (_corners(b, m, values), _mislabelled(b, m))
    return Outcome(tables, (picture,), _reading(b, m, values, tables[1]))


def run_figure_s1(settings: Settings, report: Report) -> Outcome:
    """The same values as surfaces, and how the two schemes lie to each other."""
    b, m = _axes(settings)
    values = _values(b, m, report)
    panels = _panels(values)
    picture = Picture(
        "figure-s1",
        "Figure S1: η and δ′ − δ over b and m, as surfaces",
        partial(size_surfaces, b=b, m=m, panels=panels, caption=_caption()),
        "Six surfaces over b and m: eta, and delta' - delta for Laplace and for Gaussian noise, "
        "for MUSTow above and MUSTww below.",
    )
    cells = []
    for quantity in ("eta", *MECHANISMS):
        gap = np.array(values["MUSTow", quantity]) - np.array(values["MUSTww", quantity])
        cells += [
            Cell(_in_words(quantity), "smallest MUSTow − MUSTww", None, float(gap.min())),
            Cell(_in_words(quantity), "largest MUSTow − MUSTww", None, float(gap.max())),
        ]
    table = Table("gaps", "How far the surfaces lie apart", tuple(cells), "paper", _NO_NUMBERS)
    return Outcome((table,), (picture,), _which_lies_above(cells))


_NO_NUMBERS = "No printed numbers of this figure are known here to compare with."


def _axes(settings: Settings) -> tuple[list[int], list[int]]:
    """The sizes b and m at which values are computed."""
    sizes, points = published("contours"), _POINTS[0 if settings.quick else 1]

    def between(low: int, high: int) -> list[int]:
        return [round(size) for size in np.linspace(low, high, points).tolist()]

    return between(*sizes["b"]), between(*sizes["m"])


def _values(b: list[int], m: list[int], report: Report) -> Grid:
    """Eta, and delta' - delta for both mechanisms, in the order of the panels."""
    sizes = published("contours")
    found: Grid = {}
    for name, make in _SCHEMES.items():
        report(name)
        schemes: list[list[Multistage]] = [
            [make(sizes["n"], first, batch) for first in b] for batch in m
        ]
        found[name, "eta"] = [[_short(scheme.eta) for scheme in row] for row in schemes]
        for mechanism, noise in MECHANISMS.items():
            base = noise(shift=float(sizes["shift"]))
            found[name, mechanism] = [
                [_short(amplify(scheme, base, sizes["epsilon"])[0].difference) for scheme in row]
                for row in schemes
            ]
    return found


def _panels(values: Grid) -> list[dict[str, Any]]:
    return [
        {"title": f"{name}: {_in_words(quantity)}", "values": grid}
        for (name, quantity), grid in values.items()
    ]


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _in_words(quantity: str) -> str:
    return "η" if quantity == "eta" else f"δ′ − δ, {quantity.capitalize()}"


def _caption() -> str:
    sizes = published("contours")
    return (
        f"n = {sizes['n']}, ε = {sizes['epsilon']}, Δ/σ = {sizes['shift']}; one application, by "
        "Theorem 4 of arXiv 2312.13389"
    )


def _corners(b: list[int], m: list[int], values: Grid) -> Table:
    cells = tuple(
        Cell(f"{name}, {_in_words(quantity)}", f"b = {b[j]}, m = {m[i]}", None, grid[i][j])
        for (name, quantity), grid in values.items()
        for i in (0, -1)
        for j in (0, -1)
    )
    return Table("corners", "Values in the corners", cells, "paper", _NO_NUMBERS)


def _mislabelled(b: list[int], m: list[int]) -> Table:
    """How much eta changes from one end of b to the other, for MUSTow, MUSTww and MUSTwo."""
    n, batch = published("contours")["n"], m[0]
    ends = {"MUSTow": must_ow, "MUSTww": must_ww, "MUSTwo": must_wo}
    cells = tuple(
        Cell(name, f"η at b = {size}", None, make(n, size, batch).eta)
        for name, make in ends.items()
        for size in (b[0], b[-1])
    )
    return Table(
        "change-with-b",
        f"η at both ends of b, m = {batch}",
        cells,
        "paper",
        "The rows of the paper's figure say MUSTwo; contours that depend on b cannot be those of "
        "MUSTwo.",
    )


def _reading(b: list[int], m: list[int], values: Grid, change: Table) -> tuple[str, ...]:
    at = {(cell.row, cell.column): cell.ours or 0.0 for cell in change.cells}
    first, last = (f"η at b = {size}" for size in (b[0], b[-1]))
    moved = {name: at[name, last] - at[name, first] for name in ("MUSTow", "MUSTwo")}
    rises = [
        name
        for name in _SCHEMES
        if np.all(np.diff(values[name, "eta"], axis=0) > 0)
        and np.all(np.diff(values[name, "eta"], axis=1) > 0)
    ]
    return (
        f"η rises with b and with m throughout for {' and '.join(rises) or 'none'}.",
        f"From b = {b[0]} to {b[-1]} at m = {m[0]}, η of MUSTow changes by {moved['MUSTow']:.4f} "
        f"and that of MUSTwo by {abs(moved['MUSTwo']):.1g}.",
    )


def _which_lies_above(cells: list[Cell]) -> tuple[str, ...]:
    lines = []
    for low, high in zip(cells[::2], cells[1::2], strict=True):
        smallest, largest = low.ours or 0.0, high.ours or 0.0
        relation = "crosses"
        if smallest > 0 or largest < 0:
            relation = "lies above" if smallest > 0 else "lies below"
        lines.append(
            f"{low.row}: MUSTow {relation} MUSTww, by {smallest:.2g} to {largest:.2g} "
            "(MUSTow − MUSTww)."
        )
    return tuple(lines)


FIGURE_5 = Item("figure-5", "Figure 5: contours over b and m", run_figure_5)
FIGURE_S1 = Item("figure-s1", "Figure S1: surfaces over b and m", run_figure_s1)
