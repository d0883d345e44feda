"""Statistics of first and second moments: mean, variance, covariance, correlation, regression."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mustdp.estimation.bootstrap.averages import LEAST_SHARE, Amount, AverageQuery
from mustdp.estimation.bootstrap.query import (
    CLEARLY,
    RARE,
    Averaged,
    Block,
    Halves,
    LinearQuery,
    Public,
    Query,
    Reading,
    Shape,
    Spread,
    Statistic,
    block,
    check_held,
    enlarged,
    known,
    rare_error,
    symmetric,
)
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray

# First and second moments of one or more columns, released together, and their joint reach.
#
# Every column is scaled to [-1, 1] by its public range. For the d scaled columns u of a record the
# release holds the averages of u_i (*means*), of u_i^2 for the columns in ``squares``, and of u_i
# u_j, i < j (*products*). Everything else (variance, covariance, correlation, regression) is read
# off these. Averages of records, not of pairs: where a multiset holds copies nothing has to be
# corrected.
#
# **Multisets of fixed size m.** Swapping one entry, u for v, changes the sums by ``Dmeans = u -
# v``, ``Dsquares = (u_i^2 - v_i^2)``, ``Dproducts = (u_i u_j - v_i v_j)``. Let w = (1, u), t = (1,
# v), D = d + 1. The matrix ww' - tt' holds Dmeans and Dproducts twice and Dsquares once, so
#
#     2|Dmeans|^2 + |Dsquares|^2 + 2|Dproducts|^2 = |ww' - tt'|_F^2 = |w|^4 + |t|^4 - 2(w.t)^2.
#
# Write a_i = 1 - u_i^2 and b_i = 1 - v_i^2, both in [0, 1], A = sum a_i, B = sum b_i, both <= d <
# D. Then |w|^4 = (D - A)^2 <= D^2 - D A, and the same for t. And |u_i^2 - v_i^2|^2 = (a_i - b_i)^2
# <= |a_i - b_i| <= a_i + b_i, so D |Dsquares|^2 <= D (A + B). Adding the two,
#
#     2|Dmeans|^2 + (D + 1)|Dsquares|^2 + 2|Dproducts|^2 <= 2 D^2.
#
# So with reaches ``D/(2m)`` for means and products and ``D/(m sqrt(2(D + 1)))`` for squares the
# condition (*) of ``sharing.py``, sum of (change / (2 reach))^2 <= 1, holds for the vector as a
# whole. It is attained for odd d by orthogonal w, t of signs; leaving squares out only lowers the
# left side.
#
# *One column* (d = 1) has a better balance: ``|u - v|^2 + (11/4)(u^2 - v^2)^2 <= 4``. With s = |u +
# v|, |u - v| <= 2 - s, this follows from (2 - s)^2 (1 + (11/4) s^2) <= 4, that is, for s > 0, from
# 11/4 <= (4 - s) / (s (2 - s)^2), whose minimum over (0, 2) is (11 + 5 sqrt 5)/8 = 2.77 at s = 3 -
# sqrt 5. So the reaches are 1/m for the mean and 2/(m sqrt 11) for the square: the mean costs what
# it costs alone.
#
# Squares are added up as u_i^2 - 1/2, in [-1/2, 1/2], and on multisets of fixed size the 1/2 is
# given back after the noise.
#
# **Poisson subsets of expected size M.** Sums are divided by M, and the size is released too
# (*count*). One copy adds to 2 count^2 + 2|means|^2 +
# 4|squares|^2 + 2|products|^2 at most 2 + 2d + q + d(d - 1) =: R^2, with q squares. So the reaches
# are R/(M sqrt 2) for count, means and products, and R/(2M) for squares.


@dataclass(frozen=True)
class MomentQuery(LinearQuery):
    """Moments of all columns, squares of some of them; subclasses say what to read off them."""

    public: Public
    squares: tuple[int, ...]
    labels: tuple[str, ...]
    blocks: tuple[Block, ...] = field(init=False)
    _mids: FloatArray = field(init=False, repr=False, compare=False)
    _scales: FloatArray = field(init=False, repr=False, compare=False)
    _rows: NDArray[np.intp] = field(init=False, repr=False, compare=False)
    _columns: NDArray[np.intp] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ranges = self.public.ranges
        blocks = moment_blocks(self.public, len(self.squares))
        check_held("columns", sum(one.width for one in blocks), 1)
        rows, columns = np.triu_indices(len(ranges), 1)
        setting = {
            "_mids": np.array([one.mid for one in ranges]),
            "_scales": np.array([1.0 / one.half for one in ranges]),
            "_rows": np.concatenate([np.array(self.squares, dtype=np.intp), rows]),
            "_columns": np.concatenate([np.array(self.squares, dtype=np.intp), columns]),
            "blocks": blocks,
        }
        for name, value in setting.items():
            object.__setattr__(self, name, value)

    @property
    def within_reach(self) -> bool:
        """On Poisson subsets alone: with a fixed size, distances are bounded more tightly."""
        return self.public.poisson

    def contributions(self, values: FloatArray) -> FloatArray:
        """(1 on Poisson subsets,) the scaled columns, their squares less 1/2, their products."""
        found = np.ones((self.width, len(values)))  # a coordinate is a row here: that is faster
        start = int(self.public.poisson)
        end = start + len(self.public.ranges)
        scaled, second = found[start:end], found[end:]
        np.multiply(values.T - self._mids[:, None], self._scales[:, None], out=scaled)
        scaled.clip(-1.0, 1.0, out=scaled)  # the scale is a rounded number
        for row, first, other in zip(second, self._rows, self._columns, strict=True):
            np.multiply(scaled[first], scaled[other], out=row)
        second[: len(self.squares)] -= 0.5
        return found.T

    def moments(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means ``(..., d)`` and second moments ``(..., d, d)`` of the scaled columns.

        Squares that are not released are NaN. On Poisson subsets everything is divided by the noisy
        size; one below ``LEAST_SHARE`` of the expected size is taken to be that share of it.
        """
        columns, poisson = len(self.public.ranges), self.public.poisson
        if poisson:
            vectors = vectors[..., 1:] / np.maximum(vectors[..., :1], LEAST_SHARE)
        first, second = vectors[..., :columns], vectors[..., columns:]
        if poisson:
            second = second + np.repeat(
                [0.5, 0.0], [len(self.squares), len(self._rows) - len(self.squares)]
            )
        matrix = np.full((*vectors.shape[:-1], columns, columns), np.nan)
        matrix[..., self._rows, self._columns] = second
        matrix[..., self._columns, self._rows] = second
        return first, matrix

    def covariances(self, vectors: FloatArray) -> FloatArray:
        """Covariance matrices ``(..., d, d)`` of the scaled columns, with divisor n."""
        means, second = self.moments(vectors)
        return np.asarray(second - means[..., :, None] * means[..., None, :])


