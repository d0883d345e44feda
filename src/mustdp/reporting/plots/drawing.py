"""What all pictures share: matplotlib on demand, two themes, and rendering for pages."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.randomness.keys import SEEDED
from mustdp.sampling.catalogue import BY_NAME

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What all pictures share: matplotlib on demand, two themes, and how each scheme looks.
#
# Every scheme differs from the others in line style and marker as well as in colour, so that
# pictures survive a black-and-white printer. The colours are those of Okabe & Ito, made for
# colour-blind readers, and lighter relatives of them on a dark ground. Figures are made without
# pyplot: nothing opens a window or stays behind in global state.


INK, QUIET = "#222222", "#6b6b6b"


@dataclass(frozen=True)
class Theme:
    """The colours of a picture apart from those of the schemes.

    Parameters
    ----------
    name : str
        What it is called.
    ground : str
        Colour of the ground.
    ink : str
        Colour of text and axes.
    quiet : str
        Colour of what should stay behind.
    grid : str
        Colour of the grid.
    tints : (str, str, str)
        Behind the quadrants of an aligned profile: good, middling, bad.
    shades : str
        Name of a colour map from small to large that stays readable in grey.

    Examples
    --------
    >>> import mustdp as md
    >>> md.plot.LIGHT.name, md.plot.DARK.ground
    ('light', '#16191d')
    """

    name: str
    ground: str
    ink: str
    quiet: str
    grid: str
    tints: tuple[str, str, str]
    shades: str


LIGHT = Theme(
    "light", "#ffffff", INK, QUIET, "#e4e4e4", ("#e9f3ec", "#fbf6e6", "#f7e9e6"), "cividis"
)
DARK = Theme(
    "dark", "#16191d", "#e6e6e6", "#a2a7ad", "#33383f", ("#17291f", "#2a2617", "#2f1c1a"), "cividis"
)
THEMES = (LIGHT, DARK)


@dataclass(frozen=True)
class Look:
    """How one scheme is drawn."""

    label: str
    color: str
    linestyle: str | tuple[int, tuple[float, ...]]
    marker: str
    #: Colour inside markers: that of the ground, so that lines do not run through them.
    inside: str = "white"

    def line(self) -> dict[str, Any]:
        """Keyword arguments for ``Axes.plot``."""
        return {
            "color": self.color,
            "linestyle": self.linestyle,
            "marker": self.marker,
            "linewidth": 1.6,
            "markersize": 5.5,
            "markerfacecolor": self.inside,
            "markeredgewidth": 1.3,
        }


#: Colour on a light and on a dark ground, line and marker of every scheme.
_DRAWN: dict[str, tuple[str, str, str | tuple[int, tuple[float, ...]], str]] = {
    "poisson": ("#666666", "#b4b4b4", (0, (1, 1)), "P"),
    "wor": ("#000000", "#ffffff", "-", "o"),
    "wr": ("#0072B2", "#4aa3e8", (0, (5, 2)), "s"),
    "must-ow": ("#D55E00", "#ff8a4a", (0, (4, 1.5, 1, 1.5)), "^"),
    "must-ww": ("#009E73", "#2cc79a", (0, (1.2, 1.2)), "D"),
    "must-wo": ("#CC79A7", "#e6a0c8", (0, (5, 1, 1, 1, 1, 1)), "v"),
    "must-oo": ("#56B4E9", "#9ad8ff", (0, (8, 2)), "X"),
}
LOOKS = {
    name: Look(BY_NAME[name].label, light, line, marker)
    for name, (light, _, line, marker) in _DRAWN.items()
}
_ANY = Look("multistage", "#E69F00", (0, (6, 1, 2, 1)), "*")
#: Colours on a dark ground, by those on a light one.
ON_DARK = {light: dark for light, dark, _, _ in _DRAWN.values()} | {_ANY.color: "#f2bb45"}
#: All colours of a picture on a dark ground, by those on a light one, in small letters.
_OF_THEMES = [(one.ground, one.ink, one.quiet, one.grid, *one.tints) for one in THEMES]
IN_THE_DARK = {
    light.lower(): dark.lower()
    for light, dark in (*zip(*_OF_THEMES, strict=True), *ON_DARK.items())
}


def look_of(scheme_name: str, theme: Theme = LIGHT) -> Look:
    """The look of a scheme by its name on the command line."""
    look = LOOKS.get(scheme_name, _ANY)
    if theme.name == "light":
        return look
    return replace(look, color=ON_DARK[look.color], inside=theme.ground)


def new_figure(width: float, height: float, theme: Theme = LIGHT) -> Figure:
    """An empty figure in inches, on the ground of a theme."""
    figure: type[Figure] = required("matplotlib.figure", "pictures").Figure
    return figure(figsize=(width, height), facecolor=theme.ground, layout="constrained")


def new_axes(theme: Theme = LIGHT, width: float = 5.6, height: float = 4.0) -> Axes:
    """Axes alone in a new figure, on the ground of a theme."""
    ax = new_figure(width, height, theme).add_subplot()
    ax.set_facecolor(theme.ground)
    return ax


def theme_of(ax: Axes) -> Theme:
    """The theme that fits axes which are already there, by how bright their ground is."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(ax.get_facecolor())
    return LIGHT if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else DARK


