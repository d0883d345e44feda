"""What a statistic is: its name, what it asks of records or of subsets, and how it is read off.

Every statistic is one class, decorated with :func:`register`. The class says how it is written
(``usage``), what it takes, and binds itself to what is public: :meth:`Statistic.requests` for one
release on all records, :meth:`Statistic.query` for random subsets. Command line, refusals, plans,
pages, documents and the conformance test take their lists from here. All modules of this folder
are loaded when the first list is asked for, so that a new file needs no entry anywhere.
"""

from __future__ import annotations

import importlib
import itertools
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, TypeVar

from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import BoundedSum, NoiseCovariance, NoisySums, Query
from mustdp.estimation.result import (
    CLEARLY,
    UNBOUNDED,
    Interval,
    ReleasedEstimate,
    Spread,
    Support,
    over_strata,
    released_estimate,
    released_spread,
)
from mustdp.estimation.schema import Column, PublicSchema, Range, Shape, SubsetSchema
from mustdp.estimation.tables import OTHER, TOTAL
from mustdp.numerics import checks

# What a user asks for, before the columns' ranges are known.


class Statistic(ABC):
    """What is asked for, before the ranges of the columns and the number of records are known.

    Attributes
    ----------
    name : str
        Name on the command line.
    usage : str or None
        How it is written there, such as ``quantile:P``; empty for the name alone, None where it
        cannot be written.
    about : str
        What is estimated, for the table of statistics in the documentation.
    example : str
        One that can be asked of columns from 0 to 1, for the conformance test; empty for the name.
        Where ``positive``, of columns from 0.5 to 1.5.
    columns : tuple or None
        Columns it reads, by name or position; None for all that are given.
    fewest : int
        How many columns it takes at least.
    most : int or None
        How many columns it takes at most; None for no limit.
    for_release : bool
        Whether there is a formula for its error in one release on all records.
    for_bootstrap : bool
        Whether it can be computed on random subsets.
    """

    name: str
    usage: ClassVar[str | None] = ""
    about: ClassVar[str] = ""
    example: ClassVar[str] = ""
    columns: tuple[str | int, ...] | None
    fewest = 1
    most: int | None = 1
    for_release: ClassVar[bool] = True
    for_bootstrap: ClassVar[bool] = True
    #: Whether its columns must be numbers, and whether it is a total rather than an average.
    numeric: ClassVar[bool] = True
    is_total: ClassVar[bool] = False
    #: Whether there are errors for groups within strata.
    in_domains: ClassVar[bool] = False
    #: Whether the lower end of every range must be above 0; others are refused for both runners.
    positive: ClassVar[bool] = False

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
        if len(named) < self.fewest:  # with more it is asked of each, or of each pair
            self.check_columns(len(named))
        object.__setattr__(self, "columns", named)

    @classmethod
    def parse(cls, argument: str | None, text: str) -> Statistic:
        """The statistic whose name is followed by a colon and ``argument``; None for no colon."""
        if argument is not None:
            raise unknown_statistic(text)
        return cls()

    @property
    def written(self) -> str:
        """How it is written, with its columns."""
        argument = self.argument
        text = self.name if argument is None else f"{self.name}:{argument}"
        return text if self.columns is None else f"{text}@{','.join(map(str, self.columns))}"

    @property
    def argument(self) -> str | None:
        """What follows the colon; None where there is none."""
        return None

    def check_columns(self, count: int) -> None:
        """Refuse a number of columns that the statistic cannot take at once."""
        if count >= self.fewest and (self.most is None or count <= self.most):
            return
        if self.most == self.fewest:
            allowed = f"{self.fewest} column{'s' if self.fewest > 1 else ''}"
        else:
            allowed = f"at least {self.fewest} columns" + (
                f" and at most {self.most}" if self.most is not None else ""
            )
        raise InvalidParameter.refusing("columns", f"of {self.name} must be {allowed}", count)

    def positions(self, names: Sequence[str]) -> tuple[int, ...]:
        """Where its columns are among those that are there."""
        if self.columns is None:
            return tuple(range(len(names)))
        known, found = list(names), []
        for column in self.columns:
            if str(column) in known:
                found.append(known.index(str(column)))
            elif isinstance(column, int) and 0 <= column < len(known):
                found.append(column)
            else:
                raise InvalidParameter.refusing(
                    "statistic", f"must name columns among {', '.join(known)}", repr(column)
                )
        return tuple(found)

    # One release on all records.

    def requests(self, schema: PublicSchema) -> Iterator[StatisticRequest]:
        """What is asked of one release: of each column, of each pair, or of all at once."""
        columns = self.positions([column.name for column in schema.columns])
        self.check_release()
        self.check_domains(schema)
        self.check_survey(schema)
        if not columns:
            raise InvalidParameter.refusing("columns", f"must be given for {self.name}", "none")
        if self.numeric:
            for k in columns:
                self.check_range(schema.columns[k].numeric)  # here, before any data are read
        if len(columns) < self.fewest:
            allowed = f"of {self.name} must be at least {self.fewest}"
            raise InvalidParameter.refusing("columns", allowed, f"{len(columns)}")
        self.check_effort(len(columns), schema.slots)
        # As many at a time as it takes: each column, each pair, or all of them.
        together = len(columns) if self.most is None else self.most
        for own in itertools.combinations(columns, together):
            yield self.bind(schema, own)

    @property
    def by_sizes(self) -> bool:
        """Whether its grid is chosen by the public sizes of groups (``grids.py``)."""
        return False

    def bind(self, schema: PublicSchema, columns: tuple[int, ...]) -> StatisticRequest:
        """What is asked of one release about these columns."""
        raise InvalidParameter(f"{self.name} must be asked of the bootstrap")

    def check_release(self) -> None:
        """Refuse what no formula for the error in one release is known for."""
        if not self.for_release:
            raise InvalidParameter(
                "statistics must be such that a formula for their errors is known here, got "
                f"{type(self).__name__}: private_bootstrap takes it"
            )

    def check_range(self, column: Range) -> None:
        """Refuse the range of a column that the statistic makes no sense on."""
        if self.positive and not column.lower > 0.0:
            raise InvalidParameter.refusing(
                "lower", f"must be above 0 for {self.name}", f"{column.lower:g}"
            )

    def check_survey(self, schema: PublicSchema) -> None:
        """Refuse what a survey design has no proven errors for, with what to ask instead."""
        if not self.is_total:
            return
        reason = None
        grouped = schema.by is not None and not schema.shares
        unproved = not schema.domains and (schema.weighted or grouped)
        if schema.largest_cluster is not None and unproved:
            reason = (
                "must not be a total with clusters and weights or groups, unless strata and "
                "population are given (one stratum with the share 1 will do): ask for means and "
                "proportions, or for a contingency table that has the groups as a column"
            )
        if schema.shares and (not math.isfinite(schema.population) or schema.census):
            reason = "must be a mean or a proportion with strata, or population must be a number"
        if reason is not None:
            raise InvalidParameter.refusing("statistic", reason, repr(self.written))

    def check_domains(self, schema: PublicSchema) -> None:
        """Refuse groups within strata for statistics without errors for them."""
        if schema.domains and not self.in_domains:
            allowed = ", ".join(name for name, one in registered().items() if one.in_domains)
            raise InvalidParameter.refusing(
                "statistic", f"must be one of {allowed} for groups within strata",
                repr(self.written),
            )  # fmt: skip

    def check_effort(self, columns: int, slots: int) -> None:  # noqa: B027
        """Refuse what would not end or not fit, before anything is read or charged."""

    # Random subsets.

    def query(self, public: SubsetSchema) -> Query:
        """What is asked of subsets about which something is known."""
        self.check_columns(len(public.ranges))
        self.check_bootstrap()
        for one in public.ranges:
            self.check_range(one)
        return self._on(public)

    def check_bootstrap(self) -> None:
        """Refuse what cannot be computed on random subsets."""
        if not self.for_bootstrap:
            allowed = ", ".join(usages("for_bootstrap"))
            raise InvalidParameter.refusing(
                "statistic", f"must be one of {allowed}", repr(self.written)
            )

    def labelled(self, query: Query, names: Sequence[str]) -> Query:
        """The query with the columns' names in its labels, where it has something to tell apart."""
        return query

    def described(self, label: str, columns: Sequence[str]) -> str:
        """What an estimate is one of, in words."""
        return f"{label} of {' and '.join(columns)}"

    def shape(self, poisson: bool) -> Shape:
        """What is known of the query before the columns are."""
        return Shape(in_a_ball=poisson)  # there, one copy more or less moves it by the radius

    def _on(self, public: SubsetSchema) -> Query:
        """The query, on a number of columns that has been accepted."""
        raise InvalidParameter(f"{self.name} must be asked of one release on all records")


