"""Figures inside pages: small, free of addresses, with identifiers of their own."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from matplotlib import rcParams
from matplotlib.figure import Figure

import mustdp as md
from mustdp.reporting.plots.drawing import (
    DARK,
    LARGEST_SVG,
    LIGHT,
    Theme,
    figure_of,
    for_html,
    in_the_dark,
    new_axes,
    render,
)


def figure(theme: Theme = LIGHT, points: int = 5) -> Figure:
    ax = new_axes(theme, 4, 3)
    for shift in range(points):
        ax.plot([0, 1, 2], [shift, shift + 1, shift], marker="o", clip_on=True)
    ax.set_ylabel("δ < 1 & more")
    return figure_of(ax)


def test_an_element_that_parses_and_refers_to_nothing_outside() -> None:
    drawn = render(figure(), "p1")
    assert (drawn.width, drawn.height) == (384, 288)
    assert drawn.png == b""
    root = ElementTree.fromstring(drawn.svg)
    assert root.tag == "svg"
    assert root.get("viewBox") == "0 0 288 216"
    assert root.get("width") is None
    assert not re.search(r"://|<style|<metadata|<!|xmlns", drawn.svg)


def test_identifiers_carry_the_name_and_are_all_used() -> None:
    drawn = render(figure(), "p7-dark").svg
    identifiers = re.findall(r'\bid="([^"]+)"', drawn)
    references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawn))
    assert references
    assert len(identifiers) == len(set(identifiers))
    assert set(identifiers) == references
    assert all(identifier.startswith("p7-dark-") for identifier in identifiers)


def test_rendering_is_repeatable_and_leaves_settings_alone() -> None:
    before = dict(rcParams)
    assert render(figure(), "p") == render(figure(), "p")
    assert dict(rcParams) == before


def test_the_theme_is_kept() -> None:
    assert "#16191d" in render(figure(DARK), "p").svg
    assert "#16191d" not in render(figure(LIGHT), "p").svg


def test_the_dark_theme_without_drawing_again() -> None:
    light, dark = (
        figure_of(md.plot.multiplicity_law([md.wor(100, 9), md.wr(100, 9)], ax=new_axes(theme)))
        for theme in (LIGHT, DARK)
    )
    drawn = render(light, "p1-light")
    assert in_the_dark(drawn, "p1-light", "p1-dark") == render(dark, "p1-dark")
    assert in_the_dark(render(figure(points=900), "p"), "p", "q") is None


def test_many_shapes_become_a_png() -> None:
    drawn = render(figure(points=900), "p")
    assert drawn.svg == ""
    assert drawn.png.startswith(b"\x89PNG")
    assert drawn.address.startswith("data:image/png;base64,iVBOR")
    assert len(render(figure(points=5), "p").svg) < LARGEST_SVG


@pytest.mark.parametrize("name", ["", "1a", 'a"b', "a b"])
def test_names_that_could_break_out_are_refused(name: str) -> None:
    with pytest.raises(md.InvalidParameter, match="name must be"):
        render(figure(), name)


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(md.InvalidParameter, match="svg"):
        for_html("<html></html>", "p")
