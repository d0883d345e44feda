"""What is asked of a release: which part it needs, and how it is read off that part; strata."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mustdp.errors import InvalidParameter
from mustdp.estimation.bootstrap.query import CLEARLY, into
from mustdp.estimation.release.estimate import (
    FEW,
    Judged,
    Reading,
    ReleasedEstimate,
    estimated,
    everything,
    satterthwaite,
    symmetric,
)
from mustdp.estimation.release.parts import Noisy, Part
from mustdp.estimation.release.schema import OTHER, Column, PublicSchema
from mustdp.numerics import checks

# Strata: estimates of each, put together with their public shares of the population.
#
# The strata are the groups of one release, so one record that changes its stratum is counted. With
# shares W_h that add up to one, a mean is sum W_h mean_h and its variance sum W_h^2 SE_h^2 (Cochran
# 1977, section 5.3): the errors of strata, sampling and noise alike, are independent; a cluster is
# taken to lie in one stratum. The finite-population correction is that of every stratum, 1 - n_h /
# N_h. What is curved in averages is so in those of the population, sum W_h mu_h, and a distribution
# function is sum W_h F_h. The shares add up to one. Records in no listed stratum are the stratum
# "other" if that has a share; else they count for nothing, and where the release shows that there
# are some, the estimates say so. A small stratum of which noise leaves nothing to be known may be
# anywhere in what is possible: that widens the interval by its share of it, from end to end; if
# such strata are more than a tenth of the population, there is no estimate. Errors of strata from
# few clusters have few degrees of freedom each; those of the whole are Satterthwaite's (1946).


#: Shares that were rounded to seven digits still add up to one.
_CLOSE = 1e-6
#: The share of the population of which nothing may be known.
MOST_UNKNOWN = 0.1


def read_shares(
    strata: str | None, shares: Mapping[str, float] | None, by: str | None
) -> dict[str, float]:
    """The shares, which add up to one, that of the rest last; empty without strata."""
    if strata is None and shares is None:
        return {}
    if strata is None or shares is None or by is not None:
        raise InvalidParameter("strata and stratum_shares must be given together, and not with by")
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


def over_strata(
    readings: Sequence[Reading], schema: PublicSchema, level: float, possible: tuple[float, float]
) -> Reading:
    """One reading for what is an average over strata, from those of each."""
    named = zip(schema.groups, readings, strict=False)
    flags = tuple(dict.fromkeys(f"{name}: {flag}" for name, one in named for flag in one.flags))
    pairs = list(zip(schema.shares, readings, strict=True))
    known = [(share, one) for share, one in pairs if one.known]
    if math.fsum(share for share, one in pairs if not one.known) > MOST_UNKNOWN:
        return replace(everything(possible), flags=(FEW, *flags))
    value, open_ends = 0.0, 0.0  # what is not known: the middle, and half of what is possible
    for share, one in pairs:
        low, high = one.interval
        value += share * (one.value if one.known else 0.5 * (low + high))
        open_ends += 0.0 if one.known else share * 0.5 * (high - low)
    variances = [((share * one.standard_error) ** 2, one) for share, one in known]
    noise = math.fsum(variance * one.noise_share for variance, one in variances)
    sampling = math.fsum(variance * (1.0 - one.noise_share) for variance, one in variances)
    freedom = satterthwaite((variance, one.degrees_of_freedom) for variance, one in variances)
    found = symmetric(value, Judged(sampling, noise, freedom), level, possible)
    if not open_ends:
        return replace(found, flags=(*found.flags, *flags))
    error = math.hypot(found.standard_error, open_ends)
    return Reading(
        found.value,
        error,
        (
            into(found.interval[0] - open_ends, possible),
            into(found.interval[1] + open_ends, possible),
        ),
        (noise + open_ends**2) / error**2,
        (*found.flags, *flags),
        freedom,
    )


# What is asked of a release: which part it needs, and how it is read off that part.


#: Said where the strata with shares are not all that the data have.
UNLISTED = (
    f"records are in no listed stratum and count for nothing: give stratum_shares for all strata, "
    f"or one for {OTHER!r}, which holds the rest"
)


@dataclass(frozen=True)
class StatisticRequest(ABC):
    """A statistic of some columns, bound to the schema."""

    schema: PublicSchema
    columns: tuple[int, ...]

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in results."""

    @property
    @abstractmethod
    def part(self) -> Part | None:
        """The part that it is read off; equal parts are released once. None if it is public."""

    @property
    def twice(self) -> bool:
        """Whether a second round tells its sampling error."""
        return False

    @property
    def influenced(self) -> bool:
        """Whether its errors need nothing but that second round, also with weights."""
        return False

    @property
    def linearised(self) -> StatisticRequest:
        """The statistic that is asked about in the second round."""
        return self

    def again(self, noisy: Noisy, together: Sequence[StatisticRequest]) -> Part:
        """What is asked in the second round, chosen by the first, for all that share it."""
        raise InvalidParameter(f"{self.name} must have no second round")

    @property
    def possible(self) -> tuple[float, float]:
        """What an estimate can be, whatever the data are."""
        return (-math.inf, math.inf)

    @abstractmethod
    def read(
        self, noisy: Noisy | None, second: Noisy | None, slot: int, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """The estimates of one slot, each with the name of its cell, empty for none."""

    def clusters(self, noisy: Noisy, slot: int) -> float:
        """At least so many clusters are in a slot, by what is public or released: n / m, m the size
        of the largest. One for each record where there are none.

        Where clusters are smaller than the largest there are more of them, and quantiles of t are
        larger than needed.
        """
        records = float(noisy.sums[slot, 0])
        return max(records / float(self.schema.largest_cluster or 1), 2.0)

    def describe(self, cell: str) -> str:
        """What is estimated, in words."""
        return f"{self.name} of {', '.join(self.said(k) for k in self.columns)}"

    def said(self, column: int) -> str:
        """A column, and what is done to it."""
        return said(self.schema.columns[column])

    def read_strata(
        self, noisy: Noisy | None, second: Noisy | None, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """The estimates of all strata together: here, of those that are averages of theirs."""
        count = len(self.schema.shares)
        rows = [list(self.read(noisy, second, slot, level)) for slot in range(count)]
        for cells in zip(*rows, strict=True):
            readings = [reading for _, reading in cells]
            yield cells[0][0], over_strata(readings, self.schema, level, self.possible)

    def estimates(
        self, noisy: Noisy | None, second: Noisy | None, level: float
    ) -> Iterator[ReleasedEstimate]:
        """The estimates of all slots; ``second`` is for those that need another round."""
        schema = self.schema
        if schema.shares:
            where = f", over {len(schema.shares)} strata"
            left_out = _outside_strata(schema, noisy)
            for cell, reading in self.read_strata(noisy, second, level):
                flagged = replace(reading, flags=(*reading.flags, *left_out))
                yield self._named(flagged, None, cell, where)
            return
        for slot, group in enumerate(schema.groups or (None,)):
            where = "" if group is None else f" where {schema.by} is {group}"
            for cell, reading in self.read(noisy, second, slot, level):
                yield self._named(reading, group, cell, where)

    def _named(
        self, reading: Reading, group: str | None, cell: str, where: str
    ) -> ReleasedEstimate:
        return estimated(
            reading,
            statistic=self.name,
            column=", ".join(self.schema.columns[k].name for k in self.columns) or None,
            group=group,
            cell=cell or None,
            description=self.describe(cell) + where,
            where=where,
        )

    def left(self, noisy: Noisy, slot: int) -> float:
        """The finite-population correction: of the stratum, where the slots are strata."""
        schema = self.schema
        if not schema.shares:
            return schema.unsampled(self.total(noisy))
        return schema.unsampled(float(noisy.sums[slot, 0]), schema.shares[slot])

    def total(self, noisy: Noisy) -> float:
        """The number of all records; of those that have a value, where no more is known.

        A public number counts the records with missing values, too: whether a value is missing is
        part of what was sampled.
        """
        if self.schema.public_size:
            return float(self.schema.n or 1)
        return max(float(noisy.sums[:, 0].sum()), 1.0)


def _outside_strata(schema: PublicSchema, noisy: Noisy | None) -> tuple[str, ...]:
    """What to say where clearly some records are in no stratum that has a share.

    Their number is released as that of any group: reading it costs nothing.
    """
    if noisy is None or len(schema.shares) == schema.slots:
        return ()
    found, error = float(noisy.sums[-1, 0]), math.sqrt(float(noisy.noise.own[0]))
    return (UNLISTED,) if found > CLEARLY * error else ()


def said(column: Column) -> str:
    """A column in words: what is clipped is called so."""
    if column.range is None:
        return column.name
    return f"{column.name} clipped to [{column.range.lower:g}, {column.range.upper:g}]"
