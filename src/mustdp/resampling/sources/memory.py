"""Records that are held in memory, whatever they were before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen
from mustdp.resampling.sources.source import Source


@dataclass(frozen=True, eq=False, repr=False)
class ArraySource(Source):
    """Rows of an array ``(n, columns)`` that has been checked; seen read-only, not copied."""

    values: FloatArray
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values.view()))

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.values)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the selected columns."""
        return self.names

    @property
    def rows_in_memory(self) -> bool:
        """True."""
        return True

    def _read(self, indices: IntArray) -> FloatArray:
        return self.values.take(indices, axis=0)


def side_by_side(columns: Sequence[FloatArray]) -> FloatArray:
    """Columns as one array with a row per record; a single column is not copied."""
    if len(columns) == 1:
        return columns[0][:, np.newaxis]
    return np.stack(columns, axis=1)
