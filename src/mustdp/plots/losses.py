"""Loss against steps of training runs: one line per run, or the mean of several with its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.plots.drawing import Theme, finish, looks_for, on

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def loss_curves(
    losses: Mapping[str, ArrayLike],
    *,
    smooth: int = 1,
    label: str = "loss",
    ax: Axes | None = None,
    theme: Theme | None = None,
    legend: bool = True,
) -> Axes:
    """Draw the loss of every step, one line per name.

    Losses on training records are not private: the picture is for those who may see the data.

    Parameters
    ----------
    losses : mapping of str to array_like
        One run (a loss per step) or several runs of the same length (a row each), of which mean and
        standard error are drawn, by name.
    smooth : int, default=1
        How many steps are averaged over.
    label : str, default="loss"
        What was measured.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a new figure.
    theme : Theme, default=None
        ``md.plot.LIGHT`` or ``md.plot.DARK``; None lets the ground of the axes decide.
    legend : bool, default=True
        Whether to draw a legend.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on; nothing is shown or saved.

    Examples
    --------
    >>> import mustdp as md
    >>> md.plot.loss_curves({"wor": [0.9, 0.7, 0.6]}, label="mean loss").get_ylabel()
    'mean loss'
    """
    if not losses:
        raise InvalidParameter("losses must hold at least one run, got none")
    width = checks.integer("smooth", smooth, 1)
    ax, theme = on(ax, theme)
    for name, look in looks_for(losses, theme).items():
        runs = np.stack([_moving_mean(run, width) for run in _runs(name, losses[name], width)])
        steps = np.arange(width, width + runs.shape[1])
        mean = runs.mean(axis=0)
        ax.plot(
            steps, mean, label=look.label, markevery=max(1, len(steps) // 8), zorder=3,
            **look.line(),
        )  # fmt: skip
        if len(runs) > 1:
            error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
            ax.fill_between(
                steps, mean - error, mean + error, color=look.color, alpha=0.22, linewidth=0
            )
    across = "steps" if width == 1 else f"steps (mean over {width})"
    return finish(ax, theme, across, label, legend="upper right" if legend else None)


def _runs(name: str, values: ArrayLike, width: int) -> NDArray[np.float64]:
    """The runs as rows, every number finite and no run shorter than the mean over it."""
    runs = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if runs.ndim != 2 or runs.shape[1] < width or not np.all(np.isfinite(runs)):
        raise InvalidParameter(
            f"losses[{name!r}] must be one run or rows of equal length, finite and of at least "
            f"smooth = {width} steps, got shape {runs.shape}"
        )
    return runs


def _moving_mean(run: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    return np.convolve(run, np.full(width, 1.0 / width), mode="valid")
