"""Marks what is hard to fit on a phone, so that the style sheet can make room for it.

Code within a sentence stays on one line, because an option broken at its hyphens is hard to read;
what is longer than a line has to be broken. A number with an exponent is not broken at its sign.
Cells with whole sentences get a width in which these can be read, though their table then scrolls.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

#: Letters that fit beside each other on a phone, and letters that want lines of some length.
_LINE, _SENTENCE = 30, 60
_NUMBER = re.compile(r"([\d.]+e-\d+)")


def mark(app: Sphinx, doctree: nodes.document, name: str) -> None:
    """Give such words and cells a class."""
    for code in doctree.findall(nodes.literal):
        if max(map(len, code.astext().split()), default=0) > _LINE:
            code["classes"].append("long")
    for cell in doctree.findall(nodes.entry):
        if len(cell.astext()) > _SENTENCE:
            cell["classes"].append("wordy")
    for text in list(doctree.findall(nodes.Text)):
        parts = _NUMBER.split(text.astext())
        if len(parts) > 1 and not isinstance(text.parent, nodes.literal | nodes.FixedTextElement):
            found = (
                nodes.inline(part, part, classes=["number"]) if place % 2 else nodes.Text(part)
                for place, part in enumerate(parts)
            )
            text.parent.replace(text, list(found))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-resolved", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
