"""Pictures that only the paper's figures need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mustdp.accounting.subsampling.one_slope import amplify
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.mechanism import Mechanism, gaussian, laplace
from mustdp.numerics.formatting import as_stated
from mustdp.reporting.plots.drawing import (
    LIGHT,
    Look,
    Theme,
    figure_of,
    finish,
    look_of,
    new_axes,
    new_figure,
)
from mustdp.reporting.plots.privacy import aligned_profile, contours
from mustdp.sampling.catalogue import BY_LABEL
from mustdp.sampling.schemes import must_ow, must_ww, wor, wr

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Curves of training runs: loss or accuracy against the iteration, one panel beside another.


#: How a curve without privacy looks; no scheme has these.
_REFERENCE = Look("", "#E69F00", "-", "*")
#: Markers along a curve.
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


# Pictures that only the paper's figures need, drawn from numbers that JSON can hold.
#
# [Z] = Zhao, Zhou & Liu, arXiv 2312.13389: Figures 3, 5, S1, S2 and S3. Schemes are named as on the
# command line; every drawing takes plain lists and dictionaries, and a theme.


#: Quadrants of Figure 3: what they are called, what they mean, which tint, left, below.
_KINDS = (
    ("weak, type I", "ε′ < ε but δ′ > δ", 1, True, False),
    ("strong", "ε′ < ε and δ′ < δ", 0, True, True),
    ("dilution", "ε′ > ε and δ′ > δ", 2, False, False),
    ("weak, type II", "ε′ > ε but δ′ < δ", 1, False, True),
)


def four_kinds(
    *, ratio: Sequence[float], difference: Sequence[float], caption: str, theme: Theme = LIGHT
) -> Figure:
    """Figure 3: the quadrants of the aligned privacy profile, with one curve that crosses two."""
    ax = new_axes(theme, 6.0, 4.4)
    reach = 1.5 * max(abs(value) for value in difference)
    for name, meaning, tint, left, below in _KINDS:
        x = (0.0, 1.0) if left else (1.0, 2.0)
        y = (-reach, 0.0) if below else (0.0, reach)
        ax.fill_between(x, *y, color=theme.tints[tint], linewidth=0, zorder=0)
        ax.text(
            0.5 * sum(x), (0.86 if not below else -0.78) * reach, name, ha="center", va="center",
            fontsize=11, fontweight="bold", color=theme.ink,
        )  # fmt: skip
        ax.text(
            0.5 * sum(x), (0.74 if not below else -0.9) * reach, meaning, ha="center", va="center",
            fontsize=9.5, color=theme.ink,
        )  # fmt: skip
    ax.axhline(0.0, color=theme.ink, linewidth=0.9, zorder=1)
    ax.axvline(1.0, color=theme.ink, linewidth=0.9, zorder=1)
    look = look_of("must-ow", theme)
    ax.plot(ratio, difference, color=look.color, linewidth=1.8, label=caption, zorder=3)
    ax.set_xlim(0.0, 2.0)
    ax.set_ylim(-reach, reach)
    ax.text(
        1.5, 0.0, "never reached by\nsubsampling: ε′ ≤ ε", ha="center", va="center", fontsize=9,
        fontstyle="italic", color=theme.quiet,
        bbox={"facecolor": theme.ground, "edgecolor": "none", "pad": 3.0, "alpha": 0.85},
    )  # fmt: skip
    figure = figure_of(finish(ax, theme, "ε′ / ε", "δ′ − δ", grid=False))
    figure.legend(loc="outside upper center", frameon=False, labelcolor=theme.ink, fontsize=9)
    return figure


def before_and_after(
    *,
    epsilon: Sequence[float],
    epsilon_prime: Mapping[str, Sequence[float]],
    panels: Sequence[Mapping[str, Any]],
    caption: str,
    theme: Theme = LIGHT,
) -> Figure:
    """Figure S2: epsilon' against epsilon, and delta' against delta in one panel per noise.

    A panel has a ``title``, ``delta``, and ``delta_prime`` by scheme.
    """
    figure = new_figure(11.0, 7.4, theme)
    axes = figure.subplots(2, 3).ravel()
    _against(axes[0], theme, epsilon, epsilon_prime, "ε", "ε′", "all noises")
    for ax, panel in zip(axes[1:], panels, strict=False):
        _against(ax, theme, panel["delta"], panel["delta_prime"], "δ", "δ′", panel["title"])
    handles, labels = axes[0].get_legend_handles_labels()
    for spare in axes[1 + len(panels) :]:
        spare.set_axis_off()
        spare.legend(
            handles, labels, loc="center", frameon=False, labelcolor=theme.ink, handlelength=4,
            fontsize=11,
        )  # fmt: skip
    figure.supxlabel(caption, fontsize=9, color=theme.quiet)
    return figure


def _against(
    ax: Axes,
    theme: Theme,
    before: Sequence[float],
    after: Mapping[str, Sequence[float]],
    x: str,
    y: str,
    title: str,
) -> None:
    ax.set_facecolor(theme.ground)
    top = max(before)
    ax.plot([0.0, top], [0.0, top], color=theme.quiet, linewidth=0.9, label="no change", zorder=1)
    marked = np.unique(np.searchsorted(-np.asarray(before), -np.linspace(top, 0.0, 7)))
    if before[0] < before[-1]:
        marked = np.unique(np.searchsorted(np.asarray(before), np.linspace(0.0, top, 7)))
    places = [int(k) for k in marked if 0 < k < len(before)]
    for name, values in after.items():
        look = look_of(name, theme)
        ax.plot(before, values, label=look.label, markevery=places, zorder=3, **look.line())
    ax.set_title(title, fontsize=11)
    finish(ax, theme, x, y)
    ax.set_xlim(0.0, top)
    ax.set_ylim(0.0, 1.04 * max(max(values) for values in after.values()))


def size_contours(
    *,
    b: Sequence[int],
    m: Sequence[int],
    panels: Sequence[Mapping[str, Any]],
    caption: str,
    theme: Theme = LIGHT,
) -> Figure:
    """Figure 5: values over the sizes b and m, three panels in a row.

    A panel has a ``title`` and ``values`` with one row per m.
    """
    figure = new_figure(12.0, 3.9 * -(-len(panels) // 3), theme)
    axes = figure.subplots(-(-len(panels) // 3), 3, squeeze=False).ravel()
    for ax, panel in zip(axes, panels, strict=True):
        ax.set_facecolor(theme.ground)
        contours(b, m, panel["values"], of=panel["title"], levels=7, ax=ax, theme=theme)
        ax.set_xscale("linear")
        ax.set_yscale("linear")
    figure.supxlabel(caption, fontsize=9, color=theme.quiet)
    return figure


def size_surfaces(
    *,
    b: Sequence[int],
    m: Sequence[int],
    panels: Sequence[Mapping[str, Any]],
    caption: str,
    theme: Theme = LIGHT,
) -> Figure:
    """Figure S1: the same as surfaces, three in a row; those of one column share their heights."""
    rows = -(-len(panels) // 3)
    figure = new_figure(12.0, 4.2 * rows, theme)
    figure.set_layout_engine(None)
    across, up = np.meshgrid(np.asarray(b), np.asarray(m))
    for place, panel in enumerate(panels):
        column, row = place % 3, place // 3
        # Placed by hand: constrained layout leaves most of the space around a 3-D box empty.
        box = (column / 3 + 0.005, 0.05 + (rows - 1 - row) * 0.94 / rows, 0.34, 0.9 / rows)
        ax: Any = figure.add_axes(box, projection="3d")
        ax.set_facecolor(theme.ground)
        alike = np.array([other["values"] for other in panels[column::3]])
        low, high = float(alike.min()), float(alike.max())
        ax.plot_surface(
            across, up, np.asarray(panel["values"]), cmap=theme.shades, vmin=low, vmax=high,
            edgecolor=theme.ground, linewidth=0.5, rcount=8, ccount=8,
        )  # fmt: skip
        ax.set_zlim(low, high)
        ax.set_xlabel("b", color=theme.ink)
        ax.set_ylabel("m", color=theme.ink)
        ax.set_title(panel["title"], fontsize=11, color=theme.ink, y=0.98)
        ax.view_init(elev=24, azim=-125)
        ax.set_box_aspect((4, 4, 3.2), zoom=0.93)
        for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
            axis.set_pane_color((0.5, 0.5, 0.5, 0.05))
            axis.set_tick_params(labelsize=8, labelcolor=theme.ink, colors=theme.quiet)
            axis.set_major_locator(_few())
    figure.text(0.5, 0.015, caption, ha="center", fontsize=9, color=theme.quiet)
    return figure


def _few() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5, steps=[1, 2, 5, 10])


def delta_against_steps(
    *,
    steps: Sequence[int],
    certified: Sequence[float],
    attained: Sequence[float],
    pair: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    printed: Mapping[str, float],
    caption: str,
    theme: Theme = LIGHT,
) -> Figure:
    """Figure S3: overall delta against the number of steps, as the paper has it and certified.

    ``printed`` holds the interval in the paper (``lower``, ``upper``) and the ``steps`` it belongs
    to.
    """
    ax = new_axes(theme, 7.2, 4.9)
    wor, ow, wr = (look_of(name, theme).color for name in ("wor", "must-ow", "wr"))
    ax.fill_between(steps, attained, certified, color=wor, alpha=0.13, linewidth=0)
    ax.plot(steps, certified, color=wor, linewidth=1.8, marker="o", markersize=4,
            label="certified: no pair of data sets has more")  # fmt: skip
    ax.plot(steps, attained, color=wor, linewidth=1.4, linestyle=(0, (5, 2)), marker="s",
            markersize=4, label="attained by the aligned pair")  # fmt: skip
    ax.fill_between(steps, lower, upper, color=wr, alpha=0.15, linewidth=0, hatch="///",
                    edgecolor=wr, label="the authors' interval for the symmetric pair")  # fmt: skip
    ax.plot(steps, pair, color=wr, linewidth=1.6, linestyle=(0, (1.2, 1.2)), marker="D",
            markersize=4, label="attained by the symmetric pair")  # fmt: skip
    ends = [printed["lower"], printed["upper"]]
    ax.plot([printed["steps"]] * 2, ends, color=ow, linewidth=2.2, marker="_", markersize=13,
            markeredgewidth=2.2, zorder=5, label="the interval printed in the paper")  # fmt: skip
    ax.set_yscale("log")
    finish(ax, theme, "steps k", "overall δ", legend="lower right")
    ax.set_title(caption, fontsize=10)
    return figure_of(ax)


# Figure 4 of [Z]: aligned privacy profiles.


#: Base epsilons of the paper's figure, inside (0, 6); whole numbers are among them.
EPSILON = tuple(float(e) for e in np.arange(1, 300) / 50.0)


def aligned_profile_panels(
    n: int = 1000,
    b: int = 500,
    m: int = 400,
    shifts: Sequence[float] = (0.25, 1.0),
    epsilon: Sequence[float] = EPSILON,
    *,
    theme: Theme = LIGHT,
) -> Figure:
    """The paper's figure: Laplace and Gaussian noise (rows) at every shift (columns)."""
    schemes = [wor(n, m), wr(n, m), must_ow(n, b, m), must_ww(n, b, m)]
    figure = new_figure(5.0 * len(shifts), 7.6, theme)
    grid = figure.subplots(2, len(shifts), squeeze=False)
    for row, (name, make) in enumerate((("Laplace", laplace), ("Gaussian", gaussian))):
        for column, shift in enumerate(shifts):
            mechanism: Mechanism = make(shift=shift)
            ax = grid[row, column]
            ax.set_facecolor(theme.ground)
            aligned_profile(
                (amplify(scheme, mechanism, epsilon) for scheme in schemes),
                ax=ax,
                theme=theme,
                legend=False,
            )
            ax.set_title(f"{name}, shift {as_stated(shift)}", fontsize=11, color=theme.ink)
            ax.label_outer(remove_inner_ticks=False)
            ax.yaxis.set_tick_params(labelleft=True)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    labels = [f"{label} (= Poisson at rate m/n)" if label == "WOR" else label for label in labels]
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=len(labels),
        frameon=False,
        labelcolor=theme.ink,
    )
    low, high = min(epsilon), max(epsilon)
    figure.supxlabel(
        f"n = {n}, b = {b}, m = {m}; ε from {low:g} to {high:g}, markers where ε is a whole "
        "number; one application, by Theorem 4 of arXiv 2312.13389",
        fontsize=9,
        color=theme.quiet,
    )
    return figure
