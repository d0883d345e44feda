"""The subsampled bootstrap: Tables 2 and 3 of the paper, also at equal guarantee."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import subsample
from mustdp.calibration.budget import PrivacySpent, certified_epsilon
from mustdp.errors import NotCovered, NumericalFailure
from mustdp.estimation.bootstrap import Execution, private_bootstrap
from mustdp.estimation.designs import Design
from mustdp.estimation.queries import Halves, JointQuery, Query, QueryBlock
from mustdp.estimation.result import BootstrapResult, InferenceNote
from mustdp.estimation.schema import Shape, SubsetSchema
from mustdp.estimation.statistics.moments import Mean, Variance
from mustdp.estimation.statistics.statistic import Statistic
from mustdp.mechanisms.mechanism import gaussian
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.formatting import readable
from mustdp.progress import Progress
from mustdp.randomness.keys import SeededRelease
from mustdp.reproduction.budgets import RELATION, PaperStatement, theorem_delta
from mustdp.reproduction.cells import (
    NON_PRIVATE,
    Item,
    ItemOutcome,
    PaperCell,
    PaperTable,
    Settings,
    judge,
    published,
    scheme_called,
)
from mustdp.reproduction.guarantees import (
    COMPOSED,
    DELTA,
    NOTHING,
    Guarantee,
    epsilons_at,
    equal_cells,
    guarantee_table,
    lower_of,
    measured_cells,
)
from mustdp.reproduction.runner import run_jobs
from mustdp.reproduction.simulation import RunMeasure, mean_of, moment_cells, root_mean
from mustdp.sampling.schemes import Scheme

# Statistics of Poisson subsets divided by their actual size, as the MUST paper computes them.
#
# The size of a Poisson subset is random and depends on the records, so that no sensitivity of this
# query is known: what is released this way has no guarantee, and its result says so.


@dataclass(frozen=True)
class ByActualSize(Statistic):
    """A statistic that divides Poisson subsets by their actual size; the bound on it is a guess."""

    statistic: Statistic
    columns: tuple[str | int, ...] | None = field(default=None, init=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of the statistic itself."""
        return self.statistic.name

    def shape(self, poisson: bool) -> Shape:
        """Nothing is known of it."""
        return Shape(in_a_ball=False)

    def _on(self, public: SubsetSchema) -> Query:
        return OfActualSize(self.statistic, public)


