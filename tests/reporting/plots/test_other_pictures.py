"""Contours, multiplicity laws and losses: what is drawn is what was given."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure

import mustdp as md
from mustdp.reporting.plots.drawing import (
    DARK,
    LOOKS,
    ON_DARK,
    THEMES,
    look_of,
    looks_for,
    new_axes,
)

B, M = [50, 100, 200, 400], [10, 30, 90]
VALUES = np.add.outer(np.log(M), -np.log(B)) + 10.0


def brightness(colour: str) -> float:
    """Relative luminance, as the Web Content Accessibility Guidelines 2.1 define it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_text_and_schemes_stand_out_from_the_ground(theme: Any) -> None:
    def contrast(colour: str) -> float:
        one, other = sorted((brightness(colour), brightness(theme.ground)))
        return (other + 0.05) / (one + 0.05)

    assert min(contrast(theme.ink), contrast(theme.quiet)) > 4.5
    for name in LOOKS:
        assert contrast(look_of(name, theme).color) > (6.0 if theme is DARK else 2.2)


def test_every_look_has_a_colour_on_dark() -> None:
    colours = {look.color for look in LOOKS.values()}
    assert colours < set(ON_DARK)
    assert len(set(ON_DARK.values())) == len(ON_DARK)


def test_looks_of_other_names_do_not_collide_with_schemes() -> None:
    looks = looks_for(["a", "wor", "b", "wr", "c", "must-ow", "d", "e"], DARK)
    assert len({look.color for look in looks.values()}) == 8
    assert looks["wor"] == look_of("wor", DARK)
    assert looks["b"].label == "b"


def test_contours() -> None:
    ax = md.plot.contours(B, M, VALUES, of="certified ε", mark=(100, 30))
    assert ax.get_title() == "certified ε"
    assert ax.get_xlabel().startswith("b,")
    assert ax.get_ylabel().startswith("m,")
    (mark,) = ax.get_lines()
    np.testing.assert_array_equal(mark.get_xydata(), [[100, 30]])
    shown = [text.get_text() for text in ax.texts]
    assert shown
    assert all(VALUES.min() < float(text) < VALUES.max() for text in shown)
    assert "2,0" not in " ".join(shown)


def test_a_contour_lies_where_the_value_is() -> None:
    ax = md.plot.contours(B, M, np.repeat([[m] for m in M], 4, axis=1), levels=[20.0, 60.0])
    lines = ax.collections[1].get_paths()
    assert len(lines) == 2
    for level, path in zip((20.0, 60.0), lines, strict=True):
        corners = np.asarray(path.vertices)
        np.testing.assert_allclose(corners[:, 1], level, rtol=1e-9)
        assert (corners[:, 0].min(), corners[:, 0].max()) == pytest.approx((50, 400))


def test_unknown_values_stay_empty_and_flat_ones_can_be_drawn() -> None:
    partly = VALUES.copy()
    partly[0, 0] = np.nan
    assert md.plot.contours(B, M, partly, theme=DARK).get_title() == "ε"
    assert md.plot.contours(B, M, np.ones((3, 4))).collections
    assert md.plot.contours(B, M, np.exp(3 * VALUES)).texts


@pytest.mark.parametrize(
    ("b", "m", "values", "named"),
    [
        (B, M, VALUES.T, "values must have one row per m"),
        (B[::-1], M, VALUES, "b must increase"),
        (B, [10, 10, 90], VALUES, "m must increase"),
        (B, M, VALUES * np.nan, "at least one number"),
        ([0, 100, 200, 400], M, VALUES, "b must be"),
    ],
)
def test_grids_that_do_not_fit_are_refused(b: Any, m: Any, values: Any, named: str) -> None:
    with pytest.raises(md.InvalidParameter, match=named):
        md.plot.contours(b, m, values)


