"""What all pictures share: matplotlib on demand, and how each scheme looks.

Every scheme differs from the others in line style and marker as well as in colour, so that pictures
survive a black-and-white printer. The colours are those of Okabe & Ito, made for colour-blind
readers. Figures are made without pyplot: nothing opens a window or stays behind in global state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, QUIET = "#222222", "#6b6b6b"


@dataclass(frozen=True)
class Look:
    """How one scheme is drawn."""

    label: str
    color: str
    linestyle: str | tuple[int, tuple[float, ...]]
    marker: str

    def line(self) -> dict[str, Any]:
        """Keyword arguments for ``Axes.plot``."""
        return {
            "color": self.color,
            "linestyle": self.linestyle,
            "marker": self.marker,
            "linewidth": 1.6,
            "markersize": 5.5,
            "markerfacecolor": "white",
            "markeredgewidth": 1.3,
        }


LOOKS = {
    "poisson": Look("Poisson", "#666666", (0, (1, 1)), "P"),
    "wor": Look("WOR", "#000000", "-", "o"),
    "wr": Look("WR", "#0072B2", (0, (5, 2)), "s"),
    "must-ow": Look("MUSTow", "#D55E00", (0, (4, 1.5, 1, 1.5)), "^"),
    "must-ww": Look("MUSTww", "#009E73", (0, (1.2, 1.2)), "D"),
    "must-wo": Look("MUSTwo", "#CC79A7", (0, (5, 1, 1, 1, 1, 1)), "v"),
    "must-oo": Look("MUSToo", "#56B4E9", (0, (8, 2)), "X"),
}
_ANY = Look("multistage", "#E69F00", (0, (6, 1, 2, 1)), "*")


def look_of(scheme_name: str) -> Look:
    """The look of a scheme by its name on the command line."""
    return LOOKS.get(scheme_name, _ANY)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure on a white ground, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            'pictures need matplotlib, which is not installed: pip install "mustdp[plots]"'
        ) from None
    return Figure(figsize=(width, height), facecolor="white", layout="constrained")
