"""From the clipped sum of a batch to what a step releases.

A record that is counted c times adds g (x, 1)', with g stored in double precision and
|g| |(x, 1)| <= c B for a bound B (``clipping.py``); x is exact. Let N be the most copies a batch
can hold. The products of a batch are added up in blocks of at most s rows, t blocks in all, so that
with the unit roundoff u the computed sum is off, in the 2-norm, by at most

    (s + t) u / (1 - (s + t) u)  *  sum of |g| |(x, 1)|    <=    1.01 (s + t) u N B

(Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.5, whatever the order).
Bringing each of the P entries to the nearest point of a lattice of step gamma moves the sum by at
most sqrt(P) gamma / 2. Both together are the slack E. What is released then moves by at most
2 B + 2 E if one copy is replaced and B + 2 E if one is left out, so B = clip - 2 E keeps the
sensitivity that was accounted for, 2 clip and clip. E follows from sizes alone, never from data.
"""

from __future__ import annotations

import math
from typing import Protocol

from mustdp.errors import InvalidParameter
from mustdp.noise.lattice import lattice_for
from mustdp.noise.release import LatticeNoise, release
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.randomness.noise_bits import NoiseSource

#: The slack is at most this part of the clip.
_MOST_SLACK = 0.005


class Perturbation(Protocol):
    """How a sum of contributions becomes a release."""

    #: What one copy of a record may contribute at most.
    bound: float

    def released(self, total: FloatArray) -> FloatArray:
        """The sum with its noise."""


class ExactNoise:
    """Sums on a lattice with exactly rounded Gaussian noise: what is accounted for, to the bit.

    ``entries``: numbers in a sum. ``copies``: the most a batch can hold. ``additions``: s + t.
    """

    def __init__(
        self,
        source: NoiseSource,
        deviation: float,
        clip: float,
        *,
        entries: int,
        copies: int,
        additions: int,
    ) -> None:
        wanted = clip * _MOST_SLACK / (4.0 * math.sqrt(entries))
        lattice = lattice_for(deviation, reach=clip, records=copies, wanted=wanted)
        slack = 1.01 * additions * ROUNDOFF * copies * clip
        slack += 0.5 * math.sqrt(entries) * lattice.step
        if not slack <= _MOST_SLACK * clip:
            raise InvalidParameter.refusing(
                "clip",
                f"must be large enough against the noise of deviation {deviation:g} and {copies} "
                f"copies that rounding stays below a two-hundredth of it",
                repr(clip),
            )
        self.bound = clip - 2.0 * slack
        self._noise, self._source = LatticeNoise(deviation, lattice), source

    def released(self, total: FloatArray) -> FloatArray:
        """The sum on the lattice plus noise; a point of the lattice."""
        return release(self._noise.lattice.rounded(total), self._noise, self._source)
