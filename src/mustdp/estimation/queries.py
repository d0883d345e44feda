"""What is added up, how far one record moves it, and how it is released with noise.

First sums over all records, by group (:class:`BoundedSum`), several of them in one noisy vector
(:class:`JointSums`); then what is asked of random subsets (:class:`Query`), several queries in one
release (:class:`JointQuery`), and their exact totals on lattices.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation.result import UNBOUNDED, UNCLEAR, Interval, Spread, Support, t_interval
from mustdp.estimation.schema import PublicSchema, SubsetSchema
from mustdp.estimation.tables import LeastSquares, noise_shares
from mustdp.mechanisms.relation import Relation
from mustdp.noise.exact import LARGEST_INTEGER, Lattice, LatticeNoise, lattice_for, release
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import WorkEstimate, check_cost
from mustdp.progress import Progress
from mustdp.randomness.keys import NoiseSource

# Sums over all records.
#
# A part of a release: what one record adds to it, how far that reaches, and how it is read off.
#
# A part is bound to the :class:`PublicSchema`. It adds up vectors of ``width`` numbers per slot.
# What is read off them, the *natural* sums, is a linear function of the vector. The first natural
# sum is the number of records. Noise is independent from coordinate to coordinate of the vector,
# with equal standard deviations; of what it becomes in the natural sums, the
# :class:`NoiseCovariance` is kept.


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
    #: The slots of the records in all groupings, where ``slots`` are those in one of several.
    cells: IntArray | None = None

    def __len__(self) -> int:
        return len(self.slots)

    def by_grouping(self) -> Iterator[Piece]:
        """The records with their slots in one grouping after the other; ``slots`` has a column of
        each where there are several. Those that are in no slot are left out."""
        several = None if self.slots.ndim == 1 else self.slots
        for slots in self.slots[:, None].T if several is None else several.T:
            here = slots >= 0
            if here.all():
                yield replace(self, slots=slots, cells=several)
                continue
            weights, raw, clusters, cells = (
                None if one is None else one[here]
                for one in (self.weights, self.raw, self.clusters, several)
            )
            yield Piece(self.values[here], slots[here], weights, raw, clusters, cells)


class PushedDown(ABC):
    """Records that stay where they are: sums are asked for instead of pieces (``engines.py``)."""

    @abstractmethod
    def totals(
        self, parts: Sequence[BoundedSum], per_steps: Sequence[Sequence[float]]
    ) -> tuple[FloatArray, int]:
        """What the pieces of all records add up to, and their number.

        ``per_steps`` are steps per unit for every part, in one grouping after the other.
        """


@dataclass(frozen=True, eq=False)
class NoiseCovariance:
    """Of the noise in the natural sums: of the first with all, and of each with itself.

    ``whole`` has the rest, for the parts that it is needed of.
    """

    first: FloatArray
    own: FloatArray
    whole: FloatArray | None = None

    @classmethod
    def of(cls, matrix: FloatArray) -> NoiseCovariance:
        """For natural sums ``matrix @ vector``, in units of the noise's variance."""
        return cls(matrix @ matrix[0], (matrix**2).sum(axis=1), matrix @ matrix.T)

    def times(self, variance: float, counted: float | None = None) -> NoiseCovariance:
        """For noise of that variance; along the number of records it may be ``counted`` instead."""
        whole = None if self.whole is None else variance * self.whole
        if counted is None or not self.first[0] > 0:
            return NoiseCovariance(variance * self.first, variance * self.own, whole)
        rest = (counted - variance) / self.first[0]
        # Where the number of records is public, rounding may leave less than nothing.
        own = np.maximum(variance * self.own + rest * self.first**2, 0.0)
        if whole is not None:
            whole = whole + rest * np.outer(self.first, self.first)
        return NoiseCovariance(counted * self.first, own, whole)

    @property
    def matrix(self) -> FloatArray:
        """All of it."""
        if self.whole is None:
            raise InvalidParameter("the covariances of this part are not kept")
        return self.whole

    def pair(self, at: int) -> FloatArray:
        """Of the first natural sum and that at ``at``."""
        return np.array([[self.own[0], self.first[at]], [self.first[at], self.own[at]]])


class BoundedSum(ABC):
    """Sums of bounded contributions over the records of every slot."""

    schema: PublicSchema
    columns: tuple[int, ...]
    #: What of its budget is spent in the first round, where a second one looks closer at the same.
    first_share: ClassVar[float] = 1.0
    #: Whether it says what clipping does, for which a share of the budget can be set apart.
    about_clipping: ClassVar[bool] = False
    #: Whether the first natural sum is the number of records.
    tells_records: ClassVar[bool] = True

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

    def adds_to(self, grouping: int) -> bool:
        """Whether anything is added to the slots of this one of the groupings."""
        return True

    @abstractmethod
    def natural(self, vectors: FloatArray) -> FloatArray:
        """Natural sums (slots, natural) from vectors (slots, width)."""

    @property
    @abstractmethod
    def covariance(self) -> NoiseCovariance:
        """Of noise of variance one on every coordinate, in the natural sums."""

    def covariance_in(self, slot: int) -> NoiseCovariance | None:
        """The same in one slot, where it is not the same in all of them."""
        return None

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
        found = np.empty((self.schema.slots, self.width))
        for k in range(self.width):
            found[:, k] = np.bincount(slots, whole[:, k], self.schema.slots)
        return found

    def holds(self, other: BoundedSum) -> bool:
        """Whether all that ``other`` adds up is among more that is added up here."""
        return False

    def reorders(self, other: BoundedSum) -> bool:
        """Whether the same is added up in another order."""
        return False

    def read_off(self, noisy: NoisySums, other: BoundedSum) -> NoisySums:
        """What was released of ``other``, which is held or reordered here."""
        raise InvalidParameter("a part must be released, or be held by one that is")


