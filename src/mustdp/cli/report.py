"""``mustdp report``: one page about one choice of sizes, for reading and for passing on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

from mustdp.cli.options import ComparisonOptions, JsonOption
from mustdp.cli.output import Answer, comparison_answer, progress
from mustdp.cli.parameters import option, with_bundles, writable_file
from mustdp.execution.processes import WorkerPool
from mustdp.extras import required

if TYPE_CHECKING:
    from mustdp.reporting.findings import Findings

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
    arguments = options.read()
    target = writable_file("--out", out)
    with WorkerPool(preload=["mustdp.reporting.report"]) as pool, progress() as move:
        required("matplotlib", "a report page")

        from mustdp.reporting.findings import Question, gather
        from mustdp.reporting.report import report_page

        question = Question(**arguments)
        found = gather(question, move, pool.map_parallel)
        shown = comparison_answer(found.comparison, arguments, "gaussian", json)
        move("drawing")
        page = report_page(found, out, pool.map_parallel)
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
    from mustdp.reporting.report import reading

    return reading(found)[0].replace("**", "")
