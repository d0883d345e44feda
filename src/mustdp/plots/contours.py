"""A number over the sizes (b, m) of a two-stage scheme, as labelled contours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.plots.drawing import Theme, finish, on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a new figure.
    theme : Theme, default=None
        ``md.plot.LIGHT`` or ``md.plot.DARK``; None lets the ground of the axes decide.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on; nothing is shown or saved.

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
