"""The two laws of noise at unit scale: how fast arithmetic inverts them, and how wrong it may be.

Noise is a sign and a size, and the size is the point h whose tail P(size > h) is a uniform number
V. ``docs/derivations/noise.md`` has the errors that are assumed here; the tests measure them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from scipy.special import ndtri

from mustdp.noise.tails import Enclosure, exponential_tail, normal_tail
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray

LawName = Literal["gaussian", "laplace"]

#: The sizes found in double precision are right up to this times max(1, size). It covers what
#: ``ndtri`` and ``log`` lose, the rounding of V, and the product with the scale; the tests see to
#: it that at most an eighth of it is ever used.
ARITHMETIC = 2.0**-46


@dataclass(frozen=True, eq=False)
class Law:
    """A symmetric law at unit scale.

    ``unit``: what 63 random bits are multiplied by before :meth:`sizes`. ``surely_within``: up to
    here one margin serves all sizes. ``farthest``: no size is ever beyond it.
    """

    name: LawName
    unit: float
    surely_within: float
    farthest: float
    negative_sizes: Callable[..., FloatArray]
    width_of_last_bit: Callable[[FloatArray], FloatArray]
    tail: Callable[[Fraction, int], Enclosure]

    def uncertainty(self, sizes: FloatArray) -> FloatArray:
        """How far the true size, for any V that begins with the same 63 bits, can be away.

        Good for V above 2^-40, where one unit in the last bit hardly changes the density.
        """
        found: FloatArray = ARITHMETIC * np.maximum(1.0, sizes) + self.width_of_last_bit(sizes)
        return found


def _normal_width(sizes: FloatArray) -> FloatArray:
    # dh = dV / (2 phi(h)) with dV = 2^-63, and twice that to be safe.
    found: FloatArray = (2.0**-63 * np.sqrt(2.0 * np.pi)) * np.exp(0.5 * sizes * sizes)
    return found


def _exponential_width(sizes: FloatArray) -> FloatArray:
    # dh = dV / exp(-h), and twice that to be safe.
    found: FloatArray = 2.0**-62 * np.exp(sizes)
    return found


#: h = -ndtri(V / 2): the lower tail, where ndtri keeps its relative accuracy.
GAUSSIAN = Law("gaussian", 2.0**-64, 4.4, 38.0, ndtri, _normal_width, normal_tail)
#: h = -log(V).
LAPLACE = Law("laplace", 2.0**-63, 11.2, 710.0, np.log, _exponential_width, exponential_tail)


def law_called(name: LawName) -> Law:
    """The law of that name."""
    checks.choice("law", name, ("gaussian", "laplace"))
    return GAUSSIAN if name == "gaussian" else LAPLACE
