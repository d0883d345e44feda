"""Proportions: averages of one bounded number per record."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.bootstrap.query import (
    IMPOSSIBLE,
    Averaged,
    Block,
    LinearQuery,
    Public,
    Query,
    Reading,
    Shape,
    Spread,
    Statistic,
    block,
    enlarged,
    everything,
    into,
)
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray

# Averages of one bounded number per record: what the mean and a proportion have in common.
#
# Every record has an *amount* a with ``|a - mid| <= half``; write y = a - mid.
#
# **Multisets of fixed size m.** The total is the sum of y, released is ``mid + total / m``.
# Swapping one entry changes one y, and two values of [-half, half] differ by at most 2 half. So
# the average moves by at most ``2 half / m``, which is attained, and the reach is ``half / m``
# (for a mean: (upper - lower) / (2m)).
#
# **Poisson subsets of expected size M.** The size is random and tells of the records, so sums are
# divided by the public M. Released are ``S = sum of y / M`` and ``N = size / M``. One copy adds (y,
# 1)/M: at most half/M to S and exactly 1/M to N. With shares w (``sharing.py``) the reaches are
# ``half / (M w_S)`` and ``1 / (M w_N)``, and ``mid + S/N`` is the estimate: a ratio, so that the
# chance variation of the size cancels. The noise in it has variance close to ``(z half / (M N))^2 *
# (1/w_S^2 + r^2/w_N^2)`` with r = S / (N half) in [-1, 1], which is smallest at w_S^2 : w_N^2 = 1 :
# |r|. Here it is 2 : 1, the best choice at |r| = 1/2 and never more than 1.5 times the best.


#: A noisy size below this share of the expected one is taken to be this share of it.
LEAST_SHARE = 0.25

_SUM_SHARE, _COUNT_SHARE = math.sqrt(2.0 / 3.0), math.sqrt(1.0 / 3.0)


class Amount(ABC):
    """One bounded number per record; frozen and picklable."""

    #: The middle of what the number can be, and half the length of it.
    mid: float
    half: float

    @abstractmethod
    def centred(self, values: FloatArray) -> FloatArray:
        """The number minus ``mid`` for every row of ``values``; at most ``half`` from zero."""


@dataclass(frozen=True)
class AverageQuery(LinearQuery):
    """The average amount; on Poisson subsets, the sum of the centred amounts and the size."""

    public: Public
    amount: Amount
    label: str
    blocks: tuple[Block, ...] = field(init=False)
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        size, half, mid = self.public.size, self.amount.half, self.amount.mid
        blocks: tuple[Block, ...] = (block(self.label, 1, half / size, size, mid),)
        if self.public.poisson:
            total = block(f"sum of {self.label}", 1, half / size, size)
            count = block("count", 1, 1.0 / size, size)
            blocks = (enlarged(total, _SUM_SHARE), enlarged(count, _COUNT_SHARE))
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "labels", (self.label,))

    def contributions(self, values: FloatArray) -> FloatArray:
        """The centred amounts and, on Poisson subsets, ones."""
        centred = self.amount.centred(values)
        if not self.public.poisson:
            return centred[:, None]
        return np.stack([centred, np.ones(len(centred))], axis=1)

    @property
    def possible(self) -> tuple[tuple[float, float], ...]:
        """The range of the amount."""
        return ((self.amount.mid - self.amount.half, self.amount.mid + self.amount.half),)

    def estimate(self, vectors: FloatArray) -> FloatArray:
        """The average; not forced into its range, so that averages of it stay unbiased.

        On Poisson subsets mid + sum / size, a noisy size below ``LEAST_SHARE`` taken to be that.
        """
        if not self.public.poisson:
            return np.array(vectors, dtype=np.float64)
        size = np.maximum(vectors[..., 1:], LEAST_SHARE)
        return np.asarray(self.amount.mid + vectors[..., :1] / size)


# The share of records whose value lies in a given set.


#: How the limits are written.
SIGNS = {"above": ">", "at_least": ">=", "below": "<", "at_most": "<=", "equal": "="}


@dataclass(frozen=True)
class Membership(Amount):
    """1 for values of the first column inside [low, high], else 0; ends as stated by the flags."""

    low: float
    high: float
    open_low: bool
    open_high: bool
    mid = 0.5
    half = 0.5

    def centred(self, values: FloatArray) -> FloatArray:
        """1/2 inside and -1/2 outside."""
        column = values[:, 0]
        inside = (column > self.low) if self.open_low else (column >= self.low)
        inside &= (column < self.high) if self.open_high else (column <= self.high)
        return np.asarray(inside - np.float64(0.5))


@dataclass(frozen=True)
class ShareQuery(AverageQuery):
    """A share p of the records; its sampling variance follows from p itself."""

    def known(self, at: Averaged, level: float) -> tuple[Reading | None, ...]:
        """Wilson's (1927) interval with noise: all p with (found - p)^2 <= c^2 (F p (1-p) + N).

        It respects 0 and 1, and does not shrink to a point at either of them.
        """
        value, noise = float(self.estimate(at.vector)[0]), float(at.noise[0])
        if self.public.poisson:  # p = 1/2 + sum / size
            size = max(float(at.vector[1]), LEAST_SHARE)
            noise = (noise + (value - 0.5) ** 2 * float(at.noise[1])) / size**2
        inside = into(value, (0.0, 1.0))
        spread = Spread(inside * (1.0 - inside) * at.factor, noise)
        low, high = _wilson(value, spread.quantile(level), at.factor, noise)
        if not (low <= 1.0 and high >= 0.0):
            return (everything((0.0, 1.0), spread, IMPOSSIBLE),)
        low, high = _wilson(inside, spread.quantile(level), at.factor, noise)
        ends = (min(into(low, (0.0, 1.0)), inside), max(into(high, (0.0, 1.0)), inside))
        return (Reading(inside, math.sqrt(spread.variance), ends, spread),)


def _wilson(found: float, quantile: float, factor: float, noise: float) -> tuple[float, float]:
    """The ends of Wilson's interval with noise; NaN where no share is possible."""
    wide = quantile**2
    lead, middle = 1.0 + wide * factor, found + 0.5 * wide * factor
    square = middle**2 - lead * (found**2 - wide * noise)
    root = math.sqrt(square) if square >= 0.0 else math.nan
    return (middle - root) / lead, (middle + root) / lead