def present(
    piece: Piece, columns: tuple[int, ...]
) -> tuple[FloatArray, IntArray, FloatArray | None]:
    """The records that have all of these columns."""
    values = piece.values[:, list(columns)]
    here = np.asarray(~np.isnan(values).any(axis=1))
    if here.all():
        return values, piece.slots, piece.weights
    return values[here], piece.slots[here], None if piece.weights is None else piece.weights[here]


# Sums within clusters, squared: how much records that come in clusters vary.
#
# A ratio such as a mean or a share is off by the average of its records' influences. Where records
# come in clusters, those of one are added up before they are squared (Cochran 1977, section 9A: the
# ultimate clusters), whatever their correlation is. With m the largest cluster, public, and
# influences over their bounds, q_i in [-1, 1], a cluster's sum in one slot is s = sum q_i / m, cut
# to [-1, 1], and it contributes s^2. The q_i are whole multiples of 2^-26, so that s is exact.
#
# *Whole clusters as units*, of which at most m records are used. Let the q_i of several estimates
# be vectors of length at most L, with numbers in [-1, 1]. With m_g records in slot g, |s_gk| <= m_g
# / m and |s_g| <= L m_g / m, so that the squares of one slot have length sqrt(sum_k s_gk^4) <=
# max_k |s_gk| |s_g| <= L (m_g / m)^2, and over all slots the radius is at most L. Nothing is
# negative, so two clusters are at most sqrt(2) L apart, and in one slot no more than the diagonal
# of [0, 1]^J.
#
# *Records as units.* Adding or removing one record moves one s, in one slot, by at most L / m
# before it is cut and so after; each square by |s' + s| |s' - s| <= 2 |s' - s|; the part by at most
# 2 L / m.
# For numbers in [-1, 1] the squares are in [0, 1], so by no more than one each either. A record
# that is replaced leaves one cluster and enters another: twice that.
#
# *Shares of cells.* For K cells with public shares p, none below 0 and of sum at most 1, the
# influence of a record in cell k is e_k - p, of length at most sqrt(2). Two cells need one number.


#: Influences are whole numbers of this: sums over 2^27 records are exact.
_FINE = 2.0**-26


def radius_of_squares(schema: PublicSchema, length: float, box: float) -> float:
    """The radius of squared influences; ``length`` is L, ``box`` the radius of [0, 1]^J.

    The schema multiplies by m where the units are whole clusters, which is taken off here.
    """
    slack = 1.0 + 2.0**-40
    if schema.largest_cluster is None:
        return box * slack
    m = float(schema.largest_cluster)
    return (length / m if schema.whole_clusters else min(box, 2.0 * length / m)) * slack


def squared_sums(
    shares: FloatArray,
    slots: IntArray,
    clusters: IntArray,
    schema: PublicSchema,
    count: int | None = None,
) -> FloatArray:
    """s^2 of every slot and cluster, for influences ``shares`` of the records, in [-1, 1].

    ``count`` is the number of slots; None means all that the schema has.
    """
    whole = np.trunc(shares / _FINE)
    most = int(clusters.max(initial=-1)) + 1
    count = schema.slots if count is None else count
    sums = np.bincount(slots * most + clusters, whole, count * most)
    found = sums.reshape(count, most) * (_FINE / float(schema.largest_cluster or 1))
    squares: FloatArray = np.minimum(found**2, 1.0)
    return squares


def squares_in_clusters(
    part: BoundedSum, piece: Piece, values: FloatArray, per_step: float
) -> FloatArray:
    """Squared sums within clusters of the influences that ``rows`` has, one after the other."""
    values = values[:, list(part.columns)]
    here = ~np.isnan(values).any(axis=1)
    slots = piece.slots[here]
    clusters = np.arange(len(piece)) if piece.clusters is None else piece.clusters
    influences = part.rows(values[here], slots)
    if piece.weights is not None:
        influences *= piece.weights[here, None]
    found = np.empty((part.schema.slots, part.width))
    for k in range(part.width):
        squares = squared_sums(influences[:, k], slots, clusters[here], part.schema)
        found[:, k] = np.trunc(squares * per_step).sum(axis=1)
    return found


