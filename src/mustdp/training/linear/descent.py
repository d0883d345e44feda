"""Noisy gradient descent for linear models: losses, clipped sums, noise and learning rates."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mustdp.calibration.budget import Budget, calibrated_budget
from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from mustdp.mechanisms.relation import Relation, drawn_from, most_copies, resolve_relation
from mustdp.noise.exact import LatticeNoise, lattice_for, release
from mustdp.numerics import checks
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen
from mustdp.randomness.keys import BatchKey, NoiseSource, batch_key
from mustdp.sampling.catalogue import COMPARED
from mustdp.sampling.epochs import Sampling
from mustdp.sampling.schemes import Batch, BatchStream, scheme_by_name

# Features and weights on grids so coarse that scores are exact, in whatever order they are added.
#
# A matrix product in floating point gives a row other last bits at another place of a batch:
# kernels for the last rows of a block add up in another order. Where the terms of a score cancel,
# those bits decide the sign of a whole clipped gradient, so that one record could move all others.
# On a grid there is nothing to round. Let d be the number of columns, and D >= d a power of two.
#
# - A row becomes multiples of 2^(e - p), where 2^e exceeds its largest entry: integers of at most p
#   bits, cut off towards zero. e depends on the row alone.
# - The weights of a score become multiples of 2^(f - q), where 2^f exceeds the largest of them:
#   integers of at most q bits. Weights are released, so f is public.
#
# With p + q <= 53 - log2 D every partial sum of a score is an integer of at most 2^53 units of
# 2^(e - p + f - q), and with 2 p <= 53 - log2 D so is every partial sum of a row's squares: both
# are exact in double precision, fused or not, in any order. Exponents are kept in a range where no
# unit underflows and no sum overflows. The rounding is part of the model: it changes which
# function of a record is clipped, never that it is a function of the record alone.


#: Integers up to 2^53 are exact in double precision.
_EXACT_BITS = 53
#: Fewer bits than this would change the fitted model noticeably.
_FEWEST_BITS = 12
#: Exponents of the largest entry of a row, and of the largest weight of a score. Units are then at
#: least 2^-853, and scores below 2^1000.
_LOWEST_EXPONENT = -400
_HIGHEST_ROW_EXPONENT, _HIGHEST_WEIGHT_EXPONENT = 333, 600
#: Entries that are rounded at once, and entries of the product that is tried.
_ENTRIES_ROUNDED = 1 << 18
_ENTRIES_TRIED = 1 << 15


@dataclass(frozen=True)
class EntryBits:
    """How many bits entries of rows and weights have for a number of columns.

    >>> EntryBits.of(784)
    EntryBits(columns=784, row_bits=21, weight_bits=22)
    """

    columns: int
    row_bits: int
    weight_bits: int

    def __post_init__(self) -> None:
        largest = 1 << _EXACT_BITS
        for bits in (self.row_bits + self.weight_bits, 2 * self.row_bits):
            if not self.columns << bits <= largest:
                raise NumericalFailure(
                    f"sums of {self.columns} products of {bits} bits are not exact in double "
                    "precision"
                )

    @classmethod
    def of(cls, columns: int) -> EntryBits:
        """The finest grid for a number of columns."""
        bits = _EXACT_BITS - max(0, columns - 1).bit_length()
        if not bits >= 2 * _FEWEST_BITS:
            raise InvalidParameter.refusing(
                "X",
                f"must have at most 2^{_EXACT_BITS - 2 * _FEWEST_BITS} columns",
                repr(columns),
            )
        return cls(max(1, columns), bits // 2, bits - bits // 2)

    def rows(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Rows (n, d) on the grid, in the precision they came in, and which are short enough.

        Rows with an entry of 2^333 (about 1e100) or more, or one that is not finite, become zero.
        """
        kept = np.empty(rows.shape, rows.dtype)
        short = np.empty(len(rows), dtype=np.bool_)
        piece = max(1, _ENTRIES_ROUNDED // self.columns)
        for begin in range(0, len(rows), piece):
            part = rows[begin : begin + piece].astype(np.float64)
            largest = np.abs(part).max(axis=1, initial=0.0)
            within = largest < 2.0**_HIGHEST_ROW_EXPONENT
            part[~within] = 0.0
            _to_multiples(part, np.where(within, largest, 0.0), self.row_bits, np.trunc)
            # What is cut off leaves no more digits than there were: single precision holds it.
            kept[begin : begin + piece] = part
            short[begin : begin + piece] = within
        return kept, short

    def weights(self, weights: FloatArray) -> FloatArray:
        """Weights (..., K, d) on the grid; weights that allow no score are refused."""
        found = np.array(weights, dtype=np.float64)
        largest = np.abs(found).max(axis=-1, initial=0.0)
        if not np.all(largest < 2.0**_HIGHEST_WEIGHT_EXPONENT):
            raise NumericalFailure(
                "the weights are no longer finite, or too large to compute scores with: the "
                "learning rate is too large for this clipping norm and noise"
            )
        _to_multiples(found, largest, self.weight_bits, np.rint)
        return found

    def try_product(self, outputs: int) -> None:
        """Compare a product of the largest integers that can occur with one in whole numbers.

        A library that does not multiply in double precision is found out here, before any step.
        """
        count = min(37, max(5, _ENTRIES_TRIED // (self.columns * outputs)))
        rows = _alternating((count, self.columns), self.row_bits)
        weights = _alternating((outputs, self.columns), self.weight_bits)
        exact = rows @ weights.T
        found = rows.astype(np.float64) @ weights.T.astype(np.float64, order="C")
        squares = np.einsum("ij,ij->i", *[rows.astype(np.float64)] * 2)
        if not (np.array_equal(found, exact) and np.array_equal(squares, (rows * rows).sum(1))):
            raise NumericalFailure(
                "a matrix product of small whole numbers is not exact: the linear algebra library "
                "of this numpy does not compute in double precision"
            )


def _to_multiples(values: FloatArray, largest: FloatArray, bits: int, whole: Any) -> None:
    """Bring the last axis to multiples of 2^(e - bits), in place, with 2^e above ``largest``."""
    exponents = np.maximum(np.frexp(largest)[1], _LOWEST_EXPONENT)[..., None]
    # Powers of two change no digit; what underflows is far below a unit.
    with np.errstate(under="ignore"):
        values *= np.ldexp(1.0, bits - exponents)
        whole(values, out=values)
        values *= np.ldexp(1.0, exponents - bits)


def _alternating(shape: tuple[int, int], bits: int) -> NDArray[np.int64]:
    """Odd integers close to 2^bits whose signs and last digits change from place to place."""
    places = np.arange(shape[0] * shape[1], dtype=np.int64)
    sizes = (1 << bits) - 1 - 2 * (places * 40503 % (1 << (bits // 2)))
    signs = 1 - 2 * (places * 2654435761 >> 13 & 1)
    return (sizes * signs).reshape(shape)


# Losses of linear models, as functions of the scores.
#
# The score of a record x is its K linear predictors, W x + c. With r the gradient of its loss in
# the scores, the gradient in (W, c) is the outer product of r and (x, 1), and its norm factors:
# |r| * |(x, 1)|. So clipping never needs a gradient per record, only the rows r.
#
# The gradient of a record must not depend on where the record stands, to the last bit. Operations
# of IEEE 754 on single entries give the same everywhere. Sums along an axis do not, as numpy
# chooses their order by the shape, and no standard says what ``exp`` gives, which has one routine
# for most entries and may have another for the last ones. So gradients are computed without
# either.


class Loss(Protocol):
    """Gradient and value of a loss for scores (K, records) or (chains, K, records).

    Records lie along the last axis, so that everything done per record runs over long rows.
    """

    @property
    def outputs(self) -> int:
        """K, the number of scores of a record."""
        ...

    def evaluate(self, scores: FloatArray, targets: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Gradient in the scores (of their shape) and value (..., records)."""
        ...


class SquaredError:
    """(score - y)^2, with the gradient 2 (score - y): the squared loss without a factor 1/2."""

    outputs = 1

    def evaluate(self, scores: FloatArray, targets: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Gradient and value for real targets."""
        residual = scores - targets[..., None, :]
        return 2.0 * residual, np.square(residual[..., 0, :])


class LogisticLoss:
    """Cross entropy of one score against targets 0 and 1."""

    outputs = 1

    def evaluate(self, scores: FloatArray, targets: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Gradient and value for targets 0.0 and 1.0."""
        score = scores[..., 0, :]
        small = exp_of_negative(-np.abs(score))
        value = np.log(1.0 + small) + np.maximum(score, 0.0) - targets * score
        chance = np.where(score >= 0.0, 1.0, small) / (1.0 + small)
        return (chance - targets)[..., None, :], value


class MultinomialLoss:
    """Cross entropy of K scores against a class number from 0 to K - 1."""

    def __init__(self, classes: int) -> None:
        if not classes >= 2:
            raise InvalidParameter(f"classes must be at least 2, got {classes!r}")
        self.outputs = classes

    def evaluate(self, scores: FloatArray, targets: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Gradient and value for class numbers as targets."""
        shifted = scores - scores.max(axis=-2, keepdims=True)
        own = _own_scores(shifted.shape, targets)
        value = -shifted.reshape(-1)[own]
        gradient = exp_of_negative(shifted)
        total = sum_of_scores(gradient)
        value += np.log(total)
        gradient /= total[..., None, :]
        gradient.reshape(-1)[own] -= 1.0
        return gradient, value


def sum_of_scores(values: FloatArray) -> FloatArray:
    """The sum over the K scores of each record, always from the first to the last."""
    total = values[..., 0, :].copy()
    for score in range(1, values.shape[-2]):
        total += values[..., score, :]
    return total


#: log 2 in two parts, the first so short that its products with exponents are exact.
_LOG2_HIGH, _LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
#: Below this the power would leave the normal numbers.
_SMALLEST_EXPONENT = -708.0
#: The last power in the series of e^r: for |r| < 0.347 the rest is below 2^-57.
_SERIES_TERMS = 13


def exp_of_negative(values: FloatArray) -> FloatArray:
    """exp of values <= 0, the same bits at every place; exp(-708) (about 3e-308) below -708.

    exp(x) = 2^k exp(r) with k = round(x / log 2) and |r| < 0.347, and the Taylor series of exp(r)
    to r^13, whose rest is below 2^-57. NaN stays NaN.
    """
    values = np.maximum(values, _SMALLEST_EXPONENT)
    whole = np.rint(values * (1.0 / math.log(2.0)))
    rest = values - whole * _LOG2_HIGH
    rest -= whole * _LOG2_LOW
    series = np.full_like(rest, 1.0 / math.factorial(_SERIES_TERMS))
    for term in range(_SERIES_TERMS - 1, -1, -1):
        series *= rest
        series += 1.0 / math.factorial(term)
    # 2^k, written as the bits of a double; a NaN has its way whatever k is.
    powers = np.nan_to_num(whole, copy=False).astype(np.int64)
    powers += 1023
    powers <<= 52
    series *= powers.view(np.float64)
    return series


def _own_scores(shape: tuple[int, ...], targets: NDArray[Any]) -> NDArray[Any]:
    """Where, in scores of this shape laid out flat, each record has the score of its own class."""
    *leading, classes, records = shape
    places = targets * records + np.arange(records)
    if leading:
        places += (np.arange(leading[0]) * (classes * records))[:, None]
    return places


def sigmoid(scores: FloatArray) -> FloatArray:
    """1 / (1 + exp(-score)), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * scores))


def softmax(scores: FloatArray) -> FloatArray:
    """Chances proportional to exp(score), along the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


# Learning rates: a number, a named schedule around it, or a function of the step.
#
# All rates of a run are worked out and checked before its first step. They depend on the number of
# the step alone, never on the data, so they cost no privacy.


LearningRate = float | Callable[[int], float]

#: Factor of the learning rate at step t (from 0) of T.
_FACTORS: dict[str, Callable[[int, int], float]] = {
    "constant": lambda t, T: 1.0,
    "linear": lambda t, T: 1.0 - t / T,
    "cosine": lambda t, T: 0.5 * (1.0 + math.cos(math.pi * t / T)),
    "inverse-sqrt": lambda t, T: 1.0 / math.sqrt(1.0 + t),
}
SCHEDULES = tuple(_FACTORS)
#: Refused above this, as noise multipliers are.
_LARGEST_RATE = 1e9


def learning_rates(learning_rate: Any, schedule: str, steps: int) -> NDArray[np.float64]:
    """The rate of every step, read-only.

    >>> learning_rates(0.5, "linear", 4)
    array([0.5  , 0.375, 0.25 , 0.125])
    >>> learning_rates(lambda step: 1 / (1 + step), "constant", 3)[1:]
    array([0.5       , 0.33333333])
    """
    checks.choice("schedule", schedule, SCHEDULES)
    if not callable(learning_rate):
        rate = checks.real("learning_rate", learning_rate, above=0, at_most=_LARGEST_RATE)
        factor = _FACTORS[schedule]
        return frozen(np.array([rate * factor(step, steps) for step in range(steps)]))
    if schedule != "constant":
        raise InvalidParameter(
            f"schedule must be 'constant' when learning_rate is a function, got {schedule!r}"
        )
    return frozen(
        np.array(
            [
                checks.real(
                    f"learning_rate({step})", learning_rate(step), at_least=0, at_most=_LARGEST_RATE
                )
                for step in range(steps)
            ]
        )
    )


# The clipped sum of a batch: every distinct record once, weighted by its count, in one pass.
#
# The rows of a batch are fetched in blocks that fit the processor's cache. In each block the
# scores, the clipping and the weighted product follow one another before the next block is
# fetched, so a row is read from memory once, and no gradient per record is ever formed. Products
# of a block are made in slices, small enough for the kernels that BLAS keeps for thin matrices.
#
# What a record contributes is a function of that record and of the released weights alone, to the
# last bit, wherever it stands in a batch and whatever stands beside it: scores and norms are exact
# (:class:`EntryBits`), and all else until the weighted product is done entry by entry. The error
# of that product is part of what a record may move (:class:`ExactNoise`).


#: Bytes of rows in one block, in double precision, and multiplications in one slice of a product.
_BLOCK = 3 << 19
_SLICE = 1 << 19
#: Rows of a block or slice at least, however many features there are.
_FEWEST_ROWS = 32
#: Norms of rows are taken as at least, and at most, this, so that no square leaves floating point.
_SHORTEST_ROW, _LONGEST_ROW = 1e-100, 1e100
#: Bounds on a record's gradient for which rounding, and those limits, are safe.
SMALLEST_NORM, LARGEST_NORM = 1e-30, 1e9


def check_max_grad_norm(max_grad_norm: object) -> float:
    """The bound on a record's gradient, as a number in the range where it can be kept."""
    return checks.real("max_grad_norm", max_grad_norm, at_least=SMALLEST_NORM, at_most=LARGEST_NORM)


class LinearRecords:
    """Records of a linear model: rows, targets, and the norms that clipping needs.

    ``rows`` (n, d) may be double or single precision, dense or a sparse matrix by rows; they are
    kept on a grid, in that precision and form, and everything is computed in double. Rows are
    finite; that is checked where data come in. ``importance`` multiplies each record's gradient
    before it is clipped, so that it changes no bound.
    """

    def __init__(
        self,
        rows: Any,
        targets: NDArray[Any],
        loss: Loss,
        fit_intercept: bool,
        importance: FloatArray | None = None,
    ) -> None:
        self._importance = importance
        self.grid = EntryBits.of(rows.shape[1])
        self.grid.try_product(loss.outputs)
        self.rows, self.norms = rows_and_norms(rows, self.grid, fit_intercept)
        self.targets = targets
        self.loss = loss
        self.fit_intercept = fit_intercept
        features = max(1, self.rows.shape[1])
        self._block = max(_FEWEST_ROWS, _BLOCK // (features * 8))
        self._slice = max(_FEWEST_ROWS, _SLICE // (features * loss.outputs))
        self.n = int(self.rows.shape[0])
        self._fetched = np.empty((min(self._block, self.n), features), self.rows.dtype)

    @property
    def width(self) -> int:
        """Parameters per score: the features, and the intercept where there is one."""
        return int(self.rows.shape[1]) + self.fit_intercept

    def additions(self, records: int) -> int:
        """The most additions, one after another, in a sum over ``records`` distinct records."""
        blocks = -(-records // self._block)
        return int(self._block + blocks * (2 + -(-self._block // self._slice)))

    def clipped_sum(
        self, weights: FloatArray, batch: Batch, bound: float
    ) -> tuple[FloatArray, float]:
        """Sum of count * clipped gradient, of the shape (K, width) of ``weights``, and mean loss.

        The intercept, if any, is the last column. The mean loss of an empty batch is NaN.
        """
        features = self.rows.shape[1]
        coefficients = np.ascontiguousarray(self.grid.weights(weights[:, :features]).T)
        total, losses = np.zeros_like(weights), 0.0
        for begin in range(0, batch.distinct, self._block):
            indices = batch.indices[begin : begin + self._block]
            counts = batch.counts[begin : begin + self._block]
            rows = self._rows(indices).astype(np.float64, copy=False)
            scores = self._scores(rows, coefficients)
            if self.fit_intercept:
                scores += weights[:, features, None]
            gradient, values = self.loss.evaluate(scores, self.targets[indices])
            if self._importance is not None:
                gradient *= self._importance[indices]
                values = values * self._importance[indices]
            clip_gradient(gradient, self.norms[indices], counts, bound, features)
            self._add_products(total[:, :features], gradient, rows)
            if self.fit_intercept:
                total[:, features] += gradient.sum(axis=-1)
            losses += float(values @ counts)
        return total, losses / batch.size if batch.distinct else np.nan

    def _rows(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        rows = self._fetched[: indices.size]
        if isinstance(self.rows, np.ndarray):
            self.rows.take(indices, axis=0, out=rows, mode="clip")
        else:
            self.rows[indices].toarray(out=rows)
        return rows

    def _scores(self, rows: NDArray[Any], coefficients: FloatArray) -> FloatArray:
        """Scores (K, rows) without the intercept: exact, as all of it is on the grid."""
        scores = np.empty((len(rows), coefficients.shape[1]))
        for begin in range(0, len(rows), self._slice):
            part = slice(begin, begin + self._slice)
            np.matmul(rows[part].astype(np.float64, copy=False), coefficients, out=scores[part])
        return np.ascontiguousarray(scores.T)

    def _add_products(self, total: FloatArray, gradient: FloatArray, rows: FloatArray) -> None:
        for begin in range(0, len(rows), self._slice):
            part = slice(begin, begin + self._slice)
            total += gradient[:, part] @ rows[part]


def clip_gradient(
    gradient: FloatArray,
    norms: FloatArray,
    counts: NDArray[Any],
    bound: float,
    features: int,
) -> None:
    """Scale each column r of ``gradient``, in place, by count * min(1, bound / (|r| * norm)).

    The K squares of r and the ``features`` + 1 of a row are added up with a relative error of at
    most K u and (features + 1) u, roots halve it, and six operations follow; with twice as much
    taken off the bound, no contribution exceeds it because of rounding. Where squares underflow,
    |r| is below 2^-510, and times a norm of at most 1e100 far below any ``bound``. A column that is
    not finite contributes nothing. So whatever a record holds, it moves the sum by at most
    ``bound`` per copy.
    """
    bound = bound * (1.0 - (gradient.shape[-2] + features + 32) * ROUNDOFF)
    lengths = np.sqrt(sum_of_scores(np.square(gradient)))
    lengths *= norms
    gradient *= (counts * (bound / np.maximum(lengths, bound)))[..., None, :]
    finite = np.isfinite(gradient)
    if not finite.all():
        np.copyto(gradient, 0.0, where=~finite.all(axis=-2, keepdims=True))


def rows_and_norms(rows: Any, grid: EntryBits, fit_intercept: bool) -> tuple[Any, FloatArray]:
    """Rows on the grid, and their norms in double precision, the 1 of the intercept included.

    Norms are rounded up to 1e-100, which clips a little more, and to infinity above 1e100, which
    leaves the row out: the product of a norm and a gradient's length is then always meaningful.
    Squares on the grid add up exactly, so that a norm depends on its row alone.
    """
    if not isinstance(rows, np.ndarray):
        return _sparse_rows_and_norms(rows, grid, fit_intercept)
    rows, short = grid.rows(rows)
    squares = np.empty(len(rows))
    piece = max(1, (1 << 22) // max(1, rows.shape[1]))
    for begin in range(0, len(rows), piece):
        part = rows[begin : begin + piece].astype(np.float64, copy=False)
        squares[begin : begin + piece] = np.einsum("ij,ij->i", part, part)
    norms = np.maximum(np.sqrt(squares + fit_intercept), _SHORTEST_ROW)
    norms[~short | (norms > _LONGEST_ROW)] = np.inf
    return rows, norms


def _sparse_rows_and_norms(
    rows: Any, grid: EntryBits, fit_intercept: bool
) -> tuple[Any, FloatArray]:
    """The same for a sparse matrix by rows, a few rows at a time."""
    from scipy import sparse

    parts, norms = [], []
    piece = max(1, (1 << 20) // max(1, rows.shape[1]))
    for begin in range(0, rows.shape[0], piece):
        dense, own = rows_and_norms(rows[begin : begin + piece].toarray(), grid, fit_intercept)
        parts.append(sparse.csr_array(dense))
        norms.append(own)
    return sparse.vstack(parts, format="csr"), np.concatenate(norms)


# From the clipped sum of a batch to what a step releases.
#
# A record that is counted c times adds g (x, 1)', with g stored in double precision and
# |g| |(x, 1)| <= c B for a bound B (:func:`clip_gradient`); x is exact. Let N be the most copies a
# batch can hold. The products of a batch are added up in blocks of at most s rows, t blocks in all,
# so that with the unit roundoff u the computed sum is off, in the 2-norm, by at most
#
#     (s + t) u / (1 - (s + t) u)  *  sum of |g| |(x, 1)|    <=    1.01 (s + t) u N B
#
# (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.5, whatever the order).
# Bringing each of the P entries to the nearest point of a lattice of step gamma moves the sum by at
# most sqrt(P) gamma / 2. Both together are the slack E. What is released then moves by at most
# 2 B + 2 E if one copy is replaced and B + 2 E if one is left out, so B = C - 2 E keeps the
# sensitivity that was accounted for, 2 C and C. E follows from sizes alone, never from data.


#: The slack is at most this part of max_grad_norm.
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
        max_grad_norm: float,
        *,
        entries: int,
        copies: int,
        additions: int,
    ) -> None:
        wanted = max_grad_norm * _MOST_SLACK / (4.0 * math.sqrt(entries))
        lattice = lattice_for(deviation, reach=max_grad_norm, records=copies, wanted=wanted)
        slack = 1.01 * additions * ROUNDOFF * copies * max_grad_norm
        slack += 0.5 * math.sqrt(entries) * lattice.step
        if not slack <= _MOST_SLACK * max_grad_norm:
            raise InvalidParameter.refusing(
                "max_grad_norm",
                f"must be large enough against the noise of deviation {deviation:g} and {copies} "
                f"copies that rounding stays below a two-hundredth of it",
                repr(max_grad_norm),
            )
        self.bound = max_grad_norm - 2.0 * slack
        self._noise, self._source = LatticeNoise(deviation, lattice), source

    def released(self, total: FloatArray) -> FloatArray:
        """The sum on the lattice plus noise; a point of the lattice."""
        return release(self._noise.lattice.rounded(total), self._noise, self._source)


# Noisy gradient descent on batches of a scheme: Algorithm S1 of the MUST paper, for linear models.
#
# Every step draws a batch, sums the clipped gradients of its distinct records weighted by their
# counts, releases that sum with Gaussian noise of standard deviation z * C,
# and divides by the batch size of the scheme: the fixed m, or the expected n * rate for Poisson
# and n / bins for random allocation. It never divides by the realised size, which would be one
# more thing to protect. An empty batch is a step of noise alone.
#
# [Z] = Zhao, Zhou & Liu, arXiv 2312.13389, supplement, Algorithm S1. Their sigma is on the mean, so
# that sigma = z * C / m here.


#: Called with the number of each finished step: an event of the run, whose length the caller has
#: stated, and so no ``Progress``.
OnStep = Callable[[int], object]


def check_draws(scheme: Sampling) -> None:
    """Refuse a scheme that never draws anything: its expected size is what sums are divided by."""
    if not scheme.expected_size > 0:
        raise InvalidParameter(f"scheme must draw at least one record, got {scheme!r}")


@dataclass(frozen=True)
class Recipe:
    """All that a run needs besides the data, settled and checked by :func:`read_recipe`."""

    budget: Budget
    max_grad_norm: float
    rates: FloatArray
    start: float
    #: Weight decay: every step also shrinks the coefficients, which are released, by rate * l2.
    l2: float = 0.0

    def __post_init__(self) -> None:
        check_draws(self.budget.scheme)
        if self.budget.bands > 1:
            raise NotCovered("banded noise is for PrivateTrainer alone: bands must be 1 here")

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on the sum of clipped gradients."""
        return self.budget.noise_multiplier * self.max_grad_norm

    @property
    def step_sizes(self) -> FloatArray:
        """What the noisy sum of each step is multiplied by: its rate over the batch size."""
        return np.asarray(self.rates / self.budget.scheme.expected_size)


@dataclass(frozen=True)
class Descent:
    """The last weights of a run, (K, width), and the mean loss of every batch (not private)."""

    weights: FloatArray
    losses: FloatArray
    #: All weights, where they were kept.
    path: FloatArray | None = None


def descend(
    records: LinearRecords,
    recipe: Recipe,
    key: BatchKey | int | None,
    on_step: OnStep | None = None,
    noise: Perturbation | None = None,
) -> Descent:
    """Run all steps of ``recipe`` on ``records``; ``on_step`` is called with the number of each.

    ``key`` decides the batches. The noise is exact, secret unless the key is a seed; ``noise``
    puts another in its place, for simulations.
    """
    budget, key = recipe.budget, batch_key(key)
    scheme = drawn_from(budget.scheme, budget.relation, records.n)
    weights = np.full((records.loss.outputs, records.width), recipe.start)
    if noise is None:
        noise = exact_noise(records, recipe, NoiseSource(key.seed))
    sizes, losses = recipe.step_sizes, np.empty(budget.steps)
    with np.errstate(over="ignore", invalid="ignore"):
        for step, batch in enumerate(BatchStream(scheme, key, stop=budget.steps)):
            total, losses[step] = records.clipped_sum(weights, batch, noise.bound)
            released = noise.released(total)
            if recipe.l2:
                weights[:, : records.rows.shape[1]] *= 1.0 - recipe.rates[step] * recipe.l2
            weights -= sizes[step] * released
            if on_step is not None:
                on_step(step + 1)
    check_converged(weights, recipe.rates)
    return Descent(frozen(weights), frozen(losses))


def exact_noise(records: LinearRecords, recipe: Recipe, source: NoiseSource) -> ExactNoise:
    """The noise of a run whose steps are released."""
    copies = most_copies(recipe.budget.scheme, recipe.budget.relation)
    return ExactNoise(
        source,
        recipe.deviation,
        recipe.max_grad_norm,
        entries=records.loss.outputs * records.width,
        copies=copies,
        additions=records.additions(copies),
    )


def check_converged(weights: FloatArray, rates: FloatArray) -> None:
    """Refuse weights beyond floating point; they are private, so looking at them costs nothing."""
    if not np.isfinite(weights).all():
        raise NumericalFailure(
            "the weights are no longer finite: the learning rate (here up to "
            f"{float(np.max(rates)):g}) is too large for this clipping norm and noise"
        )


# From the parameters of an estimator to a settled recipe, before any work on the data.


#: What is spent in all when neither noise nor target is given.
DEFAULT_EPSILON = 1.0
#: Fewer than plans may have, as every step is run here; and steps where none are given.
_MOST_STEPS, _USUAL_STEPS = 10_000_000, 100


class TakenAsPublic(UserWarning):
    """Something that the data decided is used and shown without noise.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.types.TakenAsPublic, Warning)
    True
    """


def resolve_scheme(
    scheme: Any, n: int, b: int | None, m: int | None, relation: str | None = None
) -> Sampling:
    """The scheme of n records: by name with sizes, or an object made for these n records.

    By name, m defaults to a tenth of the records and b to twice m (at most n).

    >>> resolve_scheme("must-ow", 1000, None, None).describe()["stages"]
    [['wor', 200], ['wr', 100]]
    """
    if isinstance(scheme, Sampling):
        if b is not None or m is not None:
            raise InvalidParameter(
                f"b and m must not be given beside a scheme object, got b={b!r}, m={m!r}"
            )
        drawn_from(scheme, resolve_relation(scheme, relation), n)
        return scheme
    if not isinstance(scheme, str):
        raise InvalidParameter(
            f"scheme must be one of {', '.join(COMPARED)} or a scheme object, got {scheme!r}"
        )
    if scheme == "poisson" and relation != Relation.REPLACE_ONE:
        warnings.warn(
            "the number of records is taken as public, as scheme='poisson' makes its rate from it; "
            "md.poisson(n, rate) with an estimate n keeps it private",
            TakenAsPublic,
            stacklevel=4,
        )
    size = max(1, n // 10) if m is None else m
    if b is None and scheme.startswith("must-"):
        b = min(n, 2 * checks.integer("m", size, 1))
    return scheme_by_name(scheme, n=n, m=size, b=b)


def read_recipe(estimator: Any, n: int) -> Recipe:
    """Read the parameters of ``estimator`` for n records; refuse what makes no sense."""
    max_grad_norm = check_max_grad_norm(estimator.max_grad_norm)
    start = checks.real("start", estimator.start, at_least=-1e9, at_most=1e9)
    checks.choice("fit_intercept", estimator.fit_intercept, (True, False))
    checks.choice("keep_losses", estimator.keep_losses, (True, False))
    if estimator.on_step is not None and not callable(estimator.on_step):
        raise InvalidParameter(f"on_step must be a function or None, got {estimator.on_step!r}")
    l2 = checks.real("l2", estimator.l2, at_least=0, at_most=1e9)
    scheme = resolve_scheme(estimator.scheme, n, estimator.b, estimator.m, estimator.relation)
    check_draws(scheme)
    steps = _steps(estimator.steps, estimator.epochs, scheme)
    rates = learning_rates(estimator.learning_rate, estimator.schedule, steps)
    if not l2 * float(np.max(rates)) < 1.0:
        raise InvalidParameter.refusing(
            "l2", "times the learning rate must be below 1, or weights would turn round", repr(l2)
        )
    given = (estimator.noise_multiplier, estimator.epsilon)
    epsilon = DEFAULT_EPSILON if all(one is None for one in given) else estimator.epsilon
    budget = calibrated_budget(
        scheme,
        steps=steps,
        noise_multiplier=estimator.noise_multiplier,
        epsilon=epsilon,
        delta=estimator.delta,
        relation=estimator.relation,
    )
    return Recipe(budget, max_grad_norm, rates, start, l2)


def _steps(steps: int | None, epochs: int | None, scheme: Sampling) -> int:
    """The number of steps, or that of some passes over the data; a hundred for neither."""
    if epochs is None:
        return checks.integer("steps", _USUAL_STEPS if steps is None else steps, 1, _MOST_STEPS)
    if steps is not None:
        raise InvalidParameter(f"steps must be left out beside epochs={epochs!r}, got {steps!r}")
    batches = max(1, round(scheme.n / scheme.expected_size))
    return checks.integer("epochs", epochs, 1, _MOST_STEPS // batches) * batches
