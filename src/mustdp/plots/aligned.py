"""The aligned privacy profile: epsilon'/epsilon against delta' - delta as epsilon runs.

Fig. 4 of Zhao, Zhou & Liu, arXiv 2312.13389. The lines epsilon' = epsilon and delta' = delta cut
the plane into the four kinds of amplification. What is drawn is the paper's theorem, not the
tighter certificate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mustdp.amplification.one_slope import Amplification, amplify
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.mechanism import Mechanism, gaussian, laplace
from mustdp.numerics import checks
from mustdp.numerics.decimals import as_stated
from mustdp.plots.drawing import LIGHT, Theme, add_legend, finish, look_of, new_figure, on
from mustdp.sampling.scheme import must_ow, must_ww, wor, wr

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Base epsilons of the paper's figure, inside (0, 6); whole numbers are among them.
EPSILON = tuple(float(e) for e in np.arange(1, 300) / 50.0)
_RIGHT_END = 1.28
#: Which tint of the theme lies behind each kind of amplification.
_TINTS = {"strong": 0, "weak I": 1, "weak II": 1, "dilution": 2}


def aligned_profile(
    results: Iterable[Amplification],
    *,
    ax: Axes | None = None,
    theme: Theme | None = None,
    legend: bool = True,
    linear_within: float | None = None,
) -> Axes:
    """Draw the aligned privacy profile, one curve per result of :func:`mustdp.amplify`.

    Markers sit where the base epsilon is a whole number.

    Parameters
    ----------
    results : iterable of Amplification
        At least one, each with rows.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a new figure.
    theme : Theme, default=None
        ``md.plot.LIGHT`` or ``md.plot.DARK``; None lets the ground of the axes decide.
    legend : bool, default=True
        Whether to draw a legend.
    linear_within : float, default=None
        Makes the upright axis linear up to this size and logarithmic beyond it on both sides, so
        that small differences can be seen next to large ones; None makes all of it linear.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on; nothing is shown or saved.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.amplify(md.wor(1000, 10), md.laplace(shift=0.25), epsilon=[0.5, 1.0])
    >>> ax = md.plot.aligned_profile([found])
    >>> len(ax.get_legend().get_texts())
    1
    """
    curves = list(results)
    if not curves or not all(len(curve) for curve in curves):
        raise InvalidParameter("results must hold at least one amplification with rows, got none")
    ax, theme = on(ax, theme)
    for curve in curves:
        epsilon = curve.column("epsilon")
        marked = np.flatnonzero((epsilon > 0) & (epsilon == np.round(epsilon)))
        look = look_of(curve.scheme.name, theme)
        ax.plot(
            curve.column("ratio"),
            curve.column("difference"),
            label=look.label,
            markevery=marked.tolist(),
            zorder=3,
            **look.line(),
        )
    if linear_within is not None:
        ax.set_yscale("symlog", linthresh=checks.real("linear_within", linear_within, above=0))
    _quadrants(
        ax, theme, linear_within is not None, [curve.column("difference") for curve in curves]
    )
    finish(ax, theme, "ε′ / ε", "δ′ − δ", grid=False)
    if legend:
        add_legend(ax, theme, loc="center right", framealpha=1.0)
    return ax


def aligned_profile_panels(
    n: int = 1000,
    b: int = 500,
    m: int = 400,
    shifts: Sequence[float] = (0.25, 1.0),
    epsilon: Sequence[float] = EPSILON,
    *,
    theme: Theme = LIGHT,
) -> Figure:
    """The paper's figure: Laplace and Gaussian noise (rows) at every shift (columns).

    Parameters
    ----------
    n : int, default=1000
        Number of records, at least 1.
    b : int, default=500
        Size of the first of two stages, from 1 to n.
    m : int, default=400
        Size of a batch, from 1 to n.
    shifts : sequence of float, default=(0.25, 1.0)
        How far one copy moves the output, over the scale of the noise; a column each.
    epsilon : sequence of float, default=0.02 to 5.98
        Base epsilons.
    theme : Theme, default=LIGHT
        ``md.plot.LIGHT`` or ``md.plot.DARK``.

    Returns
    -------
    matplotlib.figure.Figure
        A row for each noise and a column for each shift.

    Examples
    --------
    >>> import mustdp as md
    >>> figure = md.plot.aligned_profile_panels(epsilon=(0.5, 1.0))
    >>> len(figure.axes)
    4
    """
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


def _quadrants(
    ax: Axes,
    theme: Theme,
    inward: bool,
    differences: Sequence[np.ndarray[tuple[int], np.dtype[np.float64]]],
) -> None:
    """Draw, tint and label the four kinds of amplification.

    ``inward`` puts the names of the kinds on the left beside the upright line, out of the way of
    curves that hug the other edge.
    """
    lowest = min(float(values.min()) for values in differences)
    highest = max(float(values.max()) for values in differences)
    room = max(highest - lowest, 1e-300)
    bottom = min(lowest - 0.12 * room, -0.25 * room)
    top = max(highest + 0.12 * room, 0.25 * room)
    ax.set_xlim(0.0, _RIGHT_END)
    ax.set_ylim(bottom, top)
    for name, left, below in (
        ("weak I", True, False),
        ("strong", True, True),
        ("dilution", False, False),
        ("weak II", False, True),
    ):
        x, width = (0.0, 1.0) if left else (1.0, _RIGHT_END - 1.0)
        y, height = (bottom, -bottom) if below else (0.0, top)
        ax.fill_between(
            [x, x + width], y, y + height, color=theme.tints[_TINTS[name]], lw=0, zorder=0
        )
        at_left = left and not inward
        ax.annotate(
            name,
            (x + (0.02 if at_left else width - 0.02), y if below else y + height),
            xytext=(0, 6 if below else -6),
            textcoords="offset points",
            ha="left" if at_left else "right",
            va="bottom" if below else "top",
            fontsize=9,
            fontstyle="italic",
            color=theme.quiet,
        )
    ax.axhline(0.0, color=theme.ink, linewidth=0.9, zorder=1)
    ax.axvline(1.0, color=theme.ink, linewidth=0.9, zorder=1)