# Several parts in one vector with one noise: their sums, exactly, and the release of them.
#
# Part p is multiplied by w_p / S_p, with S_p how far one record moves it (``schema.py``) and sum
# w_p^2 = 1. Then one record moves the whole vector by at most sqrt(sum_p w_p^2) = 1. So the same
# noise goes on every coordinate: of standard deviation z/2 under replace_one, where a noise
# multiplier is noise over *half* of what swapping a record does, and z under add_remove.
#
# *Rounding.* A contribution is cut towards zero to steps of a lattice. That moves it by less than a
# step in each of the W coordinates of a slot, and two of them apart by less than sqrt(2 W) steps, m
# times that where a unit is a cluster of m records; the noise is enlarged by that, and by 2^-40 for
# the rounding of the contributions themselves.
#
# *Rounds.* A second vector may be chosen by what the first has shown. With shares s_1 + s_2 = 1 of
# the budget, noise of sigma / sqrt(s_i) and sensitivity 1 each, round i is mu_i-Gaussian private
# with mu_i = sqrt(s_i) / sigma, and both together are sqrt(mu_1^2 + mu_2^2) = 1/sigma (Dong, Roth
# & Su 2022, arXiv 1905.02383v3, Theorem 3.2 for rounds that depend on earlier ones, and Corollary
# 3.3): exactly one Gaussian release with noise sigma, which is the plan that is charged.


#: The lattice has room for this many records, or fewer where there is next to no noise: it must not
#: depend on a number that is private, or not yet counted.
_RECORDS = 2**30


@dataclass(frozen=True, eq=False)
class NoisySums:
    """A part after its release: natural sums of every slot and the covariance of their noise."""

    part: BoundedSum
    sums: FloatArray  # (slots, natural)
    noise: NoiseCovariance  # of noise of variance one on every coordinate
    variances: FloatArray  # of every slot
    #: With weights, the sums of their squares, for the effective number of records.
    squares: FloatArray | None = None
    #: Where groupings were made to agree: how, for all sums and for numbers of records.
    agreed: tuple[LeastSquares, LeastSquares] | None = None

    def noise_in(self, slot: int) -> NoiseCovariance:
        """Covariance of the noise of one slot."""
        if self.agreed is None:
            own = self.part.covariance_in(slot)
            return (own or self.noise).times(float(self.variances[slot]))
        return self.noise.times(
            float(self.variances[slot]), float(self.agreed[1].slot_variances[slot])
        )

    def between(self, slots: Sequence[int], first: FloatArray, second: FloatArray) -> float:
        """Covariance of noise between ``first`` of one slot and ``second`` of another.

        Both are weights of the natural sums.
        """
        whole = self.noise.whole
        if whole is None:
            eye = np.eye(self.part.width)
            matrix = (self.part.natural(eye) - self.part.natural(0.0 * eye)).T
            whole = matrix @ matrix.T
        plain = float(first @ whole @ second)
        if self.agreed is None:
            return plain * float(self.variances[slots[0]]) if slots[0] == slots[1] else 0.0
        own, counted = (float(one.covariance(slots)[0, 1]) for one in self.agreed)
        start = self.noise.first
        along = float(first @ start) * float(second @ start) / float(start[0] or 1.0)
        return own * plain + (counted - own) * along

    def squared_weights(self, slot: int) -> float:
        """Sum of the squared weights: the number of records where every weight is one."""
        if self.squares is None:
            return max(float(self.sums[slot, 0]), 1.0)
        return max(float(self.squares[slot]), 0.0)