def test_the_law_drawn_is_the_law() -> None:
    schemes = [md.wor(100, 40), md.wr(100, 40), md.must_ow(100, 20, 40)]
    ax = md.plot.multiplicity_law(schemes, smallest=1e-6)
    assert ax.get_yscale() == "log"
    for scheme, line in zip(schemes, ax.get_lines(), strict=True):
        law = scheme.multiplicity()
        copies = np.asarray(line.get_xdata()).astype(int)
        np.testing.assert_array_equal(line.get_ydata(), law[copies])
        assert copies[0] == 1
        left_out = np.delete(law, [0, *copies])
        assert np.all(left_out < 1e-6)


def test_the_same_scheme_in_two_sizes_is_told_apart() -> None:
    ax = md.plot.multiplicity_law([md.wr(100, 40), md.wr(100, 80), md.poisson(100, 0.4)])
    labels = [line.get_label() for line in ax.get_lines()]
    assert labels == ["wr wr:40", "wr wr:80", "Poisson"]


def test_losses_of_one_run_and_of_several() -> None:
    several = np.array([[3.0, 2.0, 1.0], [5.0, 2.0, 3.0]])
    ax = md.plot.loss_curves({"wor": [3.0, 1.0, 2.0], "must-ow": several}, label="mean loss")
    one, mean = ax.get_lines()
    np.testing.assert_array_equal(one.get_xydata(), [[1, 3], [2, 1], [3, 2]])
    np.testing.assert_array_equal(mean.get_ydata(), [4.0, 2.0, 2.0])
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    at_first = np.asarray(corners)[np.asarray(corners)[:, 0] == 1, 1]
    assert (min(at_first), max(at_first)) == (3.0, 5.0)  # the deviation 2**0.5 over 2**0.5 runs
    assert ax.get_ylabel() == "mean loss"


def test_smoothed_losses() -> None:
    ax = md.plot.loss_curves({"wor": [4.0, 2.0, 0.0, 4.0]}, smooth=2)
    (line,) = ax.get_lines()
    np.testing.assert_array_equal(line.get_xydata(), [[2, 3], [3, 1], [4, 2]])
    assert "mean over 2" in ax.get_xlabel()


@pytest.mark.parametrize("losses", [{}, {"wor": [1.0, np.nan]}, {"wor": []}, {"wor": [[[1.0]]]}])
def test_losses_that_cannot_be_drawn(losses: Any) -> None:
    with pytest.raises(md.InvalidParameter, match="losses"):
        md.plot.loss_curves(losses)


def test_axes_in_axes_out() -> None:
    axes = Figure().subplots(1, 3)
    assert md.plot.contours(B, M, VALUES, ax=axes[0]) is axes[0]
    assert md.plot.multiplicity_law([md.wor(10, 4)], ax=axes[1]) is axes[1]
    assert md.plot.loss_curves({"a": [1.0]}, ax=axes[2], legend=False) is axes[2]


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_words_are_in_the_ink_of_the_theme(theme: Any) -> None:
    ax = md.plot.multiplicity_law([md.wr(10, 4)], ax=new_axes(theme))
    assert ax.xaxis.label.get_color() == ax.yaxis.label.get_color() == theme.ink
    legend = ax.get_legend()
    assert legend is not None
    assert all(same_color(text.get_color(), theme.ink) for text in legend.get_texts())


def test_the_package_loads_no_pictures_until_they_are_needed() -> None:
    code = (
        "import sys, mustdp as md; assert 'mustdp.reporting.plots' not in sys.modules; "
        "assert 'numpy' not in sys.modules; md.plot; "
        "assert 'mustdp.reporting.plots' in sys.modules; assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_winners_are_drawn_where_they_win() -> None:
    script = Path(__file__).parents[3] / "docs/derivations/figures/winners.py"
    winners = runpy.run_path(str(script))["winners"]
    share = np.array([[1.0, 0.0], [1.0, 0.5]])
    ax = winners([-1.0, 1.0], [1, 2], share)
    (mesh,) = ax.collections
    assert np.array_equal(np.asarray(mesh.get_array()).reshape(2, 2), share)
    with pytest.raises(md.InvalidParameter, match="share must have 2 rows"):
        winners([0.0], [1, 2], share)
