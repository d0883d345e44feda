"""What is public before any record is read: the columns' ranges and the size of the subsets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics import checks
from mustdp.numerics.arrays import IntArray

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
