"""Statistics of first and second moments: variance, covariance, correlation, regression.

All of them are smooth functions of the averages of columns, of their squares and of their products.
A subclass of :class:`MomentStatistic` says which function, what it divides by, and which values it
can have. One release on all records and the bootstrap add the moments up in their own ways, each
with its proof of sensitivity below; both read the function off the noisy averages, take its
gradient there for the noise, and judge the sampling variance: by the squared influences of a second
round, or by how the replicates differ.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import (
    LEAST_SHARE,
    Averaged,
    BoundedSum,
    Halves,
    LinearQuery,
    NoiseCovariance,
    NoisySums,
    Piece,
    Query,
    QueryBlock,
    block,
    check_held,
    enlarged,
    radius_of_squares,
    squared_sums,
)
from mustdp.estimation.result import (
    CLEARLY,
    RARE,
    UNBOUNDED,
    UNCLEAR,
    Interval,
    Spread,
    Support,
    fieller_interval,
    fisher_interval,
    rare_error,
    released_spread,
    root_interval,
    spread_of_bounded,
    t_interval,
    vacuous_interval,
)
from mustdp.estimation.schema import PublicSchema, Range, Shape, SubsetSchema
from mustdp.estimation.statistics.domains import (
    DomainInfluences,
    domain_averages,
    domain_interval,
    domains_of,
    influences_on,
    needs_influences,
    sampled,
)
from mustdp.estimation.statistics.statistic import (
    SlotRelease,
    Statistic,
    StatisticRequest,
    register,
    unknown_statistic,
)
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import WorkEstimate, check_cost

# Squares of the weights: how much records of unequal weight count for.
#
# With weights t in [0, 1], Hajek's ratio sum(t y) / sum(t) has the sampling variance of sum(t)^2 /
# sum(t^2) records that count alike (Kish 1965), where weights and values are not related; estimates
# with a second round need no such assumption. Contributions are t^2: radius 1, diameter 1.


@dataclass(frozen=True)
class WeightSquares(BoundedSum):
    """The sum of the squared weights of every slot."""

    tells_records: ClassVar[bool] = False
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
    def covariance(self) -> NoiseCovariance:
        """Of one number."""
        return NoiseCovariance.of(np.eye(1))


# First and second moments of some columns, in one part.
#
# Every column is scaled to u in [-1, 1]. For d columns the part adds up a (*count*, where the
# number of records is unknown), u_i (*means*), b (u_i^2 - 1/2) (*squares*) and u_i u_j, i < j
# (*products*).
#
# *Diameter.* With D = d + 1 and b^2 = (D + 1)/2, the section on subsets below proves |Dmeans|^2 +
# b^2 |Dsquares|^2 + |Dproducts|^2 <= D^2 for two records; the count cancels. For d = 1, b^2 = 11/4
# is allowed with the same D = 2: then mean and mean square together cost what the mean costs alone.
#
# *Radius.* |means|^2 <= d, b^2 |squares|^2 <= d b^2 / 4, |products|^2 <= d (d - 1)/2.
#
# *The balance a, b.* A number of records that a missing value alone can change (replace_one without
# groups) is as precise as the diameter allows, a^2 = D^2 - R^2: it costs nothing. Where records may
# come, go or change their group the radius decides; then a = 1, and b = 1 for one column.


#: Moments of up to this many columns serve the statistics of some of them, too: with more columns
#: a part of their own costs less.
_MOST_MERGED = 3


@dataclass(frozen=True)
class Moments(BoundedSum):
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
    def covariance(self) -> NoiseCovariance:
        """All of it."""
        return NoiseCovariance.of(self._matrix)

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

    def holds(self, other: BoundedSum) -> bool:
        """Moments of few columns hold those of some of them, on the same records."""
        return (
            isinstance(other, Moments)
            and not self.schema.dropped
            and set(other.columns) < set(self.columns)
            and self.count <= _MOST_MERGED
        )

    def reorders(self, other: BoundedSum) -> bool:
        """Those of the same columns."""
        return isinstance(other, Moments) and sorted(self.columns) == sorted(other.columns)

    def read_off(self, noisy: NoisySums, other: BoundedSum) -> NoisySums:
        """Some of the moments."""
        at = self.positions(other.columns)
        noise = noisy.noise
        kept = NoiseCovariance(noise.first[at], noise.own[at], noise.matrix[np.ix_(at, at)])
        return replace(noisy, part=other, sums=noisy.sums[:, at], noise=kept)

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

    def terms(self, values: FloatArray) -> FloatArray:
        """1, u_i, u_i^2 and u_i u_j of every record."""
        return np.concatenate(
            [np.ones((len(values), 1)), self.features(self.scaled(values))], axis=1
        )

    def extremes(self) -> FloatArray:
        """Those of the corners of the box, its middle and some points inside."""
        d = self.count
        rng = np.random.default_rng(0)  # public points
        if d <= _MOST_CORNERS:
            corners = np.array(list(itertools.product((-1.0, 1.0), repeat=d)))
        else:
            corners = rng.choice([-1.0, 1.0], (2**_MOST_CORNERS, d))
        inside = rng.uniform(-1.0, 1.0, (256, d))
        features = self.features(np.concatenate([corners, inside, np.zeros((1, d))]))
        return np.concatenate([np.ones((len(features), 1)), features], axis=1)

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
# (f(x) - mu), where f are the record's moments, mu their averages and g the estimate's gradient
# there. mu and g are read off the first release, so they are public here, and the sampling variance
# is the average of psi^2 over the number of records: no law of the data is assumed, no fourth
# moments are needed (White 1980 for regression). psi^2 is cut at a bound that follows from the
# ranges. Released are psi^2 over the bound: contributions in [0, 1], or [-1/2, 1/2] where the
# number of records is public; radius 1, diameter 1 for each estimate, so sqrt(J) for J of them.
#
# *Clusters.* Records of one cluster are no independent draws: their influences, each cut at its own
# bound B, are added up within it before they are squared (``counts.py``). What a cluster
# contributes is s^2 with s its sum over m B, m the largest cluster, cut to [-1, 1]: a number in [0,
# 1], for each estimate and each slot that it has records in.


#: Columns whose corners are all looked at for the bound of an influence.
_MOST_CORNERS = 10


@dataclass(frozen=True, eq=False)
class Influences(BoundedSum):
    """Squared influences: ``gradients`` (slots, estimates, moments) at ``means`` (slots, moments).

    Natural sums: the sum of psi^2 of every estimate; the number of records is not among them.
    """

    tells_records: ClassVar[bool] = False
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
        """Proved above, and in ``counts.py``."""
        return radius_of_squares(self.schema, math.sqrt(self.width), math.sqrt(self.width))

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
    def covariance(self) -> NoiseCovariance:
        """Independent."""
        return NoiseCovariance.of(np.eye(self.width))

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
        centred = self.moments.extremes()[None, :, 1:] - self.means[:, None, :]
        psi = np.einsum("srk,sjk->srj", centred, self.gradients)
        largest: FloatArray = (psi**2).max(axis=1)
        return np.maximum(largest * float(self.schema.largest_cluster or 1) ** 2, 1e-300)


# Moments of subsets, released together, and their joint radius.
#
# Every column is scaled to [-1, 1] by its public range. For the d scaled columns u of a record the
# release holds the averages of u_i (*means*), of u_i^2 for the columns in ``squares``, and of u_i
# u_j, i < j (*products*). Everything else (variance, covariance, correlation, regression) is read
# off these. Averages of records, not of pairs: where a multiset holds copies nothing has to be
# corrected.
#
# **Multisets of fixed size m.** Swapping one entry, u for v, changes the sums by ``Dmeans = u -
# v``, ``Dsquares = (u_i^2 - v_i^2)``, ``Dproducts = (u_i u_j - v_i v_j)``. Let w = (1, u), t = (1,
# v), D = d + 1. The matrix ww' - tt' holds Dmeans and Dproducts twice and Dsquares once, so
#
#     2|Dmeans|^2 + |Dsquares|^2 + 2|Dproducts|^2 = |ww' - tt'|_F^2 = |w|^4 + |t|^4 - 2(w.t)^2.
#
# Write a_i = 1 - u_i^2 and b_i = 1 - v_i^2, both in [0, 1], A = sum a_i, B = sum b_i, both <= d <
# D. Then |w|^4 = (D - A)^2 <= D^2 - D A, and the same for t. And |u_i^2 - v_i^2|^2 = (a_i - b_i)^2
# <= |a_i - b_i| <= a_i + b_i, so D |Dsquares|^2 <= D (A + B). Adding the two,
#
#     2|Dmeans|^2 + (D + 1)|Dsquares|^2 + 2|Dproducts|^2 <= 2 D^2.
#
# So with radii ``D/(2m)`` for means and products and ``D/(m sqrt(2(D + 1)))`` for squares the
# condition (*) of ``queries.py``, sum of (change / (2 radius))^2 <= 1, holds for the vector as a
# whole. It is attained for odd d by orthogonal w, t of signs; leaving squares out only lowers the
# left side.
#
# *One column* (d = 1) has a better balance: ``|u - v|^2 + (11/4)(u^2 - v^2)^2 <= 4``. With s = |u +
# v|, |u - v| <= 2 - s, this follows from (2 - s)^2 (1 + (11/4) s^2) <= 4, that is, for s > 0, from
# 11/4 <= (4 - s) / (s (2 - s)^2), whose minimum over (0, 2) is (11 + 5 sqrt 5)/8 = 2.77 at s = 3 -
# sqrt 5. So the radii are 1/m for the mean and 2/(m sqrt 11) for the square: the mean costs what
# it costs alone.
#
# Squares are added up as u_i^2 - 1/2, in [-1/2, 1/2], and on multisets of fixed size the 1/2 is
# given back after the noise.
#
# **Poisson subsets of expected size M.** Sums are divided by M, and the size is released too
# (*count*). One copy adds to 2 count^2 + 2|means|^2 +
# 4|squares|^2 + 2|products|^2 at most 2 + 2d + q + d(d - 1) =: R^2, with q squares. So the radii
# are R/(M sqrt 2) for count, means and products, and R/(2M) for squares.


@dataclass(frozen=True, eq=False)
class AveragedMoments:
    """Averages of columns scaled to [-1, 1], and of their squares and products.

    ``means`` are ``(..., d)``, ``second`` ``(..., d, d)`` with NaN for squares that were not
    released.
    """

    ranges: tuple[Range, ...]
    means: FloatArray
    second: FloatArray

    @cached_property
    def mids(self) -> FloatArray:
        """Midpoints of the ranges."""
        return np.array([one.mid for one in self.ranges])

    @cached_property
    def halves(self) -> FloatArray:
        """Half widths of the ranges."""
        return np.array([one.half for one in self.ranges])

    @cached_property
    def centres(self) -> FloatArray:
        """The averages in the columns' own units."""
        return np.asarray(self.mids + self.halves * self.means)

    @cached_property
    def covariances(self) -> FloatArray:
        """Covariance matrices ``(..., d, d)`` of the scaled columns, with divisor n."""
        return np.asarray(self.second - self.means[..., :, None] * self.means[..., None, :])


