"""What the paper's noise really gives: certified bounds after all steps, correct sensitivity.

The paper calibrates its noise for the mean over all n records, sensitivity C/n, and adds it to the
mean over a batch of m. On the *sum* of a batch, whose sensitivity is what accountants speak of,
that is the noise multiplier z = m sigma / C (``mustdp.training.budget.paper_multiplier``). The
bounds here are of that noise, after all steps and under one relation for all schemes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mustdp.calibration.settle import Spent
from mustdp.experiments.cells import Cell, Table
from mustdp.experiments.item import Report
from mustdp.experiments.parallel import spread
from mustdp.numerics.decimals import readable
from mustdp.training.budget import Budget

#: One relation for all schemes, as guarantees under different relations do not compare.
RELATION = "replace_one"


@dataclass(frozen=True)
class Stated:
    """A run as the paper describes it: the row it stands in, its noise, its claim per step."""

    row: str
    budget: Budget
    epsilon_prime: float

    @property
    def claimed(self) -> float:
        """The paper's epsilon' times the steps: the sum of what each is said to cost."""
        return self.epsilon_prime * self.budget.steps


@dataclass(frozen=True)
class Really:
    """A stated run and what its noise really gives: in the whole run, and in one step of it."""

    stated: Stated
    spent: Spent
    one_step: Spent


def certify(runs: Sequence[Stated], workers: int, report: Report) -> list[Really]:
    """Bounds of epsilon of every run, at the delta of its budget."""
    # Two stages with replacement take longest, and long jobs go first.
    order = sorted(runs, key=lambda run: -len(run.budget.scheme.describe().get("stages", ())))
    spent = spread(_spent, [run.budget for run in order], workers=workers, report=report,
                   what="certified bounds")  # fmt: skip
    found = {id(run): Really(run, *costs) for run, costs in zip(order, spent, strict=True)}
    return [found[id(run)] for run in runs]


def _spent(budget: Budget) -> tuple[Spent, Spent]:
    return budget.spent(), budget.spent(1)


def guarantee_table(name: str, title: str, found: Sequence[Really], note: str = "") -> Table:
    """Noise multiplier, what is claimed and attained in a step, both bounds of the whole run."""
    cells: list[Cell] = []
    for each in found:
        row, epsilon = each.stated.row, each.spent.epsilon
        at = f"at delta {each.spent.delta:.2g}"
        cells.append(Cell(row, "noise multiplier z", None, each.spent.noise_multiplier))
        cells.append(Cell(row, "epsilon' claimed for a step", None, each.stated.epsilon_prime))
        cells.append(Cell(row, f"a step attains {at}", None, each.one_step.epsilon.lower))
        cells.append(Cell(row, "T times epsilon'", None, each.stated.claimed))
        cells.append(Cell(row, f"epsilon attained {at}", None, epsilon.lower))
        if math.isfinite(epsilon.upper):
            cells.append(Cell(row, f"epsilon certified {at}", None, epsilon.upper))
        else:
            cells.append(
                Cell(row, f"epsilon certified {at}", None, None, reason="none can be certified")
            )
    return Table(name, title, tuple(cells), "guarantee", note)


def claims_reading(found: Sequence[Really], ratio: float) -> list[str]:
    """In words: how far the paper's claims are from what its noise gives."""
    each = worst(found)
    epsilon, step = each.spent.epsilon, each.one_step.epsilon
    return [
        f"The paper computes its noise for the mean of all n records and adds it to the mean of m, "
        f"whose sensitivity is n/m = {ratio:.3g} times as large. Farthest from its claim is "
        f"{each.stated.row}: a step is said to cost {each.stated.epsilon_prime:.3g} and costs at "
        f"least {readable(step.lower, 'down')} at delta {each.spent.delta:.2g}; all "
        f"{each.spent.steps} steps cost between {readable(epsilon.lower, 'down')} (attained) and "
        f"{readable(epsilon.upper, 'up')} (certified)."
    ]


def worst(found: Sequence[Really]) -> Really:
    """The run whose steps attain most in comparison with what the paper claims for them."""
    return max(found, key=lambda each: each.one_step.epsilon.lower / each.stated.epsilon_prime)
