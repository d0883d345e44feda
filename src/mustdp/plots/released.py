"""Estimates of one release with their intervals, side by side; and widths against epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mustdp.numerics.decimals import percent_stated
from mustdp.numerics.exports import picture_text
from mustdp.plots.drawing import Theme, finish, look_of, looks_for, mark_seed, on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mustdp.releasing.estimate import ReleasedEstimate
    from mustdp.releasing.planning import Expected
    from mustdp.releasing.result import ReleaseResult


def released_estimates(
    result: ReleaseResult,
    family: str | None = None,
    *,
    ax: Axes | None = None,
    theme: Theme | None = None,
) -> Axes:
    """Draw the estimates of one statistic of one column (the first by default).

    The thin bar is the interval, the thick one in it as much as the noise causes. What is flagged
    is drawn hollow; an interval without ends, and an estimate that is not known, is left out.
    """
    families = result.families()
    name = next(iter(families)) if family is None else family
    ax, theme = on(ax, theme)
    color, rows = look_of("wr", theme).color, families[name]
    for place, one in enumerate(rows):
        _bar(ax, theme, color, -place, one)
    names = [picture_text(_called(one)) for one in rows]
    ax.set_yticks([-place for place in range(len(rows))], names)
    ax.set_ylim(-len(rows) + 0.4, 0.6)
    mark_seed(ax, result.privacy.seeded)
    title = f"{picture_text(name)}, with {percent_stated(result.level)} intervals"
    return finish(ax, theme, title, "")


def _bar(ax: Axes, theme: Theme, color: str, place: int, one: ReleasedEstimate) -> None:
    low, high = one.interval
    if math.isfinite(low) and math.isfinite(high):
        ax.plot([low, high], [place, place], color=color, linewidth=1.6, solid_capstyle="butt")
    if not one.known:
        return
    if math.isfinite(low) and math.isfinite(high):
        half = 0.5 * math.sqrt(one.noise_share) * (high - low)
        ax.plot(
            [max(low, one.value - half), min(high, one.value + half)],
            [place, place],
            color=color,
            linewidth=6,
            alpha=0.35,
            solid_capstyle="butt",
        )
    inside = theme.ground if one.flags else color
    ax.plot(one.value, place, "o", color=color, markerfacecolor=inside, markersize=6, zorder=3)


def _called(one: ReleasedEstimate) -> str:
    return ", ".join(part for part in (one.cell, one.group) if part) or one.statistic


def widths_against_epsilon(
    widths: Sequence[tuple[float, Sequence[Expected]]],
    *,
    ax: Axes | None = None,
    theme: Theme | None = None,
) -> Axes:
    """Draw expected widths against epsilon, a line for each estimate; both axes logarithmic."""
    ax, theme = on(ax, theme)
    labels = [one.label for one in widths[0][1]]
    looks = looks_for(labels, theme)
    for k, label in enumerate(labels):
        ax.plot(
            [epsilon for epsilon, _ in widths],
            [found[k].width for _, found in widths],
            label=picture_text(label),
            **looks[label].line(),
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    return finish(ax, theme, "epsilon", "expected width of the interval", legend="best")