#: A function of averages, and the slopes of one along all moments.
MomentFunction = Callable[[AveragedMoments], FloatArray]
Gradient = Callable[[MomentFunction], FloatArray]


class MomentStatistic(Statistic):
    """A smooth function of the moments of some columns; subclasses say which."""

    in_domains = True

    #: What the bootstrap calls the estimate; empty for the name.
    label: ClassVar[str] = ""
    #: Whether the divisor is n - 1, so that what was divided by n is multiplied by n / (n - 1).
    unbiased: ClassVar[bool] = False
    #: What is said where the noise hides what is divided by.
    hidden: ClassVar[str] = UNCLEAR
    #: Whether the order of the columns makes no difference.
    any_order: ClassVar[bool] = False

    @abstractmethod
    def smooth(self, at: AveragedMoments) -> FloatArray:
        """The estimates ``(..., cells)`` in the columns' units, differentiable: cut nowhere.

        Defined on all numbers near those of data; NaN where there is nothing to differentiate.
        """

    def estimate(self, at: AveragedMoments) -> FloatArray:
        """The estimates of single replicates, brought to what they can be."""
        return self.smooth(at)

    def support(self, ranges: Sequence[Range]) -> Support:
        """What :meth:`smooth` can be, whatever the data are."""
        return UNBOUNDED

    def transform(self, interval: Interval) -> Interval:
        """From what :meth:`smooth` gives to what is estimated."""
        return interval

    def interval(self, value: float, spread: Spread, level: float, support: Support) -> Interval:
        """The interval around a value of :meth:`smooth`."""
        return self.transform(t_interval(value, spread, level, support, curved=True))

    def divisors(self, at: AveragedMoments) -> FloatArray:
        """Numbers ``(..., any)`` above zero that the estimates divide by.

        Where the noise leaves open whether they are, nothing is known.
        """
        return np.empty((*at.means.shape[:-1], 0))

    def largest_influence(self, at: AveragedMoments) -> float:
        """The largest influence of a record on :meth:`smooth`; 0 where none is known."""
        return 0.0

    def squared_columns(self, columns: int) -> tuple[int, ...]:
        """The columns whose squares the bootstrap has to release."""
        return tuple(range(columns))

    def labels(self, columns: int) -> tuple[str, ...]:
        """What the bootstrap calls the estimates."""
        return (self.label or self.name,)

    def cells(self, names: Sequence[str]) -> tuple[str, ...]:
        """What a release calls the estimates besides the statistic's name."""
        return ("",)

    def unclear(self, at: AveragedMoments, gradient: Gradient, noise: FloatArray) -> str | None:
        """Why nothing is known, where the noise hides what is divided by; None if it does not."""
        slopes = gradient(self.divisors)
        errors = np.sqrt(np.einsum("im,mn,in->i", slopes, noise, slopes))
        return None if np.all(self.divisors(at) > CLEARLY * errors) else self.hidden

    def cautions(self, at: AveragedMoments) -> tuple[str, ...]:
        """What a reader of a bootstrap has to know."""
        return ()

    def second_statistic(self) -> MomentStatistic:
        """The statistic whose influences the second round of a release adds up."""
        return type(self)()

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """In two rounds: moments, then squared influences."""
        return MomentRequest(schema, columns, self)

    def _on(self, public: SubsetSchema) -> Query:
        return MomentQuery(public, self, self.labels(len(public.ranges)))


class ReadByStatistic(Query):
    """A query on subsets whose intervals are those of a statistic of moments."""

    public: SubsetSchema
    statistic: MomentStatistic

    @property
    def supports(self) -> tuple[Support, ...]:
        """What the estimates can be."""
        smooth = vacuous_interval(self.statistic.support(self.public.ranges))
        return (self.statistic.transform(smooth).ends,) * len(self.labels)

    @abstractmethod
    def averages(self, vectors: FloatArray) -> AveragedMoments:
        """The averages behind released vectors ``(..., width)``."""

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """By the statistic."""
        return self.statistic.estimate(self.averages(vectors))

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """By the statistic."""
        return self.statistic.smooth(self.averages(vectors))

    def divided_by(self, vectors: FloatArray) -> FloatArray:
        """By the statistic."""
        return self.statistic.divisors(self.averages(vectors))

    @property
    def hidden(self) -> str:
        """What is said where the noise hides what is divided by."""
        return self.statistic.hidden

    def interval(self, place: int, value: float, spread: Spread, level: float) -> Interval:
        """Around a value of what is differentiated."""
        support = self.statistic.support(self.public.ranges)
        return self.statistic.interval(value, spread, level, support)