@dataclass(frozen=True, eq=False)
class JointSums:
    """Parts that share one release; ``weights`` have squares that add up to one."""

    schema: PublicSchema
    parts: tuple[BoundedSum, ...]
    noise_multiplier: float
    share: float = 1.0
    weights: tuple[float, ...] | None = None
    #: Whether the noise of the groupings is placed where it helps once they agree.
    placed: bool = False

    @cached_property
    def _scales(self) -> FloatArray:
        """w_p / S_p, rounded down, for every slot: (slots, parts); 0 where nothing is measured."""
        equal = (1.0 / math.sqrt(max(len(self.parts), 1)),) * len(self.parts)
        found = np.zeros((self.schema.slots, len(self.parts)))
        for p, (weight, part) in enumerate(zip(self.weights or equal, self.parts, strict=True)):
            for own, (moved, share) in zip(self.schema.slices, self._shares(part), strict=True):
                if share > 0:
                    # A square root may be rounded up; that of one is exact.
                    root = 1.0 if share == 1.0 else math.sqrt(share) * (1.0 - 2.0**-50)
                    found[own, p] = weight / moved * (1.0 - 2.0**-40) * root
        return found

    def _shares(self, part: BoundedSum) -> list[tuple[float, float]]:
        """How far one record moves each grouping, and the groupings' shares of the budget."""
        schema, grouping = self.schema, self.schema.grouping
        if grouping is None:
            return [(schema.sensitivity(part), 1.0)]
        moved = [
            schema.sensitivity(part, bool(one)) if part.adds_to(g) else 0.0
            for g, one in enumerate(grouping.sets)
        ]
        if schema.known_total and part.diameter == 0.0:
            # Of all records nothing but their number is asked, which is public and not measured.
            moved = [x if one else 0.0 for x, one in zip(moved, grouping.sets, strict=True)]
        placed = grouping if self.placed else replace(grouping, consistent=False)
        return list(zip(moved, noise_shares(placed, tuple(x**2 for x in moved)), strict=True))

    @cached_property
    def noise(self) -> LatticeNoise:
        """The noise of every coordinate, on its lattice."""
        half = 0.5 if self.schema.relation == Relation.REPLACE_ONE else 1.0
        scale = self.noise_multiplier * half / math.sqrt(self.share) * (1.0 + 2.0**-40)
        radius = self._radius()
        lattice = lattice_for(scale, reach=radius, records=self._room(scale, radius))
        width = sum(part.width for part in self.parts) * len(self.schema.slices)
        # As many records are cut in one unit; a record that changes its cluster is in two of them.
        most = self.schema.largest_cluster
        cut = 1.0 if most is None else max(float(most), 2.0)
        margin = cut * math.sqrt(2.0 * width) * lattice.step + 2.0**-40
        return LatticeNoise(scale * (1.0 + margin), lattice)

    @staticmethod
    def _room(scale: float, radius: float) -> int:
        """The number of records that sums are sure to be exact for."""
        return max(1, math.floor(min(_RECORDS, _RECORDS * scale / radius)))

    def _radius(self) -> float:
        """The most that one record adds to a coordinate, on average over all that there are.

        Of squared sums within clusters, r records add min((r / m)^2, 1) <= r / m at most.
        """
        scales = self._scales.max(axis=0).tolist()
        within = 1.0 / float(self.schema.largest_cluster or math.inf)
        return max(
            float(scale) * max(part.radius, within)
            for scale, part in zip(scales, self.parts, strict=True)
        )

    def totals(
        self, pieces: Iterable[Piece] | PushedDown, progress: Progress | None = None
    ) -> tuple[FloatArray, int]:
        """The exact sums in steps, (slots, width of all parts), and the number of records."""
        step = self.noise.lattice.step if self.parts else 1.0
        per_steps = [
            [scale / step for scale in self._scales[own.start].tolist()]
            for own in self.schema.slices
        ]
        found = np.zeros((self.schema.slots, sum(part.width for part in self.parts)))
        done, public = 0, self.schema.public_size
        if progress is not None and not public:
            # How far it has come, and in how many pieces, would tell the number of records.
            progress("adding up", 0)
        if isinstance(pieces, PushedDown):
            found, done = pieces.totals(self.parts, per_steps)
            pieces = ()
        for piece in pieces:
            for own, inside in zip(per_steps, piece.by_grouping(), strict=True):
                sums = [
                    part.sums(inside, per_step)
                    for part, per_step in zip(self.parts, own, strict=True)
                ]
                found += np.concatenate(sums, axis=1) if sums else 0.0
            done += len(piece)
            if progress is not None and public:
                progress("adding up", done)
        if self.parts and not done <= self._room(self.noise.scale, self._radius()):
            raise NumericalFailure(
                "there are more records than sums are exact for with so little noise; nothing was "
                "released"
            )
        return found, done

    def released(self, totals: FloatArray, source: NoiseSource) -> tuple[NoisySums, ...]:
        """Noise added once, and every part read off."""
        return self.read(release(totals.astype(np.int64), self.noise, source))

    def read(self, vectors: FloatArray) -> tuple[NoisySums, ...]:
        """The parts behind released vectors, (slots, width of all parts)."""
        found, start = [], 0
        for p, part in enumerate(self.parts):
            measured = self._scales[:, p] > 0
            scale = np.where(measured, self._scales[:, p], 1.0)
            sums = part.natural(vectors[:, start : start + part.width] / scale[:, None])
            start += part.width
            variances = np.where(measured, (self.noise.scale / scale) ** 2, np.inf)
            if not measured.all() and not self.placed:
                # One slot of which nothing but the public number of records could be said.
                sums[~measured] = float(self.schema.n or 0)
                variances[~measured] = 0.0
            found.append(NoisySums(part, sums, part.covariance, variances))
        return tuple(found)

    def agreeing(self, noisy: NoisySums) -> NoisySums:
        """The same with groupings that agree with each other and with what is public."""
        schema, grouping = self.schema, self.schema.grouping
        if grouping is None or not grouping.consistent:
            return noisy
        variances = tuple(float(noisy.variances[own.start]) for own in grouping.slices)
        plain = LeastSquares(grouping, variances)
        exact = grouping.known
        if not exact and schema.known_total:
            exact = (((), (float(schema.n or 0),)),)
        if not (noisy.part.tells_records and schema.known_total):
            exact = ()
        counted = LeastSquares(grouping, variances, exact)
        records = noisy.sums[:, :1]
        along = noisy.noise.first / noisy.noise.first[0] if exact else np.zeros(1)
        sums = plain.adjusted(noisy.sums - records * along) if exact else plain.adjusted(noisy.sums)
        if exact:
            sums = sums + counted.adjusted(records) * along
        return replace(noisy, sums=sums, variances=plain.slot_variances, agreed=(plain, counted))


# What is asked of random subsets.
#
# What a statistic asks of one subset, and how far one copy of a record can move the answer.
#
# A *query* turns a weighted multiset of records into a *total*, to which noise is added, and a
# total into the vector that is released:
#
#     vector = total / divisor + shift,      divisor and shift public.
#
# Where it can be, the total is a sum of *contributions*, one row of numbers for each copy of a
# record, measured from the middle of what they can be (:class:`LinearQuery`). Division and shift
# come after the noise, so that nothing public is rounded together with what is secret. Everything
# after that (``estimate``) only reads the noisy vector and costs no privacy.
#
# The vector is cut into *blocks*, each with a bound on what one copy contributes:
#
# - on multisets of a fixed size, swapping one copy moves a block by at most ``2 * radius`` (L2
#   norm);
# - on Poisson subsets, one copy more or less moves a block by at most ``radius``, and swapping one
#   by at most ``2 * radius``.
#
# So a block with noise of standard deviation ``z * radius`` has noise multiplier z in the sense of
# the accountant, whatever the scheme. On the total, both are ``divisor`` times as large. The
# bounds are proved in the docstring of every statistic.


