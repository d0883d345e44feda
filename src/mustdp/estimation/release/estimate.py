"""One estimate with its standard error and interval."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mustdp.estimation.bootstrap.inference import not_negative
from mustdp.estimation.bootstrap.query import CLEARLY as CLEARLY
from mustdp.estimation.bootstrap.query import IMPOSSIBLE, Spread
from mustdp.estimation.bootstrap.query import into as into
from mustdp.numerics.arrays import FloatArray

# Standard errors and intervals that account for sampling and noise, within what is possible.
#
# *Ratios.* Sums over noisy numbers of records are judged by Fieller's (1954) set: all r with (S - r
# N)^2 <= c^2 Var(S - r N). It stays honest where the noise of N is not small beside N: then it is
# everything that is possible. With a binomial variance inside, N r (1 - r), it is Wilson's (1927)
# interval, which respects 0 and 1.
#
# *Errors of errors.* A sampling variance that was itself released with noise has an error of known
# size. The precision of the whole gives degrees of freedom (Satterthwaite 1946); a variance below
# its own error is replaced by the mean of the normal law around it cut off at zero, which is
# larger. A sampling variance that comes from few clusters has the degrees of freedom of those,
# too; the known variance of the noise has none to lose, so that much noise brings the quantile
# back to the normal.
#
# *Beyond what is possible.* An estimate that the noise pushed out of what is possible is moved to
# the nearest end, and its interval is laid around that end: it holds all that it would hold around
# the estimate as it was, and does not shrink to a point. Where noise leaves nothing to be known,
# there is no estimate: value and standard error are NaN, the interval is all that is possible.


#: What an estimate says that rests on too few records for its noise.
FEW = "too few records for the noise: the interval is all that is possible"
#: And one whose standard error is mostly a guess.
ROUGH = "the noise hides the sampling variance: the standard error errs on the safe side"


@dataclass(frozen=True)
class Reading:
    """A value, its standard error and its interval."""

    value: float
    standard_error: float
    interval: tuple[float, float]
    noise_share: float = 0.0
    flags: tuple[str, ...] = ()
    #: Those of the t quantile behind the interval.
    degrees_of_freedom: float = math.inf

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return math.isfinite(self.value)


#: A variance of which one part is noise, and how precisely it is known.
Judged = Spread


def judged(sampling: float, error: float, noise: float, doubt: float = 0.0) -> Judged:
    """A sampling variance released with an error, beside a known variance of noise.

    ``doubt`` is the variance that the sampling variance has by itself, as it comes from few units:
    2 V^2 / f with f degrees of freedom, added up over strata.
    """
    noise_dominated = error > 0 and sampling < error
    used = not_negative(sampling, error) if noise_dominated else max(sampling, 0.0)
    # A hidden variance is replaced by a larger one: its error by the noise is no longer counted.
    unsure = math.sqrt(doubt) if noise_dominated else math.hypot(math.sqrt(doubt), error)
    freedom = 2.0 * ((used + noise) / unsure) ** 2 if unsure > 0 else math.inf
    return Judged(used, noise, freedom, noise_dominated)


def satterthwaite(variances: Iterable[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of independent (variance, degrees of freedom); none: endless."""
    pairs = list(variances)
    unsure = math.fsum(variance**2 / freedom for variance, freedom in pairs)
    total = math.fsum(variance for variance, _ in pairs)
    return total**2 / unsure if unsure > 0 else math.inf


def symmetric(
    value: float, own: Judged, level: float, possible: tuple[float, float] = (-math.inf, math.inf)
) -> Reading:
    """value +- quantile * error, cut to what is possible: for what is linear in the noise."""
    error = math.sqrt(own.variance)
    reach = own.quantile(level) * error
    inside = into(value, possible)
    ends = (into(inside - reach, possible), into(inside + reach, possible))
    flags = (ROUGH,) if own.noise_dominated else ()
    return Reading(inside, error, ends, own.noise_share, flags, own.degrees_of_freedom)


def symmetric_if_possible(
    value: float, own: Judged, level: float, possible: tuple[float, float]
) -> Reading:
    """As :func:`symmetric`, for what is curved: far outside, its error cannot be trusted either."""
    reach = own.quantile(level) * math.sqrt(own.variance)
    if not (possible[0] <= value + reach and value - reach <= possible[1]):
        return everything(possible, IMPOSSIBLE, own.noise_share)
    return symmetric(value, own, level, possible)


def everything(possible: tuple[float, float], flag: str = FEW, noise_share: float = 1.0) -> Reading:
    """What is left where noise says nothing: all that is possible, and no estimate."""
    return Reading(math.nan, math.nan, possible, noise_share, (flag,))


