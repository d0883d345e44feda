"""A private bootstrap at a glance: noisy replicates, the interval, and the share of the noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mustdp.numerics.decimals import percent_stated
from mustdp.numerics.exports import picture_text
from mustdp.plots.drawing import Theme, finish, look_of, mark_seed, on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mustdp.resampling.result import BootstrapResult


def bootstrap_replicates(
    result: BootstrapResult,
    label: str | None = None,
    *,
    ax: Axes | None = None,
    theme: Theme | None = None,
) -> Axes:
    """Draw the replicates of one estimate (the first by default) and return the axes.

    The histogram is of the noisy replicates; the thick bar below it is the interval, the dot the
    estimate, and the hatched part of the bar is as much of it as the noise causes. An estimate that
    is not known is left out.
    """
    chosen = result.estimates[0] if label is None else result[label]
    place = result.estimates.index(chosen)
    values = result.replicates[:, place]
    ax, theme = on(ax, theme)
    color = look_of("wr", theme).color
    bins = int(min(60, max(8, math.isqrt(values.size))))
    heights, edges = np.histogram(values, bins=bins)
    ax.stairs(heights, edges, fill=True, color=color, alpha=0.3, label="noisy replicates")
    ax.stairs(heights, edges, color=color, linewidth=1.1)
    top = float(heights.max())
    below = -0.09 * top
    low, high = chosen.interval
    name = f"{percent_stated(result.level)} interval ({result.kind})"
    ax.plot([low, high], [below, below], color=theme.ink, linewidth=5, solid_capstyle="butt",
            label=name)  # fmt: skip
    half = 0.5 * math.sqrt(chosen.noise_share) * chosen.width
    if math.isfinite(chosen.value):
        ax.fill_between(
            [chosen.value - half, chosen.value + half],
            below - 0.055 * top,
            below + 0.055 * top,
            facecolor=theme.ground,
            edgecolor=theme.ink,
            hatch="////",
            linewidth=0.8,
            zorder=3,
            label=f"the noise alone ({100 * chosen.noise_share:.0f} % of the variance)",
        )
        ax.plot(chosen.value, below, "o", color=theme.ink, markersize=6, zorder=4, label="estimate")
    ax.set_ylim(bottom=-0.2 * top)
    ax.set_yticks([tick for tick in ax.get_yticks() if tick >= 0])
    ax.set_ylim(-0.2 * top, 1.45 * top)
    across = f"replicates (of {values.size})"
    mark_seed(ax, result.privacy.seeded)
    return finish(ax, theme, picture_text(chosen.label), across, legend="upper right")
