"""Private ranges: where the values of a column lie, found on a logarithmic public grid.

For heavy tails a range that is surely wide enough makes the noise of a mean or a sum useless.
The first step spends a share s of the budget on the numbers of records up to the points of a
grid that halves from both public ends towards 0 (or doubles from a positive lower end); the
second releases the statistics on the range that was found, with the rest. Either step is a
Gaussian release, and the second may depend on the first: with noise z / sqrt(s) and z / sqrt(1 -
s) both together are exactly one Gaussian release with noise z (Dong, Roth & Su 2022, arXiv
1905.02383v3, Theorem 3.2 and Corollary 3.3), which is charged before either.

*Which point.* A mean on [0, B] has noise in proportion to B, and clipping takes off the part of
the values above B. Both change alike where as many records are above B as the noise of a number
of records has standard deviations: the upper end is the first point with no more noisy records
above it, give or take two errors of that number; a lower end below 0 likewise. Statistics are
those of the clipped values, as with any range, and how many were clipped is released with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.intervals import Interval
from mustdp.estimation.schema import PublicSchema, Range
from mustdp.estimation.statistics.quantiles import QuantileCurve
from mustdp.estimation.statistics.statistic import SlotRelease, StatisticRequest

#: Points of the grid on either side of 0.
POINTS = 40
#: So many errors of a number of records do not count: noise alone seldom keeps a range wide.
_ERRORS = 2.0
#: The least part and the most of the budget that finding ranges may have.
LEAST_SHARE, MOST_SHARE = 0.01, 0.5


def grid_of(own: Range) -> tuple[float, ...]:
    """The points that ends of the range may be, rising; the public ends are not among them.

    >>> [x for x in grid_of(Range(0.0, 1024.0)) if x > 100]
    [128.0, 256.0, 512.0]
    """
    found: list[float] = []
    if own.upper > 0:
        above = (own.upper * 0.5**k for k in range(1, POINTS))
        found += [x for x in above if x > max(own.lower, 0.0)]
    if own.lower < 0:
        below = (own.lower * 0.5**k for k in range(1, POINTS))
        found += [x for x in below if x < min(own.upper, 0.0)]
    if own.lower < 0 < own.upper:
        found.append(0.0)
    return tuple(sorted(found))


def possible_ranges(own: Range) -> Iterator[Range]:
    """Ranges that may be found: all with one end where it was, and the narrowest of the others."""
    yield own
    for point in grid_of(own):
        if point > max(own.lower, 0.0):
            yield Range(max(own.lower, -point), point)
        elif point < min(own.upper, 0.0):
            yield Range(point, min(own.upper, -point))


@dataclass(frozen=True)
class RangeRequest(StatisticRequest):
    """The ends of a column; ``noise`` is how many records may be beyond either."""

    noise: float

    @property
    def name(self) -> str:
        """In results."""
        return "range"

    @cached_property
    def sums(self) -> QuantileCurve:
        """Running counts on the grid."""
        return QuantileCurve(
            self.schema, self.columns, grid_of(self.schema.columns[self.columns[0]].numeric)
        )

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """The lower and the upper end."""
        own = self.schema.columns[self.columns[0]].numeric
        grid, noisy = np.array(self.sums.grid), at.first
        running, records = noisy.sums[at.slot, 1:], float(noisy.sums[at.slot, 0])
        size = len(grid)
        lower, upper = own.lower, own.upper
        for k in range(size):
            one = np.eye(size)[k]
            if grid[k] > max(own.lower, 0.0) and upper == own.upper:
                error = math.sqrt(self.sums.noise_along(noisy, at.slot, -one, 1.0))
                if records - running[k] <= self.noise + _ERRORS * error:
                    upper = float(grid[k])
            if grid[k] < min(own.upper, 0.0):
                error = math.sqrt(self.sums.noise_along(noisy, at.slot, one, 0.0))
                if running[k] <= self.noise + _ERRORS * error:
                    lower = float(grid[k])
        for cell, end in (("lower", lower), ("upper", upper)):
            yield cell, Interval(end, 0.0, (end, end), 1.0)


def check_columns(columns: Sequence[str], schema: PublicSchema) -> tuple[int, ...]:
    """Where the columns are; each needs public ends for its range to be found between."""
    names = [one.name for one in schema.columns]
    for name in columns:
        if name not in names:
            raise InvalidParameter.refusing(
                "find_ranges", f"must name columns among {', '.join(names)}", repr(name)
            )
    if schema.largest_cluster is not None or schema.shares:
        raise InvalidParameter.refusing(
            "find_ranges", "must not be given with clusters or strata", repr(columns[0])
        )
    found = tuple(names.index(name) for name in dict.fromkeys(columns))
    for k in found:
        own = schema.columns[k].numeric
        if not len(grid_of(own)):
            raise InvalidParameter.refusing(
                "find_ranges", "must name columns whose range can be halved", repr(names[k])
            )
    return found


def with_ranges(schema: PublicSchema, found: dict[int, Range]) -> PublicSchema:
    """The schema with other ranges."""
    columns = tuple(
        replace(one, range=found[k]) if k in found else one for k, one in enumerate(schema.columns)
    )
    return replace(schema, columns=columns)


def plain_schema(schema: PublicSchema) -> PublicSchema:
    """The same records in one slot."""
    return replace(schema, groups=(), by=None, grouping=None)