@dataclass(frozen=True)
class MomentQuery(ReadByStatistic, LinearQuery):
    """Moments of all columns, squares of some of them, on subsets; the statistic reads them."""

    public: SubsetSchema
    statistic: MomentStatistic
    labels: tuple[str, ...]
    squares: tuple[int, ...] = field(init=False)
    blocks: tuple[QueryBlock, ...] = field(init=False)
    _mids: FloatArray = field(init=False, repr=False, compare=False)
    _scales: FloatArray = field(init=False, repr=False, compare=False)
    _rows: NDArray[np.intp] = field(init=False, repr=False, compare=False)
    _columns: NDArray[np.intp] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ranges = self.public.ranges
        squares = self.statistic.squared_columns(len(ranges))
        blocks = moment_blocks(self.public, len(squares))
        check_held("columns", sum(one.width for one in blocks), 1)
        rows, columns = np.triu_indices(len(ranges), 1)
        setting = {
            "squares": squares,
            "_mids": np.array([one.mid for one in ranges]),
            "_scales": np.array([1.0 / one.half for one in ranges]),
            "_rows": np.concatenate([np.array(squares, dtype=np.intp), rows]),
            "_columns": np.concatenate([np.array(squares, dtype=np.intp), columns]),
            "blocks": blocks,
        }
        for name, value in setting.items():
            object.__setattr__(self, name, value)

    @property
    def in_a_ball(self) -> bool:
        """On Poisson subsets alone: with a fixed size, distances are bounded more tightly."""
        return self.public.poisson

    def contributions(self, values: FloatArray) -> FloatArray:
        """(1 on Poisson subsets,) the scaled columns, their squares less 1/2, their products."""
        found = np.ones((self.width, len(values)))  # a coordinate is a row here: that is faster
        start = int(self.public.poisson)
        end = start + len(self.public.ranges)
        scaled, second = found[start:end], found[end:]
        np.multiply(values.T - self._mids[:, None], self._scales[:, None], out=scaled)
        scaled.clip(-1.0, 1.0, out=scaled)  # the scale is a rounded number
        for row, first, other in zip(second, self._rows, self._columns, strict=True):
            np.multiply(scaled[first], scaled[other], out=row)
        second[: len(self.squares)] -= 0.5
        return found.T

    def averages(self, vectors: FloatArray) -> AveragedMoments:
        """The averages behind released vectors ``(..., width)``.

        On Poisson subsets everything is divided by the noisy size; one below ``LEAST_SHARE`` of the
        expected size is taken to be that share of it.
        """
        columns, poisson = len(self.public.ranges), self.public.poisson
        if poisson:
            vectors = vectors[..., 1:] / np.maximum(vectors[..., :1], LEAST_SHARE)
        first, second = vectors[..., :columns], vectors[..., columns:]
        if poisson:
            second = second + np.repeat(
                [0.5, 0.0], [len(self.squares), len(self._rows) - len(self.squares)]
            )
        matrix = np.full((*vectors.shape[:-1], columns, columns), np.nan)
        matrix[..., self._rows, self._columns] = second
        matrix[..., self._columns, self._rows] = second
        return AveragedMoments(self.public.ranges, first, matrix)

    def largest(self, vector: FloatArray) -> float:
        """By the statistic."""
        return self.statistic.largest_influence(self.averages(vector))

    def cautions(self, at: Averaged, grouped: FloatArray) -> tuple[str, ...]:
        """By the statistic."""
        return self.statistic.cautions(self.averages(at.vector))


def moment_blocks(public: SubsetSchema, squares: int) -> tuple[QueryBlock, ...]:
    """The blocks of ``MomentQuery``, with the radii proved above."""
    columns, size = len(public.ranges), public.size
    products = columns * (columns - 1) // 2
    if public.poisson:
        joint = math.sqrt(2 + 2 * columns + squares + columns * (columns - 1))
        mixed, square = joint / math.sqrt(2.0), 0.5 * joint
    elif columns == 1:
        mixed, square = 1.0, 2.0 / math.sqrt(11.0)
    else:
        joint = columns + 1
        mixed, square = 0.5 * joint, joint / math.sqrt(2.0 * (joint + 1))
    found = [
        ("count", int(public.poisson), mixed, 0.0),
        ("means", columns, mixed, 0.0),
        ("squares", squares, square, 0.0 if public.poisson else 0.5),
        ("products", products, mixed, 0.0),
    ]
    return tuple(
        block(label, width, radius / size, size, shift)
        for label, width, radius, shift in found
        if width
    )


# A function of moments in one release, judged by its influences in a second round.
#
# The averages of the moments, mu, are read off the first release; the estimate is a smooth
# function theta(mu), differentiated where it is, by differences far smaller than an error and
# without cutting anything. Its variance is what the noise gives along the gradient, plus the
# released average of the squared influence (see above) over the number of records. Products of
# noisy averages are freed of the noise's own share: E (m + e)(m' + e') = m m' + Cov(e, e').


#: Step of derivatives along averages of columns in [-1, 1].
_STEP = 1e-5
#: Slopes beyond this say nothing, and their squares must stay numbers.
_STEEPEST = 1e100
#: Noise in an average, of columns in [-1, 1], beyond which its square can no longer be neglected.
_MOST_NOISE = 0.25


@dataclass(frozen=True, eq=False)
class NoisyAverages:
    """The averages of all moments in one slot, with the covariance of their noise."""

    records: float
    enough: bool  # whether there are enough records for the noise
    means: FloatArray
    noise: FloatArray
    weighted: bool = False  # or put together from strata

    @property
    def bessel(self) -> float:
        """n / (n - 1), for divisors n - 1; with weights or strata nothing of the kind."""
        return 1.0 if self.weighted else self.records / (self.records - 1.0)


