"""Whether the arithmetic of this machine is as good as the margin assumes: asked once per process.

The margin of ``laws.py`` rests on how well ``ndtri`` and ``log`` were measured to work. Another
build of scipy or numpy could do worse, and noise would then have another law in silence. So before
the first value is drawn they are tried here on points over all magnitudes and at the places where
``ndtri`` changes its formula, against enclosures between integers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from mustdp.errors import NumericalFailure
from mustdp.noise.laws import ARITHMETIC, Law
from mustdp.numerics.arrays import FloatArray

#: An eighth of the margin; the tests see to it that less is used.
_ALLOWED = Fraction(ARITHMETIC) / 8
_BITS = 160


def _points() -> FloatArray:
    near = [edge * (1.0 + k * 2.0**-50) for edge in (math.exp(-2), math.exp(-32)) for k in (-3, 3)]
    return np.array([*np.geomspace(2.0**-63, 0.49, 40), *np.linspace(0.136, 0.4999, 20), *near])


@lru_cache(maxsize=2)
def check_arithmetic(law: Law) -> None:
    """Raise where a size is farther from the truth than an eighth of the margin."""
    arguments = _points()
    sizes = -law.negative_sizes(arguments)
    for argument, size in zip(arguments.tolist(), sizes.tolist(), strict=True):
        share = Fraction(argument) * Fraction(2.0**-63) / Fraction(law.unit)
        allowed = _ALLOWED * max(Fraction(1), Fraction(size)) if math.isfinite(size) else None
        if allowed is None or not _encloses(law, Fraction(size), allowed, share):
            raise NumericalFailure(
                f"the inverse of the {law.name} tail is wrong by more than the margin of the noise "
                f"allows at {argument!r}; nothing was drawn"
            )


def _encloses(law: Law, size: Fraction, allowed: Fraction, share: Fraction) -> bool:
    """Whether T(size + allowed) <= share <= T(size - allowed)."""
    scaled = share * 2**_BITS
    beyond = law.tail(size + allowed, _BITS)[1]
    before = law.tail(max(Fraction(0), size - allowed), _BITS)[0]
    return beyond <= scaled and (size <= allowed or scaled <= before)
