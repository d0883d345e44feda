"""Everything that can be reproduced, and the report on it: tables, verdicts, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.files.replacing import SHARED, replace_file
from mustdp.numerics.formatting import Toward
from mustdp.reporting.pages import Page, PageCell, PageTable, Tone
from mustdp.reporting.plots.drawing import in_both_themes, render
from mustdp.reproduction import adult, bootstrap, composition, draws, mnist, one_step, regression
from mustdp.reproduction.cells import (
    VERDICTS,
    Bound,
    Item,
    PaperCell,
    PaperTable,
    Picture,
    Settings,
    Verdict,
    number,
)
from mustdp.reproduction.runner import Result
from mustdp.version import __version__

_TONES: dict[Verdict, Tone] = {
    "matches": "good",
    "differs, explained": "fair",
    "differs": "bad",
    "new": "",
}
#: Where numbers are rounded: what bounds from above up, what bounds from below down.
_TOWARD: dict[Bound, Toward] = {"upper": "up", "lower": "down", "plain": "nearest"}
_KINDS = {
    "paper": "The paper's numbers",
    "guarantee": "What is certified",
    "equal": "At the same guarantee",
}


def counted(result: Result) -> dict[Verdict, int]:
    """How many cells of a result have each verdict."""
    tables = result.outcome.tables if result.outcome else ()
    return {verdict: sum(table.count(verdict) for table in tables) for verdict in VERDICTS}


def verdict_row(result: Result) -> tuple[str, ...]:
    """How many cells a result has, how many with each verdict, and how long it took."""
    counts = counted(result).values()
    return (str(sum(counts)), *map(str, counts), f"{result.seconds:.1f}")


def write_report(
    results: Sequence[Result], skipped: Sequence[Result], settings: Settings, out: Path
) -> Path:
    """Write OUT/report.html and OUT/pictures, and return the path of the report."""
    pictures = [
        one for result in results for one in (result.outcome.pictures if result.outcome else ())
    ]
    folder = out / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        save_picture(picture, folder)
    return _page(results, skipped, settings).write(out / "report.html")


def save_picture(picture: Picture, folder: Path) -> Path:
    """Save a picture on its own, as SVG or, where that would be large, as PNG."""
    drawn = render(picture.figure(), picture.name)
    if not drawn.svg:
        return replace_file(folder / f"{picture.name}.png", drawn.png, mode=SHARED)
    # Inside HTML an SVG needs no name space; in a file of its own it does.
    alone = drawn.svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return replace_file(folder / f"{picture.name}.svg", alone.encode(), mode=SHARED)


def _page(results: Sequence[Result], skipped: Sequence[Result], settings: Settings) -> Page:
    totals = {verdict: sum(counted(one)[verdict] for one in results) for verdict in VERDICTS}
    quick = ", a quick run with fewer repetitions" if settings.quick else ""
    return Page(
        "The paper's tables and figures, computed again",
        "Zhao, Zhou & Liu, MUltistage Sampling Technique (MUST), arXiv 2312.13389.",
        template="mustdp.reproduction/report.html.j2",
        footer=f"mustdp {__version__}, seed {settings.seed}{quick}.",
        conclusion=_conclusion(results, totals),
        totals=[(verdict, str(number)) for verdict, number in totals.items()],
        verdicts=PageTable(
            ("item", "cells", *VERDICTS, "seconds"),
            [(one.item.title, *verdict_row(one)) for one in results],
            "Cells by verdict, and how long each item took when it was computed.",
        ),
        skipped=[one.remark for one in skipped],
        results=[_section(one) for one in results if one.outcome is not None],
    )


def _conclusion(results: Sequence[Result], totals: dict[Verdict, int]) -> str:
    """What came out, and where to find what is not explained."""
    judged = sum(totals.values()) - totals["new"]
    if not judged:
        return "**None of these numbers is in the paper**: there is nothing to compare."
    told = (
        f"**{totals['matches']} of {judged} numbers of the paper come out again**, "
        f"{totals['differs, explained']} differ for a reason that is given"
    )
    if not totals["differs"]:
        return f"{told}, and none differs without one."
    # Sections follow in the order of the results that have one.
    shown = [one for one in results if one.outcome is not None]
    places = [
        f"[{one.item.title}](#section-{place})"
        for place, one in enumerate(shown, 1)
        if counted(one)["differs"]
    ]
    return f"{told}, and **{totals['differs']} without a known one**: {', '.join(places)}."


def _section(result: Result) -> dict[str, Any]:
    """What the template shows of a result: pictures, and tables by kind."""
    outcome = result.outcome
    if outcome is None:
        raise InvalidParameter(f"{result.item.name} has no outcome to show")
    by_kind = {
        words: [table for table in outcome.tables if table.kind == kind]
        for kind, words in _KINDS.items()
    }
    return {
        "title": result.item.title,
        "reading": outcome.reading,
        "pictures": [
            (one, in_both_themes(one.figure, f"{result.item.name}-{number}"))
            for number, one in enumerate(outcome.pictures, 1)
        ],
        "kinds": {
            words: [(_table(one), one.note, _reasons(one)) for one in tables]
            for words, tables in by_kind.items()
            if tables
        },
    }


def _table(table: PaperTable) -> PageTable:
    """Rows against columns, the paper's numbers in brackets."""
    rows = list(dict.fromkeys(cell.row for cell in table.cells))
    columns = list(dict.fromkeys(cell.column for cell in table.cells))
    by_place = {(cell.row, cell.column): cell for cell in table.cells}
    told = any(cell.paper is not None for cell in table.cells)
    return PageTable(
        ("", *columns),
        [(row, *(entry(by_place.get((row, column))) for column in columns)) for row in rows],
        f"{table.title}{'. In brackets: the paper' if told else ''}.",
    )


def entry(cell: PaperCell | None) -> PageCell:
    """A cell as it is shown: bounds rounded to their safe side, the paper's number in brackets."""
    if cell is None or cell.ours is None:
        return PageCell("", "quiet")
    text = number(cell.ours, toward=_TOWARD[cell.bound])
    if cell.error:
        text += f" ± {number(cell.error, 2)}"
    if cell.paper is not None:
        text += f" ({number(cell.paper)})"
    return PageCell(text, _TONES[cell.verdict])


def _reasons(table: PaperTable) -> list[str]:
    """Every reason once, with the rows it belongs to."""
    told: dict[str, list[str]] = {}
    for cell in table.cells:
        if cell.reason:
            told.setdefault(cell.reason, [])
            if cell.row not in told[cell.reason]:
                told[cell.reason].append(cell.row)
    return [f"**{'; '.join(rows)}**: {reason}" for reason, rows in told.items()]


# Everything that can be reproduced, in the order of the report.


ITEMS: tuple[Item, ...] = (
    *one_step.ITEMS,
    *composition.ITEMS,
    *bootstrap.ITEMS,
    *regression.ITEMS,
    *adult.ITEMS,
    *mnist.ITEMS,
    *draws.ITEMS,
)


def items_called(names: Sequence[str]) -> tuple[Item, ...]:
    """The items of these names in the catalogue's order; all of them if no name is given."""
    known = {item.name: item for item in ITEMS}
    for name in names:
        if name not in known:
            raise InvalidParameter(f"ITEM must be one of {', '.join(known)}, got {name[:40]!r}")
    return tuple(item for item in ITEMS if not names or item.name in names)
