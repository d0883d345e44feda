"""Tables 2 and 3 of the paper, judged cell by cell.

What is known about the printed numbers: sigma follows from the classical formula with the
sensitivity of all n records; delta' of Poisson and WOR is eta times delta where the other rows have
the group profiles of Theorem 4, and that of WR is ten times too large; and the variances of WR and
MUST are too small, because a pair of copies of one record counts as a pair without spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mustdp.experiments.bootstrap.runs import (
    DELTA,
    EPSILON_PRIME,
    ROWS,
    N,
    Released,
    Row,
    paper_sigmas,
)
from mustdp.experiments.comparison.measured import moment_cells
from mustdp.experiments.comparison.theorem import theorem_delta
from mustdp.experiments.frame.cells import Cell, Table, judge
from mustdp.experiments.frame.published import published
from mustdp.numerics.arrays import FloatArray

#: Data sets in the paper.
SETS = 200
#: The unit in which Table 2 prints delta'.
_UNIT = 1e-4
_MEAN, _VARIANCE = "mu", "tau2"

#: What was released, by the row it stands in.
Found = Mapping[Row, Released]


def table_2(runs: Found) -> Table:
    """Sigma of both statistics, as the bootstrap added it."""
    printed = published("2")
    cells: list[Cell] = []
    for row in private_rows(runs):
        sigmas = paper_sigmas(runs[row].privacy)
        for name, sigma in zip(("mean", "variance"), sigmas, strict=True):
            paper = row.printed(printed[f"sigma_{name}"])
            cells.append(judge(row.label, f"sigma of the {name}", paper, sigma, half_unit=0.005))
    return Table(
        "table-2",
        f"Table 2: sigma for epsilon' = {EPSILON_PRIME:g} of each statistic of a subset",
        tuple(cells),
        "paper",
        "The classical formula with the sensitivity of all n records, (U - L)/n and (U - L)^2/n. "
        f"The subsets have m records, so this is no guarantee of epsilon'.{_left_out(runs)}",
    )


def delta_table() -> Table:
    """delta' of one statistic of one subset by Theorem 4, at the paper's sigma and sensitivity."""
    printed = published("2")["delta_prime_1e-4"]
    cells = [
        _delta_cell(row, row.printed(printed), delta_prime(row), row.scheme().eta * DELTA)
        for row in ROWS
    ]
    return Table(
        "table-2-delta",
        "Table 2: delta' of one statistic of one subset",
        tuple(cells),
        "paper",
        "Theorem 4 with the group profiles of the Gaussian mechanism, sigma and sensitivity as in "
        "the paper: no guarantee, since the sensitivity on m records is n/m times as large.",
    )


def delta_prime(row: Row) -> float:
    """Theorem 4's delta' at the paper's sigma, with the sensitivity that sigma was computed for."""
    return theorem_delta(row.scheme(), EPSILON_PRIME, DELTA, noise_for=1.0, sensitivity=1.0)


def _delta_cell(row: Row, digits: float, ours: float, bound: float) -> Cell:
    """``digits`` are printed in units of 1e-4, to one digit after the point or to none."""
    paper = digits * _UNIT
    half = _UNIT * (0.5 if digits == round(digits) else 0.05)
    power = round(math.log10(paper / ours))
    reason = ""
    if abs(bound - paper) <= half:
        reason = (
            f"printed is eta times delta, {bound:.2e}; the rows of MUST print the sum of Theorem "
            f"4, which is {ours:.2e} here"
        )
    elif power and abs(10.0**power * ours - paper) <= half:
        reason = f"printed is {10.0**power:g} times what the same formula gives: {ours:.3g}"
    return judge(row.label, "delta'", paper, ours, half_unit=half, reason=reason)


