"""Logistic models by formula: Newton's method on noisy sums, with sandwich errors.

With b the basis of a record (``linear_model.py``), y in [0, 1] the response, eta = theta.b and p =
1/(1 + exp(-eta)), every round releases, at a theta that is public by then, the sums of

    w b b',   w = 4 p (1 - p),       and       (y - p) b / c,

and the last round those of (y - p)^2 b b' / c^2, too. c is the largest |y - p| that is possible:
that of the largest |eta| on the public ranges. The first round is at theta = 0; there w = 1.

*What one record does.* k is the largest sum of squares of the basis. Each different product of b
b' is added up once, times the root of how often it stands in the matrix, so that b b' has norm
|b|^2; the matrices are multiplied by h/sqrt(k) and m/sqrt(k). With a = |y - p|/c and |b|^2 = k, the
score has the square k a^2, the matrices k h^2 w^2 and k m^2 a^4, and with t = |b.b'|/k in [0, 1]
two contributions are at most D apart,

    D^2/k = a^2 + a'^2 + 2 a a' t + h^2 (w^2 + w'^2 - 2 w w' t^2)
            + m^2 (a^4 + a'^4 - 2 a^2 a'^2 t^2).

Large scores and large weights exclude each other: with q = max(p, 1 - p) in [1/2, 1], w = 4 q (1 -
q) and a <= min(q/c, 1). This region R, 0 <= a <= min(q(w)/c, 1) with q(w) = (1 + sqrt(1 - w))/2,
has contributions with shorter b and with weights s in [0, 1] in it, too: for s |b|/sqrt(k) = u <= 1
they have u a for a and no more than u w for w, as s |b|^2/k <= u; q falls with w. D^2 grows with a
while 2 m^2 <= 1. Over cells of q, a is bounded by its largest, w in squares by its largest and in
products by its smallest value, and the largest over t of what is left, A t - B t^2, is A^2/(4 B) or
A - B. :func:`squared_sensitivities` takes the largest over all pairs of cells; the radius alike.
For c near 1 and h = m = 0 it is the 4 of the scores alone, and the matrices add hardly anything.

*Estimate.* The first round gives least squares. They are brought to the scale of log odds, as
for two normal groups (Haggstrom 1983, J. Bus. Econ. Statist. 1): slopes are divided by the
variance of y, and the mean of eta is the log odds of the mean of y. Two steps of Newton's
follow, which take off what earlier rounds were off by. The last one's error is the sampling error
H^-1 M H^-1 (White 1982: it needs no correct model), the noise of the last score and that of H
times the step, and half of the step times its root mean square in log odds, for what it leaves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit, logit

from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import NoiseCovariance, NoisySums, Piece
from mustdp.estimation.result import (
    UNBOUNDED,
    Interval,
    Test,
    released_spread,
    t_chance,
    t_interval,
    vacuous_interval,
)
from mustdp.estimation.schema import PublicSchema
from mustdp.estimation.statistics.linear_model import (
    DesignMatrix,
    DesignProducts,
    Formula,
    LinearModel,
    ModelRequest,
    OfDesign,
    sums_in_pieces,
)
from mustdp.estimation.statistics.moments import SINGULAR
from mustdp.estimation.statistics.statistic import SlotRelease, StatisticRequest, register
from mustdp.numerics.arrays import FloatArray, IntArray

#: What rounding may add to a norm.
_SLACK = 1.0 + 2.0**-40
#: Cells of q, and what c is rounded down to a multiple of one in.
_CELLS, _ROUNDED = 512, 256
#: What the matrices weigh beside the score: in the first rounds, and both of the last one.
_FIRST_CURVATURE, _CURVATURE, _SQUARES = 1.0, 1.2, 0.7
#: The rounds' shares of the budget.
START, LATER = 0.05, (0.15, 0.8)
#: How far from 0 rounds may begin, and how far the last may move on average, in log odds.
_FARTHEST, _SETTLED = 12.0, 1.0
#: What a step leaves, over its size and that of the change of log odds.
_CURVED = 0.5
#: A curvature is divided by if it is above so many errors.
_CLEARLY = 3.0
#: Said where the last step was too long to be the last.
UNSETTLED = "Newton's steps had not settled: the interval is the whole possible range"


@lru_cache(maxsize=256)
def squared_sensitivities(c: float, h: float, m: float = 0.0) -> tuple[float, float]:
    """Squares of radius and diameter over k, proved above; m is at most the root of 1/2.

    >>> [round(x, 2) for x in squared_sensitivities(1.0, 1.0, 0.5)]
    [1.32, 4.0]
    """
    if not (0.0 < c <= 1.0 and h >= 0.0 and 0.0 <= m <= 0.7):
        raise InvalidParameter(
            f"c, h and m must be in (0, 1], >= 0 and in [0, 0.7], got {c}, {h}, {m}"
        )
    ends = np.linspace(0.5, 1.0, _CELLS + 1)
    low, high = ends[:-1], ends[1:]
    large, small = np.minimum(high / c, 1.0), np.minimum(low / c, 1.0)
    wide, narrow = 4.0 * low * (1.0 - low), 4.0 * high * (1.0 - high)
    own = large**2 + h**2 * wide**2 + m**2 * large**4
    along = 2.0 * np.outer(large, large)
    bent = 2.0 * h**2 * np.outer(narrow, narrow) + 2.0 * m**2 * np.outer(small**2, small**2)
    inside = along < 2.0 * bent
    most = np.where(inside, along**2 / (4.0 * np.where(inside, bent, 1.0)), along - bent)
    apart = own[:, None] + own[None, :] + most
    return float(own.max()) * _SLACK, float(apart.max()) * _SLACK


class Scores(OfDesign):
    """Sums of w b b', of scores and, with ``errors``, of their squares, at public ``slopes``."""

    errors: ClassVar[bool] = False

    @cached_property
    def products(self) -> DesignProducts:
        """Those of b b'."""
        return DesignProducts(self.design, response=False)

    @property
    def slopes(self) -> FloatArray:
        """Theta on the basis, (slots, basis)."""
        return np.zeros((self.schema.slots, len(self.design.basis)))

    @cached_property
    def largest(self) -> FloatArray:
        """The largest |y - p| of every slot."""
        farthest = (np.abs(self.slopes) @ self.design.active.T).max(axis=1)
        return np.asarray(np.minimum(expit(farthest) * _SLACK, 1.0))

    @property
    def _parts(self) -> tuple[float, ...]:
        """What the matrices are multiplied by, times sqrt(k)."""
        return (_CURVATURE, _SQUARES) if self.errors else (_FIRST_CURVATURE,)

    @property
    def width(self) -> int:
        """Matrices and scores."""
        return len(self.design.basis) + len(self.products) * len(self._parts)

    @cached_property
    def _squares(self) -> tuple[float, float]:
        """Of the slot where scores are cut the most."""
        smallest = math.floor(float(self.largest.min()) * _ROUNDED) / _ROUNDED
        return squared_sensitivities(smallest, *self._parts)

    @property
    def radius(self) -> float:
        """Proved above."""
        return math.sqrt(self.design.most_active * self._squares[0]) * _SLACK

    @property
    def diameter(self) -> float:
        """Proved above."""
        return math.sqrt(self.design.most_active * self._squares[1]) * _SLACK

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """One product after the other, so that no rounding depends on where a row stands."""
        design = self.design
        features, here = design.features(values), design.here(values)
        slopes, root = self.slopes, math.sqrt(design.most_active)
        eta = np.zeros(len(values))
        for k in range(features.shape[1]):
            eta += features[:, k] * slopes[slots, k]
        p = expit(eta)
        off = (0.5 + 0.5 * design.response(values) - p) / self.largest[slots]
        off = np.clip(off, -1.0, 1.0) * here
        weight = np.clip(4.0 * p * (1.0 - p), 0.0, 1.0)
        matrices, scales = self.products.of(features), [x / root for x in self._parts]
        found = [matrices * (weight * scales[0])[:, None], features * off[:, None]]
        if self.errors:
            found.append(matrices * (off**2 * scales[1])[:, None])
        return np.concatenate(found, axis=1)

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """With weights, those of squared scores are squared."""
        return sums_in_pieces(self, piece, per_step, len(self.products) if self.errors else 0)

    @property
    def _scales(self) -> FloatArray:
        root, basis = math.sqrt(self.design.most_active), np.ones(len(self.design.basis))
        first, *second = (self.products.roots * x / root for x in self._parts)
        return np.concatenate([first, basis, *second])

    def natural(self, vectors: FloatArray) -> FloatArray:
        """In shares of the largest weight and score."""
        return vectors / self._scales

    @cached_property
    def covariance(self) -> NoiseCovariance:
        """Independent."""
        own = self._scales**-2.0
        return NoiseCovariance(np.append(own[:1], np.zeros(self.width - 1)), own)

    def read_slot(self, noisy: NoisySums, slot: int) -> Scored:
        """Curvature and score of a slot in the users' scale, with the variances of their noise."""
        count, basis = len(self.products), len(self.design.basis)
        own, variances = noisy.sums[slot], noisy.noise_in(slot).own
        c = float(self.largest[slot])
        return Scored(
            0.25 * self.products.matrix(own[:count]),
            variances[:count] / 16.0,
            c * own[count : count + basis],
            c**2 * float(variances[count]),
            c**2 * own[count + basis :],
            c**4 * variances[count + basis :],
        )


