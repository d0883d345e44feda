"""The covariance and the correlation of two columns.

**As averages over pairs** (``form="pairs"``, fixed size m >= 2). The sample covariance over the m
positions is

    s_xy = 1/(m(m - 1)) sum_{i<j} (x_i - x_j)(y_i - y_j).

Swapping entry i touches the m - 1 pairs with i. Fix the partner j and scale both ranges to [0,
1], the partner at (a, b). Over the box the product (x - a)(y - b) is largest at a corner, max(ab,
(1-a)(1-b)), and smallest at a corner, -max(a(1-b), (1-a)b). The four sums of one of each are ab +
a(1-b) = a, ab + (1-a)b = b, (1-a)(1-b) + a(1-b) = 1-b and (1-a)(1-b) + (1-a)b = 1-a, all at most
1. So each term moves by at most Rx Ry (the widths of the ranges), and s_xy by at most ``Rx Ry /
m``. Attained: all others at (Lx, Ly), the entry from there to (Ux, Uy). The reach is ``Rx Ry /
(2m)``.

The correlation releases s_xx, s_xy and s_yy. The swap just named moves all three farthest at
once, so nothing beats shares (``sharing.py``): w^2 = 1/4, 1/2, 1/4. The noise in the correlation
r has variance proportional to ``1/w_xy^2 + (r^2/4)(1/w_xx^2 + 1/w_yy^2)``, and these shares are
the best for |r| = 1.

**Through moments** (``form="moments"``, and always on Poisson subsets): as in ``variance.py``,
with reaches from ``moments.py``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.resampling.statistics.moments import MomentQuery
from mustdp.resampling.statistics.public import Public
from mustdp.resampling.statistics.query import Block, Halves, Query
from mustdp.resampling.statistics.reading import Reading, Spread, symmetric
from mustdp.resampling.statistics.sharing import block, enlarged
from mustdp.resampling.statistics.variance import InTwoForms

#: A noisy variance below this share of the half range squared is raised to it in a correlation.
LEAST_VARIANCE = 1e-4


Three = tuple[FloatArray, FloatArray, FloatArray]


class _OfTwo(Query):
    """A covariance or, with ``correlation``, a correlation, whatever it is read off."""

    public: Public
    correlation: bool

    @abstractmethod
    def covariance(self, vectors: FloatArray) -> FloatArray:
        """Covariances ``(..., 1)`` in the columns' own units."""

    @abstractmethod
    def scaled(self, vectors: FloatArray) -> Three:
        """Variance, covariance and variance of the scaled columns."""

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """Of a correlation, or of a covariance of such ranges."""
        first, second = self.public.ranges
        most = 1.0 if self.correlation else first.half * second.half
        return ((-most, most),)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The covariance, or the correlation it gives with the variances."""
        if not self.correlation:
            return self.covariance(vectors)
        return correlation_of(*self.scaled(vectors))

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """Not cut at 1 nor at a smallest variance."""
        if not self.correlation:
            return self.covariance(vectors)
        return uncut_correlation(*self.scaled(vectors))

    def read(self, place: int, value: float, spread: Spread, level: float) -> Reading:
        """The interval of a correlation is made on Fisher's (1915) scale, where 1 is far away."""
        plain = symmetric(value, spread, level, self.possible[0])
        if not (self.correlation and abs(value) < 1.0 and math.isfinite(plain.value)):
            return plain
        reach = spread.quantile(level) * plain.standard_error / (1.0 - value**2)
        low, high = (math.tanh(math.atanh(value) + sign * reach) for sign in (-1.0, 1.0))
        return Reading(value, plain.standard_error, (low, high), spread, plain.flags)