#: A noisy size below this share of the expected one is taken to be this share of it.
LEAST_SHARE = 0.25
#: Numbers of contributions that are held at a time: as many as are fast to get at.
_AT_ONCE = 2**17
#: How often every row is in each of two halves of a multiset.
Halves = tuple[IntArray, IntArray] | None


@dataclass(frozen=True)
class QueryBlock:
    """Neighbouring coordinates that share one noise scale, and how they are read off the total."""

    label: str
    width: int
    #: Half of the furthest that swapping one copy moves the block; where contributions lie in a
    #: ball, its radius.
    radius: float
    divisor: float = field(default=1.0, repr=False)
    shift: float = field(default=0.0, repr=False)

    @property
    def radius_of_total(self) -> float:
        """The radius in units of the total, rounded up: no rounding on the way makes it too small.

        A radius is made of a few roots, products and quotients, each right to 2^-53 of itself.
        """
        return self.radius * self.divisor * (1.0 + 2.0**-48)


@dataclass(frozen=True, eq=False)
class Averaged:
    """The average of all released vectors, and what is public about its error.

    ``noise`` are the variances of its noise. The variance of a record's influence, times
    ``factor``, is what sampling and resampling add.
    """

    vector: FloatArray
    noise: FloatArray
    factor: float

    def part(self, own: slice) -> Averaged:
        """The same for some coordinates."""
        return Averaged(self.vector[own], self.noise[own], self.factor)


class Query(ABC):
    """A statistic bound to what is public about the subsets; picklable."""

    #: The blocks in the order of the coordinates.
    blocks: tuple[QueryBlock, ...]
    #: Names of the estimates, in the order of ``estimate``.
    labels: tuple[str, ...]

    @cached_property
    def width(self) -> int:
        """Number of coordinates released for one subset."""
        return sum(block.width for block in self.blocks)

    @property
    def reader(self) -> Query:
        """Who reads what was released; mostly the query itself."""
        return self

    @property
    def paired(self) -> tuple[bool, ...]:
        """For each coordinate, whether it is an average over pairs of *different positions*.

        Two positions of a multiset may hold the same record; such pairs count as zero, so that an
        average over pairs (a sample variance, a covariance) comes out too small by the chance of
        that. The design knows the chance and divides it out.
        """
        return (False,) * self.width

    @cached_property
    def divisors(self) -> FloatArray:
        """What every coordinate of the total is divided by, after the noise."""
        return np.concatenate([np.full(block.width, block.divisor) for block in self.blocks])

    @cached_property
    def shifts(self) -> FloatArray:
        """What is added to every coordinate then."""
        return np.concatenate([np.full(block.width, block.shift) for block in self.blocks])

    @abstractmethod
    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """What noise is added to: ``values`` (distinct, columns), already clipped, and counts.

        A query that is ``halved`` needs the counts of two random halves of the multiset, too.
        """

    @property
    def halved(self) -> bool:
        """Whether the total is made from two random halves of the subset as well."""
        return False

    def restored(self, totals: FloatArray) -> FloatArray:
        """The released vectors ``(..., width)`` behind totals, noisy or not."""
        return np.asarray(totals / self.divisors + self.shifts)

    def evaluate(self, values: FloatArray, counts: IntArray) -> FloatArray:
        """The vector of one subset without noise."""
        return self.restored(self.total(values, counts))

    @abstractmethod
    def estimate(self, vectors: FloatArray) -> FloatArray:
        """Turn released vectors ``(..., width)`` into estimates ``(..., len(labels))``."""

    @property
    def supports(self) -> tuple[Support, ...]:
        """What each estimate can be; intervals are cut to it."""
        return (UNBOUNDED,) * len(self.labels)

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """What is differentiated: the estimates, or what they are read off, without any clipping.

        Defined near released vectors; NaN where there is nothing to differentiate.
        """
        return self.estimate(vectors)

    def divided_by(self, vectors: FloatArray) -> FloatArray:
        """Variances ``(..., any number)`` that the estimates divide by."""
        return np.empty((*vectors.shape[:-1], 0))

    @property
    def hidden(self) -> str:
        """What is said where the noise hides what is divided by."""
        return UNCLEAR

    def behind(self, place: int) -> tuple[Query, slice, int]:
        """The query that an estimate belongs to, its coordinates, and the estimate's place."""
        return self, slice(0, self.width), place

    def largest(self, vector: FloatArray) -> float:
        """The largest influence of a record on what is differentiated; 0 where none is known."""
        return 0.0

    def interval(self, place: int, value: float, spread: Spread, level: float) -> Interval:
        """One estimate from its ``smooth`` value and the spread of that."""
        return t_interval(value, spread, level, self.supports[place], curved=True)

    def known(self, at: Averaged, level: float) -> tuple[Interval | None, ...]:
        """Estimates whose sampling error follows from what was released, without replicates."""
        return (None,) * len(self.labels)

    def cautions(self, at: Averaged, grouped: FloatArray) -> tuple[str, ...]:
        """What a reader has to know, given the average and the groups' means of the vectors."""
        return ()


