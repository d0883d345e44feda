"""Experiment 1 at the same certified guarantee for all schemes: noise, records, time, errors.

The paper's own sizes (n = 300) leave little room for privacy, so a second setting with more records
stands beside them. The variance is read off two moments, as the bootstrap does by default; Poisson
subsets are divided by their expected size, which has a sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.experiments.bootstrap.runs import (
    TRUTH,
    Job,
    M,
    N,
    Row,
    Runs,
    T,
    data_sets,
    simulate,
)
from mustdp.experiments.comparison.equal_guarantee import EPSILONS
from mustdp.experiments.frame.cells import Cell, Settings, Table
from mustdp.experiments.frame.items import Report
from mustdp.experiments.frame.parallel import spread
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.decimals import readable
from mustdp.resampling.designs import Design

DELTA = 1e-5
_NAMES = ("mean", "variance")
_REFERENCE = "all records, no noise"


@dataclass(frozen=True)
class Sizes:
    """A setting: records, entries of a subset, number of subsets, the schemes compared."""

    n: int
    m: int
    replicates: int
    rows: tuple[Row, ...]

    @property
    def words(self) -> str:
        """For titles."""
        return f"n = {self.n}, m = {self.m}, T = {self.replicates}"


_ONE_STAGE = (Row("Poisson"), Row("WOR"), Row("WR"))
PAPERS = Sizes(
    N, M, T, (*_ONE_STAGE, *(Row(name, b) for name in ("MUSTow", "MUSTww") for b in (10, 50, 100)))
)
LARGER = Sizes(10_000, 200, 100, (*_ONE_STAGE, Row("MUSTow", 400), Row("MUSTww", 400)))


@dataclass(frozen=True)
class Compared:
    """One scheme at one epsilon."""

    sizes: Sizes
    scheme: Row
    epsilon: float
    runs: Runs

    @property
    def errors(self) -> FloatArray:
        """Estimates minus the truth, (R, 2)."""
        return np.asarray(self.runs.values - np.array(TRUTH))

    @property
    def covered(self) -> FloatArray:
        """Whether each interval holds the truth, (R, 2), as 0 and 1."""
        low, high = self.runs.ends[..., 0], self.runs.ends[..., 1]
        inside = (low <= np.array(TRUTH)) & (np.array(TRUTH) <= high)
        return np.asarray(inside, dtype=np.float64)


def compare_all(settings: Settings, count: int, report: Report) -> list[Compared]:
    """Run every scheme of both settings; quick runs take one epsilon and leave MUSTww out."""
    cases = [
        (sizes, row, epsilon)
        for sizes in (PAPERS, LARGER)
        for epsilon in (EPSILONS[-1:] if settings.quick else EPSILONS)
        for row in sizes.rows
        if not (settings.quick and row.name == "MUSTww")
    ]
    jobs = [
        Job(
            row.label, Design(row.scheme(sizes.n, sizes.m), sizes.replicates),
            ("epsilon", epsilon), DELTA, _NAMES, True, count, settings.seed, 1000 + k,
        )
        for k, (sizes, row, epsilon) in enumerate(cases)
    ]  # fmt: skip
    found = spread(
        simulate, jobs[::-1], workers=settings.workers, report=report, what="equal guarantee"
    )
    return [
        Compared(*case, checked(runs, case[2]))
        for case, runs in zip(cases, found[::-1], strict=True)
    ]


def checked(runs: Runs, epsilon: float) -> Runs:
    """The runs, if what they cost is certified to be within epsilon."""
    bounds = runs.privacy.epsilon
    if bounds is None or not bounds.upper <= epsilon:
        raise NumericalFailure(f"{runs.row}: epsilon {epsilon:g} is not certified, got {bounds}")
    return runs


def equal_table(sizes: Sizes, found: Sequence[Compared], settings: Settings) -> Table:
    """One row per scheme and epsilon, and the statistics of all records beside them."""
    rows = [each for each in found if each.sizes == sizes]
    cells = [cell for each in rows for cell in _cells(each)]
    records = data_sets(sizes.n, rows[0].runs.count, settings.seed)
    plain = np.column_stack([records.mean(axis=1), records.var(axis=1, ddof=1)]) - np.array(TRUTH)
    for k, name in enumerate(_NAMES):
        cells.append(Cell(_REFERENCE, f"RMSE of the {name}", None, *rmse(plain[:, k])))
    quick = " Quick: one epsilon, without MUSTww." if settings.quick else ""
    return Table(
        f"tables-2-3-equal-{sizes.n}",
        f"Bootstrap: all schemes at the same certified guarantee, {sizes.words}",
        tuple(cells),
        "equal",
        f"Mean and variance of all subsets together; delta = {DELTA:g}; relation replace_one. "
        f"{rows[0].runs.count} data sets, the same for all schemes. Intervals are meant to cover "
        "95 %. Drowned: the noise hides the variation of the replicates, and the interval errs on "
        f"the safe side. Times are processor times of one core.{quick}",
    )


def _cells(each: Compared) -> list[Cell]:
    row, runs = f"{each.scheme.label}, epsilon {each.epsilon:g}", each.runs
    bounds = runs.privacy.epsilon
    cells = [
        Cell(row, "noise multiplier z", None, runs.privacy.noise_multiplier),
        Cell(row, "epsilon certified", None, None if bounds is None else bounds.upper),
        Cell(row, "distinct records per subset", None, runs.design.scheme.expected_distinct),
        Cell(row, "microseconds per replicate", None, 1e6 * runs.seconds_per_replicate),
    ]
    for k, name in enumerate(_NAMES):
        covered = each.covered[:, k]
        width = runs.ends[:, k, 1] - runs.ends[:, k, 0]
        # One success and one failure more, so that 100 % has an error as well.
        share = (covered.sum() + 1.0) / (covered.size + 2.0)
        error = math.sqrt(share * (1.0 - share) / covered.size)
        cells += [
            Cell(row, f"RMSE of the {name}", None, *rmse(each.errors[:, k])),
            Cell(row, f"coverage of the {name}, %", None, 100.0 * float(covered.mean()),
                 100.0 * error),
            Cell(row, f"width for the {name}", None, float(width.mean()),
                 float(width.std(ddof=1)) / math.sqrt(width.size)),
        ]  # fmt: skip
    cells.append(Cell(row, "drowned, %", None, 100.0 * runs.drowned))
    return cells


def rmse(deviations: FloatArray) -> tuple[float, float]:
    """Root mean square and its standard error."""
    squares = deviations**2
    root = math.sqrt(float(squares.mean()))
    return root, float(squares.std(ddof=1)) / math.sqrt(squares.size) / (2.0 * root)


def equal_reading(found: Sequence[Compared], tables: Sequence[Table]) -> list[str]:
    """In words, for every setting and epsilon: noise, errors, and how MUST compares."""
    lines = []
    for sizes, table in zip((PAPERS, LARGER), tables, strict=True):
        plain = {cell.column: cell.ours or 0.0 for cell in table.cells if cell.row == _REFERENCE}
        for epsilon in dict.fromkeys(each.epsilon for each in found):
            rows = [each for each in found if each.sizes == sizes and each.epsilon == epsilon]
            lines += _sentences(sizes, epsilon, rows, plain)
    return lines


def _sentences(
    sizes: Sizes, epsilon: float, rows: Sequence[Compared], plain: dict[str, float]
) -> list[str]:
    noise = ", ".join(
        f"{each.scheme.label} {readable(each.runs.privacy.noise_multiplier, 'up')}" for each in rows
    )
    drowned = [each.runs.drowned for each in rows]
    lines = [
        f"At {sizes.words}, a certified epsilon of {epsilon:g} at delta {DELTA:g} takes the noise "
        f"multipliers {noise}. The noise drowns the replicates on {min(drowned):.0%} to "
        f"{max(drowned):.0%} of the data sets, depending on the scheme."
    ]
    for k, name in enumerate(_NAMES):
        errors = {each.scheme.label: rmse(each.errors[:, k]) for each in rows}
        order = sorted(errors, key=lambda label: errors[label][0])
        best, worst = order[0], order[-1]
        must = next(label for label in order if label.startswith("MUST"))
        other = next(label for label in order if not label.startswith("MUST"))
        gap = errors[must][0] - errors[other][0]
        clear = abs(gap) > 3.0 * math.hypot(errors[must][1], errors[other][1])
        verdict = "no clear difference between the two kinds"
        if clear:
            verdict = f"{must if gap < 0 else other} is clearly better"
        low = min(rows, key=lambda each: float(each.covered[:, k].mean()))
        lines.append(
            f"There the {name} has a root mean square error of {errors[best][0]:.3g} ({best}) to "
            f"{errors[worst][0]:.3g} ({worst}); all records without noise give "
            f"{plain[f'RMSE of the {name}']:.3g}. Best with two stages: {must}, "
            f"{errors[must][0]:.3g}; best with one: {other}, {errors[other][0]:.3g}; {verdict}. "
            f"The lowest coverage is {low.covered[:, k].mean():.0%} ({low.scheme.label})."
        )
    return lines
