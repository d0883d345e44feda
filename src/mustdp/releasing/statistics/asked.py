"""What is asked of a release: which part it needs, and how it is read off that part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from mustdp.releasing.estimate import ReleasedEstimate, estimated
from mustdp.releasing.ground import Column, Ground
from mustdp.releasing.parts import Part
from mustdp.releasing.stack import Noisy
from mustdp.releasing.uncertainty import Reading


@dataclass(frozen=True)
class Asked(ABC):
    """A statistic of some columns, bound to the ground."""

    ground: Ground
    columns: tuple[int, ...]

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in results."""

    @property
    @abstractmethod
    def part(self) -> Part | None:
        """The part that it is read off; equal parts are released once. None if it is public."""

    @abstractmethod
    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """The estimates of one slot, each with the name of its cell, empty for none."""

    def describe(self, cell: str) -> str:
        """What is estimated, in words."""
        return f"{self.name} of {', '.join(self.said(k) for k in self.columns)}"

    def said(self, column: int) -> str:
        """A column, and what is done to it."""
        return said(self.ground.columns[column])

    def estimates(
        self, noisy: Noisy | None, second: Noisy | None, level: float
    ) -> Iterator[ReleasedEstimate]:
        """The estimates of all slots; ``second`` is for those that need another round."""
        for slot, group in enumerate(self.ground.groups or (None,)):
            for cell, reading in self.read(noisy, second, slot, level):
                where = "" if group is None else f" where {self.ground.by} is {group}"
                yield estimated(
                    reading,
                    statistic=self.name,
                    column=", ".join(self.ground.columns[k].name for k in self.columns) or None,
                    group=group,
                    cell=cell or None,
                    description=self.describe(cell) + where,
                )

    def total(self, noisy: Noisy) -> float:
        """The number of all records that count, as far as it is known."""
        if self.ground.public_size and not self.ground.dropped:
            return float(self.ground.n or 1)
        return max(float(noisy.sums[:, 0].sum()), 1.0)


def said(column: Column) -> str:
    """A column in words: what is clipped is called so."""
    if column.range is None:
        return column.name
    return f"{column.name} clipped to [{column.range.lower:g}, {column.range.upper:g}]"
