"""A distribution function on a public grid, with noise that is correlated along it.

A record is in one of the cells (.., g_1], (g_1, g_2], ..., (g_K, ..). The numbers of records up to
every grid point are running sums of the cells' counts, A h with A a triangle of ones. Noise on the
running sums themselves would have to cover a record that moves all of them, noise on the counts
adds up along the sums. In between lies the square root: A = C C with C the triangle of the
coefficients 1, 1/2, 3/8, ... of (1 - x)^(-1/2) (Fichtenberger, Henzinger & Upadhyay, ICML 2023,
arXiv 2202.11205v2; Henzinger, Upadhyay & Upadhyay, SODA 2023). Released is C h, of which one record
moves one column, and the running sums are C (C h). Radius and diameter are those of the columns of
C, found by looking at all of them. Both factors grow like log K, so that a fine grid costs little.

Fewer points cost less still. In a second round the running sums are released at a few points of the
grid, in every slot those where the first has found the quantiles to be: the same as above, as these
points are public then.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy.linalg import toeplitz

from mustdp.estimation.release.parts import Covariance, Part, Piece, present
from mustdp.estimation.release.schema import PublicSchema
from mustdp.numerics.arrays import FloatArray, IntArray


class Running(Part):
    """Numbers of records up to ``size`` points.

    Natural sums: all records, then those up to every point.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of points."""

    @abstractmethod
    def cells(self, values: FloatArray, slots: IntArray) -> IntArray:
        """The number of points below a value."""

    @property
    def _columns(self) -> _Columns:
        return _columns(self.size, self.schema.counted)

    @property
    def width(self) -> int:
        """One number for each grid point, and one for all records if they are not counted."""
        return self.size + int(self.schema.counted)

    @property
    def radius(self) -> float:
        """By looking at all columns."""
        return self._columns.radius

    @property
    def diameter(self) -> float:
        """By looking at all pairs of columns."""
        return self._columns.diameter

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """The columns of the records' cells."""
        found: FloatArray = self._columns.vectors[self.cells(values, slots)]
        return found

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """By counting, where every record counts once."""
        if piece.weights is not None:
            return super().sums(piece, per_step)
        values, slots, _ = present(piece, self.columns)
        count = len(self._columns.vectors)
        places = slots * count + self.cells(values, slots)
        counts = np.bincount(places, minlength=self.schema.slots * count)
        whole = np.trunc(self._columns.vectors * per_step)
        found: FloatArray = counts.reshape(self.schema.slots, count).astype(np.float64) @ whole
        return found

    def natural(self, vectors: FloatArray) -> FloatArray:
        """C once more; the total is the last running sum where it is not public."""
        running = vectors @ self._columns.root.T
        if self.schema.counted:
            return np.concatenate([running[:, -1:], running[:, :-1]], axis=1)
        total = np.full((len(running), 1), float(self.schema.n or 0))
        return np.concatenate([total, running], axis=1)

    @property
    def covariance(self) -> Covariance:
        """Of the rows of C."""
        return self._columns.covariance


@dataclass(frozen=True)
class Curve(Running):
    """Numbers of records up to the points of ``grid``, the same in every slot."""

    schema: PublicSchema
    columns: tuple[int, ...]
    grid: tuple[float, ...]

    @property
    def size(self) -> int:
        """All of the grid."""
        return len(self.grid)

    def cells(self, values: FloatArray, slots: IntArray) -> IntArray:
        """By bisection."""
        return np.searchsorted(np.array(self.grid), values[:, 0], side="left")


@dataclass(frozen=True, eq=False)
class Window(Running):
    """Numbers of records up to some points of a curve's grid: ``places`` (slots, size), rising."""

    curve: Curve
    places: IntArray
    schema: PublicSchema = field(init=False)
    columns: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.curve.schema)
        object.__setattr__(self, "columns", self.curve.columns)

    @property
    def size(self) -> int:
        """Points of every slot."""
        return int(self.places.shape[1])

    def cells(self, values: FloatArray, slots: IntArray) -> IntArray:
        """By looking at all of the slot's own."""
        points = np.array(self.curve.grid)[self.places]
        return np.asarray((points[slots] < values[:, :1]).sum(axis=1))


@dataclass(frozen=True, eq=False)
class _Columns:
    """C, what every cell contributes, and how far that reaches."""

    root: FloatArray
    vectors: FloatArray  # (cells, width)
    radius: float
    diameter: float
    covariance: Covariance


@lru_cache(maxsize=32)
def _columns(points: int, counted: bool) -> _Columns:
    """For so many grid points; with an unknown number of records one more running sum, of all."""
    size = points + int(counted)
    steps = np.arange(1, size)
    coefficients = np.concatenate([[1.0], np.cumprod((2.0 * steps - 1.0) / (2.0 * steps))])
    root = np.asarray(toeplitz(coefficients, np.zeros(size)))
    # Above the last grid point a record contributes nothing where the total is public.
    vectors = root.T if counted else np.concatenate([root.T, np.zeros((1, size))])
    squares = (vectors**2).sum(axis=1)
    apart = squares[:, None] + squares[None, :] - 2.0 * vectors @ vectors.T
    # The squares of a difference are off by a few rounding errors of the squares themselves.
    slack = 2.0**-40 * float(squares.max())
    own, first = (root**2).sum(axis=1), np.zeros(size)
    if counted:
        first = np.append(own[-1], (root @ root[-1])[:-1])
        covariance = Covariance(first, np.append(own[-1], own[:-1]))
    else:
        covariance = Covariance(np.append(0.0, first), np.append(0.0, own))
    return _Columns(
        root,
        vectors,
        math.sqrt(float(squares.max()) + slack),
        math.sqrt(float(apart.max()) + slack),
        covariance,
    )