@dataclass(frozen=True)
class OfActualSize(Query):
    """A statistic on whatever size was drawn; the radius is that of the expected size."""

    statistic: Statistic
    public: SubsetSchema
    blocks: tuple[QueryBlock, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        typical = self.reader
        if typical.halved:
            raise NotCovered(
                "function must be stated to be an average, with average=True, where subsets are "
                "divided by a random size"
            )
        blocks = tuple(replace(block, divisor=1.0, shift=0.0) for block in typical.blocks)
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "labels", typical.labels)

    @property
    def reader(self) -> Query:
        """The same on subsets of a fixed size, the expected one."""
        return _bound(self.statistic, self.public, round(self.public.size))

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The statistic of the subset as it is; a subset too small for it is a failure."""
        drawn = int(counts.sum())
        if drawn < 2:
            raise NumericalFailure("a Poisson subset of fewer than two records was drawn")
        return _bound(self.statistic, self.public, drawn).evaluate(values, counts)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """As on subsets of a fixed size."""
        return self.reader.estimate(vectors)


@lru_cache(maxsize=4096)
def _bound(statistic: Statistic, public: SubsetSchema, size: int) -> Query:
    return statistic.query(public.fixed(size))


#: Where the noise of the paper's releases comes from.
PAPER = "per-query epsilon' of the MUST paper with the sensitivity of n records: not a guarantee"


def paper_statement(design: Design, epsilon_prime: float, queries: int = 1) -> PaperStatement:
    """The paper's noise for the epsilon' of one query on one subset.

    [Z] experiment 1 takes the sensitivity of a statistic of all n records where the subset has m:
    with D the sensitivity on m records the formula is given D m / n, and half of D is what one
    record contributes, z = sigma / (D / 2). ``queries`` that are released together share it.
    """
    return PaperStatement(epsilon_prime, design.size / design.n, 2.0 / math.sqrt(queries))


# Experiment 1 of the paper, simulated: means and variances of noisy subsamples.
#
# [Z] = Zhao, Zhou & Liu, arXiv 2312.13389: 200 data sets of n = 300 records from N(0, 1); T = 500
# subsets of m = 30; the sample mean and the sample variance of every subset are released with
# Gaussian noise and averaged. Every release here is one call of ``private_bootstrap``. All rows of
# a table see the same data sets, so that they can be compared with less noise.


#: Records, size of a subset, subsets.
N, M, T = 300, 30, 500
#: Sizes of the first stage.
SIZES = (10, 20, 30, 50, 100)
#: Bounds that are public: next to nothing of N(0, 1) is outside.
LOWER, UPPER = -4.0, 4.0
EPSILON_PRIME, PAPER_DELTA = 0.1, 1 / N
#: Mean and variance of the law that the records come from.
TRUTH = (0.0, 1.0)
#: What the paper releases: the sample variance of every subset, copies counted as they are drawn.
PAPER_STATISTICS: tuple[Statistic, ...] = (Mean(squares=False), Variance(form="pairs"))
#: The largest epsilon' there is: noise of a thousandth of the data's own spread.
_NO_NOISE = 100.0


@dataclass(frozen=True)
class Row:
    """A row of Tables 2 and 3: a scheme of the paper, with its first stage if it has one."""

    name: str
    b: int | None = None

    @property
    def label(self) -> str:
        """The title of the row."""
        return self.name if self.b is None else f"{self.name}, b = {self.b}"

    @property
    def two_stages(self) -> bool:
        """Whether the scheme has a first stage."""
        return self.b is not None

    def scheme(self, n: int = N, m: int = M) -> Scheme:
        """The scheme of this row."""
        name = "Poisson" if self.name == NON_PRIVATE else self.name
        return scheme_called(name, n, self.b or 0, m)

    def printed(self, entries: dict[str, Any]) -> Any:
        """What the paper prints in this row, in one of its columns."""
        found = entries[self.name]
        return found if self.b is None else found[SIZES.index(self.b)]


#: The private rows of Tables 2 and 3, in the paper's order.
ROWS = (
    *(Row(name) for name in ("Poisson", "WOR", "WR")),
    *(Row(name, b) for name in ("MUSTow", "MUSTww") for b in SIZES),
)


def rows_at(quick: bool) -> tuple[Row, ...]:
    """The private rows that are run; quick runs take two sizes of the first stage."""
    return tuple(row for row in ROWS if not quick or row.b in (None, 10, 50))


@dataclass(frozen=True)
class Release:
    """One row on the first ``data_sets`` data sets of a seed; ``stream`` sets its draws apart.

    ``noise`` names one of the ways in which ``private_bootstrap`` takes its noise, and its value.
    """

    row: Row
    design: Design
    noise: tuple[str, float]
    delta: float
    statistics: tuple[str | Statistic, ...]
    correct_bias: bool
    data_sets: int
    seed: int
    stream: int

    def on(self, data_set: int) -> BootstrapResult:
        """The private bootstrap on one data set."""
        name, value = self.noise
        records = data_sets(self.design.n, self.data_sets, self.seed)[data_set]
        noise: dict[str, Any] = {name: value}
        found = private_bootstrap(
            records, self.statistics, lower=LOWER, upper=UPPER, design=self.design,
            delta=self.delta, relation=RELATION, correct_bias=self.correct_bias,
            execution=Execution(workers=1),
            seed=np.random.default_rng((self.seed, 1, self.stream, data_set)), **noise,
        )  # fmt: skip
        if any(isinstance(statistic, ByActualSize) for statistic in self.statistics):
            return replace(found, privacy=without_guarantee(found.privacy))
        return found


@dataclass(frozen=True)
class Released:
    """What a row gave: estimates (R, 2), ends of their intervals (R, 2, 2), cost, times."""

    row: Row
    design: Design
    privacy: PrivacySpent
    values: FloatArray
    ends: FloatArray
    drowned: float  # share of the data sets on which the noise drowns the replicates
    seconds_per_replicate: float
    processor_seconds: float

    @property
    def count(self) -> int:
        """Number of data sets."""
        return len(self.values)

    @property
    def errors(self) -> FloatArray:
        """Estimates minus the truth, (R, 2)."""
        return np.asarray(self.values - np.array(TRUTH))

    @property
    def covered(self) -> FloatArray:
        """Whether each interval holds the truth, (R, 2), as 0 and 1."""
        inside = (self.ends[..., 0] <= np.array(TRUTH)) & (np.array(TRUTH) <= self.ends[..., 1])
        return np.asarray(inside, dtype=np.float64)

    @property
    def corrected(self) -> FloatArray:
        """Estimates with the bias of repeated pairs divided out of the variance.

        The same as ``correct_bias=True`` gives for a variance as an average over pairs.
        """
        return np.asarray(self.values / np.array([1.0, 1.0 - self.design.repeated_pairs]))


@lru_cache(maxsize=4)
def data_sets(n: int, count: int, seed: int) -> FloatArray:
    """Records (count, n) from N(0, 1); the first of a longer list are those of a shorter one."""
    return np.random.default_rng((seed, 0)).standard_normal((count, n))


def paper_release(row: Row, count: int, seed: int, stream: int) -> Release:
    """A row of Table 3: the paper's noise, and its variance with the bias left in."""
    prime = _NO_NOISE if row.name == NON_PRIVATE else EPSILON_PRIME
    design, statistics = Design(row.scheme(), T), PAPER_STATISTICS
    stated = paper_statement(design, prime, len(statistics))
    z = stated.multiplier(design.scheme, PAPER_DELTA)
    return Release(
        row, design, ("noise_multiplier", z), PAPER_DELTA,
        tuple(map(ByActualSize, statistics)) if design.poisson else statistics,
        False, count, seed, stream,
    )  # fmt: skip


