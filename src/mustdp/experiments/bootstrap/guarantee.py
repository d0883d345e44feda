"""What the noise of Table 2 really gives: certified bounds for all releases of experiment 1.

The paper computes its noise for statistics of all n records, sensitivity (U - L)/n, and adds it to
statistics of m, whose sensitivity is (U - L)/m. Both statistics of all T subsets are released; the
bounds here are of all of that, under one relation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mustdp.accounting.plan import subsample
from mustdp.calibration.settle import certified_epsilon
from mustdp.experiments.bootstrap.runs import DELTA, EPSILON_PRIME, PAPER_STATISTICS, Released, T
from mustdp.experiments.comparison.budgets import RELATION
from mustdp.experiments.comparison.certified import NOTHING, Guarantee, guarantee_table, lower_of
from mustdp.experiments.frame.cells import Table
from mustdp.experiments.frame.parallel import spread
from mustdp.mechanisms.mechanism import gaussian
from mustdp.numerics.decimals import readable
from mustdp.progress import Progress

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
    return spread(certify_run, jobs, workers=workers, progress=progress, what="certified bounds",
                  last_first=True)  # fmt: skip


def certify_run(job: tuple[Released, tuple[float, ...]]) -> Guarantee:
    """Bounds for one row."""
    found, deltas = job
    scheme, privacy = found.design.scheme, found.privacy
    z = privacy.noise_multiplier
    nothing = Guarantee(found.row.label, z, EPSILON_PRIME, RELEASES, DELTA)
    if privacy.plan is None:
        return nothing
    # Two statistics share the noise multiplier z; each alone has sqrt(2) times that.
    alone = subsample(scheme, gaussian(noise_multiplier=z * math.sqrt(STATISTICS)))
    both = subsample(scheme, gaussian(noise_multiplier=z))
    whole = [(privacy.delta, privacy.epsilon)]
    whole += [(delta, certified_epsilon(privacy.plan, delta, RELATION)) for delta in deltas]
    return replace(
        nothing,
        part=certified_epsilon(alone, DELTA, RELATION),
        one_subset=certified_epsilon(both, DELTA, RELATION),
        whole=tuple(whole),
    )


def bootstrap_guarantee(found: Sequence[Guarantee]) -> Table:
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
        f"cost epsilon' = {EPSILON_PRIME:g}; at delta {DELTA:.2g} it costs no less than "
        f"{readable(lower_of(least.part), 'down')} ({least.row}) to "
        f"{readable(lower_of(most.part), 'down')} ({most.row}).",
        f"Added up over both statistics of {T} subsets the claim is {least.claimed:g}. At delta "
        f"{DELTA:.2g} the whole release lies between (attained to certified): "
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
