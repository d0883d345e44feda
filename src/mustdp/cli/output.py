"""What a command prints: one JSON object, a table on a terminal, or plain text elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from mustdp.errors import NumericalFailure
from mustdp.numerics.tables import aligned

#: A terminal shows at most this many rows; files, pipes and JSON hold them all.
_MOST_ROWS = 40


@dataclass(frozen=True)
class Answer:
    """The result of a command, before it is known where it goes."""

    data: Mapping[str, Any]
    as_json: bool
    heading: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    #: Goes to standard error, so that it is seen whatever is done with the result.
    remark: str = ""
    #: Go there as well, a line each, and into JSON.
    warnings: tuple[str, ...] = ()


def show(answer: Answer, out: TextIO | None = None, err: TextIO | None = None) -> None:
    """Print ``answer`` to ``out`` and its remark to ``err``."""
    out, err = out or sys.stdout, err or sys.stderr
    if out is None:
        raise OSError("standard output is closed")
    if answer.as_json:
        noted = {"warnings": list(answer.warnings)} if answer.warnings else {}
        text = as_json({**answer.data, **noted})
        print(text, file=out)
    elif out.isatty():
        _show_table(answer, out)
    else:
        print(as_text(answer), file=out)
    out.flush()
    for line in answer.warnings:
        print(f"mustdp: warning: {line}", file=err)
    if answer.remark:
        print(f"mustdp: {answer.remark}", file=err)


def as_json(data: Mapping[str, Any]) -> str:
    """One JSON object; a number that JSON cannot hold is a failure, not an answer.

    >>> as_json({"epsilon": 1.0, "counts": [1, 2]})
    '{"epsilon": 1.0, "counts": [1, 2]}'
    """
    try:
        return json.dumps(data, allow_nan=False)
    except ValueError:
        raise NumericalFailure("a result is infinite or not a number") from None


def as_text(answer: Answer) -> str:
    """Plain text with aligned columns."""
    lines = [answer.heading] if answer.heading else []
    if answer.columns:
        lines += aligned([answer.columns, *answer.rows])
    lines += [answer.note] if answer.note else []
    return "\n".join(lines)


def stacked(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows one below the other, a line for each cell: where a table is too wide, nothing is cut.

    >>> stacked(("scheme", "epsilon, upper"), [("wor", "1.23")])
    ['', 'scheme: wor', 'epsilon, upper: 1.23']
    """
    lines: list[str] = []
    for row in rows:
        lines.append("")
        lines += [f"{name}: {cell}" for name, cell in zip(columns, row, strict=True)]
    return lines


def _show_table(answer: Answer, out: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(file=out, markup=False, highlight=False, emoji=False)
    if answer.heading:
        console.print(answer.heading, style="bold")
    if answer.columns:
        rows = answer.rows[:_MOST_ROWS]
        table = Table(box=box.SIMPLE_HEAD)
        for column in answer.columns:
            table.add_column(column, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        unbounded = console.options.update(width=10_000)
        if console.measure(table, options=unbounded).maximum <= console.width:
            console.print(table)
        else:
            console.print("\n".join(stacked(answer.columns, rows)), soft_wrap=True)
        if len(answer.rows) > _MOST_ROWS:
            console.print(f"and {len(answer.rows) - _MOST_ROWS} more rows: --json prints them all")
    if answer.note:
        console.print(answer.note, style="dim")