def without_guarantee(privacy: PrivacySpent) -> PrivacySpent:
    """What is known of a release whose sensitivity is not: nothing."""
    return replace(privacy, epsilon=Bounds(0.0, math.inf), plan=None, source=PAPER)


def paper_sigmas(privacy: PrivacySpent) -> tuple[float, float]:
    """Deviation of the noise on the mean and on the variance of a subset, as it is added."""
    public = SubsetSchema((LOWER,), (UPPER,), M)
    queries = (Mean(squares=False).query(public), Variance(form="pairs").query(public))
    mean, variance = JointQuery(queries, ((0,), (0,))).blocks
    return privacy.noise_multiplier * mean.radius, privacy.noise_multiplier * variance.radius


def release_all(job: Release) -> Released:
    """Release on every data set."""
    begun = time.process_time()
    results, seconds = [], []
    with warnings.catch_warnings():
        # The data are simulated and no secret, so that a seed does no harm; what the notes
        # warn of is counted below.
        warnings.simplefilter("ignore", SeededRelease)
        warnings.simplefilter("ignore", InferenceNote)
        for k in range(job.data_sets):
            at = time.process_time()
            results.append(job.on(k))
            seconds.append(time.process_time() - at)
    drowned = [any(estimate.noise_dominated for estimate in one.estimates) for one in results]
    return Released(
        job.row, job.design, results[0].privacy,
        np.array([[estimate.value for estimate in one.estimates] for one in results]),
        np.array([[estimate.interval for estimate in one.estimates] for one in results]),
        float(np.mean(drowned)),
        # The first call also settles the noise; the median leaves that out.
        float(np.median(seconds)) / job.design.releases,
        time.process_time() - begun,
    )  # fmt: skip


