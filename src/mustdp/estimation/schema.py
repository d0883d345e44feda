"""What is public before any record is read: columns and their ranges, groups, strata, subsets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.tables import OTHER, Dimension, Groupings, labels_of
from mustdp.limits import LARGEST_SIZE
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray

# Ranges of columns.


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


# Subsets, for the bootstrap.


@dataclass(frozen=True)
class SubsetSchema:
    """What is public about the subsets that a statistic of the bootstrap is computed on.

    ``lower`` and ``upper`` are the ends of the columns' ranges. ``size`` counts the entries of a
    subset, copies included. With ``poisson`` it is the expected size, which sums are divided by,
    since the size itself is random and not public. ``repeated_pairs`` is the chance that two
    positions of a subset hold the same record.

    >>> SubsetSchema([0.0, 1.0], [10.0, 3.0], 20).ranges[1]
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

    def of(self, columns: Sequence[int]) -> SubsetSchema:
        """The same for some of the columns, by position."""
        lower, upper = ([ends[k] for k in columns] for ends in (self.lower, self.upper))
        return SubsetSchema(lower, upper, self.size, self.poisson, self.repeated_pairs)

    def fixed(self, size: int) -> SubsetSchema:
        """The same columns on subsets of exactly ``size`` entries."""
        return SubsetSchema(self.lower, self.upper, size)

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

    ``in_a_ball``: totals are sums of contributions that lie in a ball of the stated radius, so that
    not only any two of them are within twice the radius. ``one_number``: the width is one.
    """

    in_a_ball: bool
    one_number: bool = False


# What is public before any record is read: columns, groups, neighbours, and what may be unknown.
#
# *Slots.* With groups, every part of the release has one slot for each group, and a record adds its
# contribution to the slot of its own group and nothing to the others.
#
# *How far one record moves a part.* Let a part have contributions c in a set V, of *radius* R = max
# |c| and *diameter* D = max |c - c'|. What a record may add to the slots is e_g c for a group g
# and c in V, or nothing at all if its value is missing and dropped, and with weights t e_g c for t
# in [0, 1]. So, in the 2-norm,
#
# - ``add_remove``: at most R;
# - ``replace_one``, no groups, nothing dropped, no weights: at most D;
# - ``replace_one``, nothing to something, or between weights: at most max(D, R), as the set of all
#   t c lies in the convex hull of V and 0, whose diameter is attained at extreme points;
# - ``replace_one`` between two groups: sqrt(|c|^2 + |c'|^2), at most sqrt(2) R.
#
# *Clusters as units.* If neighbours differ in a whole cluster, of which at most m records are used
# (the first ones, which no other cluster decides), what a cluster adds is a sum of m such vectors,
# and all of the above is multiplied by m. How many records there are is not public then.


@dataclass(frozen=True)
class Column:
    """A column: clipped to a public range, or one of public categories (others form one more)."""

    name: str
    range: Range | None = None
    categories: tuple[str, ...] = ()
    #: For dates: the public day that they are counted from, in days.
    origin: str | None = None
    #: Whether its values are whole numbers, as is publicly known.
    whole: bool = False
    #: Grids of its quantiles that were chosen by the sizes of groups: one, or one for every slot.
    grids: tuple[tuple[float, ...], ...] = ()

    @property
    def numeric(self) -> Range:
        """The range, for a statistic that needs numbers."""
        if self.range is None:
            raise InvalidParameter(
                f"column {self.name!r} must have a range, lower and upper, for this statistic"
            )
        return self.range

    @property
    def cells(self) -> tuple[str, ...]:
        """The categories and what is none of them."""
        return (*self.categories, OTHER)


class Bounded(Protocol):
    """Contributions in a bounded set."""

    @property
    def radius(self) -> float:
        """The longest contribution."""

    @property
    def diameter(self) -> float:
        """The farthest that two contributions are apart."""


@dataclass(frozen=True)
class PublicSchema:
    """What everybody may know.

    ``n`` is the number of records where it is public; before they are counted it is not used, and
    under ``add_remove`` never. ``groups`` are the
    slots, the last of them for everybody else; empty without groups. ``dropped``: records with a
    missing value count for nothing. ``population`` is the size of what was sampled from; equal to
    the number of records where there was no sampling.
    """

    columns: tuple[Column, ...]
    relation: Relation
    n: int | None = None
    groups: tuple[str, ...] = ()
    by: str | None = None
    dropped: bool = False
    #: With weights: the largest one, a public number; larger ones are cut to it.
    largest_weight: float | None = None
    population: float = math.inf
    census: bool = False
    #: With clusters: the most records of one that count, a public number.
    largest_cluster: int | None = None
    #: Whether neighbours differ in a whole cluster.
    whole_clusters: bool = False
    #: With strata, which are the listed groups: their shares of the population.
    shares: tuple[float, ...] = ()
    #: Whether the records can be read only once, so that there is no second round.
    once: bool = False
    #: Groups of several columns, margins and totals; ``groups`` are their slots then.
    grouping: Groupings | None = None

    @property
    def counted(self) -> bool:
        """Whether the number of records behind a slot is unknown, so that it must be released."""
        return not self.public_size or bool(self.groups) or self.incomplete

    @property
    def incomplete(self) -> bool:
        """Whether a record, or a cluster of them, may count for less than another."""
        return self.dropped or self.weighted or self.whole_clusters

    @property
    def weighted(self) -> bool:
        """Whether records count with weights."""
        return self.largest_weight is not None

    @property
    def public_size(self) -> bool:
        """Whether everybody may know the number of records."""
        return self.relation == Relation.REPLACE_ONE and not self.whole_clusters

    @property
    def slots(self) -> int:
        """Number of slots of every part."""
        return max(1, len(self.groups))

    @property
    def strata(self) -> tuple[str, ...]:
        """The names of the strata, and of those in none of them; empty without strata."""
        return self.groups[self.slices[-1]] if self.shares else ()

    @property
    def slices(self) -> tuple[slice, ...]:
        """The slots of every grouping: one after the other, all of them where there is but one."""
        return (slice(0, self.slots),) if self.grouping is None else self.grouping.slices

    def of_all(self, numbers: FloatArray) -> float:
        """The sum over all slots of one grouping: the coarsest, which has the least noise."""
        return float(numbers[self.slices[-1]].sum())

    @property
    def domains(self) -> bool:
        """Whether there are groups within strata."""
        return bool(self.shares) and self.grouping is not None and self.grouping.strata

    def stratum(self, slot: int) -> int:
        """The stratum of a slot of the strata alone, which are the last ones."""
        return slot - int(self.slices[-1].start)

    @property
    def known_total(self) -> bool:
        """Whether the number of records behind all slots of a grouping is public."""
        return self.public_size and not self.incomplete

    def sensitivity(self, part: Bounded, grouped: bool = True) -> float:
        """How far one record moves a part, all slots of one grouping together; proved above.

        ``grouped``: there are several slots, as far as there are groups.
        """
        times = float(self.largest_cluster or 1) if self.whole_clusters else 1.0
        if self.relation == Relation.ADD_REMOVE:
            return times * part.radius
        found = part.diameter
        # A record in no group of a complete list is not counted, in any grouping.
        left_out = self.grouping is not None and self.grouping.leaves_out
        if self.incomplete or left_out:
            found = max(found, part.radius)
        if self.groups and grouped:
            found = max(found, math.sqrt(2.0) * part.radius)
        return times * found

    def records_meant(self, at_hand: bool = False) -> str:
        """Which records a number or a sum is meant of, in words.

        ``at_hand``: of those that are there, so that noise is all of its error.
        """
        if self.shares:
            return f"in a population of {self.population:g}"
        if self.weighted:
            return "in the population, by the weights"
        if at_hand or self.census:
            return "at hand"
        exact = self.public_size and not (self.dropped and self.largest_cluster is not None)
        several = f"{self.n} records" if exact and self.n is not None else "as many records"
        return f"among {several} drawn from the population"

    def unsampled(self, total: float, share: float = 1.0) -> float:
        """The finite-population correction 1 - n/N; 0 where all of the population is there.

        ``share`` is that of a stratum in the population, ``total`` its own number of records.
        """
        if self.census:
            return 0.0
        return max(0.0, 1.0 - max(total, 0.0) / (share * self.population))


#: Shares that were rounded to seven digits still add up to one.
_CLOSE = 1e-6


def read_shares(shares: Mapping[str, float]) -> dict[str, float]:
    """The shares of strata, which add up to one, that of the rest last."""
    found = {str(name): checks.real("stratum_shares", x, above=0) for name, x in shares.items()}
    rest = {name: found.pop(name) for name in (OTHER,) if name in found}
    if not found:
        raise InvalidParameter.refusing("stratum_shares", "must name some strata", "none")
    found |= rest
    total = math.fsum(found.values())
    if not abs(total - 1.0) <= _CLOSE:
        raise InvalidParameter.refusing(
            "stratum_shares",
            "must add up to 1; strata that are not listed are one more, with a share of its own "
            f"by the name of {OTHER!r}",
            f"a sum of {total:.9g}",
        )
    return {name: share / total for name, share in found.items()}


# From what a caller states about columns, groups and missing values to the schema of a release.


#: A bound for all columns, one for each, or one by name.
Limits = float | Sequence[float] | Mapping[str, float]
#: Ranges and weights are within this, and no narrower than one over it: fourth powers of values,
#: in the variance of a variance, and squares of those have to stay numbers.
_FARTHEST = 1e30
#: The least part and the most of the budget that finding ranges may have.
LEAST_SHARE, MOST_SHARE = 0.01, 0.5


@dataclass(frozen=True)
class Columns:
    """Columns, and what is publicly known of them; stands wherever columns can be given.

    Parameters
    ----------
    names : str or sequence of str, default=None
        The columns that are used; None means all that have a range or categories.
    categories : mapping, default=None
        Public lists of categories by column.
    dates : mapping, default=None
        Columns of dates, with a public day each from which days are counted.
    whole : str or sequence of str, default=()
        Columns of which it is public that their values are whole numbers: their quantiles are whole
        numbers, too. Without it that is read off the release, where the noise allows.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Columns("region", categories={"region": ["north", "south"]}).names
    ('region',)
    """

    names: str | Sequence[str] | None = None
    categories: Mapping[str, Sequence[str]] | None = None
    dates: Mapping[str, str] | None = None
    whole: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("names", "whole"):
            given = getattr(self, name)
            read = (given,) if isinstance(given, str) else None if given is None else tuple(given)
            object.__setattr__(self, name, read)
        for name in ("categories", "dates"):
            given = getattr(self, name)
            if not (given is None or isinstance(given, Mapping)):
                raise InvalidParameter.refusing(name, "must be given by column", repr(given))
        for name in {*(self.categories or ())} & {*(self.dates or ())}:
            allowed = "must be given for columns without categories"
            raise InvalidParameter.refusing("dates", allowed, repr(name))

    @classmethod
    def read(cls, given: str | Sequence[str] | Columns | None) -> Columns:
        """Columns as they may be given.

        Parameters
        ----------
        given : str, sequence of str or Columns
            Names alone, or with what is known of them.

        Returns
        -------
        Columns
            The same.
        """
        return given if isinstance(given, Columns) else cls(given)


@dataclass(frozen=True)
class Survey:
    """A survey's design: weights, strata and clusters, each with what is public about it.

    Parameters
    ----------
    weights : str, default=None
        A column of survey weights: means are then ratios of weighted sums (Hajek), counts and sums
        those of the population.
    largest_weight : float, default=None
        Public; larger weights are cut to it.
    strata : str, default=None
        A column of strata: estimates are put together from them, sums and tables as those of the
        ``population``.
    stratum_shares : mapping, default=None
        The strata's public shares of the population, which add up to 1. Strata that are not
        listed are one more, named "other"; without a share of its own it counts for nothing.
    cluster : str, default=None
        A column of numbers of clusters: standard errors are then those of clusters.
    largest_cluster : int, default=None
        Public; further records of a cluster are not used.
    unit : {"record", "cluster"}, default="record"
        What the guarantee protects: a record, or all records of a cluster.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Survey(cluster="household", largest_cluster=6, unit="cluster").whole_clusters
    True
    """

    weights: str | None = None
    largest_weight: float | None = None
    strata: str | None = None
    stratum_shares: Mapping[str, float] | None = None
    cluster: str | None = None
    largest_cluster: int | None = None
    unit: str = "record"

    def __post_init__(self) -> None:
        for name, what in (
            ("weights", "largest_weight"),
            ("cluster", "largest_cluster"),
            ("strata", "stratum_shares"),
        ):
            if (getattr(self, name) is None) != (getattr(self, what) is None):
                raise InvalidParameter(f"{name} and {what} must be given together")
        if self.largest_weight is not None:
            checks.real(
                "largest_weight", self.largest_weight, at_least=1.0 / _FARTHEST, at_most=_FARTHEST
            )
        if self.largest_cluster is not None:
            checks.integer("largest_cluster", self.largest_cluster, 1, 10**6)
        checks.choice("unit", self.unit, ("record", "cluster"))
        if self.whole_clusters and self.cluster is None:
            raise InvalidParameter.refusing(
                "unit", "must be record without clusters", repr(self.unit)
            )
        _ = self.shares

    @property
    def whole_clusters(self) -> bool:
        """Whether neighbours differ in a whole cluster."""
        return self.unit == "cluster"

    @cached_property
    def shares(self) -> dict[str, float]:
        """The strata's shares of the population, that of the rest last."""
        return {} if self.stratum_shares is None else read_shares(self.stratum_shares)

    def groupings(self, inside: Groupings | None) -> Groupings | None:
        """The groups of a release, within strata where there are any.

        Parameters
        ----------
        inside : Groupings or None
            Groups without the strata.

        Returns
        -------
        Groupings or None
            Every group in every stratum, and the strata alone.
        """
        if self.strata is None:
            return inside
        listed = Dimension(self.strata, tuple(name for name in self.shares if name != OTHER))
        if inside is None:
            return Groupings((listed,), ((0,),))
        if inside.consistent:
            raise InvalidParameter.refusing(
                "strata", "must not be given with consistent", self.strata
            )
        if self.strata in [one.column for one in inside.dimensions]:
            raise InvalidParameter.refusing("by", "must be another column than strata", self.strata)
        return inside.in_strata(listed)


