"""What is public before any record is read: the columns' ranges and the size of the subsets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics import checks
from mustdp.resampling.statistics.query import Statistic

#: Widths of ranges whose squares, and those divided by any size, are numbers of full precision.
_NARROWEST, _WIDEST = 1e-100, 1e100


@dataclass(frozen=True)
class Range:
    """The interval ``[lower, upper]`` that a column is clipped to."""

    lower: float
    upper: float

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


def column_ranges(
    statistic: Statistic, lower: Sequence[float], upper: Sequence[float]
) -> tuple[Range, ...]:
    """The ranges of the columns, after the statistic has accepted their number."""
    lows, highs = checks.reals("lower", lower), checks.reals("upper", upper)
    if lows.size != highs.size:
        raise InvalidParameter(
            f"upper must have one entry for each of the {lows.size} entries of lower, "
            f"got {highs.size}"
        )
    statistic.check_columns(lows.size)
    found = tuple(Range(float(low), float(high)) for low, high in zip(lows, highs, strict=True))
    for one in found:
        if not one.lower < one.upper:
            raise InvalidParameter(
                f"lower must be below upper in every column, got lower={one.lower!r} "
                f"and upper={one.upper!r}"
            )
        if not (_NARROWEST <= one.width <= _WIDEST and one.lower < one.mid < one.upper):
            raise InvalidParameter.refusing(
                "lower",
                f"and {{upper}} must be apart by {_NARROWEST:g} to {_WIDEST:g}, with numbers "
                "between them",
                f"lower={one.lower!r} and upper={one.upper!r}",
                mentions=("upper",),
            )
    return found


def whole_size(size: float, least: int = 1) -> int:
    """The size of fixed-size multisets, an integer of at least ``least``."""
    number = checks.real("size", size)
    allowed = f"size must be a whole number from {least} to {LARGEST_SIZE}"
    if not (number == math.floor(number) and least <= number <= LARGEST_SIZE):
        raise InvalidParameter(f"{allowed}, got {size!r}")
    return int(number)


def expected_size(size: float) -> float:
    """The expected size of Poisson subsets, a number above 0."""
    return checks.real("size", size, above=0.0, at_most=LARGEST_SIZE)
