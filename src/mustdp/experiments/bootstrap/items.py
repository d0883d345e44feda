"""Tables 2 and 3 of the paper: the subsampled bootstrap, also at equal guarantee."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from mustdp.experiments.bootstrap import equal, guarantee, runs, tables
from mustdp.experiments.bootstrap.runs import ROWS, Released, Row
from mustdp.experiments.comparison.certified import Guarantee
from mustdp.experiments.frame.items import Item, Outcome, Settings
from mustdp.experiments.frame.parallel import spread
from mustdp.experiments.frame.published import NON_PRIVATE
from mustdp.progress import Progress

#: Data sets in quick mode.
_QUICK_SETS = 20


def run(settings: Settings, progress: Progress) -> Outcome:
    """Everything of the experiment."""
    count = _QUICK_SETS if settings.quick else tables.SETS
    rows = runs.rows_at(settings.quick)
    begun = time.perf_counter()
    done = simulate_rows((Row(NON_PRIVATE), *rows), count, settings, progress)
    clock = time.perf_counter() - begun
    private = [done[row] for row in rows]
    more = () if settings.quick else (guarantee.SMALL_DELTA,)
    really = guarantee.certify_runs(private, more, settings.workers, progress)
    compared = equal.compare_all(settings, count, progress)
    plain = {
        sizes: equal.plain_measures(sizes, count, settings.seed)
        for sizes in (equal.PAPERS, equal.LARGER)
    }
    beyond = int(np.sum(np.abs(runs.data_sets(runs.N, count, settings.seed)) > runs.UPPER))
    return Outcome(
        (
            tables.table_2(done),
            tables.delta_table(),
            tables.table_3(done, beyond),
            tables.bias_table(done),
            guarantee.bootstrap_guarantee(really),
            *(equal.table_at(each, compared, plain[each], settings.quick) for each in plain),
        ),
        reading=(
            *_reading(done, really, clock, settings.workers),
            *equal.equal_reading(compared, plain),
        ),
    )


def simulate_rows(
    rows: Sequence[Row], count: int, settings: Settings, progress: Progress
) -> dict[Row, Released]:
    """Run rows of Table 3 with the paper's noise; the last rows take longest and go first."""
    jobs = [runs.paper_release(row, count, settings.seed, k) for k, row in enumerate(rows)]
    found = spread(runs.release_all, jobs, workers=settings.workers, progress=progress,
                   what="Table 3", last_first=True)  # fmt: skip
    return {each.row: each for each in found}


def _reading(
    done: tables.Found, really: Sequence[Guarantee], clock: float, workers: int
) -> list[str]:
    deltas = {row: guarantee.RELEASES * tables.delta_prime(row) for row in ROWS}
    vacuous = max(deltas, key=lambda row: deltas[row])
    low = min(tables.private_rows(done), key=lambda row: float(done[row].values[:, 1].mean()))
    found = done[low]
    processor = sum(each.processor_seconds for each in done.values())
    return [
        f"Table 3 is {len(done)} rows of {found.count} data sets with {runs.T} subsets each; it "
        f"took {processor:.0f} s of processor time and {clock:.0f} s by the clock with {workers} "
        f"process{'es' if workers > 1 else ''}, each row's certified bounds included.",
        f"Repeated records make variances too small: with {low.label} the average is "
        f"{found.values[:, 1].mean():.3f}, and {found.corrected[:, 1].mean():.3f} (standard error "
        f"{found.corrected[:, 1].std(ddof=1) / math.sqrt(found.count):.3f}) with the correction.",
        *guarantee.guarantee_reading(really, runs.N / runs.M),
        "The smaller sigma of MUST in Table 2 is bought with delta': added up over all releases "
        f"it comes to {deltas[Row('WR')]:.2g} for WR and to {deltas[vacuous]:.2g} for "
        f"{vacuous.label}, and a delta of 1 or more promises nothing.",
    ]


ITEMS = (Item("tables-2-3", "Tables 2 and 3: the subsampled bootstrap", run),)
