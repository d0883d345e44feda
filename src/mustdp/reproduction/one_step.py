"""One application: Table S1 and Figures 3, 4, 5, S1 and S2 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from mustdp.accounting.subsampling.one_slope import Amplification, AmplificationRow, Kind, amplify
from mustdp.accounting.subsampling.one_step import one_step
from mustdp.mechanisms.mechanism import Mechanism, gaussian, laplace
from mustdp.progress import Progress
from mustdp.reproduction.cells import (
    NAMES,
    Item,
    ItemOutcome,
    PaperCell,
    PaperTable,
    Picture,
    Settings,
    half_unit,
    judge_printed,
    new,
    published,
    scheme_called,
    short,
)
from mustdp.reproduction.figures import EPSILON
from mustdp.reproduction.guarantees import (
    CalibratedRun,
    calibrate_schemes,
    least_and_most,
    noise_table,
)

# Table S1: one application by the paper's theorem, to the printed digit; what is certified.
#
# The paper's last row (Gaussian, MUSTww, Delta/sigma = 1) repeats the Laplace row. That is not
# typed in here but found: the printed rows are compared, and the row is compared with both
# mechanisms.


MECHANISMS = {"laplace": laplace, "gaussian": gaussian}


class OneApplication(NamedTuple):
    """Delta of one application at the epsilon' of a base epsilon."""

    mechanism: str
    name: str
    epsilon: float
    theorem: float
    certified: float
    attained: float


def run(settings: Settings, progress: Progress) -> ItemOutcome:
    """Every cell of Table S1, the certified values beside it, and the schemes at equal cost."""
    paper = published("S1")
    progress("the paper's theorem")
    tables = [_epsilon_table(paper)]
    for mechanism in MECHANISMS:
        tables += [_delta_table(paper, mechanism, shift) for shift in paper["delta"][mechanism]]
    progress("certified bounds")
    found = _applied(paper)
    needed = calibrate_schemes(settings, progress, _sizes(paper), steps=1)
    return ItemOutcome(
        (*tables, _guarantee(found), noise_table(needed, settings.quick)),
        reading=_reading(tables, found, needed),
    )


def _sizes(paper: dict[str, Any]) -> tuple[int, int, int]:
    return paper["n"], paper["b"], paper["m"]


def _column(epsilon: float) -> str:
    return f"ε = {epsilon:g}"


def _epsilon_table(paper: dict[str, Any]) -> PaperTable:
    cells = []
    for name, printed in paper["epsilon_prime"].items():
        scheme = scheme_called(name, *_sizes(paper))
        rows = amplify(scheme, gaussian(shift=1.0), paper["epsilon"])
        cells += [
            judge_printed(name, _column(row.epsilon), text, row.epsilon_prime)
            for row, text in zip(rows, printed, strict=True)
        ]
    return PaperTable("epsilon-prime", "ε′ of one application", tuple(cells), "paper")


def _delta_table(paper: dict[str, Any], mechanism: str, shift: str) -> PaperTable:
    noise = MECHANISMS[mechanism](shift=float(shift))
    base = noise.delta(paper["epsilon"])
    cells = [
        judge_printed("δ before", _column(e), text, float(value))
        for e, text, value in zip(
            paper["epsilon"], paper["delta"][mechanism][shift], base, strict=True
        )
    ]
    for name, printed in paper["delta_prime"][mechanism][shift].items():
        found = _delta_prime(paper, name, noise)
        reason = _repeated(paper, mechanism, shift, name)
        cells += [
            judge_printed(f"{name} δ′", _column(e), text, value, reason)
            for e, text, value in zip(paper["epsilon"], printed, found, strict=True)
        ]
    title = f"δ and δ′ of one application, {mechanism.capitalize()} noise, Δ/σ = {shift}"
    return PaperTable(f"delta-{mechanism}-{shift}", title, tuple(cells), "paper")


