"""The pages of a release and of its plan: estimates with intervals, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mustdp.estimation.planning import Expected
from mustdp.estimation.result import ReleasedEstimate, ReleaseResult
from mustdp.ledger.records import LedgerStatus
from mustdp.numerics.formatting import (
    as_stated,
    estimate_in_words,
    given_or_rounded,
    percent_stated,
    readable,
)
from mustdp.reporting.pages import Page, PageCell, PageTable
from mustdp.reporting.plots.drawing import Rendered, Theme, figure_of, in_both_themes, new_axes
from mustdp.reporting.plots.results import released_estimates, widths_against_epsilon

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches, so that letters can be read on a phone.
_WIDTH, _HEIGHT = 4.6, 3.6
#: Pictures on one page, and estimates in one of them.
_MOST_PICTURES, _MOST_BARS = 12, 40


def release_page(result: ReleaseResult, standing: LedgerStatus | None = None) -> Page:
    """The page of a result; ``standing`` says where the ledger stands after it."""
    count, privacy = len(result.estimates), result.privacy
    upper = privacy.epsilon.upper
    facts = [
        ("epsilon, at most", _number(upper)),
        ("delta", as_stated(privacy.delta)),
        ("neighbours", privacy.relation.neighbours),
    ]
    if standing is not None:
        facts += [
            ("spent in the ledger", readable(standing.spent, "up")),
            ("left in the ledger", readable(standing.left, "down")),
        ]
    families = [
        {
            "name": name,
            # Which group, the table says.
            "description": rows[0].description.removesuffix(rows[0].where),
            "picture": _picture(result, name, len(rows), number)
            if number <= _MOST_PICTURES and len(rows) <= _MOST_BARS
            else None,
            "table": _table(rows),
        }
        for number, (name, rows) in enumerate(result.by_statistic().items(), 1)
    ]
    return Page(
        "Private statistics",
        f"{count} estimate{'s' if count > 1 else ''} from one release",
        template="mustdp.reporting/templates/release.html.j2",
        seeded=privacy.seeded,
        facts_of_release=facts,
        upper=_number(upper) if math.isfinite(upper) else "",
        delta=as_stated(privacy.delta),
        families=families,
        level=percent_stated(result.level).removesuffix(" %"),
    )


def plan_page(widths: Sequence[tuple[float, Sequence[Expected]]], n: int) -> Page:
    """The page of a plan: expected widths against epsilon, as a picture and as a table."""

    def draw(theme: Theme) -> Figure:
        axes = new_axes(theme, _WIDTH, _HEIGHT)
        return figure_of(widths_against_epsilon(widths, ax=axes, theme=theme))

    # A number that is public has no width, and hundreds of lines cannot be told apart.
    drawn = any(0.0 < one.width < math.inf for _, found in widths for one in found)
    drawn = drawn and len(widths[0][1]) <= _MOST_BARS
    return Page(
        "Before anything is spent",
        f"Expected widths of intervals for {n:,} records",
        template="mustdp.reporting/templates/plan.html.j2",
        picture=in_both_themes(draw, "p1") if drawn else None,
        widths=PageTable(
            ["epsilon", *(one.label for one in widths[0][1])],
            [
                (given_or_rounded(at, "up", 4), *(_number(one.width) for one in found))
                for at, found in widths
            ],
        ),
    )


def _picture(result: ReleaseResult, name: str, bars: int, number: int) -> dict[str, Rendered]:
    def draw(theme: Theme) -> Figure:
        ax = new_axes(theme, _WIDTH, 0.9 + 0.32 * bars)
        return figure_of(released_estimates(result, name, ax=ax, theme=theme))

    return in_both_themes(draw, f"p{number}")


def _table(rows: tuple[ReleasedEstimate, ...]) -> PageTable:
    return PageTable(
        ["estimate of", "value", "standard error", "lower", "upper", "noise share", "note"],
        [
            (
                one.label,
                *estimate_in_words(one.value, one.standard_error, one.interval),
                f"{100 * one.noise_share:.0f} %",
                PageCell("; ".join(one.flags), "fair" if one.flags else ""),
            )
            for one in rows
        ],
        align=["left", "right", "right", "right", "right", "right", "text"],
    )


def _number(value: float) -> str:
    return readable(value, "up", 4) if math.isfinite(value) else "unknown"
