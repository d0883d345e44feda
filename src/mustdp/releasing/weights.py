"""Squares of the weights: how much records of unequal weight count for.

With weights t in [0, 1], Hajek's ratio sum(t y) / sum(t) has the sampling variance of sum(t)^2 /
sum(t^2) records that count alike (Kish 1965), where weights and values are not related; estimates
with a second round need no such assumption. Contributions are t^2: radius 1, diameter 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.releasing.ground import Ground
from mustdp.releasing.parts import Covariance, Part, Piece


@dataclass(frozen=True)
class WeightSquares(Part):
    """The sum of the squared weights of every slot."""

    ground: Ground
    columns: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """One number."""
        return 1

    @property
    def radius(self) -> float:
        """Of a square in [0, 1]."""
        return 1.0

    @property
    def diameter(self) -> float:
        """Between two of them."""
        return 1.0

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """One for everybody; the weight comes later."""
        return np.ones((len(values), 1))

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """With the weights squared."""
        weights = None if piece.weights is None else piece.weights**2
        return super().sums(Piece(piece.values, piece.slots, weights), per_step)

    def natural(self, vectors: FloatArray) -> FloatArray:
        """As they are."""
        return vectors

    @property
    def covariance(self) -> Covariance:
        """Of one number."""
        return Covariance.of(np.eye(1))
