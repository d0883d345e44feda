"""Draws winners.svg: which triple of WOR is the worst, by the steps and the epsilon that are left.

python docs/derivations/figures/winners.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from mustdp.accounting.families.recursion import Cover, LossWindow, Recursion
from mustdp.accounting.families.triples import DiscTriples, TripleCell
from mustdp.errors import InvalidParameter
from mustdp.reporting.plots.drawing import figure_of, finish, on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHANCE, SHIFT, STEPS, SPACING = 1 / 30, 2 / 3.117, 300, 0.01


def main() -> None:
    """Work backwards and note the winner at every grid point."""
    family = DiscTriples(CHANCE, SHIFT)
    # Single triples, not cells: each of them is attained.
    omega, place = np.linspace(0.4, 0.5 * np.pi, 9), np.linspace(0.0, 1.0, 13)
    cells = [TripleCell(((o, o), (f, f))) for o in omega for f in place]
    share = np.array([0.5 * sum(cell.ranges[1]) for cell in cells])
    cover = Cover(family, SPACING, np.arange(0, 120, dtype=np.int64))
    recursion = Recursion(LossWindow(SPACING, -120, 220, 119, 60, 4.0), "upper")
    kernels = recursion.kernels(cover.losses(cover.profiles(cells)))
    rows = []
    for _ in range(STEPS):
        rows.append(share[np.argmax(recursion.applied(kernels), axis=0)])
        recursion.step(kernels)
    seen = np.abs(recursion.window.epsilon) <= 1.0
    shown = np.stack(rows)[::3, seen]
    ax = winners(recursion.window.epsilon[seen], np.arange(1, STEPS + 1, 3), shown)
    figure_of(ax).savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


def winners(epsilon: ArrayLike, steps: ArrayLike, share: ArrayLike) -> Axes:
    """Draw where along the family the winner lies, and return the axes.

    ``share`` has a row for every number of ``steps`` that are left and a column for every
    ``epsilon``: 0 for the aligned pair, 1 for the reversed one.
    """
    e, k, f = (np.asarray(values, dtype=np.float64) for values in (epsilon, steps, share))
    if f.shape != (k.size, e.size):
        raise InvalidParameter(
            f"share must have {k.size} rows of {e.size} values, got the shape {f.shape}"
        )
    ax, theme = on(None, None)
    drawn = ax.pcolormesh(e, k, f, cmap="viridis", vmin=0.0, vmax=1.0, rasterized=True)
    bar = figure_of(ax).colorbar(drawn, ax=ax, ticks=[0.0, 0.5, 1.0])
    bar.ax.set_yticklabels(["aligned", "between", "reversed"], color=theme.ink)
    return finish(ax, theme, "ε that is left", "steps that are left", grid=False)


if __name__ == "__main__":
    main()
