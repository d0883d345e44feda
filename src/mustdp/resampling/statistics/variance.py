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
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.statistics.moments import MomentQuery
from mustdp.resampling.statistics.public import Public, Shape
from mustdp.resampling.statistics.query import Block, Halves, Query
from mustdp.resampling.statistics.reading import CLEARLY, Reading, Spread, symmetric
from mustdp.resampling.statistics.sharing import block
from mustdp.resampling.statistics.statistic import Statistic

#: How a variance, a covariance or a correlation is released.
FORMS = ("pairs", "moments")


class _OfVariance(Query):
    """A variance or, with ``root``, the square root of one, whatever it is read off."""

    public: Public
    root: bool

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """Up to that of values at both ends of the range."""
        half = self.public.ranges[0].half
        return ((0.0, half if self.root else half**2),)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The variance, or the root of it (0 where noise made it negative)."""
        found = self.smooth(vectors)
        return np.sqrt(np.maximum(found, 0.0)) if self.root else found

    def read(self, place: int, value: float, spread: Spread, level: float) -> Reading:
        """The root is that of the value and of both ends, which stay apart where the value is 0.

        Its error is that of a root where the variance is clear, else half of the interval.
        """
        squared = symmetric(value, spread, level, (0.0, self.public.ranges[0].half ** 2))
        if not self.root:
            return squared
        low, high = (math.sqrt(end) for end in squared.interval)
        if not math.isfinite(squared.value):
            return replace(squared, interval=(low, high))
        found, error = math.sqrt(squared.value), 0.5 * (high - low)
        if squared.value > CLEARLY * squared.standard_error:
            error = squared.standard_error / (2.0 * found)
        return Reading(found, error, (low, high), squared.spread, squared.flags)


@dataclass(frozen=True)
class VarianceQuery(_OfVariance):
    """The sample variance, which is no sum over records."""

    public: Public
    labels: tuple[str, ...]
    root: bool
    blocks: tuple[Block, ...] = field(init=False)

    def __post_init__(self) -> None:
        reach = 0.5 * self.public.ranges[0].width ** 2 / self.public.size
        object.__setattr__(self, "blocks", (block("variance", 1, reach),))

    @property
    def paired(self) -> tuple[bool, ...]:
        """An average over pairs of different positions."""
        return (True,)

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The sample variance with divisor size - 1, in two passes."""
        self.public.check_size(counts)
        size = self.public.size
        centred = values[:, 0] - self.public.ranges[0].mid
        centred -= (counts @ centred) / size
        centred *= centred
        return np.array([(counts @ centred) / (size - 1)])

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """The released variance."""
        return np.array(vectors, dtype=np.float64)

    def largest(self, vector: FloatArray) -> float:
        """The square of the range."""
        return self.public.ranges[0].width ** 2


@dataclass(frozen=True)
class MomentVarianceQuery(_OfVariance, MomentQuery):
    """The variance of one column read off its first two moments."""

    root: bool = False

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """Mean of squares minus square of the mean."""
        return self.covariances(vectors)[..., 0] * self.public.ranges[0].half ** 2

    def largest(self, vector: FloatArray) -> float:
        """The square of the way from the mean to the farther end."""
        mean = min(abs(float(self.moments(vector)[0][0])), 1.0)
        return float(self.public.ranges[0].half * (1.0 + mean)) ** 2


@dataclass(frozen=True)
class InTwoForms(Statistic):
    """A statistic as an average over pairs or by moments; Poisson subsets always take moments."""

    #: The queries of both forms, and the columns whose squares the moments need.
    _pairs: ClassVar[Callable[..., Query]]
    _moments: ClassVar[Callable[..., Query]]
    _squares: ClassVar[tuple[int, ...]]
    #: What is estimated, and whether it is derived: the root of a variance, or a correlation.
    _label: ClassVar[str]
    _derived: ClassVar[bool] = False

    form: str = "moments"
    columns: tuple[str | int, ...] | None = None

    def __post_init__(self) -> None:
        checks.choice("form", self.form, FORMS)
        super().__post_init__()

    def _on(self, public: Public) -> Query:
        if self.form == "moments" or public.poisson:
            return self._moments(public, self._squares, (self._label,), self._derived)
        public.refuse_below(2)
        return self._pairs(public, (self._label,), self._derived)


@dataclass(frozen=True)
class Variance(InTwoForms):
    """The variance of one column; the reach is proved at the top of this module.

    Parameters
    ----------
    form : {"moments", "pairs"}, default="moments"
        "moments" releases the first two moments, which takes less noise and knows no bias from
        records that are drawn twice. "pairs" releases the sample variance of every subset, as the
        MUST paper does: reach (U - L)^2 / (2m). Poisson subsets always take moments.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> Variance(form="pairs").query(Public([0.0], [10.0], 20)).blocks
    (Block(label='variance', width=1, reach=2.5),)
    """

    name = "variance"
    _pairs, _moments, _squares = VarianceQuery, MomentVarianceQuery, (0,)
    _label = "variance"

    def shape(self, poisson: bool) -> Shape:
        """One number, unless it is read off two moments; no sum in either form."""
        alone = self.form == "pairs" and not poisson
        return Shape(in_a_ball=poisson, one_number=alone)


@dataclass(frozen=True)
class StandardDeviation(Variance):
    """The root of the released variance, 0 where noise made it negative.

    What is released is the variance, with its reach; the root is taken of what was released and
    costs no privacy.

    Parameters
    ----------
    form : {"moments", "pairs"}, default="moments"
        As in :class:`Variance`.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> import mustdp as md
    >>> from mustdp.resampling.statistics.public import Public
    >>> md.StandardDeviation(form="pairs").query(Public([0.0], [10.0], 20)).blocks
    (Block(label='variance', width=1, reach=2.5),)
    """

    name = "sd"
    _label = "standard deviation"
    _derived = True