@dataclass(frozen=True)
class MomentRequest(StatisticRequest):
    """A function of moments that is read off two rounds."""

    statistic: MomentStatistic

    @property
    def name(self) -> str:
        """That of the statistic."""
        return self.statistic.name

    @cached_property
    def sums(self) -> Moments:
        """Moments of the columns."""
        return Moments(self.schema, self.columns)

    @cached_property
    def _ranges(self) -> tuple[Range, ...]:
        return tuple(self.schema.columns[k].numeric for k in self.columns)

    @property
    def support(self) -> Support:
        """By the statistic."""
        smooth = vacuous_interval(self.statistic.support(self._ranges))
        return self.statistic.transform(smooth).ends

    @property
    def two_rounds(self) -> bool:
        """Always."""
        return True

    @property
    def weighted_errors(self) -> bool:
        """Yes: weights are in the influences."""
        return True

    @property
    def influences(self) -> int:
        """One for every estimate."""
        return len(self.statistic.cells([self.schema.columns[k].name for k in self.columns]))

    @property
    def second_request(self) -> StatisticRequest:
        """That of the statistic whose influences serve; in one order, if any will do."""
        columns = tuple(sorted(self.columns)) if self.statistic.any_order else self.columns
        return MomentRequest(self.schema, columns, self.statistic.second_statistic())

    def describe(self, cell: str) -> str:
        """What is estimated, in words."""
        if not cell:
            return super().describe(cell)
        cells = self.statistic.cells([self.schema.columns[k].name for k in self.columns])
        label = f"slope of {cell}" if cells.index(cell) else cell
        return self.statistic.described(label, [self.said(k) for k in self.columns])

    def second_sums(self, first: NoisySums, together: Sequence[StatisticRequest]) -> BoundedSum:
        """Influences at the averages of every slot; over strata, on what all of them give."""
        if self.schema.domains:
            return self._in_groups(first)
        spots = [noisy_averages(self.sums, first, slot) for slot in range(self.schema.slots)]
        if self.schema.shares:
            whole = self._slopes(self._over_strata(first).means)
            gradients = np.stack([whole] * len(spots))
        else:
            gradients = np.stack([self._slopes(spot.means) for spot in spots])
        means = np.stack([spot.means for spot in spots])
        return Influences(self.sums, gradients, np.clip(means, -1.0, 1.0))

    def _in_groups(self, first: NoisySums) -> DomainInfluences:
        """Influences on what every group gives, over all strata."""
        found = []
        for slots in domains_of(self.schema):
            spot, share = self._of_group(first, slots)
            slopes = self._slopes(spot.means)
            centred = np.concatenate([-slopes @ spot.means[:, None], slopes], axis=1)
            found.append(centred / share)
        return DomainInfluences.at(self.sums, first, np.array(found))

    def _of_group(self, first: NoisySums, slots: Sequence[int]) -> tuple[NoisyAverages, float]:
        """The averages of a group over all strata, and its share of the population."""
        part, at = self.sums, domain_averages(self.schema, first, slots)
        d = part.count
        worst = float(np.sqrt(np.diagonal(at.noise)[:d].max()))
        if not (at.clear and worst < _MOST_NOISE):
            middle = np.zeros(len(at.means))
            middle[d : 2 * d] = 0.5
            return NoisyAverages(1.0, False, middle, np.eye(len(middle)), True), 1.0
        return (
            NoisyAverages(1.0, True, freed(part, at.means, at.noise), at.noise, True), at.share
        )  # fmt: skip

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """A function of the group's averages, from both rounds."""
        first = strata[0].first
        slots = [at.slot for at in inside]
        spot, _ = self._of_group(first, slots)
        weights = domain_averages(self.schema, first, slots).weights
        values, slopes = self.statistic.smooth(self._at(spot.means)), self._slopes(spot.means)
        names = [self.schema.columns[k].name for k in self.columns]
        for cell, name in enumerate(self.statistic.cells(names)):
            sampling, error, doubt = sampled(inside, strata, weights, cell)
            noise = float(slopes[cell] @ spot.noise @ slopes[cell])
            spread = released_spread(sampling, error, noise, doubt)
            yield name, self._interval(spot, float(values[cell]), spread, strata[0].level)

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """The estimates of one slot, from both rounds."""
        spot = noisy_averages(self.sums, at.first, at.slot)
        factor = np.zeros(self.schema.slots)
        factor[at.slot] = at.unsampled / spot.records**2
        yield from self._read(spot, at, factor)

    def read_strata(self, slots: Sequence[SlotRelease]) -> Iterator[tuple[str, Interval]]:
        """A function of the averages of the population, sum W_h mu_h."""
        if self.schema.domains:
            yield from self.read_domain(slots, slots)
            return
        factor = np.zeros(self.schema.slots)
        for at, share in zip(slots, self.schema.shares, strict=True):
            records = noisy_averages(self.sums, at.first, at.slot).records
            factor[at.slot] = at.unsampled * (share / records) ** 2
        yield from self._read(self._over_strata(slots[0].first), slots[0], factor)

    def _read(
        self, spot: NoisyAverages, at: SlotRelease, factor: FloatArray
    ) -> Iterator[tuple[str, Interval]]:
        """Squared influences of every slot count ``factor`` times in the sampling variance.

        Those of K clusters are multiplied by K / (K - 1) and have K - 1 degrees of freedom.
        """
        second = at.second
        if second is None or not isinstance(second.part, Influences):
            raise InvalidParameter("the second round must be one of influences")
        freedom = np.full(len(factor), np.inf)
        if self.schema.largest_cluster is not None:
            slots = (replace(at, slot=slot) for slot in range(len(factor)))
            count = np.array([one.clusters for one in slots])
            freedom = count - 1.0
            factor = factor * count / freedom
        values, slopes = self.statistic.smooth(self._at(spot.means)), self._slopes(spot.means)
        bounds = second.part.bounds
        names = [self.schema.columns[k].name for k in self.columns]
        for cell, name in enumerate(self.statistic.cells(names)):
            each = factor * bounds[:, cell]
            sampling = float(each @ second.sums[:, cell])
            doubt = float((2.0 * (each * second.sums[:, cell]) ** 2 / freedom).sum())
            errors = np.sqrt(second.noise.own[cell] * second.variances)
            error = float(np.linalg.norm(each * errors))
            noise = float(slopes[cell] @ spot.noise @ slopes[cell])
            spread = released_spread(sampling, error, noise, doubt)
            yield name, self._interval(spot, float(values[cell]), spread, at.level)

    def _interval(
        self, spot: NoisyAverages, value: float, spread: Spread, level: float
    ) -> Interval:
        statistic = self.statistic
        scale = spot.bessel if statistic.unbiased else 1.0
        low, high = statistic.support(self._ranges)
        support = (scale * low, scale * high)
        if not spot.enough:
            return statistic.transform(vacuous_interval(support))

        def gradient(function: MomentFunction) -> FloatArray:
            return self._gradient(function, spot.means)

        flag = statistic.unclear(self._at(spot.means), gradient, spot.noise)
        if flag is not None:
            return statistic.transform(vacuous_interval(support, flag))
        return statistic.interval(value * scale, spread, level, support)

    def _at(self, means: FloatArray) -> AveragedMoments:
        d, (rows, columns) = self.sums.count, self.sums.pairs
        second = np.empty((*means.shape[:-1], d, d))
        at = np.arange(d)
        second[..., at, at] = means[..., d : 2 * d]
        second[..., rows, columns] = second[..., columns, rows] = means[..., 2 * d :]
        return AveragedMoments(self._ranges, means[..., :d], second)

    def _gradient(self, function: MomentFunction, means: FloatArray) -> FloatArray:
        moves = _STEP * np.eye(len(means))
        rise = function(self._at(means + moves)) - function(self._at(means - moves))
        return np.asarray(rise.T / (2.0 * _STEP))

    def _slopes(self, means: FloatArray) -> FloatArray:
        """Slopes of the estimates, (cells, moments); none where they are not finite."""
        slopes = self._gradient(self.statistic.smooth, means)
        return np.clip(np.where(np.isfinite(slopes), slopes, 0.0), -_STEEPEST, _STEEPEST)

    def _over_strata(self, first: NoisySums) -> NoisyAverages:
        """The averages of the population."""
        spots = [noisy_averages(self.sums, first, h, False) for h in range(len(self.schema.shares))]
        enough = all(spot.enough for spot in spots)
        pairs = list(zip(self.schema.shares, spots, strict=True))
        means = np.sum([share * spot.means for share, spot in pairs], axis=0)
        noise = np.sum([share**2 * spot.noise for share, spot in pairs], axis=0)
        if enough:
            means = freed(self.sums, means, noise)
        return NoisyAverages(
            sum(spot.records for spot in spots), enough, means, noise, weighted=True
        )


def noisy_averages(part: Moments, noisy: NoisySums, slot: int, free: bool = True) -> NoisyAverages:
    """Averages of one slot; where there are hardly any records, those of data in the middle.

    ``free``: products are to be freed of the noise's own share.
    """
    sums, d = noisy.sums[slot], part.count
    own = noisy.noise_in(slot)
    deviation = float(np.sqrt(own.own[0]))
    records = float(sums[0])
    worst = float(np.sqrt(own.own[1 : 1 + d].max()))
    least = 1e-9 if part.schema.weighted else 1.5
    if not records > max(CLEARLY * deviation, worst / _MOST_NOISE, least):
        middle = np.zeros(len(sums) - 1)
        middle[d : 2 * d] = 0.5
        few = max(records, least)
        return NoisyAverages(few, False, middle, np.eye(len(middle)), part.schema.weighted)
    means = sums[1:] / records
    slope = np.concatenate([-means[:, None], np.eye(len(means))], axis=1) / records
    noise = slope @ own.matrix @ slope.T
    if free:
        means = freed(part, means, noise)
    return NoisyAverages(records, True, means, noise, part.schema.weighted)


def freed(part: Moments, means: FloatArray, noise: FloatArray) -> FloatArray:
    """Averages whose squares and products are larger by what the noise adds to those of means."""
    d, (rows, columns) = part.count, part.pairs
    means = means.copy()
    means[d : 2 * d] += np.diagonal(noise)[:d]
    means[2 * d :] += noise[rows, columns]
    return means


# The variance and the standard deviation of a column.
#
# **As an average over pairs** (``form="pairs"``, fixed size m >= 2). The sample variance over the m
# positions is
#
#     s^2 = 1/(m - 1) sum_i (x_i - mean)^2 = 1/(m(m - 1)) sum_{i<j} (x_i - x_j)^2.
#
# Swapping entry i touches the m - 1 pairs with i. Each term lies in [0, (U - L)^2], so it moves by
# at most (U - L)^2, and s^2 by at most ``(m - 1)(U - L)^2 / (m(m - 1)) = (U - L)^2 / m``. Attained:
# all others at L, the entry from L to U. The radius is ``(U - L)^2 / (2m)``. Two positions may hold
# copies of one record; such pairs count as zero, which the design corrects (``paired``).
#
# **Through moments** (``form="moments"``, and always on Poisson subsets): averages of the scaled
# value and its square are released, their radius is proved above, and variance = mean of
# squares - square of the mean, with divisor n. With h = (U - L)/2 and r the mean's distance from
# the midpoint over h, its noise has standard deviation near ``z h^2 sqrt(4/11 + 4 r^2) / m``
# instead of ``2 z h^2 / m``: 2.8 times less at r = 0.2, and less up to |r| = 0.95. It is not linear
# in the release: read it off the average of the releases, not off each.


#: How a variance, a covariance or a correlation is released.
FORMS = ("pairs", "moments")


@dataclass(frozen=True)
class InTwoForms(MomentStatistic):
    """A statistic by moments or, on subsets, as an average over pairs.

    Poisson subsets and releases on all records always take moments.
    """

    form: str = "moments"
    columns: tuple[str | int, ...] | None = None

    def __post_init__(self) -> None:
        checks.choice("form", self.form, FORMS)
        super().__post_init__()

    @classmethod
    def parse(cls, argument: str | None, text: str) -> Statistic:
        """The form behind the colon."""
        if argument is not None and argument not in FORMS:
            raise unknown_statistic(text)
        return cls(form=argument or "moments")

    @property
    def argument(self) -> str | None:
        """The form, where it is not the usual one."""
        return None if self.form == "moments" else self.form

    def check_release(self) -> None:
        """Pairs are for subsets."""
        if self.form != "moments":
            raise InvalidParameter.refusing(
                "statistic", "must be read off moments in one release", repr(self.written)
            )

    @abstractmethod
    def _pairs(self, public: SubsetSchema) -> Query:
        """The average over pairs."""

    def _on(self, public: SubsetSchema) -> Query:
        if self.form == "moments" or public.poisson:
            return super()._on(public)
        public.refuse_below(2)
        return self._pairs(public)


