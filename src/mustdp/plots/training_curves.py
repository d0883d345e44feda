"""Curves of training runs: loss or accuracy against the iteration, one panel beside another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mustdp.errors import InvalidParameter
from mustdp.plots.drawing import LIGHT, Look, Theme, finish, look_of, new_figure
from mustdp.sampling.catalogue import BY_LABEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: How a curve without privacy looks; no scheme has these.
_REFERENCE = Look("", "#E69F00", "-", "*")
_MARKS = 7


def training_curves(
    panels: Sequence[Mapping[str, Any]], columns: int = 2, theme: Theme = LIGHT
) -> Figure:
    """Draw one panel per entry of ``panels``, ``columns`` of them in a row.

    A panel is a mapping with ``title``, ``ylabel`` and ``curves``; a curve one with ``name`` (the
    scheme as the paper calls it, or anything else for a reference without privacy), ``x``, ``y``.
    """
    if not panels or not all(panel["curves"] for panel in panels):
        raise InvalidParameter("panels must hold at least one panel, each with curves")
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(4.6 * columns, 3.4 * rows + 0.4, theme)
    axes = figure.subplots(rows, columns, squeeze=False)
    for k, panel in enumerate(panels):
        training_curve(panel, axes[k // columns][k % columns], theme)
    for empty in list(axes.flat)[len(panels) :]:
        empty.set_visible(False)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=min(len(labels), 6), frameon=False,
        fontsize=9, labelcolor=theme.ink, handlelength=3.0,
    )  # fmt: skip
    return figure


def training_curve(panel: Mapping[str, Any], ax: Axes, theme: Theme = LIGHT) -> Axes:
    """Draw one panel and return its axes; markers of different curves do not sit on each other."""
    ax.set_facecolor(theme.ground)
    for place, curve in enumerate(panel["curves"]):
        x, y = list(curve["x"]), list(curve["y"])
        if len(x) != len(y) or not x:
            raise InvalidParameter(
                f"x and y of a curve must have the same length > 0, got {len(x)} and {len(y)}"
            )
        apart = max(1, len(x) // _MARKS)
        first = (place * apart) // len(panel["curves"])
        look = (
            look_of(BY_LABEL[curve["name"]].name, theme)
            if curve["name"] in BY_LABEL
            else _REFERENCE
        )
        style = look.line() | {"linewidth": 1.3, "markersize": 4.5, "markeredgewidth": 1.1}
        ax.plot(x, y, label=curve["name"], markevery=(first, apart), zorder=3, **style)
    ax.set_title(panel["title"], fontsize=10)
    return finish(ax, theme, "iteration", panel["ylabel"])