# Tables 2 and 3 of the paper, judged cell by cell.
#
# What is known about the printed numbers: sigma follows from the classical formula with the
# sensitivity of all n records; delta' of Poisson and WOR is eta times delta where the other rows
# have the group profiles of Theorem 4, and that of WR is ten times too large; and the variances of
# WR and MUST are too small, because a pair of copies of one record counts as a pair without
# spread.


#: Data sets in the paper.
SETS = 200
#: The unit in which Table 2 prints delta'.
_UNIT = 1e-4
_MEAN, _VARIANCE = "mu", "tau2"

#: What was released, by the row it stands in.
Found = Mapping[Row, Released]


def table_2(runs: Found) -> PaperTable:
    """Sigma of both statistics, as the bootstrap added it."""
    printed = published("2")
    cells: list[PaperCell] = []
    for row in private_rows(runs):
        sigmas = paper_sigmas(runs[row].privacy)
        for name, sigma in zip(("mean", "variance"), sigmas, strict=True):
            paper = row.printed(printed[f"sigma_{name}"])
            cells.append(judge(row.label, f"sigma of the {name}", paper, sigma, half_unit=0.005))
    return PaperTable(
        "table-2",
        f"Table 2: sigma for epsilon' = {EPSILON_PRIME:g} of each statistic of a subset",
        tuple(cells),
        "paper",
        "The classical formula with the sensitivity of all n records, (U - L)/n and (U - L)^2/n. "
        f"The subsets have m records, so this is no guarantee of epsilon'.{_left_out(runs)}",
    )


def delta_table() -> PaperTable:
    """delta' of one statistic of one subset by Theorem 4, at the paper's sigma and sensitivity."""
    printed = published("2")["delta_prime_1e-4"]
    cells = [
        _delta_cell(row, row.printed(printed), delta_prime(row), row.scheme().eta * PAPER_DELTA)
        for row in ROWS
    ]
    return PaperTable(
        "table-2-delta",
        "Table 2: delta' of one statistic of one subset",
        tuple(cells),
        "paper",
        "Theorem 4 with the group profiles of the Gaussian mechanism, sigma and sensitivity as in "
        "the paper: no guarantee, since the sensitivity on m records is n/m times as large.",
    )


def delta_prime(row: Row) -> float:
    """Theorem 4's delta' at the paper's sigma, with the sensitivity that sigma was computed for."""
    return theorem_delta(row.scheme(), EPSILON_PRIME, PAPER_DELTA, noise_for=1.0, sensitivity=1.0)


def _delta_cell(row: Row, digits: float, ours: float, bound: float) -> PaperCell:
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


def table_3(runs: Found, beyond: int) -> PaperTable:
    """Mean and standard deviation over data sets of the averaged mean and variance."""
    printed = published("3")
    cells: list[PaperCell] = []
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
    return PaperTable(
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
) -> list[PaperCell]:
    columns = f"mean of {name}", f"sd of {name}"
    return moment_cells(row.label, columns, printed, values, half_unit=half_unit, sets=SETS, lost=1)


