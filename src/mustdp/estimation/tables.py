"""Tables of groups: several columns at once, margins and totals, and how they are made to agree.

*Groupings.* Every column of groups is a *dimension*: a public list of groups, or public breaks of
a column of numbers. A grouping is a set of dimensions; its *slots* are the cells of the cross
classification of them, one slot without any dimension. A record is in one slot of every grouping.

*What one record does.* Let a part (``queries.py``) be released for the groupings g with scales w_g
/ S_g, where S_g bounds how far one record moves the sums of one grouping: it leaves one slot of
every grouping and enters another, or changes what it adds to one. Then it moves the whole vector
by at most sqrt(sum_g w_g^2), whatever slots it leaves and enters, and sum_g w_g^2 = 1.

*Agreement.* Sums over the slots of a finer grouping are the sums of a coarser one. What was
measured of all groupings is combined by least squares: exactly, and without large matrices, along
the *effects* of an analysis of variance (McKenna, Miklau, Hay & Machanavajjhala 2018, arXiv
1808.03537v1, section 6.3; Xiao, He, Zhang & Kifer 2023, arXiv 2305.08175v3). For a set A of
dimensions, the table over A whose sums along each of its dimensions vanish is theta_A. Of measured
g that contain A it is found by adding up over the other dimensions and centring; its errors are
those of noise with variance v_g prod_{j in g, not in A} K_j, K_j the number of groups of dimension
j, and theta_A of different A have independent errors. So the best theta_A is the average weighted
by precisions, with variance tau_A, and a grouping h is put together again as

    sum over A in h of theta_A / prod_{j in h, not in A} K_j,

    Cov(slot s of h, slot t of h') = sum over A in h and h' of
        tau_A prod_{j in A} (1[s_j = t_j] - 1/K_j) / (prod_{h - A} K_j prod_{h' - A} K_j).

Where a total is public, theta_A is known for all A within it, and tau_A is 0. All of this reads
what was released, and costs nothing.

*Where the noise goes.* The shares w_g^2 minimise the sum over all groupings of the logarithm of
the variance that their slots have in the end: it depends on the numbers of groups alone, and no
grouping, whatever its numbers are like, is favoured by its scale.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp, minimize
from scipy.sparse import csr_array

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray, IntArray

#: The group, or category, of everybody who is in none of the listed ones.
OTHER = "other"
#: What the slot of all groups together is called.
TOTAL = "total"
#: Slots of a release, and cells that are fitted as whole numbers.
_MOST_SLOTS, _MOST_WHOLE = 10**6, 20_000
#: A grouping with a smaller share is not measured at all.
_LEAST_SHARE = 1e-3

#: Dimensions of a grouping, by number and in rising order.
Grouping = tuple[int, ...]
#: Numbers of records of all slots of a grouping.
PublicTable = tuple[Grouping, tuple[float, ...]]


@dataclass(frozen=True)
class Dimension:
    """A column of groups: a public list of them, or the breaks between them."""

    column: str
    labels: tuple[str, ...]
    breaks: tuple[float, ...] = ()
    #: Whether every record is in one of the groups, as is publicly known.
    complete: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        """The groups, and what is none of them."""
        return self.labels if self.complete else (*self.labels, OTHER)

    def places(self, values: FloatArray) -> IntArray:
        """The group of every record; -1 for none where there should be none of these."""
        rest = -1 if self.complete else len(self.labels)
        if not self.breaks:
            codes = values.astype(np.int64)
            return np.where(codes < len(self.labels), codes, rest)
        found = np.searchsorted(np.array(self.breaks), values, side="right") - 1
        return np.where(np.isnan(values) | (found < 0), rest, found)


@dataclass(frozen=True)
class Groupings:
    """What is released for which groups; ``known`` are totals that are public."""

    dimensions: tuple[Dimension, ...]
    sets: tuple[Grouping, ...]
    consistent: bool = False
    known: tuple[PublicTable, ...] = ()
    #: Whether the first dimension is one of strata; the last grouping is that of them alone.
    strata: bool = False
    #: Whether numbers of records are made whole.
    whole_counts: bool = False
    #: About how many records every cell of all dimensions has, as is public; empty for unknown.
    expected: tuple[float, ...] = ()

    @property
    def expected_sizes(self) -> FloatArray:
        """About how many records every slot has."""
        table = np.array(self.expected).reshape(self.sizes)
        every = range(len(self.sizes))
        margins = [table.sum(axis=tuple(j for j in every if j not in one)) for one in self.sets]
        return np.concatenate([np.ravel(one) for one in margins])

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of groups of every dimension."""
        return tuple(len(one.cells) for one in self.dimensions)

    def shape(self, grouping: Grouping) -> tuple[int, ...]:
        """The groups of the dimensions of a grouping."""
        return tuple(self.sizes[j] for j in grouping)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The slots of every grouping."""
        ends = np.cumsum([0, *(math.prod(self.shape(one)) for one in self.sets)]).tolist()
        return tuple(slice(*pair) for pair in itertools.pairwise(ends))

    @cached_property
    def keys(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Of every slot, its dimensions with the group of each."""
        return tuple(
            tuple(zip(one, cell, strict=True))
            for one in self.sets
            for cell in itertools.product(*(range(size) for size in self.shape(one)))
        )

    def named(self, slot: int) -> dict[str, str]:
        """The groups of a slot by column."""
        return {
            self.dimensions[j].column: self.dimensions[j].cells[at] for j, at in self.keys[slot]
        }

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What every slot is called; with the columns where the groups alone are ambiguous."""
        plain = [", ".join(self.named(slot).values()) or TOTAL for slot in range(len(self.keys))]
        if len(set(plain)) == len(plain):
            return tuple(plain)
        return tuple(
            ", ".join(f"{column}={group}" for column, group in self.named(slot).items()) or TOTAL
            for slot in range(len(self.keys))
        )

    def in_strata(self, strata: Dimension) -> Groupings:
        """Every group in every stratum, and the strata alone."""
        sets = [(0, *(1 + j for j in one)) for one in self.sets]
        sets = [*(one for one in sets if one != (0,)), (0,)]
        return Groupings((strata, *self.dimensions), tuple(sets), strata=True)

    def domains(self) -> Iterator[tuple[dict[str, str], list[int]]]:
        """Without the strata: the groups by column, and the slots of every stratum."""
        count = self.sizes[0]
        for one, own in zip(self.sets, self.slices, strict=True):
            cells = math.prod(self.shape(one)[1:])
            for cell in range(cells):
                slots = [own.start + cells * stratum + cell for stratum in range(count)]
                named = self.named(slots[0])
                del named[self.dimensions[0].column]
                yield named, slots

    def refuse_unknown_total(self) -> None:
        """Refuse what is said of numbers of records where these are not public."""
        if self.known or self.whole_counts:
            raise InvalidParameter.refusing(
                "public_totals" if self.known else "whole_counts",
                "must be given where the number of records is public, and all of them count: under "
                "replace_one, without weights, missing values that are dropped or clusters as "
                "units",
                "elsewhere",
            )

    def refuse_other_total(self, records: int) -> None:
        """Refuse public totals of another number of records."""
        for _, numbers in self.known[:1]:
            if sum(numbers) != records:
                raise InvalidParameter.refusing(
                    "public_totals", f"must add up to the number of records, {records}",
                    f"{sum(numbers):g}",
                )  # fmt: skip

    @property
    def leaves_out(self) -> bool:
        """Whether there may be records in no slot at all."""
        return any(one.complete for one in self.dimensions)

    @property
    def by(self) -> str:
        """The columns, in words."""
        return ", ".join(one.column for one in self.dimensions)

    def slots_of(self, places: Sequence[IntArray]) -> IntArray:
        """The slots of records (rows, groupings) by their groups in every dimension; -1: none."""
        found = []
        outside = np.logical_or.reduce([one < 0 for one in places])
        for grouping, own in zip(self.sets, self.slices, strict=True):
            slots = np.zeros(len(places[0]), dtype=np.int64)
            for j in grouping:
                slots = slots * self.sizes[j] + places[j]
            found.append(np.where(outside, -1, own.start + slots))
        return np.stack(found, axis=1)

    def overlap(self, first: int, second: int) -> str:
        """How the records of two slots lie: "same", "within", "holds", "apart" or "crossed"."""
        one, other = dict(self.keys[first]), dict(self.keys[second])
        if any(other.get(j, at) != at for j, at in one.items()):
            return "apart"
        if one == other:
            return "same"
        if one.items() >= other.items():
            return "within"
        return "holds" if other.items() >= one.items() else "crossed"


# From what a caller says about groups.


Names = str | Sequence[str] | Sequence[Sequence[str]]
Lists = Sequence[str] | Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Groups:
    """Groups, and what is publicly known of them; stands wherever groups can be given.

    Parameters
    ----------
    lists : sequence of str or mapping, default=None
        The public values of the column in ``by``; of several columns, lists by column.
    breaks : mapping, default=None
        For columns of numbers in ``by``, where their groups begin: {"age": [0, 18, 65]} makes
        0-17, 18-64 and 65+.
    complete : bool or sequence of str, default=False
        That the lists of all columns, or of those named, are complete, as is publicly known: there
        is no group "other", and a record in none of the groups is not counted.
    public_totals : mapping, default=None
        With ``consistent``: numbers of records by group that are public, by column, such as
        {"sex": {"Male": 480, "Female": 520}}.
    whole_counts : bool, default=False
        With ``consistent``: whether numbers of records are whole and not negative.
    sizes : mapping, default=None
        About how many records the groups have, as is publicly known, by column, such as
        {"sex": {"Male": 500, "Female": 500}}; cells of several columns by all of their names, or as
        if the columns were independent. Plans assume them, and the grids of quantiles such as
        ``median:sizes`` are chosen by them. They must not be counted in the data at hand.

    Examples
    --------
    >>> import mustdp as md
    >>> groups = md.types.Groups({"sex": ["Male", "Female"]}, breaks={"age": [0, 18, 65]})
    """

    lists: Lists | None = None
    breaks: Mapping[str, Sequence[float]] | None = None
    complete: bool | Sequence[str] = False
    public_totals: Mapping[Any, Any] | None = None
    whole_counts: bool = False
    sizes: Mapping[Any, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("breaks", "public_totals", "sizes"):
            given = getattr(self, name)
            if not (given is None or isinstance(given, Mapping)):
                raise InvalidParameter.refusing(name, "must be given by column", repr(given))
        if not isinstance(self.whole_counts, bool):
            allowed = "must be True or False"
            raise InvalidParameter.refusing("whole_counts", allowed, repr(self.whole_counts))

    @classmethod
    def read(cls, given: Lists | Groups | None) -> Groups:
        """Groups as they may be given.

        Parameters
        ----------
        given : sequence of str, mapping or Groups
            Lists alone, or with what is known of them.

        Returns
        -------
        Groups
            The same.
        """
        return given if isinstance(given, Groups) else cls(given)


def read_groupings(
    by: Names | None,
    groups: Lists | Groups | None,
    *,
    total: bool = False,
    consistent: bool = False,
) -> Groupings | None:
    """The groupings of a release; None without groups."""
    for name, flag in (("total", total), ("consistent", consistent)):
        if not isinstance(flag, bool):
            raise InvalidParameter.refusing(name, "must be True or False", repr(flag))
    given = Groups.read(groups)
    breaks = dict(given.breaks or {})
    if (by is None) != (given.lists is None and not breaks):
        raise InvalidParameter("by and groups must be given together: the list of groups is public")
    for name in ("whole_counts", "public_totals"):
        if getattr(given, name) and not consistent:
            raise InvalidParameter.refusing(name, "must be given with consistent=True", "without")
    if by is None:
        without = {"total": total, "consistent": consistent, "complete": given.complete}
        without["sizes"] = bool(given.sizes)
        for name, said in without.items():
            if said:
                raise InvalidParameter.refusing(name, "must be given together with by", repr(said))
        return None
    named = _named(by)
    columns = tuple(dict.fromkeys(column for one in named for column in one))
    listed = _listed(given.lists, columns, breaks)
    whole = _complete(given.complete, columns)
    dimensions = tuple(
        _dimension(column, listed.get(column), breaks.get(column), column in whole)
        for column in columns
    )
    places = {column: j for j, column in enumerate(columns)}
    sets = [tuple(sorted(places[column] for column in one)) for one in named]
    if total:
        smaller = {
            part
            for one in sets
            for size in range(len(one))
            for part in itertools.combinations(one, size)
        }
        sets = [*sets, *sorted(smaller - {*sets}, key=lambda part: (-len(part), part))]
        if any(TOTAL in one.labels for one in dimensions):
            raise InvalidParameter.refusing("groups", f"must not name {TOTAL!r} with total", TOTAL)
    sets = list(dict.fromkeys(sets))
    found = Groupings(dimensions, tuple(sets), consistent, whole_counts=given.whole_counts)
    slots = sum(math.prod(found.shape(one)) for one in sets)
    if not slots <= _MOST_SLOTS:
        raise InvalidParameter.refusing("groups", f"must make at most {_MOST_SLOTS} cells", slots)
    return replace(
        found,
        known=_known(found, given.public_totals or {}),
        expected=_expected(found, given.sizes or {}),
    )


def _named(by: Names) -> list[tuple[str, ...]]:
    if isinstance(by, str):
        return [(by,)]
    given = list(by)
    found = [(one,) if isinstance(one, str) else tuple(one) for one in given]
    if all(isinstance(one, str) for one in given):
        found = [tuple(column for one in found for column in one)]
    if not found or not all(one and len(set(one)) == len(one) for one in found):
        raise InvalidParameter.refusing(
            "by", "must be a column, columns, or lists of different columns", repr(by)
        )
    return found


def _listed(
    groups: Lists | None, columns: tuple[str, ...], breaks: Mapping[str, Any]
) -> dict[str, Sequence[str]]:
    """The lists by column, for every column without breaks."""
    rest = [column for column in columns if column not in breaks]
    listed: dict[str, Sequence[str]] = {}
    if isinstance(groups, Mapping):
        listed = dict(groups)
    elif groups is not None:
        if len(rest) != 1:
            raise InvalidParameter.refusing(
                "groups", "must be lists by column where there are several columns", repr(groups)
            )
        listed = {rest[0]: groups}
    for name, given in (("groups", listed), ("breaks", breaks)):
        unknown = [column for column in given if column not in columns]
        if unknown:
            raise InvalidParameter.refusing(
                name, f"must be given for columns among {', '.join(columns)}", repr(unknown[0])
            )
    if {*rest} != {*listed}:
        missing = sorted({*rest} ^ {*listed})[0]
        raise InvalidParameter.refusing(
            "groups", "must list the groups of every column of by, once", repr(missing)
        )
    return listed


def _complete(complete: bool | Sequence[str], columns: tuple[str, ...]) -> frozenset[str]:
    if isinstance(complete, bool):
        return frozenset(columns if complete else ())
    named = (complete,) if isinstance(complete, str) else tuple(complete)
    if not {*named} <= {*columns}:
        raise InvalidParameter.refusing(
            "complete", f"must be True, or columns among {', '.join(columns)}", repr(complete)
        )
    return frozenset(named)


def labels_of(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """A public list of different names."""
    if isinstance(given, str):
        raise InvalidParameter.refusing(name, "must be a list", repr(given))
    found = tuple(str(one).strip() for one in given)
    if not 1 <= len(found) <= _MOST_SLOTS or len(set(found)) != len(found) or OTHER in found:
        raise InvalidParameter.refusing(
            name,
            f"must be from 1 to {_MOST_SLOTS} different names, none of them {OTHER!r}",
            f"{len(found)}",
        )
    return found


def _dimension(
    column: str, groups: Sequence[str] | None, breaks: Sequence[float] | None, complete: bool
) -> Dimension:
    if groups is not None:
        return Dimension(column, labels_of("groups", groups), (), complete)
    points = checks.reals("breaks", np.asarray(breaks, dtype=np.float64))
    if not (points.size >= 1 and (np.diff(points) > 0).all()):
        raise InvalidParameter.refusing("breaks", "must rise", repr(breaks))
    ends = points.tolist()
    whole = all(end.is_integer() for end in ends)
    labels = []
    for low, high in itertools.pairwise(ends):
        if whole:
            last = int(high) - 1
            labels.append(f"{low:.0f}" if last == low else f"{low:.0f}-{last}")
        else:
            labels.append(f"{low:g} to below {high:g}")
    labels.append(f"{ends[-1]:.0f}+" if whole else f"{ends[-1]:g} or more")
    return Dimension(column, tuple(labels), tuple(ends), complete)


def _tables(
    name: str, groupings: Groupings, totals: Mapping[Any, Any]
) -> Iterator[tuple[Grouping, FloatArray]]:
    """Numbers by column and group as tables over dimensions; groups that are not named have 0."""
    places = {one.column: j for j, one in enumerate(groupings.dimensions)}
    for columns, given in totals.items():
        own = (columns,) if isinstance(columns, str) else tuple(columns)
        if not own or not {*own} <= {*places} or not isinstance(given, Mapping):
            raise InvalidParameter.refusing(
                name, "must be numbers by group, by column of by", repr(columns)
            )
        order = sorted(range(len(own)), key=lambda k: places[own[k]])
        grouping = tuple(places[own[k]] for k in order)
        if not any({*grouping} <= {*one} for one in groupings.sets):
            raise InvalidParameter.refusing(
                name, "must be those of a grouping or of margins of one", repr(columns)
            )
        table = np.zeros(groupings.shape(grouping))
        for cell, number in given.items():
            labels = (cell,) if isinstance(cell, str) else tuple(cell)
            try:
                if len(labels) != len(own):
                    raise IndexError
                at = tuple(
                    groupings.dimensions[places[own[k]]].cells.index(str(labels[k])) for k in order
                )
            except (ValueError, IndexError):
                raise InvalidParameter.refusing(
                    name, "must name groups that are listed", repr(cell)
                ) from None
            table[at] = checks.integer(name, number, 0)
        yield grouping, table


def _expected(groupings: Groupings, sizes: Mapping[Any, Any]) -> tuple[float, ...]:
    """About how many records all cells have; dimensions of which nothing is said are even."""
    tables = list(_tables("sizes", groupings, sizes))
    if not tables:
        return ()
    count = len(groupings.dimensions)
    told: set[int] = set()
    found = np.ones(groupings.shape(tuple(range(count))))
    for grouping, table in tables:
        total = float(table.sum())
        if told & {*grouping} or not total > 0:
            raise InvalidParameter.refusing(
                "sizes", "must have every column once, and records in some group", "others"
            )
        told |= {*grouping}
        shape = [groupings.sizes[j] if j in grouping else 1 for j in range(count)]
        found = found * (table / total).reshape(shape)
    for j, one in enumerate(groupings.dimensions):
        if j not in told:
            even = np.array([1.0 / len(one.labels)] * len(one.labels) + [0.0])[: len(one.cells)]
            found = found * even.reshape([-1 if i == j else 1 for i in range(count)])
    return tuple((found * float(tables[0][1].sum())).ravel().tolist())


def _known(groupings: Groupings, totals: Mapping[Any, Any]) -> tuple[PublicTable, ...]:
    """Public totals as tables over dimensions."""
    found = [
        (grouping, tuple(table.ravel().tolist()))
        for grouping, table in _tables("public_totals", groupings, totals)
    ]
    sums = {math.fsum(table) for _, table in found}
    if len(sums) > 1:
        raise InvalidParameter.refusing(
            "public_totals", "must add up to one number of records", repr(sorted(sums))
        )
    for (one, first), (other, second) in itertools.combinations(found, 2):
        both = tuple(j for j in one if j in other)
        tables = [
            _onto(np.array(table).reshape((*groupings.shape(own), 1)), own, both)
            for own, table in ((one, first), (other, second))
        ]
        if not np.array_equal(tables[0], tables[1]):
            raise InvalidParameter("public_totals must agree with each other in their margins")
    return tuple(found)


# Least squares along effects.


def _onto(table: FloatArray, own: Grouping, effect: Grouping) -> FloatArray:
    """A table over ``own`` (and a last axis) added up to one over ``effect``."""
    return np.asarray(table.sum(axis=tuple(k for k, j in enumerate(own) if j not in effect)))


def _centred(table: FloatArray) -> FloatArray:
    for axis in range(table.ndim - 1):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The best agreement of what was measured, with noise of ``variances`` for each grouping.

    ``exact`` are numbers that are public: tables by grouping. A variance that is infinite says
    that nothing was measured there.
    """

    groupings: Groupings
    variances: tuple[float, ...]
    exact: tuple[PublicTable, ...] = ()
    taus: dict[Grouping, float] = field(init=False)

    def __post_init__(self) -> None:
        taus = {}
        for effect in self._effects:
            precisions = [own for _, own in self._measuring(effect)]
            if self._source(effect) is not None:
                taus[effect] = 0.0
            elif math.fsum(precisions) > 0:
                taus[effect] = 1.0 / math.fsum(precisions)
            else:
                raise NumericalFailure("a grouping was measured by none; nothing is released")
        object.__setattr__(self, "taus", taus)

    @cached_property
    def _effects(self) -> list[Grouping]:
        found = {
            part
            for one in self.groupings.sets
            for size in range(len(one) + 1)
            for part in itertools.combinations(one, size)
        }
        return sorted(found, key=lambda part: (len(part), part))

    def _measuring(self, effect: Grouping) -> list[tuple[int, float]]:
        """Groupings that contain an effect, and the precision that each tells it with."""
        sizes = self.groupings.sizes
        return [
            (g, 1.0 / (variance * math.prod(sizes[j] for j in one if j not in effect)))
            for g, (one, variance) in enumerate(
                zip(self.groupings.sets, self.variances, strict=True)
            )
            if {*effect} <= {*one} and math.isfinite(variance)
        ]

    def _source(self, effect: Grouping) -> PublicTable | None:
        return next((one for one in self.exact if {*effect} <= {*one[0]}), None)

    def adjusted(self, values: FloatArray) -> FloatArray:
        """Numbers (slots, any) that agree with each other and with what is public."""
        tables = [
            values[own].reshape((*self.groupings.shape(one), values.shape[1]))
            for one, own in zip(self.groupings.sets, self.groupings.slices, strict=True)
        ]
        thetas: dict[Grouping, FloatArray] = {}
        for effect, tau in self.taus.items():
            source = self._source(effect)
            if source is not None:
                shape = (*self.groupings.shape(source[0]), 1)
                thetas[effect] = _centred(
                    _onto(np.array(source[1]).reshape(shape), source[0], effect)
                )
                continue
            thetas[effect] = sum(
                (
                    (tau * precision) * _centred(_onto(tables[g], self.groupings.sets[g], effect))
                    for g, precision in self._measuring(effect)
                ),
                start=np.zeros(1),
            )
        found = np.empty_like(values)
        for one, own in zip(self.groupings.sets, self.groupings.slices, strict=True):
            table = np.zeros((*self.groupings.shape(one), values.shape[1]))
            for effect, theta in thetas.items():
                if {*effect} <= {*one}:
                    lengths = [self.groupings.sizes[j] if j in effect else 1 for j in one]
                    others = math.prod(self.groupings.sizes[j] for j in one if j not in effect)
                    table += theta.reshape((*lengths, theta.shape[-1])) / others
            found[own] = table.reshape(-1, values.shape[1])
        return found

    @cached_property
    def slot_variances(self) -> FloatArray:
        """The variance of every slot after the adjustment; equal within a grouping."""
        found = np.empty(len(self.groupings.keys))
        for one, own in zip(self.groupings.sets, self.groupings.slices, strict=True):
            found[own] = self._variance(one)
        return found

    def _variance(self, one: Grouping) -> float:
        sizes = self.groupings.sizes
        return math.fsum(
            tau
            * math.prod(1.0 - 1.0 / sizes[j] for j in effect)
            / math.prod(sizes[j] for j in one if j not in effect) ** 2
            for effect, tau in self.taus.items()
            if {*effect} <= {*one}
        )

    def covariance(self, slots: Sequence[int]) -> FloatArray:
        """Of some slots with each other."""
        sizes, count = self.groupings.sizes, len(self.groupings.dimensions)
        # -1 where a slot is not about a dimension.
        at = np.full((len(slots), count), -1)
        for row, slot in enumerate(slots):
            for j, place in self.groupings.keys[slot]:
                at[row, j] = place
        inside: NDArray[np.bool_] = np.not_equal(at, -1)
        found = np.zeros((len(slots), len(slots)))
        for effect, tau in self.taus.items():
            has = np.asarray(inside[:, list(effect)].all(axis=1))
            others = np.ones(len(slots))
            term = np.full(found.shape, tau)
            for j in range(count):
                if j in effect:
                    term *= (at[:, None, j] == at[None, :, j]) - 1.0 / sizes[j]
                else:
                    others *= np.where(inside[:, j], sizes[j], 1.0)
            term /= others[:, None] * others[None, :]
            found += np.where(has[:, None] & has[None, :], term, 0.0)
        return found