@register
@dataclass(frozen=True)
class Variance(InTwoForms):
    """The variance of one column.

    Its radius is proved at the top of this section.

    Parameters
    ----------
    form : {"moments", "pairs"}, default="moments"
        "moments" releases the first two moments, which takes less noise and knows no bias from
        records that are drawn twice. "pairs" releases the sample variance of every subset, as the
        MUST paper does: radius (U - L)^2 / (2m). Poisson subsets always take moments.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> Variance(form="pairs").query(SubsetSchema([0.0], [10.0], 20)).blocks
    (QueryBlock(label='variance', width=1, radius=2.5),)
    """

    name = "variance"
    about = "the variance"
    unbiased = True

    def smooth(self, at: AveragedMoments) -> FloatArray:
        """Mean of squares minus square of the mean."""
        found: FloatArray = at.covariances[..., 0] * at.halves[0] ** 2
        return found

    def support(self, ranges: Sequence[Range]) -> Support:
        """Up to that of values at both ends of the range."""
        return (0.0, ranges[0].half ** 2)

    def largest_influence(self, at: AveragedMoments) -> float:
        """The square of the way from the mean to the farther end."""
        mean = min(abs(float(at.means[0])), 1.0)
        return float(at.halves[0] * (1.0 + mean)) ** 2

    def shape(self, poisson: bool) -> Shape:
        """One number, unless it is read off two moments; no sum in either form."""
        alone = self.form == "pairs" and not poisson
        return Shape(in_a_ball=poisson, one_number=alone)

    def second_statistic(self) -> MomentStatistic:
        """The variance: the second round is one for it and its root."""
        return Variance()

    def _pairs(self, public: SubsetSchema) -> Query:
        return PairsQuery(public, self, self.labels(1), ((0, 0, 1.0),))


@register
@dataclass(frozen=True)
class StandardDeviation(Variance):
    """The root of the released variance, 0 where noise made it negative.

    What is released is the variance, with its radius; the root is taken of what was released and
    costs no privacy.

    Parameters
    ----------
    form : {"moments", "pairs"}, default="moments"
        As in :class:`Variance`.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> StandardDeviation(form="pairs").query(SubsetSchema([0.0], [10.0], 20)).blocks
    (QueryBlock(label='variance', width=1, radius=2.5),)
    """

    name = "sd"
    about = "the standard deviation"
    label = "standard deviation"

    def estimate(self, at: AveragedMoments) -> FloatArray:
        """The root, 0 where noise made the variance negative."""
        return np.sqrt(np.maximum(self.smooth(at), 0.0))

    def transform(self, interval: Interval) -> Interval:
        """The root of the value and of both ends."""
        return root_interval(interval)


# The covariance and the correlation of two columns.
#
# **As averages over pairs** (``form="pairs"``, fixed size m >= 2). The sample covariance over the m
# positions is
#
#     s_xy = 1/(m(m - 1)) sum_{i<j} (x_i - x_j)(y_i - y_j).
#
# Swapping entry i touches the m - 1 pairs with i. Fix the partner j and scale both ranges to [0,
# 1], the partner at (a, b). Over the box the product (x - a)(y - b) is largest at a corner, max(ab,
# (1-a)(1-b)), and smallest at a corner, -max(a(1-b), (1-a)b). The four sums of one of each are ab +
# a(1-b) = a, ab + (1-a)b = b, (1-a)(1-b) + a(1-b) = 1-b and (1-a)(1-b) + (1-a)b = 1-a, all at most
# 1. So each term moves by at most Rx Ry (the widths of the ranges), and s_xy by at most ``Rx Ry /
# m``. Attained: all others at (Lx, Ly), the entry from there to (Ux, Uy). The radius is ``Rx Ry /
# (2m)``.
#
# The correlation releases s_xx, s_xy and s_yy. The swap just named moves all three farthest at
# once, so nothing beats shares (``queries.py``): w^2 = 1/4, 1/2, 1/4. The noise in the correlation
# r has variance proportional to ``1/w_xy^2 + (r^2/4)(1/w_xx^2 + 1/w_yy^2)``, and these shares are
# the best for |r| = 1.
#
# **Through moments** (``form="moments"``, and always on Poisson subsets): as for the
# variance.


#: A noisy variance below this share of the half range squared is raised to it in a correlation.
LEAST_VARIANCE = 1e-4


@register
@dataclass(frozen=True)
class Covariance(InTwoForms):
    """The covariance of two columns.

    Its radius is proved at the top of this section.

    For ``form="pairs"`` it is Rx Ry / (2m).

    Parameters
    ----------
    form : {"moments", "pairs"}, default="moments"
        As in :class:`Variance`.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given. There are two.

    Examples
    --------
    >>> Covariance(form="pairs").query(SubsetSchema([0.0, 0.0], [10.0, 2.0], 20)).blocks
    (QueryBlock(label='covariance', width=1, radius=0.5),)
    """

    name = "covariance"
    about = "the covariance"
    fewest = most = 2
    unbiased = True
    _entries: ClassVar[tuple[tuple[int, int, float], ...]] = ((0, 1, 1.0),)
    any_order = True

    def smooth(self, at: AveragedMoments) -> FloatArray:
        """Mean of products minus product of means."""
        scale = at.ranges[0].half * at.ranges[1].half
        return np.asarray(at.covariances[..., 0, 1:] * scale)

    def support(self, ranges: Sequence[Range]) -> Support:
        """At most the product of half the ranges, either way."""
        most = ranges[0].half * ranges[1].half
        return (-most, most)

    def squared_columns(self, columns: int) -> tuple[int, ...]:
        """None."""
        return ()

    def check_effort(self, columns: int, slots: int) -> None:
        """The moments of pairs are compared with each other; seconds were measured on one core."""
        cost = WorkEstimate(3e-7 * (columns * (columns - 1) / 2) ** 2)
        check_cost("columns", f"a {self.name} of {columns} columns", cost)

    def _pairs(self, public: SubsetSchema) -> Query:
        return PairsQuery(public, self, self.labels(2), self._entries)


@register
@dataclass(frozen=True)
class Correlation(Covariance):
    """The correlation of two columns: covariance and both variances in one release.

    Parameters
    ----------
    form : {"moments", "pairs"}, default="moments"
        As in :class:`Variance`.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given. There are two.

    Examples
    --------
    >>> query = Correlation().query(SubsetSchema([0.0, 0.0], [10.0, 2.0], 20))
    >>> [block.label for block in query.blocks]
    ['means', 'squares', 'products']
    """

    name = "correlation"
    about = "the correlation"
    unbiased = False
    _entries = ((0, 0, 0.5), (0, 1, math.sqrt(0.5)), (1, 1, 0.5))
    hidden = (
        "the noise leaves open whether a column varies: the interval is the whole possible range"
    )

    def smooth(self, at: AveragedMoments) -> FloatArray:
        """Not cut at 1 nor at a smallest variance: it is differentiated."""
        found = at.covariances
        return uncut_correlation(found[..., 0, 0], found[..., 0, 1], found[..., 1, 1])

    def estimate(self, at: AveragedMoments) -> FloatArray:
        """Clipped to [-1, 1]."""
        found = at.covariances
        return correlation_of(found[..., 0, 0], found[..., 0, 1], found[..., 1, 1])

    def support(self, ranges: Sequence[Range]) -> Support:
        """Of a correlation."""
        return (-1.0, 1.0)

    def interval(self, value: float, spread: Spread, level: float, support: Support) -> Interval:
        """On Fisher's scale."""
        return fisher_interval(value, spread, level)

    def divisors(self, at: AveragedMoments) -> FloatArray:
        """Both variances."""
        return np.diagonal(at.covariances, axis1=-2, axis2=-1)

    def squared_columns(self, columns: int) -> tuple[int, ...]:
        """Both."""
        return (0, 1)


