"""Pages: everything escaped, nothing loaded from elsewhere, every part where it was put."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

import mustdp as md
from mustdp.reporting.pages import POLICY, Page, PageCell, PageTable, environment, marked
from mustdp.reporting.plots.drawing import Rendered, Theme, figure_of, in_both_themes, new_axes
from tests.reporting.pages.looking import page_of

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


#: Every macro, each with the text of the page.
EVERYTHING = """
{% from "mustdp.reporting/templates/macros.html.j2" import p, li, points, facts, table, figures,
   figure, code %}
{{ heading(text) }}
{% call p() %}{{ text }}{% endcall %}
{% call p("note") %}{{ text }}{% endcall %}
<ul>{% call li() %}{{ text }}{% endcall %}</ul>
{{ points([text, text]) }}
{{ facts([(text, text)]) }}
{{ table(shown) }}
{% call figures() %}{{ figure(picture, text, text) }}{% endcall %}
{{ code(text) }}
"""


def full_page(text: str = "text", **picture: Any) -> Page:
    """A page with every part, each holding ``text``."""
    shown = PageTable((text, text), [(text, PageCell(text, "bad"))], text, align=("left", "text"))
    drawn = in_both_themes(draw, "p1", **picture)
    return Page(
        text,
        text,
        template=environment().from_string(EVERYTHING),
        footer=text,
        text=text,
        shown=shown,
        picture=drawn,
    )


def test_no_text_becomes_markup() -> None:
    parsed = Parsed(full_page(NASTY).html())
    assert "script" not in parsed.tags
    assert parsed.tags.count("style") == 1
    assert parsed.tags == Parsed(full_page().html()).tags
    # title, heading, lead, heading of a section, paragraph, note, item, two points, two facts,
    # caption, two column names, two cells, caption of the picture, code and footer
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


@pytest.mark.parametrize("largest", [10**6, 10])
def test_nothing_is_loaded_from_elsewhere(largest: int) -> None:
    text = full_page(largest_svg=largest).html()
    parsed = Parsed(text)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(parsed.tags)
    for address in parsed.addresses:
        assert address.startswith(("#", "data:image/png;base64,")), address[:60]
    assert not re.search(r"https?:|@import|@font-face|url\((?!#)", text)
    assert POLICY in text


def test_identifiers_are_unique_and_references_lead_somewhere() -> None:
    shown = [in_both_themes(draw, f"p{number}") for number in range(3)]
    text = page_of(
        "{% for one in shown %}{{ heading('A') }}{{ figure(one, 'the same') }}{% endfor %}"
        "{{ heading('B') }}",
        shown=shown,
    )
    parsed = Parsed(text)
    assert len(set(parsed.identifiers)) == len(parsed.identifiers)
    inside = re.findall(r"url\(#([^)]+)\)", text)
    inside += [address[1:] for address in parsed.addresses if address.startswith("#")]
    assert inside
    assert set(inside) <= set(parsed.identifiers)


@pytest.mark.parametrize("recolour", [False, True])
def test_a_picture_comes_in_both_themes_with_its_words(recolour: bool) -> None:
    themes: list[str] = []

    def remembering(theme: Theme) -> Figure:
        themes.append(theme.name)
        return draw(theme)

    picture = in_both_themes(remembering, "p1", recolour=recolour)
    text = page_of("{{ figure(one, alt, 'A **line**.') }}", one=picture, alt='rises from "0" to 1')
    assert themes == (["light"] if recolour else ["light", "dark"])
    assert text.count("rises from &#34;0&#34; to 1") == 2
    assert '<div class="picture light"' in text
    assert '<div class="picture dark"' in text
    assert "A <strong>line</strong>." in text
    assert "#ffffff" in text[text.index('"picture light"') : text.index('"picture dark"')]
    assert "#16191d" in text[text.index('"picture dark"') :]


def test_wide_pictures_scroll_and_can_be_reached() -> None:
    picture = in_both_themes(draw, "p1")
    text = page_of(
        "{% call figures(true) %}{{ figure(one, 'a', '', true) }}{% endcall %}", one=picture
    )
    assert '<div class="figures wide">' in text
    assert text.count('--readable:216px" tabindex="0"') == 2


def test_a_large_svg_becomes_a_png() -> None:
    small, large = full_page().html(), full_page(largest_svg=1000).html()
    assert "<svg" in small
    assert "<svg" not in large
    assert large.count('<img src="data:image/png;base64,iVBOR') == 2
    assert large.count('width="288" height="192"') == 2


def test_tables_scroll_in_their_own_box_and_keep_tones() -> None:
    rows: list[tuple[str | PageCell, ...]] = [
        ("one", PageCell("1.5", "good"), "2"),
        ("two", PageCell("so", "quiet"), PageCell("3", "bad")),
    ]
    text = page_of(
        "{{ table(shown) }}", shown=PageTable(("name", "a", "b"), rows, "What it shows.")
    )
    assert '<div class="box" tabindex="0" role="region" aria-label="What it shows.">' in text
    assert '<td data-column="a" class="good">1.5</td><td data-column="b">2</td>' in text
    assert '<td data-column="a" class="quiet">so</td><td data-column="b" class="bad">3</td>' in text
    assert '<th scope="row" class="left">two</th>' in text
    assert '<th scope="col">b</th>' in text
    assert ".box { overflow-x: auto;" in text


def test_contents_are_listed_from_four_sections_on() -> None:
    template = "{% for part in parts %}{{ heading(part) }}<h3>Not listed</h3>{% endfor %}"
    parts = [f"Part {number}" for number in range(4)]
    assert "<nav" not in page_of(template, parts=parts[:3])
    listed = re.findall(r'<a href="#(section-\d)">(.*?)</a>', page_of(template, parts=parts))
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
    refused(PageTable, ("a", "b"), [("1",)])
    refused(PageTable, ("a", "b"), [], align=("left",))
    refused(PageTable, ("a", "b"), [], align=("left", "middle"))
    refused(PageTable, ("a", "b"), [("1", PageCell("2", 'x"'))])  # type: ignore[arg-type]
    nothing = dict.fromkeys(("light", "dark"), Rendered(1, 1, svg="<svg></svg>"))
    refused(page_of, "{{ figure(one, ' ') }}", one=nothing)
    with pytest.raises(jinja2.UndefinedError):
        page_of("{{ misspelt }}")