# The registry, and statistics by name.


S = TypeVar("S", bound=type[Statistic])
_registered: dict[str, type[Statistic]] = {}


def register(statistic: S) -> S:
    """Make a statistic known by its name, everywhere."""
    if _registered.setdefault(statistic.name, statistic) is not statistic:
        raise InvalidParameter(f"two statistics must not share the name {statistic.name!r}")
    return statistic


@cache
def _load_all() -> None:
    """Import every module of this folder, which registers what it has."""
    package = importlib.import_module("mustdp.estimation.statistics")
    for module in sorted(one.name for one in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")


def registered() -> dict[str, type[Statistic]]:
    """All statistics by name."""
    _load_all()
    return dict(sorted(_registered.items()))


def usages(runner: str) -> tuple[str, ...]:
    """How the statistics are written that a runner takes: "for_release" or "for_bootstrap"."""
    return tuple(
        one.usage or name
        for name, one in registered().items()
        if getattr(one, runner) and one.usage is not None
    )


def read_statistic(text: str | Statistic) -> Statistic:
    """The statistic written as ``name[:argument][@column,...]``; a statistic is returned as it is.

    >>> read_statistic("quantile:0.9@age")
    Quantile(p=0.9, grid=None, columns=('age',))
    >>> read_statistic("proportion:>=50,<60").written
    'proportion:>=50,<60'
    """
    if isinstance(text, Statistic):
        return text
    if not isinstance(text, str):
        raise unknown_statistic(text)
    said, at, chosen = text.strip().partition("@")
    name, colon, argument = said.partition(":")
    kind = registered().get(name)
    if kind is None or kind.usage is None:
        raise unknown_statistic(text)
    found = kind.parse(argument if colon else None, text)
    if not at:
        return found
    bare: Any = found  # subclasses are dataclasses, which the base class need not be
    named: Statistic = replace(bare, columns=tuple(one.strip() for one in chosen.split(",")))
    return named


def read_statistics(given: str | Statistic | Sequence[str | Statistic]) -> tuple[Statistic, ...]:
    """One or several statistics; none at all are refused."""
    several = (given,) if isinstance(given, str | Statistic) else tuple(given)
    if not several:
        raise InvalidParameter("statistics must name at least one statistic, got none")
    return tuple(map(read_statistic, several))


def unknown_statistic(text: object) -> InvalidParameter:
    """The refusal of what is no statistic."""
    known = dict.fromkeys((*usages("for_release"), *usages("for_bootstrap")))
    return InvalidParameter.refusing(
        "statistic", f"must be one of {', '.join(known)}, and may end in @COLUMN,...", repr(text)
    )


def read_number(text: str, digits: str) -> float:
    """A number in the argument of a statistic that was written as ``text``."""
    try:
        return checks.real("statistic", float(digits))
    except ValueError:
        raise InvalidParameter.refusing(
            "statistic", f"must have a number in place of {digits!r}", repr(text)
        ) from None


# One release: what was released about one slot, and how a statistic is read off it.


#: Said where the strata with shares are not all that the data have.
UNLISTED = (
    f"records are in no listed stratum and count for nothing: give stratum_shares for all strata, "
    f"or one for {OTHER!r}, which holds the rest"
)


@dataclass(frozen=True, eq=False)
class SlotRelease:
    """What was released about one group, or about all records: the sums of one or two rounds."""

    schema: PublicSchema
    first: NoisySums
    second: NoisySums | None
    slot: int
    #: The confidence that intervals are to have.
    level: float

    @property
    def records(self) -> float:
        """The number of records, as far as it is known."""
        return float(self.first.sums[self.slot, 0])

    @property
    def squared_weights(self) -> float:
        """The sum of the squared weights: the number of records where every weight is one."""
        return self.first.squared_weights(self.slot)

    @property
    def unsampled(self) -> float:
        """The finite-population correction: of the stratum, where the slots are strata."""
        if not self.schema.shares:
            return self.schema.unsampled(self.total_records)
        share = self.schema.shares[self.schema.stratum(self.slot)]
        return self.schema.unsampled(self.records, share)

    @property
    def total_records(self) -> float:
        """The number of all records; of those that have a value, where no more is known.

        A public number counts the records with missing values, too: whether a value is missing is
        part of what was sampled.
        """
        if self.schema.public_size:
            return float(self.schema.n or 1)
        return max(self.schema.of_all(self.first.sums[:, 0]), 1.0)

    @property
    def noise(self) -> NoiseCovariance:
        """Covariance of the noise of the first round."""
        return self.first.noise_in(self.slot)

    @property
    def clusters(self) -> float:
        """A lower bound on the number of clusters, by what is public or released:
        n / m, m the size of the largest. One for each record where there are none.

        Where clusters are smaller than the largest there are more of them, and quantiles of t are
        larger than needed.
        """
        return max(self.records / float(self.schema.largest_cluster or 1), 2.0)


def effect_on_share(at: SlotRelease, inside: float, k: int) -> Spread:
    """How many times as much a share varies as one of records without clusters; at least one.

    ``inside`` is the share, k the place of its squared influences in the second round. At most the
    size m of the largest cluster, as (sum of m numbers)^2 <= m sum of squares; all of it times K /
    (K - 1), as it comes from K clusters, with K - 1 degrees of freedom.
    """
    second, most = at.second, float(at.schema.largest_cluster or 1)
    if second is None:
        return Spread(1.0, 0.0)
    binomial = at.squared_weights * inside * (1.0 - inside)
    found = most**2 * float(second.sums[at.slot, k])
    error = most**2 * math.sqrt(float(second.noise_in(at.slot).own[k]))
    if not binomial > error / most:
        return Spread(most, 0.0, noise_dominated=True)
    count = at.clusters
    deflated = (count - 1.0) / count * binomial
    doubt = 2.0 * (found / deflated) ** 2 / (count - 1.0)
    spread = released_spread(found / deflated, error / deflated, 0.0, doubt)
    largest = most * count / (count - 1.0)
    return replace(spread, sampling=min(max(spread.sampling, 1.0), largest))


@dataclass(frozen=True)
class StatisticRequest(ABC):
    """A statistic of some columns in one release, bound to the schema."""

    schema: PublicSchema
    columns: tuple[int, ...]
    #: Whether it is the number of records, which other sums tell, too.
    counts_records: ClassVar[bool] = False
    #: Whether estimates are smooth in what was released, and whether they are totals or averages.
    smooth: ClassVar[bool] = True
    is_total: ClassVar[bool] = False
    is_average: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in results."""

    @property
    def column(self) -> str:
        """The column or columns, as estimates name them; empty for none."""
        return ", ".join(self.schema.columns[k].name for k in self.columns)

    @property
    @abstractmethod
    def sums(self) -> BoundedSum | None:
        """The sums that it is read off; equal ones are released once. None if it is public."""

    @property
    def support(self) -> Support:
        """What an estimate can be, whatever the data are."""
        return UNBOUNDED

    @abstractmethod
    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """The estimates of one slot, each with the name of its cell, empty for none."""

    def read_public(self) -> Iterator[tuple[str, Interval]]:
        """The estimates where nothing had to be released."""
        yield from ()

    def read_strata(self, slots: Sequence[SlotRelease]) -> Iterator[tuple[str, Interval]]:
        """The estimates of all strata together: here, of those that are averages of theirs."""
        schema = self.schema
        for cells in zip(*(list(self.read(at)) for at in slots), strict=True):
            intervals = [interval for _, interval in cells]
            yield (
                cells[0][0],
                over_strata(intervals, schema.shares, schema.strata, slots[0].level, self.support),
            )

    # The second round, which is chosen by the first.

    @property
    def two_rounds(self) -> bool:
        """Whether there is a second round, which tells its sampling error or looks closer."""
        return False

    @property
    def weighted_errors(self) -> bool:
        """Whether the second round alone tells its errors, also with weights."""
        return False

    @property
    def second_request(self) -> StatisticRequest:
        """The request that is made in the second round; equal ones are made once."""
        return self

    def second_sums(self, first: NoisySums, together: Sequence[StatisticRequest]) -> BoundedSum:
        """What is added up in the second round, chosen by the first, for all that share it."""
        raise InvalidParameter(f"{self.name} must have no second round")

    @property
    def influences(self) -> int:
        """On how many estimates of one group the second round tells influences, at most."""
        return 1

    @property
    def later_shares(self) -> tuple[float, ...]:
        """The parts of what is left after the first round that the later ones get, one by one."""
        return (1.0,)

    def next_sums(self, last: NoisySums) -> BoundedSum:
        """What is added up in a third round, or a later one, chosen by the one before."""
        raise InvalidParameter(f"{self.name} must have no third round")

    # Estimates with their names.

    def describe(self, cell: str) -> str:
        """What is estimated, in words."""
        return f"{self.name} of {', '.join(self.said(k) for k in self.columns)}"

    def said(self, column: int) -> str:
        """A column, and what is done to it."""
        return said(self.schema.columns[column])

    def estimates(
        self, first: NoisySums | None, second: NoisySums | None, level: float
    ) -> Iterator[ReleasedEstimate]:
        """The estimates of all slots; ``second`` is for those that need another round."""
        schema = self.schema
        if schema.domains:
            yield from self._in_domains(first, second, level)
            return
        count = len(schema.shares) or len(schema.groups) or 1
        slots = [
            SlotRelease(schema, first, second, slot, level)
            for slot in range(count if first is not None else 0)
            if first is not None
        ]
        if schema.shares:
            where = f", over {len(schema.shares)} strata"
            left_out = () if first is None else _outside_strata(schema, first)
            for cell, interval in self.read_strata(slots) if slots else ():
                flagged = replace(interval, flags=(*interval.flags, *left_out))
                yield self._named(flagged, None, cell, where)
            return
        for slot, group in enumerate(schema.groups or (None,)):
            named = {} if group is None else {str(schema.by): group}
            if schema.grouping is not None:
                named = schema.grouping.named(slot)
            said = " and ".join(f"{column} is {own}" for column, own in named.items())
            where = f" where {said}" if said else ""
            for cell, interval in self.read(slots[slot]) if slots else self.read_public():
                yield self._named(interval, group, cell, where, named)

    def _in_domains(
        self, first: NoisySums | None, second: NoisySums | None, level: float
    ) -> Iterator[ReleasedEstimate]:
        """The estimates of groups within strata, and of all of them, where that is asked for."""
        schema = self.schema
        if first is None or schema.grouping is None:
            raise InvalidParameter(f"{self.name} must be released for groups within strata")
        count = len(schema.shares)
        every = [SlotRelease(schema, first, second, slot, level) for slot in range(schema.slots)]
        strata = every[schema.slices[-1]][:count]
        left_out = _outside_strata(schema, first)
        for named, slots in schema.grouping.domains():
            said = " and ".join(f"{column} is {own}" for column, own in named.items())
            where = f"{' where ' if said else ''}{said}, over {count} strata"
            inside = [every[slot] for slot in slots[:count]]
            found = self.read_domain(inside, strata) if named else self.read_strata(strata)
            for cell, interval in found:
                flagged = replace(interval, flags=(*interval.flags, *left_out))
                group = ", ".join(named.values()) or TOTAL
                yield self._named(flagged, group, cell, where, named)

    def read_domain(
        self, inside: Sequence[SlotRelease], strata: Sequence[SlotRelease]
    ) -> Iterator[tuple[str, Interval]]:
        """The estimates of a group: its part of every stratum, and all of every stratum."""
        raise InvalidParameter(f"{self.name} must not be asked of groups within strata")

    def _named(
        self,
        interval: Interval,
        group: str | None,
        cell: str,
        where: str,
        groups: Mapping[str, str] | None = None,
    ) -> ReleasedEstimate:
        return released_estimate(
            interval,
            statistic=self.name,
            column=self.column or None,
            group=group,
            cell=cell or None,
            description=self.describe(cell) + where,
            where=where,
            groups=tuple((groups or {}).items()),
        )


def _outside_strata(schema: PublicSchema, first: NoisySums) -> tuple[str, ...]:
    """What to say where clearly some records are in no stratum that has a share.

    Their number is released as that of any group: reading it costs nothing.
    """
    last = schema.slices[-1]
    if len(schema.shares) == last.stop - last.start:
        return ()
    found, error = float(first.sums[-1, 0]), math.sqrt(float(first.noise_in(-1).own[0]))
    return (UNLISTED,) if found > CLEARLY * error else ()


def said(column: Column) -> str:
    """A column in words: what is clipped is called so."""
    if column.range is None:
        return column.name
    return f"{column.name} clipped to [{column.range.lower:g}, {column.range.upper:g}]"
