"""What is asked of a release: which part it needs, and how it is read off that part."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mustdp.errors import InvalidParameter
from mustdp.releasing.estimate import ReleasedEstimate, estimated
from mustdp.releasing.ground import OTHER, Column, Ground
from mustdp.releasing.parts import Part
from mustdp.releasing.stack import Noisy
from mustdp.releasing.strata import over_strata
from mustdp.releasing.uncertainty import CLEARLY, Reading

#: Said where the strata with shares are not all that the data have.
UNLISTED = (
    f"records are in no listed stratum and count for nothing: give stratum_shares for all strata, "
    f"or one for {OTHER!r}, which holds the rest"
)


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

    @property
    def twice(self) -> bool:
        """Whether a second round tells its sampling error."""
        return False

    @property
    def influenced(self) -> bool:
        """Whether its errors need nothing but that second round, also with weights."""
        return False

    @property
    def linearised(self) -> Asked:
        """The statistic that is asked about in the second round."""
        return self

    def again(self, noisy: Noisy, together: Sequence[Asked]) -> Part:
        """What is asked in the second round, chosen by the first, for all that share it."""
        raise InvalidParameter(f"{self.name} must have no second round")

    @property
    def possible(self) -> tuple[float, float]:
        """What an estimate can be, whatever the data are."""
        return (-math.inf, math.inf)

    @abstractmethod
    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """The estimates of one slot, each with the name of its cell, empty for none."""

    def clusters(self, noisy: Noisy, slot: int) -> float:
        """At least so many clusters are in a slot, by what is public or released: n / m, m the size
        of the largest. One for each record where there are none.

        Where clusters are smaller than the largest there are more of them, and quantiles of t are
        larger than needed.
        """
        records = float(noisy.sums[slot, 0])
        return max(records / float(self.ground.largest_cluster or 1), 2.0)

    def describe(self, cell: str) -> str:
        """What is estimated, in words."""
        return f"{self.name} of {', '.join(self.said(k) for k in self.columns)}"

    def said(self, column: int) -> str:
        """A column, and what is done to it."""
        return said(self.ground.columns[column])

    def read_strata(
        self, noisy: Noisy | None, second: Noisy | None, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """The estimates of all strata together: here, of those that are averages of theirs."""
        count = len(self.ground.shares)
        rows = [list(self.read(noisy, second, slot, level)) for slot in range(count)]
        for cells in zip(*rows, strict=True):
            readings = [reading for _, reading in cells]
            yield cells[0][0], over_strata(readings, self.ground, level, self.possible)

    def estimates(
        self, noisy: Noisy | None, second: Noisy | None, level: float
    ) -> Iterator[ReleasedEstimate]:
        """The estimates of all slots; ``second`` is for those that need another round."""
        ground = self.ground
        if ground.shares:
            where = f", over {len(ground.shares)} strata"
            left_out = _outside_strata(ground, noisy)
            for cell, reading in self.read_strata(noisy, second, level):
                flagged = replace(reading, flags=(*reading.flags, *left_out))
                yield self._named(flagged, None, cell, where)
            return
        for slot, group in enumerate(ground.groups or (None,)):
            where = "" if group is None else f" where {ground.by} is {group}"
            for cell, reading in self.read(noisy, second, slot, level):
                yield self._named(reading, group, cell, where)

    def _named(
        self, reading: Reading, group: str | None, cell: str, where: str
    ) -> ReleasedEstimate:
        return estimated(
            reading,
            statistic=self.name,
            column=", ".join(self.ground.columns[k].name for k in self.columns) or None,
            group=group,
            cell=cell or None,
            description=self.describe(cell) + where,
            where=where,
        )

    def left(self, noisy: Noisy, slot: int) -> float:
        """The finite-population correction: of the stratum, where the slots are strata."""
        ground = self.ground
        if not ground.shares:
            return ground.unsampled(self.total(noisy))
        return ground.unsampled(float(noisy.sums[slot, 0]), ground.shares[slot])

    def total(self, noisy: Noisy) -> float:
        """The number of all records; of those that have a value, where no more is known.

        A public number counts the records with missing values, too: whether a value is missing is
        part of what was sampled.
        """
        if self.ground.public_size:
            return float(self.ground.n or 1)
        return max(float(noisy.sums[:, 0].sum()), 1.0)


def _outside_strata(ground: Ground, noisy: Noisy | None) -> tuple[str, ...]:
    """What to say where clearly some records are in no stratum that has a share.

    Their number is released as that of any group: reading it costs nothing.
    """
    if noisy is None or len(ground.shares) == ground.slots:
        return ()
    found, error = float(noisy.sums[-1, 0]), math.sqrt(float(noisy.noise.own[0]))
    return (UNLISTED,) if found > CLEARLY * error else ()


def said(column: Column) -> str:
    """A column in words: what is clipped is called so."""
    if column.range is None:
        return column.name
    return f"{column.name} clipped to [{column.range.lower:g}, {column.range.upper:g}]"
