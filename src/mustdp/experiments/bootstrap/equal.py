"""Experiment 1 at the same certified guarantee for all schemes: noise, records, time, errors.

The paper's own sizes (n = 300) leave little room for privacy, so a second setting with more records
stands beside them. The variance is read off two moments, as the bootstrap does by default; Poisson
subsets are divided by their expected size, which has a sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.accounting.bounds import Bounds
from mustdp.errors import NumericalFailure
from mustdp.experiments.bootstrap.runs import (
    TRUTH,
    M,
    N,
    Release,
    Released,
    Row,
    T,
    data_sets,
    release_all,
)
from mustdp.experiments.comparison.equal_guarantee import (
    COMPOSED,
    DELTA,
    epsilons_at,
    equal_cells,
    measured_cells,
)
from mustdp.experiments.comparison.measured import Measured, mean_of, root_mean
from mustdp.experiments.frame.cells import Cell, Table
from mustdp.experiments.frame.items import Settings
from mustdp.experiments.frame.parallel import spread
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.decimals import readable
from mustdp.progress import Progress
from mustdp.resampling.designs import Design

_NAMES = ("mean", "variance")


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


#: What was released, by setting, epsilon and row.
Compared = Mapping[tuple[Sizes, float, Row], Released]


def compare_all(settings: Settings, count: int, progress: Progress) -> Compared:
    """Run every scheme of both settings; quick runs take one epsilon and leave MUSTww out."""
    keys = [
        (sizes, epsilon, row)
        for sizes in (PAPERS, LARGER)
        for epsilon in epsilons_at(settings.quick)
        for row in sizes.rows
        if not (settings.quick and row.name == "MUSTww")
    ]
    jobs = [
        Release(
            row, Design(row.scheme(sizes.n, sizes.m), sizes.replicates),
            ("epsilon", epsilon), DELTA, _NAMES, True, count, settings.seed, 1000 + k,
        )
        for k, (sizes, epsilon, row) in enumerate(keys)
    ]  # fmt: skip
    found = spread(release_all, jobs, workers=settings.workers, progress=progress,
                   what="equal guarantee", last_first=True)  # fmt: skip
    return dict(zip(keys, found, strict=True))


def certified(runs: Released, epsilon: float) -> Bounds:
    """What the runs cost, if that is certified to be within epsilon."""
    bounds = runs.privacy.epsilon
    if not bounds.upper <= epsilon:
        raise NumericalFailure(
            f"{runs.row.label}: epsilon {epsilon:g} is not certified, got {bounds}"
        )
    return bounds


def plain_measures(sizes: Sizes, count: int, seed: int) -> list[Measured]:
    """Errors of the statistics of all records, without noise."""
    records = data_sets(sizes.n, count, seed)
    plain = np.column_stack([records.mean(axis=1), records.var(axis=1, ddof=1)]) - np.array(TRUTH)
    return [_rmse(name, plain[:, k]) for k, name in enumerate(_NAMES)]


def table_at(sizes: Sizes, found: Compared, plain: Sequence[Measured], quick: bool) -> Table:
    """One row per scheme and epsilon, and the statistics of all records beside them."""
    rows = [(runs, epsilon) for (of, epsilon, _), runs in found.items() if of == sizes]
    cells = [cell for each in rows for cell in _cells(*each)]
    left = " Quick: one epsilon, without MUSTww." if quick else ""
    return Table(
        f"tables-2-3-equal-{sizes.n}",
        f"Bootstrap: all schemes at the same certified guarantee, {sizes.words}",
        (*cells, *measured_cells("all records, no noise", plain)),
        "equal",
        f"Mean and variance of all subsets together; delta = {DELTA:g}; relation replace_one. "
        f"{rows[0][0].count} data sets, the same for all schemes. Intervals are meant to cover "
        "95 %. Drowned: the noise hides the variation of the replicates, and the interval errs on "
        f"the safe side. Times are processor times of one core. {COMPOSED}{left}",
    )


def _cells(runs: Released, epsilon: float) -> list[Cell]:
    bounds = certified(runs, epsilon)
    measures = [Measured("microseconds per replicate", 1e6 * runs.seconds_per_replicate)]
    for k, name in enumerate(_NAMES):
        covered = runs.covered[:, k]
        # One success and one failure more, so that 100 % has an error as well.
        share = (covered.sum() + 1.0) / (covered.size + 2.0)
        error = math.sqrt(share * (1.0 - share) / covered.size)
        measures += [
            _rmse(name, runs.errors[:, k]),
            Measured(f"coverage of the {name}, %", 100.0 * float(covered.mean()), 100.0 * error),
            mean_of(f"width for the {name}", runs.ends[:, k, 1] - runs.ends[:, k, 0]),
        ]
    measures.append(Measured("drowned, %", 100.0 * runs.drowned))
    return equal_cells(
        f"{runs.row.label}, epsilon {epsilon:g}", runs.privacy.noise_multiplier, bounds,
        runs.design.scheme, measures, batch="subset",
    )  # fmt: skip


def _rmse(name: str, deviations: FloatArray) -> Measured:
    """Root mean square and its standard error."""
    root, error = root_mean(deviations**2)
    return Measured(f"RMSE of the {name}", float(root), float(error))


def equal_reading(found: Compared, plain: Mapping[Sizes, Sequence[Measured]]) -> list[str]:
    """In words, for every setting and epsilon: noise, errors, and how MUST compares."""
    lines = []
    for sizes, measures in plain.items():
        for epsilon in dict.fromkeys(epsilon for _, epsilon, _ in found):
            rows = [runs for key, runs in found.items() if key[:2] == (sizes, epsilon)]
            lines += _sentences(sizes, epsilon, rows, measures)
    return lines


def _sentences(
    sizes: Sizes, epsilon: float, rows: Sequence[Released], plain: Sequence[Measured]
) -> list[str]:
    noise = ", ".join(
        f"{each.row.label} {readable(each.privacy.noise_multiplier, 'up')}" for each in rows
    )
    drowned = [each.drowned for each in rows]
    lines = [
        f"At {sizes.words}, a certified epsilon of {epsilon:g} at delta {DELTA:g} takes the noise "
        f"multipliers {noise}. The noise drowns the replicates on {min(drowned):.0%} to "
        f"{max(drowned):.0%} of the data sets, depending on the scheme."
    ]
    for k, name in enumerate(_NAMES):
        errors = {each.row: _rmse(name, each.errors[:, k]) for each in rows}
        order = sorted(errors, key=lambda row: errors[row].value)
        best, worst = order[0], order[-1]
        must = next(row for row in order if row.two_stages)
        other = next(row for row in order if not row.two_stages)
        gap = errors[must].value - errors[other].value
        verdict = "no clear difference between the two kinds"
        if abs(gap) > 3.0 * math.hypot(errors[must].error or 0.0, errors[other].error or 0.0):
            verdict = f"{(must if gap < 0 else other).label} is clearly better"
        low = min(rows, key=lambda each: float(each.covered[:, k].mean()))
        lines.append(
            f"There the {name} has a root mean square error of {errors[best].value:.3g} "
            f"({best.label}) to {errors[worst].value:.3g} ({worst.label}); all records without "
            f"noise give {plain[k].value:.3g}. Best with two stages: {must.label}, "
            f"{errors[must].value:.3g}; best with one: {other.label}, {errors[other].value:.3g}; "
            f"{verdict}. The lowest coverage is {low.covered[:, k].mean():.0%} "
            f"({low.row.label})."
        )
    return lines