def bias_table(runs: Found) -> PaperTable:
    """How much smaller a variance is than WOR's, on the same data sets; and what is expected."""
    printed = published("3")[f"mean_sd_{_VARIANCE}"]
    whole, unit = runs[Row("WOR")].values[:, 1], printed["WOR"][0]
    cells: list[PaperCell] = []
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
    return PaperTable(
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


# What the noise of Table 2 really gives: certified bounds for all releases of experiment 1.
#
# The paper computes its noise for statistics of all n records, sensitivity (U - L)/n, and adds it
# to statistics of m, whose sensitivity is (U - L)/m. Both statistics of all T subsets are
# released; the bounds here are of all of that, under one relation.


#: A second delta, smaller than the paper's 1/n.
SMALL_DELTA = 1e-5
#: Released together on every subset.
STATISTICS = len(PAPER_STATISTICS)
#: Statistics of subsets in all.
RELEASES = STATISTICS * T


def certify_runs(
    runs: Sequence[Released], deltas: Sequence[float], workers: int, progress: Progress
) -> list[Guarantee]:
    """Bounds for every row at the paper's delta, which the run knows, and at further ones."""
    jobs = [(each, tuple(deltas)) for each in runs]
    return run_jobs(certify_run, jobs, workers=workers, progress=progress, what="certified bounds",
                  last_first=True)  # fmt: skip


def certify_run(job: tuple[Released, tuple[float, ...]]) -> Guarantee:
    """Bounds for one row."""
    found, deltas = job
    scheme, privacy = found.design.scheme, found.privacy
    z = privacy.noise_multiplier
    nothing = Guarantee(found.row.label, z, EPSILON_PRIME, RELEASES, PAPER_DELTA)
    if privacy.plan is None:
        return nothing
    # Two statistics share the noise multiplier z; each alone has sqrt(2) times that.
    alone = subsample(scheme, gaussian(noise_multiplier=z * math.sqrt(STATISTICS)))
    both = subsample(scheme, gaussian(noise_multiplier=z))
    whole = [(privacy.delta, privacy.epsilon)]
    whole += [(delta, certified_epsilon(privacy.plan, delta, RELATION)) for delta in deltas]
    return replace(
        nothing,
        part=certified_epsilon(alone, PAPER_DELTA, RELATION),
        one_subset=certified_epsilon(both, PAPER_DELTA, RELATION),
        whole=tuple(whole),
    )


def bootstrap_guarantee(found: Sequence[Guarantee]) -> PaperTable:
    """Noise multiplier, what one statistic of one subset costs, and all of them together."""
    return guarantee_table(
        "tables-2-3-guarantee",
        f"Bootstrap: what the paper's noise really gives for both statistics of {T} subsets",
        found,
        "Relation replace_one for all schemes; sensitivity (U - L)/m. Attained by one pair of data "
        "sets; certified for all of them.",
        ("epsilon' claimed", "one statistic of one subset attains", f"sum of {RELEASES} epsilon'"),
    )


def guarantee_reading(found: Sequence[Guarantee], ratio: float) -> list[str]:
    """In words: how far the paper's claim is from what its noise gives."""
    first = sorted(
        (each for each in found if lower_of(each.part) > 0), key=lambda each: lower_of(each.part)
    )
    least, most = first[0], first[-1]
    certified = [
        f"{each.row} {readable(bounds.lower, 'down')} to {readable(bounds.upper, 'up')}"
        for each in found
        for delta, bounds in each.whole[:1]
        if math.isfinite(bounds.upper)
    ]
    lines = [
        "The noise is computed for statistics of all n records and added to statistics of m, whose "
        f"sensitivity is n/m = {ratio:.3g} times as large. One statistic of one subset is said to "
        f"cost epsilon' = {EPSILON_PRIME:g}; at delta {PAPER_DELTA:.2g} it costs no less than "
        f"{readable(lower_of(least.part), 'down')} ({least.row}) to "
        f"{readable(lower_of(most.part), 'down')} ({most.row}).",
        f"Added up over both statistics of {T} subsets the claim is {least.claimed:g}. At delta "
        f"{PAPER_DELTA:.2g} the whole release lies between (attained to certified): "
        f"{', '.join(certified)}.",
    ]
    endless = [each for each in found if each.whole and not math.isfinite(each.whole[0][1].upper)]
    if endless:
        listed = ", ".join(
            f"{each.row} (one subset alone attains {readable(lower_of(each.one_subset), 'down')})"
            for each in endless
        )
        lines.append(f"No finite epsilon could be certified for {listed}.")
    unknown = [each.row for each in found if each.part is None]
    if unknown:
        lines.append(f"For {', '.join(unknown)}, {NOTHING}.")
    return lines


# Experiment 1 at the same certified guarantee for all schemes: noise, records, time, errors.
#
# The paper's own sizes (n = 300) leave little budget for privacy, so a second setting with more
# records stands beside them. The variance is read off two moments, as the bootstrap does by
# default; Poisson subsets are divided by their expected size, which has a sensitivity.


_NAMES = ("mean", "variance")


@dataclass(frozen=True)
class BootstrapSizes:
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
#: The paper's sizes, and larger ones with the same schemes.
PAPERS = BootstrapSizes(
    N, M, T, (*_ONE_STAGE, *(Row(name, b) for name in ("MUSTow", "MUSTww") for b in (10, 50, 100)))
)
LARGER = BootstrapSizes(10_000, 200, 100, (*_ONE_STAGE, Row("MUSTow", 400), Row("MUSTww", 400)))


#: What was released, by setting, epsilon and row.
Compared = Mapping[tuple[BootstrapSizes, float, Row], Released]


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
    found = run_jobs(release_all, jobs, workers=settings.workers, progress=progress,
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


def plain_measures(sizes: BootstrapSizes, count: int, seed: int) -> list[RunMeasure]:
    """Errors of the statistics of all records, without noise."""
    records = data_sets(sizes.n, count, seed)
    plain = np.column_stack([records.mean(axis=1), records.var(axis=1, ddof=1)]) - np.array(TRUTH)
    return [_rmse(name, plain[:, k]) for k, name in enumerate(_NAMES)]


def table_at(
    sizes: BootstrapSizes, found: Compared, plain: Sequence[RunMeasure], quick: bool
) -> PaperTable:
    """One row per scheme and epsilon, and the statistics of all records beside them."""
    rows = [(runs, epsilon) for (of, epsilon, _), runs in found.items() if of == sizes]
    cells = [cell for each in rows for cell in _cells(*each)]
    left = " Quick: one epsilon, without MUSTww." if quick else ""
    return PaperTable(
        f"tables-2-3-equal-{sizes.n}",
        f"Bootstrap: all schemes at the same certified guarantee, {sizes.words}",
        (*cells, *measured_cells("all records, no noise", plain)),
        "equal",
        f"Mean and variance of all subsets together; delta = {DELTA:g}; relation replace_one. "
        f"{rows[0][0].count} data sets, the same for all schemes. Intervals are meant to cover "
        "95 %. Drowned: the noise hides the variation of the replicates, and the interval errs on "
        f"the safe side. Times are processor times of one core. {COMPOSED}{left}",
    )


def _cells(runs: Released, epsilon: float) -> list[PaperCell]:
    bounds = certified(runs, epsilon)
    measures = [RunMeasure("microseconds per replicate", 1e6 * runs.seconds_per_replicate)]
    for k, name in enumerate(_NAMES):
        covered = runs.covered[:, k]
        # One success and one failure more, so that 100 % has an error as well.
        share = (covered.sum() + 1.0) / (covered.size + 2.0)
        error = math.sqrt(share * (1.0 - share) / covered.size)
        measures += [
            _rmse(name, runs.errors[:, k]),
            RunMeasure(f"coverage of the {name}, %", 100.0 * float(covered.mean()), 100.0 * error),
            mean_of(f"width for the {name}", runs.ends[:, k, 1] - runs.ends[:, k, 0]),
        ]
    measures.append(RunMeasure("drowned, %", 100.0 * runs.drowned))
    return equal_cells(
        f"{runs.row.label}, epsilon {epsilon:g}", runs.privacy.noise_multiplier, bounds,
        runs.design.scheme, measures, batch="subset",
    )  # fmt: skip


def _rmse(name: str, deviations: FloatArray) -> RunMeasure:
    """Root mean square and its standard error."""
    root, error = root_mean(deviations**2)
    return RunMeasure(f"RMSE of the {name}", float(root), float(error))


def equal_reading(
    found: Compared, plain: Mapping[BootstrapSizes, Sequence[RunMeasure]]
) -> list[str]:
    """In words, for every setting and epsilon: noise, errors, and how MUST compares."""
    lines = []
    for sizes, measures in plain.items():
        for epsilon in dict.fromkeys(epsilon for _, epsilon, _ in found):
            rows = [runs for key, runs in found.items() if key[:2] == (sizes, epsilon)]
            lines += _sentences(sizes, epsilon, rows, measures)
    return lines


def _sentences(
    sizes: BootstrapSizes, epsilon: float, rows: Sequence[Released], plain: Sequence[RunMeasure]
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


# Tables 2 and 3 of the paper: the subsampled bootstrap, also at equal guarantee.


#: Data sets in quick mode.
_QUICK_SETS = 20


def run(settings: Settings, progress: Progress) -> ItemOutcome:
    """Everything of the experiment."""
    count = _QUICK_SETS if settings.quick else SETS
    rows = rows_at(settings.quick)
    begun = time.perf_counter()
    done = simulate_rows((Row(NON_PRIVATE), *rows), count, settings, progress)
    clock = time.perf_counter() - begun
    private = [done[row] for row in rows]
    more = () if settings.quick else (SMALL_DELTA,)
    really = certify_runs(private, more, settings.workers, progress)
    compared = compare_all(settings, count, progress)
    plain = {sizes: plain_measures(sizes, count, settings.seed) for sizes in (PAPERS, LARGER)}
    beyond = int(np.sum(np.abs(data_sets(N, count, settings.seed)) > UPPER))
    return ItemOutcome(
        (
            table_2(done),
            delta_table(),
            table_3(done, beyond),
            bias_table(done),
            bootstrap_guarantee(really),
            *(table_at(each, compared, plain[each], settings.quick) for each in plain),
        ),
        reading=(
            *_reading(done, really, clock, settings.workers),
            *equal_reading(compared, plain),
        ),
    )


def simulate_rows(
    rows: Sequence[Row], count: int, settings: Settings, progress: Progress
) -> dict[Row, Released]:
    """Run rows of Table 3 with the paper's noise; the last rows take longest and go first."""
    jobs = [paper_release(row, count, settings.seed, k) for k, row in enumerate(rows)]
    found = run_jobs(release_all, jobs, workers=settings.workers, progress=progress,
                   what="Table 3", last_first=True)  # fmt: skip
    return {each.row: each for each in found}


def _reading(done: Found, really: Sequence[Guarantee], clock: float, workers: int) -> list[str]:
    deltas = {row: RELEASES * delta_prime(row) for row in ROWS}
    vacuous = max(deltas, key=lambda row: deltas[row])
    low = min(private_rows(done), key=lambda row: float(done[row].values[:, 1].mean()))
    found = done[low]
    processor = sum(each.processor_seconds for each in done.values())
    return [
        f"Table 3 is {len(done)} rows of {found.count} data sets with {T} subsets each; it "
        f"took {processor:.0f} s of processor time and {clock:.0f} s by the clock with {workers} "
        f"process{'es' if workers > 1 else ''}, each row's certified bounds included.",
        f"Repeated records make variances too small: with {low.label} the average is "
        f"{found.values[:, 1].mean():.3f}, and {found.corrected[:, 1].mean():.3f} (standard error "
        f"{found.corrected[:, 1].std(ddof=1) / math.sqrt(found.count):.3f}) with the correction.",
        *guarantee_reading(really, N / M),
        "The smaller sigma of MUST in Table 2 is bought with delta': added up over all releases "
        f"it comes to {deltas[Row('WR')]:.2g} for WR and to {deltas[vacuous]:.2g} for "
        f"{vacuous.label}, and a delta of 1 or more promises nothing.",
    ]


ITEMS = (Item("tables-2-3", "Tables 2 and 3: the subsampled bootstrap", run),)
