"""The selected columns of a moderate source as one clipped array, made once for all subsets.

Clipping and converting every subset by itself costs more than drawing it when subsets are small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.execution.bundles import MOST_VALUES
from mustdp.resampling.sources.source import Source

#: Sources in memory with more rows than this are read subset by subset.
MOST_ROWS = 5_000_000

_CHUNK = 250_000


@dataclass(frozen=True, eq=False, repr=False)
class ClippedTable:
    """All rows of a source, clipped; ``values`` may be mapped from a file that workers map too."""

    values: FloatArray

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.values.nbytes

    @property
    def plain(self) -> FloatArray:
        """The rows as a plain array: indexing a memory map is slow."""
        return np.asarray(self.values)


#: What portions can be computed from.
SourceOrTable = Source | ClippedTable


def as_table(source: Source, lower: FloatArray, upper: FloatArray, *, files: bool) -> SourceOrTable:
    """The source as a clipped table, if it is small enough for its kind, else itself.

    With ``files``, a file that is smaller than what is read from larger ones at a time is read
    into memory.
    """
    if source.rows_in_memory:
        if source.n > MOST_ROWS:
            return source
    elif not files or source.n * len(source.columns) > MOST_VALUES:
        return source
    at_once = _CHUNK if source.rows_in_memory else source.n
    values = np.empty((source.n, len(source.columns)))
    for start in range(0, source.n, at_once):
        rows = np.arange(start, min(start + at_once, source.n))
        values[start : start + rows.size] = taken(source, rows, lower, upper)
    values.setflags(write=False)
    return ClippedTable(values)


def is_in_memory(data: SourceOrTable) -> bool:
    """Whether reading some rows is a matter of memory alone."""
    return isinstance(data, ClippedTable) or data.rows_in_memory


def taken(source: Source, rows: IntArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Rows of a source, clipped to the bounds; in C order, so that sums have one order."""
    if rows.size == 0:
        return np.empty((0, lower.size))
    return within_bounds(source.take(rows), lower, upper)


def within_bounds(values: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """A new array in C order with every column inside its bounds; NaN and infinity are refused."""
    if values.ndim != 2 or values.shape[1] != lower.size:
        raise InvalidParameter(
            f"source must give rows of {lower.size} columns, got shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise InvalidParameter("data must be finite numbers, got NaN or infinity among the rows")
    inside = np.empty(values.shape)
    return np.clip(values, lower, upper, out=inside)
