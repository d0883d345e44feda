"""Pictures of results: bootstraps, releases, training losses, ledgers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.ledger.file import LedgerFile
from mustdp.numerics import checks
from mustdp.numerics.formatting import as_stated, percent_stated, picture_text, readable
from mustdp.reporting.plots.drawing import Theme, finish, look_of, looks_for, mark_seed, on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mustdp.estimation.planning import Expected
    from mustdp.estimation.result import BootstrapResult, ReleasedEstimate, ReleaseResult

# A private bootstrap at a glance: noisy replicates, the interval, and the share of the noise.


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


# Estimates of one release with their intervals, side by side; and widths against epsilon.


def released_estimates(
    result: ReleaseResult,
    family: str | None = None,
    *,
    ax: Axes | None = None,
    theme: Theme | None = None,
) -> Axes:
    """Draw the estimates of one statistic of one column (the first by default).

    The thin bar is the interval, the thick one in it as much as the noise causes. What is flagged
    is drawn hollow; an interval without ends, and an estimate that is not known, is left out.
    """
    families = result.by_statistic()
    name = next(iter(families)) if family is None else family
    ax, theme = on(ax, theme)
    color, rows = look_of("wr", theme).color, families[name]
    for place, one in enumerate(rows):
        _bar(ax, theme, color, -place, one)
    names = [picture_text(_called(one)) for one in rows]
    ax.set_yticks([-place for place in range(len(rows))], names)
    ax.set_ylim(-len(rows) + 0.4, 0.6)
    mark_seed(ax, result.privacy.seeded)
    title = f"{picture_text(name)}, with {percent_stated(result.level)} intervals"
    return finish(ax, theme, title, "")


def _bar(ax: Axes, theme: Theme, color: str, place: int, one: ReleasedEstimate) -> None:
    low, high = one.interval
    if math.isfinite(low) and math.isfinite(high):
        ax.plot([low, high], [place, place], color=color, linewidth=1.6, solid_capstyle="butt")
    if not one.known:
        return
    if math.isfinite(low) and math.isfinite(high):
        half = 0.5 * math.sqrt(one.noise_share) * (high - low)
        ax.plot(
            [max(low, one.value - half), min(high, one.value + half)],
            [place, place],
            color=color,
            linewidth=6,
            alpha=0.35,
            solid_capstyle="butt",
        )
    inside = theme.ground if one.flags else color
    ax.plot(one.value, place, "o", color=color, markerfacecolor=inside, markersize=6, zorder=3)


def _called(one: ReleasedEstimate) -> str:
    return ", ".join(part for part in (one.cell, one.group) if part) or one.statistic


def widths_against_epsilon(
    widths: Sequence[tuple[float, Sequence[Expected]]],
    *,
    ax: Axes | None = None,
    theme: Theme | None = None,
) -> Axes:
    """Draw expected widths against epsilon, a line for each estimate; both axes logarithmic."""
    ax, theme = on(ax, theme)
    labels = [one.label for one in widths[0][1]]
    looks = looks_for(labels, theme)
    for k, label in enumerate(labels):
        ax.plot(
            [epsilon for epsilon, _ in widths],
            [found[k].width for _, found in widths],
            label=picture_text(label),
            **looks[label].line(),
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    return finish(ax, theme, "epsilon", "expected width of the interval", legend="best")


# Loss against steps of training runs: one line per run, or the mean of several with its error.


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

    Further parameters, and what is returned, are those of :func:`profile_bands`.

    Parameters
    ----------
    losses : mapping of str to array_like
        One run (a loss per step) or several runs of the same length (a row each), of which mean and
        standard error are drawn, by name.
    smooth : int, default=1
        How many steps are averaged over.
    label : str, default="loss"
        What was measured.

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


# A budget over time: what is spent after every charge, and what is left of the limit.


def ledger(
    opened: LedgerFile, *, ax: Axes | None = None, theme: Theme | None = None, legend: bool = True
) -> Axes:
    """Draw the epsilon spent of an open ledger's limit against time.

    A step for each charge, at the time it was made; the dashed line is the limit, the shade between
    the two what is left.

    Further parameters, and what is returned, are those of :func:`profile_bands`.

    Parameters
    ----------
    opened : LedgerFile
        What :meth:`Ledger.open` gave.

    Examples
    --------
    >>> import mustdp as md
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with md.Ledger.open(f"{folder}/office.ledger", epsilon=4, delta=1e-6) as opened:
    ...         entry = opened.charge(md.gaussian(noise_multiplier=10.0), label="table 1")
    ...         ax = ledger(opened)  # md.plot.ledger
    >>> ax.get_xlabel()
    'time (UTC)'
    """
    if not isinstance(opened, LedgerFile):
        raise InvalidParameter(
            f"ledger must be one in a file, opened with Ledger.open, got {type(opened).__name__}"
        )
    entries = opened.entries()
    if not entries:
        raise InvalidParameter("the ledger is empty: nothing was charged yet")
    ax, theme = on(ax, theme)
    limit, delta = opened.header.epsilon, opened.header.delta
    look = look_of("must-ow", theme)
    # The first charge starts from nothing spent, and the last one holds until the edge.
    times: Any = [entries[0].when, *(entry.when for entry in entries)]
    spent = [0.0, *(entry.epsilon for entry in entries)]
    ax.fill_between(times, spent, limit, step="post", color=look.color, alpha=0.12, linewidth=0,
                    label=f"left: {readable(opened.left(), 'down')}")  # fmt: skip
    ax.plot(times, spent, drawstyle="steps-post", color=look.color, linewidth=1.8, marker=".",
            label=f"spent: {readable(opened.spent(), 'up')}")  # fmt: skip
    ax.axhline(
        limit, color=theme.ink, linewidth=1.0, linestyle="--", label=f"limit: {as_stated(limit)}"
    )
    ax.set_ylim(0.0, 1.08 * limit)
    _dates(ax)
    corner = "lower right" if legend else None
    return finish(ax, theme, "time (UTC)", f"ε at δ = {as_stated(delta)}", legend=corner)


def _dates(ax: Axes) -> None:
    """Few, short dates that do not run into each other."""
    dates: Any = required("matplotlib.dates", "pictures")
    locator = dates.AutoDateLocator(maxticks=6)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
