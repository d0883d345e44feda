"""Tables 4 and S2 and Figure S4 of the paper: linear regression, also at equal guarantee."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mustdp.experiments.comparison.many_steps import compare
from mustdp.experiments.comparison.measured import Measured, mean_of, root_mean
from mustdp.experiments.comparison.simulation import Found, Job, Runs, simulate
from mustdp.experiments.frame.items import Item, Outcome, Settings
from mustdp.experiments.frame.pictures import Picture, curve_panel
from mustdp.experiments.frame.published import NAMES, NON_PRIVATE
from mustdp.experiments.regression import tables
from mustdp.experiments.regression.runs import REGRESSION, deviations, non_private, run_job
from mustdp.progress import Progress

#: Data sets; the paper has 200.
_SETS, _QUICK_SETS = 1000, 100
_COEFFICIENT = "coefficient RMSE"


def run(settings: Settings, progress: Progress) -> Outcome:
    """Everything of the experiment."""
    count = _QUICK_SETS if settings.quick else _SETS
    seeds = range(settings.seed, settings.seed + count)
    compared = compare(
        REGRESSION, settings, progress, delta=REGRESSION.n**-1.1, steps=[REGRESSION.steps]
    )
    stated = {
        (name, prime): REGRESSION.paper_budget(name, prime)
        for prime in REGRESSION.primes
        for name in (*NAMES, "MUSTwo")
    }
    as_run = replace(stated["MUSTww", 0.001], scheme=REGRESSION.scheme("MUSTow"))
    jobs = [non_private(seeds)]
    jobs += [Job(key, budget, seeds) for key, budget in stated.items()]
    jobs.append(Job(tables.AS_RUN, as_run, seeds))
    jobs += [Job(each.key, each.budget, seeds) for each in compared.settled]
    runs = simulate(run_job, jobs, settings, progress)
    measured = {each.key: _measures(runs[each.key]) for each in compared.settled}
    low, error = tables.must_shortfall(runs)
    return Outcome(
        (
            tables.table_4(runs),
            tables.delta_table(),
            tables.table_s2(runs),
            compared.guarantee(
                "Relation replace_one for all schemes. Attained by one pair of data sets; "
                "certified for all of them."
            ),
            compared.equal(
                measured,
                [(NON_PRIVATE, _measures(runs[NON_PRIVATE,]))],
                f"{count} data sets, the same for all schemes; delta = n^-1.1; relation "
                "replace_one. Times are of many runs side by side, on one core."
                + (" Quick: one epsilon, without MUSTww." if settings.quick else ""),
            ),
        ),
        (_figure_s4(runs),),
        (
            *compared.claims(),
            "The smaller errors of MUST in Tables 4 and S2 come from its smaller sigma, which buys "
            f"less privacy; the paper's MUST values of Table S2 at epsilon' 0.001 are {low:.0%} "
            f"(standard error {error:.0%}) below ours besides.",
            *compared.reading(measured, _COEFFICIENT, larger_is_better=False, shown=".4f"),
        ),
    )


def _measures(found: Runs) -> list[Measured]:
    root, error = root_mean(np.mean(deviations(found) ** 2, axis=1))
    return [
        Measured("microseconds per step", 1e6 * float(found.seconds[0])),
        mean_of("residual RMSE", found.first),
        Measured(_COEFFICIENT, float(root), float(error)),
    ]


def _figure_s4(runs: Found) -> Picture:
    steps = range(1, REGRESSION.steps + 1)
    panels = []
    for prime in REGRESSION.primes:
        curves = {NON_PRIVATE: (steps, runs[NON_PRIVATE,].losses)}
        curves |= {name: (steps, runs[name, prime].losses) for name in NAMES}
        panels.append(curve_panel(f"ε′ = {prime:g}", "loss", curves))
    return Picture(
        "figure-s4",
        "Figure S4: mean squared residual against iteration, one data set",
        "training_curves",
        {"panels": panels},
        "Two panels of loss curves that fall from about eight to about one within 75 iterations; "
        "at the smaller epsilon' they keep trembling.",
    )


ITEMS = (Item("tables-4-s2", "Tables 4 and S2, Figure S4: linear regression", run),)
