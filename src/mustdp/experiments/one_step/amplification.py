"""Figures 3, 4 and S2: the aligned privacy profile of one application, and where curves cross."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mustdp.amplification.one_slope import Amplification, Kind, amplify
from mustdp.experiments.frame.cells import Cell, Table, new
from mustdp.experiments.frame.items import Outcome, Settings
from mustdp.experiments.frame.pictures import Picture
from mustdp.experiments.frame.published import NAMES, published, scheme_called
from mustdp.experiments.frame.shown import short
from mustdp.experiments.one_step.crossings import crossing_tables
from mustdp.experiments.one_step.table_s1 import MECHANISMS
from mustdp.plots.aligned import EPSILON
from mustdp.progress import Progress

#: Poisson sampling of rate m/n has the same values here as WOR.
_SCHEMES = NAMES[1:]
_SHIFTS = (0.25, 1.0)
_KINDS: tuple[Kind, ...] = ("strong", "weak-1", "weak-2", "dilution")

#: Curves by scheme.
Curves = Mapping[str, Amplification]


def _curves(mechanism: str, shift: float) -> Curves:
    sizes, noise = published("S1"), MECHANISMS[mechanism](shift=shift)
    return {
        name: amplify(scheme_called(name, sizes["n"], sizes["b"], sizes["m"]), noise, EPSILON)
        for name in _SCHEMES
    }


def _panels(progress: Progress) -> Iterator[tuple[str, Curves]]:
    """Title and curves of every noise, in the order of the paper's panels."""
    for mechanism in MECHANISMS:
        for shift in _SHIFTS:
            title = f"{mechanism.capitalize()}, Δ/σ = {shift:g}"
            progress(title)
            yield title, _curves(mechanism, shift)


def _sizes_in_words() -> str:
    sizes = published("S1")
    return f"n = {sizes['n']}, b = {sizes['b']}, m = {sizes['m']}"


def _column(rows: Amplification, name: str) -> list[float]:
    """Values that are only drawn."""
    return [short(value) for value in rows.column(name).tolist()]


def run_figure_3(settings: Settings, progress: Progress) -> Outcome:
    """Which of the four kinds of amplification occur at all, and for how many base epsilons."""
    cells: list[Cell] = []
    never = 0.0
    for title, curves in _panels(progress):
        for name, rows in curves.items():
            kinds = [row.kind for row in rows]
            shares = {kind: 100.0 * kinds.count(kind) / len(kinds) for kind in _KINDS}
            cells += [new(f"{title}, {name}", kind, share) for kind, share in shares.items()]
            never = max(never, shares["weak-2"], shares["dilution"])
    curve = _curves("gaussian", 1.0)["MUSTow"]
    picture = Picture(
        "figure-3",
        "Figure 3: the quadrants of the aligned privacy profile",
        "four_kinds",
        {
            "ratio": _column(curve, "ratio"),
            "difference": _column(curve, "difference"),
            "caption": f"MUSTow, Gaussian noise, Δ/σ = 1, {_sizes_in_words()}, ε from 0 to 6",
        },
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


def run_figure_4(settings: Settings, progress: Progress) -> Outcome:
    """The four panels of the aligned profile, and where each curve leaves strong amplification."""
    sizes = published("S1")
    cells: list[Cell] = []
    smallest: dict[str, list[float]] = {name: [] for name in _SCHEMES}
    for title, curves in _panels(progress):
        for name, rows in curves.items():
            ratios, gaps = [row.ratio for row in rows], [row.difference for row in rows]
            strong = [row.epsilon for row in rows if row.kind == "strong"]
            row = f"{title}, {name}"
            cells += [
                new(row, "smallest ε′/ε", min(ratios)),
                new(row, "largest ε′/ε", max(ratios)),
                new(row, "largest δ′ − δ", max(gaps)),
                new(row, "smallest δ′ − δ", min(gaps)),
                new(row, "strong up to ε", strong[-1] if strong else 0.0),
            ]
            smallest[name].append(min(ratios))
    picture = Picture(
        "figure-4",
        "Figure 4: the aligned privacy profile",
        "aligned_profile_panels",
        {name: sizes[name] for name in ("n", "b", "m")} | {"shifts": _SHIFTS, "epsilon": EPSILON},
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
    return Outcome((table,), (picture,), _order_of_ratios(smallest))


def _order_of_ratios(smallest: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    least = {name: min(ratios) for name, ratios in smallest.items()}
    listed = " < ".join(
        f"{name} ({least[name]:.3f})" for name in sorted(least, key=least.__getitem__)
    )
    return (
        f"By ε′/ε alone the order is {listed}, the order of η. Above the line δ′ = δ it is paid "
        "for with a larger δ.",
    )


def run_figure_s2(settings: Settings, progress: Progress) -> Outcome:
    """Epsilon' against epsilon, delta' against delta, and the crossings the text states."""
    panels = [
        {
            "title": title,
            "delta": _column(curves["WR"], "delta"),
            "delta_prime": _by_scheme(curves, "delta_prime"),
        }
        for title, curves in _panels(progress)
    ]
    picture = Picture(
        "figure-s2",
        "Figure S2: ε′ against ε, and δ′ against δ",
        "before_and_after",
        {
            "epsilon": list(EPSILON),
            "epsilon_prime": _by_scheme(_curves("gaussian", 1.0), "epsilon_prime"),
            "panels": panels,
            "caption": f"{_sizes_in_words()}; one application, by Theorem 4 of arXiv 2312.13389",
        },
        "Five panels: epsilon' against epsilon, and delta' against delta for Laplace and Gaussian "
        "noise at two shifts.",
    )
    progress("crossings")
    tables, reading = crossing_tables()
    return Outcome(tables, (picture,), reading)


def _by_scheme(curves: Curves, column: str) -> dict[str, list[float]]:
    return {rows.scheme.name: _column(rows, column) for rows in curves.values()}
