"""Figures 5 and S1: eta and delta' - delta over the sizes b and m of the two-stage schemes.

The rows of the paper's figures say MUSTwo where MUSTow is meant; the law of MUSTwo does not depend
on b at all, which is computed here and shown beside the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from mustdp.amplification.one_slope import amplify
from mustdp.experiments.frame.cells import Cell, Table, new
from mustdp.experiments.frame.items import Outcome, Settings
from mustdp.experiments.frame.pictures import Picture
from mustdp.experiments.frame.published import published, scheme_called
from mustdp.experiments.frame.shown import short
from mustdp.experiments.one_step.table_s1 import MECHANISMS
from mustdp.progress import Progress

_SCHEMES = ("MUSTow", "MUSTww")
#: Points of each axis, in a quick and in a full run.
_POINTS = (6, 16)

#: Values by scheme ("MUSTow") and quantity ("eta", "laplace", "gaussian"), one row per m.
Values = dict[tuple[str, str], list[list[float]]]


class Grid(NamedTuple):
    """Sizes b and m, and the values there."""

    b: list[int]
    m: list[int]
    values: Values


def run_figure_5(settings: Settings, progress: Progress) -> Outcome:
    """Contours of the probability of a record and of the change of delta."""
    grid = _grid(settings, progress)
    change = _change_with_b(grid)
    title = "Figure 5: η and δ′ − δ over b and m"
    picture = _picture("figure-5", title, "size_contours", "contour panels", grid)
    return Outcome((_corners(grid), _mislabelled(grid, change)), (picture,), _reading(grid, change))


def run_figure_s1(settings: Settings, progress: Progress) -> Outcome:
    """The same values as surfaces, and how the two schemes lie to each other."""
    grid = _grid(settings, progress)
    title = "Figure S1: η and δ′ − δ over b and m, as surfaces"
    picture = _picture("figure-s1", title, "size_surfaces", "surfaces", grid)
    cells: list[Cell] = []
    lines = []
    for quantity in ("eta", *MECHANISMS):
        ow, ww = (np.array(grid.values[name, quantity]) for name in _SCHEMES)
        smallest, largest = float((ow - ww).min()), float((ow - ww).max())
        words = _in_words(quantity)
        cells += [
            new(words, "smallest MUSTow − MUSTww", smallest),
            new(words, "largest MUSTow − MUSTww", largest),
        ]
        lines.append(_which_lies_above(words, smallest, largest))
    table = Table("gaps", "How far the surfaces lie apart", tuple(cells), "paper", _NO_NUMBERS)
    return Outcome((table,), (picture,), tuple(lines))


_NO_NUMBERS = "No printed numbers of this figure are known here to compare with."


def _grid(settings: Settings, progress: Progress) -> Grid:
    """Eta, and delta' - delta for both mechanisms, in the order of the panels."""
    sizes, points = published("contours"), _POINTS[0 if settings.quick else 1]

    def between(low: int, high: int) -> list[int]:
        return [round(size) for size in np.linspace(low, high, points).tolist()]

    b, m = between(*sizes["b"]), between(*sizes["m"])
    found: Values = {}
    for name in _SCHEMES:
        progress(name)
        schemes = [[scheme_called(name, sizes["n"], first, batch) for first in b] for batch in m]
        found[name, "eta"] = [[short(scheme.eta) for scheme in row] for row in schemes]
        for mechanism, noise in MECHANISMS.items():
            base = noise(shift=float(sizes["shift"]))
            found[name, mechanism] = [
                [short(amplify(scheme, base, sizes["epsilon"])[0].difference) for scheme in row]
                for row in schemes
            ]
    return Grid(b, m, found)


def _picture(name: str, title: str, drawing: str, shapes: str, grid: Grid) -> Picture:
    sizes = published("contours")
    panels = [
        {"title": f"{scheme}: {_in_words(quantity)}", "values": values}
        for (scheme, quantity), values in grid.values.items()
    ]
    caption = (
        f"n = {sizes['n']}, ε = {sizes['epsilon']}, Δ/σ = {sizes['shift']}; one application, by "
        "Theorem 4 of arXiv 2312.13389"
    )
    return Picture(
        name,
        title,
        drawing,
        {"b": grid.b, "m": grid.m, "panels": panels, "caption": caption},
        f"Six {shapes} over b and m: eta, and delta' - delta for Laplace and for Gaussian noise, "
        "for MUSTow above and MUSTww below.",
    )


def _in_words(quantity: str) -> str:
    return "η" if quantity == "eta" else f"δ′ − δ, {quantity.capitalize()}"


def _corners(grid: Grid) -> Table:
    cells = tuple(
        new(f"{name}, {_in_words(quantity)}", f"b = {grid.b[j]}, m = {grid.m[i]}", values[i][j])
        for (name, quantity), values in grid.values.items()
        for i in (0, -1)
        for j in (0, -1)
    )
    return Table("corners", "Values in the corners", cells, "paper", _NO_NUMBERS)


def _change_with_b(grid: Grid) -> dict[str, tuple[float, float]]:
    """Eta at both ends of b, for MUSTow, MUSTww and MUSTwo."""
    n, batch = published("contours")["n"], grid.m[0]

    def eta(name: str, size: int) -> float:
        return scheme_called(name, n, size, batch).eta

    return {name: (eta(name, grid.b[0]), eta(name, grid.b[-1])) for name in (*_SCHEMES, "MUSTwo")}


def _mislabelled(grid: Grid, change: Mapping[str, tuple[float, float]]) -> Table:
    cells = tuple(
        new(name, f"η at b = {size}", eta)
        for name, ends in change.items()
        for size, eta in zip((grid.b[0], grid.b[-1]), ends, strict=True)
    )
    return Table(
        "change-with-b",
        f"η at both ends of b, m = {grid.m[0]}",
        cells,
        "paper",
        "The rows of the paper's figure say MUSTwo; contours that depend on b cannot be those of "
        "MUSTwo.",
    )


def _reading(grid: Grid, change: Mapping[str, tuple[float, float]]) -> tuple[str, ...]:
    moved = {name: last - first for name, (first, last) in change.items()}
    rises = [
        name
        for name in _SCHEMES
        if all(np.all(np.diff(grid.values[name, "eta"], axis=axis) > 0) for axis in (0, 1))
    ]
    return (
        f"η rises with b and with m throughout for {' and '.join(rises) or 'none'}.",
        f"From b = {grid.b[0]} to {grid.b[-1]} at m = {grid.m[0]}, η of MUSTow changes by "
        f"{moved['MUSTow']:.4f} and that of MUSTwo by {abs(moved['MUSTwo']):.1g}.",
    )


def _which_lies_above(words: str, smallest: float, largest: float) -> str:
    relation = "crosses"
    if smallest > 0 or largest < 0:
        relation = "lies above" if smallest > 0 else "lies below"
    return (
        f"{words}: MUSTow {relation} MUSTww, by {smallest:.2g} to {largest:.2g} (MUSTow − MUSTww)."
    )
