"""Measures of simulated runs: their mean over the runs and its standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.experiments.frame.cells import Cell, judge
from mustdp.numerics.arrays import FloatArray

ACCURACY = "test accuracy, %"
#: Standard deviation of the accuracy of one run, in points, where a single one was made.
_ONE_RUN = 2.0
#: Half of the last digit that the paper prints of an accuracy.
_HALF_OF_PRINTED = 0.005


@dataclass(frozen=True)
class Measured:
    """One measure of settled runs: its mean over them and its standard error, if any."""

    column: str
    value: float
    error: float | None = None


def mean_of(column: str, values: FloatArray) -> Measured:
    """The mean of independent values."""
    return Measured(column, float(values.mean()), standard_error(values))


def deviation(values: FloatArray) -> float:
    """Standard deviation of one run; of a single one it is not known and taken to be two points."""
    return float(values.std(ddof=1)) if values.size > 1 else _ONE_RUN


def standard_error(values: FloatArray) -> float:
    """Standard error of the mean."""
    return deviation(values) / math.sqrt(values.size)


def root_mean(squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Roots of the means over the first axis, and their standard errors (delta method)."""
    root = np.sqrt(squares.mean(axis=0))
    error = squares.std(axis=0, ddof=1) / math.sqrt(len(squares)) / (2.0 * root)
    return np.asarray(root), np.asarray(error)


def accuracy_cell(
    row: str, column: str, printed: float, values: FloatArray, reason: str = ""
) -> Cell:
    """The paper's accuracy, of one run, against the mean of ours."""
    return judge(
        row, column, printed, float(values.mean()), half_unit=_HALF_OF_PRINTED,
        error=standard_error(values), paper_error=deviation(values), reason=reason,
    )  # fmt: skip


def moment_cells(
    row: str,
    columns: tuple[str, str],
    printed: Sequence[float | None],
    values: FloatArray,
    *,
    half_unit: float,
    sets: int,
    lost: int = 0,
    reason: str = "",
) -> list[Cell]:
    """Mean and standard deviation over data sets, against the paper's over ``sets`` of them.

    ``half_unit`` is of the mean; a deviation is printed to three decimals. ``lost`` are the degrees
    of freedom that an error of the deviation leaves out.
    """
    mean, theirs = printed[0], printed[1] or 0.0
    ours, count = float(values.std(ddof=1)), values.size
    return [
        judge(row, columns[0], mean, float(values.mean()), half_unit=half_unit, reason=reason,
              error=ours / math.sqrt(count), paper_error=theirs / math.sqrt(sets)),
        judge(row, columns[1], printed[1], ours, half_unit=0.0005, reason=reason,
              error=ours / math.sqrt(2 * (count - lost)),
              paper_error=theirs / math.sqrt(2 * (sets - lost))),
    ]  # fmt: skip