@dataclass(frozen=True)
class Proportion(Statistic):
    """The share of records with a value in a set: between limits, or equal to a number.

    Reach (proof in ``average.py``, with an amount of 0 or 1, so half = 1/2): on multisets of m
    entries, swapping one entry moves the share by at most 1/m, so the reach is 1/(2m). On Poisson
    subsets of expected size M one copy adds at most 1/(2M) to the centred sum and 1/M to the
    size.

    The set is asked of the *clipped* values: a limit that every value within [lower, upper] lies on
    one side of is refused, and a value beyond an end of the range counts as being that end.

    Parameters
    ----------
    above : float, default=None
        The set begins above this; or give ``at_least``.
    below : float, default=None
        The set ends below this; or give ``at_most``.
    at_least : float, default=None
        The set begins at this, which is in it.
    at_most : float, default=None
        The set ends at this, which is in it.
    equal : float, default=None
        The only number in the set; given alone.
    columns : str, int or sequence, default=None
        The columns it reads, by name or position; None means all that are given.

    Examples
    --------
    >>> Proportion(above=50.0).query(Public([0.0], [100.0], 20)).blocks
    (Block(label='proportion', width=1, reach=0.025),)
    """

    above: float | None = None
    below: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    equal: float | None = None
    columns: tuple[str | int, ...] | None = None
    name = "proportion"

    def __post_init__(self) -> None:
        given = [limit for limit in SIGNS if getattr(self, limit) is not None]
        for limit in given:
            object.__setattr__(self, limit, checks.real(limit, getattr(self, limit)))
        lows = {"above", "at_least"} & set(given)
        highs = {"below", "at_most"} & set(given)
        if (
            not given
            or len(lows) > 1
            or len(highs) > 1
            or (self.equal is not None and lows | highs)
        ):
            raise InvalidParameter(
                "proportion must be given equal alone, or one of above and at_least, or one of "
                f"below and at_most, or one of each; got {', '.join(given) or 'none of them'}"
            )
        inside = self._membership()
        strict = inside.open_low or inside.open_high
        if not (inside.low < inside.high or (inside.low == inside.high and not strict)):
            raise InvalidParameter(
                f"limits of a proportion must leave some values between them, got {self!r}"
            )
        super().__post_init__()

    def shape(self, poisson: bool) -> Shape:
        """One half or minus one half, added up."""
        return Shape(in_a_ball=True, one_number=not poisson)

    def _on(self, public: Public) -> Query:
        (column,) = public.ranges
        for limit in SIGNS:
            value = getattr(self, limit)
            if value is not None and not column.lower <= value <= column.upper:
                raise InvalidParameter(
                    f"{limit} must lie within the range of the column, {column.lower!r} to "
                    f"{column.upper!r}, got {value!r}"
                )
        return ShareQuery(public, self._membership(), self.name)

    def described(self, label: str, columns: Sequence[str]) -> str:
        """The share of records, and the conditions."""
        given = (
            f"{SIGNS[limit]} {getattr(self, limit):g}"
            for limit in SIGNS
            if getattr(self, limit) is not None
        )
        return f"share of records with {columns[0]} {' and '.join(given)}"

    def _membership(self) -> Membership:
        if self.equal is not None:
            return Membership(self.equal, self.equal, False, False)
        low = self.above if self.above is not None else self.at_least
        high = self.below if self.below is not None else self.at_most
        return Membership(
            -np.inf if low is None else low,
            np.inf if high is None else high,
            self.above is not None,
            self.below is not None,
        )
