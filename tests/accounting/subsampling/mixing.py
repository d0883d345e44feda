"""Whether a pair of data sets lies below a mixture of cells, as the common records of a draw do."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from mustdp.accounting.families.triples import Copies, TripleCell
from tests.arrays import FloatArray


def rows_of(family: Copies, epsilon: FloatArray, cells: list[TripleCell]) -> FloatArray:
    """Both profiles of every cell, one row each."""
    both = [family.corners(cell) for cell in cells]
    ahead = family.profiles([first for first, _ in both], epsilon)
    return np.concatenate([ahead, family.profiles([second for _, second in both], epsilon)], axis=1)


def below_a_mixture(rows: FloatArray, values: FloatArray, tolerance: float = 1e-3) -> bool:
    """Whether some mixture of the rows is nowhere below the values, but for the tolerance."""
    scaled = rows / np.maximum(values, 1e-12)
    weights = linprog(
        np.append(np.zeros(rows.shape[0]), -1.0),
        A_ub=np.concatenate([-scaled.T, np.ones((values.size, 1))], axis=1),
        b_ub=np.zeros(values.size),
        A_eq=np.append(np.ones(rows.shape[0]), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0.0, None)] * rows.shape[0] + [(None, None)],
    )
    assert weights.x is not None
    return float(weights.x[-1]) >= 1.0 - tolerance
