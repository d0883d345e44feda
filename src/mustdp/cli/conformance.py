"""``mustdp conformance``: an accountant's answers beside certified and attained ones."""

from __future__ import annotations

from typing import Annotated

import typer

from mustdp.cli.output import Answer, progress
from mustdp.cli.parameters import with_bundles
from mustdp.numerics.formatting import as_stated, readable

ModuleArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE",
        help="mustdp, dp-accounting-pld, dp-accounting-rdp, opacus-prv, opacus-rdp, opacus-gdp, "
        "prv-accountant, riskcal, pld-accounting, jax-privacy, flower, or a module that has a "
        "function epsilon(setting).",
        show_default=False,
    ),
]


@with_bundles
def conformance(module: ModuleArgument) -> Answer:
    """Run an accountant on settings whose epsilon is known, and say where it is too small or loose.

    Every setting has an epsilon that some pair of neighbouring data sets attains and one that is
    certified for all. An answer below the first is refuted; one far above the second is loose.
    MODULE is the name of a known accountant, or a module with a function epsilon(setting) that
    returns a number, or None where it does not accept the setting.

    Example: mustdp conformance dp-accounting-pld
    """
    from mustdp.interop.conformance import accountant_named, judge, settings

    accountant, asked = accountant_named(module), settings()
    judged = []
    with progress("asking") as move:
        for place, setting in enumerate(asked):
            move(setting["name"], place, len(asked))
            judged += judge(accountant, [setting])
    counts = {
        verdict: sum(one.verdict == verdict for one in judged)
        for verdict in ("too small", "tight", "loose", "not accepted", "failed")
    }
    data = {
        "module": module,
        "verdicts": counts,
        "rows": [one.as_dict() for one in judged],
    }
    rows = tuple(
        (
            one.setting["name"],
            as_stated(one.setting["delta"]),
            readable(one.setting["lower"], "down"),
            readable(one.setting["upper"], "up"),
            "-" if one.answer is None else readable(one.answer, "nearest"),
            one.verdict,
            one.reason,
        )
        for one in judged
    )
    return Answer(
        data,
        heading=f"{module}: "
        + ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count),
        columns=("setting", "delta", "attained", "certified", "answer", "verdict", "why"),
        rows=rows,
        note="too small: a pair of neighbouring data sets attains more, so the answer promises "
        "what is not kept. loose: more than 2 % above what is certified.",
    )
