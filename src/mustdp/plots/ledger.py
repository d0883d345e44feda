"""A budget over time: what is spent after every charge, and what is left of the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.ledger.budget_file import LedgerFile
from mustdp.numerics.decimals import as_stated, readable
from mustdp.plots.drawing import Theme, finish, look_of, on

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def ledger(
    opened: LedgerFile, *, ax: Axes | None = None, theme: Theme | None = None, legend: bool = True
) -> Axes:
    """Draw the epsilon spent of an open ledger's limit against time.

    A step for each charge, at the time it was made; the dashed line is the limit, the shade between
    the two what is left.

    Parameters
    ----------
    opened : LedgerFile
        What :meth:`Ledger.open` gave.
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