@lru_cache(maxsize=256)
def noise_shares(groupings: Groupings, costs: tuple[float, ...]) -> tuple[float, ...]:
    """Shares of the budget for the groupings, which add up to one.

    ``costs`` are the squared sensitivities of the groupings; 0 for one that needs no noise. Without
    agreement all others get the same; with it what makes variances small in the end.
    """
    needed = [g for g, cost in enumerate(costs) if cost > 0]
    equal = np.array([1.0 / len(needed) if cost > 0 else 0.0 for cost in costs])
    if not groupings.consistent or len(needed) == 1:
        return tuple(equal.tolist())

    def variances(shares: FloatArray) -> tuple[float, ...]:
        return tuple(
            cost / share if share > 0 else math.inf
            for cost, share in zip(costs, shares, strict=True)
        )

    def spent(logits: FloatArray) -> FloatArray:
        found = np.zeros(len(costs))
        found[needed] = np.exp(logits - logits.max())
        return np.asarray(found / found.sum())

    def worth(logits: FloatArray) -> float:
        squares = LeastSquares(groupings, variances(spent(logits)))
        return math.fsum(math.log(squares._variance(groupings.sets[g])) for g in needed)

    start = np.zeros(len(needed))
    best = minimize(worth, start, method="L-BFGS-B", bounds=[(-12.0, 12.0)] * len(needed))
    shares = spent(np.asarray(best.x))
    maximal = [not any({*one} < {*other} for other in groupings.sets) for one in groupings.sets]
    shares = np.where((shares >= _LEAST_SHARE) | (np.array(maximal) & (equal > 0)), shares, 0.0)
    shares = shares / shares.sum()
    better = worth(np.asarray(best.x)) < worth(start)
    return tuple((shares if better else equal).tolist())


