"""Tables 4 and S2 and Figure S4 of the paper: linear regression, also at equal guarantee."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from mustdp.experiments.comparison.certified import (
    Really,
    Stated,
    certify,
    claims_reading,
    guarantee_table,
)
from mustdp.experiments.comparison.equal_guarantee import (
    Measured,
    Settled,
    Target,
    equal_table,
    names_at,
    noise_reading,
    settle_all,
    targets_at,
    utility_reading,
)
from mustdp.experiments.frame.cells import Outcome, Picture, Settings
from mustdp.experiments.frame.items import Item, Report
from mustdp.experiments.frame.parallel import spread
from mustdp.experiments.frame.schemes import NAMES
from mustdp.experiments.regression.runs import (
    NON_PRIVATE,
    SIZES,
    STEPS,
    Job,
    N,
    Runs,
    non_private,
    paper_budget,
    paper_scheme,
    simulate,
)
from mustdp.experiments.regression.tables import (
    AS_RUN,
    PRIMES,
    delta_table,
    must_shortfall,
    row_of,
    table_4,
    table_s2,
)
from mustdp.plots.training_curves import training_curves

#: Data sets; the paper has 200.
_SETS, _QUICK_SETS = 1000, 100
_RESIDUAL, _COEFFICIENT = "residual RMSE", "coefficient RMSE"
_MICROSECONDS = "microseconds per step"


def run(settings: Settings, report: Report) -> Outcome:
    """Everything of the experiment."""
    count = _QUICK_SETS if settings.quick else _SETS
    stated = {
        (name, prime): paper_budget(name, prime) for prime in PRIMES for name in (*NAMES, "MUSTwo")
    }
    really = certify(
        [Stated(row_of(*key), stated[key], key[1]) for key in stated if key[0] != "MUSTwo"],
        settings.workers, report,
    )  # fmt: skip
    targets = targets_at(settings.quick, N**-1.1, STEPS)
    settled = settle_all(SIZES, targets, names_at(settings.quick), settings.workers, report)
    jobs = [non_private(count, settings.seed)]
    jobs += [
        Job(row_of(*key), budget.scheme, budget, count, settings.seed)
        for key, budget in stated.items()
    ]
    as_run = stated["MUSTww", 0.001]
    jobs.append(Job(AS_RUN, paper_scheme("MUSTow"), as_run, count, settings.seed))
    jobs += [
        Job(_equal_row(each), each.budget.scheme, each.budget, count, settings.seed)
        for each in settled
    ]
    done = spread(simulate, jobs, workers=settings.workers, report=report, what="simulated")
    runs = {each.row: each for each in done}
    measured = {(each.name, each.target): _measures(runs[_equal_row(each)]) for each in settled}
    return Outcome(
        (
            table_4(runs),
            delta_table(),
            table_s2(runs),
            guarantee_table(
                "tables-4-s2-guarantee",
                "Linear regression: what the paper's noise really gives after 200 steps",
                really,
                "Relation replace_one for all schemes. Attained by one pair of data sets; "
                "certified for all of them.",
            ),
            equal_table(
                "tables-4-s2-equal",
                "Linear regression: all schemes at the same certified guarantee",
                settled,
                measured,
                [(NON_PRIVATE, part) for part in _measures(runs[NON_PRIVATE])],
                f"{count} data sets, the same for all schemes; delta = n^-1.1; relation "
                "replace_one. Times are of many runs side by side, on one core."
                + (" Quick: one epsilon, without MUSTww." if settings.quick else ""),
            ),
        ),
        (_figure_s4(runs),),
        tuple(_reading(runs, really, settled, measured)),
    )


def _measures(found: Runs) -> list[Measured]:
    values, off = found.residual, found.deviations
    pooled = np.mean(off**2, axis=1)
    root = math.sqrt(float(pooled.mean()))
    return [
        Measured(_MICROSECONDS, 1e6 * found.seconds_per_step),
        Measured(_RESIDUAL, float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(off))),
        Measured(
            _COEFFICIENT, root, float(pooled.std(ddof=1)) / math.sqrt(len(off)) / (2.0 * root)
        ),
    ]


def _figure_s4(runs: dict[str, Runs]) -> Picture:
    panels = []
    for prime in PRIMES:
        rows = [(NON_PRIVATE, NON_PRIVATE), *((name, row_of(name, prime)) for name in NAMES)]
        panels.append(
            {
                "title": f"ε′ = {prime:g}",
                "ylabel": "loss",
                "curves": [
                    {"name": name, "x": list(range(1, STEPS + 1)), "y": list(runs[row].curve)}
                    for name, row in rows
                ],
            }
        )
    return Picture(
        "figure-s4",
        "Figure S4: mean squared residual against iteration, one data set",
        partial(training_curves, panels=panels),
        "Two panels of loss curves that fall from about eight to about one within 75 iterations; "
        "at the smaller epsilon' they keep trembling.",
    )


def _equal_row(each: Settled) -> str:
    return f"{each.name}, {each.target.words}"


def _reading(
    runs: dict[str, Runs],
    really: list[Really],
    settled: list[Settled],
    measured: dict[tuple[str, Target], list[Measured]],
) -> list[str]:
    low, error = must_shortfall(runs)
    return [
        *claims_reading(really, SIZES[0] / SIZES[2]),
        "The smaller errors of MUST in Tables 4 and S2 come from its smaller sigma, which buys "
        f"less privacy; the paper's MUST values of Table S2 at epsilon' 0.001 are {low:.0%} "
        f"(standard error {error:.0%}) below ours besides.",
        *noise_reading(settled),
        *utility_reading(settled, measured, _COEFFICIENT, larger_is_better=False, shown=".4f"),
    ]


ITEMS = (Item("tables-4-s2", "Tables 4 and S2, Figure S4: linear regression", run),)
