"""What a statistic releases about a subset, and how far one copy of a record can move it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from scipy.special import stdtrit

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import Cost, check_cost

# What is public before any record is read: the columns' ranges and the size of the subsets.


#: Widths of ranges whose squares, and those divided by any size, are numbers of full precision.
_NARROWEST, _WIDEST = 1e-100, 1e100


@dataclass(frozen=True)
class Range:
    """The interval ``[lower, upper]`` that a column is clipped to."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise InvalidParameter(
                f"lower must be below upper in every column, got lower={self.lower!r} "
                f"and upper={self.upper!r}"
            )
        if not (_NARROWEST <= self.width <= _WIDEST and self.lower < self.mid < self.upper):
            raise InvalidParameter.refusing(
                "lower",
                f"and {{upper}} must be apart by {_NARROWEST:g} to {_WIDEST:g}, with numbers "
                "between them",
                f"lower={self.lower!r} and upper={self.upper!r}",
                mentions=("upper",),
            )

    @property
    def width(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    @property
    def mid(self) -> float:
        """The midpoint, as far as double precision can tell."""
        return self.lower + 0.5 * self.width

    @property
    def half(self) -> float:
        """The farthest that a value can be from ``mid``: half of the width, and never less."""
        return max(self.upper - self.mid, self.mid - self.lower)


@dataclass(frozen=True)
class Public:
    """What everybody may know about the subsets that a statistic is computed on.

    ``lower`` and ``upper`` are the ends of the columns' ranges. ``size`` counts the entries of a
    subset, copies included. With ``poisson`` it is the expected size, which sums are divided by,
    since the size itself is random and not public. ``repeated_pairs`` is the chance that two
    positions of a subset hold the same record.

    >>> Public([0.0, 1.0], [10.0, 3.0], 20).ranges[1]
    Range(lower=1.0, upper=3.0)
    """

    lower: Sequence[float]
    upper: Sequence[float]
    size: float
    poisson: bool = False
    repeated_pairs: float = 0.0
    ranges: tuple[Range, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lows = tuple(checks.reals("lower", self.lower).tolist())
        highs = tuple(checks.reals("upper", self.upper).tolist())
        if len(lows) != len(highs):
            raise InvalidParameter(
                f"upper must have one entry for each of the {len(lows)} entries of lower, "
                f"got {len(highs)}"
            )
        if not isinstance(self.poisson, bool):
            raise InvalidParameter(f"poisson must be True or False, got {self.poisson!r}")
        checks.real("repeated_pairs", self.repeated_pairs, at_least=0.0, at_most=1.0)
        setting = {
            "lower": lows,
            "upper": highs,
            "size": _expected(self.size) if self.poisson else _whole(self.size),
            "ranges": tuple(Range(low, high) for low, high in zip(lows, highs, strict=True)),
        }
        for name, value in setting.items():
            object.__setattr__(self, name, value)

    def of(self, columns: Sequence[int]) -> Public:
        """The same for some of the columns, by position."""
        lower, upper = ([ends[k] for k in columns] for ends in (self.lower, self.upper))
        return Public(lower, upper, self.size, self.poisson, self.repeated_pairs)

    def fixed(self, size: int) -> Public:
        """The same columns on subsets of exactly ``size`` entries."""
        return Public(self.lower, self.upper, size)

    def refuse_below(self, entries: int) -> None:
        """Refuse subsets of a fixed size with fewer entries than a statistic needs."""
        if not self.poisson:
            _whole(self.size, entries)

    def check_size(self, counts: IntArray) -> None:
        """Refuse a multiset of another size than the one that the bounds were proved for."""
        if self.poisson:
            return
        entries = np.add.reduce(counts)
        if entries != self.size:
            raise InvalidParameter(f"counts must add up to size={self.size}, got {int(entries)}")


def _whole(size: float, least: int = 1) -> int:
    number = checks.real("size", size)
    if not (number == math.floor(number) and least <= number <= LARGEST_SIZE):
        raise InvalidParameter(
            f"size must be a whole number from {least} to {LARGEST_SIZE}, got {size!r}"
        )
    return int(number)


def _expected(size: float) -> float:
    return checks.real("size", size, above=0.0, at_most=LARGEST_SIZE)


@dataclass(frozen=True)
class Shape:
    """What a statistic knows of its totals before any column is: the accountant builds on it.

    ``in_a_ball``: totals are sums of contributions that lie in a ball of the reach, so that not
    only any two of them are within twice the reach. ``one_number``: the width is one.
    """

    in_a_ball: bool
    one_number: bool = False


# An estimate with its error and its interval, cut to what is possible.
#
# The error has two parts: what the data and the resampling cause, and what the noise causes. The
# precision with which the first is known gives degrees of freedom (Satterthwaite 1946), and the
# interval takes the quantile of t. Where the noise hides the first, a limit that it stays below
# with a chance of 95 % stands in its place, so that the error errs on the safe side.
#
# *Rare values.* A variance S^2 of influences that are at most d in size is known from k records
# with a variance of at most d^2 S^2 / k, as their fourth moment is at most d^2 S^2; yes and no
# attain it. Where few records differ this is far more than the 2 S^4 / k of normal influences. If
# S^2 itself is below that error, fewer than about one record in k differs as far as it may, and
# the limit is the largest S^2 that does not exceed what was found by more than 1.645 such errors,
# as Wilson's (1927).


#: A noisy variance is divided by if it is above so many of its standard errors.
CLEARLY = 3.0
#: One-sided normal quantile of the limit that takes the place of a hidden variance.
_UPPER = 1.645
#: What an estimate says that divides by a variance which the noise hides.
UNCLEAR = (
    "the noise hides a variance that is divided by: the interval is all that is possible; a "
    "larger epsilon or narrower bounds would help"
)
#: What one says whose variance rests on hardly any record.
RARE = (
    "so few of the records drawn differ that their variance is hardly known, and an upper limit of "
    "it is in the standard error; more or larger subsets, or one release on all records would help"
)
#: What a quantile says of which nothing but the range is known.
ANYWHERE = "what was released leaves open where it is: the interval is all that is possible"
#: And one that the noise has driven out of what can be.
IMPOSSIBLE = "the noise made the value impossible: the interval is all that is possible"


@dataclass(frozen=True)
class Spread:
    """Variance of an average of noisy replicates around the truth, and what it consists of."""

    sampling: float  # of the data and of the subsets
    noise: float
    degrees_of_freedom: float = math.inf
    noise_dominated: bool = False

    @property
    def variance(self) -> float:
        """The whole variance."""
        return self.sampling + self.noise

    @property
    def noise_share(self) -> float:
        """The part of the variance that the added noise causes."""
        return self.noise / self.variance if self.variance > 0 else 0.0

    def quantile(self, level: float) -> float:
        """The two-sided t quantile for the precision of the standard error."""
        freedom = min(max(self.degrees_of_freedom, 1.0), 1e9)
        return float(stdtrit(freedom, 0.5 + 0.5 * level))


@dataclass(frozen=True)
class Reading:
    """A value, its standard error and its interval."""

    value: float
    standard_error: float
    interval: tuple[float, float]
    spread: Spread
    flags: tuple[str, ...] = ()


def known(
    influence: float, error: float, most: float, factor: float, noise: float, largest: float
) -> Spread:
    """The spread where S^2, at most ``most``, was itself released, with a known error.

    ``factor`` is what S^2 is multiplied by in the variance of the average, ``largest`` the largest
    influence that is possible.
    """
    rare = rare_error(influence, largest, factor)
    if influence < math.hypot(error, rare):
        upper = max(influence, 0.0) + _UPPER * error
        upper = min(max(upper, rare_limit(influence, largest, factor)), max(most, 0.0))
        return Spread(upper * factor, noise, noise_dominated=True)
    total, doubt = influence * factor + noise, math.hypot(error, rare) * factor
    freedom = 2.0 * (total / doubt) ** 2 if doubt > 0 else math.inf
    return Spread(max(influence, 0.0) * factor, noise, freedom)


def rare_error(influence: float, largest: float, factor: float) -> float:
    """The error of S^2 that influences up to ``largest`` can cause, over ``1 / factor`` records."""
    return largest * math.sqrt(max(influence, 0.0) * factor)


def rare_limit(influence: float, largest: float, factor: float) -> float:
    """The largest S^2 that is not above ``influence`` by more than 1.645 of its errors."""
    step = _UPPER * largest * math.sqrt(factor)
    return (0.5 * (step + math.sqrt(step**2 + 4.0 * max(influence, 0.0)))) ** 2


def symmetric(value: float, spread: Spread, level: float, possible: tuple[float, float]) -> Reading:
    """value +- quantile * error, cut to what is possible."""
    error = math.sqrt(spread.variance)
    reach = spread.quantile(level) * error
    low, high = value - reach, value + reach
    # A few rounding errors are no impossibility.
    slack = 1e-9 * max(abs(value), error, 1e-300)
    if not possible[0] <= high + slack or not low - slack <= possible[1]:
        return everything(possible, spread, IMPOSSIBLE)
    # Around the nearest end where the value is outside: no interval shrinks to a point.
    inside = into(value, possible)
    ends = (into(inside - reach, possible), into(inside + reach, possible))
    return Reading(inside, error, ends, spread)


def everything(possible: tuple[float, float], spread: Spread, flag: str) -> Reading:
    """What is left where the noise says nothing: all that is possible, and no estimate."""
    low, high = possible
    if not math.isfinite(high - low):
        raise NumericalFailure(f"nothing is known about an estimate that can be {low} to {high}")
    return Reading(math.nan, math.nan, possible, spread, (flag,))


def into(value: float, possible: tuple[float, float]) -> float:
    """The nearest number that is possible."""
    return min(max(value, possible[0]), possible[1])


# What a statistic asks of one subset, and how far one copy of a record can move the answer.
#
# A *query* turns a weighted multiset of records into a *total*, to which noise is added, and a
# total into the vector that is released:
#
#     vector = total / divisor + shift,      divisor and shift public.
#
# Where it can be, the total is a sum of *contributions*, one row of numbers for each copy of a
# record, measured from the middle of what they can be (:class:`LinearQuery`). Division and shift
# come after the noise, so that nothing public is rounded together with what is secret. Everything
# after that (``estimate``) only reads the noisy vector and costs no privacy.
#
# The vector is cut into *blocks*, each with a bound on what one copy contributes:
#
# - on multisets of a fixed size, swapping one copy moves a block by at most ``2 * reach`` (L2
#   norm);
# - on Poisson subsets, one copy more or less moves a block by at most ``reach``, and swapping one
#   by at most ``2 * reach``.
#
# So a block with noise of standard deviation ``z * reach`` has noise multiplier z in the sense of
# the accountant, whatever the scheme. On the total, both are ``divisor`` times as large. The
# bounds are proved in the docstring of every statistic.


#: Numbers of contributions that are held at a time: as many as are fast to get at.
_AT_ONCE = 2**17
#: How often every row is in each of two halves of a multiset.
Halves = tuple[IntArray, IntArray] | None


@dataclass(frozen=True)
class Block:
    """Neighbouring coordinates that share one noise scale, and how they are read off the total."""

    label: str
    width: int
    reach: float
    divisor: float = field(default=1.0, repr=False)
    shift: float = field(default=0.0, repr=False)

    @property
    def reach_of_total(self) -> float:
        """The reach in units of the total, rounded up: no rounding on the way makes it too small.

        A reach is made of a few roots, products and quotients, each right to 2^-53 of itself.
        """
        return self.reach * self.divisor * (1.0 + 2.0**-48)


@dataclass(frozen=True, eq=False)
class Averaged:
    """The average of all released vectors, and what is public about its error.

    ``noise`` are the variances of its noise. The variance of a record's influence, times
    ``factor``, is what sampling and resampling add.
    """

    vector: FloatArray
    noise: FloatArray
    factor: float

    def part(self, own: slice) -> Averaged:
        """The same for some coordinates."""
        return Averaged(self.vector[own], self.noise[own], self.factor)


class Query(ABC):
    """A statistic bound to what is public about the subsets; picklable."""

    #: The blocks in the order of the coordinates.
    blocks: tuple[Block, ...]
    #: Names of the estimates, in the order of ``estimate``.
    labels: tuple[str, ...]

    @cached_property
    def width(self) -> int:
        """Number of coordinates released for one subset."""
        return sum(block.width for block in self.blocks)

    @property
    def reader(self) -> Query:
        """Who reads what was released; mostly the query itself."""
        return self

    @property
    def paired(self) -> tuple[bool, ...]:
        """For each coordinate, whether it is an average over pairs of *different positions*.

        Two positions of a multiset may hold the same record; such pairs count as zero, so that an
        average over pairs (a sample variance, a covariance) comes out too small by the chance of
        that. The design knows the chance and divides it out.
        """
        return (False,) * self.width

    @cached_property
    def divisors(self) -> FloatArray:
        """What every coordinate of the total is divided by, after the noise."""
        return np.concatenate([np.full(block.width, block.divisor) for block in self.blocks])

    @cached_property
    def shifts(self) -> FloatArray:
        """What is added to every coordinate then."""
        return np.concatenate([np.full(block.width, block.shift) for block in self.blocks])

    @abstractmethod
    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """What noise is added to: ``values`` (distinct, columns), already clipped, and counts.

        A query that is ``halved`` needs the counts of two random halves of the multiset, too.
        """

    @property
    def halved(self) -> bool:
        """Whether the total is made from two random halves of the subset as well."""
        return False

    def restored(self, totals: FloatArray) -> FloatArray:
        """The released vectors ``(..., width)`` behind totals, noisy or not."""
        return np.asarray(totals / self.divisors + self.shifts)

    def evaluate(self, values: FloatArray, counts: IntArray) -> FloatArray:
        """The vector of one subset without noise."""
        return self.restored(self.total(values, counts))

    @abstractmethod
    def estimate(self, vectors: FloatArray) -> FloatArray:
        """Turn released vectors ``(..., width)`` into estimates ``(..., len(labels))``."""

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """What each estimate can be; intervals are cut to it."""
        return ((-np.inf, np.inf),) * len(self.labels)

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """What is differentiated: the estimates, or what they are read off, without any clipping.

        Defined near released vectors; NaN where there is nothing to differentiate.
        """
        return self.estimate(vectors)

    def divided_by(self, vectors: FloatArray) -> FloatArray:
        """Variances ``(..., any number)`` that the estimates divide by."""
        return np.empty((*vectors.shape[:-1], 0))

    def behind(self, place: int) -> tuple[Query, slice, int]:
        """The query that an estimate belongs to, its coordinates, and the estimate's place."""
        return self, slice(0, self.width), place

    def largest(self, vector: FloatArray) -> float:
        """The largest influence of a record on what is differentiated; 0 where none is known."""
        return 0.0

    def read(self, place: int, value: float, spread: Spread, level: float) -> Reading:
        """One estimate from its ``smooth`` value and the spread of that."""
        return symmetric(value, spread, level, self.possible[place])

    def known(self, at: Averaged, level: float) -> tuple[Reading | None, ...]:
        """Estimates whose sampling error follows from what was released, without replicates."""
        return (None,) * len(self.labels)

    def cautions(self, at: Averaged, grouped: FloatArray) -> tuple[str, ...]:
        """What a reader has to know, given the average and the groups' means of the vectors."""
        return ()


class LinearQuery(Query):
    """A query whose total is the sum of what every copy of a record contributes, added exactly."""

    public: Public

    @property
    def within_reach(self) -> bool:
        """Whether the reaches bound every contribution itself, not only the distance of two.

        If so, with c_b the part of a contribution that belongs to block b, ``sum_b (|c_b| /
        reach_of_total_b)^2 <= 1``, and contributions may be shortened towards zero, in every
        coordinate as one likes, without a second thought. If not, rounding them to multiples of g
        can move two of them farther apart, by g in every coordinate, and a reach on the total has
        to grow by ``g * sqrt(width) / 2``.
        """
        return True

    @abstractmethod
    def contributions(self, values: FloatArray) -> FloatArray:
        """What one copy of each row of ``values`` adds to the total: ``(rows, width)``, centred.

        A row of the result depends on its record and on what is public, on nothing else.
        """

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The sum over all copies; a multiset of another size than the public one is refused."""
        self.public.check_size(counts)
        at_once = max(1, _AT_ONCE // self.width)
        found: FloatArray = counts[:at_once] @ self.contributions(values[:at_once])
        for start in range(at_once, len(values), at_once):
            rows = slice(start, start + at_once)
            found += counts[rows] @ self.contributions(values[rows])
        return found

    def steps(self, values: FloatArray, counts: IntArray, per_step: FloatArray) -> FloatArray:
        """The sum of the contributions, each cut towards zero to whole steps; an exact integer.

        ``per_step`` are powers of two, one for each coordinate: multiplying by them rounds nothing.
        """
        self.public.check_size(counts)
        at_once = max(1, _AT_ONCE // self.width)
        found = np.zeros(self.width)
        for start in range(0, len(values), at_once):
            rows = slice(start, start + at_once)
            whole = self.contributions(values[rows]) * per_step
            found += counts[rows] @ np.trunc(whole, out=whole)
        return found


# What is asked for, before the ranges of the columns and the subsets' size are known.


class Statistic(ABC):
    """What is asked for, before the ranges of the columns and the subsets' size are known.

    Attributes
    ----------
    name : str
        Name on the command line.
    columns : tuple or None
        Columns it reads, by name or position; None for all that are given.
    fewest : int
        How many columns it takes at least.
    most : int or None
        How many columns it takes at most; None for no limit.
    """

    name: str
    columns: tuple[str | int, ...] | None
    fewest = 1
    most: int | None = 1

    def __post_init__(self) -> None:
        if self.columns is None:
            return
        given = self.columns
        named = (given,) if isinstance(given, str | int) else tuple(given)
        for column in named:
            if isinstance(column, bool) or not isinstance(column, str | int):
                raise InvalidParameter(
                    f"columns must be names or positions of columns, got {column!r}"
                )
        if len(set(named)) != len(named):
            raise InvalidParameter(f"columns must differ from each other, got {named!r}")
        self.check_columns(len(named))
        object.__setattr__(self, "columns", named)

    def check_columns(self, count: int) -> None:
        """Refuse a number of columns that the statistic cannot take.

        Parameters
        ----------
        count : int
            The number of columns.
        """
        if count >= self.fewest and (self.most is None or count <= self.most):
            return
        if self.most == self.fewest:
            allowed = f"{self.fewest} column{'s' if self.fewest > 1 else ''}"
        else:
            allowed = f"at least {self.fewest} columns" + (
                f" and at most {self.most}" if self.most is not None else ""
            )
        raise InvalidParameter.refusing("columns", f"of {self.name} must be {allowed}", count)

    def query(self, public: Public) -> Query:
        """What is asked of subsets about which something is known.

        Parameters
        ----------
        public : Public
            The ranges of the columns and the size of the subsets.

        Returns
        -------
        Query
            The statistic with a bound on how far one record moves it, ready to be released.
        """
        self.check_columns(len(public.ranges))
        return self._on(public)

    def labelled(self, query: Query, names: Sequence[str]) -> Query:
        """The query with the columns' names in its labels, where it has something to tell apart.

        Parameters
        ----------
        query : Query
            One of this statistic.
        names : sequence of str
            The columns' names.

        Returns
        -------
        Query
            The same with other labels.
        """
        return query

    def described(self, label: str, columns: Sequence[str]) -> str:
        """What an estimate is one of, in words.

        Parameters
        ----------
        label : str
            The label of the estimate.
        columns : sequence of str
            The columns, with their ranges.

        Returns
        -------
        str
            For tables and reports.
        """
        return f"{label} of {' and '.join(columns)}"

    def shape(self, poisson: bool) -> Shape:
        """What is known of the query before the columns are.

        Parameters
        ----------
        poisson : bool
            Whether it is asked of Poisson subsets, or of those of a fixed size.

        Returns
        -------
        Shape
            Whether contributions lie in a ball, and whether it is one number.
        """
        return Shape(in_a_ball=poisson)  # there, one copy more or less moves it by the reach

    @abstractmethod
    def _on(self, public: Public) -> Query:
        """The query, on a number of columns that has been accepted."""


# Several blocks in one release: how far the noise of each must be raised so that z stays z.
#
# The contract of a block is that noise of standard deviation ``z * reach`` gives noise multiplier
# z. It must hold for the *whole* vector. Let swapping one copy move block b by c_b, with ``c_b <= 2
# * own_b`` for its own bound own_b, and let the noise on it be ``z * reach_b``. Measured in units
# of the noise, the vector moves by ``sqrt(sum_b (c_b / (z * reach_b))^2)``, and the shift of noise
# multiplier z is 2/z. So what is needed is
#
#     sum_b (c_b / (2 * reach_b))^2 <= 1      whatever is swapped.                             (*)
#
# *Shares.* With shares w_b > 0, ``sum_b w_b^2 <= 1``, and ``reach_b = own_b / w_b``, the sum in (*)
# is at most ``sum_b (own_b / reach_b)^2 = sum_b w_b^2 <= 1``. For Poisson subsets, one copy more or
# less moves block b by at most own_b, the shift is 1/z, and the same two lines hold without the
# factors 2.
#
# A query may also prove (*) directly, when its blocks cannot all move farthest at once
# (``moments.py``). Parts that satisfy (*) each can be shared once more: dividing every reach of
# part i by w_i multiplies part i's sum by w_i^2 <= 1.


#: Bytes for every coordinate of a release (places, lattice, noise, matrices), and for its totals,
#: with and without noise, on every subset.
_PER_COORDINATE, _PER_TOTAL = 160, 32


def block(label: str, width: int, reach: float, divisor: float = 1.0, shift: float = 0.0) -> Block:
    """A block whose reach is a positive number; what over- or underflowed is refused."""
    if not 0.0 < reach < math.inf:
        raise NumericalFailure(f"the reach of {label} came out as {reach!r}")
    return Block(label, width, reach, divisor, shift)


def enlarged(one: Block, share: float) -> Block:
    """The block with its reach divided by ``share`` (w_b above), a number in (0, 1]."""
    return block(one.label, one.width, one.reach / share, one.divisor, one.shift)


def shares(name: str, weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    """Shares w_i with ``sum w_i^2 = 1``, proportional to ``weights``; equal ones for None."""
    if weights is None:
        return (1.0 / math.sqrt(count),) * count
    given = checks.reals(name, weights, at_least=0.0)
    if given.size != count:
        raise InvalidParameter(f"{name} must have {count} entries, got {given.size}")
    largest = float(given.max())
    if not given.min() > 0.0:
        raise InvalidParameter(f"{name} must be numbers > 0, got {float(given.min())!r}")
    scaled = given / largest
    found = scaled / math.sqrt(float(scaled @ scaled))
    if not found.min() > 1e-9:
        raise InvalidParameter(
            f"{name} must not differ by more than a factor of about 1e9, got {weights!r}"
        )
    return tuple(float(share) for share in found)


def check_held(argument: str, width: int, releases: int) -> None:
    """Refuse ``releases`` vectors of ``width`` coordinates that do not fit into memory."""
    size = float(width) * (_PER_COORDINATE + _PER_TOTAL * float(releases))
    check_cost(argument, f"a release of {releases} x {width} numbers", Cost(bytes=size))


# Several queries in one release: their coordinates side by side, one budget for all.


@dataclass(frozen=True)
class Joint(Query):
    """Queries that are answered together on every subset.

    ``picks[i]`` are the columns of the value matrix that query i reads, in its own order.
    ``shares`` are proportional to w_i, normalised to ``sum w_i^2 = 1``; equal ones for None.
    ``names``, if given, are put before the labels of each query.

    *Reach.* Every query satisfies (*) of ``sharing.py`` by itself: with c_b what swapping one
    copy does to block b, ``sum over its blocks of (c_b / (2 reach_b))^2 <= 1``. All reaches of
    query i are divided by w_i, which multiplies its sum by w_i^2. Over all queries the sum is at
    most ``sum_i w_i^2 = 1``: noise ``z * reach`` on every block gives noise multiplier z for the
    whole vector. The same holds for one copy more or less on Poisson subsets, without the 2.

    All queries must be bound to the same subsets: their size, and fixed or Poisson.
    """

    queries: tuple[Query, ...]
    picks: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...] | None = None
    names: tuple[str, ...] | None = None
    blocks: tuple[Block, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)
    _readers: tuple[Query, ...] = field(init=False, repr=False, compare=False)
    _columns: tuple[slice | list[int], ...] = field(init=False, repr=False, compare=False)
    _parts: tuple[slice, ...] = field(init=False, repr=False, compare=False)
    _paired: tuple[bool, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        queries = tuple(self.queries)
        if not queries or not all(isinstance(query, Query) for query in queries):
            raise InvalidParameter(f"queries must be a non-empty list of queries, got {queries!r}")
        picks = _positions(self.picks, len(queries))
        found = shares("shares", self.shares, len(queries))
        names = None if self.names is None else tuple(self.names)
        if names is not None and len(names) != len(queries):
            raise InvalidParameter(f"names must have {len(queries)} entries, got {len(names)}")
        before = [""] * len(queries) if names is None else [f"{name} " for name in names]
        readers = tuple(query.reader for query in queries)
        setting = {
            "queries": queries,
            "picks": picks,
            "shares": found,
            "names": names,
            "blocks": tuple(
                enlarged(replace(one, label=first + one.label), share)
                for query, share, first in zip(queries, found, before, strict=True)
                for one in query.blocks
            ),
            "labels": tuple(
                first + label
                for query, first in zip(queries, before, strict=True)
                for label in query.labels
            ),
            "_readers": readers,
            "_columns": tuple(_selection(pick) for pick in picks),
            "_parts": _runs(query.width for query in queries),
            "_paired": tuple(flag for query in readers for flag in query.paired),
        }
        for name, value in setting.items():
            object.__setattr__(self, name, value)

    @property
    def paired(self) -> tuple[bool, ...]:
        """The flags of the queries, side by side."""
        return self._paired

    @property
    def linear(self) -> bool:
        """Whether the totals of all queries are sums over copies of records."""
        return all(isinstance(query, LinearQuery) for query in self.queries)

    def apart(self, values: FloatArray) -> Iterator[tuple[Query, FloatArray]]:
        """Every query with the columns that it reads."""
        for query, columns in zip(self.queries, self._columns, strict=True):
            yield query, values[:, columns]

    def total(self, values: FloatArray, counts: IntArray, halves: Halves = None) -> FloatArray:
        """The totals of the queries, side by side."""
        return np.concatenate(
            [query.total(own, counts, halves) for query, own in self.apart(values)]
        )

    @property
    def halved(self) -> bool:
        """Whether any query is."""
        return any(query.halved for query in self.queries)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The estimates of the queries, side by side."""
        return np.concatenate([query.estimate(own) for query, own in self._cut(vectors)], axis=-1)

    def smooth(self, vectors: FloatArray) -> FloatArray:
        """Of the queries, side by side."""
        return np.concatenate([query.smooth(own) for query, own in self._cut(vectors)], axis=-1)

    def _cut(self, vectors: FloatArray) -> Iterator[tuple[Query, FloatArray]]:
        """Every query with its own coordinates of released vectors."""
        for query, part in zip(self._readers, self._parts, strict=True):
            yield query, vectors[..., part]

    def behind(self, place: int) -> tuple[Query, slice, int]:
        """The query that an estimate belongs to, its coordinates, and the estimate's place."""
        estimates = _runs(len(query.labels) for query in self.queries)
        for query, part, own in zip(self._readers, self._parts, estimates, strict=True):
            if place < own.stop:
                found, inside, at = query.behind(place - own.start)
                return found, slice(part.start + inside.start, part.start + inside.stop), at
        raise InvalidParameter(f"place must be below {len(self.labels)}, got {place!r}")

    def known(self, at: Averaged, level: float) -> tuple[Reading | None, ...]:
        """Of the queries, side by side."""
        return tuple(
            reading
            for query, part in zip(self._readers, self._parts, strict=True)
            for reading in query.known(at.part(part), level)
        )

    def cautions(self, at: Averaged, grouped: FloatArray) -> tuple[str, ...]:
        """The cautions of all queries, named where the queries are."""
        names = self.names or ("",) * len(self.queries)
        return tuple(
            f"{name} {caution}".strip()
            for query, part, name in zip(self.queries, self._parts, names, strict=True)
            for caution in query.cautions(at.part(part), grouped[:, part])
        )


def _runs(lengths: Iterable[int]) -> tuple[slice, ...]:
    """Places of these numbers, one run after the other."""
    return tuple(slice(*ends) for ends in pairwise(accumulate(lengths, initial=0)))


def _positions(picks: Sequence[Sequence[int]], count: int) -> tuple[tuple[int, ...], ...]:
    found = tuple(tuple(checks.integer("picks", one, 0) for one in pick) for pick in picks)
    if len(found) != count or not all(found):
        raise InvalidParameter(
            f"picks must have one non-empty list of columns for each of the {count} queries, "
            f"got {picks!r}"
        )
    return found


def _selection(pick: tuple[int, ...]) -> slice | list[int]:
    """A slice where the columns are neighbours in order (no copy), else the list of them."""
    if pick == tuple(range(pick[0], pick[0] + len(pick))):
        return slice(pick[0], pick[0] + len(pick))
    return list(pick)