def _delta_prime(paper: dict[str, Any], name: str, noise: Mechanism) -> list[float]:
    rows = amplify(scheme_called(name, *_sizes(paper)), noise, paper["epsilon"])
    return [row.delta_prime for row in rows]


def _repeated(paper: dict[str, Any], mechanism: str, shift: str, name: str) -> str:
    """Says so if the printed row is that of another mechanism, word for word and by its values."""
    printed = paper["delta_prime"][mechanism][shift][name]
    for other, rows in paper["delta_prime"].items():
        if other == mechanism or rows[shift][name] != printed:
            continue
        values = _delta_prime(paper, name, MECHANISMS[other](shift=float(shift)))
        near = (
            judge_printed("", "", text, value) for text, value in zip(printed, values, strict=True)
        )
        if all(cell.verdict == "matches" for cell in near):
            return (
                f"The printed row repeats the {other.capitalize()} row of {name} digit by digit, "
                f"and the theorem gives these values for {other.capitalize()} noise."
            )
    return ""


def _applied(paper: dict[str, Any]) -> list[OneApplication]:
    """One application at shift 1 for every mechanism and scheme."""
    found = []
    for mechanism, make in MECHANISMS.items():
        for name in paper["epsilon_prime"]:
            scheme, noise = scheme_called(name, *_sizes(paper)), make(shift=1.0)
            rows = amplify(scheme, noise, paper["epsilon"][1:4])
            step = one_step(scheme, noise, rows.column("epsilon_prime"))
            found += [
                OneApplication(
                    mechanism, name, row.epsilon, row.delta_prime, float(upper), float(lower)
                )
                for row, upper, lower in zip(rows, step.upper, step.lower, strict=True)
            ]
    return found


def _guarantee(found: list[OneApplication]) -> PaperTable:
    cells: list[PaperCell] = []
    for at in found:
        row, column = f"{at.mechanism.capitalize()}, {at.name}", _column(at.epsilon)
        cells += [
            new(row, f"{column}: theorem", at.theorem),
            new(row, f"{column}: certified", at.certified, bound="upper"),
            new(row, f"{column}: attained", at.attained, bound="lower"),
        ]
    return PaperTable(
        "certified",
        "What one application really costs at the ε′ above, Δ/σ = 1",
        tuple(cells),
        "guarantee",
        "δ at ε′ of the row: by the paper's theorem, by the certificate (it holds for every pair "
        "of neighbouring data sets), and what a concrete pair of data sets attains. One record "
        "replaced.",
    )


def _reading(
    tables: list[PaperTable], found: list[OneApplication], needed: Sequence[CalibratedRun]
) -> tuple[str, ...]:
    count = sum(len(table.cells) for table in tables)
    matching = sum(table.count("matches") for table in tables)
    looser = max(at.theorem / at.certified for at in found if at.mechanism == "gaussian")
    return (
        f"{matching} of {count} printed numbers come out as printed.",
        "The theorem is valid, and loose where copies occur: for Gaussian noise at Δ/σ = 1 its δ′ "
        f"is up to {looser:.3f} times the certified value.",
        least_and_most(needed),
    )


# Where curves cross, as the paper's text states it for Figures 4 and S2.
#
# The text says from which delta on delta' < delta, and near which point the curves of the schemes
# meet. Both are found here as roots. The printed thresholds lie a little above the roots, as they
# would if they had been read off a grid of base epsilons. That is a guess: every spacing in a range
# is tried, and which of them give all printed numbers is said.


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


