"""Small tables for people, as aligned text and as HTML: what objects show of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Shown:
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
