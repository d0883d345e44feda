"""Times of the paper's Table 7, as ratios: machines differ, proportions should not."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mustdp.experiments.frame.cells import Cell, Table, judge
from mustdp.experiments.frame.published import NAMES

#: The scheme whose time is one.
UNIT = "Poisson"
_HALF_OF_PRINTED = 0.005


def time_table(
    name: str,
    title: str,
    printed: Mapping[str, float],
    measured: Mapping[str, NDArray[np.float64]],
    reason: str,
    note: str = "",
) -> Table:
    """Time of every scheme over that of Poisson sampling; ``measured`` holds repeated times."""
    cells: list[Cell] = []
    unit = measured[UNIT]
    for scheme in NAMES:
        if scheme == UNIT or scheme not in measured:
            continue
        paper = printed[scheme] / printed[UNIT]
        ours = float(measured[scheme].mean() / unit.mean())
        error = ours * math.hypot(_relative_error(measured[scheme]), _relative_error(unit))
        rounding = paper * _HALF_OF_PRINTED * (1 / printed[scheme] + 1 / printed[UNIT])
        cells.append(
            judge(scheme, "time over Poisson's", paper, ours, half_unit=rounding, error=error,
                  reason=reason)
        )  # fmt: skip
    return Table(
        name,
        title,
        tuple(cells),
        "paper",
        note or "CPU time of one core; each distinct record is computed once.",
    )


def _relative_error(times: NDArray[np.float64]) -> float:
    if times.size < 2:
        return 0.0
    return float(times.std(ddof=1) / math.sqrt(times.size) / times.mean())
