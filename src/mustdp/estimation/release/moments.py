"""First and second moments of columns, survey weights, and squared influences on an estimate."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mustdp.estimation.release.cells import reach, squared_sums
from mustdp.estimation.release.parts import Covariance, Part, Piece
from mustdp.estimation.release.schema import PublicSchema
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray, IntArray

# Squares of the weights: how much records of unequal weight count for.
#
# With weights t in [0, 1], Hajek's ratio sum(t y) / sum(t) has the sampling variance of sum(t)^2 /
# sum(t^2) records that count alike (Kish 1965), where weights and values are not related; estimates
# with a second round need no such assumption. Contributions are t^2: radius 1, diameter 1.


@dataclass(frozen=True)
class WeightSquares(Part):
    """The sum of the squared weights of every slot."""

    schema: PublicSchema
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


# First and second moments of some columns, in one part.
#
# Every column is scaled to u in [-1, 1]. For d columns the part adds up a (*count*, where the
# number of records is unknown), u_i (*means*), b (u_i^2 - 1/2) (*squares*) and u_i u_j, i < j
# (*products*).
#
# *Diameter.* With D = d + 1 and b^2 = (D + 1)/2, ``bootstrap/moments.py`` proves
# |Dmeans|^2 + b^2 |Dsquares|^2 + |Dproducts|^2 <= D^2 for two records; the count cancels. For d =
# 1, b^2 = 11/4 is allowed with the same D = 2: then mean and mean square together cost what the
# mean costs alone.
#
# *Radius.* |means|^2 <= d, b^2 |squares|^2 <= d b^2 / 4, |products|^2 <= d (d - 1)/2.
#
# *The balance a, b.* A number of records that a missing value alone can change (replace_one without
# groups) is as precise as the diameter allows, a^2 = D^2 - R^2: it costs nothing. Where records may
# come, go or change their group the radius decides; then a = 1, and b = 1 for one column.


@dataclass(frozen=True)
class Moments(Part):
    """Means, squares and products of the scaled columns, and the number of records.

    Natural sums: records, then sums of u_i, of u_i^2, and of u_i u_j in the order of ``pairs``.
    """

    schema: PublicSchema
    columns: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number d of columns."""
        return len(self.columns)

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of the products."""
        rows, columns = np.triu_indices(self.count, 1)
        return rows, columns

    @property
    def width(self) -> int:
        """Numbers released for one slot."""
        return int(self.schema.counted) + 2 * self.count + len(self.pairs[0])

    @cached_property
    def _balance(self) -> tuple[float, float, float]:
        """a^2, b^2 and the squared radius without the count."""
        d, schema = self.count, self.schema
        free = schema.relation == Relation.REPLACE_ONE and not schema.groups
        b2 = 0.5 * (d + 2)
        if d == 1:
            b2 = 11.0 / 4.0 if free else 1.0
        own = d + 0.25 * d * b2 + 0.5 * d * (d - 1)
        a2 = (d + 1) ** 2 - own if free else 1.0
        return a2, b2, own

    @property
    def radius(self) -> float:
        """Proved above."""
        a2, _, own = self._balance
        return math.sqrt(own + (a2 if self.schema.counted else 0.0)) * (1.0 + 2.0**-40)

    @property
    def diameter(self) -> float:
        """Proved above."""
        return (self.count + 1) * (1.0 + 2.0**-40)

    def natural(self, vectors: FloatArray) -> FloatArray:
        """Squares get their half back: from the noisy count, or from the public one."""
        found: FloatArray = vectors @ self._matrix.T
        if not self.schema.counted:
            n = float(self.schema.n or 0)
            found[:, 0] += n
            found[:, 1 + self.count : 1 + 2 * self.count] += 0.5 * n
        return found

    @cached_property
    def covariance(self) -> Covariance:
        """All of it."""
        return Covariance.of(self._matrix)

    @cached_property
    def _matrix(self) -> FloatArray:
        a2, b2, _ = self._balance
        d, counted = self.count, int(self.schema.counted)
        found = np.zeros((1 + 2 * d + len(self.pairs[0]), self.width))
        scales = np.concatenate(
            [np.ones(d), np.full(d, 1.0 / math.sqrt(b2)), np.ones(len(self.pairs[0]))]
        )
        found[1:, counted:] = np.diag(scales)
        if counted:
            found[0, 0] = 1.0 / math.sqrt(a2)
            found[1 + d : 1 + 2 * d, 0] = 0.5 / math.sqrt(a2)
        return found

    @cached_property
    def mids(self) -> FloatArray:
        """Midpoints of the ranges."""
        return np.array([self.schema.columns[k].numeric.mid for k in self.columns])

    @cached_property
    def halves(self) -> FloatArray:
        """Half widths of the ranges."""
        return np.array([self.schema.columns[k].numeric.half for k in self.columns])

    def positions(self, columns: tuple[int, ...]) -> list[int]:
        """Where the natural sums of a part of these columns, some of its own, are among them."""
        at = [self.columns.index(column) for column in columns]
        d, (rows, others) = self.count, self.pairs
        place = {(int(i), int(j)): k for k, (i, j) in enumerate(zip(rows, others, strict=True))}
        pairs = [(at[i], at[j]) for i, j in zip(*np.triu_indices(len(at), 1), strict=True)]
        products = [1 + 2 * d + place[min(pair), max(pair)] for pair in pairs]
        return [0, *(1 + i for i in at), *(1 + d + i for i in at), *products]

    def scaled(self, values: FloatArray) -> FloatArray:
        """The columns in [-1, 1]."""
        return np.clip((values - self.mids) / self.halves, -1.0, 1.0)

    def features(self, scaled: FloatArray) -> FloatArray:
        """u_i, u_i^2 and u_i u_j of every record."""
        rows, columns = self.pairs
        return np.concatenate([scaled, scaled**2, scaled[:, rows] * scaled[:, columns]], axis=1)

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """The contributions."""
        a2, b2, _ = self._balance
        found = self.features(self.scaled(values))
        squares = found[:, self.count : 2 * self.count]
        squares -= 0.5
        squares *= math.sqrt(b2)
        if self.schema.counted:
            ones = np.full((len(values), 1), math.sqrt(a2))
            found = np.concatenate([ones, found], axis=1)
        return found


# The squares of what every record does to an estimate: a second part, chosen by the first.
#
# To first order an estimate from moments is off by the average of its *influence*, psi(x) = g .
# (f(x)
# - mu), where f are the record's moments, mu their averages and g the estimate's gradient there. mu
# and g are read off the first release, so they are public here, and the sampling variance is the
# average of psi^2 over the number of records: no law of the data is assumed, no fourth moments are
# needed (White 1980 for regression). psi^2 is cut at a bound that follows from the ranges. Released
# are psi^2 over the bound: contributions in [0, 1], or [-1/2, 1/2] where the number of records is
# public; radius 1, diameter 1 for each estimate, so sqrt(J) for J of them.
#
# *Clusters.* Records of one cluster are no independent draws: their influences, each cut at its own
# bound B, are added up within it before they are squared (``clusters.py``). What a cluster
# contributes is s^2 with s its sum over m B, m the largest cluster, cut to [-1, 1]: a number in
# [0, 1], for each estimate and each slot that it has records in.


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
    schema: PublicSchema = field(init=False)
    columns: tuple[int, ...] = field(init=False)
    bounds: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.moments.schema)
        object.__setattr__(self, "columns", self.moments.columns)
        object.__setattr__(self, "bounds", self._bounds())

    @property
    def width(self) -> int:
        """Number of estimates."""
        return int(self.gradients.shape[1])

    @property
    def radius(self) -> float:
        """Proved above, and in ``clusters.py``."""
        return reach(self.schema, math.sqrt(self.width), math.sqrt(self.width))

    @property
    def diameter(self) -> float:
        """Proved above."""
        schema = self.schema
        two = schema.largest_cluster is not None and not schema.whole_clusters
        return (2.0 if two else 1.0) * self.radius

    @property
    def _centred(self) -> bool:
        return not self.schema.counted and self.schema.largest_cluster is None

    def natural(self, vectors: FloatArray) -> FloatArray:
        """In shares of the bounds, which differ from slot to slot; halves are given back."""
        return vectors + (0.5 * float(self.schema.n or 0) if self._centred else 0.0)

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
        roots = np.sqrt(self.bounds) / float(self.schema.largest_cluster or 1)
        found = np.empty((self.schema.slots, self.width))
        for k in range(self.width):
            shares = np.clip(psi[:, k] / roots[slots, k], -1.0, 1.0)
            if weights is not None:
                shares *= weights
            squares = squared_sums(shares, slots, clusters[here], self.schema)
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
        return np.maximum(largest * float(self.schema.largest_cluster or 1) ** 2, 1e-300)
