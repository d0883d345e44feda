"""A part of a release: what one record adds to it, how far that reaches, and how it is read off.

A part is bound to the :class:`Ground`. It adds up vectors of ``width`` numbers, slot by slot. What
is read off them, the *natural* sums, is a linear function of the vector. The first natural sum is
the number of records. Noise is independent from coordinate to coordinate of the vector, with equal
standard deviations; of what it becomes in the natural sums, the :class:`Covariance` is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.releasing.ground import Ground


@dataclass(frozen=True, eq=False)
class Piece:
    """Some of the records: numbers ``(rows, columns)``, NaN where missing, and the slot of each.

    ``values`` are clipped already, ``raw`` are not; categories are their numbers. ``weights`` are
    in [0, 1].
    """

    values: FloatArray
    slots: IntArray
    weights: FloatArray | None = None
    raw: FloatArray | None = None
    #: The number of every record's cluster; all records are in one piece then.
    clusters: IntArray | None = None

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(frozen=True, eq=False)
class Covariance:
    """Of the noise in the natural sums: of the first with all, and of each with itself.

    ``whole`` has the rest, for the parts that it is needed of.
    """

    first: FloatArray
    own: FloatArray
    whole: FloatArray | None = None

    @classmethod
    def of(cls, matrix: FloatArray) -> Covariance:
        """For natural sums ``matrix @ vector``, in units of the noise's variance."""
        return cls(matrix @ matrix[0], (matrix**2).sum(axis=1), matrix @ matrix.T)

    def times(self, variance: float) -> Covariance:
        """For noise of that variance."""
        whole = None if self.whole is None else variance * self.whole
        return Covariance(variance * self.first, variance * self.own, whole)

    @property
    def matrix(self) -> FloatArray:
        """All of it."""
        if self.whole is None:
            raise InvalidParameter("the covariances of this part are not kept")
        return self.whole

    def pair(self, at: int) -> FloatArray:
        """Of the first natural sum and that at ``at``."""
        return np.array([[self.own[0], self.first[at]], [self.first[at], self.own[at]]])


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

    @abstractmethod
    def natural(self, vectors: FloatArray) -> FloatArray:
        """Natural sums (slots, natural) from vectors (slots, width)."""

    @property
    @abstractmethod
    def covariance(self) -> Covariance:
        """Of noise of variance one on every coordinate, in the natural sums."""

    @abstractmethod
    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """The contributions of records without missing values: (rows, width)."""

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """Contributions, each cut towards zero to whole steps, added up by slot: exact integers.

        ``per_step`` is steps per unit and need not be a power of two: what is cut is the rounded
        product, which lengthens a contribution by 2^-53 of it at most.
        """
        values, slots, weights = present(piece, self.columns)
        whole = self.rows(values, slots) * per_step
        if weights is not None:
            whole *= weights[:, None]
        np.trunc(whole, out=whole)
        found = np.empty((self.ground.slots, self.width))
        for k in range(self.width):
            found[:, k] = np.bincount(slots, whole[:, k], self.ground.slots)
        return found


def present(
    piece: Piece, columns: tuple[int, ...]
) -> tuple[FloatArray, IntArray, FloatArray | None]:
    """The records that have all of these columns."""
    values = piece.values[:, list(columns)]
    here = np.asarray(~np.isnan(values).any(axis=1))
    if here.all():
        return values, piece.slots, piece.weights
    return values[here], piece.slots[here], None if piece.weights is None else piece.weights[here]