@dataclass(frozen=True)
class Ranges:
    """What a part of the budget says about ranges: where values lie, and how many are clipped.

    Parameters
    ----------
    find : str or sequence of str, default=()
        Columns with heavy tails: within ``lower`` and ``upper``, their ranges are found on a
        logarithmic grid first. The result says which range was used, and how many values were
        clipped (``report_clipping`` is 0.05 then, unless given).
    share : float, default=0.1
        The share of the budget that finding ranges gets, from 0.01 to 0.5.
    report_clipping : float, default=None
        A share of the budget, such as 0.05, that goes into saying how many values were clipped.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Ranges(find="income").report_clipping
    0.05
    """

    find: str | Sequence[str] = ()
    share: float = 0.1
    report_clipping: float | None = None

    def __post_init__(self) -> None:
        find = (self.find,) if isinstance(self.find, str) else tuple(self.find)
        object.__setattr__(self, "find", find)
        checks.real("share", self.share, at_least=LEAST_SHARE, at_most=MOST_SHARE)
        if self.report_clipping is not None:
            checks.real("report_clipping", self.report_clipping, above=0, below=1)
        elif find:
            object.__setattr__(self, "report_clipping", 0.05)


def read_schema(
    columns: Columns,
    names: Sequence[str],
    *,
    lower: Limits | None,
    upper: Limits | None,
    grouping: Groupings | None = None,
    survey: Survey,
    dropped: bool,
    relation: Relation,
    population: int | str | None,
    once: bool = False,
) -> PublicSchema:
    """The schema of a release, before the number of records is known.

    ``names`` are the columns' names, or all that there are; of these, columns with a range or with
    categories are meant.
    """
    listed, days = dict(columns.categories or {}), dict(columns.dates or {})
    ranges = read_ranges([name for name in names if name not in listed], lower, upper)
    whole_numbers = _whole_columns(columns.whole, ranges)
    found = [
        Column(name, categories=labels_of(f"categories of {name}", listed[name]))
        if name in listed
        else Column(name, ranges.get(name), origin=days.get(name), whole=name in whole_numbers)
        for name in names
        if columns.names is not None or name in listed or name in ranges
    ]
    census = population == "census"
    if population is not None and not census:
        population = checks.integer("population", population, 1)
    return PublicSchema(
        tuple(found),
        relation,
        groups=() if grouping is None else grouping.labels,
        by=None if grouping is None else grouping.by,
        dropped=dropped,
        largest_weight=None if survey.largest_weight is None else float(survey.largest_weight),
        population=float(population) if isinstance(population, int) else math.inf,
        census=census,
        largest_cluster=survey.largest_cluster,
        whole_clusters=survey.whole_clusters,
        shares=tuple(survey.shares.values()),
        once=once,
        grouping=grouping,
    )


