"""A part of a release: what one record adds to it, how far that reaches, and how it is read off.

A part is bound to the :class:`Ground`. It adds up vectors of ``width`` numbers, slot by slot. What
is read off them, the *natural* sums, is a linear function of the vector: ``matrix @ vector +
offset``; noise of standard deviation t in every coordinate of the vector has covariance ``t^2
matrix matrix'`` in the natural sums. The first natural sum is always the number of records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.releasing.ground import Ground


@dataclass(frozen=True, eq=False)
class Piece:
    """Some of the records: numbers ``(rows, columns)``, NaN where missing, and the slot of each.

    ``values`` are clipped already; categories are their numbers. ``weights`` are in [0, 1].
    """

    values: FloatArray
    slots: IntArray
    weights: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.slots)


class Part(ABC):
    """Sums of bounded contributions over the records of every slot."""

    ground: Ground
    columns: tuple[int, ...]

    @property
    @abstractmethod
    def width(self) -> int:
        """Numbers released for one slot."""

    @property
    @abstractmethod
    def radius(self) -> float:
        """The longest contribution."""

    @property
    @abstractmethod
    def diameter(self) -> float:
        """The farthest that two contributions to one slot are apart."""

    @property
    @abstractmethod
    def matrix(self) -> FloatArray:
        """Natural sums from the vector: (natural, width)."""

    @property
    @abstractmethod
    def offset(self) -> FloatArray:
        """What is public about the natural sums, and is added to them."""

    @abstractmethod
    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """The contributions of records without missing values: (rows, width)."""

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """Contributions, each cut towards zero to whole steps, added up by slot: exact integers.

        ``per_step`` is steps per unit and need not be a power of two: what is cut is the rounded
        product, which lengthens a contribution by 2^-53 of it at most.
        """
        values, slots, weights = _present(piece, self.columns)
        whole = self.rows(values, slots) * per_step
        if weights is not None:
            whole *= weights[:, None]
        np.trunc(whole, out=whole)
        found = np.empty((self.ground.slots, self.width))
        for k in range(self.width):
            found[:, k] = np.bincount(slots, whole[:, k], self.ground.slots)
        return found


class FinitePart(Part):
    """Contributions that take finitely many values, one for each cell a record may be in."""

    @cached_property
    @abstractmethod
    def vectors(self) -> FloatArray:
        """The contribution of every cell: (cells, width)."""

    @abstractmethod
    def cells(self, values: FloatArray) -> IntArray:
        """The cell of every record without missing values."""

    @property
    def width(self) -> int:
        """Numbers released for one slot."""
        return int(self.vectors.shape[1])

    @cached_property
    def radius(self) -> float:
        """By looking at all cells."""
        return float(np.sqrt((self.vectors**2).sum(axis=1).max())) * (1.0 + 2.0**-40)

    @cached_property
    def diameter(self) -> float:
        """By looking at all pairs of cells."""
        squares = (self.vectors**2).sum(axis=1)
        apart = squares[:, None] + squares[None, :] - 2.0 * self.vectors @ self.vectors.T
        # The squares of a difference are off by a few rounding errors of the squares themselves.
        return float(np.sqrt(apart.max() + 2.0**-40 * squares.max()))

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """The vectors of the records' cells."""
        found: FloatArray = self.vectors[self.cells(values)]
        return found

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """By counting, where every record counts once."""
        if piece.weights is not None:
            return super().sums(piece, per_step)
        values, slots, _ = _present(piece, self.columns)
        count = len(self.vectors)
        places = slots * count + self.cells(values)
        counts = np.bincount(places, minlength=self.ground.slots * count)
        whole = np.trunc(self.vectors * per_step)
        found: FloatArray = counts.reshape(self.ground.slots, count).astype(np.float64) @ whole
        return found


def _present(
    piece: Piece, columns: tuple[int, ...]
) -> tuple[FloatArray, IntArray, FloatArray | None]:
    """The records that have all of these columns."""
    values = piece.values[:, list(columns)]
    here = np.asarray(~np.isnan(values).any(axis=1))
    if here.all():
        return values, piece.slots, piece.weights
    return values[here], piece.slots[here], None if piece.weights is None else piece.weights[here]
