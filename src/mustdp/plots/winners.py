"""Which pair of a family is the worst: a map over the steps that are left and the loss to come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from mustdp.errors import InvalidParameter
from mustdp.plots.drawing import Theme, dress, figure_of, on

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def winners(
    epsilon: ArrayLike,
    steps: ArrayLike,
    share: ArrayLike,
    *,
    ax: Axes | None = None,
    theme: Theme | None = None,
) -> Axes:
    """Draw where along the family the winner lies, and return the axes.

    ``share`` has a row for every number of ``steps`` that are left and a column for every
    ``epsilon``: 0 for the aligned pair, 1 for the reversed one.
    """
    e, k, f = (np.asarray(values, dtype=np.float64) for values in (epsilon, steps, share))
    if f.shape != (k.size, e.size):
        raise InvalidParameter(
            f"share must have {k.size} rows of {e.size} values, got the shape {f.shape}"
        )
    ax, theme = on(ax, theme)
    drawn = ax.pcolormesh(e, k, f, cmap="viridis", vmin=0.0, vmax=1.0, rasterized=True)
    bar = figure_of(ax).colorbar(drawn, ax=ax, ticks=[0.0, 0.5, 1.0])
    bar.ax.set_yticklabels(["aligned", "between", "reversed"], color=theme.ink)
    ax.set_xlabel("ε that is left")
    ax.set_ylabel("steps that are left")
    dress(ax, theme, grid=False)
    return ax
