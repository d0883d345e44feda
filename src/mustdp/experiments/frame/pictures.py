"""Pictures as data: one of a fixed list of drawings, and what it is drawn from.

So a picture can be stored and drawn again without computing anything, and a stored file can ask for
nothing but these drawings.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.plots import aligned, paper
from mustdp.plots.drawing import LIGHT, Theme
from mustdp.plots.training_curves import training_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Every drawing there is, by the name under which it is stored. Each takes its data as keyword
#: arguments made of what JSON can hold, lists where it was given tuples, and a ``theme``.
DRAWINGS: Mapping[str, Callable[..., Figure]] = {
    drawing.__name__: drawing
    for drawing in (
        aligned.aligned_profile_panels,
        paper.before_and_after,
        paper.delta_against_steps,
        paper.four_kinds,
        paper.size_contours,
        paper.size_surfaces,
        training_curves,
    )
}
#: A picture's name becomes the name of its file.
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True)
class Picture:
    """A picture that is drawn when ``figure()`` is called, from data that JSON can hold."""

    name: str
    title: str
    drawing: str
    data: Mapping[str, Any]
    alt: str

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and _NAME.fullmatch(self.name)):
            raise InvalidParameter(
                "a picture's name must be small letters, digits and single hyphens, "
                f"got {str(self.name)[:40]!r}"
            )
        drawing = DRAWINGS[checks.choice("drawing", self.drawing, tuple(DRAWINGS))]
        try:
            inspect.signature(drawing).bind(**self.data, theme=LIGHT)
        except TypeError as problem:
            raise InvalidParameter(
                f"data must be what {self.drawing} is drawn from: {problem}"
            ) from None

    def figure(self, theme: Theme = LIGHT) -> Figure:
        """Draw it; a page asks for both themes."""
        return DRAWINGS[self.drawing](**self.data, theme=theme)


#: Values on both axes.
Curve = tuple[Sequence[float], Sequence[float]]


def curve_panel(title: str, ylabel: str, curves: Mapping[str, Curve]) -> dict[str, Any]:
    """One panel of ``training_curves``, with curves by their names."""
    listed = [{"name": name, "x": list(x), "y": list(y)} for name, (x, y) in curves.items()]
    return {"title": title, "ylabel": ylabel, "curves": listed}
