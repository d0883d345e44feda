"""Tables 2 and 3 of the paper: the subsampled bootstrap, judged cell by cell.

What is known about the printed numbers: sigma follows from the classical formula with the
sensitivity of all n records; delta' of Poisson and WOR is eta times delta where the other rows have
the group profiles of Theorem 4, and that of WR is ten times too large; and the variances of WR and
MUST are too small, because a pair of copies of one record counts as a pair without spread.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from mustdp.amplification.one_slope import amplified_delta, base_epsilon
from mustdp.experiments.bootstrap_equal import (
    LARGER,
    PAPERS,
    compare_all,
    equal_reading,
    equal_table,
)
from mustdp.experiments.bootstrap_guarantee import (
    SMALL_DELTA,
    STATISTICS,
    Guarantee,
    certify_runs,
    guarantee_reading,
    guarantee_table,
)
from mustdp.experiments.bootstrap_runs import (
    DELTA,
    EPSILON_PRIME,
    NON_PRIVATE,
    ROWS,
    UPPER,
    M,
    N,
    Row,
    Runs,
    T,
    data_sets,
    paper_job,
    paper_sigmas,
    rows_at,
    simulate,
)
from mustdp.experiments.cells import Cell, Outcome, Settings, Table, judge
from mustdp.experiments.item import Item, Report
from mustdp.experiments.parallel import spread
from mustdp.experiments.published import published
from mustdp.mechanisms.gaussian_sigma import classical_sigma
from mustdp.mechanisms.mechanism import gaussian
from mustdp.numerics.arrays import FloatArray

#: Data sets in the paper and here, and in quick mode.
_SETS, _QUICK_SETS = 200, 20
#: The unit in which Table 2 prints delta'.
_UNIT = 1e-4
_MEAN, _VARIANCE = "mu", "tau2"


def run(settings: Settings, report: Report) -> Outcome:
    """Everything of the experiment."""
    count = _QUICK_SETS if settings.quick else _SETS
    rows = rows_at(settings.quick)
    begun = time.perf_counter()
    runs = simulate_rows((Row(NON_PRIVATE), *rows), count, settings, report)
    clock = time.perf_counter() - begun
    private = [runs[row.label] for row in rows]
    more = () if settings.quick else (SMALL_DELTA,)
    really = certify_runs(private, more, settings.workers, report)
    compared = compare_all(settings, count, report)
    equal = [equal_table(sizes, compared, settings) for sizes in (PAPERS, LARGER)]
    beyond = int(np.sum(np.abs(data_sets(N, count, settings.seed)) > UPPER))
    return Outcome(
        (
            table_2(runs),
            delta_table(),
            table_3(runs, beyond),
            bias_table(runs),
            guarantee_table(really),
            *equal,
        ),
        reading=(
            *_reading(runs, really, clock, settings.workers),
            *equal_reading(compared, equal),
        ),
    )


def simulate_rows(
    rows: Sequence[Row], count: int, settings: Settings, report: Report
) -> dict[str, Runs]:
    """Run rows of Table 3 with the paper's noise; the last rows take longest and go first."""
    jobs = [paper_job(row, count, settings.seed, k) for k, row in enumerate(rows)]
    found = spread(simulate, jobs[::-1], workers=settings.workers, report=report, what="Table 3")
    return {each.row: each for each in found[::-1]}


def table_2(runs: Mapping[str, Runs]) -> Table:
    """Sigma of both statistics, as the bootstrap added it."""
    printed = published("2")
    cells: list[Cell] = []
    for row in _private(runs):
        sigmas = paper_sigmas(runs[row.label].privacy)
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
    scheme = row.scheme()
    base = base_epsilon(EPSILON_PRIME, scheme.eta)
    shift = 1.0 / classical_sigma(float(base[0]), DELTA, 1.0, beyond_proof=True)
    profiles = gaussian(shift=shift).profiles(shift)
    return float(amplified_delta(scheme.law(), profiles, base)[0])


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


