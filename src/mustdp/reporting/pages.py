"""Self-contained HTML pages from jinja2 templates: escaped, offline, light, dark and on paper.

A page is a template (``report.html.j2``) that uses the macros of ``templates/macros.html.j2`` and
is put into the frame of ``templates/page.html.j2``. Everything a template prints is escaped. In
running text `backquotes` mark code, **double stars** strong words and [words](#section-2) lead to a
section of the page; nothing else has a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.files.replacing import SHARED, replace_file
from mustdp.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from markupsafe import Markup

#: What a cell's colour says: a good, middling or bad outcome, or something of less weight.
Tone = Literal["", "good", "fair", "bad", "quiet"]
#: right: numbers; left: short words; text: sentences, which may be broken into lines.
Alignment = Literal["right", "left", "text"]
_TONES = ("", "good", "fair", "bad", "quiet")
_ALIGNMENTS = ("right", "left", "text")
#: What a browser may do with the page: nothing that needs anything but the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
#: From this number of columns on, rows become blocks on a phone.
_FEWEST_STACKED = 3


@dataclass(frozen=True)
class PageCell:
    """A table cell with a tone; a plain string is a cell without one."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class PageTable:
    """Columns, rows and a caption, as the macro ``table`` takes it.

    The first cell of a row is its heading. ``align`` has one word per column; by default the first
    column is left, the others right.
    """

    columns: Sequence[str]
    rows: Iterable[Sequence[str | PageCell]]
    caption: str = ""
    align: Sequence[Alignment] | None = None
    cells: list[list[PageCell]] = field(init=False)

    def __post_init__(self) -> None:
        if len(self.sides) != len(self.columns) or not set(self.sides) <= set(_ALIGNMENTS):
            raise InvalidParameter(
                f"align must have one of {', '.join(_ALIGNMENTS)} for each of "
                f"{len(self.columns)} columns, got {self.align!r}"
            )
        cells = [
            [given if isinstance(given, PageCell) else PageCell(given) for given in row]
            for row in self.rows
        ]
        for row in cells:
            if len(row) != len(self.columns):
                raise InvalidParameter(f"rows must have {len(self.columns)} cells, got {len(row)}")
            for cell in row:
                if cell.tone not in _TONES:
                    raise InvalidParameter(f"tone must be one of {_TONES}, got {cell.tone!r}")
        object.__setattr__(self, "cells", cells)

    @property
    def sides(self) -> tuple[str, ...]:
        """The alignment of every column."""
        return tuple(self.align or ("left", *("right",) * (len(self.columns) - 1)))

    @property
    def stacks(self) -> bool:
        """Whether rows stand one below the other on a phone."""
        return len(self.columns) >= _FEWEST_STACKED

    @property
    def label(self) -> str:
        """The caption for those who do not see it, without marks."""
        return re.sub(r"[`*]", "", self.caption) or "table"


class Page:
    """A title, what a template makes of ``content``, and a footer.

    ``template`` is a package and a file, such as ``mustdp.reporting/templates/report.html.j2``, or
    a template itself.
    """

    def __init__(
        self,
        title: str,
        lead: str = "",
        *,
        template: str | Template | None = None,
        footer: str = f"mustdp {__version__}",
        **content: Any,
    ) -> None:
        self.title, self.lead, self.footer = title, lead, footer
        self._template, self._content = template, content

    def html(self) -> str:
        """The whole page."""
        found = environment()
        sections: list[str] = []

        def heading(text: str) -> Markup:
            """The start of a section, which the list of contents names."""
            sections.append(text)
            return _markup('<h2 id="section-{}">{}</h2>').format(len(sections), text)

        body = ""
        if self._template is not None:
            body = found.get_template(self._template).render(heading=heading, **self._content)
        return found.get_template("mustdp.reporting/templates/page.html.j2").render(
            title=self.title, lead=self.lead, sections=sections, body=_markup(body),
            footer=self.footer, policy=_markup(POLICY), style=_markup(style()),
        )  # fmt: skip

    def write(self, path: str | Path) -> Path:
        """Write the page in one move; others may read it, as the umask says."""
        return replace_file(path, self.html().encode(), mode=SHARED)


def check_installed(purpose: str) -> None:
    """Refuse to begin work on a page, with pictures, that could not be made."""
    for package in ("matplotlib", "jinja2"):
        required(package, purpose)


@cache
def environment() -> Environment:
    """jinja2 with everything escaped; undefined names are errors."""
    jinja2: Any = required("jinja2", "a page")
    made: Environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["marked"] = marked
    made.filters["unbroken"] = unbroken
    made.filters["collapsed"] = lambda text: _markup(" ".join(_escaped(text).split()))
    made.filters["described"] = described
    return made


def _source(name: str) -> str:
    package, _, path = name.partition("/")
    return resources.files(package).joinpath(path).read_text(encoding="utf-8")


def style() -> str:
    """The style sheet: wide and narrow windows, light, dark and paper."""
    return _source("mustdp.reporting/templates/page.css")


def _markup(text: str) -> Markup:
    made: Markup = required("markupsafe", "a page").Markup(text)
    return made


def marked(text: str) -> Markup:
    """Escaped text in which `backquotes` mark code and **double stars** strong words.

    >>> print(marked("`a < b` is **so**"))
    <code>a &lt; b</code> is <strong>so</strong>
    >>> print(marked("see [the second part](#section-2)"))
    see <a href="#section-2">the second part</a>
    >>> print(marked("at delta 1e-5"))
    at delta <span class="number">1e-5</span>
    """
    parts = re.split(r"`([^`]+)`", _escaped(text))
    for index, part in enumerate(parts):
        if index % 2:
            parts[index] = f"<code>{part}</code>"
        else:
            strong = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", _unbroken(part))
            parts[index] = re.sub(
                r"\[([^\]]+)\]\(#(section-\d+)\)", r'<a href="#\2">\1</a>', strong
            )
    return _markup("".join(parts))


def unbroken(text: str) -> Markup:
    """Escaped text in which a number with an exponent stays on one line."""
    return _markup(_unbroken(_escaped(text)))


def described(alt: str) -> str:
    """The description of a picture for those who do not see it, which must not be empty."""
    if not alt.strip():
        raise InvalidParameter(f"alt must say what the picture shows, got {alt!r}")
    return alt


def _escaped(text: str) -> str:
    """Text with HTML's characters escaped, unless a template has done so already."""
    return str(required("markupsafe", "a page").escape(text))


def _unbroken(escaped: str) -> str:
    return re.sub(r"[\d.]+e-\d+", r'<span class="number">\g<0></span>', escaped)
