"""The pictures of a report, each drawn for both themes, several at a time where asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from mustdp.plots.aligned import aligned_profile
from mustdp.plots.bands import epsilon_against_steps, profile_bands
from mustdp.plots.contours import contours
from mustdp.plots.drawing import DARK, LIGHT, Theme, figure_of, new_axes
from mustdp.plots.multiplicity import multiplicity_law
from mustdp.plots.rendering import Rendered, in_the_dark, render
from mustdp.processes import Spread
from mustdp.report.findings import Findings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Pictures by name, each by the name of the theme.
Pictures: TypeAlias = Mapping[str, Mapping[str, Rendered]]

_WIDTH, _HEIGHT = 4.6, 3.6
#: In the order of the page, which numbers them, with about how long each takes.
_SECONDS = {"profiles": 0.8, "steps": 0.5, "copies": 1.0, "sizes": 0.6, "aligned": 1.0}


def pictures(found: Findings, spread: Spread) -> Pictures:
    """All pictures that there are for what was found."""
    names = [name for name in _SECONDS if name != "sizes" or found.sensitivity is not None]
    jobs = [(found, name, f"p{number}") for number, name in enumerate(names, 1)]
    return dict(zip(names, spread(_drawn, jobs, long=_long), strict=True))


def _long(job: tuple[Findings, str, str]) -> float:
    return _SECONDS[job[1]]


def _drawn(job: tuple[Findings, str, str]) -> dict[str, Rendered]:
    """One picture in both themes."""
    found, name, number = job

    def drawn(theme: Theme) -> Rendered:
        ax = new_axes(theme, _WIDTH, _HEIGHT)
        _draw(found, name, ax)
        return render(figure_of(ax), f"{number}-{theme.name}")

    light = drawn(LIGHT)
    dark = in_the_dark(light, f"{number}-light", f"{number}-dark") or drawn(DARK)
    return {LIGHT.name: light, DARK.name: dark}


def _draw(found: Findings, name: str, ax: Axes) -> None:
    asked, around = found.question, found.sensitivity
    if name == "profiles":
        target = None if asked.epsilon is None else (asked.epsilon, asked.delta)
        profile_bands(found.profiles, ax=ax, mark=target)
    elif name == "steps":
        mark = None if asked.epsilon is None else (float(asked.steps), asked.epsilon)
        epsilon_against_steps(found.by_steps, ax=ax, mark=mark)
    elif name == "copies":
        multiplicity_law([found.rows[scheme].scheme for scheme in found.profiles], ax=ax)
    elif name == "aligned":
        aligned_profile(found.aligned, ax=ax, linear_within=1e-6)
    elif around is not None:
        here = asked.b, asked.m
        contours(around.b, around.m, around.epsilon, of="certified ε of MUSTow", mark=here, ax=ax)
