"""Pages: everything escaped, nothing loaded from elsewhere, every part where it was put."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

import mustdp as md
from mustdp.reporting.pages import Cell, Page, marked
from mustdp.reporting.plots.drawing import Theme, figure_of, new_axes

#: Elements without an end tag.
VOID = {"meta", "img", "br", "link", "input", "hr"}
#: Attributes whose value a browser fetches.
LOADING = {"src", "srcset", "href", "xlink:href", "data", "poster", "action", "background"}
NASTY = "<script>alert('x')</script> & \"quotes\" </title></style>"


class Parsed(HTMLParser):
    """Tags, addresses and identifiers of a page; fails on elements that are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.identifiers: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), name
            if name in LOADING:
                self.addresses.append(value or "")
            if name == "id":
                self.identifiers.append(value or "")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] not in (["style"], ["script"]):
            self.text += data


def draw(theme: Theme) -> Figure:
    ax = new_axes(theme, 3, 2)
    ax.plot([0, 1], [0, 1], marker="o")
    ax.fill_between([0, 1], [0, 1], [1, 2])
    ax.set_xlabel("ε")
    return figure_of(ax)


def full_page(text: str = "text") -> Page:
    """A page with every part, each holding ``text``."""
    page = Page(text, text)
    for level in (2, 3):
        page.heading(text, level)
    page.paragraph(text)
    page.note(text)
    page.points([text, text])
    page.facts([(text, text)])
    page.table((text, text), [(text, Cell(text, "bad"))], text, align=("left", "text"))
    page.figure(draw, text, alt=text)
    page.code(text)
    page.footer(text)
    return page


def test_no_text_becomes_markup() -> None:
    parsed = Parsed(full_page(NASTY).html())
    assert "script" not in parsed.tags
    assert parsed.tags.count("style") == 1
    assert parsed.tags == Parsed(full_page().html()).tags
    # title, heading, lead, two headings, paragraph, note, two points, two facts, caption, two
    # column names, two cells, caption of the picture, code and footer
    assert parsed.text.count(NASTY) == 19


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="`*"), max_size=60))
def test_running_text_is_kept_to_the_letter(text: str) -> None:
    assert unescape(marked(text)) == text
    assert not re.search("[<>]", marked(text))


def test_code_and_strong_words() -> None:
    assert marked("**b** `c<d` `**e**`") == (
        "<strong>b</strong> <code>c&lt;d</code> <code>**e**</code>"
    )
    assert marked("2 * 3 ** 4") == "2 * 3 ** 4"


def test_nothing_is_loaded_from_elsewhere() -> None:
    page = full_page()
    page.figure(draw, alt="a picture of points", largest_svg=10)
    text = page.html()
    parsed = Parsed(text)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(parsed.tags)
    for address in parsed.addresses:
        assert address.startswith(("#", "data:image/png;base64,")), address[:60]
    assert not re.search(r"https?:|@import|@font-face|url\((?!#)", text)


def test_identifiers_are_unique_and_references_lead_somewhere() -> None:
    page = full_page()
    for _ in range(3):
        page.figure(draw, alt="the same picture")
    for section in "abc":
        page.heading(section)
    text = page.html()
    parsed = Parsed(text)
    assert len(set(parsed.identifiers)) == len(parsed.identifiers)
    inside = re.findall(r"url\(#([^)]+)\)", text)
    inside += [address[1:] for address in parsed.addresses if address.startswith("#")]
    assert inside
    assert set(inside) <= set(parsed.identifiers)


def test_a_picture_comes_in_both_themes_with_its_words() -> None:
    themes: list[str] = []

    def remembering(theme: Theme) -> Figure:
        themes.append(theme.name)
        return draw(theme)

    page = Page("Title")
    page.figure(remembering, "A **line**.", alt='rises from "0" to 1')
    text = page.html()
    assert themes == ["light", "dark"]
    assert text.count("rises from &quot;0&quot; to 1") == 2
    assert '<div class="picture light"' in text
    assert '<div class="picture dark"' in text
    assert "A <strong>line</strong>." in text
    assert "#ffffff" in text[text.index('"picture light"') : text.index('"picture dark"')]
    assert "#16191d" in text[text.index('"picture dark"') :]


def test_pictures_that_follow_each_other_share_a_row() -> None:
    page = Page("Title")
    page.figure(draw, alt="one")
    page.figure(draw, alt="two")
    page.figure(draw, alt="a wide one", wide=True)
    page.figure(draw, alt="four")
    page.paragraph("Between.")
    page.figure(draw, alt="five")
    rows = re.findall(r'<div class="(figures[^"]*)">(.*?)</figure></div>', page.html(), re.DOTALL)
    assert [(name, body.count("<figure>")) for name, body in rows] == [
        ("figures", 2),
        ("figures wide", 1),
        ("figures", 1),
        ("figures", 1),
    ]


def test_a_large_svg_becomes_a_png() -> None:
    small, large = Page("Title"), Page("Title")
    small.figure(draw, alt="points")
    large.figure(draw, alt="points", largest_svg=1000)
    assert "<svg" in small.html()
    assert "<svg" not in large.html()
    assert large.html().count('<img src="data:image/png;base64,iVBOR') == 2
    assert large.html().count('width="288" height="192"') == 2


def test_tables_scroll_in_their_own_box_and_keep_tones() -> None:
    page = Page("Title")
    rows: list[tuple[str | Cell, ...]] = [
        ("one", Cell("1.5", "good"), "2"),
        ("two", Cell("so", "quiet"), Cell("3", "bad")),
    ]
    page.table(("name", "a", "b"), rows, "What it shows.")
    text = page.html()
    assert '<div class="box" tabindex="0" role="region" aria-label="What it shows.">' in text
    assert '<td data-column="a" class="good">1.5</td><td data-column="b">2</td>' in text
    assert '<td data-column="a" class="quiet">so</td><td data-column="b" class="bad">3</td>' in text
    assert '<th scope="row" class="left">two</th>' in text
    assert '<th scope="col">b</th>' in text
    assert ".box { overflow-x: auto;" in text


def test_contents_are_listed_from_four_sections_on() -> None:
    page = Page("Title")
    for number in range(3):
        page.heading(f"Part {number}")
        page.heading("Not listed", level=3)
    assert "<nav" not in page.html()
    page.heading("Part 3")
    listed = re.findall(r'<a href="#(section-\d)">(.*?)</a>', page.html())
    assert listed == [(f"section-{index + 1}", f"Part {index}") for index in range(4)]


def test_the_page_is_the_same_every_time() -> None:
    assert full_page().html() == full_page().html()


@pytest.mark.parametrize("mode", ["prefers-color-scheme: dark", "print", "max-width"])
def test_the_style_knows(mode: str) -> None:
    assert f"{mode}" in Page("Title").html().split("</style>")[0]


def refused(call: Any, *arguments: Any, **named: Any) -> None:
    with pytest.raises(md.InvalidParameter):
        call(*arguments, **named)


def test_what_does_not_fit_is_refused() -> None:
    page = Page("Title")
    refused(page.heading, "text", level=1)
    refused(page.table, ("a", "b"), [("1",)])
    refused(page.table, ("a", "b"), [], align=("left",))
    refused(page.table, ("a", "b"), [], align=("left", "middle"))
    refused(page.table, ("a", "b"), [("1", Cell("2", 'x"'))])  # type: ignore[arg-type]
    refused(page.figure, draw, alt=" ")
    assert page.html() == Page("Title").html()
