"""A report in chromium: nothing overflows on a phone, nothing is loaded, both themes are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reporting.explorer.driving import browser, missing
from tests.reporting.pages.looking import faults, look, no_axe, page_of, violations
from tests.reporting.report.browsing import BROWSER, measured, picture_of
from tests.reporting.report.questions import SAME_GUARANTEE, page
from tests.seams import page as plain_page
from tests.seams import page_table

pytestmark = pytest.mark.skipif(BROWSER is None, reason=missing() or "there is a browser")

REPRODUCTION = Path(__file__).parents[3] / "docs" / "reproduction" / "report.html"
FAULTY = """<!DOCTYPE html><meta name="viewport" content="width=device-width"><body>
<b class="pale" style="color: #aaa">pale</b> <b style="color: #555">well</b>
<div class="cut" style="width: 100px; overflow: hidden"><p style="width: 300px">cut</p></div>
<div class="plain" style="width: 100px; overflow: auto"><p style="width: 300px">more</p></div>
<div style="width: 600px">wide</div>"""


@pytest.mark.parametrize("width", [390, 1280])
def test_everything_has_its_place(width: int, tmp_path: Path) -> None:
    found = measured(page(SAME_GUARANTEE), width, tmp_path)
    assert found["width"] == width
    assert found["outside"] == []
    assert found["scroll"] <= width
    assert len(found["pictures"]) == 5
    for across, up in found["pictures"]:
        assert 250 < across <= width
        assert 0.6 < up / across < 0.9
    assert len(found["boxes"]) == 3
    assert all(own <= width for own, _ in found["boxes"])
    # Nothing has to be scrolled to: on a phone, rows are taken apart.
    assert all(content <= own for own, content in found["boxes"])


@pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")
def test_pages_can_be_read_and_faults_are_seen(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page(SAME_GUARANTEE), encoding="utf-8")
    (tmp_path / "faulty.html").write_text(FAULTY, encoding="utf-8")
    with browser(tmp_path / "saved") as window:
        for path in (tmp_path / "report.html", REPRODUCTION):
            for width in (1280, 390):
                look(window, width, dark=False)
                window.get(path.as_uri())
                for dark in (False, True):
                    look(window, width, dark=dark)
                    assert faults(window) == [], (path.name, width, dark)
        # Wide pictures are not made smaller than their letters allow, and scroll instead.
        look(window, 390, dark=False)
        widths = window.execute_script(
            "return [...document.querySelectorAll('.wide .picture.light > *')].map("
            "one => one.getBoundingClientRect().width / one.viewBox.baseVal.width)"
        )
        assert min(widths) >= 0.95
        window.get((tmp_path / "faulty.html").as_uri())
        assert faults(window, 0.0) == [
            '<b class="pale">: contrast 2.32',
            '<div class="cut">: cut off',
            '<div class="plain">: no shadow',
            '<div class="plain">: not reached by the keyboard',
            "the page scrolls sideways",
        ]


def test_a_wide_table_scrolls_in_its_box(tmp_path: Path) -> None:
    """On a desktop; so the checks of boxes above say something."""
    table = page_table([f"column {k}" for k in range(40)], [["1234567"] * 40])
    wide = page_of("{{ table(shown) }}", shown=table)
    for width, scrolls in ((1280, True), (390, False)):
        found = measured(wide, width, tmp_path)
        assert found["scroll"] <= width
        assert all((content > own) == scrolls for own, content in found["boxes"])


def test_no_request_leaves_the_page(tmp_path: Path) -> None:
    found = measured(page(SAME_GUARANTEE), 1280, tmp_path)
    assert found["requests"] == []
    assert found["broken"] == []


def test_the_measurement_would_see_a_fault(tmp_path: Path) -> None:
    faulty = plain_page("x" * 10).html().replace(
        "</main>",
        '<div style="width:600px">wide</div><img src="file:///nowhere/else.png" alt=""></main>',
    )  # fmt: skip
    found = measured(faulty, 390, tmp_path)
    assert found["scroll"] >= 600
    assert any("600px" in element for element in found["outside"])
    assert any("else.png" in address or address == "file" for address in found["broken"])


@pytest.mark.parametrize(("theme", "bright"), [("light", True), ("dark", False)])
def test_both_themes(theme: str, bright: bool, tmp_path: Path) -> None:
    pixels = picture_of(page(SAME_GUARANTEE), theme, tmp_path)
    assert pixels.shape == (900, 1280, 3)
    ground = pixels[3, 3]
    assert (ground.mean() > 0.5) == bright
    # Something is written on it, in the opposite brightness.
    assert (pixels.mean(axis=2).min() < 0.3) if bright else (pixels.mean(axis=2).max() > 0.7)


@pytest.mark.skipif(bool(no_axe()), reason=no_axe() or "axe-core is there")
def test_the_page_is_accessible_and_axe_would_notice(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page(SAME_GUARANTEE), encoding="utf-8")
    (tmp_path / "faulty.html").write_text(
        '<!DOCTYPE html><html><title>x</title><body><button></button><img src="data:,">',
        encoding="utf-8",
    )
    with browser(tmp_path / "saved") as window:
        window.get((tmp_path / "report.html").as_uri())
        assert violations(window) == []
        window.get((tmp_path / "faulty.html").as_uri())
        rules = {one.partition(":")[0] for one in violations(window)}
    assert rules >= {"button-name", "html-has-lang", "image-alt"}
