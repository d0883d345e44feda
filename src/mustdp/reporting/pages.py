"""Self-contained HTML pages: text, tables, pictures, code, and their style sheet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal

from mustdp.errors import InvalidParameter
from mustdp.files.replacing import SHARED, replace_file
from mustdp.reporting.plots.drawing import LARGEST_SVG, THEMES, Draw, Rendered, render

# The style sheet: wide and narrow windows, light, dark and paper.


STYLE = """
:root {
  color-scheme: light dark;
  --ground: #ffffff; --ink: #1f2328; --quiet: #5c646d; --line: #dde1e6; --raised: #f5f7f9;
  --accent: #0b5cad; --good: #1a6b3c; --good-ground: #e6f4ea; --fair: #7a5200;
  --fair-ground: #fdf3d8; --bad: #a02318; --bad-ground: #fce8e6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #16191d; --ink: #e6e6e6; --quiet: #a2a7ad; --line: #363c44; --raised: #1e2227;
    --accent: #7db8f5; --good: #7ad6a0; --good-ground: #17291f; --fair: #e8c268;
    --fair-ground: #2a2617; --bad: #ff9d92; --bad-ground: #371f1c;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--ground); color: var(--ink); overflow-wrap: break-word;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 76rem; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .6rem; letter-spacing: -.01em; }
h2 { font-size: 1.4rem; line-height: 1.3; margin: 3rem 0 .8rem; padding-top: 1.2rem;
     border-top: 1px solid var(--line); }
h3 { font-size: 1.1rem; line-height: 1.35; margin: 2rem 0 .5rem; }
/* Numbers with an exponent are not broken at its sign. */
.number { white-space: nowrap; }
p, ul { max-width: 46rem; margin: 0 0 1rem; }
ul { padding-left: 1.25rem; }
li { margin: 0 0 .4rem; }
.lead { font-size: 1.15rem; color: var(--quiet); margin-bottom: 1.5rem; }
.note { color: var(--quiet); font-size: .9rem; }
nav { margin: 0 0 1rem; font-size: .95rem; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem;
         max-width: none; }
nav li { margin: 0; }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: .2em; }
code { font: .9em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
       background: var(--raised); border-radius: 4px; padding: .1em .3em; }
pre { background: var(--raised); border: 1px solid var(--line); border-radius: 8px;
      padding: .8rem 1rem; margin: 0 0 1rem; overflow-x: auto; max-width: 100%;
      white-space: pre-wrap; overflow-wrap: anywhere; }
pre code { background: none; padding: 0; font-size: .875rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
         margin: 0 0 1.5rem; padding: 0; }
.facts div { background: var(--raised); border: 1px solid var(--line); border-radius: 8px;
             padding: .6rem .9rem; display: flex; flex-direction: column-reverse;
             justify-content: flex-end; }
.facts dt { color: var(--quiet); font-size: .85rem; line-height: 1.35; }
.facts dd { margin: 0; font-size: 1.3rem; font-weight: 600; line-height: 1.35;
            font-variant-numeric: tabular-nums; }
.table { margin: 0 0 1.5rem; }
/* A shadow at either side says that there is more to scroll to. */
.box, .wide > figure > .picture {
  background:
    linear-gradient(to right, var(--ground) 1rem, transparent 2rem) left / 2rem 100%,
    linear-gradient(to left, var(--ground) 1rem, transparent 2rem) right / 2rem 100%,
    linear-gradient(to right, var(--quiet), transparent) left / .6rem 100%,
    linear-gradient(to left, var(--quiet), transparent) right / .6rem 100%;
  background-repeat: no-repeat; background-attachment: local, local, scroll, scroll; }
.box { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
.wide > figure > .picture { overflow-x: auto; }
:is(a, pre, .box, .picture):focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; line-height: 1.4;
        font-variant-numeric: tabular-nums; }
/* Cells break at their spaces before a table is wider than its page. */
th, td { padding: .5rem .6rem; text-align: right; vertical-align: top;
         border-bottom: 1px solid var(--line); }
tbody tr:last-child > * { border-bottom: 0; }
thead th { font-weight: 600; vertical-align: bottom; font-size: .85rem;
           min-width: 4.5rem; border-bottom: 2px solid var(--line); }
tbody th { font-weight: 600; }
.left { text-align: left; }
.text { text-align: left; white-space: normal; min-width: 16rem; }
figcaption { color: var(--quiet); font-size: .9rem; line-height: 1.5; margin: .5rem 0 0;
             max-width: 46rem; }