def moment_blocks(public: Public, squares: int) -> tuple[Block, ...]:
    """The blocks of ``MomentQuery``, with the reaches proved above."""
    columns, size = len(public.ranges), public.size
    products = columns * (columns - 1) // 2
    if public.poisson:
        joint = math.sqrt(2 + 2 * columns + squares + columns * (columns - 1))
        mixed, square = joint / math.sqrt(2.0), 0.5 * joint
    elif columns == 1:
        mixed, square = 1.0, 2.0 / math.sqrt(11.0)
    else:
        joint = columns + 1
        mixed, square = 0.5 * joint, joint / math.sqrt(2.0 * (joint + 1))
    found = [
        ("count", int(public.poisson), mixed, 0.0),
        ("means", columns, mixed, 0.0),
        ("squares", squares, square, 0.0 if public.poisson else 0.5),
        ("products", products, mixed, 0.0),
    ]
    return tuple(
        block(label, width, reach / size, size, shift)
        for label, width, reach, shift in found
        if width
    )


# The mean of a column, and of its squares, which tell the mean's sampling error.
#
# On multisets of a fixed size the square of the scaled value u in [-1, 1] is released beside it;
# by ``moments.py`` the mean then costs what it costs alone. With N_1 and N_2 the variances of the
# noise in the averages of u and u^2,
#
#     S^2 = (average of u^2) - (average of u)^2 + N_1,    error^2 = N_2 + 4 (average of u)^2 N_1,
#
# which is far more precise than the spread of noisy replicates. Rare values have an error of their
# own (``reading.py``): an influence is at most 1 + |average of u|.


