"""Texts of others in files for other programs: tables in CSV, cells in LaTeX, names in pictures.

Names of columns, categories and labels come from data and from users. A spreadsheet takes a cell
for a formula if it begins like one, LaTeX runs what begins with a backslash, and matplotlib sets
what stands between dollars as mathematics, or fails.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

#: What a formula begins with, in spreadsheets of all languages.
_FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {sign: "\\" + sign for sign in "&%$#_{}"}
_LATEX |= {"<": r"$<$", ">": r"$>$", "[": "{[}", "]": "{]}"}


def csv_table(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV; a text that a spreadsheet would take for a formula gets an apostrophe in front.

    Every row is a line: a line break in a text becomes a space, as many programs, Python's reader
    among them, begin a new row at a carriage return that is not quoted.

    >>> csv_table([("label", "value"), ("=1+1", -0.5)])
    "label,value\\n'=1+1,-0.5\\n"
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        writer.writerow([spreadsheet_text(x) if isinstance(x, str) else x for x in row])
    return out.getvalue()


def spreadsheet_text(text: str) -> str:
    """A text that no spreadsheet evaluates; numbers stay what they are.

    Space in front is looked through: some programs drop it.

    >>> spreadsheet_text("@SUM(A1)"), spreadsheet_text("-3.5"), spreadsheet_text("-3.5+1")
    ("'@SUM(A1)", '-3.5', "'-3.5+1")
    """
    line = one_line(text)
    begun = re.sub(r"^[\s\ufeff\u200b]+", "", line)
    if begun[:1] not in tuple(_FORMULA) or _NUMBER.fullmatch(line):
        return line
    return f"'{line}"


def latex_text(text: str) -> str:
    r"""A text as it stands in the body of a LaTeX table, on one line.

    >>> print(latex_text(r"\input{x} & 5 %"))
    \textbackslash{}input\{x\} \& 5 \%
    """
    return "".join(_LATEX.get(sign, sign) for sign in one_line(text))


def latex_comment(text: str) -> str:
    """A line that LaTeX passes over."""
    return f"% {one_line(text)}"


def picture_text(text: str) -> str:
    """A text that matplotlib draws as it stands, dollars included."""
    return one_line(text).replace("$", r"\$")


def one_line(text: str) -> str:
    """The text without line breaks and other control characters."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)