def ratio(
    top: float,
    bottom: float,
    *,
    variance: tuple[float, float, float],
    noise: FloatArray,
    freedom: Judged | None = None,
    level: float,
    possible: tuple[float, float],
) -> Reading:
    """Fieller's interval of top / bottom, or of the nearest ratio that is possible.

    ``noise`` is the covariance of (bottom, top). ``variance`` are the coefficients of 1, r and r^2
    in what sampling adds to Var(top - r bottom).
    """
    judge = freedom or Judged(0.0, 0.0)
    c2 = judge.quantile(level) ** 2
    ours = (float(noise[1, 1]), -2.0 * float(noise[0, 1]), float(noise[0, 0]))
    zero, one, two = (own + added for own, added in zip(ours, variance, strict=True))
    lead = bottom**2 - c2 * two
    clear = bottom > CLEARLY * math.sqrt(ours[2])
    if not (bottom > 0 and lead > 0 and clear):
        return everything(possible)
    value = into(top / bottom, possible)
    top = value * bottom
    middle, last = top * bottom + 0.5 * c2 * one, top**2 - c2 * zero
    spread = math.sqrt(max(middle**2 - lead * last, 0.0))
    ends = (into((middle - spread) / lead, possible), into((middle + spread) / lead, possible))
    whole = max(zero + one * value + two * value**2, 0.0)
    mine = max(ours[0] + ours[1] * value + ours[2] * value**2, 0.0)
    share = min(mine / whole, 1.0) if whole > 0 else 0.0
    flags = (ROUGH,) if judge.noise_dominated else ()
    interval = (min(ends[0], value), max(ends[1], value))
    error = math.sqrt(whole) / bottom
    return Reading(value, error, interval, share, flags, judge.degrees_of_freedom)


def moved(reading: Reading, shift: float, scale: float) -> Reading:
    """The same in other units: shift + scale * value, for a positive scale."""
    low, high = (shift + scale * end for end in reading.interval)
    return Reading(
        shift + scale * reading.value,
        scale * reading.standard_error,
        (low, high),
        reading.noise_share,
        reading.flags,
        reading.degrees_of_freedom,
    )


# One estimate with its standard error and its interval, and what its reader has to know.


@dataclass(frozen=True)
class ReleasedEstimate:
    """One number of a release.

    ``column`` names the column or columns, ``group`` the group, ``cell`` the cell of a table or the
    term of a regression; each is None where there is none. ``description`` says what was estimated.

    Attributes
    ----------
    statistic : str
        The statistic, such as "mean".
    column : str or None
        The column or columns; None where there is none.
    group : str or None
        The group; None where there are none.
    cell : str or None
        The cell of a table, or the term of a regression; None where there is none.
    value : float
        The estimate; NaN where noise leaves nothing to be known, which ``flags`` say.
    standard_error : float
        Of sampling and noise together; NaN or infinite where it is not known.
    interval : (float, float)
        The interval for sampling and noise together, at the release's level.
    noise_share : float
        Which share of the variance is that of the noise.
    description : str
        What was estimated, in words.
    flags : tuple of str
        What a reader has to know.
    where : str
        The end of the description that says which group or strata are meant; empty for none.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> ages = np.random.default_rng(0).uniform(20, 80, 1000)
    >>> result = md.private_release(ages, "mean", lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> [mean] = result.estimates
    >>> mean.statistic, 0.0 < mean.noise_share < 1.0
    ('mean', True)
    >>> bool(mean.interval[0] < mean.value < mean.interval[1])
    True
    """

    statistic: str
    column: str | None
    group: str | None
    cell: str | None
    value: float
    standard_error: float
    interval: tuple[float, float]
    noise_share: float
    description: str
    flags: tuple[str, ...] = ()
    where: str = ""

    @property
    def known(self) -> bool:
        """Whether there is an estimate; else ``value`` is NaN and is written as NA."""
        return math.isfinite(self.value)

    @property
    def label(self) -> str:
        """A name among the estimates of one release."""
        named = f"{self.statistic} {self.column}" if self.column else self.statistic
        named = f"{named}: {self.cell}" if self.cell else named
        return f"{named} ({self.group})" if self.group is not None else named

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.interval[1] - self.interval[0]

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON; what is not known is None.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        return {
            "statistic": self.statistic,
            "column": self.column,
            "group": self.group,
            "cell": self.cell,
            "estimate": self.value if self.known else None,
            "standard_error": self.standard_error if math.isfinite(self.standard_error) else None,
            "interval": [end if math.isfinite(end) else None for end in self.interval],
            "noise_share": self.noise_share,
            "description": self.description,
            "flags": list(self.flags),
        }


def estimated(
    reading: Reading,
    *,
    statistic: str,
    column: str | None,
    group: str | None,
    cell: str | None = None,
    description: str,
    where: str = "",
) -> ReleasedEstimate:
    """A reading with its names."""
    return ReleasedEstimate(
        statistic,
        column,
        group,
        cell,
        reading.value,
        reading.standard_error,
        reading.interval,
        reading.noise_share,
        description,
        reading.flags,
        where,
    )
