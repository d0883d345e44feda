"""The aligned profile: what is drawn is what was given, readable without colour."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import mustdp as md
from mustdp.reporting.plots.drawing import LOOKS, look_of
from mustdp.reporting.plots.privacy import aligned_profile
from mustdp.reproduction.figures import EPSILON, aligned_profile_panels

SCHEMES = (md.wor(100, 40), md.wr(100, 40), md.must_ow(100, 50, 40), md.must_ww(100, 50, 40))
POINTS = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0]


def results() -> list[md.types.Amplification]:
    return [md.amplify(scheme, md.gaussian(shift=0.5), POINTS) for scheme in SCHEMES]


def test_axes_in_axes_out() -> None:
    ax = Figure().add_subplot()
    assert aligned_profile(results(), ax=ax) is ax


def test_the_curves_are_the_rows() -> None:
    given = results()
    ax = aligned_profile(given)
    curves = {line.get_label(): line for line in ax.get_lines()}
    for result in given:
        line = curves[look_of(result.scheme.name).label]
        np.testing.assert_array_equal(line.get_xdata(), result.column("ratio"))
        np.testing.assert_array_equal(line.get_ydata(), result.column("difference"))
        assert line.get_markevery() == [2, 4, 5]  # epsilon = 1, 2, 3
    low, high = ax.get_ylim()
    assert low < min(r.column("difference").min() for r in given)
    assert high > max(r.column("difference").max() for r in given)


def test_quadrants_and_axes_are_labelled() -> None:
    ax = aligned_profile(results())
    assert {text.get_text() for text in ax.texts} == {"strong", "weak I", "weak II", "dilution"}
    assert ax.get_xlabel() == "ε′ / ε"
    assert ax.get_ylabel() == "δ′ − δ"
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["WOR", "WR", "MUSTow", "MUSTww"]


@pytest.mark.parametrize("attribute", ["linestyle", "marker", "color", "label"])
def test_schemes_differ_in_every_respect(attribute: str) -> None:
    looks = [*LOOKS.values(), look_of("multistage")]
    assert len({getattr(look, attribute) for look in looks}) == len(looks)


def test_a_curve_of_zeros_can_be_drawn() -> None:
    flat = md.amplify(md.wor(10, 4), md.laplace(shift=0.5), [1.0, 2.0])
    low, high = aligned_profile([flat]).get_ylim()
    assert low < 0 < high


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(md.InvalidParameter, match="results must hold at least one"):
        aligned_profile([])


def test_the_papers_four_panels(tmp_path: Path) -> None:
    assert min(EPSILON) > 0
    assert max(EPSILON) < 6
    figure = aligned_profile_panels(epsilon=[0.05, 0.5, 1.0, 2.0])
    assert [ax.get_title() for ax in figure.axes] == [
        "Laplace, shift 0.25",
        "Laplace, shift 1",
        "Gaussian, shift 0.25",
        "Gaussian, shift 1",
    ]
    figure.savefig(tmp_path / "panels.png")
    figure.savefig(tmp_path / "panels.svg")
    assert (tmp_path / "panels.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "panels.svg").read_text(encoding="utf-8")


def test_nothing_global_is_touched() -> None:
    aligned_profile(results())
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_without_matplotlib_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = results()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(md.types.MissingExtra, match=r'pip install "\.\[plots\]"'):
        aligned_profile(drawn)