def table_3(runs: Found, beyond: int) -> Table:
    """Mean and standard deviation over data sets of the averaged mean and variance."""
    printed = published("3")
    cells: list[Cell] = []
    for row, found in runs.items():
        for k, name in enumerate((_MEAN, _VARIANCE)):
            paper = row.printed(printed[f"mean_sd_{name}"])
            half = 0.00005 if name == _MEAN else 0.0005
            cells += _moments(row, name, paper, found.values[:, k], half)
        if found.design.repeated_pairs > 0:
            corrected = found.corrected[:, 1]
            cells += _moments(row, f"{_VARIANCE}, corrected", (None, None), corrected, 0.0)
    count = next(iter(runs.values())).count
    values = "value" if beyond == 1 else "values"
    return Table(
        "table-3",
        "Table 3: mean and standard deviation of the averaged mean and variance over data sets",
        tuple(cells),
        "paper",
        f"{count} data sets ({SETS} in the paper), the same for all rows. The paper does not "
        f"clip; here data are always clipped to the stated bounds, which changed {beyond} {values} "
        f"of {count * N}. Non-private: with the noise of epsilon' = 100, about a thousandth of the "
        "data's spread. Corrected: the variance over the chance that two places of a subset "
        "hold different records, which the bootstrap does unless it is told not to."
        + _left_out(runs),
    )


def _moments(
    row: Row, name: str, printed: Sequence[float | None], values: FloatArray, half_unit: float
) -> list[Cell]:
    columns = f"mean of {name}", f"sd of {name}"
    return moment_cells(row.label, columns, printed, values, half_unit=half_unit, sets=SETS, lost=1)


def bias_table(runs: Found) -> Table:
    """How much smaller a variance is than WOR's, on the same data sets; and what is expected."""
    printed = published("3")[f"mean_sd_{_VARIANCE}"]
    whole, unit = runs[Row("WOR")].values[:, 1], printed["WOR"][0]
    cells: list[Cell] = []
    for row in private_rows(runs):
        found = runs[row]
        if found.design.repeated_pairs == 0:
            continue
        paper = row.printed(printed)[0] / unit
        rounding = 0.0005 * (1.0 + paper) / unit
        ratio, error = _ratio(found.values[:, 1], whole)
        theirs = error * math.sqrt(found.count / SETS)
        cells.append(
            judge(row.label, "variance over WOR's", paper, ratio, half_unit=rounding, error=error,
                  paper_error=theirs)
        )  # fmt: skip
        cells.append(
            judge(row.label, "expected: chance of different records", paper,
                  1.0 - found.design.repeated_pairs, half_unit=rounding, paper_error=theirs)
        )  # fmt: skip
    means = [row.printed(published("3")[f"mean_sd_{_MEAN}"]) for row in ROWS]
    return Table(
        "table-3-bias",
        "Table 3: the bias of variances with repeated records",
        tuple(cells),
        "paper",
        "Two places of a subset hold the same record with some chance, and such pairs have no "
        "spread. Data sets cancel in these ratios. The paper's error is taken to be that of our "
        "ratio: its rows seem to share their data sets as well, since the means it prints scatter "
        f"by {np.std([mean for mean, _ in means], ddof=1):.4f}, and would by "
        f"{np.mean([deviation for _, deviation in means]) / math.sqrt(SETS):.4f} otherwise.",
    )


def _ratio(values: FloatArray, reference: FloatArray) -> tuple[float, float]:
    """Ratio of two means over the same data sets, and its standard error."""
    ratio = float(values.mean() / reference.mean())
    residuals = values - ratio * reference
    return ratio, float(residuals.std(ddof=1) / math.sqrt(values.size) / reference.mean())


def private_rows(runs: Found) -> list[Row]:
    """The rows of the paper that were run, without the non-private one."""
    return [row for row in ROWS if row in runs]


def _left_out(runs: Found) -> str:
    """Words for a note, if rows were left out."""
    missing = [row.label for row in ROWS if row not in runs]
    return f" Quick: without {'; '.join(missing)}." if missing else ""
