"""The page of a report: tables, pictures and words for what was found."""

from __future__ import annotations

import math
import platform
from importlib.metadata import version

from mustdp.calibration.compare import ComparisonRow
from mustdp.numerics.decimals import as_stated, chance_drawn, formatted, noise_needed, readable
from mustdp.pages.document import Cell, Page, Tone
from mustdp.processes import Spread, in_turn
from mustdp.report.commands import commands
from mustdp.report.findings import Findings
from mustdp.report.meaning import meanings
from mustdp.report.pictures import Pictures, pictures
from mustdp.report.reading import headline, label, reading, records, small, times
from mustdp.report.risk import attackers
from mustdp.version import __version__


def compose(found: Findings, out: str = "mustdp-report.html", spread: Spread = in_turn) -> Page:
    """The page for what was found, which is to be written to ``out``.

    ``spread`` draws its pictures, one after the other unless told.
    """
    asked, drawn = found.question, pictures(found, spread)
    page = Page(
        f"Sampling {asked.m:,} of {asked.n:,} records, {times(asked.steps)}", headline(found)
    )
    _facts(page, found)
    page.heading("In short")
    page.points(reading(found))
    page.heading("The same noise" if found.same_noise else "The same guarantee")
    _comparison(page, found)
    page.heading("Bounds")
    _bounds(page, found, drawn)
    page.heading("What an attacker can achieve")
    attackers(page, found)
    page.heading("Work per step")
    _work(page, found, drawn)
    page.heading("Other sizes")
    other_sizes(page, found, drawn)
    page.heading("One application")
    _one_application(page, found, drawn)
    page.heading("What the words mean")
    meanings(page, found)
    page.heading("Do it again")
    _again(page, found, out)
    return page


def _facts(page: Page, found: Findings) -> None:
    asked = found.question
    noise = (
        ("noise multiplier, for all", as_stated(asked.noise_multiplier or 0.0))
        if found.same_noise
        else ("epsilon, for all", as_stated(asked.epsilon or 0.0))
    )
    page.facts(
        [
            ("records, n", f"{asked.n:,}"),
            ("first stage, b", f"{asked.b:,}"),
            ("batch, m", f"{asked.m:,}"),
            ("steps", f"{asked.steps:,}"),
            noise,
            ("delta", f"{small(asked.delta)}"),
            *([] if asked.group == 1 else [("records of one person", f"{asked.group:,}")]),
        ]
    )


def _comparison(page: Page, found: Findings) -> None:
    asked, reference = found.question, found.reference
    rows = [*found.comparison, *found.comparison.epochs]
    costs, base = [found.cost(row) for row in rows], found.cost(reference)

    def row_of(row: ComparisonRow, cost: float) -> list[str | Cell]:
        relative = Cell(formatted(cost / base, ".3f", "up"), _tone(cost, base, costs))
        return [
            label(row.scheme.name),
            noise_needed(row.noise_multiplier, 4),
            *([] if found.same_noise else [relative]),
            readable(row.noise_multiplier / asked.m, "up"),
            readable(row.epsilon.lower, "down"),
            readable(row.epsilon.upper, "up"),
            *([relative] if found.same_noise else []),
        ]

    name = label(reference.scheme.name)
    columns = (
        "scheme",
        "noise multiplier",
        *(() if found.same_noise else (f"noise / {name}",)),
        "noise on the mean",
        "epsilon, at least",
        "epsilon, at most",
        *((f"epsilon / {name}",) if found.same_noise else ()),
    )
    what = (
        "What each scheme guarantees with noise multiplier "
        f"{as_stated(asked.noise_multiplier or 0.0)}"
        if found.same_noise
        else f"The noise that keeps each scheme within epsilon = {as_stated(asked.epsilon or 0.0)}"
    )
    page.table(
        columns,
        [row_of(row, cost) for row, cost in zip(rows, costs, strict=True)],
        f"{what}, at delta = {small(asked.delta)} after {times(asked.steps)}; neighbours: "
        f"{found.comparison.relation.differing(asked.group)}.",
    )
    page.note(
        "At most: certified for every pair of neighbouring data sets, the number to rely on. At "
        "least: reached by a concrete pair. Noise on the mean: noise multiplier divided by m, the "
        "noise on the average of a batch in units of the contribution bound."
    )
    absent = [name for name in ("poisson", "wor", "must-wo", "must-oo") if name not in found.rows]
    if absent:
        page.note(
            f"Left out: {', '.join(map(label, absent))}, which cannot draw {asked.m:,} without "
            "replacement."
        )


def _tone(cost: float, base: float, costs: list[float]) -> Tone:
    """Good for the smallest, bad for what is clearly above the reference."""
    if cost <= min(costs) * 1.005:
        return "good"
    return "bad" if cost > 1.05 * base else ""