@dataclass(frozen=True)
class CovarianceQuery(_OfTwo):
    """Sample covariance; with ``correlation`` both variances too, and what they make of it."""

    public: Public
    labels: tuple[str, ...]
    correlation: bool
    blocks: tuple[Block, ...] = field(init=False)
    _mids: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        wide, high = (one.width for one in self.public.ranges)
        size = self.public.size
        blocks: tuple[Block, ...] = (block("covariance", 1, 0.5 * wide * high / size),)
        if self.correlation:
            blocks = (
                enlarged(block("variance 1", 1, 0.5 * wide**2 / size), 0.5),
                enlarged(blocks[0], math.sqrt(0.5)),
                enlarged(block("variance 2", 1, 0.5 * high**2 / size), 0.5),
            )
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "_mids", np.array([one.mid for one in self.public.ranges]))

    @property
    def paired(self) -> tuple[bool, ...]:
        """Averages over pairs of different positions."""
        return (True,) * len(self.blocks)

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """Covariance, or variance, covariance, variance, with divisor size - 1."""
        self.public.check_size(counts)
        size = self.public.size
        centred = values - self._mids
        centred -= (counts @ centred) / size
        second = (centred.T * counts) @ centred
        found = second.reshape(-1)[[0, 1, 3]] if self.correlation else second[0, 1:]
        return np.asarray(found / (size - 1))

    def covariance(self, vectors: FloatArray) -> FloatArray:
        """As it was released."""
        return np.array(vectors, dtype=np.float64)

    def divided_by(self, vectors: FloatArray) -> FloatArray:
        """Both variances of a correlation."""
        return vectors[..., ::2] if self.correlation else super().divided_by(vectors)

    def scaled(self, vectors: FloatArray) -> Three:
        """What was released, by the halves of the ranges."""
        halves = [one.half for one in self.public.ranges]
        return (
            vectors[..., 0] / halves[0] ** 2,
            vectors[..., 1] / (halves[0] * halves[1]),
            vectors[..., 2] / halves[1] ** 2,
        )


@dataclass(frozen=True)
class MomentCovarianceQuery(_OfTwo, MomentQuery):
    """Covariance or correlation of two columns read off their moments."""

    correlation: bool = False

    def covariance(self, vectors: FloatArray) -> FloatArray:
        """Mean of products minus product of means."""
        scale = self.public.ranges[0].half * self.public.ranges[1].half
        return np.asarray(self.covariances(vectors)[..., 0, 1:] * scale)

    def scaled(self, vectors: FloatArray) -> Three:
        """Those of the moments."""
        found = self.covariances(vectors)
        return found[..., 0, 0], found[..., 0, 1], found[..., 1, 1]

    def divided_by(self, vectors: FloatArray) -> FloatArray:
        """Both variances of a correlation."""
        if not self.correlation:
            return super().divided_by(vectors)
        return np.diagonal(self.covariances(vectors), axis1=-2, axis2=-1)


def correlation_of(first: FloatArray, mixed: FloatArray, second: FloatArray) -> FloatArray:
    """Correlation ``(..., 1)`` from scaled variances and covariance, clipped to [-1, 1].

    Variances below ``LEAST_VARIANCE`` (a standard deviation of one per cent of the half range), and
    negative ones, are raised to it: then the result says little, but it stays a correlation.
    """
    product = np.maximum(first, LEAST_VARIANCE) * np.maximum(second, LEAST_VARIANCE)
    return np.asarray(np.clip(mixed / np.sqrt(product), -1.0, 1.0)[..., None])


def uncut_correlation(first: FloatArray, mixed: FloatArray, second: FloatArray) -> FloatArray:
    """The same without any cut, to be differentiated; NaN where a variance is not positive."""
    positive = (first > 0) & (second > 0)
    roots = np.sqrt(np.where(positive, first * second, np.nan))
    found: FloatArray = np.asarray(mixed / roots)[..., None]
    return found


@dataclass(frozen=True)
class Covariance(InTwoForms):
    """The covariance of two columns; the reach is proved at the top of this module.

    For ``form="pairs"`` it is Rx Ry / (2m).

    Parameters
    ----------
    form : {"moments", "pairs"}, default="moments"
        As in :class:`Variance`.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given. There are two.

    Examples
    --------
    >>> Covariance(form="pairs").query(Public([0.0, 0.0], [10.0, 2.0], 20)).blocks
    (Block(label='covariance', width=1, reach=0.5),)
    """

    name = "covariance"
    fewest = most = 2
    _pairs, _moments = CovarianceQuery, MomentCovarianceQuery
    _squares: ClassVar[tuple[int, ...]] = ()
    _label = "covariance"


@dataclass(frozen=True)
class Correlation(Covariance):
    """The correlation of two columns: covariance and both variances in one release.

    Parameters
    ----------
    form : {"moments", "pairs"}, default="moments"
        As in :class:`Variance`.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given. There are two.

    Examples
    --------
    >>> import mustdp as md
    >>> from mustdp.resampling.statistics.public import Public
    >>> query = md.Correlation().query(Public([0.0, 0.0], [10.0, 2.0], 20))
    >>> [block.label for block in query.blocks]
    ['means', 'squares', 'products']
    """

    name = "correlation"
    _squares = (0, 1)
    _label = "correlation"
    _derived = True