@dataclass(frozen=True)
class PairsQuery(ReadByStatistic):
    """Sample variances and covariances of a subset, which are no sums over records.

    ``entries`` are the places in the covariance matrix that are released, with the share of each.
    """

    public: SubsetSchema
    statistic: MomentStatistic
    labels: tuple[str, ...]
    entries: tuple[tuple[int, int, float], ...]
    blocks: tuple[QueryBlock, ...] = field(init=False)

    def __post_init__(self) -> None:
        widths = [one.width for one in self.public.ranges]
        several = len(self.entries) > 1
        blocks = []
        for i, j, share in self.entries:
            label = "covariance" if i != j else f"variance {i + 1}" if several else "variance"
            radius = 0.5 * widths[i] * widths[j] / self.public.size
            blocks.append(enlarged(block(label, 1, radius), share))
        object.__setattr__(self, "blocks", tuple(blocks))

    @property
    def paired(self) -> tuple[bool, ...]:
        """Averages over pairs of different positions."""
        return (True,) * len(self.entries)

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """With divisor size - 1, in two passes."""
        self.public.check_size(counts)
        size = self.public.size
        centred = values - np.array([one.mid for one in self.public.ranges])
        centred -= (counts @ centred) / size
        second = (centred.T * counts) @ centred
        return np.array([second[i, j] for i, j, _ in self.entries]) / (size - 1)

    def averages(self, vectors: FloatArray) -> AveragedMoments:
        """Moments around the means, which are taken to be 0."""
        halves, d = [one.half for one in self.public.ranges], len(self.public.ranges)
        second = np.full((*vectors.shape[:-1], d, d), np.nan)
        for k, (i, j, _) in enumerate(self.entries):
            second[..., i, j] = second[..., j, i] = vectors[..., k] / (halves[i] * halves[j])
        return AveragedMoments(self.public.ranges, np.zeros((*vectors.shape[:-1], d)), second)

    def largest(self, vector: FloatArray) -> float:
        """The square of the range, for a variance."""
        return self.public.ranges[0].width ** 2 if len(self.public.ranges) == 1 else 0.0


def correlation_of(first: FloatArray, mixed: FloatArray, second: FloatArray) -> FloatArray:
    """Correlation ``(..., 1)`` from scaled variances and covariance, clipped to [-1, 1].

    Variances below ``LEAST_VARIANCE`` (a standard deviation of one per cent of the half range), and
    negative ones, are raised to it: then the result says little, but it stays a correlation.
    """
    product = np.maximum(first, LEAST_VARIANCE) * np.maximum(second, LEAST_VARIANCE)
    return np.asarray(np.clip(mixed / np.sqrt(product), -1.0, 1.0)[..., None])


def uncut_correlation(first: FloatArray, mixed: FloatArray, second: FloatArray) -> FloatArray:
    """The same without any cut, to be differentiated; NaN where a variance is not positive."""
    positive = (first > 0) & (second > 0)
    roots = np.sqrt(np.where(positive, first * second, np.nan))
    found: FloatArray = np.asarray(mixed / roots)[..., None]
    return found


# Linear regression by noisy sufficient statistics.
#
# The columns x_1, ..., x_p and y, scaled to [-1, 1] by their public ranges, are d = p + 1 columns
# whose means, squares (of the x) and products are released. The joint radius is proved above,
# through |ww' - tt'|_F with w = (1, u), and that the squares can be released at a finer scale for
# free. The square of y is not needed and not released. The least-squares coefficients
#
#     slopes = C_xx^{-1} c_xy,      intercept = mean(y) - slopes . mean(x)
#
# are computed from what was released, then brought back to the columns' own units.
#
# **Floor.** Noise can make the centred moment matrix C_xx singular or indefinite. Its eigenvalues,
# which are variances in units of the half ranges squared, are raised to ``LEAST_EIGENVALUE`` =
# 1e-4: the variance of a direction with a standard deviation of one per cent of the half range.
# Where that happens (``LinearRegression.floored`` tells) the coefficients say little, and are
# shrunk rather than wild. The floor is fixed in advance and does not look at records.
#
# Coefficients are not linear in the release: read them off the average of the releases, not off
# each.


#: Smallest eigenvalue of the scaled, centred moment matrix that is divided by.
LEAST_EIGENVALUE = 1e-4
#: Said where the noise hides it in one release.
SINGULAR = "the noise leaves open whether the regressors vary apart: any coefficient is possible"


@register
@dataclass(frozen=True)
class LinearRegression(MomentStatistic):
    """Intercept and slopes of the last column on the others.

    The radius is that of moments.

    In one release, errors are those of White (1980), with no law for the residuals.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given. The last is the
        response; there are two or more.

    Examples
    --------
    >>> query = LinearRegression().query(SubsetSchema([0.0, 0.0], [10.0, 2.0], 20))
    >>> query.labels, [block.label for block in query.blocks]
    (('intercept', 'slope 1'), ['means', 'squares', 'products'])
    """

    columns: tuple[str | int, ...] | None = None
    name = "regression"
    about = "intercept and slopes of the last column on the others"
    fewest = 2
    most = None

    def smooth(self, at: AveragedMoments) -> FloatArray:
        """Intercept and slopes ``(..., 1 + p)`` in the columns' own units."""
        spread = at.covariances
        values, directions = np.linalg.eigh(spread[..., :-1, :-1])
        along = np.swapaxes(directions, -1, -2) @ spread[..., :-1, -1:]
        along /= np.maximum(values, LEAST_EIGENVALUE)[..., None]
        scaled = (directions @ along)[..., 0]
        slopes = scaled * (at.halves[-1] / at.halves[:-1])
        centres = at.centres
        intercept = centres[..., -1] - (slopes * centres[..., :-1]).sum(axis=-1)
        return np.concatenate([intercept[..., None], slopes], axis=-1)

    def squared_columns(self, columns: int) -> tuple[int, ...]:
        """Those of the regressors."""
        return tuple(range(columns - 1))

    def labels(self, columns: int) -> tuple[str, ...]:
        """Slopes by number."""
        return ("intercept", *(f"slope {i + 1}" for i in range(columns - 1)))

    def cells(self, names: Sequence[str]) -> tuple[str, ...]:
        """The terms: the intercept and the columns' names."""
        return ("intercept", *names[:-1])

    def labelled(self, query: Query, names: Sequence[str]) -> Query:
        """Slopes by the names of their columns."""
        if not isinstance(query, MomentQuery):
            return query
        slopes = (f"slope of {name}" for name in names[:-1])
        return replace(query, labels=("intercept", *slopes))

    def described(self, label: str, columns: Sequence[str]) -> str:
        """A term, and what is regressed on what."""
        return f"{label} in the regression of {columns[-1]} on {', '.join(columns[:-1])}"

    def unclear(self, at: AveragedMoments, gradient: Gradient, noise: FloatArray) -> str | None:
        """Nothing is known where the smallest eigenvalue is below three of its errors."""
        values, directions = np.linalg.eigh(at.covariances[:-1, :-1])
        least, full = float(values[0]), np.append(directions[:, 0], 0.0)
        rows, columns = np.triu_indices(len(full), 1)
        slope = np.concatenate(
            [-2.0 * full * (full @ at.means), full**2, 2.0 * full[rows] * full[columns]]
        )
        error = math.sqrt(max(float(slope @ noise @ slope), 0.0))
        return None if least > max(CLEARLY * error, LEAST_EIGENVALUE) else SINGULAR

    def floored(self, at: AveragedMoments) -> NDArray[np.bool_]:
        """Whether a moment matrix had an eigenvalue raised to the floor."""
        smallest = np.linalg.eigvalsh(at.covariances[..., :-1, :-1])[..., 0]
        return np.asarray(smallest < LEAST_EIGENVALUE)

    def cautions(self, at: AveragedMoments) -> tuple[str, ...]:
        """A word where the floor was needed: then the coefficients are shrunk and say little."""
        if not self.floored(at):
            return ()
        return (
            "regression: the regressors' noisy moments were not those of any data, or nearly "
            "without variation, and were raised to a floor; the coefficients say little",
        )

    def check_effort(self, columns: int, slots: int) -> None:
        """Slopes are taken along every moment of the columns, each with equations of its own.

        Seconds were measured on one core.
        """
        moments = columns * (columns + 3) / 2
        seconds = 2.0 * slots * moments * (1e-4 + 2.5e-9 * columns**3)
        cost = WorkEstimate(seconds, 8.0 * moments * (2.0 * moments + 4.0 * columns**2))
        check_cost("columns", f"a {self.name} of {columns} columns", cost)


# The mean and the sum of a column, and averages of one bounded number per record.


