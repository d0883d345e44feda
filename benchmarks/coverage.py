"""Do the intervals of the private bootstrap cover, and what do they cost beside other intervals?

For every combination of data, statistic and design: simulate data sets, make a 95 % interval on
each at the same certified total (epsilon, delta), and count how often it holds the truth. Beside
it, the non-private bootstrap of scipy, and one private release on all records without resampling.

    python benchmarks/coverage.py --json > coverage.json
    python benchmarks/coverage.py --data-sets 100          # a quick look
    python benchmarks/coverage.py --unkind                 # ties, atoms, rare events, heavy tails

One release on real data is measured by ``adult_coverage.py``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import mustdp as md
from mustdp.estimation.bootstrap import private_bootstrap
from mustdp.estimation.designs import Design, bag_of_little_bootstraps, double_bootstrap
from mustdp.estimation.statistics.moments import LinearRegression, Variance
from mustdp.estimation.statistics.statistic import Statistic

FloatArray = NDArray[np.float64]
N, M, T = 10_000, 200, 100
EPSILON, DELTA, LEVEL = 2.0, 1e-5, 0.95


@dataclass(frozen=True)
class Law:
    """A law of records, the bounds stated for it, and its true values."""

    draw: Callable[[np.random.Generator, int], FloatArray]
    lower: float
    upper: float
    mean: float
    variance: float
    median: float
    of: dict[str, float] | None = None  # the true values of unkind laws, by statistic


LAWS = {
    "normal": Law(lambda rng, n: rng.standard_normal(n), -4.0, 4.0, 0.0, 1.0, 0.0),
    "skewed": Law(lambda rng, n: rng.exponential(size=n), 0.0, 12.0, 1.0, 1.0, math.log(2.0)),
}
STATISTICS: dict[str, str | Statistic] = {
    "mean": "mean",
    "variance": Variance(form="moments"),
    "variance (pairs)": Variance(form="pairs"),
    "median": "median",
    "slope": LinearRegression(),
}
#: Laws on which intervals have failed before, and what is asked of each.
UNKIND: dict[str, Law] = {
    "hours": Law(
        lambda rng, n: np.where(rng.random(n) < 0.46, 40.0, np.rint(rng.normal(41.0, 14.0, n))),
        0.0, 100.0, math.nan, math.nan, 40.0, {"median": 40.0},
    ),
    "gain": Law(
        lambda rng, n: np.where(rng.random(n) < 0.92, 0.0, np.rint(rng.lognormal(8.5, 1.0, n))),
        0.0, 100_000.0, math.nan, math.nan, 0.0, {"median": 0.0, "quantile:0.9": 0.0},
    ),
    "rare": Law(
        lambda rng, n: (rng.random(n) < 0.003).astype(np.float64),
        0.0, 1.0, 0.003, math.nan, 0.0, {"mean": 0.003, "proportion:>0.5": 0.003},
    ),
    "narrow": Law(
        lambda rng, n: rng.standard_normal(n),
        -1000.0, 1000.0, 0.0, 1.0, 0.0, {"sd": 1.0, "variance": 1.0},
    ),
}  # fmt: skip
AT: dict[str, Any] = {"epsilon": EPSILON}
#: Designs by name: what is drawn, and the noise.
DESIGNS: dict[str, tuple[Design, dict[str, Any]]] = {
    "subsampling": (Design(md.wor(N, M), T), AT),
    "subsampling, little noise": (
        Design(md.wor(N, M), T),
        {"noise_multiplier": 0.3},
    ),
    "m-out-of-n": (Design(md.wr(N, M), T), AT),
    "Poisson": (Design(md.poisson(N, M / N), T), AT),
    "MUSTow, b = 400": (Design(md.must_ow(N, 400, M), T), AT),
    "MUSTow, b = 50": (Design(md.must_ow(N, 50, M), T), AT),
    "MUSTww, b = 400": (Design(md.must_ww(N, 400, M), T), AT),
    "double bootstrap": (double_bootstrap(N, b=400, m=400, subsets=40, reuse=5), AT),
    "little bootstraps": (bag_of_little_bootstraps(N, b=400, subsets=20, reuse=5), AT),
}
TRUE_SLOPE = 0.5


def records(law: Law, statistic: str, rng: np.random.Generator) -> FloatArray:
    """One data set: a column, or two for the slope."""
    x = law.draw(rng, N)
    if statistic != "slope":
        return x
    return np.column_stack([x, 1.0 + TRUE_SLOPE * x + 0.5 * rng.standard_normal(N)])


def truth(law: Law, statistic: str) -> float:
    """The number that intervals should hold."""
    if statistic == "slope":
        return TRUE_SLOPE
    if law.of is not None:
        return law.of[statistic]
    return float(getattr(law, statistic.split()[0]))


def bounds(law: Law, statistic: str) -> dict[str, Any]:
    """Lower and upper for the columns."""
    if statistic != "slope":
        return {"lower": law.lower, "upper": law.upper}
    ends = [1.0 + TRUE_SLOPE * law.lower - 2.0, 1.0 + TRUE_SLOPE * law.upper + 2.0]
    return {"lower": [law.lower, ends[0]], "upper": [law.upper, ends[1]]}


@dataclass(frozen=True)
class Outcome:
    """One interval on one data set."""

    low: float
    high: float
    noise_share: float
    noted: bool


def resampled(law: Law, statistic: str, design: str, rng: np.random.Generator) -> Outcome:
    """The private bootstrap on one data set."""
    plan, noise = DESIGNS[design]
    result = private_bootstrap(
        records(law, statistic, rng), STATISTICS.get(statistic, statistic), design=plan,
        delta=DELTA, level=LEVEL, execution=md.types.Execution(workers=1), seed=rng,
        relation="replace_one", **noise, **bounds(law, statistic),
    )  # fmt: skip
    estimate = result.estimates[-1]
    drowned = any("drowns" in note for note in result.notes)
    return Outcome(*estimate.interval, estimate.noise_share, drowned)


def scipy_bootstrap(law: Law, statistic: str, design: str, rng: np.random.Generator) -> Outcome:
    """The non-private percentile bootstrap of scipy."""
    data = records(law, statistic, rng)
    columns = (data,) if data.ndim == 1 else tuple(data.T)
    functions: dict[str, Callable[..., Any]] = {
        "mean": np.mean,
        "variance": lambda x, axis: np.var(x, ddof=1, axis=axis),
        "median": np.median,
        "slope": lambda x, y, axis: _slope(x, y, axis),
    }
    found = stats.bootstrap(
        columns, functions[statistic], n_resamples=199, method="percentile", paired=True,
        vectorized=True, confidence_level=LEVEL, rng=rng,
    )  # fmt: skip
    low, high = map(float, found.confidence_interval)
    return Outcome(low, high, 0.0, False)


def _slope(x: FloatArray, y: FloatArray, axis: int) -> FloatArray:
    x = x - x.mean(axis=axis, keepdims=True)
    y = y - y.mean(axis=axis, keepdims=True)
    return np.asarray((x * y).sum(axis=axis) / (x * x).sum(axis=axis))


def one_shot(law: Law, statistic: str, design: str, rng: np.random.Generator) -> Outcome:
    """One release on all records at the same budget."""
    name = {"slope": "regression"}.get(statistic, statistic)
    result = md.private_release(
        records(law, statistic, rng), name, epsilon=EPSILON, delta=DELTA, level=LEVEL, seed=rng,
        **bounds(law, statistic),
    )  # fmt: skip
    estimate = result.estimates[-1]
    return Outcome(*estimate.interval, estimate.noise_share, bool(estimate.flags))


def share_of(
    make: Callable[..., Outcome], law: str, statistic: str, design: str, seeds: list[int]
) -> list[Outcome]:
    """Some of the data sets, in one process."""
    with warnings.catch_warnings():
        # Seeded on purpose; notes are counted instead of shown.
        warnings.simplefilter("ignore")
        return [
            make({**LAWS, **UNKIND}[law], statistic, design, np.random.default_rng([seed, 7]))
            for seed in seeds
        ]


def combinations(
    references: bool, unkind: bool
) -> Iterator[tuple[Callable[..., Outcome], str, str, str]]:
    """What is compared, row by row."""
    if unkind:
        for name, own in UNKIND.items():
            for statistic in own.of or ():
                for design in ("subsampling", "m-out-of-n", "Poisson", "little bootstraps"):
                    yield resampled, name, statistic, design
        return
    for law in LAWS:
        for statistic in STATISTICS:
            for design in DESIGNS:
                if statistic == "variance (pairs)" and not design.startswith(("subs", "MUST")):
                    continue
                if design == "double bootstrap" and statistic not in ("mean", "median"):
                    continue  # they take long
                if design == "subsampling, little noise" and statistic != "slope":
                    continue
                yield resampled, law, statistic, design
            if references and statistic != "variance (pairs)":
                yield scipy_bootstrap, law, statistic, "scipy, not private"
                yield one_shot, law, statistic, "one shot, no resampling"


def row(
    law: str, statistic: str, design: str, outcomes: list[Outcome], seconds: float
) -> dict[str, Any]:
    """Coverage with its standard error, width, and what the noise did."""
    low = np.array([one.low for one in outcomes])
    high = np.array([one.high for one in outcomes])
    true = truth({**LAWS, **UNKIND}[law], statistic)
    covered = float(np.mean((low <= true) & (true <= high)))
    return {
        "data": law,
        "statistic": statistic,
        "design": design,
        "coverage": covered,
        "coverage_error": math.sqrt(covered * (1 - covered) / low.size),
        "median_width": float(np.median(high - low)),
        "noise_share": float(np.median([one.noise_share for one in outcomes])),
        "drowned": float(np.mean([one.noted for one in outcomes])),
        "data_sets": low.size,
        "seconds": round(seconds, 2),
    }


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows; the calibrations are made once, before the clock of a row starts."""
    from joblib import Parallel, delayed

    rows = []
    with Parallel(n_jobs=args.workers) as pool:
        for make, law, statistic, design in combinations(not args.no_references, args.unkind):
            if args.only and args.only not in f"{law}/{statistic}/{design}":
                continue
            count = args.references if make is scipy_bootstrap else args.data_sets
            begun = time.perf_counter()
            seeds = np.array_split(np.arange(count) + args.seed, min(count, 4 * args.workers))
            parts = pool(
                delayed(share_of)(make, law, statistic, design, part.tolist()) for part in seeds
            )
            outcomes = [one for part in parts for one in part]
            rows.append(row(law, statistic, design, outcomes, time.perf_counter() - begun))
            print(line(rows[-1]), file=sys.stderr if args.json else sys.stdout, flush=True)
    return rows


def line(found: dict[str, Any]) -> str:
    """One row for the eye."""
    return (
        f"{found['data']:>7} {found['statistic']:>17} {found['design']:>26}"
        f"  coverage {100 * found['coverage']:5.1f} +- {100 * found['coverage_error']:.1f} %"
        f"  width {found['median_width']:.4f}  noise {100 * found['noise_share']:3.0f} %"
        f"  drowned {100 * found['drowned']:3.0f} %  {found['seconds']:6.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=2000)
    parser.add_argument("--references", type=int, default=500, help="data sets for scipy")
    parser.add_argument("--no-references", action="store_true")
    parser.add_argument("--only", default="", help="rows whose data/statistic/design holds this")
    parser.add_argument("--unkind", action="store_true", help="ties, atoms, rare events instead")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = measure(args)
    if args.json:
        setting = {"n": N, "m": M, "replicates": T, "epsilon": EPSILON, "delta": DELTA}
        versions = {"mustdp": md.__version__, "numpy": np.__version__}
        print(json.dumps({**setting, "level": LEVEL, "versions": versions, "rows": rows}))


if __name__ == "__main__":
    main()
