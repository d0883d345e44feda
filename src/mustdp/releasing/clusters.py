"""Sums within clusters, squared: how much records that come in clusters vary.

A ratio such as a mean or a share is off by the average of its records' influences. Where records
come in clusters, those of one are added up before they are squared (Cochran 1977, section 9A: the
ultimate clusters), whatever their correlation is. With m the largest cluster, public, and
influences over their bounds, q_i in [-1, 1], a cluster's sum in one slot is s = sum q_i / m, cut to
[-1, 1], and it contributes s^2. The q_i are whole multiples of 2^-26, so that s is exact.

*Whole clusters as units*, of which at most m records are used. Let the q_i of several estimates be
vectors of length at most L, with numbers in [-1, 1]. With m_g records in slot g, |s_gk| <= m_g / m
and |s_g| <= L m_g / m, so that the squares of one slot have length sqrt(sum_k s_gk^4) <= max_k
|s_gk| |s_g| <= L (m_g / m)^2, and over all slots the radius is at most L. Nothing is negative, so
two clusters are at most sqrt(2) L apart, and in one slot no more than the diagonal of [0, 1]^J.

*Records as units.* One record more or less moves one s, in one slot, by at most L / m before it is
cut and so after; each square by |s' + s| |s' - s| <= 2 |s' - s|; the part by at most 2 L / m. For
numbers in [-1, 1] the squares are in [0, 1], so by no more than one each either. A record that is
replaced leaves one cluster and enters another: twice that.

*Shares of cells.* For K cells with public shares p, none below 0 and of sum at most 1, the
influence of a record in cell k is e_k - p, of length at most sqrt(2). Two cells need one number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.releasing.cells import Cells, Unclipped
from mustdp.releasing.ground import Ground
from mustdp.releasing.parts import Covariance, Part, Piece

#: Influences are whole numbers of this: sums over 2^27 records are exact.
_FINE = 2.0**-26


def reach(ground: Ground, length: float, box: float) -> float:
    """The radius of squared influences; ``length`` is L, ``box`` the radius of [0, 1]^J.

    The ground multiplies by m where the units are whole clusters, which is taken off here.
    """
    slack = 1.0 + 2.0**-40
    if ground.largest_cluster is None:
        return box * slack
    m = float(ground.largest_cluster)
    return (length / m if ground.whole_clusters else min(box, 2.0 * length / m)) * slack


def squared_sums(
    shares: FloatArray, slots: IntArray, clusters: IntArray, ground: Ground
) -> FloatArray:
    """s^2 of every slot and cluster, for influences ``shares`` of the records, in [-1, 1]."""
    whole = np.trunc(shares / _FINE)
    most = int(clusters.max(initial=-1)) + 1
    sums = np.bincount(slots * most + clusters, whole, ground.slots * most)
    found = sums.reshape(ground.slots, most) * (_FINE / float(ground.largest_cluster or 1))
    squares: FloatArray = np.minimum(found**2, 1.0)
    return squares


@dataclass(frozen=True, eq=False)
class CellSquares(Part):
    """Squared sums within clusters of the influences on ``shares`` (slots, cells) of ``cells``.

    Natural sums: those of every cell, or of the first of two.
    """

    cells: Cells
    shares: FloatArray
    ground: Ground = field(init=False)
    columns: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        shares = np.clip(self.shares, 0.0, 1.0)
        shares = shares / np.maximum(shares.sum(axis=1, keepdims=True) * (1.0 + 2.0**-40), 1.0)
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "ground", self.cells.ground)
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
        return reach(self.ground, length, math.sqrt(self.width))

    @property
    def diameter(self) -> float:
        """Proved above."""
        if not self.ground.whole_clusters:
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
        found = np.empty((self.ground.slots, self.width))
        for k in range(self.width):
            squares = squared_sums(influences[:, k], slots, clusters[here], self.ground)
            found[:, k] = np.trunc(squares * per_step).sum(axis=1)
        return found
