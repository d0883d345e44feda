"""What the noise of Table 2 really gives: certified bounds for all releases of experiment 1.

The paper computes its noise for statistics of all n records, sensitivity (U - L)/n, and adds it to
statistics of m, whose sensitivity is (U - L)/m. Both statistics of all T subsets are released; the
bounds here are of all of that, under one relation. A part of the releases costs no more than all of
them, so what one subset attains bounds the whole from below where nothing finite is certified.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan, subsample
from mustdp.calibration.settle import Spent
from mustdp.errors import NumericalFailure
from mustdp.experiments.bootstrap_runs import DELTA, EPSILON_PRIME, PAPER_STATISTICS, Runs, T
from mustdp.experiments.cells import Cell, Table
from mustdp.experiments.certified import RELATION
from mustdp.experiments.item import Report
from mustdp.experiments.parallel import spread
from mustdp.mechanisms.mechanism import gaussian
from mustdp.numerics.decimals import readable
from mustdp.resampling.designs import Design

#: A second delta, smaller than the paper's 1/n.
SMALL_DELTA = 1e-5
#: Released together on every subset.
STATISTICS = len(PAPER_STATISTICS)
#: The sum of what the paper says that all releases cost.
CLAIMED = STATISTICS * T * EPSILON_PRIME
NOTHING = (
    "the paper divides by the random size of a Poisson subset, for which no sensitivity is known: "
    "no guarantee"
)
INFINITE = "no finite epsilon could be certified"
FROM_ONE = "attained by a single subset; all of them cost at least as much"
AT_LARGER = "attained at delta"


@dataclass(frozen=True)
class Guarantee:
    """What one row's noise gives; all but the noise multiplier is None where nothing is known."""

    row: str
    noise_multiplier: float
    #: One statistic of one subset, and both of them, at the paper's delta.
    alone: Bounds | None = None
    one_subset: Bounds | None = None
    #: All releases, by delta.
    whole: tuple[tuple[float, Bounds], ...] = ()


def certify_runs(
    runs: Sequence[Runs], deltas: Sequence[float], workers: int, report: Report
) -> list[Guarantee]:
    """Bounds for every row at the paper's delta, which the run knows, and at further ones."""
    jobs = [(each.row, each.design, each.privacy, tuple(deltas)) for each in reversed(runs)]
    found = spread(certify, jobs, workers=workers, report=report, what="certified bounds")
    return found[::-1]


def certify(job: tuple[str, Design, Spent, tuple[float, ...]]) -> Guarantee:
    """Bounds for one row."""
    row, design, privacy, deltas = job
    z = privacy.noise_multiplier
    if privacy.plan is None:
        return Guarantee(row, z)
    # Two statistics share the noise multiplier z; each alone has sqrt(2) times that.
    alone = subsample(design.scheme, gaussian(noise_multiplier=z * math.sqrt(STATISTICS)))
    both = subsample(design.scheme, gaussian(noise_multiplier=z))
    whole = [(privacy.delta, privacy.epsilon)]
    whole += [(delta, _bounds(privacy.plan, delta)) for delta in deltas]
    return Guarantee(row, z, _bounds(alone, DELTA), _bounds(both, DELTA), tuple(whole))


def _bounds(plan: Plan, delta: float) -> Bounds:
    try:
        return account(plan, relation=RELATION).epsilon(delta)
    except NumericalFailure:
        return Bounds(0.0, math.inf)


def guarantee_table(found: Sequence[Guarantee]) -> Table:
    """Noise multiplier, what one statistic of one subset costs, and all of them together."""
    deltas = [delta for delta, _ in max((each.whole for each in found), key=len)]
    cells: list[Cell] = []
    for each in found:
        row = each.row
        cells.append(Cell(row, "noise multiplier z", None, each.noise_multiplier))
        cells.append(Cell(row, "epsilon' claimed", None, EPSILON_PRIME))
        column = f"one statistic of one subset attains at delta {DELTA:.2g}"
        if each.alone is None:
            cells.append(Cell(row, column, None, None, reason=NOTHING))
        else:
            cells.append(Cell(row, column, None, each.alone.lower))
        cells.append(Cell(row, f"sum of {STATISTICS * T} epsilon'", None, CLAIMED))
        for delta in deltas:
            cells += _both(each, delta)
    return Table(
        "tables-2-3-guarantee",
        f"Bootstrap: what the paper's noise really gives for both statistics of {T} subsets",
        tuple(cells),
        "guarantee",
        "Relation replace_one for all schemes; sensitivity (U - L)/m. Attained by one pair of data "
        "sets; certified for all of them.",
    )


def _both(each: Guarantee, delta: float) -> list[Cell]:
    at = f"at delta {delta:.2g}"
    attained, certified = f"epsilon attained {at}", f"epsilon certified {at}"
    bounds = dict(each.whole).get(delta)
    if bounds is None:
        return [Cell(each.row, column, None, None, reason=NOTHING)
                for column in (attained, certified)]  # fmt: skip
    if math.isfinite(bounds.upper):
        return [Cell(each.row, attained, None, bounds.lower),
                Cell(each.row, certified, None, bounds.upper)]  # fmt: skip
    lower, reason = known_lower(each, delta)
    return [
        Cell(each.row, attained, None, lower, reason=reason),
        Cell(each.row, certified, None, None, reason=INFINITE),
    ]


def known_lower(each: Guarantee, delta: float) -> tuple[float, str]:
    """The largest epsilon known to be attained at ``delta``, and where it comes from.

    Epsilon does not rise with delta, and all releases cost no less than one: what is attained at a
    larger delta, or by one subset at the paper's, is attained here as well.
    """
    found = [(bounds.lower, f"{AT_LARGER} {other:.2g} already" if other > delta else "")
             for other, bounds in each.whole if other >= delta]  # fmt: skip
    if each.one_subset is not None and delta <= DELTA:
        found.append((each.one_subset.lower, FROM_ONE))
    return max(found)


def guarantee_reading(found: Sequence[Guarantee], ratio: float) -> list[str]:
    """In words: how far the paper's claim is from what its noise gives."""
    first = [each for each in found if each.alone is not None and each.alone.lower > 0]
    least = min(first, key=lambda each: each.alone.lower if each.alone else math.inf)
    most = max(first, key=lambda each: each.alone.lower if each.alone else 0.0)
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
        f"{readable(_lower(least.alone), 'down')} ({least.row}) to "
        f"{readable(_lower(most.alone), 'down')} ({most.row}).",
        f"Added up over both statistics of {T} subsets the claim is {CLAIMED:g}. At delta "
        f"{DELTA:.2g} the whole release lies between (attained to certified): "
        f"{', '.join(certified)}.",
    ]
    endless = [each for each in found if each.whole and not math.isfinite(each.whole[0][1].upper)]
    if endless:
        listed = ", ".join(
            f"{each.row} (one subset alone attains {readable(_lower(each.one_subset), 'down')})"
            for each in endless
        )
        lines.append(f"No finite epsilon could be certified for {listed}.")
    unknown = [each.row for each in found if each.alone is None]
    if unknown:
        lines.append(f"For {', '.join(unknown)}, {NOTHING}.")
    return lines


def _lower(bounds: Bounds | None) -> float:
    return 0.0 if bounds is None else bounds.lower