def crossing_tables() -> tuple[tuple[PaperTable, ...], tuple[str, ...]]:
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
    first = PaperTable(
        "thresholds",
        "δ′ < δ only for δ above this, Δ/σ = 1",
        tuple(cell for one in thresholds for cell in _threshold_cells(one, spacings)),
        "paper",
        "Judged is the crossing itself; the grid is a guess at how the paper got its number.",
    )
    second = PaperTable(
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


def _threshold_cells(one: Threshold, spacings: list[float]) -> tuple[PaperCell, ...]:
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


def _meetings(paper: dict[str, Any]) -> tuple[PaperCell, ...]:
    """All pairwise crossings of delta' against delta, and the one point that the text names."""
    cells: list[PaperCell] = []
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


# Figures 5 and S1: eta and delta' - delta over the sizes b and m of the two-stage schemes.
#
# The rows of the paper's figures say MUSTwo where MUSTow is meant; the law of MUSTwo does not
# depend on b at all, which is computed here and shown beside the values.


_SCHEMES = ("MUSTow", "MUSTww")
#: Points of each axis, in a quick and in a full run.
_POINTS = (6, 16)

#: Values by scheme ("MUSTow") and quantity ("eta", "laplace", "gaussian"), one row per m.
Values = dict[tuple[str, str], list[list[float]]]


class SizeGrid(NamedTuple):
    """Sizes b and m, and the values there."""

    b: list[int]
    m: list[int]
    values: Values


def run_figure_5(settings: Settings, progress: Progress) -> ItemOutcome:
    """Contours of the probability of a record and of the change of delta."""
    grid = _grid(settings, progress)
    change = _change_with_b(grid)
    title = "Figure 5: η and δ′ − δ over b and m"
    picture = _picture("figure-5", title, "size_contours", "contour panels", grid)
    return ItemOutcome(
        (_corners(grid), _mislabelled(grid, change)), (picture,), _contour_reading(grid, change)
    )


def run_figure_s1(settings: Settings, progress: Progress) -> ItemOutcome:
    """The same values as surfaces, and how the two schemes lie to each other."""
    grid = _grid(settings, progress)
    title = "Figure S1: η and δ′ − δ over b and m, as surfaces"
    picture = _picture("figure-s1", title, "size_surfaces", "surfaces", grid)
    cells: list[PaperCell] = []
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
    table = PaperTable("gaps", "How far the surfaces lie apart", tuple(cells), "paper", _NO_NUMBERS)
    return ItemOutcome((table,), (picture,), tuple(lines))


_NO_NUMBERS = "No printed numbers of this figure are known here to compare with."


def _grid(settings: Settings, progress: Progress) -> SizeGrid:
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
    return SizeGrid(b, m, found)


def _picture(name: str, title: str, drawing: str, shapes: str, grid: SizeGrid) -> Picture:
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


def _corners(grid: SizeGrid) -> PaperTable:
    cells = tuple(
        new(f"{name}, {_in_words(quantity)}", f"b = {grid.b[j]}, m = {grid.m[i]}", values[i][j])
        for (name, quantity), values in grid.values.items()
        for i in (0, -1)
        for j in (0, -1)
    )
    return PaperTable("corners", "Values in the corners", cells, "paper", _NO_NUMBERS)


def _change_with_b(grid: SizeGrid) -> dict[str, tuple[float, float]]:
    """Eta at both ends of b, for MUSTow, MUSTww and MUSTwo."""
    n, batch = published("contours")["n"], grid.m[0]

    def eta(name: str, size: int) -> float:
        return scheme_called(name, n, size, batch).eta

    return {name: (eta(name, grid.b[0]), eta(name, grid.b[-1])) for name in (*_SCHEMES, "MUSTwo")}


def _mislabelled(grid: SizeGrid, change: Mapping[str, tuple[float, float]]) -> PaperTable:
    cells = tuple(
        new(name, f"η at b = {size}", eta)
        for name, ends in change.items()
        for size, eta in zip((grid.b[0], grid.b[-1]), ends, strict=True)
    )
    return PaperTable(
        "change-with-b",
        f"η at both ends of b, m = {grid.m[0]}",
        cells,
        "paper",
        "The rows of the paper's figure say MUSTwo; contours that depend on b cannot be those of "
        "MUSTwo.",
    )


def _contour_reading(grid: SizeGrid, change: Mapping[str, tuple[float, float]]) -> tuple[str, ...]:
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


# Figures 3, 4 and S2: the aligned privacy profile of one application, and where curves cross.


#: Poisson sampling of rate m/n has the same values here as WOR.
_PROFILE_SCHEMES = NAMES[1:]
#: The shifts of the figures.
_SHIFTS = (0.25, 1.0)
_KINDS: tuple[Kind, ...] = ("strong", "weak-1", "weak-2", "dilution")

#: Curves by scheme.
Curves = Mapping[str, Amplification]


def _curves(mechanism: str, shift: float) -> Curves:
    sizes, noise = published("S1"), MECHANISMS[mechanism](shift=shift)
    return {
        name: amplify(scheme_called(name, sizes["n"], sizes["b"], sizes["m"]), noise, EPSILON)
        for name in _PROFILE_SCHEMES
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


def _profile_column(rows: Amplification, name: str) -> list[float]:
    """Values that are only drawn."""
    return [short(value) for value in rows.column(name).tolist()]


def run_figure_3(settings: Settings, progress: Progress) -> ItemOutcome:
    """Which of the four kinds of amplification occur at all, and for how many base epsilons."""
    cells: list[PaperCell] = []
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
            "ratio": _profile_column(curve, "ratio"),
            "difference": _profile_column(curve, "difference"),
            "caption": f"MUSTow, Gaussian noise, Δ/σ = 1, {_sizes_in_words()}, ε from 0 to 6",
        },
        "A plane cut into four quadrants by the lines epsilon' = epsilon and delta' = delta; a "
        "curve runs from strong amplification into type I weak amplification.",
    )
    table = PaperTable(
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
    return ItemOutcome((table,), (picture,), reading)


def run_figure_4(settings: Settings, progress: Progress) -> ItemOutcome:
    """The four panels of the aligned profile, and where each curve leaves strong amplification."""
    sizes = published("S1")
    cells: list[PaperCell] = []
    smallest: dict[str, list[float]] = {name: [] for name in _PROFILE_SCHEMES}
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
    table = PaperTable(
        "extent",
        f"Extent of the curves, {_sizes_in_words()}",
        tuple(cells),
        "paper",
        "No printed numbers of this figure are known here to compare with, except where curves "
        "cross: that is judged under figure-s2.",
    )
    return ItemOutcome((table,), (picture,), _order_of_ratios(smallest))


def _order_of_ratios(smallest: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    least = {name: min(ratios) for name, ratios in smallest.items()}
    listed = " < ".join(
        f"{name} ({least[name]:.3f})" for name in sorted(least, key=least.__getitem__)
    )
    return (
        f"By ε′/ε alone the order is {listed}, the order of η. Above the line δ′ = δ it is paid "
        "for with a larger δ.",
    )


def run_figure_s2(settings: Settings, progress: Progress) -> ItemOutcome:
    """Epsilon' against epsilon, delta' against delta, and the crossings the text states."""
    panels = [
        {
            "title": title,
            "delta": _profile_column(curves["WR"], "delta"),
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
    return ItemOutcome(tables, (picture,), reading)


def _by_scheme(curves: Curves, column: str) -> dict[str, list[float]]:
    return {rows.scheme.name: _profile_column(rows, column) for rows in curves.values()}


# What can be reproduced about one application.


ITEMS = (
    Item("table-s1", "Table S1: ε′ and δ′ of one application", run),
    Item("figure-3", "Figure 3: quadrants of the aligned profile", run_figure_3),
    Item("figure-4", "Figure 4: aligned privacy profile", run_figure_4),
    Item("figure-5", "Figure 5: contours over b and m", run_figure_5),
    Item("figure-s1", "Figure S1: surfaces over b and m", run_figure_s1),
    Item("figure-s2", "Figure S2: ε′ against ε, δ′ against δ", run_figure_s2),
)
