"""Bands: the edges are the bounds that were given, lower below upper, readable without colour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure

import mustdp as md
from mustdp.reporting.plots import DARK, LIGHT
from tests.seams import look_of, new_axes

EPSILON = np.linspace(0.1, 3.0, 30)
STEP = {
    "wor": md.subsample(md.wor(200, 20), md.gaussian(noise_multiplier=4.0)),
    "must-ow": md.subsample(md.must_ow(200, 50, 20), md.gaussian(noise_multiplier=4.0)),
}


@pytest.fixture(scope="module")
def curves() -> dict[str, md.types.Curve]:
    return {name: md.account(md.repeat(9, step)).curve(EPSILON) for name, step in STEP.items()}


@pytest.fixture(scope="module")
def bands() -> dict[str, dict[int, md.Bounds]]:
    return {
        name: {k: md.account(md.repeat(k, step)).epsilon(1e-5) for k in (8, 2, 4)}
        for name, step in STEP.items()
    }


def upper_line(ax: Any, name: str) -> Any:
    (line,) = [line for line in ax.get_lines() if line.get_label() == look_of(name).label]
    return line


def edges(ax: Any) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Smallest and largest height of every band at every place across."""
    found = []
    for band in ax.collections:
        corners = band.get_paths()[0].vertices
        across = np.unique(corners[:, 0])
        heights = [corners[corners[:, 0] == x, 1] for x in across]
        found.append((np.array([min(h) for h in heights]), np.array([max(h) for h in heights])))
    return found


def test_the_bands_are_the_curves(curves: dict[str, md.types.Curve]) -> None:
    ax = md.plot.profile_bands(curves, mark=(2.0, 1e-5))
    for (name, curve), (low, high) in zip(curves.items(), edges(ax), strict=True):
        np.testing.assert_array_equal(low, curve.lower)
        np.testing.assert_array_equal(high, curve.upper)
        np.testing.assert_array_equal(upper_line(ax, name).get_ydata(), curve.upper)
        assert np.all(low <= high)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_yscale()) == ("ε", "δ", "log")
    bottom, top = ax.get_ylim()
    assert bottom <= 1e-5 <= top
    assert top > max(curve.upper.max() for curve in curves.values())


def test_steps_are_put_in_order(bands: dict[str, dict[int, md.Bounds]]) -> None:
    ax = md.plot.epsilon_against_steps(bands)
    for name, found in bands.items():
        line = upper_line(ax, name)
        assert list(line.get_xdata()) == [2, 4, 8]
        assert list(line.get_ydata()) == [found[k].upper for k in (2, 4, 8)]
        assert np.all(np.diff(line.get_ydata()) > 0)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("steps", "ε")
    assert ax.get_ylim()[0] == 0


def test_axes_in_axes_out(
    curves: dict[str, md.types.Curve], bands: dict[str, dict[int, md.Bounds]]
) -> None:
    first, second = Figure().subplots(1, 2)
    assert md.plot.profile_bands(curves, ax=first) is first
    assert md.plot.epsilon_against_steps(bands, ax=second, legend=False) is second
    assert second.get_legend() is None


def test_names_that_are_no_schemes_get_looks_of_their_own(
    curves: dict[str, md.types.Curve],
) -> None:
    given = {"z = 4": curves["wor"], "wor": curves["wor"], "z = 5": curves["must-ow"]}
    ax = md.plot.profile_bands(given)
    named = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    assert [line.get_label() for line in named] == ["z = 4", "WOR", "z = 5"]
    for attribute in ("get_color", "get_marker"):
        assert len({getattr(line, attribute)() for line in named}) == 3


def test_dark_axes_get_bright_lines(curves: dict[str, md.types.Curve]) -> None:
    dark = md.plot.profile_bands(curves, ax=new_axes(DARK))
    assert upper_line(dark, "wor").get_color() == "#ffffff"
    assert upper_line(md.plot.profile_bands(curves), "wor").get_color() == "#000000"
    chosen = md.plot.profile_bands(curves, ax=new_axes(DARK), theme=LIGHT)
    assert upper_line(chosen, "wor").get_color() == "#000000"
    assert same_color(md.plot.profile_bands(curves, theme=DARK).get_facecolor(), DARK.ground)


def test_bounds_that_contradict_each_other_are_not_drawn(curves: dict[str, md.types.Curve]) -> None:
    wrong = md.types.Curve(EPSILON, curves["wor"].upper * 1.01, curves["wor"].upper)
    with pytest.raises(md.InvalidParameter, match="lower must be at most upper"):
        md.plot.profile_bands({"wor": wrong})
    unknown = md.types.Curve(EPSILON, curves["wor"].lower, curves["wor"].upper * np.nan)
    with pytest.raises(md.InvalidParameter, match="NaN"):
        md.plot.profile_bands({"wor": unknown})


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(md.InvalidParameter, match="curves must hold"):
        md.plot.profile_bands({})
    with pytest.raises(md.InvalidParameter, match="bands must hold"):
        md.plot.epsilon_against_steps({"wor": {}})
