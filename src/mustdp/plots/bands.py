"""Bounds as bands: certified above, attained below, the truth in between.

The upper edge is what may be relied on and is drawn as the line of the scheme; the lower edge is
what some pair of data sets reaches. Where the two meet, the band is a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mustdp.accounting.bounds import Bounds, Curve
from mustdp.errors import InvalidParameter
from mustdp.plots.drawing import Look, Theme, finish, looks_for, on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    Parameters
    ----------
    bands : mapping of str to mapping of int to Bounds
        Bounds by number of steps, by name, for example ``{"wor": {k: md.account(md.repeat(k,
        step)).epsilon(1e-5) for k in (10, 100)}}``.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a new figure.
    theme : Theme, default=None
        ``md.plot.LIGHT`` or ``md.plot.DARK``; None lets the ground of the axes decide.
    legend : bool, default=True
        Whether to draw a legend.
    mark : (float, float), default=None
        A target (steps, epsilon) to be shown.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on; nothing is shown or saved.

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
