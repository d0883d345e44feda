"""Functions of a whole distribution: Gini, trimmed and winsorised means, ratios of quantiles.

All are read off the noisy distribution function that quantiles are read off (``quantiles.py``), so
that several of them, and quantiles of the same column, pay for it once.

**Sensitivity.** That of the curve: a record moves one column of its square root (``quantiles.py``).

**Estimator.** F_0 .. F_{K-1} are the shares up to the grid points. Records of a cell are put on a
place x_j inside it: on the grid point at its end where values are whole numbers, else in its
middle. With w_j = x_{j+1} - x_j,

- the integral of the quantiles from p to 1 - p is x_K (1 - p) - x_0 p - sum of w_j clip(F_j, p,
  1 - p), which over 1 - 2 p is the trimmed mean;
- the winsorised mean adds p times the quantiles at p and at 1 - p;
- E min(X, X') = x_0 + sum of w_j (1 - F_j)^2 and E X = x_K - sum of w_j F_j give Gini's coefficient
  1 - E min(X, X') / E X. The noise adds its variance to every square, which is taken off again.

**Variance.** With D_j the derivative of the estimate in F_j, sampling adds the variance of the
influence, the sum of D_j from the record's cell on (von Mises 1947; Serfling 1980, chapter 6),
times what sampling multiplies p (1 - p) by. Noise adds the variance of the sum of D_j e_j, where
the errors e_j are correlated along the curve as it was released. Where values are not known to be
whole, the records of a cell may be anywhere in it: a place that is uniform in the cell, independent
from cell to cell, adds a third variance, which covers values that many records share; and the
interval is widened by what it would do if the records of all cells lay at the same end of theirs,
as numbers with as many digits as the grid has do.

The quantiles in the winsorised mean have errors that depend on those of the rest; adding standard
errors is on the safe side. The ratio of two quantiles has the interval of Donner & Zou (2012,
MOVER) on the logarithmic scale, without the covariance of both, which is positive: on the safe
side, too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtr

from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import BoundedSum, NoisySums
from mustdp.estimation.result import (
    CLEARLY,
    UNCLEAR,
    Interval,
    Spread,
    Support,
    into,
    t_interval,
    vacuous_interval,
)
from mustdp.estimation.schema import PublicSchema, Range
from mustdp.estimation.statistics.quantiles import (
    NeedsQuantiles,
    NoisyCurve,
    QuantileCurve,
    ReleasedQuantile,
    grid_for,
    monotone,
    noisy_curve,
    values_are_whole,
)
from mustdp.estimation.statistics.statistic import (
    SlotRelease,
    Statistic,
    StatisticRequest,
    read_number,
    register,
    unknown_statistic,
)
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Distribution:
    """What was released of one column in one slot, with the records of every cell on one place."""

    heights: FloatArray  # F_j
    noise: FloatArray  # variances of the noise in them
    variances: FloatArray  # of noise and sampling
    places: FloatArray  # x_0 .. x_K
    #: The variance of sum D_j e_j; where numbers of records are noisy, F_j is a ratio.
    noise_along: Callable[[FloatArray], float]
    #: The quantile at p.
    quantile: Callable[[float], Interval]

    @property
    def widths(self) -> FloatArray:
        """w_j = x_{j+1} - x_j."""
        return np.diff(self.places)

    @property
    def masses(self) -> FloatArray:
        """Of the cells, by the closest distribution function."""
        return _rises(monotone(self.heights))


class Estimated(NamedTuple):
    """A value with its derivatives: in the heights, and per unit of mass in the places of cells."""

    value: float
    by_height: FloatArray
    by_place: FloatArray
    #: A standard error that is added to that of the rest, whatever their correlation.
    beside: float = 0.0


class CurveStatistic(Statistic, ABC):
    """A function of the distribution of one column, in one release on all records."""

    for_bootstrap: ClassVar[bool] = False
    in_domains: ClassVar[bool] = True

    @abstractmethod
    def on(self, found: Distribution) -> Estimated | None:
        """The estimate; None where the noise hides what it needs."""

    @abstractmethod
    def limits(self, column: Range) -> Support:
        """What an estimate can be."""

    def check_survey(self, schema: PublicSchema) -> None:
        """Clusters have no proven errors here."""
        if schema.largest_cluster is not None:
            raise InvalidParameter.refusing(
                "statistic",
                f"must not be {self.name} with clusters: ask for means and quantiles",
                repr(self.written),
            )

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """On a grid that fits the range."""
        column = schema.columns[columns[0]]
        return ReleasedFunctional(schema, columns, self, grid_for(column.numeric, column.whole))


@dataclass(frozen=True)
class ReleasedFunctional(StatisticRequest):
    """A function of the distribution of one column."""

    statistic: CurveStatistic
    grid: tuple[float, ...]

    @property
    def name(self) -> str:
        """In results."""
        argument = self.statistic.argument
        return self.statistic.name if argument is None else f"{self.statistic.name}:{argument}"

    @cached_property
    def sums(self) -> QuantileCurve:
        """Running counts on the grid, as quantiles have them."""
        return QuantileCurve(self.schema, self.columns, self.grid)

    @property
    def support(self) -> Support:
        """What an estimate can be."""
        return self.statistic.limits(self.schema.columns[self.columns[0]].numeric)

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """Of one slot."""
        curve = noisy_curve(at, at.first)
        if curve is None:
            yield "", vacuous_interval(self.support)
            return
        factor = float(curve.factor[0])

        def noise_along(gradient: FloatArray) -> float:
            total = -float(gradient @ curve.heights)
            found = self.sums.noise_along(at.first, at.slot, gradient, total)
            return found / float(at.first.sums[at.slot, 0]) ** 2

        def sampling(influence: FloatArray) -> float:
            return factor * _variance(_rises(monotone(curve.heights)), influence)

        yield (
            "",
            self._interval(
                curve, noise_along, sampling, lambda one: next(one.read(at))[1], at.level
            ),
        )

    def read_strata(self, slots: Sequence[SlotRelease]) -> Iterator[tuple[str, Interval]]:
        """The distribution function of the population is sum W_h F_h, and so is every error."""
        if self.schema.domains:
            yield from self.read_domain(slots, slots)
            return
        shares = self.schema.shares
        curves = [one for at in slots if (one := noisy_curve(at, at.first)) is not None]
        if len(curves) < len(slots):
            yield "", vacuous_interval(self.support)
            return

        def noise_along(gradient: FloatArray) -> float:
            return math.fsum(
                (share / float(at.records)) ** 2
                * self.sums.noise_along(at.first, at.slot, gradient, -float(gradient @ own.heights))
                for at, share, own in zip(slots, shares, curves, strict=True)
            )

        def sampling(influence: FloatArray) -> float:
            return math.fsum(
                share**2
                * float(own.factor[0])
                * _variance(_rises(monotone(own.heights)), influence)
                for share, own in zip(shares, curves, strict=True)
            )

        squares = np.array(shares) ** 2
        heights = np.einsum("h,hj->j", shares, [own.heights for own in curves])
        spread = [
            own.factor * (inside := np.clip(own.heights, 0.0, 1.0)) * (1.0 - inside)
            for own in curves
        ]
        between = np.maximum(heights * (1.0 - heights), 1e-12)
        together = NoisyCurve(
            heights,
            np.einsum("h,hj->j", squares, [own.noise for own in curves]),
            np.einsum("h,hj->j", squares, spread) / between,
        )
        yield "", self._interval(
            together, noise_along, sampling, lambda one: next(one.read_strata(slots))[1],
            slots[0].level,
        )  # fmt: skip

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """Of a group within strata: linearised as ``domains.py`` has it, with z = 1_d (IF - its
        mean) / P for the influence IF of a cell."""
        asked = ReleasedQuantile(self.schema, self.columns, 0.5, self.grid, "quantile")
        curve = asked.curve_of_group(inside, strata)
        if curve is None:
            yield "", vacuous_interval(self.support)
            return
        counts = np.array([at.records for at in strata])
        weights = np.array(self.schema.shares) / counts
        sums = np.array([at.first.sums[at.slot] for at in inside])
        share = float(weights @ sums[:, 0])
        everybody = inside[0].slot == strata[0].slot
        own_masses = [_rises(monotone(own[1:] / max(float(own[0]), 1e-9))) for own in sums]
        together = _rises(monotone(curve.heights))

        def noise_along(gradient: FloatArray) -> float:
            total, found = -float(gradient @ curve.heights), 0.0
            for h, at in enumerate(inside):
                beside = float(gradient @ sums[h, 1:]) + total * float(sums[h, 0])
                beside /= counts[h]
                own = total - (beside if everybody else 0.0)
                each = self.sums.noise_along(at.first, at.slot, gradient, own)
                if not everybody:
                    each += beside**2 * float(strata[h].noise.own[0])
                found += (weights[h] / share) ** 2 * each
            return found

        def sampling(influence: FloatArray) -> float:
            z, found = influence - float(together @ influence), 0.0
            for h, (at, whole) in enumerate(zip(inside, strata, strict=True)):
                mean = float(own_masses[h] @ z)
                beside = mean * float(sums[h, 0]) / counts[h]
                squares = float(own_masses[h] @ z**2) - 2.0 * beside * mean
                squares = at.squared_weights * max(squares, 0.0)
                squares += whole.squared_weights * beside**2
                found += (weights[h] / share) ** 2 * whole.unsampled * squares
            return found

        yield "", self._interval(
            curve, noise_along, sampling, lambda one: next(one.read_domain(inside, strata))[1],
            strata[0].level,
        )  # fmt: skip

    def _interval(
        self,
        curve: NoisyCurve,
        noise_along: Callable[[FloatArray], float],
        sampling_of: Callable[[FloatArray], float],
        read: Callable[[ReleasedQuantile], Interval],
        level: float,
    ) -> Interval:
        """By the derivatives in the distribution function."""

        def quantile(p: float) -> Interval:
            return read(ReleasedQuantile(self.schema, self.columns, p, self.grid, "quantile"))

        column = self.schema.columns[self.columns[0]]
        ends = np.array([column.numeric.lower, *self.grid, column.numeric.upper])
        whole = values_are_whole(column, self.grid, monotone(curve.heights))
        # The first cell has no length where the grid begins at the lower end.
        places = ends[1:] if whole else 0.5 * (ends[:-1] + ends[1:])
        inside = np.clip(curve.heights, 0.0, 1.0)
        variances = curve.noise + inside * (1.0 - inside) * curve.factor
        released = Distribution(
            curve.heights, curve.noise, variances, places, noise_along, quantile
        )
        found = self.statistic.on(released)
        if found is None:
            return vacuous_interval(self.support, UNCLEAR)
        masses = released.masses
        influence = np.append(np.cumsum(found.by_height[::-1])[::-1], 0.0)
        sampling, together = sampling_of(influence), 0.0
        if not whole:
            moved = masses * found.by_place * np.diff(ends)
            sampling += float((moved**2).sum()) / 12.0
            together = 0.5 * abs(float(moved.sum()))
        noise = released.noise_along(found.by_height)
        root = math.sqrt(sampling + noise)
        more = (1.0 + found.beside / root) ** 2 if root > 0.0 else 1.0
        both = Spread(more * sampling, more * noise)
        plain = t_interval(found.value, both, level, self.support, curved=True)
        low, high = (into(end, self.support) for end in
                     (plain.ends[0] - together, plain.ends[1] + together))  # fmt: skip
        error = math.hypot(plain.standard_error, together / math.sqrt(3.0))
        return replace(plain, standard_error=error, ends=(low, high))


def _variance(masses: FloatArray, influence: FloatArray) -> float:
    return max(float(masses @ influence**2 - (masses @ influence) ** 2), 0.0)


def _rises(heights: FloatArray) -> FloatArray:
    return np.diff(np.concatenate([[0.0], heights, [1.0]]))


@register
@dataclass(frozen=True)
class Gini(CurveStatistic):
    """Gini's coefficient of inequality, of a column that is not negative.

    Parameters
    ----------
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> Gini(columns="income").written
    'gini@income'
    """

    columns: tuple[str | int, ...] | None = None
    name = "gini"
    about = "Gini's coefficient of inequality"

    def check_range(self, column: Range) -> None:
        """Values that are not negative."""
        _refuse_negative(self, column)

    def limits(self, column: Range) -> Support:
        """0 where all are equal; 1 where one has all."""
        return (0.0, 1.0)

    def on(self, found: Distribution) -> Estimated | None:
        """1 - E min(X, X') / E X."""
        widths, rest = found.widths, 1.0 - found.heights
        mean = float(found.places[-1] - widths @ found.heights)
        if not mean > CLEARLY * math.sqrt(found.noise_along(-widths)):
            return None
        both = float(found.places[0] + widths @ (rest**2 - found.noise))
        return Estimated(
            1.0 - both / mean,
            widths * (2.0 * rest * mean - both) / mean**2,
            (both - 2.0 * np.append(1.0, rest) * mean) / mean**2,
        )


def _refuse_negative(asked: Statistic, column: Range) -> None:
    if not column.lower >= 0.0:
        raise InvalidParameter.refusing(
            "lower", f"must be at least 0 for {asked.name}", f"{column.lower:g}"
        )


@dataclass(frozen=True)
class WithoutTails(CurveStatistic, ABC):
    """What is done to a share ``p`` of the records at either end."""

    p: float
    columns: tuple[str | int, ...] | None = None

    @classmethod
    def parse(cls, argument: str | None, text: str) -> Statistic:
        """The share behind the colon."""
        if argument is None:
            raise unknown_statistic(text)
        return cls(checks.real("statistic", read_number(text, argument), above=0, below=0.5))

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", checks.real("p", self.p, above=0.0, below=0.5))
        super().__post_init__()

    @property
    def argument(self) -> str | None:
        """The share."""
        return repr(self.p)

    def limits(self, column: Range) -> Support:
        """The range of the column."""
        return (column.lower, column.upper)

    def between(self, found: Distribution) -> Estimated:
        """The integral of the quantiles from p to 1 - p."""
        p, widths = self.p, found.widths
        clipped = np.clip(found.heights, p, 1.0 - p)
        value = found.places[0] * (1.0 - 2.0 * p) + widths @ (1.0 - p - clipped)
        # Whether a height is between p and 1 - p is as uncertain as the height itself.
        errors = np.sqrt(np.maximum(found.variances, 1e-30))
        likely = ndtr((1.0 - p - found.heights) / errors) - ndtr((p - found.heights) / errors)
        inside = np.where((found.heights > p) & (found.heights < 1.0 - p), 1.0, likely)
        # The part of every cell's records that lies between p and 1 - p.
        masses, kept = (_rises(one) for one in (monotone(found.heights), monotone(clipped)))
        kept[0], kept[-1] = kept[0] - p, kept[-1] - p
        parts = np.divide(kept, masses, out=np.zeros_like(kept), where=masses > 0.0)
        return Estimated(float(value), -widths * inside, np.clip(parts, 0.0, 1.0))


@register
@dataclass(frozen=True)
class TrimmedMean(WithoutTails):
    """The mean of the records between the quantiles at p and at 1 - p.

    Parameters
    ----------
    p : float
        The share that is left out at either end, above 0 and below 1/2.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> TrimmedMean(0.1).written
    'trimmed-mean:0.1'
    """

    name = "trimmed-mean"
    usage = "trimmed-mean:P"
    example = "trimmed-mean:0.1"
    about = "the mean without the share P of the records at either end"

    def on(self, found: Distribution) -> Estimated | None:
        """The integral over 1 - 2 p."""
        inside, scale = self.between(found), 1.0 / (1.0 - 2.0 * self.p)
        return Estimated(scale * inside.value, scale * inside.by_height, scale * inside.by_place)


@register
@dataclass(frozen=True)
class WinsorisedMean(WithoutTails):
    """The mean after values beyond the quantiles at p and at 1 - p were moved to them.

    Parameters
    ----------
    p : float
        The share that is moved at either end, above 0 and below 1/2.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> WinsorisedMean(0.05).written
    'winsorised-mean:0.05'
    """

    name = "winsorised-mean"
    usage = "winsorised-mean:P"
    example = "winsorised-mean:0.1"
    about = "the mean after the share P at either end was moved to its quantile"

    def on(self, found: Distribution) -> Estimated | None:
        """The integral, and p times both quantiles."""
        low, high = found.quantile(self.p), found.quantile(1.0 - self.p)
        if not (low.known and high.known):
            return None
        inside = self.between(found)
        return inside._replace(
            value=inside.value + self.p * (low.value + high.value),
            beside=self.p * (low.standard_error + high.standard_error),
        )


@register
@dataclass(frozen=True)
class QuantileRatio(Statistic):
    """The quantile at ``upper`` over that at ``lower``, such as P90/P10.

    Parameters
    ----------
    upper, lower : float
        The shares, above 0 and below 1.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> QuantileRatio(0.9, 0.1).written
    'quantile-ratio:0.9/0.1'
    """

    upper: float = 0.9
    lower: float = 0.1
    columns: tuple[str | int, ...] | None = None
    name = "quantile-ratio"
    usage = "quantile-ratio:P/Q"
    example = "quantile-ratio:0.8/0.2"
    about = "the quantile at P over that at Q"
    in_domains: ClassVar[bool] = True
    for_bootstrap: ClassVar[bool] = False

    @classmethod
    def parse(cls, argument: str | None, text: str) -> Statistic:
        """Both shares; those of P90/P10 where none are given."""
        if argument is None:
            return cls()
        upper, slash, lower = argument.partition("/")
        if not slash:
            raise unknown_statistic(text)
        return cls(read_number(text, upper), read_number(text, lower))

    def __post_init__(self) -> None:
        lower = checks.real("lower", self.lower, above=0.0, below=1.0)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", checks.real("upper", self.upper, above=lower, below=1.0))
        super().__post_init__()

    @property
    def argument(self) -> str | None:
        """Both shares."""
        return f"{self.upper!r}/{self.lower!r}"

    def check_range(self, column: Range) -> None:
        """Values that are not negative."""
        _refuse_negative(self, column)

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """Two quantiles of one curve."""
        column = schema.columns[columns[0]]
        grid = grid_for(column.numeric, column.whole)
        top, bottom = (
            ReleasedQuantile(schema, columns, p, grid, f"quantile:{p:g}")
            for p in (self.upper, self.lower)
        )
        return ReleasedQuantileRatio(schema, columns, self, top, bottom)


@dataclass(frozen=True)
class ReleasedQuantileRatio(NeedsQuantiles):
    """Of two quantiles of one curve, each looked at closer in the second round."""

    statistic: QuantileRatio
    top: ReleasedQuantile
    bottom: ReleasedQuantile

    @property
    def name(self) -> str:
        """In results."""
        return f"{self.statistic.name}:{self.statistic.argument}"

    @property
    def shares(self) -> tuple[float, ...]:
        """Both."""
        return (self.top.p, self.bottom.p)

    @property
    def sums(self) -> QuantileCurve:
        """The curve of both."""
        return self.top.sums

    @property
    def support(self) -> Support:
        """Not below 1; up to the ratio of the ends of the range."""
        low, high = self.top.support
        return (1.0, high / low if low > 0.0 else math.inf)

    @property
    def two_rounds(self) -> bool:
        """As the quantiles."""
        return self.top.two_rounds

    @property
    def second_request(self) -> StatisticRequest:
        """That of the quantiles."""
        return self.top.second_request

    def second_sums(self, first: NoisySums, together: Sequence[StatisticRequest]) -> BoundedSum:
        """That of the quantiles."""
        return self.top.second_sums(first, together)

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """Of one slot."""
        yield from self._both(*(next(one.read(at)) for one in (self.top, self.bottom)))

    def read_strata(self, slots: Sequence[SlotRelease]) -> Iterator[tuple[str, Interval]]:
        """Of all strata together."""
        yield from self._both(*(next(one.read_strata(slots)) for one in (self.top, self.bottom)))

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """Of a group."""
        both = (next(one.read_domain(inside, strata)) for one in (self.top, self.bottom))
        yield from self._both(*both)

    def _both(
        self, above: tuple[str, Interval], below: tuple[str, Interval]
    ) -> Iterator[tuple[str, Interval]]:
        """By both intervals, on the logarithmic scale."""
        (_, top), (_, bottom) = above, below
        if not (top.known and bottom.known and bottom.value > 0.0):
            yield "", vacuous_interval(self.support)
            return
        value = into(top.value / bottom.value, self.support)
        # A value between two grid points stands for either of them.
        (top_low, top_high), (low, high) = (self._around(one.value) for one in (top, bottom))
        up = math.hypot(_log(top.ends[1], top_low), _log(high, bottom.ends[0]))
        down = math.hypot(_log(top_high, top.ends[0]), _log(bottom.ends[1], low))
        ends = (
            into(value * math.exp(-down), self.support),
            into(value * math.exp(up) if up < 700.0 else math.inf, self.support),
        )
        errors = [one.standard_error / one.value for one in (top, bottom)]
        share = sum(
            e**2 * one.noise_share for e, one in zip(errors, (top, bottom), strict=True)
        ) / max(sum(e**2 for e in errors), 1e-300)
        yield "", Interval(value, value * math.hypot(*errors), ends, share)

    def _around(self, value: float) -> tuple[float, float]:
        """The last grid point up to a value, and the first from it on."""
        points = np.array([*self.top.grid, self.top.support[1]])
        above = int(points.searchsorted(value))
        here = points[above] == value or above == 0
        return float(points[above if here else above - 1]), float(points[above])


def _log(above: float, below: float) -> float:
    """log(above / below), or 0 if that is negative; endless where ``below`` is 0."""
    return max(math.log(above / below), 0.0) if below > 0.0 else math.inf
