"""``mustdp plan``: how wide the intervals of a release will be, before any data are read."""

from __future__ import annotations

from typing import Annotated, Any

from mustdp.cli.data_options import (
    STATISTICS,
    ReleaseRelationOption,
    ReportOption,
    StatisticsOptions,
)
from mustdp.cli.options import ACCOUNTING, DeltaOption, JsonOption, read_target, stated
from mustdp.cli.output import Answer
from mustdp.cli.parameters import (
    Panel,
    exactly_one,
    read_integer,
    read_positive,
    with_bundles,
    word_from,
    writable_file,
)
from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.numerics.formatting import given_or_rounded, percent_stated, readable

_statistics = Panel(
    STATISTICS,
    """
    -n N        Required: number of records, or an estimate of it.
    --like LAW  What the data are taken to be like within their ranges: normal or uniform.
    """,
)
_accounting = Panel(
    ACCOUNTING,
    """
    --epsilon E  An epsilon; repeat it to compare several. Give this or --width.
    --width W    Instead of --epsilon: the smallest epsilon for intervals of at most this width.
    """,
)


@with_bundles
def plan(
    wanted: StatisticsOptions,
    n: Annotated[int | None, _statistics("-n", read_integer)] = None,
    epsilon: Annotated[list[float] | None, _accounting("--epsilon", read_target)] = None,
    width: Annotated[float | None, _accounting("--width", read_positive)] = None,
    delta: DeltaOption = None,
    relation: ReleaseRelationOption = None,
    like: Annotated[
        str, _statistics("--like", word_from("mustdp.estimation.planning", "LIKE"))
    ] = "normal",
    report: ReportOption = None,
    json: JsonOption = False,
) -> Answer:
    """Say how wide the intervals of a release will be, or which epsilon a width needs.

    No data are read: numbers are taken to be spread over their ranges as --like says, groups and
    categories to be equally large.

    Example: mustdp plan -n 10000 --column age --lower 0 --upper 100 --statistic mean
    --epsilon 0.5 --epsilon 1 --delta 1e-6
    """
    exactly_one({"--epsilon": epsilon or None, "--width": width})
    if n is None:
        raise InvalidParameter("-n is missing: give the number of records, or an estimate of it")
    settings: dict[str, Any] = {
        **wanted.read(tuple(wanted.column or ("value",))),
        "n": n,
        "delta": stated(delta, n),
        "like": like,
    }
    if relation is not None:
        settings["relation"] = relation

    target = None if report is None else writable_file("--report", report)
    if report is not None:
        required("matplotlib", "a report page")

    from mustdp.estimation.planning import expected_widths, smallest_epsilon

    statistics, level = wanted.statistics, wanted.level
    if width is not None:
        found = [smallest_epsilon(width, statistics, **settings)]
    else:
        found = [
            (one, expected_widths(statistics, epsilon=one, **settings)) for one in epsilon or ()
        ]
    if target is not None:
        from mustdp.reporting.release_page import plan_page

        around = found[0][0]
        several = [
            (one, expected_widths(statistics, epsilon=one, **settings))
            for one in ([at for at, _ in found] if len(found) > 2 else _spread(around))
        ]
        plan_page(several, n).write(target)
    flat = [(at, one) for at, several in found for one in several]
    rows = [{"epsilon": at, **one.as_dict()} for at, one in flat]
    return Answer(
        {"rows": rows, "n": n, "delta": settings["delta"], "like": like, "level": level},
        as_json=json,
        heading=f"{n} records, expected; nothing was read and nothing is spent",
        columns=("epsilon", "estimate of", "width", "standard error", "noise share"),
        rows=tuple(
            (
                given_or_rounded(at, "up", 4),
                one.label,
                _shown(one.width),
                _shown(one.standard_error),
                f"{100 * one.noise_share:.0f} %",
            )
            for at, one in flat
        ),
        note=f"width: of the {percent_stated(level)} interval, for {like} data within the ranges.",
    )


def _spread(epsilon: float) -> list[float]:
    """Epsilons around one, for a picture."""
    return [epsilon * 2.0**k for k in range(-4, 4)]


def _shown(value: float) -> str:
    return readable(value, "up", 4) if value < float("inf") else "unknown"