# Whole numbers that are not negative, and still agree.


def whole_counts(squares: LeastSquares, adjusted: FloatArray) -> FloatArray:
    """Whole numbers of records (slots,), none below 0, near those that agree already.

    The cells of the finest grouping, x >= 0, are those nearest to what was measured by least
    squares, with public totals kept (a projected gradient); then each is rounded down or up, so
    that public totals stay what they are and the changes are smallest. Margins are their sums.
    """
    groupings = squares.groupings
    finest = groupings.sets[0]
    if not all({*one} <= {*finest} for one in groupings.sets):
        raise InvalidParameter.refusing(
            "whole_counts", "must be asked where one grouping holds all others", groupings.by
        )
    shape = groupings.shape(finest)
    if not math.prod(shape) <= _MOST_WHOLE:
        raise InvalidParameter.refusing(
            "whole_counts", f"must be asked of at most {_MOST_WHOLE} cells", math.prod(shape)
        )
    own = groupings.slices[0]
    cells = adjusted[own].reshape(shape)
    exact = [
        (grouping, np.array(table).reshape(groupings.shape(grouping)))
        for grouping, table in squares.exact
    ]
    places = {j: k for k, j in enumerate(finest)}
    fitted = _not_negative(squares, cells, exact, places)
    rounded = _rounded(fitted, exact, places)
    found = np.empty(len(groupings.keys))
    for one, own in zip(groupings.sets, groupings.slices, strict=True):
        found[own] = _onto(rounded[..., None], finest, one).ravel()
    return found


