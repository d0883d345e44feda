"""How often one record occurs in a batch: the multiplicity law of schemes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.plots.drawing import Theme, finish, looks_for, on
from mustdp.sampling.scheme import Scheme

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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

    Parameters
    ----------
    schemes : iterable of Scheme
        At least one.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a new figure.
    theme : Theme, default=None
        ``md.plot.LIGHT`` or ``md.plot.DARK``; None lets the ground of the axes decide.
    legend : bool, default=True
        Whether to draw a legend.
    smallest : float, default=1e-9
        Chances below this are left out.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on; nothing is shown or saved.

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
