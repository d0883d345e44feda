"""What is released: exact sums of lattice contributions plus exactly rounded noise.

For X on the lattice, round(X + scale g) = X + round(scale g). So what :func:`release` returns is a
function of the release in real numbers that was accounted for, and every certificate holds for it
as it stands (``docs/derivations/noise.md``). Public constants, such as a midpoint that was
subtracted before, are added afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.noise.exact import check_ratio, exact_noise
from mustdp.noise.lattice import LARGEST_INTEGER, Lattice, lattice_for
from mustdp.noise.laws import Law, LawName, law_called
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.randomness.noise_bits import NoiseSource


@dataclass(frozen=True)
class LatticeNoise:
    """Noise of a scale (sigma, or Laplace's b) on a lattice."""

    scale: float
    lattice: Lattice
    law: LawName = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.real("scale", self.scale, above=0))
        law_called(self.law)
        check_ratio(self.ratio)

    @property
    def ratio(self) -> float:
        """The scale in steps; exact, as a step is a power of two."""
        return self.scale / self.lattice.step

    @property
    def farthest(self) -> int:
        """The most steps that noise is ever away from zero."""
        return int(self._law.farthest * self.ratio) + 1

    @property
    def _law(self) -> Law:
        return law_called(self.law)

    def draw(self, count: int, source: NoiseSource) -> IntArray:
        """``count`` independent values in steps."""
        return exact_noise(self._law, self.ratio, count, source)


def noise_for(
    scale: float, *, reach: float, records: int = 1, law: LawName = "gaussian"
) -> LatticeNoise:
    """Noise of that scale on the lattice that :func:`lattice_for` finds for it.

    >>> noise = noise_for(2.0, reach=1.0, records=1000)
    >>> sums = noise.lattice.truncated([0.25, -0.5]) * 3
    >>> release(sums, noise, NoiseSource(1)).shape
    (2,)
    """
    return LatticeNoise(scale, lattice_for(scale, reach=reach, records=records, law=law), law)


def release(
    sums: IntArray, noise: LatticeNoise | Sequence[LatticeNoise], source: NoiseSource
) -> FloatArray:
    """Sums in steps plus fresh noise, as exact points of the lattice.

    One noise for all entries, or one for each entry of the last axis.
    """
    steps = np.array(sums)
    if steps.dtype != np.int64:
        raise InvalidParameter(f"sums must be integers of 64 bits, got {steps.dtype}")
    if not isinstance(source, NoiseSource):
        raise InvalidParameter(f"source must be a NoiseSource, got {type(source).__name__}")
    if isinstance(noise, LatticeNoise):
        return _released(steps, noise, source)
    each = tuple(noise)
    columns = steps.shape[-1] if steps.ndim else 0
    if len(each) != columns:
        raise InvalidParameter(
            f"noise must be one for all or one for each of the {columns} columns, got {len(each)}"
        )
    found = np.empty(steps.shape)
    for one in dict.fromkeys(each):
        mine = [k for k, other in enumerate(each) if other == one]
        found[..., mine] = _released(steps[..., mine], one, source)
    return found


def _released(steps: IntArray, noise: LatticeNoise, source: NoiseSource) -> FloatArray:
    if steps.size == 0:
        return np.empty(steps.shape)
    most = LARGEST_INTEGER - noise.farthest
    if not (int(steps.min()) >= -most and int(steps.max()) <= most):
        raise NumericalFailure("a sum is larger than its stated bounds allow; nothing was released")
    steps = steps + noise.draw(steps.size, source).reshape(steps.shape)
    return noise.lattice.points(steps)
