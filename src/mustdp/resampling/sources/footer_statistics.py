"""What the statistics in a Parquet footer already say against a column, before anything is read.

Writers may leave statistics out; then nothing is refused here and values are checked upon reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.resampling.sources.selection import Selected
from mustdp.resampling.sources.values import refuse_counted, refuse_inexact


def refuse_by_statistics(metadata: Any, columns: Sequence[Selected], where: str) -> None:
    """Refuse a column with missing or infinite values, or with integers that are not exact."""
    for column in columns:
        missing, called = 0, column.of(where)
        for statistics in _of_column(metadata, column.name):
            if statistics.has_null_count:
                missing += int(statistics.null_count)
            if statistics.has_min_max and statistics.logical_type.type != "DECIMAL":
                _refuse_extremes(statistics.min, statistics.max, called)
        refuse_counted(missing, 0, 0, int(metadata.num_rows), called)


def _refuse_extremes(low: Any, high: Any, column: str) -> None:
    if isinstance(low, float):
        if not (np.isfinite(low) and np.isfinite(high)):
            raise InvalidParameter(
                f"{column} must hold finite numbers only, got infinite ones by its statistics"
            )
    elif isinstance(low, int):
        refuse_inexact(low, high, column)


def _of_column(metadata: Any, name: str) -> Iterator[Any]:
    at = next(
        (at for at in range(metadata.num_columns) if metadata.schema.column(at).path == name), None
    )
    if at is None:
        return
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(at).statistics
        if statistics is not None:
            yield statistics