@dataclass(frozen=True, eq=False)
class Scored:
    """Sums of one slot on the basis."""

    curvature: FloatArray
    curvature_variances: FloatArray  # of the products
    score: FloatArray
    score_variance: float
    squares: FloatArray  # products
    squares_variances: FloatArray


@dataclass(frozen=True)
class FirstScores(Scores):
    """At theta = 0; the first natural sum is the number of records."""

    schema: PublicSchema
    columns: tuple[int, ...]
    formula: str
    first_share: ClassVar[float] = START

    @cached_property
    def design(self) -> DesignMatrix:  # type: ignore[override]
        """The design of the formula."""
        return DesignMatrix.of(Formula.read(self.formula), self.schema, self.columns)


@dataclass(frozen=True, eq=False)
class LaterScores(Scores):
    """At ``theta`` (slots, basis), which earlier rounds have found."""

    start: FirstScores
    theta: FloatArray
    turn: int
    schema: PublicSchema = field(init=False)
    columns: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.start.schema)
        object.__setattr__(self, "columns", self.start.columns)

    @property
    def design(self) -> DesignMatrix:  # type: ignore[override]
        """That of the first round."""
        return self.start.design

    @property
    def slopes(self) -> FloatArray:
        """Found before."""
        return self.theta


@dataclass(frozen=True, eq=False)
class LastScores(LaterScores):
    """With the squares of the scores."""

    errors: ClassVar[bool] = True


