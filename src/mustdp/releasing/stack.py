"""Several parts in one vector with one noise: their sums, exactly, and the release of them.

Part p is multiplied by w_p / S_p, with S_p how far one record moves it (``ground.py``) and sum
w_p^2 = 1. Then one record moves the whole vector by at most sqrt(sum_p w_p^2) = 1. So the same
noise goes on every coordinate: of standard deviation z/2 under replace_one, where a noise
multiplier is noise over *half* of what swapping a record does, and z under add_remove.

*Rounding.* A contribution is cut towards zero to steps of a lattice. That moves it by less than a
step in each of the W coordinates of a slot, and two of them apart by less than sqrt(2 W) steps, m
times that where a unit is a cluster of m records; the noise is enlarged by that, and by 2^-40 for
the rounding of the contributions themselves.

*Rounds.* A second vector may be chosen by what the first has shown. With shares s_1 + s_2 = 1 of
the budget, noise of sigma / sqrt(s_i) and sensitivity 1 each, round i is mu_i-Gaussian private with
mu_i = sqrt(s_i) / sigma, and both together are sqrt(mu_1^2 + mu_2^2) = 1/sigma (Dong, Roth & Su
2022, arXiv 1905.02383v3, Theorem 3.2 for rounds that depend on earlier ones, and Corollary 3.3):
exactly one Gaussian release with noise sigma, which is the plan that is charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.mechanisms.relation import Relation
from mustdp.noise.lattice import lattice_for
from mustdp.noise.release import LatticeNoise, release
from mustdp.numerics.arrays import FloatArray
from mustdp.progress import Progress
from mustdp.randomness.noise_bits import NoiseSource
from mustdp.releasing.ground import Ground
from mustdp.releasing.parts import Covariance, Part, Piece

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

    ground: Ground
    parts: tuple[Part, ...]
    noise_multiplier: float
    share: float = 1.0
    weights: tuple[float, ...] | None = None

    @cached_property
    def _scales(self) -> tuple[float, ...]:
        """w_p / S_p, rounded down."""
        equal = (1.0 / math.sqrt(max(len(self.parts), 1)),) * len(self.parts)
        return tuple(
            weight / self.ground.sensitivity(part) * (1.0 - 2.0**-40)
            for weight, part in zip(self.weights or equal, self.parts, strict=True)
        )

    @cached_property
    def noise(self) -> LatticeNoise:
        """The noise of every coordinate, on its lattice."""
        half = 0.5 if self.ground.relation == Relation.REPLACE_ONE else 1.0
        scale = self.noise_multiplier * half / math.sqrt(self.share) * (1.0 + 2.0**-40)
        reach = self._reach()
        lattice = lattice_for(scale, reach=reach, records=self._room(scale, reach))
        width = sum(part.width for part in self.parts)
        # So many records are cut in one unit; a record that changes its cluster is in two of them.
        most = self.ground.largest_cluster
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
        ) * float(self.ground.largest_cluster or 1)

    def totals(
        self, pieces: Iterable[Piece], progress: Progress | None = None
    ) -> tuple[FloatArray, int]:
        """The exact sums in steps, (slots, width of all parts), and the number of records."""
        step = self.noise.lattice.step if self.parts else 1.0
        found = np.zeros((self.ground.slots, sum(part.width for part in self.parts)))
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
                progress("adding up", done if self.ground.public_size else 0)
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