class LinearQuery(Query):
    """A query whose total is the sum of what every copy of a record contributes, added exactly."""

    public: SubsetSchema

    @property
    def in_a_ball(self) -> bool:
        """Whether the radii bound every contribution itself, not only the distance of two.

        If so, with c_b the part of a contribution that belongs to block b, ``sum_b (|c_b| /
        radius_of_total_b)^2 <= 1``, and contributions may be shortened towards zero, in every
        coordinate as one likes, without a second thought. If not, rounding them to multiples of g
        can move two of them farther apart, by g in every coordinate, and a radius on the total has
        to grow by ``g * sqrt(width) / 2``.
        """
        return True

    @abstractmethod
    def contributions(self, values: FloatArray) -> FloatArray:
        """What one copy of each row of ``values`` adds to the total: ``(rows, width)``, centred.

        A row of the result depends on its record and on what is public, on nothing else.
        """

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The sum over all copies; a multiset of another size than the public one is refused."""
        self.public.check_size(counts)
        at_once = max(1, _AT_ONCE // self.width)
        found: FloatArray = counts[:at_once] @ self.contributions(values[:at_once])
        for start in range(at_once, len(values), at_once):
            rows = slice(start, start + at_once)
            found += counts[rows] @ self.contributions(values[rows])
        return found

    def steps(self, values: FloatArray, counts: IntArray, per_step: FloatArray) -> FloatArray:
        """The sum of the contributions, each cut towards zero to whole steps; an exact integer.

        ``per_step`` are powers of two, one for each coordinate: multiplying by them rounds nothing.
        """
        self.public.check_size(counts)
        at_once = max(1, _AT_ONCE // self.width)
        found = np.zeros(self.width)
        for start in range(0, len(values), at_once):
            rows = slice(start, start + at_once)
            whole = self.contributions(values[rows]) * per_step
            found += counts[rows] @ np.trunc(whole, out=whole)
        return found


# Several blocks in one release: how far the noise of each must be raised so that z stays z.
#
# The contract of a block is that noise of standard deviation ``z * radius`` gives noise multiplier
# z. It must hold for the *whole* vector. Let swapping one copy move block b by c_b, with ``c_b <= 2
# * own_b`` for its own bound own_b, and let the noise on it be ``z * radius_b``. Measured in units
# of the noise, the vector moves by ``sqrt(sum_b (c_b / (z * radius_b))^2)``, and the shift of noise
# multiplier z is 2/z. So what is needed is
#
#     sum_b (c_b / (2 * radius_b))^2 <= 1      whatever is swapped.                             (*)
#
# *Shares.* With shares w_b > 0, ``sum_b w_b^2 <= 1``, and ``radius_b = own_b / w_b``, the sum in
# (*) is at most ``sum_b (own_b / radius_b)^2 = sum_b w_b^2 <= 1``. For Poisson subsets, one copy
# more or less moves block b by at most own_b, the shift is 1/z, and the same two lines hold without
# the factors 2.
#
# A query may also prove (*) directly, when its blocks cannot all move farthest at once
# (``moments.py``). Parts that satisfy (*) each can be shared once more: dividing every radius of
# part i by w_i multiplies part i's sum by w_i^2 <= 1.


#: Bytes for every coordinate of a release (places, lattice, noise, matrices), and for its totals,
#: with and without noise, on every subset.
_PER_COORDINATE, _PER_TOTAL = 160, 32


def block(
    label: str, width: int, radius: float, divisor: float = 1.0, shift: float = 0.0
) -> QueryBlock:
    """A block whose sensitivity is a positive number; overflow and underflow raise an error."""
    if not 0.0 < radius < math.inf:
        raise NumericalFailure(f"the sensitivity of {label} came out as {radius!r}")
    return QueryBlock(label, width, radius, divisor, shift)


def enlarged(one: QueryBlock, share: float) -> QueryBlock:
    """The block with its radius divided by ``share`` (w_b above), a number in (0, 1]."""
    return block(one.label, one.width, one.radius / share, one.divisor, one.shift)


def shares(name: str, weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    """Shares w_i with ``sum w_i^2 = 1``, proportional to ``weights``; equal ones for None."""
    if weights is None:
        return (1.0 / math.sqrt(count),) * count
    given = checks.reals(name, weights, at_least=0.0)
    if given.size != count:
        raise InvalidParameter(f"{name} must have {count} entries, got {given.size}")
    largest = float(given.max())
    if not given.min() > 0.0:
        raise InvalidParameter(f"{name} must be numbers > 0, got {float(given.min())!r}")
    scaled = given / largest
    found = scaled / math.sqrt(float(scaled @ scaled))
    if not found.min() > 1e-9:
        raise InvalidParameter(
            f"{name} must not differ by more than a factor of about 1e9, got {weights!r}"
        )
    return tuple(float(share) for share in found)


def check_held(argument: str, width: int, releases: int) -> None:
    """Refuse ``releases`` vectors of ``width`` coordinates that do not fit into memory."""
    size = float(width) * (_PER_COORDINATE + _PER_TOTAL * float(releases))
    check_cost(argument, f"a release of {releases} x {width} numbers", WorkEstimate(bytes=size))


# Several queries in one release: their coordinates side by side, one budget for all.


@dataclass(frozen=True)
class JointQuery(Query):
    """Queries that are answered together on every subset.

    ``picks[i]`` are the columns of the value matrix that query i reads, in its own order.
    ``shares`` are proportional to w_i, normalised to ``sum w_i^2 = 1``; equal ones for None.
    ``names``, if given, are put before the labels of each query.

    *Reach.* Every query satisfies (*) above by itself: with c_b what swapping one
    copy does to block b, ``sum over its blocks of (c_b / (2 radius_b))^2 <= 1``. All radii of
    query i are divided by w_i, which multiplies its sum by w_i^2. Over all queries the sum is at
    most ``sum_i w_i^2 = 1``: noise ``z * radius`` on every block gives noise multiplier z for the
    whole vector. The same holds for one copy more or less on Poisson subsets, without the 2.

    All queries must be bound to the same subsets: their size, and fixed or Poisson.
    """

    queries: tuple[Query, ...]
    picks: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...] | None = None
    names: tuple[str, ...] | None = None
    blocks: tuple[QueryBlock, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)
    _readers: tuple[Query, ...] = field(init=False, repr=False, compare=False)
    _columns: tuple[slice | list[int], ...] = field(init=False, repr=False, compare=False)
    _parts: tuple[slice, ...] = field(init=False, repr=False, compare=False)
    _paired: tuple[bool, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        queries = tuple(self.queries)
        if not queries or not all(isinstance(query, Query) for query in queries):
            raise InvalidParameter(f"queries must be a non-empty list of queries, got {queries!r}")
        picks = _positions(self.picks, len(queries))
        found = shares("shares", self.shares, len(queries))
        names = None if self.names is None else tuple(self.names)
        if names is not None and len(names) != len(queries):
            raise InvalidParameter(f"names must have {len(queries)} entries, got {len(names)}")
        before = [""] * len(queries) if names is None else [f"{name} " for name in names]
        readers = tuple(query.reader for query in queries)
        setting = {
            "queries": queries,
            "picks": picks,
            "shares": found,
            "names": names,
            "blocks": tuple(
                enlarged(replace(one, label=first + one.label), share)
                for query, share, first in zip(queries, found, before, strict=True)
                for one in query.blocks
            ),
            "labels": tuple(
                first + label
                for query, first in zip(queries, before, strict=True)
                for label in query.labels
            ),
            "_readers": readers,
            "_columns": tuple(_selection(pick) for pick in picks),
            "_parts": _runs(query.width for query in queries),
            "_paired": tuple(flag for query in readers for flag in query.paired),
        }
        for name, value in setting.items():
            object.__setattr__(self, name, value)

    @property
    def paired(self) -> tuple[bool, ...]:
        """The flags of the queries, side by side."""
        return self._paired

    @property
    def linear(self) -> bool:
        """Whether the totals of all queries are sums over copies of records."""
        return all(isinstance(query, LinearQuery) for query in self.queries)

    def apart(self, values: FloatArray) -> Iterator[tuple[Query, FloatArray]]:
        """Every query with the columns that it reads."""
        for query, columns in zip(self.queries, self._columns, strict=True):
            yield query, values[:, columns]

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The totals of the queries, side by side."""
        return np.concatenate(
            [query.total(own, counts, halves) for query, own in self.apart(values)]
        )

    @property
    def halved(self) -> bool:
        """Whether any query is."""
        return any(query.halved for query in self.queries)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The estimates of the queries, side by side."""
        return np.concatenate([query.estimate(own) for query, own in self._cut(vectors)], axis=-1)

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """Of the queries, side by side."""
        return np.concatenate([query.smooth(own) for query, own in self._cut(vectors)], axis=-1)

    def _cut(self, vectors: FloatArray) -> Iterator[tuple[Query, FloatArray]]:
        """Every query with its own coordinates of released vectors."""
        for query, part in zip(self._readers, self._parts, strict=True):
            yield query, vectors[..., part]

    def behind(self, place: int) -> tuple[Query, slice, int]:
        """The query that an estimate belongs to, its coordinates, and the estimate's place."""
        estimates = _runs(len(query.labels) for query in self.queries)
        for query, part, own in zip(self._readers, self._parts, estimates, strict=True):
            if place < own.stop:
                found, inside, at = query.behind(place - own.start)
                return found, slice(part.start + inside.start, part.start + inside.stop), at
        raise InvalidParameter(f"place must be below {len(self.labels)}, got {place!r}")

    def known(self, at: Averaged, level: float) -> tuple[Interval | None, ...]:
        """Of the queries, side by side."""
        return tuple(
            interval
            for query, part in zip(self._readers, self._parts, strict=True)
            for interval in query.known(at.part(part), level)
        )

    def cautions(self, at: Averaged, grouped: FloatArray) -> tuple[str, ...]:
        """The cautions of all queries, named where the queries are."""
        names = self.names or ("",) * len(self.queries)
        return tuple(
            f"{name} {caution}".strip()
            for query, part, name in zip(self.queries, self._parts, names, strict=True)
            for caution in query.cautions(at.part(part), grouped[:, part])
        )


