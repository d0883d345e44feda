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
from mustdp.calibration.noise import calibrate
from mustdp.experiments.comparison.certified import RELATION
from mustdp.experiments.frame.cells import Cell, Table
from mustdp.experiments.frame.items import Report
from mustdp.experiments.frame.parallel import spread
from mustdp.experiments.frame.schemes import NAMES, scheme_called
from mustdp.numerics.decimals import readable
from mustdp.sampling.scheme import Scheme
from mustdp.training.budget import Budget

#: Epsilon of the whole run; in quick mode the second one alone.
EPSILONS = (1.0, 4.0)
#: Standard errors from which on a difference is more than chance.
_CLEAR = 3.0


@dataclass(frozen=True)
class Target:
    """What a whole run of ``steps`` steps may cost."""

    epsilon: float
    delta: float
    steps: int

    @property
    def words(self) -> str:
        """For the rows of tables."""
        return f"epsilon {self.epsilon:g}, {self.steps} steps"


@dataclass(frozen=True)
class Settled:
    """The noise that one scheme needs for a target; ``epsilon.upper`` is at most the target."""

    name: str
    target: Target
    budget: Budget
    epsilon: Bounds


@dataclass(frozen=True)
class Measured:
    """One measure of settled runs: its mean over them and its standard error, if any."""

    column: str
    value: float
    error: float | None = None


def names_at(quick: bool) -> tuple[str, ...]:
    """The schemes compared; quick runs leave MUSTww out, whose calibration takes ten seconds."""
    return NAMES[:-1] if quick else NAMES


def targets_at(quick: bool, delta: float, steps: int) -> tuple[Target, ...]:
    """The targets of one number of steps."""
    chosen = EPSILONS[-1:] if quick else EPSILONS
    return tuple(Target(epsilon, delta, steps) for epsilon in chosen)


def settle_all(
    sizes: tuple[int, int, int],
    targets: Sequence[Target],
    names: Sequence[str],
    workers: int,
    report: Report,
) -> list[Settled]:
    """Calibrate every scheme of sizes (n, b, m) for every target; the slowest go first."""
    jobs = [
        (name, scheme_called(name, *sizes), target)
        for name in reversed(names)
        for target in targets
    ]
    found = spread(_settle, jobs, workers=workers, report=report, what="calibrated noise")
    order = {(name, target): k for k, (name, target) in enumerate(
        (name, target) for target in targets for name in names
    )}  # fmt: skip
    return sorted(found, key=lambda each: order[each.name, each.target])


def _settle(job: tuple[str, Scheme, Target]) -> Settled:
    name, scheme, target = job
    found = calibrate(
        scheme, epsilon=target.epsilon, delta=target.delta, steps=target.steps, relation=RELATION
    )
    budget = Budget(
        scheme, found.noise_multiplier, target.steps, target.delta, found.relation,
        "calibrated for a certified epsilon",
    )  # fmt: skip
    return Settled(name, target, budget, found.epsilon)


def equal_table(
    name: str,
    title: str,
    settled: Sequence[Settled],
    measured: Mapping[tuple[str, Target], Sequence[Measured]],
    references: Sequence[tuple[str, Measured]] = (),
    note: str = "",
) -> Table:
    """One row per scheme and target; ``references`` are measures of runs without noise."""
    cells: list[Cell] = []
    for each in settled:
        row = f"{each.name}, {each.target.words}"
        budget = each.budget
        cells.append(Cell(row, "noise multiplier z", None, budget.noise_multiplier))
        cells.append(Cell(row, "epsilon certified", None, each.epsilon.upper))
        cells.append(Cell(row, "distinct records per step", None, budget.scheme.expected_distinct))
        cells += [
            Cell(row, part.column, None, part.value, part.error)
            for part in measured[each.name, each.target]
        ]
    cells += [Cell(row, part.column, None, part.value, part.error) for row, part in references]
    return Table(name, title, tuple(cells), "equal", note)


def noise_reading(settled: Sequence[Settled]) -> list[str]:
    """In words, for every target: which noise each scheme needs and how many records it touches."""
    lines = []
    for target in dict.fromkeys(each.target for each in settled):
        rows = [each for each in settled if each.target == target]
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


def utility_reading(
    settled: Sequence[Settled],
    measured: Mapping[tuple[str, Target], Sequence[Measured]],
    column: str,
    *,
    larger_is_better: bool,
    shown: str = ".3f",
) -> list[str]:
    """In words, for every target: which scheme does best, and whether that is more than chance."""
    lines = []
    for target in dict.fromkeys(each.target for each in settled):
        values = {
            each.name: next(p for p in measured[each.name, target] if p.column == column)
            for each in settled
            if each.target == target
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