def table_3(runs: Mapping[str, Runs], beyond: int) -> Table:
    """Mean and standard deviation over data sets of the averaged mean and variance."""
    printed = published("3")
    cells: list[Cell] = []
    for label, found in runs.items():
        row = _row_of(label)
        for k, name in enumerate((_MEAN, _VARIANCE)):
            paper = row.printed(printed[f"mean_sd_{name}"])
            half = 0.00005 if name == _MEAN else 0.0005
            cells += _moments(label, name, paper, found.values[:, k], half)
        if found.design.repeated_pairs > 0:
            corrected = found.corrected[:, 1]
            cells += _moments(label, f"{_VARIANCE}, corrected", (None, None), corrected, 0.0)
    count = next(iter(runs.values())).count
    values = "value" if beyond == 1 else "values"
    return Table(
        "table-3",
        "Table 3: mean and standard deviation of the averaged mean and variance over data sets",
        tuple(cells),
        "paper",
        f"{count} data sets ({_SETS} in the paper), the same for all rows. The paper does not "
        f"clip; here data are always clipped to the stated bounds, which changed {beyond} {values} "
        f"of {count * N}. Non-private: with the noise of epsilon' = 100, about a thousandth of the "
        "data's spread. Corrected: the variance over the chance that two places of a subset "
        "hold different records, which the bootstrap does unless it is told not to."
        + _left_out(runs),
    )


def _moments(
    row: str,
    name: str,
    paper: Sequence[float] | tuple[None, None],
    values: FloatArray,
    half_unit: float,
) -> list[Cell]:
    mean, deviation = paper
    ours, count = float(values.std(ddof=1)), values.size
    return [
        judge(
            row, f"mean of {name}", mean, float(values.mean()), half_unit=half_unit,
            error=ours / math.sqrt(count), paper_error=(deviation or 0.0) / math.sqrt(_SETS),
        ),
        judge(
            row, f"sd of {name}", deviation, ours, half_unit=0.0005,
            error=ours / math.sqrt(2 * (count - 1)),
            paper_error=(deviation or 0.0) / math.sqrt(2 * (_SETS - 1)),
        ),
    ]  # fmt: skip


def bias_table(runs: Mapping[str, Runs]) -> Table:
    """How much smaller a variance is than WOR's, on the same data sets; and what is expected."""
    printed = published("3")[f"mean_sd_{_VARIANCE}"]
    whole, unit = runs["WOR"].values[:, 1], printed["WOR"][0]
    cells: list[Cell] = []
    for row in _private(runs):
        found = runs[row.label]
        if found.design.repeated_pairs == 0:
            continue
        paper = row.printed(printed)[0] / unit
        rounding = 0.0005 * (1.0 + paper) / unit
        ratio, error = _ratio(found.values[:, 1], whole)
        theirs = error * math.sqrt(found.count / _SETS)
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
        f"{np.mean([deviation for _, deviation in means]) / math.sqrt(_SETS):.4f} otherwise.",
    )


def _ratio(values: FloatArray, reference: FloatArray) -> tuple[float, float]:
    """Ratio of two means over the same data sets, and its standard error."""
    ratio = float(values.mean() / reference.mean())
    residuals = values - ratio * reference
    return ratio, float(residuals.std(ddof=1) / math.sqrt(values.size) / reference.mean())


def _private(runs: Mapping[str, Runs]) -> list[Row]:
    """The rows of the paper that were run, without the non-private one."""
    return [row for row in ROWS if row.label in runs]


def _left_out(runs: Mapping[str, Runs]) -> str:
    """Words for a note, if rows were left out."""
    missing = [row.label for row in ROWS if row.label not in runs]
    return f" Quick: without {'; '.join(missing)}." if missing else ""


def _row_of(label: str) -> Row:
    return next(row for row in (Row(NON_PRIVATE), *ROWS) if row.label == label)


def _reading(
    runs: Mapping[str, Runs], really: Sequence[Guarantee], clock: float, workers: int
) -> list[str]:
    deltas = {row.label: STATISTICS * T * delta_prime(row) for row in ROWS}
    vacuous = max(deltas, key=lambda label: deltas[label])
    low = min(_private(runs), key=lambda row: float(runs[row.label].values[:, 1].mean()))
    found = runs[low.label]
    processor = sum(each.processor_seconds for each in runs.values())
    return [
        f"Table 3 is {len(runs)} rows of {found.count} data sets with {T} subsets each; it took "
        f"{processor:.0f} s of processor time and {clock:.0f} s by the clock with {workers} "
        f"process{'es' if workers > 1 else ''}, each row's certified bounds included.",
        f"Repeated records make variances too small: with {low.label} the average is "
        f"{found.values[:, 1].mean():.3f}, and {found.corrected[:, 1].mean():.3f} (standard error "
        f"{found.corrected[:, 1].std(ddof=1) / math.sqrt(found.count):.3f}) with the correction.",
        *guarantee_reading(really, N / M),
        "The smaller sigma of MUST in Table 2 is bought with delta': added up over all releases "
        f"it comes to {deltas['WR']:.2g} for WR and to {deltas[vacuous]:.2g} for {vacuous}, and a "
        "delta of 1 or more promises nothing.",
    ]


ITEM = Item("tables-2-3", "Tables 2 and 3: the subsampled bootstrap", run)