@dataclass(frozen=True)
class Value(Amount):
    """The value of the first column, measured from the midpoint of its range."""

    mid: float
    half: float

    def centred(self, values: FloatArray) -> FloatArray:
        """The values minus the midpoint."""
        found: FloatArray = values[:, 0] - self.mid
        return found


@dataclass(frozen=True)
class MeanQuery(MomentQuery):
    """The mean of one column, its square released beside it."""

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """The range of the column."""
        return ((self.public.ranges[0].lower, self.public.ranges[0].upper),)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """In the column's units; not forced into its range, so that averages stay unbiased."""
        column = self.public.ranges[0]
        found: FloatArray = column.mid + column.half * self.moments(vectors)[0]
        return found

    def known(self, at: Averaged, level: float) -> tuple[Reading | None, ...]:
        """By the squares."""
        (mean, square), noise = at.vector, at.noise
        half2 = self.public.ranges[0].half ** 2
        # The square of an average is too large by the variance of that average.
        influence = float(square - mean**2 + noise[0]) / max(1.0 - at.factor, 0.5)
        doubt = float(noise[1] + 4.0 * mean**2 * noise[0])
        error = math.sqrt(doubt + 2.0 * max(influence, 0.0) ** 2 * at.factor)
        largest = 1.0 + min(abs(float(mean)), 1.0)
        own = known(influence, error, 1.0, at.factor, float(noise[0]), largest)
        few = own.noise_dominated and influence < rare_error(influence, largest, at.factor)
        spread = Spread(
            half2 * own.sampling, half2 * own.noise, own.degrees_of_freedom, own.noise_dominated
        )
        value = float(self.estimate(at.vector)[0])
        reading = symmetric(value, spread, level, self.possible[0])
        return (replace(reading, flags=(*reading.flags, *((RARE,) if few else ()))),)


@dataclass(frozen=True)
class Mean(Statistic):
    """The mean of one column.

    Reach (proof in ``average.py``, with half = (upper - lower) / 2 and values measured from the
    midpoint): on multisets of m entries, swapping one entry moves the mean by at most (upper -
    lower) / m, and two opposite ends attain it, so the reach is (upper - lower) / (2m); released is
    the scaled mean, in [-1, 1], with reach 1/m. On Poisson subsets of expected size M one copy adds
    at most (upper - lower) / (2M) to the sum and 1/M to the size; both are released, enlarged to
    share one noise multiplier.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.
    squares : bool, default=True
        Whether squares are released beside the mean, which costs what it costs alone and then
        tells its sampling error; on Poisson subsets they are not.

    Examples
    --------
    >>> [block.label for block in Mean().query(Public([0.0], [10.0], 20)).blocks]
    ['means', 'squares']
    >>> Mean(squares=False).query(Public([0.0], [10.0], 20)).blocks
    (Block(label='mean', width=1, reach=0.25),)
    """

    columns: tuple[str | int, ...] | None = None
    squares: bool = True
    name = "mean"

    def shape(self, poisson: bool) -> Shape:
        """One number, unless squares (of a fixed size) or sizes (Poisson) are released with it."""
        alone = not (self.squares or poisson)
        return Shape(in_a_ball=alone or poisson, one_number=alone)

    def _on(self, public: Public) -> Query:
        if self.squares and not public.poisson:
            return MeanQuery(public, (0,), (self.name,))
        (column,) = public.ranges
        return AverageQuery(public, Value(column.mid, column.half), self.name)


