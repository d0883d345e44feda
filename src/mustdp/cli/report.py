"""``mustdp report``: one page about one choice of sizes, for reading and for passing on."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mustdp.cli.compare import ComparisonOptions, answer
from mustdp.cli.options import JsonOption
from mustdp.cli.output import Answer, progress
from mustdp.cli.parameters import clipped, option, with_bundles
from mustdp.errors import InvalidParameter
from mustdp.execution.processes import Processes
from mustdp.extras import required

if TYPE_CHECKING:
    from mustdp.reporting.report.findings import Findings

OutOption = Annotated[
    str, option("--out", metavar="FILE", help="The page to write; its folder must exist.")
]


@with_bundles
def report(
    options: ComparisonOptions, out: OutOption = "mustdp-report.html", json: JsonOption = False
) -> Answer:
    """Write a page that compares all schemes: tables, pictures and what they say in plain words.

    The page is one file that needs no network. Numbers are those of compare, with Gaussian noise;
    pictures show bounds against epsilon and steps, copies, other sizes and one application.

    Example: mustdp report -n 60000 -b 3000 -m 2000 --steps 300 --delta 1e-5 --epsilon 2
    """
    asked = options.read()
    target = writable("--out", out)
    with Processes(loads=["mustdp.reporting.report"]) as several, progress() as move:
        required("matplotlib", "a report page")

        from mustdp.reporting.report.findings import Question, gather
        from mustdp.reporting.report.page import compose

        question = Question(**asked)
        found = gather(question, move, several.spread)
        shown = answer(found.comparison, asked, "gaussian", json)
        move("drawing")
        page = compose(found, out, several.spread)
        page.write(target)
    written = str(target.resolve())
    size = f"{target.stat().st_size / 1e6:.1f} MB"
    return dataclasses.replace(
        shown,
        data={**shown.data, "report": written},
        note="" if json else f"{shown.note}\n{_words(found)}\nThe page ({size}): {written}",
    )


def _words(found: Findings) -> str:
    """The most important sentence of the page."""
    from mustdp.reporting.report.page import reading

    return reading(found)[0].replace("**", "")


def writable(name: str, out: str) -> Path:
    """The file to write, refused before any work is done if it cannot be."""
    target = Path(out)
    folder = target.parent
    writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    if target.is_dir() or not target.name or not writable:
        raise InvalidParameter.refusing(
            name, "must be a file in a folder that exists and can be written to", repr(clipped(out))
        )
    return target
