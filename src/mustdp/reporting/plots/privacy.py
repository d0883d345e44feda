"""Pictures of bounds, multiplicity laws, aligned profiles, and contours over sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mustdp.accounting.bounds import Bounds, Curve
from mustdp.accounting.subsampling.one_slope import Amplification
from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.reporting.plots.drawing import (
    Look,
    Theme,
    add_legend,
    finish,
    look_of,
    looks_for,
    on,
)
from mustdp.sampling.schemes import Scheme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Bounds as bands: certified above, attained below, the truth in between.
#
# The upper edge is what may be relied on and is drawn as the line of the scheme; the lower edge is
# what some pair of data sets reaches. Where the two meet, the band is a line.


#: Deltas below this are left out of pictures: nothing is to be seen there.
_SMALLEST = 1e-12


def profile_bands(
    curves: Mapping[str, Curve],
    *,
    ax: Axes | None = None,
    theme: Theme | None = None,
    legend: bool = True,
    mark: tuple[float, float] | None = None,
) -> Axes:
    """Draw delta against epsilon, one band per curve.

    Parameters
    ----------
    curves : mapping of str to Curve
        What :meth:`Account.curve` returns, by name; names of schemes (``"wor"``, ``"must-ow"``)
        give each its usual look.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a new figure.
    theme : Theme, default=None
        ``md.plot.LIGHT`` or ``md.plot.DARK``; None lets the ground of the axes decide.
    legend : bool, default=True
        Whether to draw a legend.
    mark : (float, float), default=None
        A target (epsilon, delta) to be shown.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on; nothing is shown or saved.

    Examples
    --------
    >>> import mustdp as md
    >>> curve = md.account(md.gaussian(noise_multiplier=2.0)).curve([0.5, 1.0, 2.0])
    >>> md.plot.profile_bands({"wor": curve}).get_yscale()
    'log'
    """
    if not curves:
        raise InvalidParameter("curves must hold at least one curve, got none")
    ax, theme = on(ax, theme)
    for name, look in looks_for(curves, theme).items():
        curve = curves[name]
        _band(ax, look, curve.epsilon, curve.lower, curve.upper)
    ax.set_yscale("log")
    highest = max(float(np.max(curve.upper)) for curve in curves.values())
    lowest = min(float(np.min(curve.upper)) for curve in curves.values())
    bottom = max(lowest, _SMALLEST)
    ax.set_ylim(bottom, max(2.0 * highest, 4.0 * bottom))
    _target(ax, theme, mark)
    return finish(ax, theme, "ε", "δ", legend="upper right" if legend else None)


def epsilon_against_steps(
    bands: Mapping[str, Mapping[int, Bounds]],
    *,
    ax: Axes | None = None,
    theme: Theme | None = None,
    legend: bool = True,
    mark: tuple[float, float] | None = None,
) -> Axes:
    """Draw epsilon against the number of steps, one band per name.

    Further parameters, and what is returned, are those of :func:`profile_bands`.

    Parameters
    ----------
    bands : mapping of str to mapping of int to Bounds
        Bounds by number of steps, by name, for example ``{"wor": {k: md.account(md.repeat(k,
        step)).epsilon(1e-5) for k in (10, 100)}}``.
    mark : (float, float), default=None
        A target (steps, epsilon) to be shown.

    Examples
    --------
    >>> import mustdp as md
    >>> bands = {"wor": {10: md.Bounds(0.2, 0.21), 100: md.Bounds(0.72, 0.73)}}
    >>> md.plot.epsilon_against_steps(bands).get_xlabel()
    'steps'
    """
    if not bands or not all(bands.values()):
        raise InvalidParameter("bands must hold bounds for at least one number of steps each")
    ax, theme = on(ax, theme)
    for name, look in looks_for(bands, theme).items():
        counts = sorted(bands[name])
        found = [bands[name][count] for count in counts]
        _band(ax, look, counts, [one.lower for one in found], [one.upper for one in found])
    ax.set_ylim(bottom=0.0)
    _target(ax, theme, mark)
    return finish(ax, theme, "steps", "ε", legend="upper left" if legend else None)


def _band(ax: Axes, look: Look, across: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> None:
    x = np.asarray(across, dtype=np.float64)
    low, high = _shown(lower), _shown(upper)
    if not np.all(low <= high * (1.0 + 1e-9)):
        raise InvalidParameter(f"lower must be at most upper, which fails for {look.label}")
    every = max(1, len(x) // 8)
    ax.fill_between(x, low, high, color=look.color, alpha=0.16, linewidth=0, zorder=2)
    ax.plot(x, high, label=look.label, markevery=every, zorder=4, **look.line())
    ax.plot(x, low, color=look.color, linewidth=0.7, zorder=3)


def _shown(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if np.any(np.isnan(array)):
        raise InvalidParameter("bounds must be numbers, got NaN")
    return array


def _target(ax: Axes, theme: Theme, mark: tuple[float, float] | None) -> None:
    """Two thin lines that cross at the target, where there is one."""
    if mark is not None:
        ax.axvline(mark[0], color=theme.ink, linewidth=0.8, alpha=0.6, zorder=1)
        ax.axhline(mark[1], color=theme.ink, linewidth=0.8, alpha=0.6, zorder=1)


# How often one record occurs in a batch: the multiplicity law of schemes.


def multiplicity_law(
    schemes: Iterable[Scheme],
    *,
    ax: Axes | None = None,
    theme: Theme | None = None,
    legend: bool = True,
    smallest: float = 1e-9,
) -> Axes:
    """Draw the chance of exactly j copies of a record against j, from 1 on.

    The chance of no copy at all is one minus eta and, close to one as it mostly is, would hide the
    rest.

    Further parameters, and what is returned, are those of :func:`profile_bands`.

    Parameters
    ----------
    schemes : iterable of Scheme
        At least one.
    smallest : float, default=1e-9
        Chances below this are left out.

    Examples
    --------
    >>> import mustdp as md
    >>> ax = md.plot.multiplicity_law([md.wr(1000, 10), md.must_ow(1000, 50, 10)])
    >>> len(ax.get_legend().get_texts())
    2
    """
    given = list(schemes)
    if not given:
        raise InvalidParameter("schemes must hold at least one scheme, got none")
    if not 0 < smallest < 1:
        raise InvalidParameter(f"smallest must be > 0 and < 1, got {smallest!r}")
    ax, theme = on(ax, theme)
    names = _names(given)
    looks = looks_for(names, theme)
    furthest = 1
    for place, (scheme, name) in enumerate(zip(given, names, strict=True)):
        law = scheme.law()
        keep = law.positive >= smallest
        copies, chances = law.positive_values[keep], law.positive[keep]
        # Smaller and smaller hollow markers: those that share a place are seen inside each other.
        style = {
            **looks[name].line(),
            "markersize": max(5.0, 13.0 - 2.0 * place),
            "markerfacecolor": "none",
        }
        ax.plot(copies, chances, label=looks[name].label, zorder=3, **style)
        furthest = max(furthest, int(copies[-1]) if copies.size else 1)
    ax.set_yscale("log")
    ax.set_xlim(0.5, furthest + 0.5)
    if furthest <= 16:
        ax.set_xticks(np.arange(1, furthest + 1))
    corner = "upper right" if legend else None
    return finish(ax, theme, "copies of one record in a batch", "probability", legend=corner)


def _names(schemes: list[Scheme]) -> list[str]:
    """Names to tell schemes by; one that occurs twice gets its sizes."""
    names = [scheme.name for scheme in schemes]
    return [
        name if names.count(name) == 1 else f"{name} {_sizes(scheme)}"
        for name, scheme in zip(names, schemes, strict=True)
    ]


def _sizes(scheme: Scheme) -> str:
    described = scheme.describe()
    if "stages" in described:
        return ",".join(f"{kind}:{size}" for kind, size in described["stages"])
    return f"{described.get('rate', scheme.n)}"


# The aligned privacy profile: epsilon'/epsilon against delta' - delta as epsilon runs.
#
# Fig. 4 of Zhao, Zhou & Liu, arXiv 2312.13389. The lines epsilon' = epsilon and delta' = delta cut
# the plane into the four kinds of amplification. What is drawn is the paper's theorem, not the
# tighter certificate.


#: Where the axis of epsilon'/epsilon ends: past 1 there is room for curves that grow.
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

    Further parameters, and what is returned, are those of :func:`profile_bands`.

    Parameters
    ----------
    results : iterable of Amplification
        At least one, each with rows.
    linear_within : float, default=None
        Makes the upright axis linear up to this size and logarithmic beyond it on both sides, so
        that small differences can be seen next to large ones; None makes all of it linear.

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
    height = max(highest - lowest, 1e-300)
    bottom = min(lowest - 0.12 * height, -0.25 * height)
    top = max(highest + 0.12 * height, 0.25 * height)
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


# A number over the sizes (b, m) of a two-stage scheme, as labelled contours.


#: Points along each axis of the finer grid that is drawn.
_FINE = 61


def contours(
    b: ArrayLike,
    m: ArrayLike,
    values: ArrayLike,
    *,
    of: str = "ε",
    levels: int | ArrayLike = 8,
    mark: tuple[float, float] | None = None,
    ax: Axes | None = None,
    theme: Theme | None = None,
) -> Axes:
    """Draw contours of a value over the sizes of both stages.

    Both axes are logarithmic. Shades run from dark to bright as the value grows; the numbers on the
    lines say the same without colour.

    Further parameters, and what is returned, are those of :func:`profile_bands`.

    Parameters
    ----------
    b : array_like
        Sizes of the first stage, increasing.
    m : array_like
        Sizes of the batch, increasing.
    values : array_like
        ``values[i][j]`` was found at ``b[j]`` and ``m[i]``; NaN where it is unknown, which stays
        empty.
    of : str, default="ε"
        What the value is called.
    levels : int or array_like, default=8
        How many contours there are, or at which values.
    mark : (float, float), default=None
        A pair (b, m) to be shown.

    Examples
    --------
    >>> import mustdp as md
    >>> ax = md.plot.contours([10, 100], [5, 50], [[0.5, 0.6], [0.7, 0.9]], mark=(50, 20))
    >>> ax.get_xscale()
    'log'
    """
    across, up = checks.reals("b", b, at_least=1), checks.reals("m", m, at_least=1)
    grid = np.ma.masked_invalid(np.asarray(values, dtype=np.float64))
    if grid.shape != (up.size, across.size) or min(grid.shape) < 2:
        raise InvalidParameter(
            f"values must have one row per m and one column per b, at least two of each, so shape "
            f"({up.size}, {across.size}); got {grid.shape}"
        )
    for name, sizes in (("b", across), ("m", up)):
        if not np.all(np.diff(sizes) > 0):
            raise InvalidParameter(f"{name} must increase, got {sizes.tolist()}")
    if grid.count() == 0:
        raise InvalidParameter("values must hold at least one number, got none")
    ax, theme = on(ax, theme)
    heights = _levels(grid, levels)
    shades = _shades(grid, heights)
    fine = _between(across, up, grid)
    ax.contourf(*fine, levels=heights, cmap=theme.shades, norm=shades, extend="both", alpha=0.85)
    lines = ax.contour(*fine, levels=heights, colors=theme.ground, linewidths=1.0)
    labels = ax.clabel(lines, fontsize=9, fmt="%g", colors=theme.ink, use_clabeltext=True)
    for label in labels:
        label.set_bbox({"facecolor": theme.ground, "edgecolor": "none", "pad": 1.2, "alpha": 0.9})
    ax.set_xscale("log")
    ax.set_yscale("log")
    _plain_ticks(ax)
    if mark is not None:
        ax.plot(
            *mark, marker="o", markersize=9, markeredgewidth=2, color=theme.ink,
            markerfacecolor=theme.ground, zorder=5,
        )  # fmt: skip
    ax.set_title(of, fontsize=11)
    first, second = "b, records of the first stage", "m, draws of the batch"
    return finish(ax, theme, first, second, grid=False)


def _wide(low: float, high: float) -> bool:
    """Whether values differ so much that ratios say more than differences."""
    return low > 0 and high > 6.0 * low


def _levels(grid: np.ma.MaskedArray, levels: int | ArrayLike) -> list[float]:
    """The given levels, or round numbers between the smallest and the largest value."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    if not isinstance(levels, int):
        return sorted(checks.reals("levels", levels).tolist())
    low, high = float(grid.min()), float(grid.max())
    if not low < high:
        return [low - 0.5 * abs(low) - 1e-12, high + 0.5 * abs(high) + 1e-12]
    if _wide(low, high):
        ticks = LogLocator(subs=(1.0, 2.0, 5.0), numticks=1000).tick_values(low, high)
    else:
        ticks = MaxNLocator(max(levels, 2)).tick_values(low, high)
    inside = [float(tick) for tick in ticks if low < tick < high]
    every = -(-len(inside) // max(levels, 2))  # rounded up
    return inside[:: max(every, 1)] or [0.5 * (low + high)]


def _shades(grid: np.ma.MaskedArray, heights: list[float]) -> Any:
    from matplotlib.colors import LogNorm, Normalize

    ends = min(heights[0], float(grid.min())), max(heights[-1], float(grid.max()))
    return LogNorm(*ends) if _wide(*ends) else Normalize(*ends)


def _between(b: FloatArray, m: FloatArray, grid: np.ma.MaskedArray) -> tuple[Any, Any, Any]:
    """A finer grid, so that lines bend: linear in the logarithms of sizes and values.

    Where a value is missing or not positive, everything stays as it was given.
    """
    from scipy.interpolate import RegularGridInterpolator

    if np.ma.is_masked(grid) or not float(grid.min()) > 0:
        return b, m, grid
    known = RegularGridInterpolator((np.log(m), np.log(b)), np.log(grid.filled()), method="linear")
    across = np.log(np.geomspace(b[0], b[-1], _FINE))
    up = np.log(np.geomspace(m[0], m[-1], _FINE))
    # Rounding must not put the ends of the fine grid outside the given one.
    points = np.stack(np.meshgrid(up, across, indexing="ij"), axis=-1)
    points = np.clip(points, np.log([m[0], b[0]]), np.log([m[-1], b[-1]]))
    return np.exp(across), np.exp(up), np.exp(known(points))


def _plain_ticks(ax: Axes) -> None:
    """Numbers such as 2000 instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axis.set_minor_formatter(NullFormatter())
