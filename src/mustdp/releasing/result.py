"""What a release gives: estimates with intervals, what they cost, and tables of them."""

from __future__ import annotations

import csv
import importlib
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mustdp.calibration.settle import Spent
from mustdp.releasing.estimate import ReleasedEstimate
from mustdp.resampling.result import cost_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class ReleaseResult:
    """Estimates of one release on all records; all of it may be published.

    >>> import mustdp as md
    >>> import numpy as np
    >>> ages = np.random.default_rng(0).uniform(20, 80, 1000)
    >>> result = md.private_release(ages, "mean", lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> len(result.estimates), result.level, result.privacy.epsilon.upper <= 1.0
    (1, 0.95, True)
    """

    estimates: tuple[ReleasedEstimate, ...]
    privacy: Spent
    level: float
    notes: tuple[str, ...] = ()

    @property
    def estimate(self) -> float:
        """The first estimate."""
        return self.estimates[0].value

    @property
    def standard_error(self) -> float:
        """Standard error of the first estimate."""
        return self.estimates[0].standard_error

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the first estimate."""
        return self.estimates[0].interval

    @property
    def flags(self) -> tuple[str, ...]:
        """What readers of the first estimate have to know."""
        return self.estimates[0].flags

    def __getitem__(self, label: str) -> ReleasedEstimate:
        for estimate in self.estimates:
            if estimate.label == label:
                return estimate
        known = ", ".join(estimate.label for estimate in self.estimates)
        raise KeyError(f"no estimate {label!r}: there is {known}")

    def families(self) -> dict[str, tuple[ReleasedEstimate, ...]]:
        """Estimates that belong together: of one statistic of the same columns, in their order."""
        found: dict[str, list[ReleasedEstimate]] = {}
        for one in self.estimates:
            name = f"{one.statistic} {one.column}" if one.column else one.statistic
            found.setdefault(name, []).append(one)
        return {name: tuple(rows) for name, rows in found.items()}

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        return {
            "estimates": [estimate.as_dict() for estimate in self.estimates],
            "level": self.level,
            "privacy": self.privacy.as_dict(),
            "notes": list(self.notes),
        }

    def as_csv(self) -> str:
        """A table with one row for each estimate; numbers in full."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*_NAMES, "estimate", "standard_error", "lower", "upper", "flags"])
        for one in self.estimates:
            names = [getattr(one, name) or "" for name in _NAMES]
            numbers = [one.value, one.standard_error, *one.interval]
            shown = [repr(float(x)) if math.isfinite(x) else "" for x in numbers]
            writer.writerow([*names, *shown, "; ".join(one.flags)])
        return out.getvalue()

    def as_latex(self) -> str:
        """A table for a paper; needs no package."""
        lines = [
            r"\begin{tabular}{lrrr}",
            rf"estimate of & value & standard error & {100 * self.level:g}\,\% interval \\",
            r"\hline",
        ]
        for one in self.estimates:
            low, high = (f"{end:.5g}" if math.isfinite(end) else "--" for end in one.interval)
            error = f"{one.standard_error:.3g}" if math.isfinite(one.standard_error) else "--"
            label = _escaped(one.label)
            lines.append(rf"{label} & {one.value:.5g} & {error} & [{low}, {high}] \\")
        return "\n".join([*lines, r"\end{tabular}", ""])

    def __str__(self) -> str:
        columns = ("estimate of", "value", "standard error", f"{self.level:.3g} interval", "noise")
        rows = [
            (
                one.label,
                f"{one.value:.5g}",
                f"{one.standard_error:.3g}",
                f"[{one.interval[0]:.5g}, {one.interval[1]:.5g}]",
                f"{100 * one.noise_share:.0f} %",
            )
            for one in self.estimates
        ]
        widths = [max(len(row[k]) for row in (columns, *rows)) for k in range(len(columns))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))
                 for row in (columns, *rows)]  # fmt: skip
        cost = cost_in_words(self.privacy)
        first = [cost, *lines] if self.privacy.seeded else [*lines, cost]
        return "\n".join([*first, *self.notes])

    def plot(self, family: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the estimates of one of :meth:`families`, groups side by side; give the axes.

        The room that draws stands above this one, so it is looked up by name.
        """
        drawing: Any = importlib.import_module("mustdp.plots.released")
        axes: Axes = drawing.released_estimates(self, family, ax=ax)
        return axes


_NAMES = ("statistic", "column", "group", "cell")
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_SPECIAL |= {sign: "\\" + sign for sign in "&%$#_{}"}
_SPECIAL |= {"<": r"$<$", ">": r"$>$"}


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(sign, sign) for sign in text)