def _whole_columns(names: Sequence[str], ranges: Mapping[str, Range]) -> frozenset[str]:
    """The columns of whole numbers, whose ranges end at some."""
    for name in names:
        own = ranges.get(name)
        if own is None or not (own.lower.is_integer() and own.upper.is_integer()):
            raise InvalidParameter.refusing(
                "whole",
                "must name columns that have ranges, from a whole number to another",
                repr(name),
            )
    return frozenset(names)


def check_limits(lower: Limits, upper: Limits) -> None:
    """Refuse limits that are wrong whatever the columns are."""
    for name, limit in (("lower", lower), ("upper", upper)):
        values = limit.values() if isinstance(limit, Mapping) else np.atleast_1d(limit)
        for value in values:
            checks.real(name, value, at_least=-_FARTHEST, at_most=_FARTHEST)
    if isinstance(lower, int | float) and isinstance(upper, int | float) and not lower < upper:
        raise InvalidParameter.refusing(
            "lower", "must be below {upper}", f"{lower!r} and {upper!r}", mentions=("upper",)
        )


def read_ranges(
    names: Sequence[str], lower: Limits | None, upper: Limits | None
) -> dict[str, Range]:
    """The ranges of columns by name, in order and of a width that arithmetic can bear."""
    if lower is None and upper is None:
        return {}
    if lower is None or upper is None:
        raise InvalidParameter("lower and upper must be given together")
    low, high = _by_name("lower", lower, names), _by_name("upper", upper, names)
    if set(low) != set(high):
        raise InvalidParameter("lower and upper must be given for the same columns")
    for name in low:
        if not low[name] < high[name]:
            raise InvalidParameter.refusing(
                "lower",
                f"must be below {{upper}} for column {name!r}",
                f"{low[name]!r} and {high[name]!r}",
                mentions=("upper",),
            )
        for end, value in (("lower", low[name]), ("upper", high[name])):
            checks.real(end, value, at_least=-_FARTHEST, at_most=_FARTHEST)
        if not high[name] - low[name] >= 1.0 / _FARTHEST:
            raise InvalidParameter.refusing(
                "lower",
                f"and {{upper}} must be apart by at least {1.0 / _FARTHEST:g} for column {name!r}",
                f"{low[name]!r} and {high[name]!r}",
                mentions=("upper",),
            )
    return {name: Range(low[name], high[name]) for name in low}


def _by_name(name: str, given: Limits, columns: Sequence[str]) -> dict[str, float]:
    if isinstance(given, Mapping):
        unknown = [column for column in given if column not in columns]
        if unknown:
            raise InvalidParameter.refusing(
                name, f"must be given for columns among {', '.join(columns)}", repr(unknown[0])
            )
        return {column: checks.real(name, value) for column, value in given.items()}
    values = checks.reals(name, np.atleast_1d(np.asarray(given, dtype=np.float64)))
    if values.size not in (1, len(columns)):
        raise InvalidParameter.refusing(
            name, f"must be one number or one for each of the {len(columns)} columns", values.size
        )
    spread = np.broadcast_to(values, len(columns))
    return {column: float(value) for column, value in zip(columns, spread, strict=True)}