# The variance and the standard deviation of a column.
#
# **As an average over pairs** (``form="pairs"``, fixed size m >= 2). The sample variance over the m
# positions is
#
#     s^2 = 1/(m - 1) sum_i (x_i - mean)^2 = 1/(m(m - 1)) sum_{i<j} (x_i - x_j)^2.
#
# Swapping entry i touches the m - 1 pairs with i. Each term lies in [0, (U - L)^2], so it moves by
# at most (U - L)^2, and s^2 by at most ``(m - 1)(U - L)^2 / (m(m - 1)) = (U - L)^2 / m``. Attained:
# all others at L, the entry from L to U. The reach is ``(U - L)^2 / (2m)``. Two positions may hold
# copies of one record; such pairs count as zero, which the design corrects (``paired``).
#
# **Through moments** (``form="moments"``, and always on Poisson subsets): averages of the scaled
# value and its square are released, ``moments.py`` proves their reach, and variance = mean of
# squares - square of the mean, with divisor n. With h = (U - L)/2 and r the mean's distance from
# the midpoint over h, its noise has standard deviation near ``z h^2 sqrt(4/11 + 4 r^2) / m``
# instead of ``2 z h^2 / m``: 2.8 times less at r = 0.2, and less up to |r| = 0.95. It is not linear
# in the release: read it off the average of the releases, not off each.


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
    >>> from mustdp.estimation.bootstrap.query import Public
    >>> md.StandardDeviation(form="pairs").query(Public([0.0], [10.0], 20)).blocks
    (Block(label='variance', width=1, reach=2.5),)
    """

    name = "sd"
    _label = "standard deviation"
    _derived = True


# The covariance and the correlation of two columns.
#
# **As averages over pairs** (``form="pairs"``, fixed size m >= 2). The sample covariance over the m
# positions is
#
#     s_xy = 1/(m(m - 1)) sum_{i<j} (x_i - x_j)(y_i - y_j).
#
# Swapping entry i touches the m - 1 pairs with i. Fix the partner j and scale both ranges to [0,
# 1], the partner at (a, b). Over the box the product (x - a)(y - b) is largest at a corner, max(ab,
# (1-a)(1-b)), and smallest at a corner, -max(a(1-b), (1-a)b). The four sums of one of each are ab +
# a(1-b) = a, ab + (1-a)b = b, (1-a)(1-b) + a(1-b) = 1-b and (1-a)(1-b) + (1-a)b = 1-a, all at most
# 1. So each term moves by at most Rx Ry (the widths of the ranges), and s_xy by at most ``Rx Ry /
# m``. Attained: all others at (Lx, Ly), the entry from there to (Ux, Uy). The reach is ``Rx Ry /
# (2m)``.
#
# The correlation releases s_xx, s_xy and s_yy. The swap just named moves all three farthest at
# once, so nothing beats shares (``sharing.py``): w^2 = 1/4, 1/2, 1/4. The noise in the correlation
# r has variance proportional to ``1/w_xy^2 + (r^2/4)(1/w_xx^2 + 1/w_yy^2)``, and these shares are
# the best for |r| = 1.
#
# **Through moments** (``form="moments"``, and always on Poisson subsets): as in ``variance.py``,
# with reaches from ``moments.py``.


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
    >>> from mustdp.estimation.bootstrap.query import Public
    >>> query = md.Correlation().query(Public([0.0, 0.0], [10.0, 2.0], 20))
    >>> [block.label for block in query.blocks]
    ['means', 'squares', 'products']
    """

    name = "correlation"
    _squares = (0, 1)
    _label = "correlation"
    _derived = True