def _runs(lengths: Iterable[int]) -> tuple[slice, ...]:
    """Places of these numbers, one run after the other."""
    return tuple(slice(*ends) for ends in pairwise(accumulate(lengths, initial=0)))


def _positions(picks: Sequence[Sequence[int]], count: int) -> tuple[tuple[int, ...], ...]:
    found = tuple(tuple(checks.integer("picks", one, 0) for one in pick) for pick in picks)
    if len(found) != count or not all(found):
        raise InvalidParameter(
            f"picks must have one non-empty list of columns for each of the {count} queries, "
            f"got {picks!r}"
        )
    return found


def _selection(pick: tuple[int, ...]) -> slice | list[int]:
    """A slice where the columns are neighbours in order (no copy), else the list of them."""
    if pick == tuple(range(pick[0], pick[0] + len(pick))):
        return slice(pick[0], pick[0] + len(pick))
    return list(pick)


# Totals in whole steps of a lattice, and noise that is exact on it.
#
# Every coordinate of a total has a lattice of its own, which follows from the noise and from
# public sizes. What a record contributes is cut to it towards zero and added up in integers, so
# that the sum is exact in any order and on any machine; a total that is no sum of contributions is
# rounded to it. Integers below 2^52 are exact as doubles, which is how they travel.
#
# *What that does to the radius.* Cutting towards zero shortens contributions, which costs nothing
# where the radii bound the contributions themselves. Elsewhere, and where a total is rounded,
# one copy can move a coordinate by up to one step g more. Write ||c||^2 = sum_b (|c_b| / (2
# radius_b))^2 over blocks b, which is at most 1 by (*) above. The further movement e
# has ||e||^2 <= sum_b w_b g_b^2 / (4 radius_b^2), w_b the width of block b; so all radii are
# enlarged by the factor 1 + ||e||. A total that is no sum is computed in floating point; for that
# a further 2^-20 is added.


