"""The squares of what every record does to an estimate: a second part, chosen by the first.

To first order an estimate from moments is off by the average of its *influence*, psi(x) = g . (f(x)
- mu), where f are the record's moments, mu their averages and g the estimate's gradient there. mu
and g are read off the first release, so they are public here, and the sampling variance is the
average of psi^2 over the number of records: no law of the data is assumed, no fourth moments are
needed (White 1980 for regression). psi^2 is cut at a bound that follows from the ranges. Released
are psi^2 over the bound: contributions in [0, 1], or [-1/2, 1/2] where the number of records is
public; radius 1, diameter 1 for each estimate, so sqrt(J) for J of them.

*Clusters.* Records of one cluster are no independent draws: their influences, each cut at its own
bound B, are added up within it before they are squared (``clusters.py``). What a cluster
contributes is s^2 with s its sum over m B, m the largest cluster, cut to [-1, 1]: a number in
[0, 1], for each estimate and each slot that it has records in.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.releasing.clusters import reach, squared_sums
from mustdp.releasing.ground import Ground
from mustdp.releasing.moments import Moments
from mustdp.releasing.parts import Covariance, Part, Piece

#: Columns whose corners are all looked at for the bound of an influence.
_MOST_CORNERS = 10


@dataclass(frozen=True, eq=False)
class Influences(Part):
    """Squared influences: ``gradients`` (slots, estimates, moments) at ``means`` (slots, moments).

    Natural sums: the sum of psi^2 of every estimate; the number of records is not among them.
    """

    moments: Moments
    gradients: FloatArray
    means: FloatArray
    ground: Ground = field(init=False)
    columns: tuple[int, ...] = field(init=False)
    bounds: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ground", self.moments.ground)
        object.__setattr__(self, "columns", self.moments.columns)
        object.__setattr__(self, "bounds", self._bounds())

    @property
    def width(self) -> int:
        """Number of estimates."""
        return int(self.gradients.shape[1])

    @property
    def radius(self) -> float:
        """Proved above, and in ``clusters.py``."""
        return reach(self.ground, math.sqrt(self.width), math.sqrt(self.width))

    @property
    def diameter(self) -> float:
        """Proved above."""
        ground = self.ground
        two = ground.largest_cluster is not None and not ground.whole_clusters
        return (2.0 if two else 1.0) * self.radius

    @property
    def _centred(self) -> bool:
        return not self.ground.counted and self.ground.largest_cluster is None

    def natural(self, vectors: FloatArray) -> FloatArray:
        """In shares of the bounds, which differ from slot to slot; halves are given back."""
        return vectors + (0.5 * float(self.ground.n or 0) if self._centred else 0.0)

    @property
    def covariance(self) -> Covariance:
        """Independent."""
        return Covariance.of(np.eye(self.width))

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """psi^2 over its bound."""
        found: FloatArray = np.minimum(self._psi(values, slots) ** 2 / self.bounds[slots], 1.0)
        return found - 0.5 if self._centred else found

    def _psi(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """One product after the other: a library's sums may be rounded by where a row stands.

        So psi of a record depends, to the last bit, on that record and on what is public.
        """
        features = self.moments.features(self.moments.scaled(values)) - self.means[slots]
        slopes = self.gradients[slots]
        found = np.zeros((len(values), self.width))
        for k in range(features.shape[1]):
            found += features[:, k : k + 1] * slopes[:, :, k]
        return found

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """With weights, the influence of a record is multiplied by its weight: squared here."""
        if piece.clusters is not None:
            return self._of_clusters(piece, piece.clusters, per_step)
        if piece.weights is not None:
            piece = Piece(piece.values, piece.slots, piece.weights**2)
        return super().sums(piece, per_step)

    def _of_clusters(self, piece: Piece, clusters: IntArray, per_step: float) -> FloatArray:
        """Squares of the sums within clusters, slot by slot."""
        values = piece.values[:, list(self.columns)]
        here = ~np.isnan(values).any(axis=1)
        slots = piece.slots[here]
        psi = self._psi(values[here], slots)
        weights = None if piece.weights is None else piece.weights[here]
        roots = np.sqrt(self.bounds) / float(self.ground.largest_cluster or 1)
        found = np.empty((self.ground.slots, self.width))
        for k in range(self.width):
            shares = np.clip(psi[:, k] / roots[slots, k], -1.0, 1.0)
            if weights is not None:
                shares *= weights
            squares = squared_sums(shares, slots, clusters[here], self.ground)
            found[:, k] = np.trunc(squares * per_step).sum(axis=1)
        return found

    def _bounds(self) -> FloatArray:
        """The largest psi^2 at the corners of the box, its middle and some points inside.

        Where psi^2 should be larger elsewhere it is cut: that is what makes the bound hold.
        """
        d = len(self.columns)
        rng = np.random.default_rng(0)  # public points
        if d <= _MOST_CORNERS:
            corners = np.array(list(itertools.product((-1.0, 1.0), repeat=d)))
        else:
            corners = rng.choice([-1.0, 1.0], (2**_MOST_CORNERS, d))
        inside = rng.uniform(-1.0, 1.0, (256, d))
        features = self.moments.features(np.concatenate([corners, inside, np.zeros((1, d))]))
        centred = features[None] - self.means[:, None, :]
        psi = np.einsum("srk,sjk->srj", centred, self.gradients)
        largest: FloatArray = (psi**2).max(axis=1)
        return np.maximum(largest * float(self.ground.largest_cluster or 1) ** 2, 1e-300)
