"""Numbers and small tables for people; bounds are rounded to their safe side."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, localcontext
from html import escape
from typing import Literal

from mustdp.errors import NumericalFailure

# Numbers for people: few digits, rounded to the side that promises no more than was computed.
#
# Every number about privacy that is printed (terminal, page, LaTeX, picture, ``str`` of a result)
# goes through this module, and its kind decides the side:
#
# - Certified bounds (epsilon, delta, advantage, rates and suspicions, mu, rho, Renyi divergences,
#   what is spent) and the chance eta that a record is drawn: up.
# - Attained lower bounds and what is left of a budget: down.
# - Noise that was used, in the result of a run: down, so that no smaller epsilon can be
# recomputed
#   than was certified. Its inverse, the shift of a plan that is accounted for: up.
# - Noise that is needed, which a calibration or comparison recommends: up, so that the certified
#   epsilon holds for the noise as printed. Its inverse, the shift of a recommended noise: down. A
#   plan in words is a recommendation as well, unless it lists what was released.
# - Numbers that were given (delta, a target, a limit, a noise multiplier): as they were given.
# - Intervals of estimates: outwards, and their standard errors up. Only estimates themselves,
#   expected sizes, shares and times are rounded to nearest.
#
# No function has a default side: a call that does not choose one is an error.


Toward = Literal["nearest", "up", "down"]
_ROUNDING = {"nearest": ROUND_HALF_EVEN, "up": ROUND_CEILING, "down": ROUND_FLOOR}
#: Numbers of at most this many digits were typed by somebody; computed ones have more.
_TYPED = 12


def readable(value: float | Decimal, toward: Toward, digits: int = 3) -> str:
    """Write a number with few significant digits, rounded ``toward`` its safe side.

    >>> near = [readable(x, "nearest") for x in (0.2308, 1.26593235e-73, 0, 12345.6)]
    >>> near
    ['0.231', '1.27e-73', '0', '12346']
    >>> readable(0.078196, "up"), readable(0.077687, "down")
    ('0.0782', '0.0776')
    """
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        raise NumericalFailure(f"a result is infinite or not a number: {value}")
    if value == 0:
        return "0"
    number = Decimal(value)
    precision = max(digits, number.adjusted() + 1 if abs(number) < 1_000_000 else 0)
    shown = Context(prec=precision, rounding=_ROUNDING[toward]).create_decimal(number)
    if Decimal("1e-3") <= abs(shown) < 1_000_000:
        return f"{shown:f}"
    return f"{shown:.{digits - 1}e}"


def formatted(value: float, spec: str, toward: Toward) -> str:
    """A number by a format of Python's own, ``.3f`` or the like, rounded ``toward`` its safe side.

    >>> formatted(1.4142, ".2f", "up"), formatted(1.4142, ".2f", "down"), f"{1.4142:.2f}"
    ('1.42', '1.41', '1.41')
    """
    if not math.isfinite(value):
        return format(value, spec)
    with localcontext(Context(rounding=_ROUNDING[toward])):
        return format(Decimal(value), spec)


def as_stated(value: float) -> str:
    """A number that was given, as it can be given again: the shortest text with this value.

    >>> as_stated(1e-05), as_stated(2.0), as_stated(1.2345649e-06)
    ('1e-05', '2', '1.2345649e-06')
    """
    return repr(value if isinstance(value, int) else float(value)).removesuffix(".0")


def given_or_rounded(value: float, toward: Toward, digits: int = 3) -> str:
    """A number that may have been given: as it was given, or rounded if it was computed.

    >>> given_or_rounded(0.25, "up"), given_or_rounded(1 / 3, "up")
    ('0.25', '0.334')
    """
    text = as_stated(value)
    short = len(Decimal(text).normalize().as_tuple().digits) <= _TYPED
    return text if short else readable(value, toward, digits)


def noise_needed(multiplier: float, digits: int = 5) -> str:
    """A noise multiplier to be used: as it was given, or rounded up if it was computed.

    >>> noise_needed(2.0), noise_needed(0.90220953783)
    ('2', '0.90220953783')
    >>> noise_needed(0.9022095378339291), noise_needed(0.9022095378339291, 4)
    ('0.90221', '0.9023')
    """
    return given_or_rounded(multiplier, "up", digits)


def noise_used(multiplier: float, digits: int = 5) -> str:
    """A noise multiplier of a run that was made: as it was given, or rounded down.

    >>> noise_used(2.0), noise_used(0.9022095378339291), noise_used(0.9022095378339291, 3)
    ('2', '0.90220', '0.902')
    """
    return given_or_rounded(multiplier, "down", digits)


def exact_or_rounded(value: float, toward: Toward, digits: int = 3) -> str:
    """A number in few digits if these are all it has, or else rounded ``toward`` its safe side.

    For what follows from sizes and noise, such as eta and shifts, which are often short.

    >>> exact_or_rounded(0.01, "up"), exact_or_rounded(0.0117301, "up")
    ('0.0100', '0.0118')
    """
    near = readable(value, "nearest", digits)
    return near if float(near) == value else readable(value, toward, digits)


def chance_drawn(eta: float) -> str:
    """The chance that a record is drawn, rounded up unless three digits are all of it.

    >>> chance_drawn(0.01), chance_drawn(0.0117301)
    ('0.0100', '0.0118')
    """
    return exact_or_rounded(eta, "up")


def percent(share: float, toward: Toward) -> str:
    """A share of cases in per cent, rounded ``toward`` its safe side and never beyond 0 and 100.

    >>> percent(0.05361, "up"), percent(0.9999999, "up"), percent(0.0, "down")
    ('5.37 %', '100 %', '0 %')
    """
    # Scaled in decimals: the product of floats could be rounded to the wrong side.
    shown = readable(Decimal(share).scaleb(2), toward)
    return f"{'100' if Decimal(shown) >= 100 else shown} %"


def percent_stated(share: float) -> str:
    """A share that was given, in per cent.

    >>> percent_stated(0.01), percent_stated(0.95), percent_stated(1.0)
    ('1 %', '95 %', '100 %')
    """
    return f"{Decimal(repr(float(share))).scaleb(2).normalize():f} %"


#: In place of an estimate that the data and the noise do not allow.
NOT_KNOWN = "NA"


def estimate_in_words(
    value: float, error: float, interval: tuple[float, float], unknown: str = "unknown"
) -> tuple[str, str, str, str]:
    """An estimate, its standard error rounded up and the ends of its interval outwards.

    >>> estimate_in_words(41.23456, 0.12341, (40.98765, math.inf))
    ('41.235', '0.124', '40.987', 'unknown')
    >>> estimate_in_words(math.nan, math.inf, (-math.inf, math.inf))
    ('NA', 'unknown', 'unknown', 'unknown')
    """

    def known(number: float, toward: Toward, digits: int) -> str:
        return readable(number, toward, digits) if math.isfinite(number) else unknown

    low, high = interval
    return (
        known(value, "nearest", 5) if math.isfinite(value) else NOT_KNOWN,
        known(error, "up", 3),
        known(low, "down", 5),
        known(high, "up", 5),
    )


# Texts of others in files for other programs: tables in CSV, cells in LaTeX, names in pictures.
#
# Names of columns, categories and labels come from data and from users. A spreadsheet takes a cell
# for a formula if it begins like one, LaTeX runs what begins with a backslash, and matplotlib sets
# what stands between dollars as mathematics, or fails.


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


def latex_table(columns: Sequence[str], rows: Iterable[Sequence[str]], comment: str) -> str:
    """A ``tabular`` below a comment; the first column is left, the others right."""
    lines = [" & ".join(map(latex_text, row)) + r" \\" for row in (columns, *rows)]
    return "\n".join(
        (
            f"% {one_line(comment)}",
            rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
            r"\hline",
            lines[0],
            r"\hline",
            *lines[1:],
            r"\hline",
            r"\end{tabular}",
            "",
        )
    )


def picture_text(text: str) -> str:
    """A text that matplotlib draws as it stands, dollars included."""
    return one_line(text).replace("$", r"\$")


def one_line(text: str) -> str:
    """The text without line breaks and other control characters."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)


# Small tables for people, as aligned text and as HTML: what objects show of themselves.


@dataclass(frozen=True)
class Display:
    """A heading, a table and a remark below it."""

    heading: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""

    def text(self) -> str:
        """For ``print``."""
        lines = (
            [self.heading, *aligned([self.columns, *self.rows])] if self.rows else [self.heading]
        )
        return "\n".join((*lines, self.note) if self.note else lines)

    def html(self) -> str:
        """For notebooks; every text is escaped."""
        table = ""
        if self.rows:
            head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
            body = "".join(
                f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
                for row in self.rows
            )
            table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return f"<div><p><strong>{escape(self.heading)}</strong></p>{table}{note}</div>"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines in which columns end together.

    >>> aligned([("scheme", "noise"), ("wor", "3.1")])
    ['scheme  noise', '   wor    3.1']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