# Linear regression by noisy sufficient statistics.
#
# The columns x_1, ..., x_p and y, scaled to [-1, 1] by their public ranges, are d = p + 1 columns
# whose means, squares (of the x) and products are released. ``moments.py`` proves the joint reach
# through |ww' - tt'|_F with w = (1, u), and that the squares can be released at a finer scale for
# free. The square of y is not needed and not released. The least-squares coefficients
#
#     slopes = C_xx^{-1} c_xy,      intercept = mean(y) - slopes . mean(x)
#
# are computed from what was released, then brought back to the columns' own units.
#
# **Floor.** Noise can make the centred moment matrix C_xx singular or indefinite. Its eigenvalues,
# which are variances in units of the half ranges squared, are raised to ``LEAST_EIGENVALUE`` =
# 1e-4: the variance of a direction with a standard deviation of one per cent of the half range.
# Where that happens (``LinearRegressionQuery.floored`` tells) the coefficients say little, and are
# shrunk rather than wild. The floor is fixed in advance and does not look at records.
#
# Coefficients are not linear in the release: read them off the average of the releases, not off
# each.


#: Smallest eigenvalue of the scaled, centred moment matrix that is divided by.
LEAST_EIGENVALUE = 1e-4


@dataclass(frozen=True)
class LinearRegressionQuery(MomentQuery):
    """Moments of the regressors and, as the last column, the response."""

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """Intercept and slopes ``(..., 1 + p)`` in the columns' own units."""
        means, _ = self.moments(vectors)
        spread = self.covariances(vectors)
        values, directions = np.linalg.eigh(spread[..., :-1, :-1])
        along = np.swapaxes(directions, -1, -2) @ spread[..., :-1, -1:]
        along /= np.maximum(values, LEAST_EIGENVALUE)[..., None]
        scaled = (directions @ along)[..., 0]
        mids = np.array([one.mid for one in self.public.ranges])
        halves = np.array([one.half for one in self.public.ranges])
        slopes = scaled * (halves[-1] / halves[:-1])
        centres = mids + halves * means
        intercept = centres[..., -1] - (slopes * centres[..., :-1]).sum(axis=-1)
        return np.concatenate([intercept[..., None], slopes], axis=-1)

    def floored(self, vectors: FloatArray) -> NDArray[np.bool_]:
        """Whether the moment matrix of a released vector had an eigenvalue raised to the floor."""
        smallest = np.linalg.eigvalsh(self.covariances(vectors)[..., :-1, :-1])[..., 0]
        return np.asarray(smallest < LEAST_EIGENVALUE)

    def cautions(self, at: Averaged, grouped: FloatArray) -> tuple[str, ...]:
        """A word where the floor was needed: then the coefficients are shrunk and say little."""
        if not self.floored(at.vector):
            return ()
        return (
            "regression: the regressors' noisy moments were not those of any data, or nearly "
            "without variation, and were raised to a floor; the coefficients say little",
        )


@dataclass(frozen=True)
class LinearRegression(Statistic):
    """Intercept and slopes of the last column on the others; reach in ``moments.py``.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given. The last is the
        response; there are two or more.

    Examples
    --------
    >>> query = LinearRegression().query(Public([0.0, 0.0], [10.0, 2.0], 20))
    >>> query.labels, [block.label for block in query.blocks]
    (('intercept', 'slope 1'), ['means', 'squares', 'products'])
    """

    columns: tuple[str | int, ...] | None = None
    name = "regression"
    fewest = 2
    most = None

    def labelled(self, query: Query, names: Sequence[str]) -> Query:
        """Slopes by the names of their columns."""
        if not isinstance(query, LinearRegressionQuery):
            return query
        slopes = (f"slope of {name}" for name in names[:-1])
        return replace(query, labels=("intercept", *slopes))

    def described(self, label: str, columns: Sequence[str]) -> str:
        """A term, and what is regressed on what."""
        return f"{label} in the regression of {columns[-1]} on {', '.join(columns[:-1])}"

    def _on(self, public: Public) -> Query:
        regressors = range(len(public.ranges) - 1)
        labels = ("intercept", *(f"slope {i + 1}" for i in regressors))
        return LinearRegressionQuery(public, tuple(regressors), labels)