@register
@dataclass(frozen=True)
class LogisticModel(LinearModel):
    """A logistic model by an R formula: coefficients in log odds, in one release of three rounds.

    Errors are those of the sandwich (White 1982), which hold where the model is not the truth, and
    account for the noise. The response is a column of two public categories, of which the second
    counts as 1, or of numbers with the range from 0 to 1. Records of a category that is not listed
    are left out.

    Parameters
    ----------
    formula : str
        As in :class:`LinearModel`.
    columns : str, int or sequence, default=None
        The columns that the formula may name; None means all that are given.

    Examples
    --------
    >>> LogisticModel("employed ~ age + C(sex)").written
    'logistic-model:employed ~ age + C(sex)'
    """

    name = "logistic-model"
    usage = "logistic-model:FORMULA"
    about = "a logistic regression; coefficients in log odds"
    example = "logistic-model:y ~ x"

    def requests(self, schema: PublicSchema) -> Iterator[StatisticRequest]:
        """One model of the columns that the formula names."""
        allowed = self.positions([column.name for column in schema.columns])
        self.check_release()
        self.check_domains(schema)
        self.check_survey(schema)
        design = DesignMatrix.of(Formula.read(self.formula), schema, allowed)
        own, levels = design.ranges[-1], design.categories[-1]
        binary = len(levels) == 2 if own is None else (own.lower, own.upper) == (0.0, 1.0)
        if not binary:
            raise InvalidParameter.refusing(
                "statistic",
                "must have a column of two categories, or of numbers from 0 to 1, on the left of "
                f"{self.formula}",
                repr(design.formula.response),
            )
        design.most_active  # noqa: B018  refuses too many combinations
        yield LogisticModelRequest(schema, design.columns, self.formula)