def _margin(table: FloatArray, grouping: Grouping, places: Mapping[int, int]) -> FloatArray:
    kept = [places[j] for j in grouping]
    return np.asarray(table.sum(axis=tuple(k for k in range(table.ndim) if k not in kept)))


def _not_negative(
    squares: LeastSquares,
    cells: FloatArray,
    exact: Sequence[tuple[Grouping, FloatArray]],
    places: Mapping[int, int],
) -> FloatArray:
    """The table without negative numbers that is nearest in the metric of what was measured."""
    if (cells >= 0).all():
        return cells
    groupings = squares.groupings
    measured = [
        (one, 1.0 / variance)
        for one, variance in zip(groupings.sets, squares.variances, strict=True)
        if math.isfinite(variance)
    ]

    def spread(table: FloatArray, one: Grouping) -> FloatArray:
        shape = [cells.shape[k] if j in one else 1 for j, k in places.items()]
        return table.reshape(shape)

    def slope(away: FloatArray) -> FloatArray:
        return sum(
            (precision * spread(_margin(away, one, places), one) for one, precision in measured),
            start=np.zeros(()),
        ) * np.ones(cells.shape)

    steepest = math.fsum(
        precision * cells.size / math.prod(groupings.shape(one)) for one, precision in measured
    )

    def allowed(table: FloatArray) -> FloatArray:
        """Onto what is not negative and keeps the public totals (Dykstra's projections)."""
        if not exact:
            return np.maximum(table, 0.0)
        corrections = [np.zeros(cells.shape) for _ in exact]
        for _ in range(40):
            for k, (one, public) in enumerate(exact):
                given = table + corrections[k]
                table = _onto_simplices(given, one, public, places)
                corrections[k] = given - table
            if len(exact) == 1:
                break
        return table

    x = ahead = allowed(cells)
    speed = 1.0
    for _ in range(300):
        new = allowed(ahead - slope(ahead - cells) / steepest)
        faster = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * speed**2))
        ahead = new + (speed - 1.0) / faster * (new - x)
        moved = float(np.abs(new - x).max())
        x, speed = new, faster
        if moved < 1e-6:
            break
    return np.maximum(x, 0.0)


