"""All schemes at the same certified guarantee: needed noise, records touched, time, utility.

The paper compares schemes at equal epsilon' of one step, where their delta' differ by factors. Here
every scheme gets the noise it needs for the same (epsilon, delta) after all steps, certified, under
one relation. What comes out is shown whichever scheme it favours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mustdp.accounting.bounds import Bounds
from mustdp.experiments.comparison.budgets import Budget, calibrated
from mustdp.experiments.comparison.measured import Measured
from mustdp.experiments.frame.cells import Cell, new
from mustdp.experiments.frame.parallel import spread
from mustdp.experiments.frame.published import NAMES, scheme_called
from mustdp.numerics.decimals import readable
from mustdp.progress import Progress
from mustdp.sampling.scheme import Scheme

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
class Settled:
    """The noise that one scheme needs for a target; ``epsilon.upper`` is at most the target."""

    name: str
    target: Target
    budget: Budget
    epsilon: Bounds

    @property
    def key(self) -> tuple[str, Target]:
        """Which of the settled runs it is."""
        return self.name, self.target

    @property
    def row(self) -> str:
        """The title of its row."""
        return f"{self.name}, epsilon {self.target.epsilon:g}, {self.target.steps} steps"


#: Measures of settled runs by their keys.
Measures = Mapping[tuple[str, Target], Sequence[Measured]]


def names_at(quick: bool) -> tuple[str, ...]:
    """The schemes compared; quick runs leave MUSTww out, whose calibration takes ten seconds."""
    return NAMES[:-1] if quick else NAMES


def epsilons_at(quick: bool) -> tuple[float, ...]:
    """The epsilons compared at."""
    return EPSILONS[-1:] if quick else EPSILONS


def targets_at(quick: bool, delta: float, steps: int) -> tuple[Target, ...]:
    """The targets of one number of steps."""
    return tuple(Target(epsilon, delta, steps) for epsilon in epsilons_at(quick))


def settle_all(
    sizes: tuple[int, int, int],
    targets: Sequence[Target],
    names: Sequence[str],
    workers: int,
    progress: Progress,
) -> list[Settled]:
    """Calibrate every scheme of sizes (n, b, m) for every target."""
    jobs = [(name, scheme_called(name, *sizes), target) for target in targets for name in names]
    return spread(_settle, jobs, workers=workers, progress=progress, what="calibrated noise",
                  last_first=True)  # fmt: skip


def _settle(job: tuple[str, Scheme, Target]) -> Settled:
    name, scheme, target = job
    return Settled(name, target, *calibrated(scheme, target.epsilon, target.delta, target.steps))


def equal_cells(
    row: str,
    noise_multiplier: float,
    epsilon: Bounds,
    scheme: Scheme,
    measures: Sequence[Measured],
    *,
    batch: str = "step",
) -> list[Cell]:
    """One scheme at a guarantee: the noise it needs, the records it touches, what was measured."""
    return [
        new(row, "noise multiplier z", noise_multiplier, bound="upper"),
        new(row, "epsilon certified", epsilon.upper, bound="upper"),
        new(row, f"distinct records per {batch}", scheme.expected_distinct),
        *measured_cells(row, measures),
    ]


def measured_cells(row: str, measures: Sequence[Measured]) -> list[Cell]:
    """Measures as they are."""
    return [new(row, part.column, part.value, part.error) for part in measures]


def noise_reading(settled: Sequence[Settled]) -> list[str]:
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


def by_target(settled: Sequence[Settled]) -> dict[Target, list[Settled]]:
    """Settled runs that are to be compared with each other."""
    found: dict[Target, list[Settled]] = {}
    for each in settled:
        found.setdefault(each.target, []).append(each)
    return found


def utility_reading(
    settled: Sequence[Settled],
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


def _verdict(values: Mapping[str, Measured], larger_is_better: bool, shown: str) -> str:
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
