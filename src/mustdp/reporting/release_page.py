"""The page of a release: estimates with intervals, what they cost, in words for everybody."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mustdp.estimation.planning import Expected
from mustdp.estimation.result import ReleasedEstimate, ReleaseResult
from mustdp.ledger.entry import LedgerStatus
from mustdp.numerics.formatting import (
    as_stated,
    estimate_in_words,
    given_or_rounded,
    percent_stated,
    readable,
)
from mustdp.reporting.pages import Cell, Page
from mustdp.reporting.plots.drawing import Theme, figure_of, new_axes
from mustdp.reporting.plots.results import released_estimates, widths_against_epsilon
from mustdp.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches, so that letters can be read on a phone.
_WIDTH, _HEIGHT = 4.6, 3.6
#: Pictures on one page, and estimates in one of them.
_MOST_PICTURES, _MOST_BARS = 12, 40


def release_page(result: ReleaseResult, standing: LedgerStatus | None = None) -> Page:
    """The page of a result; ``standing`` says where the ledger stands after it."""
    count = len(result.estimates)
    page = Page(
        "Private statistics", f"{count} estimate{'s' if count > 1 else ''} from one release"
    )
    _cost(page, result, standing)
    page.heading("Estimates")
    for number, (name, rows) in enumerate(result.families().items()):
        page.heading(name, 3)
        told = rows[0].description.removesuffix(rows[0].where)  # which group, the table says
        page.paragraph(f"{told[:1].upper()}{told[1:]}.")
        if number < _MOST_PICTURES and len(rows) <= _MOST_BARS:
            _picture(page, result, name, rows)
        _table(page, result, rows)
    page.heading("How to read this")
    level = percent_stated(result.level).removesuffix(" %")
    page.points(
        [
            f"An interval holds the value of the population in {level} of 100 such "
            "releases. It accounts for the records being a sample and for the noise.",
            "**Noise share** is the part of the uncertainty that protects the records; the rest "
            "would be there without any protection.",
            "Numbers are clipped to stated ranges before anything is computed, so a mean is the "
            "mean of clipped values.",
        ]
    )
    page.footer(f"mustdp {__version__}")
    return page


def plan_page(widths: Sequence[tuple[float, Sequence[Expected]]], n: int) -> Page:
    """The page of a plan: expected widths against epsilon, as a picture and as a table."""
    page = Page("Before anything is spent", f"Expected widths of intervals for {n:,} records")
    page.paragraph(
        "No data were read for this. The widths are those of data that are spread over their "
        "ranges as stated; what real data give differs with how they are spread."
    )

    def draw(theme: Theme) -> Figure:
        axes = new_axes(theme, _WIDTH, _HEIGHT)
        return figure_of(widths_against_epsilon(widths, ax=axes, theme=theme))

    several = [one.width for _, found in widths for one in found]
    # A number that is public has no width, and hundreds of lines cannot be told apart.
    if any(0.0 < width < math.inf for width in several) and len(widths[0][1]) <= _MOST_BARS:
        page.figure(draw, alt="Expected widths of the intervals, falling with epsilon.")
    page.table(
        ["epsilon", *(one.label for one in widths[0][1])],
        [
            (given_or_rounded(at, "up", 4), *(_number(one.width) for one in found))
            for at, found in widths
        ],
    )
    page.footer(f"mustdp {__version__}")
    return page


def _cost(page: Page, result: ReleaseResult, standing: LedgerStatus | None) -> None:
    privacy = result.privacy
    page.heading("What it cost")
    if privacy.seeded:
        page.paragraph(
            "**Nothing here is private.** It was made with a seed, as an experiment: anyone who "
            "knows the seed can subtract the noise."
        )
        return
    upper = privacy.epsilon.upper
    facts = [
        ("epsilon, at most", readable(upper, "up", 4) if math.isfinite(upper) else "unknown"),
        ("delta", as_stated(privacy.delta)),
        ("neighbours", privacy.relation.neighbours),
    ]
    if standing is not None:
        facts += [
            ("spent in the ledger", readable(standing.spent, "up")),
            ("left in the ledger", readable(standing.left, "down")),
        ]
    page.facts(facts)
    page.paragraph(
        "Anyone who sees all numbers on this page learns little about any single record: whatever "
        f"they conclude, it would be at most exp({readable(upper, 'up', 4)}) times less likely "
        "with that record exchanged, except with a chance of about "
        f"{as_stated(privacy.delta)}. The bound is certified."
        if math.isfinite(upper)
        else "No finite epsilon could be certified for this noise."
    )


def _picture(
    page: Page, result: ReleaseResult, name: str, rows: tuple[ReleasedEstimate, ...]
) -> None:
    def draw(theme: Theme) -> Figure:
        ax = new_axes(theme, _WIDTH, 0.9 + 0.32 * len(rows))
        return figure_of(released_estimates(result, name, ax=ax, theme=theme))

    page.figure(draw, alt=f"Estimates of {name} with their intervals.")


def _table(page: Page, result: ReleaseResult, rows: tuple[ReleasedEstimate, ...]) -> None:
    page.table(
        ["estimate of", "value", "standard error", "lower", "upper", "noise share", "note"],
        [
            (
                one.label,
                *estimate_in_words(one.value, one.standard_error, one.interval),
                f"{100 * one.noise_share:.0f} %",
                Cell("; ".join(one.flags), "fair" if one.flags else ""),
            )
            for one in rows
        ],
        align=["left", "right", "right", "right", "right", "right", "text"],
    )


def _number(value: float) -> str:
    return readable(value, "up", 4) if math.isfinite(value) else "unknown"
