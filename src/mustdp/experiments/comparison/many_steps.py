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
from mustdp.experiments.frame.cells import Table
from mustdp.experiments.frame.items import Settings
from mustdp.experiments.frame.schemes import NAMES
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
        self,
        measured: Measures,
        references: Sequence[tuple[str, Sequence[Measured]]],
        note: str,
    ) -> Table:
        """The table of all schemes at the same guarantee, with runs without noise beside them."""
        title = f"{self.setting.title}: all schemes at the same certified guarantee"
        name = f"{self.setting.item}-equal"
        return equal_guarantee.equal_table(name, title, self.settled, measured, references, note)

    def claims(self) -> list[str]:
        """In words: how far the paper's claims are from what its noise gives."""
        n, _, m = self.setting.sizes
        return certified.claims_reading(self.really, n / m)

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
    stated = [
        certified.Stated(setting.row(name, prime), setting.paper_budget(name, prime), prime)
        for prime in setting.primes
        for name in NAMES
    ]
    targets = [target for count in steps for target in targets_at(settings.quick, delta, count)]
    names = names_at(settings.quick)
    return Comparison(
        setting,
        certified.certify(stated, settings.workers, progress),
        equal_guarantee.settle_all(setting.sizes, targets, names, settings.workers, progress),
    )
