"""Figures as something a page can hold: small SVG, or PNG where the SVG would be large.

The SVG is made for standing inside HTML: no prolog, no metadata, no address of any kind, and
identifiers that do not collide with those of other pictures in the same page. Letters are drawn as
shapes, so that it looks alike wherever it is opened.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from mustdp.errors import InvalidParameter
from mustdp.plots.drawing import IN_THE_DARK, Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Draws a figure in the colours of a theme.
Draw: TypeAlias = "Callable[[Theme], Figure]"
#: An SVG of more bytes than this is replaced by a PNG.
LARGEST_SVG = 300_000
_PIXELS_PER_INCH = 160
_SETTINGS: Any = {"svg.fonttype": "path", "svg.hashsalt": "mustdp", "svg.image_inline": True}


@dataclass(frozen=True)
class Rendered:
    """A picture: an ``<svg>`` element, or a PNG. ``width`` and ``height`` in CSS pixels."""

    width: int
    height: int
    svg: str = ""
    png: bytes = b""

    @property
    def address(self) -> str:
        """The PNG as an address that holds it."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode("ascii")


def render(figure: Figure, name: str, largest_svg: int = LARGEST_SVG) -> Rendered:
    """Render a figure. ``name`` tells its identifiers from those of other pictures."""
    from matplotlib import rc_context

    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", name):
        raise InvalidParameter(f"name must be letters, digits and hyphens, got {name!r}")
    width, height = (round(96 * float(inches)) for inches in figure.get_size_inches())
    with rc_context(_SETTINGS):
        written = io.StringIO()
        figure.savefig(written, format="svg", facecolor=figure.get_facecolor())
        svg = for_html(written.getvalue(), name)
        if len(svg.encode()) <= largest_svg:
            return Rendered(width, height, svg=svg)
        painted = io.BytesIO()
        figure.savefig(
            painted, format="png", dpi=_PIXELS_PER_INCH, facecolor=figure.get_facecolor()
        )
    return Rendered(width, height, png=painted.getvalue())


def in_the_dark(light: Rendered, name: str, dark_name: str) -> Rendered | None:
    """A picture in the dark theme, from the same in the light one; None if it is not an SVG.

    It is what :func:`render` makes of the figure in the dark theme, without drawing it.
    """
    if not light.svg:
        return None
    # What is filled with black is not said to be.
    svg = re.sub(r'style="(?=fill-opacity: (?!0[;"]))', 'style="fill: #000000; ', light.svg)
    svg = re.sub(r"#[0-9a-f]{6}\b", lambda one: IN_THE_DARK.get(one[0], one[0]), svg)
    svg = re.sub(rf'(id="|href="#|url\(#){name}-(?=\d)', rf"\1{dark_name}-", svg)
    return replace(light, svg=svg)


def for_html(document: str, name: str) -> str:
    """An SVG document as an element of an HTML page."""
    start = document.find("<svg")
    if start < 0:
        raise InvalidParameter("document must hold an <svg> element")
    svg = re.sub(r"<metadata>.*?</metadata>", "", document[start:], flags=re.DOTALL)
    # Its only style rule speaks of every element, which inside a page means the whole page.
    svg = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(
        r"<svg\b[^>]*?(viewBox=\"[^\"]*\")[^>]*>",
        r'<svg \1 style="stroke-linejoin:round;stroke-linecap:butt" aria-hidden="true">',
        svg,
        count=1,
    )
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    short = {identifier: f"{name}-{index}" for index, identifier in enumerate(used)}
    svg = re.sub(
        r'\sid="([^"]*)"',
        lambda found: f' id="{short[found[1]]}"' if found[1] in short else "",
        svg,
    )
    svg = re.sub(r'(href="#|url\(#)([^")]+)', lambda found: f"{found[1]}{short[found[2]]}", svg)
    return re.sub(r">\s+<", "><", svg).strip()