@dataclass(frozen=True)
class LogisticModelRequest(ModelRequest):
    """A logistic model in three rounds."""

    @property
    def name(self) -> str:
        """In results."""
        return "logistic-model"

    @cached_property
    def sums(self) -> FirstScores:
        """At theta = 0."""
        return FirstScores(self.schema, self.columns, self.formula)

    @property
    def later_shares(self) -> tuple[float, ...]:
        """Two more rounds."""
        return tuple(share / math.fsum(LATER) for share in LATER)

    @property
    def weighted_errors(self) -> bool:
        """Yes: weights are in the squares."""
        return True

    def describe(self, cell: str) -> str:
        """Which coefficient, of what."""
        response = self.schema.columns[self.columns[-1]]
        of = f"{response.name} being {response.categories[1]}" if response.categories else (
            response.name
        )  # fmt: skip
        return f"{cell} in the logistic model {self.formula}, in log odds of {of}"

    @cached_property
    def _span(self) -> tuple[FloatArray, FloatArray]:
        """Orthonormal coordinates of the design on the basis, and what turns them back."""
        q, r = np.linalg.qr(self.sums.design.matrix)
        return q, r

    def second_sums(self, first: NoisySums, together: Sequence[StatisticRequest]) -> LaterScores:
        """At least squares on the scale of log odds."""
        theta = [self._start(first, slot) for slot in range(self.schema.slots)]
        return LaterScores(self.sums, np.stack(theta), 0)

    def next_sums(self, last: NoisySums) -> LaterScores:
        """A step of Newton's from there."""
        part = last.part
        if not isinstance(part, LaterScores):
            raise InvalidParameter("the round before must be one of scores")
        theta = [
            self._bounded(part.theta[slot] + self._span[0] @ self._step(part, last, slot)[0])
            for slot in range(self.schema.slots)
        ]
        kind = LastScores if part.turn == len(LATER) - 2 else LaterScores
        return kind(self.sums, np.stack(theta), part.turn + 1)

    def _bounded(self, theta: FloatArray) -> FloatArray:
        """Made smaller where log odds could be out of all reason."""
        farthest = float((self.sums.design.active @ np.abs(theta)).max())
        return theta * min(1.0, _FARTHEST / max(farthest, 1e-300))

    def _step(
        self, part: Scores, noisy: NoisySums, slot: int
    ) -> tuple[FloatArray, FloatArray, bool]:
        """Newton's step, the inverse of the curvature, and whether noise hides the latter."""
        span, at = self._span[0], part.read_slot(noisy, slot)
        curvature = span.T @ at.curvature @ span
        bends = part.products.along(span, span)
        values, directions = np.linalg.eigh(curvature)
        along = np.einsum("ia,ijk,ja->ak", directions, bends, directions)
        errors = np.sqrt(along**2 @ at.curvature_variances)
        floor = np.maximum(_CLEARLY * errors, 1e-6)
        inverse = (directions / np.maximum(values, floor)) @ directions.T
        return inverse @ (span.T @ at.score), inverse, not bool((values > floor).all())

    def _start(self, noisy: NoisySums, slot: int) -> FloatArray:
        part, span = self.sums, self._span[0]
        step = span @ self._step(part, noisy, slot)[0]
        at = part.read_slot(noisy, slot)
        constant = span[0]
        if not constant @ constant > 1.0 - 1e-9:  # no intercept
            return self._bounded(step)
        records = max(4.0 * float(at.curvature[0, 0]), 2.0)
        mean = min(max(0.5 + float(at.score[0]) / records, 1.0 / records), 1.0 - 1.0 / records)
        variance = mean * (1.0 - mean)
        theta = step / (4.0 * variance)
        theta[0] += float(logit(mean)) + (0.5 - mean) / variance
        return self._bounded(theta)

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """Coefficients of one slot, from the last round."""
        second, names = at.second, self.sums.design.names
        if second is None or not isinstance(second.part, LastScores):
            raise InvalidParameter("the last round must be one of scores and their squares")
        part, (span, back) = second.part, self._span
        step, inverse, hidden = self._step(part, second, at.slot)
        n, p = max(at.records, 1.0), len(names)
        change = span @ step
        # The mean square of the change of log odds, as the first round knows the records.
        first = self.sums.read_slot(at.first, at.slot).curvature
        size = math.sqrt(max(4.0 * float(change @ first @ change) / n, 0.0))
        if hidden or not size < _SETTLED or not (self.schema.weighted or n > p + 2.0):
            for name in names:
                yield name, vacuous_interval(UNBOUNDED, SINGULAR if hidden else UNSETTLED)
            return
        own = part.read_slot(second, at.slot)
        turn = solve_triangular(back, np.eye(p))
        outward = turn @ inverse
        factor = at.unsampled * (1.0 if self.schema.weighted else n / (n - p))
        squares = span.T @ part.products.matrix(own.squares) @ span
        sampling = factor * outward @ squares @ outward.T
        # The noise of the score, and of the curvature along the step.
        turned = outward @ part.products.along(span, change[:, None])[:, 0, :]
        noise = own.score_variance * outward @ outward.T
        noise += (turned * own.curvature_variances) @ turned.T
        bends = part.products.along(span, span) * factor
        moved = turn @ step
        beta = turn @ (span.T @ part.theta[at.slot]) + moved
        for j, name in enumerate(names):
            along = np.einsum("i,ijk,j->k", outward[j], bends, outward[j])
            error = math.sqrt(float(along**2 @ own.squares_variances))
            found = float(sampling[j, j])
            doubt = 2.0 * found**2 / (n - p) if n > p else 0.0
            rest = (_CURVED * size * float(moved[j])) ** 2
            spread = released_spread(found, error, float(noise[j, j]) + rest, doubt)
            interval = t_interval(float(beta[j]), spread, at.level)
            ratio = float(beta[j]) / math.sqrt(spread.variance)
            chance = t_chance(spread.degrees_of_freedom, ratio)
            test = Test("t", ratio, (spread.degrees_of_freedom,), chance)
            yield name, replace(interval, test=test)
