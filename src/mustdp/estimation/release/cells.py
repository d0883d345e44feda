"""Counts in finitely many cells, and squared sums within clusters."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mustdp.estimation.release.parts import Covariance, Part, Piece, present
from mustdp.estimation.release.schema import PublicSchema
from mustdp.numerics.arrays import FloatArray, IntArray

# Which of finitely many cells a record is in: the part behind counts, shares and tables.
#
# A contribution is the unit vector of the record's cell: radius 1, diameter sqrt(2), however many
# cells there are. Two cells of a known number of records need one number only, 1/2 or -1/2, of
# diameter 1.


class Cutting(ABC):
    """A rule that puts a record, by some of its columns, into one of ``labels``."""

    labels: tuple[str, ...]

    @abstractmethod
    def places(self, values: FloatArray) -> IntArray:
        """The cell of every row of ``values``."""


@dataclass(frozen=True)
class Everybody(Cutting):
    """One cell for all records."""

    labels: tuple[str, ...] = ("",)

    def places(self, values: FloatArray) -> IntArray:
        """Zeros."""
        return np.zeros(len(values), dtype=np.int64)


@dataclass(frozen=True)
class Within(Cutting):
    """Values in [low, high] and all others; an end may be left out of the interval."""

    low: float
    high: float
    open_low: bool = False
    open_high: bool = False
    labels: tuple[str, ...] = ("in", "out")

    def places(self, values: FloatArray) -> IntArray:
        """0 inside, 1 outside."""
        column = values[:, 0]
        inside = (column > self.low) if self.open_low else (column >= self.low)
        inside &= (column < self.high) if self.open_high else (column <= self.high)
        return np.where(inside, 0, 1)


@dataclass(frozen=True)
class Between(Cutting):
    """Cells between ``edges``; the last one has both of its ends."""

    edges: tuple[float, ...]

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """The cells as intervals."""
        last = len(self.edges) - 2
        return tuple(
            f"[{low:g}, {high:g}{']' if k == last else ')'}"
            for k, (low, high) in enumerate(zip(self.edges, self.edges[1:], strict=False))
        )

    def places(self, values: FloatArray) -> IntArray:
        """The number of inner edges that a value has reached."""
        return np.searchsorted(np.array(self.edges[1:-1]), values[:, 0], side="right")


@dataclass(frozen=True)
class Outside(Cutting):
    """Values below ``low``, within the range, and above ``high``."""

    low: float
    high: float
    labels: tuple[str, ...] = ("below", "within", "above")

    def places(self, values: FloatArray) -> IntArray:
        """0, 1 or 2."""
        column = values[:, 0]
        return np.where(column < self.low, 0, np.where(column > self.high, 2, 1))


@dataclass(frozen=True)
class Listed(Cutting):
    """A column of categories, already numbered."""

    labels: tuple[str, ...]

    def places(self, values: FloatArray) -> IntArray:
        """The numbers."""
        return values[:, 0].astype(np.int64)


@dataclass(frozen=True)
class Crossed(Cutting):
    """Cells of several columns at once, the last one fastest."""

    parts: tuple[Cutting, ...]

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """The labels of the parts, joined."""
        found: tuple[str, ...] = ("",)
        for part in self.parts:
            found = tuple(
                f"{first}, {own}" if first else own for first in found for own in part.labels
            )
        return found

    def places(self, values: FloatArray) -> IntArray:
        """The cells of the parts, as digits of one number."""
        found = np.zeros(len(values), dtype=np.int64)
        for k, part in enumerate(self.parts):
            found = found * len(part.labels) + part.places(values[:, k : k + 1])
        return found


@dataclass(frozen=True)
class Cells(Part):
    """The number of records in every cell.

    Natural sums: all records, then those of every cell.
    """

    schema: PublicSchema
    columns: tuple[int, ...]
    cutting: Cutting

    @cached_property
    def _halved(self) -> bool:
        return len(self.cutting.labels) == 2 and not self.schema.counted

    @property
    def width(self) -> int:
        """One number, or one for each cell."""
        return 1 if self._halved else len(self.cutting.labels)

    @property
    def radius(self) -> float:
        """Of a unit vector, or of a half."""
        return 0.5 if self._halved else 1.0

    @property
    def diameter(self) -> float:
        """Between two unit vectors, or two halves; nothing where there is one cell."""
        if len(self.cutting.labels) == 1:
            return 0.0 if self.schema.counted else 1.0
        return 1.0 if self._halved else math.sqrt(2.0) * (1.0 + 2.0**-50)

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """Unit vectors, or one half of either sign."""
        places = self.cutting.places(values)
        if self._halved:
            return np.where(places == 0, 0.5, -0.5)[:, None]
        found = np.zeros((len(values), self.width))
        found[np.arange(len(values)), places] = 1.0
        return found

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """By counting, where every record counts once."""
        if piece.weights is not None:
            return super().sums(piece, per_step)
        values, slots, _ = present(piece, self.columns)
        count = len(self.cutting.labels)
        places = slots * count + self.cutting.places(values)
        counts = np.bincount(places, minlength=self.schema.slots * count)
        found: FloatArray = counts.reshape(self.schema.slots, count).astype(np.float64)
        if self._halved:
            found = (found[:, :1] - found[:, 1:]) * 0.5
        found *= 2.0 * np.trunc(0.5 * per_step) if self._halved else np.trunc(per_step)
        return found

    def natural(self, vectors: FloatArray) -> FloatArray:
        """All records, and those of every cell."""
        n = float(self.schema.n or 0)
        if self._halved:
            all_of_them = np.full_like(vectors, n)
            return np.concatenate([all_of_them, 0.5 * n + vectors, 0.5 * n - vectors], axis=1)
        total = vectors.sum(axis=1, keepdims=True)
        if not self.schema.counted:
            total = np.full_like(total, n)
        return np.concatenate([total, vectors], axis=1)

    @property
    def covariance(self) -> Covariance:
        """Of independent cells; their sum is noisy where the number of all is not public."""
        if self._halved:
            return Covariance(np.zeros(3), np.array([0.0, 1.0, 1.0]))
        count = len(self.cutting.labels)
        both = np.ones(count) if self.schema.counted else np.zeros(count)
        total = both.sum(keepdims=True)
        return Covariance(np.append(total, both), np.append(total, np.ones(count)))


@dataclass(frozen=True)
class Unclipped(Cells):
    """Cells of values as they stand in the data, for what clipping does to them."""

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """Of the values before they are clipped."""
        raw = piece.values if piece.raw is None else piece.raw
        return super().sums(Piece(raw, piece.slots, piece.weights), per_step)


# Sums within clusters, squared: how much records that come in clusters vary.
#
# A ratio such as a mean or a share is off by the average of its records' influences. Where records
# come in clusters, those of one are added up before they are squared (Cochran 1977, section 9A:
# the ultimate clusters), whatever their correlation is. With m the largest cluster, public, and
# influences over their bounds, q_i in [-1, 1], a cluster's sum in one slot is s = sum q_i / m, cut
# to [-1, 1], and it contributes s^2. The q_i are whole multiples of 2^-26, so that s is exact.
#
# *Whole clusters as units*, of which at most m records are used. Let the q_i of several estimates
# be vectors of length at most L, with numbers in [-1, 1]. With m_g records in slot g, |s_gk| <=
# m_g / m and |s_g| <= L m_g / m, so that the squares of one slot have length sqrt(sum_k s_gk^4) <=
# max_k
# |s_gk| |s_g| <= L (m_g / m)^2, and over all slots the radius is at most L. Nothing is negative, so
# two clusters are at most sqrt(2) L apart, and in one slot no more than the diagonal of [0, 1]^J.
#
# *Records as units.* One record more or less moves one s, in one slot, by at most L / m before it
# is cut and so after; each square by |s' + s| |s' - s| <= 2 |s' - s|; the part by at most 2 L / m.
# For numbers in [-1, 1] the squares are in [0, 1], so by no more than one each either. A record
# that is replaced leaves one cluster and enters another: twice that.
#
# *Shares of cells.* For K cells with public shares p, none below 0 and of sum at most 1, the
# influence of a record in cell k is e_k - p, of length at most sqrt(2). Two cells need one number.


#: Influences are whole numbers of this: sums over 2^27 records are exact.
_FINE = 2.0**-26


def reach(schema: PublicSchema, length: float, box: float) -> float:
    """The radius of squared influences; ``length`` is L, ``box`` the radius of [0, 1]^J.

    The schema multiplies by m where the units are whole clusters, which is taken off here.
    """
    slack = 1.0 + 2.0**-40
    if schema.largest_cluster is None:
        return box * slack
    m = float(schema.largest_cluster)
    return (length / m if schema.whole_clusters else min(box, 2.0 * length / m)) * slack


def squared_sums(
    shares: FloatArray, slots: IntArray, clusters: IntArray, schema: PublicSchema
) -> FloatArray:
    """s^2 of every slot and cluster, for influences ``shares`` of the records, in [-1, 1]."""
    whole = np.trunc(shares / _FINE)
    most = int(clusters.max(initial=-1)) + 1
    sums = np.bincount(slots * most + clusters, whole, schema.slots * most)
    found = sums.reshape(schema.slots, most) * (_FINE / float(schema.largest_cluster or 1))
    squares: FloatArray = np.minimum(found**2, 1.0)
    return squares


@dataclass(frozen=True, eq=False)
class CellSquares(Part):
    """Squared sums within clusters of the influences on ``shares`` (slots, cells) of ``cells``.

    Natural sums: those of every cell, or of the first of two.
    """

    cells: Cells
    shares: FloatArray
    schema: PublicSchema = field(init=False)
    columns: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        shares = np.clip(self.shares, 0.0, 1.0)
        shares = shares / np.maximum(shares.sum(axis=1, keepdims=True) * (1.0 + 2.0**-40), 1.0)
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "schema", self.cells.schema)
        object.__setattr__(self, "columns", self.cells.columns)

    @property
    def width(self) -> int:
        """One number for two cells, else one for each."""
        count = len(self.cells.cutting.labels)
        return 1 if count <= 2 else count

    @property
    def radius(self) -> float:
        """Proved above."""
        length = 1.0 if self.width == 1 else math.sqrt(2.0)
        return reach(self.schema, length, math.sqrt(self.width))

    @property
    def diameter(self) -> float:
        """Proved above."""
        if not self.schema.whole_clusters:
            return 2.0 * self.radius
        return self.radius if self.width == 1 else math.sqrt(2.0) * self.radius

    def natural(self, vectors: FloatArray) -> FloatArray:
        """As they are."""
        return vectors

    @property
    def covariance(self) -> Covariance:
        """Independent."""
        return Covariance(np.zeros(self.width), np.ones(self.width))

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """The influences e_k - p of records."""
        places = self.cells.cutting.places(values)
        found = -self.shares[slots][:, : self.width]
        at = np.flatnonzero(places < self.width)
        found[at, places[at]] += 1.0
        return found

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """Of clusters; a cell after the other."""
        values = piece.values
        if isinstance(self.cells, Unclipped) and piece.raw is not None:
            values = piece.raw
        values = values[:, list(self.columns)]
        here = ~np.isnan(values).any(axis=1)
        slots = piece.slots[here]
        clusters = np.arange(len(piece)) if piece.clusters is None else piece.clusters
        influences = self.rows(values[here], slots)
        if piece.weights is not None:
            influences *= piece.weights[here, None]
        found = np.empty((self.schema.slots, self.width))
        for k in range(self.width):
            squares = squared_sums(influences[:, k], slots, clusters[here], self.schema)
            found[:, k] = np.trunc(squares * per_step).sum(axis=1)
        return found
