"""An estimate with its error and its interval, cut to what is possible.

The error has two parts: what the data and the resampling cause, and what the noise causes. The
precision with which the first is known gives degrees of freedom (Satterthwaite 1946), and the
interval takes the quantile of t. Where the noise hides the first, a limit that it stays below with
a chance of 95 % stands in its place, so that the error errs on the safe side.

*Rare values.* A variance S^2 of influences that are at most d in size is known from k records with
a variance of at most d^2 S^2 / k, as their fourth moment is at most d^2 S^2; yes and no attain it.
Where few records differ this is far more than the 2 S^4 / k of normal influences. If S^2 itself is
below that error, fewer than about one record in k differs as far as it may, and the limit is the
largest S^2 that does not exceed what was found by more than 1.645 such errors, as Wilson's (1927).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import stdtrit

from mustdp.errors import NumericalFailure

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
    drowned: bool = False

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
        return Spread(upper * factor, noise, drowned=True)
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
