"""What the paper's noise really gives, and all schemes at the same certified guarantee."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mustdp.accounting.bounds import Bounds
from mustdp.calibration.budget import Budget
from mustdp.numerics.formatting import readable
from mustdp.progress import Progress
from mustdp.reproduction.budgets import Setting, calibrated
from mustdp.reproduction.cells import (
    NAMES,
    PaperCell,
    PaperTable,
    Settings,
    new,
    number,
    scheme_called,
)
from mustdp.reproduction.runner import run_jobs
from mustdp.reproduction.simulation import RunMeasure
from mustdp.sampling.schemes import Scheme

# What the paper's noise really gives: certified bounds of a whole run, correct sensitivity.
#
# The paper calibrates its noise for statistics of all n records, sensitivity C/n for a mean, and
# adds it to statistics of a batch of m. On the *sum* of a batch, whose sensitivity is what
# accountants speak of, that is the noise multiplier z = m sigma / C. The bounds here are of that
# noise, for all that a run releases and under one relation for all schemes. A part of the releases
# costs no more than all of them, so what a part attains bounds the whole from below where nothing
# finite is certified.


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
    return run_jobs(_certified, jobs, workers=workers, progress=progress, what="certified bounds",
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
) -> PaperTable:
    """Noise multiplier, what is claimed and attained by a part, both bounds of the whole."""
    claimed, attains, in_all = titles
    deltas = [delta for delta, _ in max((each.whole for each in found), key=len)]
    cells: list[PaperCell] = []
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
    return PaperTable(name, title, tuple(cells), "guarantee", note)


def _both(each: Guarantee, delta: float) -> list[PaperCell]:
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


# All schemes at the same certified guarantee: needed noise, records touched, time, utility.
#
# The paper compares schemes at equal epsilon' of one step, where their delta' differ by factors.
# Here every scheme gets the noise it needs for the same (epsilon, delta) after all steps,
# certified, under one relation. What comes out is shown whichever scheme it favours.


#: Epsilon of the whole run; in quick mode the second one alone. And delta, unless said otherwise.
EPSILONS = (1.0, 4.0)
DELTA = 1e-5
#: What the noise of these tables was certified with.
COMPOSED = (
    "Composed with a family of pairs in every step where one is known, with one pair otherwise."
)
#: Standard errors from which on a difference is more than chance.
_CLEAR = 3.0


@dataclass(frozen=True)
class Target:
    """What a whole run of ``steps`` steps may cost."""

    epsilon: float
    delta: float
    steps: int


@dataclass(frozen=True)
class CalibratedRun:
    """The noise that one scheme needs for a target; ``epsilon.upper`` is at most the target."""

    name: str
    target: Target
    budget: Budget
    epsilon: Bounds

    @property
    def key(self) -> tuple[str, Target]:
        """Which of the calibrated runs it is."""
        return self.name, self.target

    @property
    def row(self) -> str:
        """The title of its row."""
        return f"{self.name}, epsilon {self.target.epsilon:g}, {self.target.steps} steps"


#: Measures of calibrated runs by their keys.
Measures = Mapping[tuple[str, Target], Sequence[RunMeasure]]


def names_at(quick: bool) -> tuple[str, ...]:
    """The schemes compared; quick runs leave MUSTww out, whose calibration takes ten seconds."""
    return NAMES[:-1] if quick else NAMES


def epsilons_at(quick: bool) -> tuple[float, ...]:
    """The epsilons compared at."""
    return EPSILONS[-1:] if quick else EPSILONS


def targets_at(quick: bool, delta: float, steps: int) -> tuple[Target, ...]:
    """The targets of one number of steps."""
    return tuple(Target(epsilon, delta, steps) for epsilon in epsilons_at(quick))


def calibrate_all(
    sizes: tuple[int, int, int],
    targets: Sequence[Target],
    names: Sequence[str],
    workers: int,
    progress: Progress,
) -> list[CalibratedRun]:
    """Calibrate every scheme of sizes (n, b, m) for every target."""
    jobs = [(name, scheme_called(name, *sizes), target) for target in targets for name in names]
    return run_jobs(
        _calibrated_run, jobs, workers=workers, progress=progress, what="calibrated noise",
        last_first=True,
    )  # fmt: skip


def _calibrated_run(job: tuple[str, Scheme, Target]) -> CalibratedRun:
    name, scheme, target = job
    return CalibratedRun(
        name, target, *calibrated(scheme, target.epsilon, target.delta, target.steps)
    )


def equal_cells(
    row: str,
    noise_multiplier: float,
    epsilon: Bounds,
    scheme: Scheme,
    measures: Sequence[RunMeasure],
    *,
    batch: str = "step",
) -> list[PaperCell]:
    """One scheme at a guarantee: the noise it needs, the records it touches, what was measured."""
    return [
        new(row, "noise multiplier z", noise_multiplier, bound="upper"),
        new(row, "epsilon certified", epsilon.upper, bound="upper"),
        new(row, f"distinct records per {batch}", scheme.expected_distinct),
        *measured_cells(row, measures),
    ]


def measured_cells(row: str, measures: Sequence[RunMeasure]) -> list[PaperCell]:
    """Measures as they are."""
    return [new(row, part.column, part.value, part.error) for part in measures]


def noise_reading(settled: Sequence[CalibratedRun]) -> list[str]:
    """In words, for every target: which noise each scheme needs and how many records it touches."""
    lines = []
    for target, rows in by_target(settled).items():
        noise = ", ".join(
            f"{each.name} {readable(each.budget.noise_multiplier, 'up')}" for each in rows
        )
        touched = ", ".join(
            f"{each.name} {each.budget.scheme.expected_distinct:.0f}" for each in rows
        )
        lines.append(
            f"For a certified epsilon of {target.epsilon:g} at delta {target.delta:.2g} after "
            f"{target.steps} steps the noise multiplier must be {noise}; a step touches {touched} "
            "distinct records."
        )
    return lines


def by_target(settled: Sequence[CalibratedRun]) -> dict[Target, list[CalibratedRun]]:
    """Calibrated runs that are to be compared with each other."""
    found: dict[Target, list[CalibratedRun]] = {}
    for each in settled:
        found.setdefault(each.target, []).append(each)
    return found


def utility_reading(
    settled: Sequence[CalibratedRun],
    measured: Measures,
    column: str,
    *,
    larger_is_better: bool,
    shown: str = ".3f",
) -> list[str]:
    """In words, for every target: which scheme does best, and whether that is more than chance."""
    lines = []
    for target, rows in by_target(settled).items():
        values = {
            each.name: next(part for part in measured[each.key] if part.column == column)
            for each in rows
        }
        listed = ", ".join(
            f"{name} {part.value:{shown}} (standard error {part.error or 0.0:{shown}})"
            for name, part in values.items()
        )
        lines.append(
            f"At this guarantee (epsilon {target.epsilon:g}, {target.steps} steps), {column}: "
            f"{listed}. {_verdict(values, larger_is_better, shown)}"
        )
    return lines


def _verdict(values: Mapping[str, RunMeasure], larger_is_better: bool, shown: str) -> str:
    """Who is best, who may be as good, and by how much the others are worse."""
    best = (max if larger_is_better else min)(values, key=lambda name: values[name].value)
    behind = {
        name: abs(part.value - values[best].value)
        for name, part in values.items()
        if abs(part.value - values[best].value)
        > _CLEAR * math.hypot(part.error or 0.0, values[best].error or 0.0)
    }
    if not behind:
        return "No scheme is ahead of another by more than three standard errors."
    close = [name for name in values if name != best and name not in behind]
    also = f", with {' and '.join(close)} within three standard errors" if close else ""
    worse = ", ".join(f"{name} by {gap:{shown}}" for name, gap in behind.items())
    return f"{best} is best{also}; worse: {worse}."


# All schemes at the same certified guarantee: the noise each needs, the records each touches.


def calibrate_schemes(
    settings: Settings, progress: Progress, sizes: tuple[int, int, int], steps: int
) -> list[CalibratedRun]:
    """Calibrate every scheme to the same guarantee after all steps, under replace_one.

    A quick run compares at the larger epsilon alone and leaves out MUSTww, which takes most of the
    time; the note says so.
    """
    targets = targets_at(settings.quick, DELTA, steps)
    names = names_at(settings.quick)
    return calibrate_all(sizes, targets, names, 1, progress)


def noise_table(found: Sequence[CalibratedRun], quick: bool) -> PaperTable:
    """One row per guarantee and scheme."""
    cells: list[PaperCell] = []
    for each in found:
        row = f"{_guarantee(each)}, {each.name}"
        cells += [
            new(row, "noise multiplier", each.budget.noise_multiplier, bound="upper"),
            new(row, "distinct records", each.budget.scheme.expected_distinct),
            new(row, "ε, attained", each.epsilon.lower, bound="lower"),
            new(row, "ε, certified", each.epsilon.upper, bound="upper"),
        ]
    steps = found[0].target.steps
    times = "one application" if steps == 1 else f"{steps} steps"
    left = " MUSTww and the smaller ε are left to the full run." if quick else ""
    return PaperTable(
        "equal",
        f"All schemes at the same certified guarantee after {times}, δ = {DELTA:g}",
        tuple(cells),
        "equal",
        "Gaussian noise on a sum of bounded contributions, in units of that bound; one record "
        f"replaced, for Poisson too. {COMPOSED}{left}",
    )


def least_and_most(found: Sequence[CalibratedRun]) -> str:
    """In words: which schemes need the least and the most noise at the first guarantee."""
    rows = next(iter(by_target(found).values()))
    order = sorted(rows, key=lambda each: each.budget.noise_multiplier)
    least, most = order[0], order[-1]
    little, much = (number(each.budget.noise_multiplier, 4, "up") for each in (least, most))
    listed = " < ".join(each.name for each in order)
    return (
        f"At the same certified guarantee ({_guarantee(least)}, δ = {DELTA:g}) {least.name} needs "
        f"the least noise, multiplier {little}, and {most.name} the most, {much}: {listed}."
    )


def _guarantee(each: CalibratedRun) -> str:
    return f"ε = {each.target.epsilon:g}"


# What every experiment of many steps shows beside the paper's own tables.
#
# Its stated noise is charged for what it really gives, and all schemes are compared at the noise
# that each needs for the same certified guarantee.


@dataclass(frozen=True)
class PaperComparison:
    """Bounds of the runs as stated, and the noise of all schemes for the same guarantees."""

    setting: Setting
    really: Sequence[Guarantee]
    settled: Sequence[CalibratedRun]

    def guarantee(self, note: str, title: str = "") -> PaperTable:
        """The table of what the stated noise gives."""
        setting = self.setting
        title = title or f"what the paper's noise really gives after {setting.steps} steps"
        name, title = f"{setting.item}-guarantee", f"{setting.title}: {title}"
        return guarantee_table(name, title, self.really, note)

    def equal(
        self, measured: Measures, references: Sequence[tuple[str, Sequence[RunMeasure]]], note: str
    ) -> PaperTable:
        """The table of all schemes at the same guarantee, with runs without noise beside them."""
        cells: list[PaperCell] = []
        for each in self.settled:
            budget, found = each.budget, measured[each.key]
            cells += equal_cells(
                each.row, budget.noise_multiplier, each.epsilon, budget.fresh_draws, found
            )
        for row, parts in references:
            cells += measured_cells(row, parts)
        title = f"{self.setting.title}: all schemes at the same certified guarantee"
        note = f"{note} {COMPOSED}".lstrip()
        return PaperTable(f"{self.setting.item}-equal", title, tuple(cells), "equal", note)

    def claims(self) -> list[str]:
        """In words: how far the paper's claims are from what its noise gives."""
        n, _, m = self.setting.sizes
        each = max(self.really, key=lambda one: lower_of(one.part) / one.epsilon_prime)
        ((delta, epsilon),) = each.whole
        return [
            f"The paper computes its noise for the mean of all n records and adds it to the mean "
            f"of m, whose sensitivity is n/m = {n / m:.3g} times as large. Farthest from its claim "
            f"is {each.row}: a step is said to cost {each.epsilon_prime:.3g} and costs at least "
            f"{readable(lower_of(each.part), 'down')} at delta {delta:.2g}; all "
            f"{each.parts} steps cost between {readable(epsilon.lower, 'down')} (attained) and "
            f"{readable(epsilon.upper, 'up')} (certified)."
        ]

    def reading(
        self, measured: Measures, column: str, *, larger_is_better: bool, shown: str
    ) -> list[str]:
        """In words: what schemes need for the same guarantee, and what it leaves of utility."""
        return noise_reading(self.settled) + utility_reading(
            self.settled, measured, column, larger_is_better=larger_is_better, shown=shown
        )


def compare(
    setting: Setting, settings: Settings, progress: Progress, *, delta: float, steps: Sequence[int]
) -> PaperComparison:
    """Certify the stated runs, and calibrate all schemes for runs of ``steps`` steps."""
    stated = [(name, prime) for prime in setting.primes for name in NAMES]
    targets = [target for count in steps for target in targets_at(settings.quick, delta, count)]
    names = names_at(settings.quick)
    return PaperComparison(
        setting,
        certify(setting, stated, settings.workers, progress),
        calibrate_all(setting.sizes, targets, names, settings.workers, progress),
    )
