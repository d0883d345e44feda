"""Commands on pages, and whether what they print is what the pages show.

A console block is compared with the real output, numbers up to one in the last digit shown. A long
command may go on after a backslash. A comment before the block says otherwise: after
``<!-- noisy -->`` numbers may be any numbers, and after ``<!-- refused -->`` the command must fail
with the line that is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"(?:<!-- (noisy|refused) -->\n)?```console\n(.*?)```", re.DOTALL)
_NUMBER = re.compile(r"^[-\[(]*\d[\d,.]*(e[-+]?\d+)?%?[\]),.:;]*$")


class Example(NamedTuple):
    """A command, what a page shows of its output, and how the two are compared."""

    command: str
    output: str
    kind: str


def examples(page: Path) -> Iterator[Example]:
    for kind, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = re.sub(r" \\\n +", " ", example).partition("\n")
            yield Example(command, output, kind)


def assert_same_words(ours: str, documented: str) -> None:
    """Equal line by line, numbers up to one in the last digit shown."""
    assert len(ours.splitlines()) == len(documented.splitlines())
    for line, shown in zip(ours.splitlines(), documented.splitlines(), strict=True):
        for word, expected in zip(line.split(), shown.split(), strict=True):
            if word != expected:
                ours_at, shown_at = (Decimal(one.strip("(),.")) for one in (word, expected))
                assert abs(ours_at - shown_at) <= 10 ** int(shown_at.as_tuple().exponent), shown


def assert_same_shape(ours: str, documented: str) -> None:
    """The same words, and numbers in the same places."""

    def shape(text: str) -> list[str]:
        # The noise decides whether a note about a row is there.
        lines = [line for line in text.splitlines() if not line.startswith("note: ")]
        return ["#" if _number(word) else word for line in lines for word in line.split()]

    assert shape(ours) == shape(documented)


def _number(word: str) -> bool:
    """A number or the words for none, a date, or the bar of a ledger."""
    known = bool(_NUMBER.match(word)) or word in ("NA", "unknown")
    return known or set(word) <= set("[#.]") or word.count("-") == 2
