"""First and second moments of some columns, in one part.

Every column is scaled to u in [-1, 1]. For d columns the part adds up a (*count*, where the number
of records is unknown), u_i (*means*), b (u_i^2 - 1/2) (*squares*) and u_i u_j, i < j (*products*).

*Diameter.* With D = d + 1 and b^2 = (D + 1)/2, ``resampling/statistics/moments.py`` proves
|Dmeans|^2 + b^2 |Dsquares|^2 + |Dproducts|^2 <= D^2 for two records; the count cancels. For d = 1,
b^2 = 11/4 is allowed with the same D = 2: then mean and mean square together cost what the mean
costs alone.

*Radius.* |means|^2 <= d, b^2 |squares|^2 <= d b^2 / 4, |products|^2 <= d (d - 1)/2.

*The balance a, b.* A number of records that a missing value alone can change (replace_one without
groups) is as precise as the diameter allows, a^2 = D^2 - R^2: it costs nothing. Where records may
come, go or change their group the radius decides; then a = 1, and b = 1 for one column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.releasing.ground import Ground
from mustdp.releasing.parts import Covariance, Part


@dataclass(frozen=True)
class Moments(Part):
    """Means, squares and products of the scaled columns, and the number of records.

    Natural sums: records, then sums of u_i, of u_i^2, and of u_i u_j in the order of ``pairs``.
    """

    ground: Ground
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
        return int(self.ground.counted) + 2 * self.count + len(self.pairs[0])

    @cached_property
    def _balance(self) -> tuple[float, float, float]:
        """a^2, b^2 and the squared radius without the count."""
        d, ground = self.count, self.ground
        free = ground.relation == Relation.REPLACE_ONE and not ground.groups
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
        return math.sqrt(own + (a2 if self.ground.counted else 0.0)) * (1.0 + 2.0**-40)

    @property
    def diameter(self) -> float:
        """Proved above."""
        return (self.count + 1) * (1.0 + 2.0**-40)

    def natural(self, vectors: FloatArray) -> FloatArray:
        """Squares get their half back: from the noisy count, or from the public one."""
        found: FloatArray = vectors @ self._matrix.T
        if not self.ground.counted:
            n = float(self.ground.n or 0)
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
        d, counted = self.count, int(self.ground.counted)
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
        return np.array([self.ground.columns[k].numeric.mid for k in self.columns])

    @cached_property
    def halves(self) -> FloatArray:
        """Half widths of the ranges."""
        return np.array([self.ground.columns[k].numeric.half for k in self.columns])

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
        if self.ground.counted:
            ones = np.full((len(values), 1), math.sqrt(a2))
            found = np.concatenate([ones, found], axis=1)
        return found