def _onto_simplices(
    table: FloatArray, grouping: Grouping, public: FloatArray, places: Mapping[int, int]
) -> FloatArray:
    """Every slot of a grouping onto numbers above 0 that add up to its public total."""
    kept = [places[j] for j in grouping]
    rest = [k for k in range(table.ndim) if k not in kept]
    moved = np.transpose(table, (*kept, *rest)).reshape(max(public.size, 1), -1)
    ordered = -np.sort(-moved, axis=1)
    totals = public.reshape(-1, 1)
    levels = (np.cumsum(ordered, axis=1) - totals) / np.arange(1, moved.shape[1] + 1)
    last = np.maximum((ordered > levels).sum(axis=1) - 1, 0)
    found = np.maximum(moved - np.take_along_axis(levels, last[:, None], axis=1), 0.0)
    shape = [table.shape[k] for k in (*kept, *rest)]
    return np.transpose(found.reshape(shape), np.argsort((*kept, *rest)))


def _rounded(
    table: FloatArray, exact: Sequence[tuple[Grouping, FloatArray]], places: Mapping[int, int]
) -> FloatArray:
    """Every number rounded down or up, with public totals kept and as little change as can be."""
    low = np.floor(table + 1e-9)
    part = np.clip(table - low, 0.0, 1.0)
    if not exact:
        return np.asarray(low + (part >= 0.5))
    # milp of scipy 1.11 takes indices of 32 bits only.
    numbers = np.arange(table.size, dtype=np.int32).reshape(table.shape)
    rows, columns, wanted, count = [], [], [], 0
    for one, public in exact:
        kept = [places[j] for j in one]
        rest = [k for k in range(table.ndim) if k not in kept]
        inside = np.transpose(numbers, (*kept, *rest)).reshape(max(public.size, 1), -1)
        rows.append(np.repeat(np.arange(len(inside), dtype=np.int32) + count, inside.shape[1]))
        columns.append(inside.ravel())
        wanted.append(public.ravel() - _margin(low, one, places).ravel())
        count += len(inside)
    matrix = csr_array(
        (np.ones(sum(map(len, rows))), (np.concatenate(rows), np.concatenate(columns))),
        shape=(count, table.size),
    )
    ends = np.round(np.concatenate(wanted))
    # Down or up; by one more where that cannot keep all totals, as with margins of three columns.
    for least, most in ((0.0 * low, 1.0), (-np.minimum(low, 1.0), 2.0)):
        found = milp(
            1.0 - 2.0 * part.ravel(),
            constraints=LinearConstraint(matrix, ends, ends),
            integrality=np.ones(table.size, dtype=np.int64),
            bounds=Bounds(least.ravel(), most),
            options={"mip_rel_gap": 0.01, "time_limit": 30.0},
        )
        if found.x is not None:
            return np.asarray(low + np.round(found.x).reshape(table.shape))
    raise NumericalFailure("no whole numbers that keep all public totals were found")
