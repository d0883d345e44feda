"""The pages of a release and of its plan: estimates with intervals, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from mustdp.estimation.codebook import Codebook
from mustdp.estimation.contrasts import Contrast
from mustdp.estimation.planning import Expected
from mustdp.estimation.result import (
    BootstrapResult,
    Estimate,
    ReleasedEstimate,
    ReleaseResult,
)
from mustdp.estimation.tables import OTHER
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
from mustdp.reporting.plots.results import (
    bootstrap_replicates,
    released_estimates,
    widths_against_epsilon,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEFT: Literal["left"] = "left"
_RIGHT: Literal["right"] = "right"
#: Inches, so that letters can be read on a phone.
_WIDTH, _HEIGHT = 4.6, 3.6
#: Pictures on one page, and estimates in one of them.
_MOST_PICTURES, _MOST_BARS = 12, 40
#: Lines that can be told apart.
_MOST_LINES = 8


def release_page(
    result: ReleaseResult,
    standing: LedgerStatus | None = None,
    codebook: Codebook | None = None,
    contrasts: Sequence[Contrast] = (),
) -> Page:
    """The page of a result; ``standing`` says where the ledger stands after it.

    ``codebook`` has title, footnotes and words about methods; names are in the result already.
    """
    codebook = codebook or Codebook()
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
    return _page(
        result,
        "one release",
        standing,
        title=codebook.title,
        families=families,
        wide=_wide(result) if any(one.groups for one in result.estimates) else None,
        contrasts=_contrasts(contrasts) if contrasts else None,
        footnotes=(*result.notes, *codebook.footnotes),
        methods=codebook.methods or _methods(result),
    )


def bootstrap_page(result: BootstrapResult, standing: LedgerStatus | None = None) -> Page:
    """The page of a bootstrap: every estimate with its replicates."""

    def picture(label: str, number: int) -> dict[str, Rendered]:
        def draw(theme: Theme) -> Figure:
            ax = new_axes(theme, _WIDTH, _HEIGHT)
            return figure_of(bootstrap_replicates(result, label, ax=ax, theme=theme))

        return in_both_themes(draw, f"p{number}")

    design = result.design
    families = [
        {
            "name": one.label,
            "description": one.description or one.label,
            "picture": picture(one.label, number) if number <= _MOST_PICTURES else None,
            "table": _table((one,)),
        }
        for number, one in enumerate(result.estimates, 1)
    ]
    return _page(
        result,
        f"{design.releases} noisy replicates",
        standing,
        families=families,
        footnotes=result.notes,
        methods=(
            f"{design.releases} random subsets were drawn, and the statistics of each released "
            "with Gaussian noise. Standard errors and intervals account for sampling, for "
            "resampling and for the noise."
        ),
    )


def _page(
    result: ReleaseResult | BootstrapResult,
    source: str,
    standing: LedgerStatus | None,
    *,
    title: str = "",
    wide: PageTable | None = None,
    contrasts: PageTable | None = None,
    **parts: Any,
) -> Page:
    """What the pages of releases and bootstraps share: cost, estimates, words about them."""
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
    return Page(
        title or "Private statistics",
        f"{count} estimate{'s' if count > 1 else ''} from {source}",
        template="mustdp.reporting/templates/release.html.j2",
        seeded=privacy.seeded,
        facts_of_release=facts,
        upper=_number(upper) if math.isfinite(upper) else "",
        delta=as_stated(privacy.delta),
        level=percent_stated(result.level).removesuffix(" %"),
        wide=wide,
        contrasts=contrasts,
        **parts,
    )


def plan_page(widths: Sequence[tuple[float, Sequence[Expected]]], n: int) -> Page:
    """The page of a plan: expected widths against epsilon, as a picture and as a table.

    Of a large table the picture has the median and the widest of every statistic.
    """
    lines = [(at, _summarised(found)) for at, found in widths]

    def draw(theme: Theme) -> Figure:
        axes = new_axes(theme, _WIDTH, _HEIGHT)
        return figure_of(widths_against_epsilon(lines, ax=axes, theme=theme))

    # A number that is public has no width, and hundreds of lines cannot be told apart.
    drawn = any(0.0 < one.width < math.inf for _, found in lines for one in found)
    drawn = drawn and len(lines[0][1]) <= 2 * _MOST_LINES
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


def _summarised(found: Sequence[Expected]) -> Sequence[Expected]:
    """All lines where there are few, else the median and the widest of every statistic."""
    if len(found) <= _MOST_LINES:
        return found
    families: dict[str, list[Expected]] = {}
    for one in found:
        if OTHER not in (one.group or "").split(", "):
            name = one.label.removesuffix(f" ({one.group})").partition(": ")[0]
            families.setdefault(name, []).append(one)
    lines = []
    for name, rows in families.items():
        ordered = sorted(rows, key=lambda one: one.width)
        for word, one in (("median", ordered[len(ordered) // 2]), ("widest", ordered[-1])):
            lines.append(replace(one, label=f"{name}, {word} of {len(rows)}"))
    return lines


def _picture(result: ReleaseResult, name: str, bars: int, number: int) -> dict[str, Rendered]:
    def draw(theme: Theme) -> Figure:
        ax = new_axes(theme, _WIDTH, 0.9 + 0.32 * bars)
        return figure_of(released_estimates(result, name, ax=ax, theme=theme))

    return in_both_themes(draw, f"p{number}")


def _notes(one: Estimate) -> str:
    """Flags, the test that an estimate comes with, and what a mode may be."""
    found = list(one.flags)
    if isinstance(one, ReleasedEstimate):
        found += [str(one.test)] if one.test is not None else []
        found += [f"may be {', '.join(one.candidates)}"] if one.candidates else []
    return "; ".join(found)


def _table(rows: Sequence[Estimate]) -> PageTable:
    return PageTable(
        ["estimate of", "value", "standard error", "lower", "upper", "noise share", "note"],
        [
            (
                one.label,
                *estimate_in_words(one.value, one.standard_error, one.interval),
                f"{100 * one.noise_share:.0f} %",
                PageCell(_notes(one), "fair" if one.flags else ""),
            )
            for one in rows
        ],
        align=["left", "right", "right", "right", "right", "right", "text"],
    )


def _wide(result: ReleaseResult) -> PageTable:
    """A row for each group, a column for each statistic."""
    table = result.table()
    rows = [
        (*groups, *("" if one is None else _with_error(one) for one in cells))
        for groups, cells in zip(table.groups, table.cells, strict=True)
    ]
    return PageTable(
        [*table.columns, *table.titles],
        rows,
        align=[*(_LEFT,) * len(table.columns), *(_RIGHT,) * len(table.titles)],
    )


def _with_error(one: ReleasedEstimate) -> str:
    value, error, _, _ = estimate_in_words(one.value, one.standard_error, one.interval)
    mark = "*" if one.flags else ""
    return f"{value} ± {error}{mark}" if one.known else f"{value}{mark}"


def _contrasts(found: Sequence[Contrast]) -> PageTable:
    return PageTable(
        ["comparison", "value", "standard error", "lower", "upper", "p-value"],
        [
            (
                one.label,
                *estimate_in_words(one.value, one.standard_error, one.interval),
                readable(one.p_value, "up", 2) if math.isfinite(one.p_value) else "unknown",
            )
            for one in found
        ],
        align=["left", "right", "right", "right", "right", "right"],
    )


def _methods(result: ReleaseResult) -> str:
    """A paragraph about how the numbers were made, for a publication."""
    privacy = result.privacy
    said = (
        "All numbers come from one release with Gaussian noise, "
        f"{'made with a seed and not private' if privacy.seeded else 'differentially private'}. "
        "Standard errors and intervals account for sampling and for the noise."
    )
    if any(one.first is not None and one.first.agreed is not None for one in result.families):
        said += (
            " Cells, margins and totals were measured together and made to agree by least squares."
        )
    return said


def _number(value: float) -> str:
    return readable(value, "up", 4) if math.isfinite(value) else "unknown"
