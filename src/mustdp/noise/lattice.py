"""The lattice gamma Z that contributions are brought to before they are added up.

gamma = 2^exponent is public: it follows from the noise and from stated bounds, never from the data.
A contribution is brought to it by truncating every coordinate towards zero, which lengthens no
vector; from there on everything is integers, and sums are exact in any order. Integers stay below
2^52, so that they are exact as doubles too: a matrix product in double precision adds them up
without an error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.noise.laws import LawName, law_called
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray

#: Sums, and sums with their noise, stay below this many steps.
LARGEST_INTEGER = 2**52

#: A step is at most this part of the noise, so that nothing visible is lost.
COARSEST = 20
#: Where there is room it is this part: n truncations shift a sum by at most n steps. Still finer
#: steps leave more values of the noise undecided in double precision, and are taken on demand.
FINE = 26
FINEST = 32

_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -1000, 900


@dataclass(frozen=True)
class Lattice:
    """All multiples of ``step`` = 2^exponent.

    >>> Lattice(-2).truncated([0.8, -0.8, 0.2]).tolist()
    [3, -3, 0]
    """

    exponent: int

    def __post_init__(self) -> None:
        exponent = checks.integer("exponent", self.exponent, _SMALLEST_EXPONENT, _LARGEST_EXPONENT)
        object.__setattr__(self, "exponent", exponent)

    @property
    def step(self) -> float:
        """The distance of neighbours, gamma."""
        return math.ldexp(1.0, self.exponent)

    def truncated(self, values: Any) -> IntArray:
        """Every value brought to the lattice towards zero, in steps."""
        return self._in_steps(values, np.trunc)

    def rounded(self, values: Any) -> IntArray:
        """Every value brought to the nearest point, in steps: it moves by half a step at most."""
        return self._in_steps(values, np.rint)

    def points(self, steps: IntArray) -> FloatArray:
        """The points themselves; exact below 2^53 steps."""
        found: FloatArray = steps.astype(np.float64)
        found *= self.step
        return found

    def _in_steps(self, values: Any, whole: Any) -> IntArray:
        given = np.asarray(values)
        if given.dtype.kind not in "fiu" or given.dtype.itemsize > 8:
            raise InvalidParameter(
                f"values must be numbers of at most double precision, got {given.dtype}"
            )
        if given.dtype.kind in "iu" and np.any(np.abs(given.astype(np.float64)) >= 2.0**53):
            raise InvalidParameter("values must be exact in double precision, got larger integers")
        # A power of two changes no digit. What underflows is far below a step, what overflows is
        # refused with the rest.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            steps = np.multiply(given, math.ldexp(1.0, -self.exponent), dtype=np.float64)
            steps = whole(steps)
            inside = bool(np.all(np.abs(steps) < LARGEST_INTEGER))
        if not inside:
            raise InvalidParameter(
                f"values must be finite and below 2^52 steps of {self.step:g}, got others"
            )
        found: IntArray = steps.astype(np.int64)
        return found


def lattice_for(
    scale: float,
    *,
    reach: float,
    records: int = 1,
    law: LawName = "gaussian",
    wanted: float = math.inf,
) -> Lattice:
    """The lattice for sums of ``records`` values in [-reach, reach] with noise of that scale.

    ``records`` counts copies and is a bound that holds for every data set. The finest step between
    2^-26 and 2^-20 of the scale for which no sum and no noise can leave the exact integers; where
    there is none the bounds are refused, before any work. A step above ``wanted`` is made finer
    still, down to 2^-32 of the scale.
    """
    scale = checks.real("scale", scale, at_least=2.0**-970, at_most=2.0**900)
    reach = checks.real("reach", reach, at_least=0)
    records = checks.integer("records", records, 1)
    most = records * Fraction(reach) + Fraction(law_called(law).farthest) * Fraction(scale)
    power = math.frexp(scale)[1] - 1  # 2^power <= scale
    first = power - FINE
    while math.ldexp(1.0, first) > wanted and first > power - FINEST:
        first -= 1
    for exponent in range(first, power - COARSEST + 1):
        if most / Fraction(2) ** exponent < LARGEST_INTEGER:
            return Lattice(exponent)
    raise InvalidParameter(
        f"records * reach / scale must be below 2^{52 - COARSEST - 1}, so that sums are exact in "
        f"steps far below the noise, got {records} * {reach:g} / {scale:g}"
    )