.table > figcaption { margin: 0 0 .5rem; }
.good { color: var(--good); background: var(--good-ground); }
.fair { color: var(--fair); background: var(--fair-ground); }
.bad { color: var(--bad); background: var(--bad-ground); }
.quiet { color: var(--quiet); }
td.good, td.bad { font-weight: 600; }
.figures { display: grid; gap: 1.5rem 2rem; margin: 0 0 1.5rem;
           grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.figures.wide { display: block; }
figure { margin: 0; min-width: 0; }
.picture svg, .picture img { display: block; width: 100%; height: auto; }
.picture.dark { display: none; }
@media (prefers-color-scheme: dark) {
  .picture.light { display: none; }
  .picture.dark { display: block; }
}
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line);
         color: var(--quiet); font-size: .85rem; }
@media (min-width: 60rem) {
  .figures > figure:only-child { display: grid; grid-template-columns: 37rem 1fr; gap: 0 2rem; }
  .figures > figure:only-child > .picture { grid-column: 1; }
  .figures > figure:only-child > figcaption { grid-column: 2; align-self: center; margin: 0; }
  .figures.wide > figure:only-child { display: block; }
  .figures.wide figcaption { margin: .5rem 0 0; }
}
@media (max-width: 40rem) {
  main { padding: 1.5rem 1rem 3rem; }
  h1 { font-size: 1.6rem; }
  h2 { font-size: 1.25rem; margin-top: 2.2rem; }
  .lead { font-size: 1.05rem; }
  .facts { grid-template-columns: 1fr 1fr; }
  .facts dd { font-size: 1.1rem; }
  th, td { padding: .45rem .6rem; }
  /* Rows one below the other, each cell with the name of its column: nothing is off screen. */
  .stacks, .stacks tbody, .stacks tr, .stacks th, .stacks td { display: block; width: 100%; }
  .stacks thead { position: absolute; width: 1px; height: 1px; overflow: hidden;
                  clip-path: inset(50%); }
  .stacks tbody tr { border-bottom: 1px solid var(--line); padding: .4rem 0; }
  .stacks tbody tr:last-child { border-bottom: 0; }
  .stacks tbody td { display: flex; justify-content: space-between; gap: 1rem; border: 0;
                     padding: .2rem .6rem; text-align: right; white-space: normal; min-width: 0; }
  .stacks tbody td::before { content: attr(data-column); color: var(--quiet); text-align: left; }
  .stacks tbody td:empty { display: none; }
  .stacks tbody th { text-align: left; white-space: normal; border: 0; padding: .2rem .6rem; }
  .stacks .text { min-width: 0; }
  /* Wide pictures scroll before their letters become too small; the shadow shines through them. */
  .wide > figure > .picture > * { min-width: var(--readable); }
  .wide > figure > .picture.light > * { mix-blend-mode: darken; }
  .wide > figure > .picture.dark > * { mix-blend-mode: lighten; }
}
@media print {
  :root {
    color-scheme: light;
    --ground: #ffffff; --ink: #000000; --quiet: #444444; --line: #bbbbbb; --raised: #f3f3f3;
    --accent: #000000; --good: #000000; --good-ground: #ffffff; --fair: #000000;
    --fair-ground: #ffffff; --bad: #000000; --bad-ground: #ffffff;
  }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  .box, .wide > figure > .picture { overflow: visible; background: none; }
  table { font-size: 8.5pt; }
  th, td { white-space: normal; padding: .25rem .4rem; }
  pre { white-space: pre-wrap; }
  figure, tr, .facts div { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .picture.light { display: block; }
  .picture.dark { display: none; }
}
"""

# Pages that need no other file: headings, text, tables, pictures, code.
#
#     page = Page("What the schemes cost", "60,000 records, 300 steps.")
#     page.heading("The same guarantee")
#     page.paragraph("The noise that **each** scheme needs; see `mustdp compare`.")
#     page.table(
#         ("scheme", "noise"), [("wor", "3.117"), ("must-ow", Cell("4.283", "bad"))], "Noise."
#     )
#     page.figure(drawn, "Noise against batch size.", alt="Noise rises with m.")
#     page.write("report.html")
#
# Every text is escaped. In running text (lead, paragraphs, points, notes, captions, and cells of
# columns that hold text), `backquotes` mark code, **double stars** strong words and
# [words](#section-2) lead to a section of the page; nothing else has a meaning. The order of calls
# is the order on the page.


#: What a cell's colour says: a good, middling or bad outcome, or something of less weight.
Tone = Literal["", "good", "fair", "bad", "quiet"]
#: right: numbers; left: short words; text: sentences, which may be broken into lines.
Alignment = Literal["right", "left", "text"]
_TONES = ("", "good", "fair", "bad", "quiet")
_ALIGNMENTS = ("right", "left", "text")
#: What a browser may do with the page: nothing that needs anything but the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
#: With fewer sections than this, a list of contents would only be in the way.
_FEWEST_CONTENTS = 4
#: Letters of this part of their size can still be read; a wide picture is not made smaller.
_READABLE = 0.75
#: From this number of columns on, rows become blocks on a phone.
_FEWEST_STACKED = 3


@dataclass(frozen=True)
class Cell:
    """A table cell with a tone; a plain string is a cell without one."""

    text: str
    tone: Tone = ""


class Page:
    """Collects the parts of a page and writes it."""

    def __init__(self, title: str, lead: str = "") -> None:
        self.title, self.lead = title, lead
        self._parts: list[str] = []
        self._sections: list[tuple[str, str]] = []
        self._pictures = 0
        self._row_open = False
        self._footer = ""

    def heading(self, text: str, level: int = 2) -> None:
        """A heading; level 2 begins a section, which the list of contents names, level 3 a part."""
        if level not in (2, 3):
            raise InvalidParameter(f"level must be 2 or 3, got {level!r}")
        mark = ""
        if level == 2:
            mark = f"section-{len(self._sections) + 1}"
            self._sections.append((mark, text))
        named = f' id="{mark}"' if mark else ""
        self._add(f"<h{level}{named}>{escape(text)}</h{level}>")

    def paragraph(self, text: str) -> None:
        """A paragraph of running text."""
        self._add(f"<p>{marked(text)}</p>")

    def note(self, text: str) -> None:
        """A paragraph in small print."""
        self._add(f'<p class="note">{marked(text)}</p>')

    def points(self, items: Iterable[str]) -> None:
        """A list of statements."""
        listed = "".join(f"<li>{marked(item)}</li>" for item in items)
        if listed:
            self._add(f"<ul>{listed}</ul>")

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """A few numbers that everything else rests on, each a (name, value)."""
        shown = "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs
        )
        self._add(f'<dl class="facts">{shown}</dl>')

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[str | Cell]],
        caption: str = "",
        *,
        align: Sequence[Alignment] | None = None,
    ) -> None:
        """A table, which scrolls inside its own box where the window is too narrow.

        On a phone, the rows of a table with several columns stand one below the other.

        The first cell of a row is its heading. ``align`` has one word per column; by default the
        first column is left, the others right.
        """
        sides = tuple(align) if align is not None else ("left", *("right",) * (len(columns) - 1))
        if len(sides) != len(columns) or not set(sides) <= set(_ALIGNMENTS):
            raise InvalidParameter(
                f"align must have one of {', '.join(_ALIGNMENTS)} for each of {len(columns)} "
                f"columns, got {align!r}"
            )
        head = "".join(
            f'<th scope="col"{_classes(side)}>{escape(column)}</th>'
            for column, side in zip(columns, sides, strict=True)
        )
        stacks = len(columns) >= _FEWEST_STACKED
        body = "".join(_row(row, sides, columns if stacks else ()) for row in rows)
        kind = ' class="stacks"' if stacks else ""
        shown = f"<figcaption>{marked(caption)}</figcaption>" if caption else ""
        label = escape(re.sub(r"[`*]", "", caption) or "table")
        self._add(
            f'<figure class="table">{shown}<div class="box" tabindex="0" role="region" '
            f'aria-label="{label}"><table role="table"{kind}><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div></figure>"
        )

    def figure(
        self,
        draw: Draw | Mapping[str, Rendered],
        caption: str = "",
        *,
        alt: str,
        wide: bool = False,
        largest_svg: int = LARGEST_SVG,
    ) -> None:
        """A picture, drawn at once by ``draw(theme)`` for the light and for the dark theme.

        Pictures that follow each other stand side by side where there is room for it, unless they
        are ``wide``: those scroll on a phone. Others should not be wider than 5 inches, so that
        letters are readable there. ``alt`` says what the picture shows to those who do not see it.
        An SVG of more than ``largest_svg`` bytes is replaced by a PNG. What was drawn before is
        given by the names of the themes.
        """
        if not alt.strip():
            raise InvalidParameter(f"alt must say what the picture shows, got {alt!r}")
        self._pictures += 1
        both = ""
        for theme in THEMES:
            if isinstance(draw, Mapping):
                drawn = draw[theme.name]
            else:
                drawn = render(draw(theme), f"p{self._pictures}-{theme.name}", largest_svg)
            both += _picture(drawn, theme.name, alt, wide)
        shown = f"<figcaption>{marked(caption)}</figcaption>" if caption else ""
        element = f"<figure>{both}{shown}</figure>"
        if wide:
            self._add(f'<div class="figures wide">{element}</div>')
        elif self._row_open:
            self._parts[-1] = self._parts[-1].removesuffix("</div>") + element + "</div>"
        else:
            self._add(f'<div class="figures">{element}</div>')
            self._row_open = True

    def code(self, text: str) -> None:
        """Lines to be typed or read as they stand."""
        self._add(f"<pre tabindex='0'><code>{escape(text)}</code></pre>")

    def footer(self, text: str) -> None:
        """What stands at the very end; said again, it replaces what was said before."""
        self._footer = text

    def html(self) -> str:
        """The whole page."""
        lead = f'<p class="lead">{marked(self.lead)}</p>' if self.lead else ""
        contents = ""
        if len(self._sections) >= _FEWEST_CONTENTS:
            links = "".join(
                f'<li><a href="#{mark}">{escape(text)}</a></li>' for mark, text in self._sections
            )
            contents = f'<nav aria-label="Contents"><ul>{links}</ul></nav>'
        footer = f"<footer>{marked(self._footer)}</footer>" if self._footer else ""
        parts = "\n".join(self._parts)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            f"<main>\n<h1>{escape(self.title)}</h1>\n{lead}\n{contents}\n{parts}\n{footer}\n"
            "</main>\n</body>\n</html>\n"
        )

    def write(self, path: str | Path) -> Path:
        """Write the page in one move; others may read it, as the umask says."""
        return replace_file(path, self.html().encode(), mode=SHARED)

    def _add(self, part: str) -> None:
        self._parts.append(part)
        self._row_open = False


def marked(text: str) -> str:
    """Escaped text in which `backquotes` mark code and **double stars** strong words.

    >>> marked("`a < b` is **so**")
    '<code>a &lt; b</code> is <strong>so</strong>'
    >>> marked("see [the second part](#section-2)")
    'see <a href="#section-2">the second part</a>'
    >>> marked("at delta 1e-5")
    'at delta <span class="number">1e-5</span>'
    """
    parts = re.split(r"`([^`]+)`", escape(text))
    for index, part in enumerate(parts):
        if index % 2:
            parts[index] = f"<code>{part}</code>"
        else:
            strong = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", unbroken(part))
            parts[index] = re.sub(
                r"\[([^\]]+)\]\(#(section-\d+)\)", r'<a href="#\2">\1</a>', strong
            )
    return "".join(parts)


def unbroken(escaped: str) -> str:
    """Text in which a number with an exponent stays on one line."""
    return re.sub(r"[\d.]+e-\d+", r'<span class="number">\g<0></span>', escaped)


def _row(row: Sequence[str | Cell], sides: Sequence[str], columns: Sequence[str]) -> str:
    if len(row) != len(sides):
        raise InvalidParameter(f"rows must have {len(sides)} cells, got {len(row)}: {row!r}")
    cells = ""
    for index, (given, side) in enumerate(zip(row, sides, strict=True)):
        cell = given if isinstance(given, Cell) else Cell(given)
        if cell.tone not in _TONES:
            raise InvalidParameter(f"tone must be one of {_TONES}, got {cell.tone!r}")
        text = marked(cell.text) if side == "text" else unbroken(escape(cell.text))
        tag = "th" if index == 0 else "td"
        scope = ' scope="row"' if index == 0 else ""
        if index and columns:
            scope = f' data-column="{escape(columns[index])}"'
        cells += f"<{tag}{scope}{_classes(side, cell.tone)}>{text}</{tag}>"
    return f"<tr>{cells}</tr>"


def _classes(side: str, tone: str = "") -> str:
    named = " ".join(name for name in ("" if side == "right" else side, tone) if name)
    return f' class="{named}"' if named else ""


def _picture(drawn: Rendered, theme: str, alt: str, wide: bool) -> str:
    least = f";--readable:{drawn.width * _READABLE:.0f}px" if wide else ""
    style = f'style="max-width:{drawn.width * 1.2:.0f}px{least}"' + ' tabindex="0"' * wide
    if drawn.svg:
        return (
            f'<div class="picture {theme}" role="img" aria-label="{escape(alt)}" {style}>'
            f"{drawn.svg}</div>"
        )
    return (
        f'<div class="picture {theme}" {style}><img src="{drawn.address}" alt="{escape(alt)}" '
        f'width="{drawn.width}" height="{drawn.height}"></div>'
    )