# Averages of one bounded number per record: what the mean and a proportion have in common.
#
# Every record has an *amount* a with ``|a - mid| <= half``; write y = a - mid.
#
# **Multisets of fixed size m.** The total is the sum of y, released is ``mid + total / m``.
# Swapping one entry changes one y, and two values of [-half, half] differ by at most 2 half. So
# the average moves by at most ``2 half / m``, which is attained, and the radius is ``half / m``
# (for a mean: (upper - lower) / (2m)).
#
# **Poisson subsets of expected size M.** The size is random and tells of the records, so sums are
# divided by the public M. Released are ``S = sum of y / M`` and ``N = size / M``. One copy adds (y,
# 1)/M: at most half/M to S and exactly 1/M to N. With shares w (``queries.py``) the radii are
# ``half / (M w_S)`` and ``1 / (M w_N)``, and ``mid + S/N`` is the estimate: a ratio, so that the
# chance variation of the size cancels. The noise in it has variance close to ``(z half / (M N))^2 *
# (1/w_S^2 + r^2/w_N^2)`` with r = S / (N half) in [-1, 1], which is smallest at w_S^2 : w_N^2 = 1 :
# |r|. Here it is 2 : 1, the best choice at |r| = 1/2 and never more than 1.5 times the best.


#: The squares are 2 : 1, as said above, and add up to one.
_SUM_SHARE, _COUNT_SHARE = math.sqrt(2.0 / 3.0), math.sqrt(1.0 / 3.0)


class Amount(ABC):
    """One bounded number per record; frozen and picklable."""

    #: The middle of what the number can be, and half the length of it.
    mid: float
    half: float

    @abstractmethod
    def centred(self, values: FloatArray) -> FloatArray:
        """The number minus ``mid`` for every row of ``values``; at most ``half`` from zero."""


@dataclass(frozen=True)
class AverageQuery(LinearQuery):
    """The average amount; on Poisson subsets, the sum of the centred amounts and the size."""

    public: SubsetSchema
    amount: Amount
    label: str
    blocks: tuple[QueryBlock, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        size, half, mid = self.public.size, self.amount.half, self.amount.mid
        blocks: tuple[QueryBlock, ...] = (block(self.label, 1, half / size, size, mid),)
        if self.public.poisson:
            total = block(f"sum of {self.label}", 1, half / size, size)
            count = block("count", 1, 1.0 / size, size)
            blocks = (enlarged(total, _SUM_SHARE), enlarged(count, _COUNT_SHARE))
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "labels", (self.label,))

    def contributions(self, values: FloatArray) -> FloatArray:
        """The centred amounts and, on Poisson subsets, ones."""
        centred = self.amount.centred(values)
        if not self.public.poisson:
            return centred[:, None]
        return np.stack([centred, np.ones(len(centred))], axis=1)

    @property
    def supports(self) -> tuple[Support, ...]:
        """The range of the amount."""
        return ((self.amount.mid - self.amount.half, self.amount.mid + self.amount.half),)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The average; not forced into its range, so that averages of it stay unbiased.

        On Poisson subsets mid + sum / size, a noisy size below ``LEAST_SHARE`` taken to be that.
        """
        if not self.public.poisson:
            return np.array(vectors, dtype=np.float64)
        size = np.maximum(vectors[..., 1:], LEAST_SHARE)
        return np.asarray(self.amount.mid + vectors[..., :1] / size)


# The mean of a column, and of its squares, which tell the mean's sampling error.
#
# On multisets of a fixed size the square of the scaled value u in [-1, 1] is released beside it;
# by ``moments.py`` the mean then costs what it costs alone. With N_1 and N_2 the variances of the
# noise in the averages of u and u^2,
#
#     S^2 = (average of u^2) - (average of u)^2 + N_1,    error^2 = N_2 + 4 (average of u)^2 N_1,
#
# which is far more precise than the spread of noisy replicates. Rare values have an error of their
# own (``result.py``): an influence is at most 1 + |average of u|.


@dataclass(frozen=True)
class Value(Amount):
    """The value of the first column, measured from the midpoint of its range."""

    mid: float
    half: float

    def centred(self, values: FloatArray) -> FloatArray:
        """The values minus the midpoint."""
        found: FloatArray = values[:, 0] - self.mid
        return found


@dataclass(frozen=True)
class MeanQuery(MomentQuery):
    """The mean of one column, its square released beside it."""

    def known(self, at: Averaged, level: float) -> tuple[Interval | None, ...]:
        """By the squares."""
        (mean, square), noise = at.vector, at.noise
        half2 = self.public.ranges[0].half ** 2
        # The square of an average is too large by the variance of that average.
        influence = float(square - mean**2 + noise[0]) / max(1.0 - at.factor, 0.5)
        doubt = float(noise[1] + 4.0 * mean**2 * noise[0])
        error = math.sqrt(doubt + 2.0 * max(influence, 0.0) ** 2 * at.factor)
        largest = 1.0 + min(abs(float(mean)), 1.0)
        own = spread_of_bounded(influence, error, 1.0, at.factor, float(noise[0]), largest)
        few = own.noise_dominated and influence < rare_error(influence, largest, at.factor)
        spread = replace(own, sampling=half2 * own.sampling, noise=half2 * own.noise)
        value = float(self.estimate(at.vector)[0])
        found = t_interval(value, spread, level, self.supports[0], curved=True)
        return (replace(found, flags=(*found.flags, *((RARE,) if few else ()))),)


@register
@dataclass(frozen=True)
class Mean(MomentStatistic):
    """The mean of one column.

    Reach (proved above, with half = (upper - lower) / 2 and values measured from the midpoint): on
    multisets of m entries, swapping one entry moves the mean by at most (upper - lower) / m, and
    two opposite ends attain it, so the radius is (upper - lower) / (2m); released is the scaled
    mean, in [-1, 1], with radius 1/m. On Poisson subsets of expected size M one copy adds at most
    (upper - lower) / (2M) to the sum and 1/M to the size; both are released, enlarged to share one
    noise multiplier.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    squares : bool, default=True
        Whether squares are released beside the mean, which costs what it costs alone and then
        tells its sampling error; on Poisson subsets they are not.

    Examples
    --------
    >>> [block.label for block in Mean().query(SubsetSchema([0.0], [10.0], 20)).blocks]
    ['means', 'squares']
    >>> Mean(squares=False).query(SubsetSchema([0.0], [10.0], 20)).blocks
    (QueryBlock(label='mean', width=1, radius=0.25),)
    """

    columns: tuple[str | int, ...] | None = None
    squares: bool = True
    name = "mean"
    about = "the mean, which is the default"
    in_domains = True

    def smooth(self, at: AveragedMoments) -> FloatArray:
        """In the column's units; not forced into its range, so that averages stay unbiased."""
        return at.centres[..., :1]

    def support(self, ranges: Sequence[Range]) -> Support:
        """The range of the column."""
        return (ranges[0].lower, ranges[0].upper)

    def shape(self, poisson: bool) -> Shape:
        """One number, unless squares (of a fixed size) or sizes (Poisson) are released with it."""
        alone = not (self.squares or poisson)
        return Shape(in_a_ball=alone or poisson, one_number=alone)

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """By its influences where records count unequally, else by Fieller."""
        if schema.weighted or schema.largest_cluster is not None:
            return MomentRequest(schema, columns, self)
        return ReleasedMean(schema, columns)

    def _on(self, public: SubsetSchema) -> Query:
        if self.squares and not public.poisson:
            return MeanQuery(public, self, (self.name,))
        (column,) = public.ranges
        return AverageQuery(public, Value(column.mid, column.half), self.name)


# One release on all records: (records, sum u, sum u^2) tell the mean, the sum and their errors.


@dataclass(frozen=True)
class ReleasedMean(StatisticRequest):
    """The mean of a column; SE^2 = h^2 (variance of u / n + noise), h half of the range."""

    is_average: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """In results."""
        return "mean"

    @cached_property
    def sums(self) -> Moments:
        """Moments of the column."""
        return Moments(self.schema, self.columns)

    @property
    def support(self) -> Support:
        """The range."""
        column = self.schema.columns[self.columns[0]].numeric
        return (column.lower, column.upper)

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """By Fieller, with the released variance for the sampling."""
        noise = at.noise.matrix
        records, top, _ = (float(x) for x in at.first.sums[at.slot])
        own, error = scaled_variance(at.first.sums[at.slot], noise)
        left, bottom = at.unsampled, max(records, 1.0)
        spread = released_spread(own * left / bottom, error * left / bottom, noise_of_mean(at))
        found = fieller_interval(
            top,
            records,
            variance=(bottom**2 * spread.sampling, 0.0, 0.0),
            noise=noise[:2, :2],
            precision=spread,
            level=at.level,
            support=(-1.0, 1.0),
        )
        yield "", found.scaled(float(self.sums.halves[0]), float(self.sums.mids[0]))

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """The mean of u over the strata."""
        _, u, square = np.eye(3)
        found = domain_interval(inside, strata, u, square, ratio=True, support=(-1.0, 1.0))
        yield "", found.scaled(float(self.sums.halves[0]), float(self.sums.mids[0]))


