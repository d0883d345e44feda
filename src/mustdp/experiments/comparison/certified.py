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
from mustdp.experiments.comparison.budgets import Budget
from mustdp.experiments.frame.cells import Cell, Table, new
from mustdp.experiments.frame.parallel import spread
from mustdp.numerics.decimals import readable
from mustdp.progress import Progress

NOTHING = (
    "the paper divides by the random size of a Poisson subset, for which no sensitivity is known: "
    "no guarantee"
)
INFINITE = "no finite epsilon could be certified"
FROM_ONE = "attained by a single subset; all of them cost at least as much"
AT_LARGER = "attained at delta"


@dataclass(frozen=True)
class Stated:
    """A run as the paper describes it: the row it stands in, its noise, its claim per step."""

    row: str
    budget: Budget
    epsilon_prime: float


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


@dataclass(frozen=True)
class Titles:
    """Titles of what is claimed for a part, what a part attains, and what is claimed in all."""

    claimed: str = "epsilon' claimed for a step"
    attains: str = "a step attains"
    in_all: str = "T times epsilon'"


def certify(runs: Sequence[Stated], workers: int, progress: Progress) -> list[Guarantee]:
    """Bounds of epsilon of every run of many steps, at the delta of its budget."""
    return spread(_certified, runs, workers=workers, progress=progress, what="certified bounds",
                  last_first=True)  # fmt: skip


def _certified(run: Stated) -> Guarantee:
    budget = run.budget
    whole, step = budget.spent().epsilon, budget.spent(1).epsilon
    return Guarantee(
        run.row, budget.noise_multiplier, run.epsilon_prime, budget.steps, budget.delta, step,
        whole=((budget.delta, whole),),
    )  # fmt: skip


def guarantee_table(
    name: str,
    title: str,
    found: Sequence[Guarantee],
    note: str = "",
    titles: Titles | None = None,
) -> Table:
    """Noise multiplier, what is claimed and attained by a part, both bounds of the whole."""
    titles = titles or Titles()
    deltas = [delta for delta, _ in max((each.whole for each in found), key=len)]
    cells: list[Cell] = []
    for each in found:
        row, lower = each.row, None if each.part is None else each.part.lower
        cells += [
            new(row, "noise multiplier z", each.noise_multiplier),
            new(row, titles.claimed, each.epsilon_prime),
            new(row, f"{titles.attains} at delta {each.delta:.2g}", lower,
                bound="lower", reason=NOTHING if lower is None else ""),
            new(row, titles.in_all, each.claimed),
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


def claims_reading(found: Sequence[Guarantee], ratio: float) -> list[str]:
    """In words: how far the paper's claims are from what its noise gives."""
    each = max(found, key=_beyond_claim)
    ((delta, epsilon),) = each.whole
    return [
        f"The paper computes its noise for the mean of all n records and adds it to the mean of m, "
        f"whose sensitivity is n/m = {ratio:.3g} times as large. Farthest from its claim is "
        f"{each.row}: a step is said to cost {each.epsilon_prime:.3g} and costs at least "
        f"{readable(lower_of(each.part), 'down')} at delta {delta:.2g}; all {each.parts} steps "
        f"cost between {readable(epsilon.lower, 'down')} (attained) and "
        f"{readable(epsilon.upper, 'up')} (certified)."
    ]


def _beyond_claim(each: Guarantee) -> float:
    """What a part attains in comparison with what the paper claims for it."""
    return lower_of(each.part) / each.epsilon_prime


def lower_of(bounds: Bounds | None) -> float:
    """What is attained; nothing where nothing is known."""
    return 0.0 if bounds is None else bounds.lower