def on(ax: Axes | None, theme: Theme | None) -> tuple[Axes, Theme]:
    """Axes and theme to draw with; axes that are given decide unless a theme is given too."""
    if ax is None:
        used = theme or LIGHT
        return new_axes(used), used
    return ax, theme or theme_of(ax)


def dress(ax: Axes, theme: Theme, *, grid: bool = True) -> None:
    """Give spines, ticks, labels and grid the colours of the theme."""
    for side, spine in ax.spines.items():
        spine.set_color(theme.quiet)
        spine.set_visible(side not in ("top", "right"))
    ax.tick_params(which="both", colors=theme.quiet, labelcolor=theme.ink, labelsize=9)
    for label in (ax.xaxis.label, ax.yaxis.label, ax.title):
        label.set_color(theme.ink)
    if grid:
        ax.grid(color=theme.grid, linewidth=0.7, zorder=0)
        ax.set_axisbelow(True)


def finish(
    ax: Axes, theme: Theme, x: str, y: str, *, grid: bool = True, legend: str | None = None
) -> Axes:
    """Name and dress the axes, put a legend where ``legend`` says, and give them back."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    dress(ax, theme, grid=grid)
    if legend is not None:
        add_legend(ax, theme, loc=legend)
    return ax


def mark_seed(ax: Axes, seeded: bool) -> None:
    """Say above a picture that it shows an experiment, wherever the picture goes."""
    if seeded:
        ax.set_title(SEEDED, fontsize=9)


def add_legend(ax: Axes, theme: Theme, **options: Any) -> None:
    """A legend without a frame of its own, on the ground of the theme."""
    placed = {
        "fontsize": 9,
        "framealpha": 0.85,
        "edgecolor": "none",
        "facecolor": theme.ground,
        "labelcolor": theme.ink,
        "handlelength": 3.2,
        **options,
    }
    ax.legend(**placed)


def looks_for(names: Iterable[str], theme: Theme) -> dict[str, Look]:
    """A look for every name: a scheme's own, and for other names those of schemes not named.

    Other names are their own labels. Beyond eight names looks repeat.
    """
    given = list(names)
    free = [look_of(name, theme) for name in (*LOOKS, "") if name not in given]
    found: dict[str, Look] = {}
    for name in given:
        if name in LOOKS:
            found[name] = look_of(name, theme)
        else:
            others = sum(other not in LOOKS for other in found)
            found[name] = replace(free[others % len(free)], label=name)
    return found


def figure_of(ax: Axes) -> Figure:
    """The figure that axes stand in."""
    from matplotlib.figure import Figure

    figure = ax.figure
    if not isinstance(figure, Figure):
        raise InvalidParameter("ax must stand in a figure of its own, not in a part of one")
    return figure


# Figures as something a page can hold: small SVG, or PNG where the SVG would be large.
#
# The SVG is made for standing inside HTML: no prolog, no metadata, no address of any kind, and
# identifiers that do not collide with those of other pictures in the same page. Letters are drawn
# as shapes, so that it looks alike wherever it is opened.


#: Draws a figure in the colours of a theme.
Draw: TypeAlias = "Callable[[Theme], Figure]"
#: An SVG of more bytes than this is replaced by a PNG.
LARGEST_SVG = 300_000
#: Of a picture that is stored as PNG: a width of 5.6 inches has 900 pixels.
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


def in_both_themes(
    draw: Draw, name: str, *, recolour: bool = False, largest_svg: int = LARGEST_SVG
) -> dict[str, Rendered]:
    """A picture by the name of the theme.

    ``recolour`` draws it once, if it is an SVG, and exchanges its colours for the dark theme: right
    for pictures that have no other colours than those of themes and schemes.
    """
    light = render(draw(LIGHT), f"{name}-light", largest_svg)
    dark = in_the_dark(light, f"{name}-light", f"{name}-dark") if recolour else None
    return {"light": light, "dark": dark or render(draw(DARK), f"{name}-dark", largest_svg)}


def in_the_dark(light: Rendered, name: str, dark_name: str) -> Rendered | None:
    """A picture in the dark theme, from the same in the light one; None if it is not an SVG.

    It is what :func:`render` makes of the figure in the dark theme, without drawing it.
    """
    if not light.svg:
        return None
    # matplotlib leaves out the fill colour where it is black.
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