@register
@dataclass(frozen=True)
class Sum(Statistic):
    """The sum of a column, in one release on all records.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    """

    columns: tuple[str | int, ...] | None = None
    name = "sum"
    about = "the sum"
    for_bootstrap = False
    is_total = True
    in_domains = True

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """A mean times a number of records over strata or with clusters, else the noisy sum."""
        if schema.largest_cluster is not None or schema.shares:
            return ScaledMean(schema, columns, Mean().bind(schema, columns))
        return ReleasedSum(schema, columns)


@dataclass(frozen=True)
class ScaledMean(StatisticRequest):
    """A sum as a mean times a number of records: of the population, or of those at hand.

    Over strata the population's size is public, ``population``; of records in clusters the noisy
    number of them is taken, whose own noise stays in.
    """

    is_total: ClassVar[bool] = True
    mean: StatisticRequest

    @cached_property
    def _line(self) -> FloatArray:
        """y = mid + half u as weights of the terms."""
        column = self.schema.columns[self.columns[0]].numeric
        return np.array([column.mid, column.half, 0.0])

    @property
    def name(self) -> str:
        """In results."""
        return "sum"

    @property
    def sums(self) -> BoundedSum | None:
        """Those of the mean."""
        return self.mean.sums

    @property
    def two_rounds(self) -> bool:
        """As the mean."""
        return self.mean.two_rounds

    @property
    def weighted_errors(self) -> bool:
        """As the mean."""
        return self.mean.weighted_errors

    @property
    def second_request(self) -> StatisticRequest:
        """That of the mean: the second round is one for both, but for groups within strata."""
        return self if needs_influences(self.schema) else self.mean.second_request

    def second_sums(self, first: NoisySums, together: Sequence[StatisticRequest]) -> BoundedSum:
        """Influences on the totals of groups within strata."""
        part = Moments(self.schema, self.columns)
        return influences_on(part, first, (self._line,), ratio=False)

    @property
    def support(self) -> Support:
        """Of the population."""
        low, high = self.mean.support
        return (self.schema.population * low, self.schema.population * high)

    def describe(self, cell: str) -> str:
        """Of which records."""
        return f"sum of {self.said(self.columns[0])} {self.schema.records_meant()}"

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """Of the population: y = mid + half u in the group, 0 outside."""
        column = self.schema.columns[self.columns[0]].numeric
        mid, half = column.mid, column.half
        square = np.array([mid**2, 2.0 * mid * half, half**2])
        ends = (min(column.lower, 0.0), max(column.upper, 0.0))
        found = domain_interval(inside, strata, self._line, square, ratio=False, support=ends)
        yield "", found.scaled(self.schema.population)

    def read_strata(self, slots: Sequence[SlotRelease]) -> Iterator[tuple[str, Interval]]:
        """Of everybody: as of any group, where there are some within strata."""
        if needs_influences(self.schema):
            yield from self.read_domain(slots, slots)
            return
        yield from super().read_strata(slots)

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """Mean and sampling error of the mean, each times the number of records."""
        if self.schema.shares:
            for cell, mean in self.mean.read(at):
                yield cell, mean.scaled(self.schema.population)
            return
        value, noise = noisy_sum(at)
        (_, mean), *_ = self.mean.read(at)
        ends = support_of_sum(self.schema, *self.mean.support)
        if not mean.known:
            yield "", replace(vacuous_interval(ends), flags=mean.flags)
            return
        known = 0.0 if mean.flags else mean.noise_share  # nothing is taken off a rough error
        whole = (at.records * mean.standard_error) ** 2
        sampling = whole * (1.0 - known)
        freedom = math.inf
        if whole > 0:
            freedom = mean.degrees_of_freedom * ((sampling + noise) / whole) ** 2
        found = t_interval(value, Spread(sampling, noise, freedom), at.level, ends)
        yield "", replace(found, flags=tuple(dict.fromkeys((*found.flags, *mean.flags))))


@dataclass(frozen=True)
class ReleasedSum(StatisticRequest):
    """The sum of a column: of the records of a group, and of those that have a value.

    Whether a record is in the group, and whether it has a value, was sampled as the value was. Of
    unknown numbers of records nothing but those that have a value is known: the sum is then meant
    given how many they are.
    """

    is_total: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """In results."""
        return "sum"

    @cached_property
    def sums(self) -> Moments:
        """Moments of the column."""
        return Moments(self.schema, self.columns)

    def describe(self, cell: str) -> str:
        """Of which records."""
        values = " that have a value" if self.schema.dropped else ""
        return f"sum of {self.said(self.columns[0])} {self.schema.records_meant()}{values}"

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """mid N + half S; sampled is the product of being in the group and the value."""
        half = float(self.sums.halves[0])
        value, noise = noisy_sum(at)
        own, known = scaled_variance(at.first.sums[at.slot], at.noise.matrix)
        total, here = at.total_records, max(at.records, 0.0)
        inside = half**2 * own * here
        error = half**2 * known * here
        # n Var(1_g x) = N_g Var(x | g) + mean^2 N_g (1 - N_g / n)
        mean = value / max(here, 1e-9)
        column = self.schema.columns[self.columns[0]].numeric
        mean = min(max(mean, column.lower), column.upper)
        inside += mean**2 * here * max(1.0 - here / total, 0.0)
        left = self.schema.unsampled(total)
        spread = released_spread(inside * left, error * left, noise)
        largest = self.schema.largest_weight
        if largest is not None:  # of all t y: the sum of t^2 times the mean of y^2
            square = mean**2 + half**2 * max(own, 0.0)
            spread = Spread(at.squared_weights * square * left, noise)
            yield "", t_interval(value, spread, at.level).scaled(largest)
            return
        ends = support_of_sum(self.schema, column.lower, column.upper)
        found = t_interval(value, spread, at.level, ends)
        if at.first.agreed is not None:  # what agrees with its margins must not be cut
            low, high = found.ends
            found = replace(found, value=value, ends=(min(low, value), max(high, value)))
        yield "", found


def support_of_sum(schema: PublicSchema, lower: float, upper: float) -> Support:
    """What a sum of values in [lower, upper] can be."""
    if not schema.public_size or schema.weighted:
        return (0.0 if lower >= 0 else -math.inf, 0.0 if upper <= 0 else math.inf)
    n = float(schema.n or 0)
    if schema.counted:
        return (min(n * lower, 0.0), max(n * upper, 0.0))
    return n * lower, n * upper


def noisy_sum(at: SlotRelease) -> tuple[float, float]:
    """mid N + half S, the sum of a column, and the variance of its noise."""
    part = at.first.part
    if not isinstance(part, Moments):
        raise InvalidParameter("a sum must be read off moments")
    along = np.array([float(part.mids[0]), float(part.halves[0])])
    value = float(along @ at.first.sums[at.slot, :2])
    return value, float(along @ at.noise.matrix[:2, :2] @ along)


def scaled_variance(sums: FloatArray, noise: FloatArray) -> tuple[float, float]:
    """The variance of u in a slot, from (records, sum u, sum u^2), and the error of noise in it."""
    records, top, squares = (float(x) for x in sums)
    if not records > 0.0:
        return 1.0, 0.0  # the most that is possible
    mean, square = top / records, squares / records
    along = np.array([2.0 * mean**2 - square, -2.0 * mean, 1.0]) / records
    slope = np.array([-mean, 1.0]) / records
    bias = float(slope @ noise[:2, :2] @ slope)
    found = (square - mean**2 + bias) * (records / (records - 1.0) if records > 2.0 else 1.0)
    error = math.sqrt(max(float(along @ noise @ along), 0.0))
    return min(found, 1.0), error


def noise_of_mean(at: SlotRelease) -> float:
    """The variance that the noise gives to the mean of u."""
    records = max(at.records, 1.0)
    mean = min(max(float(at.first.sums[at.slot, 1]) / records, -1.0), 1.0)
    slope = np.array([-mean, 1.0]) / records
    return float(slope @ at.noise.matrix[:2, :2] @ slope)
