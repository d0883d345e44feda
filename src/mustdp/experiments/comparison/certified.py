"""What the paper's noise really gives: certified bounds of a whole run, correct sensitivity.

The paper calibrates its noise for statistics of all n records, sensitivity C/n for a mean, and adds
it to statistics of a batch of m. On the *sum* of a batch, whose sensitivity is what accountants
speak of, that is the noise multiplier z = m sigma / C. The bounds here are of that noise, for all
that a run releases and under one relation for all schemes. A part of the releases costs no more
than all of them, so what a part attains bounds the whole from below where nothing finite is
certified.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mustdp.accounting.bounds import Bounds
from mustdp.experiments.comparison.budgets import Setting
from mustdp.experiments.frame.cells import Cell, Table, new
from mustdp.experiments.frame.parallel import spread
from mustdp.progress import Progress

NOTHING = (
    "the paper divides by the random size of a Poisson subset, for which no sensitivity is known: "
    "no guarantee"
)
INFINITE = "no finite epsilon could be certified"
FROM_ONE = "attained by a single subset; all of them cost at least as much"
AT_LARGER = "attained at delta"


@dataclass(frozen=True)
class Guarantee:
    """What the noise of one row gives, beside what is claimed for it.

    A run has ``parts``, for each of which the paper claims ``epsilon_prime``. Bounds are None, and
    ``whole`` empty, where nothing is known.
    """

    row: str
    noise_multiplier: float
    epsilon_prime: float
    parts: int
    #: Of what follows, up to ``whole``.
    delta: float
    part: Bounds | None = None
    #: The releases of one subset, where they are more than a part and less than all.
    one_subset: Bounds | None = None
    #: All releases, by delta.
    whole: tuple[tuple[float, Bounds], ...] = ()

    @property
    def claimed(self) -> float:
        """The paper's epsilon' times the parts: the sum of what each is said to cost."""
        return self.epsilon_prime * self.parts


#: Titles of what is claimed for a part, what a part attains, and what is claimed in all.
BY_STEP = "epsilon' claimed for a step", "a step attains", "T times epsilon'"


def certify(
    setting: Setting, runs: Sequence[tuple[str, float]], workers: int, progress: Progress
) -> list[Guarantee]:
    """Bounds of epsilon of runs as the paper describes them, each a scheme and its epsilon'."""
    jobs = [(setting, name, prime) for name, prime in runs]
    return spread(_certified, jobs, workers=workers, progress=progress, what="certified bounds",
                  last_first=True)  # fmt: skip


def _certified(run: tuple[Setting, str, float]) -> Guarantee:
    setting, name, prime = run
    budget = setting.paper_budget(name, prime)
    whole, step = budget.spent().epsilon, budget.spent(1).epsilon
    return Guarantee(
        setting.row(name, prime), budget.noise_multiplier, prime, budget.steps, budget.delta, step,
        whole=((budget.delta, whole),),
    )  # fmt: skip


def guarantee_table(
    name: str,
    title: str,
    found: Sequence[Guarantee],
    note: str = "",
    titles: tuple[str, str, str] = BY_STEP,
) -> Table:
    """Noise multiplier, what is claimed and attained by a part, both bounds of the whole."""
    claimed, attains, in_all = titles
    deltas = [delta for delta, _ in max((each.whole for each in found), key=len)]
    cells: list[Cell] = []
    for each in found:
        row, lower = each.row, None if each.part is None else each.part.lower
        cells += [
            new(row, "noise multiplier z", each.noise_multiplier),
            new(row, claimed, each.epsilon_prime),
            new(row, f"{attains} at delta {each.delta:.2g}", lower,
                bound="lower", reason=NOTHING if lower is None else ""),
            new(row, in_all, each.claimed),
        ]  # fmt: skip
        for delta in deltas:
            cells += _both(each, delta)
    return Table(name, title, tuple(cells), "guarantee", note)


def _both(each: Guarantee, delta: float) -> list[Cell]:
    """What all releases attain at a delta, and what is certified for them."""
    bounds = dict(each.whole).get(delta)
    lower: float | None
    upper: float | None
    lower, below, upper, above = None, NOTHING, None, NOTHING
    if bounds is not None and math.isfinite(bounds.upper):
        lower, below, upper, above = bounds.lower, "", bounds.upper, ""
    elif bounds is not None:
        (lower, below), above = known_lower(each, delta), INFINITE
    at = f"at delta {delta:.2g}"
    return [
        new(each.row, f"epsilon attained {at}", lower, bound="lower", reason=below),
        new(each.row, f"epsilon certified {at}", upper, bound="upper", reason=above),
    ]


def known_lower(each: Guarantee, delta: float) -> tuple[float, str]:
    """The largest epsilon known to be attained at ``delta``, and where it comes from.

    Epsilon does not rise with delta, and all releases cost no less than one: what is attained at a
    larger delta, or by one subset at one, is attained here as well.
    """
    found = [(bounds.lower, f"{AT_LARGER} {other:.2g} already" if other > delta else "")
             for other, bounds in each.whole if other >= delta]  # fmt: skip
    if each.one_subset is not None and delta <= each.delta:
        found.append((each.one_subset.lower, FROM_ONE))
    return max(found)


def lower_of(bounds: Bounds | None) -> float:
    """What is attained; nothing where nothing is known."""
    return 0.0 if bounds is None else bounds.lower
