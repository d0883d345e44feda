"""A privacy loss on a uniform grid, kept as its support points and their masses.

The loss of a pair (P, Q) is log dP/dQ under P. On a grid of spacing d it is an integer times d, or
+infinity. ``masses`` never describe less than they should for an upper bound, nor more than they
should for a lower bound; which of the two a distribution is for is the business of its maker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import frozen


@dataclass(frozen=True, eq=False)
class DiscreteLoss:
    """Masses at the losses ``offset + index * spacing`` and at +infinity.

    ``lost`` bounds mass of Q that a lower bound left out; it counts against the bound, e^eps times.
    """

    spacing: float
    index: IntArray
    masses: FloatArray
    infinite: float = 0.0
    lost: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        frozen(self.index)
        frozen(self.masses)

    @property
    def losses(self) -> FloatArray:
        """The finite losses."""
        return self.offset + self.index.astype(np.float64) * self.spacing

    @property
    def total(self) -> float:
        """All mass, finite and infinite."""
        return float(self.masses.sum()) + self.infinite

    @property
    def mean(self) -> float:
        """Mean of the finite part."""
        return float(self.masses @ self.losses)

    @property
    def variance(self) -> float:
        """Variance of the finite part."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = float(self.masses @ np.square(self.losses - self.mean))
        return max(0.0, found) if found < math.inf else math.inf

    def truncated(self, mass: float, *, keep: bool) -> DiscreteLoss:
        """Take the largest losses, ``mass`` in all at most, out of the finite part.

        With ``keep`` they move to +infinity (which dominates), else they are dropped (which is
        dominated).
        """
        tail = np.cumsum(self.masses[::-1])[::-1]
        cut = int(np.searchsorted(-tail, -mass, side="left"))
        cut = max(cut, 1)  # something finite stays
        if cut >= self.index.size:
            return self
        infinite = self.infinite + float(tail[cut]) * (1.0 + 1e-12) if keep else 0.0
        return replace(self, index=self.index[:cut], masses=self.masses[:cut], infinite=infinite)

    def log_mgf(self, theta: FloatArray) -> FloatArray:
        """log sum of masses times e^{theta loss}, for each theta."""
        exponents = np.outer(theta, self.losses) + _log(self.masses)
        top = exponents.max(axis=1)
        return np.asarray(top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)))


def _log(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(values)
