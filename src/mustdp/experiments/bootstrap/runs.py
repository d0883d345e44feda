"""Experiment 1 of the paper, simulated: means and variances of noisy subsamples.

[Z] = Zhao, Zhou & Liu, arXiv 2312.13389: 200 data sets of n = 300 records from N(0, 1); T = 500
subsets of m = 30; the sample mean and the sample variance of every subset are released with
Gaussian noise and averaged. Every release here is one call of ``private_bootstrap``. All rows of a
table see the same data sets, so that they can be compared with less noise.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mustdp.experiments.comparison.budgets import RELATION, Spent
from mustdp.experiments.frame.published import NON_PRIVATE, scheme_called
from mustdp.numerics.arrays import FloatArray
from mustdp.randomness.seeds import SeededRelease
from mustdp.resampling.bootstrap import private_bootstrap
from mustdp.resampling.designs import Design
from mustdp.resampling.result import BootstrapResult, InferenceNote
from mustdp.resampling.statistics.joint import Joint
from mustdp.resampling.statistics.mean import Mean
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.statistic import Statistic
from mustdp.resampling.statistics.variance import Variance
from mustdp.sampling.scheme import Scheme

N, M, T = 300, 30, 500
#: Sizes of the first stage.
SIZES = (10, 20, 30, 50, 100)
LOWER, UPPER = -4.0, 4.0
EPSILON_PRIME, DELTA = 0.1, 1 / N
#: Mean and variance of the law that the records come from.
TRUTH = (0.0, 1.0)
#: What the paper releases: the sample variance of every subset, copies counted as they are drawn.
PAPER_STATISTICS: tuple[str | Statistic, ...] = (Mean(squares=False), Variance(form="pairs"))
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
        return private_bootstrap(
            records, self.statistics, lower=LOWER, upper=UPPER, design=self.design,
            delta=self.delta, relation=RELATION, correct_bias=self.correct_bias, workers=1,
            seed=np.random.default_rng((self.seed, 1, self.stream, data_set)), **noise,
        )  # fmt: skip


@dataclass(frozen=True)
class Released:
    """What a row gave: estimates (R, 2), ends of their intervals (R, 2, 2), cost, times."""

    row: Row
    design: Design
    privacy: Spent
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
    return Release(
        row, Design(row.scheme(), T), ("epsilon_prime", prime), DELTA, PAPER_STATISTICS,
        False, count, seed, stream,
    )  # fmt: skip


def paper_sigmas(privacy: Spent) -> tuple[float, float]:
    """Deviation of the noise on the mean and on the variance of a subset, as it is added."""
    public = Public((LOWER,), (UPPER,), M)
    queries = (Mean(squares=False).query(public), Variance(form="pairs").query(public))
    mean, variance = Joint(queries, ((0,), (0,))).blocks
    return privacy.noise_multiplier * mean.reach, privacy.noise_multiplier * variance.reach


def release_all(job: Release) -> Released:
    """Release on every data set."""
    begun = time.process_time()
    results, seconds = [], []
    with warnings.catch_warnings():
        # The data are simulated and nobody's secret, so that a seed does no harm; what the notes
        # warn of is counted below.
        warnings.simplefilter("ignore", SeededRelease)
        warnings.simplefilter("ignore", InferenceNote)
        for k in range(job.data_sets):
            at = time.process_time()
            results.append(job.on(k))
            seconds.append(time.process_time() - at)
    drowned = [any(estimate.drowned for estimate in one.estimates) for one in results]
    return Released(
        job.row, job.design, results[0].privacy,
        np.array([[estimate.value for estimate in one.estimates] for one in results]),
        np.array([[estimate.interval for estimate in one.estimates] for one in results]),
        float(np.mean(drowned)),
        # The first call also settles the noise; the median leaves that out.
        float(np.median(seconds)) / job.design.releases,
        time.process_time() - begun,
    )  # fmt: skip