def _bounds(page: Page, found: Findings, drawn: Pictures) -> None:
    asked = found.question
    target = None if asked.epsilon is None else (asked.epsilon, asked.delta)
    noise = "the same noise" if found.same_noise else "its own noise from the table above"
    page.paragraph(
        f"Each scheme with {noise}. The line is the certified upper bound; the shade reaches down "
        "to what some pair of data sets attains, so the truth lies in the shade. Where no shade is "
        "to be seen, the bounds meet. Away from the numbers asked about, bands of fixed-size "
        "batches come from one pass through all steps, and what mustdp account certifies there may "
        "be a little less. The picture of other sizes has one dominating pair per step."
    )
    page.figure(
        drawn["profiles"],
        f"The privacy profile after {times(asked.steps)}"
        + ("." if target is None else "; thin lines cross at the target."),
        alt=f"delta against epsilon for {_names(found)}, falling bands"
        + (
            ""
            if target is None
            else f" that meet at epsilon {as_stated(target[0])}, delta {small(target[1])}"
        ),
    )
    page.figure(
        drawn["steps"],
        f"Epsilon at delta = {small(asked.delta)} as steps go on with the same noise.",
        alt=f"epsilon against steps for {_names(found)}, rising bands",
    )


def _work(page: Page, found: Findings, drawn: Pictures) -> None:
    asked, reference = found.question, found.reference
    base = found.draw_seconds[reference.scheme.name]
    rows = []
    for row in found.comparison:
        seconds = found.draw_seconds[row.scheme.name]
        timed = not math.isnan(seconds)
        rows.append(
            (
                label(row.scheme.name),
                chance_drawn(row.eta),
                records(row.expected_distinct),
                f"{row.expected_distinct / asked.m:.3f}",
                f"{1e6 * seconds:,.0f} µs" if timed else "not timed",
                f"{seconds / base:.2f}" if timed and base > 0 else "",
            )
        )
    name = label(reference.scheme.name)
    page.table(
        (
            "scheme", "eta", "distinct records", "gradients / m", "draw, measured",
            f"draw / {name}",
        ),
        rows,
        "What one step costs. Each distinct record is computed once and weighted by its copies.",
    )  # fmt: skip
    page.note(
        "eta: the chance that a given record is drawn at all; n eta distinct records are expected. "
        "Draw times are medians measured on the computer that made this page; the other columns "
        "are exact."
    )
    page.figure(
        drawn["copies"],
        "How often a record that is drawn occurs in the batch. Copies are what costs privacy: j "
        "copies move the result j times as far.",
        alt=f"probability of j copies of a record against j for {_names(found)}",
    )


def other_sizes(page: Page, found: Findings, drawn: Pictures) -> None:
    """How much b and m matter."""
    around, asked = found.sensitivity, found.question
    if around is None:
        page.paragraph("There is no room to vary b and m around these sizes.")
        return
    here = around.at(asked.b, asked.m)
    sentences = []
    for size, what in ((around.b[0], "smallest"), (around.b[-1], "largest")):
        there = around.at(size, asked.m)
        if size != asked.b and not math.isnan(there):
            sentences.append(
                f"with the {what} first stage here, b = {size:,}, it is {readable(there, 'up')}"
            )
    told = f"; {' and '.join(sentences)}" if sentences else ""
    start = "" if math.isnan(here) else f"At b = {asked.b:,}, m = {asked.m:,}, the certified "
    page.paragraph(
        f"MUSTow with the noise multiplier {noise_needed(around.noise_multiplier, 4)} kept as it "
        "is. "
        + (f"{start}epsilon is {readable(here, 'up')}{told}." if start else "")
        + " With b = n, MUSTow is WR."
    )
    page.figure(
        drawn["sizes"],
        "Certified epsilon over the sizes of both stages; the circle is the choice of this page."
        + (" White: nothing could be certified there." if around.holes else ""),
        alt="contours of the certified epsilon over b and m",
    )


def _one_application(page: Page, found: Findings, drawn: Pictures) -> None:
    noise = noise_needed(found.reference.noise_multiplier, 4)
    page.paragraph(
        f"The aligned privacy profile of arXiv 2312.13389: what **one** draw does to a base point "
        f"(ε, δ) of the Gaussian mechanism with noise multiplier {noise}, by the paper's "
        "Theorem 4. Left of the upright line epsilon shrinks, below the level line delta does. The "
        "theorem is valid but loose, and it says nothing about many steps; the numbers above do "
        "not rest on it."
    )
    page.figure(
        drawn["aligned"],
        "For one record replaced. Markers where ε is a whole number. The upright axis is linear up "
        "to a millionth and logarithmic beyond, above and below zero.",
        alt="delta' minus delta against epsilon' over epsilon, one curve per scheme, with the "
        "quadrants strong, weak I, weak II and dilution",
    )


def _again(page: Page, found: Findings, out: str) -> None:
    page.code(commands(found, out))
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "matplotlib"))
    page.note(
        f"mustdp {__version__}, Python {platform.python_version()}, {packages}. Everything but the "
        "draw times comes out the same again."
    )


def _names(found: Findings) -> str:
    return ", ".join(label(name) for name in found.profiles)
