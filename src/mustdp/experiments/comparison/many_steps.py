"""What every experiment of many steps shows beside the paper's own tables.

Its stated noise is charged for what it really gives, and all schemes are compared at the noise that
each needs for the same certified guarantee.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mustdp.experiments.comparison import certified, equal_guarantee
from mustdp.experiments.comparison.budgets import Setting
from mustdp.experiments.comparison.equal_guarantee import Measures, Settled, names_at, targets_at
from mustdp.experiments.comparison.measured import Measured
from mustdp.experiments.frame.cells import Cell, Table
from mustdp.experiments.frame.items import Settings
from mustdp.experiments.frame.published import NAMES
from mustdp.numerics.decimals import readable
from mustdp.progress import Progress


@dataclass(frozen=True)
class Comparison:
    """Bounds of the runs as stated, and the noise of all schemes for the same guarantees."""

    setting: Setting
    really: Sequence[certified.Guarantee]
    settled: Sequence[Settled]

    def guarantee(self, note: str, title: str = "") -> Table:
        """The table of what the stated noise gives."""
        setting = self.setting
        title = title or f"what the paper's noise really gives after {setting.steps} steps"
        name, title = f"{setting.item}-guarantee", f"{setting.title}: {title}"
        return certified.guarantee_table(name, title, self.really, note)

    def equal(
        self, measured: Measures, references: Sequence[tuple[str, Sequence[Measured]]], note: str
    ) -> Table:
        """The table of all schemes at the same guarantee, with runs without noise beside them."""
        cells: list[Cell] = []
        for each in self.settled:
            budget, found = each.budget, measured[each.key]
            cells += equal_guarantee.equal_cells(
                each.row, budget.noise_multiplier, each.epsilon, budget.fresh_draws, found
            )
        for row, parts in references:
            cells += equal_guarantee.measured_cells(row, parts)
        title = f"{self.setting.title}: all schemes at the same certified guarantee"
        note = f"{note} {equal_guarantee.COMPOSED}".lstrip()
        return Table(f"{self.setting.item}-equal", title, tuple(cells), "equal", note)

    def claims(self) -> list[str]:
        """In words: how far the paper's claims are from what its noise gives."""
        n, _, m = self.setting.sizes
        each = max(self.really, key=lambda one: certified.lower_of(one.part) / one.epsilon_prime)
        ((delta, epsilon),) = each.whole
        return [
            f"The paper computes its noise for the mean of all n records and adds it to the mean "
            f"of m, whose sensitivity is n/m = {n / m:.3g} times as large. Farthest from its claim "
            f"is {each.row}: a step is said to cost {each.epsilon_prime:.3g} and costs at least "
            f"{readable(certified.lower_of(each.part), 'down')} at delta {delta:.2g}; all "
            f"{each.parts} steps cost between {readable(epsilon.lower, 'down')} (attained) and "
            f"{readable(epsilon.upper, 'up')} (certified)."
        ]

    def reading(
        self, measured: Measures, column: str, *, larger_is_better: bool, shown: str
    ) -> list[str]:
        """In words: what schemes need for the same guarantee, and what it leaves of utility."""
        return equal_guarantee.noise_reading(self.settled) + equal_guarantee.utility_reading(
            self.settled, measured, column, larger_is_better=larger_is_better, shown=shown
        )


def compare(
    setting: Setting, settings: Settings, progress: Progress, *, delta: float, steps: Sequence[int]
) -> Comparison:
    """Certify the stated runs, and calibrate all schemes for runs of so many ``steps``."""
    stated = [(name, prime) for prime in setting.primes for name in NAMES]
    targets = [target for count in steps for target in targets_at(settings.quick, delta, count)]
    names = names_at(settings.quick)
    return Comparison(
        setting,
        certified.certify(setting, stated, settings.workers, progress),
        equal_guarantee.settle_all(setting.sizes, targets, names, settings.workers, progress),
    )
