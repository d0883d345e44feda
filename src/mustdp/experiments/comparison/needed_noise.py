"""All schemes at the same certified guarantee: the noise each needs, the records each touches."""

from __future__ import annotations

from collections.abc import Sequence

from mustdp.calibration.noise import calibrate
from mustdp.experiments.frame.cells import Cell, Settings, Table
from mustdp.experiments.frame.digits import number
from mustdp.experiments.frame.items import Report
from mustdp.experiments.frame.schemes import NAMES, scheme_called

#: The guarantees (epsilon, delta) at which schemes are compared.
EPSILON, DELTA = (1.0, 4.0), 1e-5


def needed_noise(
    settings: Settings, report: Report, *, n: int, b: int, m: int, steps: int
) -> Table:
    """Calibrate every scheme to the same guarantee after all steps, under replace_one.

    A quick run compares at the larger epsilon alone and leaves out MUSTww, which takes most of the
    time; the note says so.
    """
    names = NAMES[:-1] if settings.quick else NAMES
    cells: list[Cell] = []
    for epsilon in EPSILON[-1:] if settings.quick else EPSILON:
        for name in names:
            report(f"noise of {name} for ε = {epsilon:g}")
            found = calibrate(
                scheme_called(name, n, b, m),
                epsilon=epsilon, delta=DELTA, steps=steps, relation="replace_one",
            )  # fmt: skip
            row = f"ε = {epsilon:g}, {name}"
            cells += [
                Cell(row, "noise multiplier", None, found.noise_multiplier),
                Cell(row, "distinct records", None, found.scheme.expected_distinct),
                Cell(row, "ε, attained", None, found.epsilon.lower),
                Cell(row, "ε, certified", None, found.epsilon.upper),
            ]
    times = "one application" if steps == 1 else f"{steps} steps"
    quick = " MUSTww and the smaller ε are left to the full run." if settings.quick else ""
    return Table(
        "equal",
        f"All schemes at the same certified guarantee after {times}, δ = {DELTA:g}",
        tuple(cells),
        "equal",
        "Gaussian noise on a sum of bounded contributions, in units of that bound; one record "
        f"replaced, for Poisson too.{quick}",
    )


def least_and_most(table: Table) -> str:
    """In words: which schemes need the least and the most noise at the first guarantee."""
    noise = {cell.row: cell.ours or 0.0 for cell in table.cells if cell.column.startswith("noise")}
    guarantee = next(iter(noise)).partition(", ")[0]
    order = sorted((row for row in noise if row.startswith(f"{guarantee},")), key=noise.__getitem__)
    least, most = (row.partition(", ")[2] for row in (order[0], order[-1]))
    little, much = (number(noise[row], 4, "up") for row in (order[0], order[-1]))
    return (
        f"At the same certified guarantee ({guarantee}, δ = {DELTA:g}) {least} needs the least "
        f"noise, multiplier {little}, and {most} the most, {much}: {_in_order(order)}."
    )


def _in_order(rows: Sequence[str]) -> str:
    return " < ".join(row.partition(", ")[2] for row in rows)
