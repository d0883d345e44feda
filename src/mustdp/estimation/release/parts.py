"""Parts of a release: what one record adds, its sensitivity, and several parts in one noisy
vector.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation.release.schema import PublicSchema
from mustdp.mechanisms.relation import Relation
from mustdp.noise.lattice import lattice_for
from mustdp.noise.release import LatticeNoise, release
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.progress import Progress
from mustdp.randomness.noise_bits import NoiseSource

# A part of a release: what one record adds to it, how far that reaches, and how it is read off.
#
# A part is bound to the :class:`PublicSchema`. It adds up vectors of ``width`` numbers per slot.
# What is read off them, the *natural* sums, is a linear function of the vector. The first natural
# sum is the number of records. Noise is independent from coordinate to coordinate of the vector,
# with equal standard deviations; of what it becomes in the natural sums, the :class:`Covariance`
# is kept.


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

    schema: PublicSchema
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
        found = np.empty((self.schema.slots, self.width))
        for k in range(self.width):
            found[:, k] = np.bincount(slots, whole[:, k], self.schema.slots)
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


#: The lattice has room for so many records, or fewer where there is next to no noise: it must not
#: depend on a number that is private, or not yet counted.
_RECORDS = 2**30


@dataclass(frozen=True, eq=False)
class Noisy:
    """A part after its release: natural sums of every slot and the covariance of their noise."""

    part: Part
    sums: FloatArray  # (slots, natural)
    noise: Covariance  # the same in every slot
    #: With weights, the sums of their squares, for the effective number of records.
    squares: FloatArray | None = None

    def effective(self, slot: int) -> float:
        """Sum of the squared weights: the number of records where every weight is one."""
        if self.squares is None:
            return max(float(self.sums[slot, 0]), 1.0)
        return max(float(self.squares[slot]), 0.0)


@dataclass(frozen=True, eq=False)
class Stack:
    """Parts that share one release; ``weights`` have squares that add up to one."""

    schema: PublicSchema
    parts: tuple[Part, ...]
    noise_multiplier: float
    share: float = 1.0
    weights: tuple[float, ...] | None = None

    @cached_property
    def _scales(self) -> tuple[float, ...]:
        """w_p / S_p, rounded down."""
        equal = (1.0 / math.sqrt(max(len(self.parts), 1)),) * len(self.parts)
        return tuple(
            weight / self.schema.sensitivity(part) * (1.0 - 2.0**-40)
            for weight, part in zip(self.weights or equal, self.parts, strict=True)
        )

    @cached_property
    def noise(self) -> LatticeNoise:
        """The noise of every coordinate, on its lattice."""
        half = 0.5 if self.schema.relation == Relation.REPLACE_ONE else 1.0
        scale = self.noise_multiplier * half / math.sqrt(self.share) * (1.0 + 2.0**-40)
        reach = self._reach()
        lattice = lattice_for(scale, reach=reach, records=self._room(scale, reach))
        width = sum(part.width for part in self.parts)
        # So many records are cut in one unit; a record that changes its cluster is in two of them.
        most = self.schema.largest_cluster
        cut = 1.0 if most is None else max(float(most), 2.0)
        margin = cut * math.sqrt(2.0 * width) * lattice.step + 2.0**-40
        return LatticeNoise(scale * (1.0 + margin), lattice)

    @staticmethod
    def _room(scale: float, reach: float) -> int:
        """The number of records that sums are sure to be exact for."""
        return max(1, math.floor(min(_RECORDS, _RECORDS * scale / reach)))

    def _reach(self) -> float:
        """The largest coordinate of a contribution."""
        return max(
            scale * part.radius for scale, part in zip(self._scales, self.parts, strict=True)
        ) * float(self.schema.largest_cluster or 1)

    def totals(
        self, pieces: Iterable[Piece], progress: Progress | None = None
    ) -> tuple[FloatArray, int]:
        """The exact sums in steps, (slots, width of all parts), and the number of records."""
        step = self.noise.lattice.step if self.parts else 1.0
        found = np.zeros((self.schema.slots, sum(part.width for part in self.parts)))
        done = 0
        for piece in pieces:
            sums = [
                part.sums(piece, scale / step)
                for part, scale in zip(self.parts, self._scales, strict=True)
            ]
            found += np.concatenate(sums, axis=1) if sums else 0.0
            done += len(piece)
            if progress is not None:
                # How far it has come is the number of records in the end: a sign of life where
                # that is private.
                progress("adding up", done if self.schema.public_size else 0)
        if self.parts and not done <= self._room(self.noise.scale, self._reach()):
            raise NumericalFailure(
                "there are more records than sums are exact for with so little noise; nothing was "
                "released"
            )
        return found, done

    def released(self, totals: FloatArray, source: NoiseSource) -> tuple[Noisy, ...]:
        """Noise added once, and every part read off."""
        return self.read(release(totals.astype(np.int64), self.noise, source))

    def read(self, vectors: FloatArray) -> tuple[Noisy, ...]:
        """The parts behind released vectors, (slots, width of all parts)."""
        found, start = [], 0
        for part, scale in zip(self.parts, self._scales, strict=True):
            own = vectors[:, start : start + part.width] / scale
            start += part.width
            variance = (self.noise.scale / scale) ** 2
            found.append(Noisy(part, part.natural(own), part.covariance.times(variance)))
        return tuple(found)
