"""The variance and the standard deviation of a column.

**As an average over pairs** (``form="pairs"``, fixed size m >= 2). The sample variance over the m
positions is

    s^2 = 1/(m - 1) sum_i (x_i - mean)^2 = 1/(m(m - 1)) sum_{i<j} (x_i - x_j)^2.

Swapping entry i touches the m - 1 pairs with i. Each term lies in [0, (U - L)^2], so it moves by
at most (U - L)^2, and s^2 by at most ``(m - 1)(U - L)^2 / (m(m - 1)) = (U - L)^2 / m``. Attained:
all others at L, the entry from L to U. The reach is ``(U - L)^2 / (2m)``. Two positions may hold
copies of one record; such pairs count as zero, which the design corrects (``paired``).

**Through moments** (``form="moments"``, and always on Poisson subsets): averages of the scaled
value and its square are released, ``moments.py`` proves their reach, and variance = mean of
squares - square of the mean, with divisor n. With h = (U - L)/2 and r the mean's distance from
the midpoint over h, its noise has standard deviation near ``z h^2 sqrt(4/11 + 4 r^2) / m``
instead of ``2 z h^2 / m``: 2.8 times less at r = 0.2, and less up to |r| = 0.95. It is not linear
in the release: read it off the average of the releases, not off each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.statistics.forms import InTwoForms
from mustdp.resampling.statistics.moments import MomentQuery
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.query import Block, Query
from mustdp.resampling.statistics.reading import CLEARLY, Reading, Spread, symmetric
from mustdp.resampling.statistics.sharing import block


@dataclass(frozen=True)
class VarianceQuery(Query):
    """The sample variance, which is no sum over records; ``root`` estimates its square root."""

    public: Public
    root: bool
    blocks: tuple[Block, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        reach = 0.5 * self.public.ranges[0].width ** 2 / self.public.size
        object.__setattr__(self, "blocks", (block("variance", 1, reach),))
        object.__setattr__(self, "labels", (_label(self.root),))

    @property
    def paired(self) -> tuple[bool, ...]:
        """An average over pairs of different positions."""
        return (True,)

    def total(self, values: FloatArray, counts: IntArray) -> FloatArray:
        """The sample variance with divisor size - 1, in two passes."""
        self.public.check_size(counts)
        size = self.public.size
        centred = values[:, 0] - self.public.ranges[0].mid
        centred -= (counts @ centred) / size
        centred *= centred
        return np.array([(counts @ centred) / (size - 1)])

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """Up to that of values at both ends of the range."""
        return (_possible(self.public, self.root),)

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """The variance."""
        return np.array(vectors, dtype=np.float64)

    def read(self, place: int, value: float, spread: Spread, level: float) -> Reading:
        """The variance with its interval, or the roots of them."""
        return _read(self.public, self.root, value, spread, level)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The released variance, or the root of it (0 where noise made it negative)."""
        return np.sqrt(np.maximum(vectors, 0.0)) if self.root else np.array(vectors, dtype=float)


@dataclass(frozen=True)
class MomentVarianceQuery(MomentQuery):
    """The variance of one column read off its first two moments; ``root`` its square root."""

    root: bool = False

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """Up to that of values at both ends of the range."""
        return (_possible(self.public, self.root),)

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """The variance."""
        return self.covariances(vectors)[..., 0] * self.public.ranges[0].half ** 2

    def read(self, place: int, value: float, spread: Spread, level: float) -> Reading:
        """The variance with its interval, or the roots of them."""
        return _read(self.public, self.root, value, spread, level)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """Mean of squares minus square of the mean (for the root: 0 where that is negative)."""
        found = self.smooth(vectors)
        return np.sqrt(np.maximum(found, 0.0)) if self.root else found


@dataclass(frozen=True)
class Variance(InTwoForms):
    """The variance of one column; the reach is proved at the top of this module.

    ``form="moments"`` releases the first two moments, which takes less noise and knows no bias from
    records that are drawn twice. ``form="pairs"`` releases the sample variance of every subset, as
    the MUST paper does: reach (U - L)^2 / (2m). Poisson subsets always take moments.

    >>> Variance(form="pairs").query(Public([0.0], [10.0], 20)).blocks
    (Block(label='variance', width=1, reach=2.5),)
    """

    name = "variance"
    _root = False

    def _by_moments(self, public: Public) -> Query:
        return MomentVarianceQuery(public, (0,), (_label(self._root),), self._root)

    def _by_pairs(self, public: Public) -> Query:
        return VarianceQuery(public, self._root)


@dataclass(frozen=True)
class StandardDeviation(Variance):
    """The root of the released variance, 0 where noise made it negative.

    What is released is the variance, with its reach; the root is taken of what was released and
    costs no privacy.

    >>> import mustdp as md
    >>> from mustdp.resampling.statistics.public import Public
    >>> md.StandardDeviation(form="pairs").query(Public([0.0], [10.0], 20)).blocks
    (Block(label='variance', width=1, reach=2.5),)
    """

    name = "sd"
    _root = True


def _possible(public: Public, root: bool) -> tuple[float, float]:
    half = public.ranges[0].half
    return (0.0, half if root else half**2)


def _read(public: Public, root: bool, value: float, spread: Spread, level: float) -> Reading:
    """The root is that of the value and of both ends, which stay apart where the value is 0.

    Its error is that of a root where the variance is clear, else half of the interval.
    """
    squared = symmetric(value, spread, level, _possible(public, False))
    if not root:
        return squared
    low, high = (math.sqrt(end) for end in squared.interval)
    found, error = math.sqrt(squared.value), 0.5 * (high - low)
    if squared.value > CLEARLY * squared.standard_error:
        error = squared.standard_error / (2.0 * found)
    return Reading(found, error, (low, high), squared.spread, squared.flags)


def _label(root: bool) -> str:
    return "standard deviation" if root else "variance"
