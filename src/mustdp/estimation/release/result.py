"""What a release gives: estimates with intervals, what they cost, and tables of them."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mustdp.calibration.budget import PrivacySpent
from mustdp.estimation.bootstrap.result import Estimates
from mustdp.estimation.release.estimate import ReleasedEstimate
from mustdp.numerics.formatting import (
    NOT_KNOWN,
    csv_table,
    estimate_in_words,
    latex_text,
    percent_stated,
)
from mustdp.randomness.keys import SEEDED

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class ReleaseResult(Estimates[ReleasedEstimate]):
    """Estimates of one release on all records; all of it may be published.

    ``estimate``, ``standard_error`` and ``interval`` are those of the first; ``result[label]`` is
    the estimate of that label.

    Attributes
    ----------
    estimates : tuple of ReleasedEstimate
        All estimates, in the order of the statistics.
    privacy : PrivacySpent
        What the release cost.
    level : float
        Confidence of the intervals.
    notes : tuple of str
        What a reader has to know about all of them.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> ages = np.random.default_rng(0).uniform(20, 80, 1000)
    >>> result = md.private_release(ages, "mean", lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> len(result.estimates), result.level, result.privacy.epsilon.upper <= 1.0
    (1, 0.95, True)
    """

    estimates: tuple[ReleasedEstimate, ...]
    privacy: PrivacySpent
    level: float
    notes: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """What readers of the first estimate have to know."""
        return self.estimates[0].flags

    def families(self) -> dict[str, tuple[ReleasedEstimate, ...]]:
        """Estimates that belong together: of one statistic of the same columns, in their order.

        Returns
        -------
        dict of str to tuple of ReleasedEstimate
            By statistic and columns.
        """
        found: dict[str, list[ReleasedEstimate]] = {}
        for one in self.estimates:
            name = f"{one.statistic} {one.column}" if one.column else one.statistic
            found.setdefault(name, []).append(one)
        return {name: tuple(rows) for name, rows in found.items()}

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        return {
            "estimates": [estimate.as_dict() for estimate in self.estimates],
            "level": self.level,
            "privacy": self.privacy.as_dict(),
            "notes": list(self.notes),
        }

    def as_csv(self) -> str:
        """A table with one row for each estimate; numbers in full, NA for what is not known.

        A result made with a seed says so among its flags.

        Returns
        -------
        str
            CSV with a line of names.
        """
        rows = [[*_NAMES, "estimate", "standard_error", "lower", "upper", "flags"]]
        seeded = (SEEDED,) if self.privacy.seeded else ()
        for one in self.estimates:
            names = [getattr(one, name) or "" for name in _NAMES]
            numbers = [one.value, one.standard_error, *one.interval]
            shown = [repr(float(x)) if math.isfinite(x) else NOT_KNOWN for x in numbers]
            rows.append([*names, *shown, "; ".join((*seeded, *one.flags))])
        return csv_table(rows)

    def as_latex(self) -> str:
        """A table for a paper; needs no package.

        Returns
        -------
        str
            A ``tabular``.
        """
        level = percent_stated(self.level).removesuffix(" %")
        lines = [
            r"\begin{tabular}{lrrr}",
            rf"estimate of & value & standard error & {level}\,\% interval \\",
            r"\hline",
        ]
        if self.privacy.seeded:
            lines.append(rf"\multicolumn{{4}}{{l}}{{{latex_text(SEEDED)}}} \\")
        for one in self.estimates:
            value, error, low, high = estimate_in_words(
                one.value, one.standard_error, one.interval, unknown="--"
            )
            lines.append(rf"{latex_text(one.label)} & {value} & {error} & [{low}, {high}] \\")
        return "\n".join([*lines, r"\end{tabular}", ""])

    def plot(self, family: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the estimates of one of :meth:`families`, groups side by side.

        Parameters
        ----------
        family : str, default=None
            Which one; None means the first.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes that were drawn on; nothing is shown or saved.
        """
        drawing: Any = importlib.import_module("mustdp.reporting.plots.results")
        axes: Axes = drawing.released_estimates(self, family, ax=ax)
        return axes


_NAMES = ("statistic", "column", "group", "cell")
