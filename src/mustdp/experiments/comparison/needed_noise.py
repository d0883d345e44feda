"""All schemes at the same certified guarantee: the noise each needs, the records each touches."""

from __future__ import annotations

from collections.abc import Sequence

from mustdp.experiments.comparison import equal_guarantee
from mustdp.experiments.comparison.equal_guarantee import COMPOSED, DELTA, Settled, by_target
from mustdp.experiments.frame.cells import Cell, Table, new
from mustdp.experiments.frame.items import Settings
from mustdp.experiments.frame.shown import number
from mustdp.progress import Progress


def settle(
    settings: Settings, progress: Progress, sizes: tuple[int, int, int], steps: int
) -> list[Settled]:
    """Calibrate every scheme to the same guarantee after all steps, under replace_one.

    A quick run compares at the larger epsilon alone and leaves out MUSTww, which takes most of the
    time; the note says so.
    """
    targets = equal_guarantee.targets_at(settings.quick, DELTA, steps)
    names = equal_guarantee.names_at(settings.quick)
    return equal_guarantee.settle_all(sizes, targets, names, 1, progress)


def noise_table(found: Sequence[Settled], quick: bool) -> Table:
    """One row per guarantee and scheme."""
    cells: list[Cell] = []
    for each in found:
        row = f"{_guarantee(each)}, {each.name}"
        cells += [
            new(row, "noise multiplier", each.budget.noise_multiplier, bound="upper"),
            new(row, "distinct records", each.budget.scheme.expected_distinct),
            new(row, "ε, attained", each.epsilon.lower, bound="lower"),
            new(row, "ε, certified", each.epsilon.upper, bound="upper"),
        ]
    steps = found[0].target.steps
    times = "one application" if steps == 1 else f"{steps} steps"
    left = " MUSTww and the smaller ε are left to the full run." if quick else ""
    return Table(
        "equal",
        f"All schemes at the same certified guarantee after {times}, δ = {DELTA:g}",
        tuple(cells),
        "equal",
        "Gaussian noise on a sum of bounded contributions, in units of that bound; one record "
        f"replaced, for Poisson too. {COMPOSED}{left}",
    )


def least_and_most(found: Sequence[Settled]) -> str:
    """In words: which schemes need the least and the most noise at the first guarantee."""
    rows = next(iter(by_target(found).values()))
    order = sorted(rows, key=lambda each: each.budget.noise_multiplier)
    least, most = order[0], order[-1]
    little, much = (number(each.budget.noise_multiplier, 4, "up") for each in (least, most))
    listed = " < ".join(each.name for each in order)
    return (
        f"At the same certified guarantee ({_guarantee(least)}, δ = {DELTA:g}) {least.name} needs "
        f"the least noise, multiplier {little}, and {most.name} the most, {much}: {listed}."
    )


def _guarantee(each: Settled) -> str:
    return f"ε = {each.target.epsilon:g}"
