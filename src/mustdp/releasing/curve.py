"""A distribution function on a public grid, with noise that is correlated along it.

A record is in one of the cells (.., g_1], (g_1, g_2], ..., (g_K, ..). The numbers of records up to
every grid point are running sums of the cells' counts, A h with A a triangle of ones. Noise on the
running sums themselves would have to cover a record that moves all of them, noise on the counts
adds up along the sums. In between lies the square root: A = C C with C the triangle of the
coefficients 1, 1/2, 3/8, ... of (1 - x)^(-1/2) (Fichtenberger, Henzinger & Upadhyay, ICML 2023,
arXiv 2202.11205v2; Henzinger, Upadhyay & Upadhyay, SODA 2023). Released is C h, of which one record
moves one column, and the running sums are C (C h). Radius and diameter are those of the columns of
C, found by looking at all of them. Both factors grow like log K, so that a fine grid costs little.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import toeplitz

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.releasing.ground import Ground
from mustdp.releasing.parts import FinitePart


@dataclass(frozen=True)
class Curve(FinitePart):
    """Numbers of records up to the points of ``grid``.

    Natural sums: all records, then those up to every grid point.
    """

    ground: Ground
    columns: tuple[int, ...]
    grid: tuple[float, ...]

    @cached_property
    def _root(self) -> FloatArray:
        """C; with an unknown number of records, for one more running sum, of all of them."""
        size = len(self.grid) + int(self.ground.counted)
        steps = np.arange(1, size)
        coefficients = np.concatenate([[1.0], np.cumprod((2.0 * steps - 1.0) / (2.0 * steps))])
        return np.asarray(toeplitz(coefficients, np.zeros(size)))

    @cached_property
    def vectors(self) -> FloatArray:
        """The columns of C; above the last grid point nothing, where the total is public."""
        columns = self._root.T
        if self.ground.counted:
            return columns
        return np.concatenate([columns, np.zeros((1, len(self.grid)))])

    def cells(self, values: FloatArray) -> IntArray:
        """The number of grid points below a value."""
        return np.searchsorted(np.array(self.grid), values[:, 0], side="left")

    @cached_property
    def matrix(self) -> FloatArray:
        """C once more; the total is the last running sum where it is not public."""
        first = np.zeros((1, self.width))
        if self.ground.counted:
            first = self._root[-1:]
        return np.concatenate([first, self._root[: len(self.grid)]])

    @cached_property
    def offset(self) -> FloatArray:
        """The public number of records."""
        n = 0.0 if self.ground.counted else float(self.ground.n or 0)
        return np.array([n, *[0.0] * len(self.grid)])