#: What floating point may do to a total that is not added up exactly, relative to its radius.
_COMPUTED = 2.0**-20


@dataclass(frozen=True)
class SteppedQuery(Query):
    """A joint query whose totals are counted in steps of a lattice for each coordinate."""

    query: JointQuery
    lattices: tuple[Lattice, ...]
    blocks: tuple[QueryBlock, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", self.query.blocks)
        object.__setattr__(self, "labels", self.query.labels)

    @cached_property
    def _per_step(self) -> FloatArray:
        return np.array([1.0 / lattice.step for lattice in self.lattices])

    @property
    def halved(self) -> bool:
        """As the query itself."""
        return self.query.halved

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The totals in steps: integers, as doubles."""
        found, start = [], 0
        for query, own in self.query.apart(values):
            per_step = self._per_step[start : start + query.width]
            start += query.width
            if isinstance(query, LinearQuery):
                found.append(query.steps(own, counts, per_step))
            else:
                found.append(np.rint(query.total(own, counts, halves) * per_step))
        return np.concatenate(found)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """Of the query itself."""
        return self.query.estimate(vectors)


@dataclass(frozen=True)
class ExactRelease:
    """A query in steps and the noise of each of its coordinates."""

    stepped: SteppedQuery
    noise: tuple[LatticeNoise, ...]

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of the noise on every coordinate of the released vectors."""
        deviations: FloatArray = np.array([one.scale for one in self.noise])
        deviations /= self.stepped.query.divisors
        return deviations

    def released(self, totals: FloatArray, source: NoiseSource) -> FloatArray:
        """The released vectors behind totals in steps."""
        if not np.all(np.abs(totals) < LARGEST_INTEGER):
            raise NumericalFailure(
                "a statistic is not finite on some subset, or larger than its stated bounds allow; "
                "nothing was released"
            )
        noisy = release(totals.astype(np.int64), self.noise, source)
        return self.stepped.query.restored(noisy)


def exact_release(query: JointQuery, noise_multiplier: float, copies: int) -> ExactRelease:
    """Lattices and noise for totals over at most ``copies`` entries."""
    lattices = [
        lattice_for(
            noise_multiplier * one.radius_of_total, reach=one.radius_of_total, records=copies
        )
        for one in query.blocks
    ]
    factor = _enlargement(query, lattices)
    noise = [
        LatticeNoise(noise_multiplier * one.radius_of_total * factor, lattice)
        for one, lattice in zip(query.blocks, lattices, strict=True)
    ]
    each = tuple(
        one for one, block in zip(noise, query.blocks, strict=True) for _ in range(block.width)
    )
    return ExactRelease(SteppedQuery(query, tuple(one.lattice for one in each)), each)


def _enlargement(query: JointQuery, lattices: list[Lattice]) -> float:
    """What all radii are multiplied by; see above."""
    parts = query.queries
    if all(isinstance(part, LinearQuery) and part.in_a_ball for part in parts):
        return 1.0
    squares = math.fsum(
        one.width * (lattice.step / (2.0 * one.radius_of_total)) ** 2
        for one, lattice in zip(query.blocks, lattices, strict=True)
    )
    computed = 0.0 if query.linear else _COMPUTED
    return (1.0 + math.sqrt(squares) + computed) * (1.0 + 2.0**-40)
