"""``mustdp reproduce``: the paper's tables and figures, computed again and judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.cli.output import Answer, progress
from mustdp.cli.parameters import Panel, clipped, read_natural, with_bundles
from mustdp.errors import InvalidParameter

if TYPE_CHECKING:
    from mustdp.reproduction.cells import Item, PaperCell
    from mustdp.reproduction.runner import Result

ItemsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ITEM]...",
        help="What to reproduce, such as table-s1 or figure-4; everything if left out.",
        show_default=False,
    ),
]
_reproduction = Panel(
    None,
    """
    --quick     Fewer repetitions and coarser grids, for a first look.
    --data DIR  Folder with subfolders adult and mnist. Without it the items that need them are
                skipped.
    --out DIR   Folder for results, pictures and report.html. Items whose results are there for the
                same seed and --quick are not computed again.
    --seed INT  Seed of all experiments.
    """,
)


@with_bundles
def reproduce(
    items: ItemsArgument = None,
    quick: Annotated[bool, _reproduction("--quick")] = False,
    data: Annotated[str | None, _reproduction("--data")] = None,
    out: Annotated[str, _reproduction("--out")] = "reproduction",
    seed: Annotated[int, _reproduction("--seed", read_natural)] = 1,
) -> Answer:
    """Compute the tables and figures of the MUST paper again and judge every number.

    Each number matches, differs for a stated reason, differs, or is new. Results are kept item by
    item, so that an interrupted run can be continued.

    Example: mustdp reproduce table-s1 figure-4 --out reproduction
    """
    from mustdp.reproduction.cells import Settings
    from mustdp.reproduction.report import ITEMS, items_called

    chosen = items_called(items or ())
    settings = Settings(quick, seed, _folder("--data", data, must_exist=True))
    folder = _folder("--out", out) or Path()
    for item in chosen if items else ():
        if item.needs and settings.data is None:
            raise InvalidParameter(
                f"--data is missing: {item.name} needs the data set {' and '.join(item.needs)}"
            )

    from mustdp.reporting.pages import check_installed

    check_installed("the report of the reproduction")
    from mustdp.reproduction.report import write_report
    from mustdp.reproduction.runner import finished, run_items

    with progress("reproducing") as move:
        results = run_items(chosen, settings, folder, move)
        move("report")
        skipped = [one for one in results if one.state == "skipped"]
        report = write_report(finished(ITEMS, settings, folder), skipped, settings, folder)
    return _answer(results, settings.quick, settings.seed, report)


def _folder(option: str, text: str | None, must_exist: bool = False) -> Path | None:
    if text is None:
        return None
    path = Path(text)
    if path.is_dir() or not (must_exist or path.exists()):
        return path
    raise InvalidParameter(f"{option} must be a folder, got {clipped(text)!r}")


def _answer(results: Sequence[Result], quick: bool, seed: int, report: Path) -> Answer:
    from mustdp.reproduction.report import verdict_row

    done = [one for one in results if one.outcome is not None]
    notes = [f"{one.remark}: skipped without --data." for one in results if one.state == "skipped"]
    again = [one.remark for one in done if one.remark]
    return Answer(
        {
            "quick": quick,
            "seed": seed,
            "report": str(report),
            "items": [_item(one) for one in results],
        },
        heading=f"arXiv 2312.13389, {'quick' if quick else 'full'} run, seed {seed}",
        columns=("item", "cells", "matches", "explained", "differs", "new", "seconds"),
        rows=tuple((one.item.name, *verdict_row(one)) for one in done),
        note="\n".join([*notes, f"report: {report}"]),
        remark="; ".join(again),
    )


def _item(result: Result) -> dict[str, Any]:
    item: Item = result.item
    tables = result.outcome.tables if result.outcome else ()
    return {
        "item": item.name,
        "title": item.title,
        "state": result.state,
        "remark": result.remark,
        "seconds": result.seconds,
        "cells": [
            {"table": table.name, "kind": table.kind, **_plain(cell)}
            for table in tables
            for cell in table.cells
        ],
        "reading": list(result.outcome.reading) if result.outcome else [],
    }


def _plain(cell: PaperCell) -> dict[str, Any]:
    """A cell as data, without what only decides how it is rounded."""
    found = dataclasses.asdict(cell)
    del found["bound"]
    return found
